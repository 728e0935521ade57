//! Schedulers under any sequence of calls, and what the targets of admission share.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use arbitrary::Arbitrary;
use towpath_qos::scheduler::{
    ConfigError, Discipline, Packet, PortConfig, QueueConfig, QueueId, Refused, Scheduler, Service,
};
use towpath_wire::{ByteSize, Instant, Rate};

/// Schedulers of a topology's ports, by the number with which an input names them.
pub const SCHEDULERS: [&str; 10] = [
    "edf",
    "jitter_edf",
    "hfsc",
    "fcfs",
    "static_priority",
    "rcsp",
    "virtual_clock",
    "cbq",
    "drr",
    "scfq",
];

/// Largest packet of the port.
const LARGEST: u32 = 1538;
/// Ids a call names; the port allows one fewer.
const IDS: u8 = 9;
/// Packets in the port, few, so that limits are met.
const PACKETS: u32 = 200;
/// Operations looked at.
const OPERATIONS: usize = 400;

/// A queue's configuration.
#[derive(Arbitrary, Clone, Debug)]
pub struct Wanted {
    rate_bps: u32,
    weight: u8,
    priority: u8,
    burst_bytes: u16,
    delay_us: u32,
    packets_max: u8,
    first: Option<(u32, u16)>,
    parent: Option<u8>,
    ceiling_bps: Option<u32>,
    share_bps: Option<u32>,
    may_borrow: bool,
    service: u8,
}

impl Wanted {
    fn config(&self) -> QueueConfig {
        let rate = |bps: u32| Rate::from_bps(bps.into());
        QueueConfig {
            rate: rate(self.rate_bps),
            weight: self.weight.into(),
            priority: self.priority,
            burst: ByteSize::from_bytes(self.burst_bytes.into()),
            delay: Duration::from_micros(self.delay_us.into()),
            packets_max: self.packets_max.into(),
            bytes_max: LARGEST * (1 + u32::from(self.weight)),
            first: self.first.map(|(bps, us)| (rate(bps), Duration::from_micros(us.into()))),
            parent: self.parent.map(|id| QueueId((id % IDS).into())),
            share: self.share_bps.map(rate),
            ceiling: self.ceiling_bps.map(rate),
            may_borrow: self.may_borrow,
            service: match self.service % 3 {
                0 => Service::Deterministic,
                1 => Service::Statistical,
                _ => Service::BestEffort,
            },
        }
    }
}

/// A call of a port's driver.
#[derive(Arbitrary, Debug)]
pub enum Call {
    /// A new queue.
    Add(u8, Wanted),
    /// Another configuration of a queue.
    Change(u8, Wanted),
    /// A queue goes.
    Remove(u8),
    /// A packet of so many bytes, to be held for so long.
    Enqueue(u8, u16, i32),
    /// The link is free: a packet for it, which takes its time.
    Send,
    /// Time passes.
    Wait(u32),
}

/// What is known of a queue.
struct Known {
    config: QueueConfig,
    waiting: VecDeque<(u64, u32)>,
}

impl Known {
    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|(_, bytes)| u64::from(*bytes)).sum()
    }
}

/// A port beside a model that knows queues, but no order between them.
struct Port {
    discipline: Discipline,
    scheduler: Box<dyn Scheduler>,
    queues: BTreeMap<u32, Known>,
    link: Rate,
    now: Instant,
    tag: u64,
    /// Some queue has or had a rate never exceeded.
    limited: bool,
}

/// Makes the calls, checks every answer, and drains the port at the end.
///
/// # Panics
/// If a packet is lost, comes twice, out of its queue's order or changed, if counts disagree, if a
/// packet or a change is refused that should not be (or the other way round), if a port waits
/// where it promised to send, or does not run empty.
pub fn run(discipline: u8, link: u8, calls: &[Call]) {
    let discipline = Discipline::ALL[usize::from(discipline) % Discipline::ALL.len()];
    let link = Rate::from_bps([1_000_000, 1_000_000_000, 100_000_000_000][usize::from(link) % 3]);
    let config = PortConfig {
        rate: link,
        packet_bytes_max: LARGEST,
        queues_max: u32::from(IDS) - 1,
        packets_max: PACKETS,
    };
    let scheduler = discipline.build(&config).expect("port");
    let (queues, now) = (BTreeMap::new(), Instant::ZERO);
    let mut port = Port { discipline, scheduler, queues, link, now, tag: 0, limited: false };
    for call in calls.iter().take(OPERATIONS) {
        port.call(call);
        port.count();
    }
    port.drain();
}

impl Port {
    fn call(&mut self, call: &Call) {
        match call {
            Call::Add(id, wanted) => self.add(u32::from(id % IDS), &wanted.config()),
            Call::Change(id, wanted) => self.change(u32::from(id % IDS), &wanted.config()),
            Call::Remove(id) => self.remove(u32::from(id % IDS)),
            Call::Enqueue(id, bytes, hold) => {
                self.enqueue(u32::from(id % IDS), u32::from(*bytes) % (LARGEST + 2), *hold);
            }
            Call::Send => {
                self.send();
            }
            Call::Wait(ns) => self.now += Duration::from_nanos(u64::from(*ns) * 64),
        }
    }

