//! The client: a ring, a kernel that buffers, a decoder, and one processor for all of it.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use towpath_media::receive::{ReceiveConfig, Receiver, When};
use towpath_media::send::Feedback;
use towpath_wire::Instant;

use super::clip::{Clip, PACKET, frame_of};

/// What the client's processor takes for what, and what it has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSpec {
    /// Decoding and showing a frame, µs.
    pub frame_us: u64,
    /// Taking a datagram into the ring, µs.
    pub take_us: u64,
    /// Keeping (or dropping) a datagram in the kernel while the ring is full, µs.
    pub kernel_us: u64,
    /// Bytes of the ring.
    pub ring_bytes: usize,
    /// Bytes that the kernel keeps.
    pub kernel_bytes: usize,
    /// Bytes that wait before the first frame is decoded.
    pub start_bytes: usize,
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientCounters {
    /// Shown whole.
    pub shown: u64,
    /// Some of it was missing: known when the next one began.
    pub incomplete: u64,
    /// Whole, but a frame that it needs was not.
    pub spoiled: u64,
    /// Dropped by the kernel, whole.
    pub dropped: u64,
}

/// Invariant: what waits in the kernel came before anything that is still to come.
pub(super) struct Client {
    spec: ClientSpec,
    clip: Clip,
    receiver: Receiver,
    kernel: VecDeque<Vec<u8>>,
    kernel_len: usize,
    /// The kernel drops the frame that is arriving.
    dropping: bool,
    /// The frame that is being gathered: its number, and packets of it so far.
    gathering: Option<(u32, usize)>,
    /// When the decoder is done with its frame, and which it is if it is shown then.
    busy: Option<(Instant, Option<u32>)>,
    /// Processor time that was taken while the decoder waited.
    behind: Duration,
    /// The last group in which a needed frame was missing.
    spoiled: Option<u32>,
    pub(super) counters: ClientCounters,
}

impl Client {
    pub(super) fn new(spec: ClientSpec, clip: Clip, when: When) -> Self {
        let config = ReceiveConfig {
            capacity: spec.ring_bytes,
            start: spec.start_bytes,
            feedback: when,
            ..ReceiveConfig::default()
        };
        Self {
            spec,
            clip,
            receiver: Receiver::new(config),
            kernel: VecDeque::new(),
            kernel_len: 0,
            dropping: false,
            gathering: None,
            busy: None,
            behind: Duration::ZERO,
            spoiled: None,
            counters: ClientCounters::default(),
        }
    }

    /// The processor is taken from the decoder.
    fn cost(&mut self, us: u64) {
        let us = Duration::from_micros(us);
        match &mut self.busy {
            Some((done, _)) => *done += us,
            None => self.behind += us,
        }
    }

    pub(super) fn arrive(&mut self, now: Instant, datagram: Vec<u8>) {
        if self.kernel.is_empty() && self.receiver.room() >= datagram.len() {
            self.dropping = false;
            self.cost(self.spec.take_us);
            self.receiver.handle_datagram(now, &datagram);
        } else {
            self.cost(self.spec.kernel_us);
            self.receiver.press(now);
            // A frame is one send in the source: it is kept or dropped as a whole.
            if let Some(frame) = frame_of(&datagram) {
                let bytes = self.clip.packets_of(frame) * PACKET;
                self.dropping = self.kernel_len + bytes > self.spec.kernel_bytes;
                self.counters.dropped += u64::from(self.dropping);
            }
            if !self.dropping {
                self.kernel_len += datagram.len();
                self.kernel.push_back(datagram);
            }
        }
        self.work(now);
    }

    /// Goes on with decoding.
    pub(super) fn work(&mut self, now: Instant) {
        if let Some((done, shown)) = self.busy {
            if done > now {
                return;
            }
            self.busy = None;
            self.counters.shown += u64::from(shown.is_some());
        }
        let mut packet = [0; PACKET];
        while self.busy.is_none() && self.receiver.take(now, &mut packet) > 0 {
            if let Some(next) = frame_of(&packet) {
                if let Some((frame, packets)) = self.gathering.replace((next, 1)) {
                    self.decode(now, frame, packets, next);
                }
            } else if let Some((_, packets)) = &mut self.gathering {
                *packets += 1;
            }
        }
        self.fill(now);
    }

    /// From the kernel into the ring, as there is room.
    fn fill(&mut self, now: Instant) {
        while self.kernel.front().is_some_and(|d| d.len() <= self.receiver.room()) {
            let Some(datagram) = self.kernel.pop_front() else { return };
            self.kernel_len -= datagram.len();
            self.cost(self.spec.take_us);
            self.receiver.handle_datagram(now, &datagram);
        }
    }

    /// A frame is gathered, as far as it came; `next` is the one that begins.
    fn decode(&mut self, now: Instant, frame: u32, packets: usize, next: u32) {
        let group = |frame: u32| frame / self.clip.packets.len() as u32;
        let needed = |frame: u32| self.clip.needed[frame as usize % self.clip.needed.len()];
        let whole = packets == self.clip.packets_of(frame);
        let spoils = self.spoiled == Some(group(frame));
        if !whole && needed(frame) {
            self.spoiled = Some(group(frame));
        }
        // Frames of which nothing came.
        if let Some(missing) = (frame + 1..next).rev().find(|missing| needed(*missing)) {
            self.spoiled = Some(group(missing));
        }
        self.counters.incomplete += u64::from(!whole);
        self.counters.spoiled += u64::from(whole && spoils);
        let share = packets as u64 * self.spec.frame_us / self.clip.packets_of(frame) as u64;
        let done = now + Duration::from_micros(share) + std::mem::take(&mut self.behind);
        self.busy = Some((done, (whole && !spoils).then_some(frame)));
    }

    /// When the decoder is done.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.busy.map(|(done, _)| done)
    }

    pub(super) fn look(&mut self, now: Instant) -> Option<Feedback> {
        self.receiver.look(now);
        self.receiver.poll_feedback()
    }

    pub(super) fn level(&self) -> usize {
        self.receiver.level()
    }
}
