//! Messages cut into frames, over a shared medium or a switch's ports.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

use super::network::{JobNetwork, Medium};
use super::outcome::LinkOutcome;
use crate::link::Link;

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) key: u64,
    pub(super) bytes: u64,
}

/// What happens to frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameEvent {
    /// A host's interface has sent its frame, and may send the next.
    Free(usize),
    /// A frame of a message has come to the switch.
    AtSwitch { number: u32, len: u32 },
    /// A frame of a message has come to its host.
    Arrived(u32),
}

/// Frames of messages under way. Invariants: each interface has at most one frame that has not
/// left; a host's messages leave in order.
pub(super) struct Wire {
    medium: Medium,
    delay: Duration,
    frame_bytes_max: u64,
    /// One for all; or by host, to the switch, then by host, from there.
    links: Vec<Link>,
    counts: Vec<LinkOutcome>,
    interfaces: Vec<Interface>,
    /// By number: messages, and their bytes that have not arrived.
    under_way: Vec<(Message, Frames)>,
    free: Vec<u32>,
    /// Frames offered so far, each once.
    pub(super) frames: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frames {
    whole: u64,
    to_send: u64,
    to_switch: u64,
    to_arrive: u64,
}

#[derive(Default)]
struct Interface {
    waiting: VecDeque<u32>,
    is_busy: bool,
}

impl Wire {
    pub(super) fn new(network: &JobNetwork, hosts: usize) -> Self {
        let spec = network.link_spec();
        let names: Vec<String> = match network.kind {
            Medium::Shared => vec!["medium".into()],
            Medium::Switched => {
                let to = (0..hosts).map(|host| format!("{host} to switch"));
                to.chain((0..hosts).map(|host| format!("switch to {host}"))).collect()
            }
        };
        let link = |_: &String| Link::new(spec, Rng::new(0, 0));
        Self {
            medium: network.kind,
            delay: Duration::from_micros(spec.delay_us),
            frame_bytes_max: network.link.frame_bytes_max.into(),
            links: names.iter().map(link).collect(),
            counts: names.into_iter().map(LinkOutcome::named).collect(),
            interfaces: std::iter::repeat_with(Interface::default).take(hosts).collect(),
            under_way: Vec::new(),
            free: Vec::new(),
            frames: 0,
        }
    }

    /// Takes a message for another host over; `schedule` is told what happens when.
    pub(super) fn send(
        &mut self,
        now: Instant,
        message: Message,
        schedule: impl FnMut(Instant, FrameEvent),
    ) {
        // An empty message is a frame, too.
        let whole = message.bytes.div_ceil(self.frame_bytes_max).max(1);
        let frames = Frames { whole, to_send: whole, to_switch: whole, to_arrive: whole };
        let entry = (message, frames);
        let number = if let Some(number) = self.free.pop() {
            self.under_way[number as usize] = entry;
            number
        } else {
            self.under_way.push(entry);
            self.under_way.len() as u32 - 1
        };
        self.interfaces[message.from].waiting.push_back(number);
        if !self.interfaces[message.from].is_busy {
            self.offer(now, message.from, schedule);
        }
    }

    /// Something happened; gives a message whose last frame has arrived.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        event: FrameEvent,
        mut schedule: impl FnMut(Instant, FrameEvent),
    ) -> Option<Message> {
        match event {
            FrameEvent::Free(host) => {
                self.interfaces[host].is_busy = false;
                self.offer(now, host, schedule);
                None
            }
            FrameEvent::AtSwitch { number, len } => {
                let (message, frames) = &mut self.under_way[number as usize];
                let to = self.interfaces.len() + message.to;
                let is_first = frames.to_switch == frames.whole;
                frames.to_switch -= 1;
                let at = self.pass(now, to, len, is_first);
                schedule(at, FrameEvent::Arrived(number));
                None
            }
            FrameEvent::Arrived(number) => {
                let (message, frames) = &mut self.under_way[number as usize];
                frames.to_arrive -= 1;
                if frames.to_arrive > 0 {
                    return None;
                }
                self.free.push(number);
                Some(*message)
            }
        }
    }

    /// What passed each link. A medium's propagation does not keep it busy.
    pub(super) fn outcomes(self) -> Vec<LinkOutcome> {
        self.counts
    }

    /// The next frame of a host, if it has one.
    fn offer(&mut self, now: Instant, host: usize, mut schedule: impl FnMut(Instant, FrameEvent)) {
        let Some(&number) = self.interfaces[host].waiting.front() else { return };
        let (message, frames) = &mut self.under_way[number as usize];
        let is_first = frames.to_send == frames.whole;
        let before = (frames.whole - frames.to_send) * self.frame_bytes_max;
        let len = (message.bytes - before).min(self.frame_bytes_max) as u32;
        frames.to_send -= 1;
        if frames.to_send == 0 {
            self.interfaces[host].waiting.pop_front();
        }
        self.interfaces[host].is_busy = true;
        self.frames += 1;
        let link = if self.medium == Medium::Shared { 0 } else { host };
        let at = self.pass(now, link, len, is_first);
        let left = Instant::from_nanos(at.as_nanos() - self.delay.as_nanos() as u64);
        schedule(left, FrameEvent::Free(host));
        schedule(
            at,
            match self.medium {
                Medium::Shared => FrameEvent::Arrived(number),
                Medium::Switched => FrameEvent::AtSwitch { number, len },
            },
        );
    }

    /// When a frame comes out of a link.
    fn pass(&mut self, now: Instant, link: usize, len: u32, is_first: bool) -> Instant {
        let counts = &mut self.counts[link];
        counts.messages += u64::from(is_first);
        counts.frames += 1;
        counts.bytes += u64::from(len);
        let [arrival, _] = self.links[link].offer(now, len as usize, 0);
        let at = arrival.expect("a link that neither loses nor overflows").at;
        let size = u64::from(len) + self.links[link].spec().framing_bytes;
        let time = towpath_wire::Rate::from_bps(self.links[link].spec().rate_bps)
            .time_for(towpath_wire::ByteSize::from_bytes(size));
        counts.busy_ns += time.map_or(0, |time| time.as_nanos() as u64);
        at
    }
}