    fn has_tree(&self) -> bool {
        use Discipline as D;
        matches!(self.discipline, D::CbqFormal | D::CbqAncestorsOnly | D::CbqTopLevel | D::Hfsc)
    }

    fn children(&self, id: u32) -> usize {
        let below = |queue: &&Known| queue.config.parent == Some(QueueId(id));
        if self.has_tree() { self.queues.values().filter(below).count() } else { 0 }
    }

    fn add(&mut self, id: u32, config: &QueueConfig) {
        let done = self.scheduler.add_queue(QueueId(id), config);
        self.limited |= config.ceiling.is_some();
        if self.queues.contains_key(&id) {
            assert_eq!(done, Err(ConfigError::Exists { queue: QueueId(id) }));
        } else if done.is_ok() {
            self.queues.insert(id, Known { config: *config, waiting: VecDeque::new() });
        }
    }

    fn change(&mut self, id: u32, config: &QueueConfig) {
        let done = self.scheduler.reconfigure(QueueId(id), config);
        self.limited |= config.ceiling.is_some();
        match self.queues.get_mut(&id) {
            Some(known) if done.is_ok() => known.config = *config,
            Some(_) => {}
            None => assert_eq!(done, Err(ConfigError::Unknown { queue: QueueId(id) })),
        }
    }

    fn remove(&mut self, id: u32) {
        let done = self.scheduler.remove_queue(QueueId(id));
        let queue = QueueId(id);
        let children = self.children(id) as u32;
        let expected = match self.queues.get(&id) {
            None => Err(ConfigError::Unknown { queue }),
            Some(known) if known.waiting.is_empty() && children == 0 => Ok(()),
            Some(known) => {
                let packets = known.waiting.len() as u32;
                Err(ConfigError::Busy { queue, packets, children })
            }
        };
        assert_eq!(done, expected);
        if done.is_ok() {
            self.queues.remove(&id);
        }
    }

    fn enqueue(&mut self, id: u32, bytes: u32, hold_ns: i32) {
        let queue = QueueId(id);
        let packet = Packet { slack_ns: hold_ns.into(), ..Packet::new(queue, bytes, self.tag) };
        let done = self.scheduler.enqueue(self.now, packet);
        let children = self.children(id);
        let expected = match self.queues.get_mut(&id) {
            None => Err(Refused::Unknown { queue }),
            Some(_) if children > 0 => Err(Refused::Interior { queue }),
            Some(_) if bytes == 0 || bytes > LARGEST => {
                Err(Refused::Size { bytes, limit: LARGEST })
            }
            Some(Known { config, waiting }) if waiting.len() as u32 >= config.packets_max => {
                Err(Refused::Full { queue, limit: config.packets_max })
            }
            Some(known) if known.bytes() + u64::from(bytes) > known.config.bytes_max.into() => {
                Err(Refused::FullBytes { queue, limit: known.config.bytes_max })
            }
            Some(known) => {
                known.waiting.push_back((self.tag, bytes));
                self.tag += 1;
                Ok(())
            }
        };
        assert_eq!(done, expected);
    }

    /// Whether there was a packet to send.
    fn send(&mut self) -> bool {
        let Some(packet) = self.scheduler.dequeue(self.now) else {
            let ready = self.scheduler.next_ready();
            assert!(ready.is_none_or(|ready| ready > self.now), "{ready:?} at {:?}", self.now);
            if self.discipline.facts().work_conserving && !self.limited {
                assert_eq!(ready, None, "{}: waits", self.discipline.facts().name);
            }
            return false;
        };
        let known = self.queues.get_mut(&packet.queue.0).expect("a queue that is there");
        assert_eq!(known.waiting.pop_front(), Some((packet.tag, packet.bytes)));
        let takes = self.link.time_for(ByteSize::from_bytes(packet.bytes.into()));
        self.now += takes.expect("a link has a rate");
        true
    }

    fn count(&self) {
        let (mut packets, mut bytes) = (0, 0);
        for id in 0..u32::from(IDS) {
            let backlog = self.scheduler.queue_backlog(QueueId(id));
            let Some(known) = self.queues.get(&id) else {
                assert_eq!(backlog, None);
                continue;
            };
            let backlog = backlog.expect("a queue that is there");
            let (of, waiting) = (known.bytes(), known.waiting.len() as u32);
            assert_eq!((backlog.packets, backlog.bytes), (waiting, of));
            let room = known.config.packets_max.saturating_sub(waiting);
            let is_leaf = self.children(id) == 0;
            assert_eq!(self.scheduler.room(QueueId(id)), is_leaf.then_some(room));
            (packets, bytes) = (packets + waiting, bytes + of);
        }
        let backlog = self.scheduler.backlog();
        assert_eq!((backlog.packets, backlog.bytes), (packets, bytes));
        assert_eq!(self.scheduler.next_ready().is_some(), packets > 0);
    }

    fn drain(&mut self) {
        // A hold beyond a calendar's window is looked at more than once.
        for _ in 0..100 * PACKETS {
            let Some(ready) = self.scheduler.next_ready() else { break };
            self.now = self.now.max(ready);
            self.send();
        }
        self.count();
        assert_eq!(self.scheduler.backlog().packets, 0, "{}", self.discipline.facts().name);
    }
}
