//! A port: any [`Policy`] with packet memory, limits and the life of its queues.

use towpath_wire::Instant;

use super::contract::{
    Backlog, COUNT_LIMIT, ConfigError, PACKET_BYTES_LIMIT, PRIORITIES, Packet, PortConfig,
    QueueConfig, QueueId, Refused, Scheduler, within,
};
use super::fixed::cost_per_byte;
use super::store::{Kind, Queue, Table};

/// A discipline: the order in which packets leave.
///
/// [`Port`] has checked ids, sizes and limits before it calls, and keeps packets in its
/// [`Table`]; a policy stamps them, and chooses.
pub trait Policy: Sized {
    /// What it keeps per queue; with [`Default`] before the first `configure`.
    type State: Copy + Default;

    /// For a port with these limits, checked already.
    fn new(port: &PortConfig) -> Result<Self, ConfigError>;

    /// A queue is new (its state is the default) or changes. On error nothing may have changed.
    fn configure(
        &mut self,
        table: &mut Table<Self::State>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError>;

    /// An empty queue without children goes away.
    fn remove(&mut self, _table: &mut Table<Self::State>, _queue: u32) {}

    /// Classes below a queue.
    fn children(&self, _table: &Table<Self::State>, _queue: u32) -> u32 {
        0
    }

    /// Takes a packet, and puts it into the table.
    fn enqueue(&mut self, table: &mut Table<Self::State>, now: Instant, packet: &Packet);

    /// Takes the packet that waited since `since` behind the one that left last. A discipline whose
    /// order then is the one of full queues says so; the others have it arrive `now`.
    fn follow(
        &mut self,
        table: &mut Table<Self::State>,
        (_since, now): (Instant, Instant),
        packet: &Packet,
    ) {
        self.enqueue(table, now, packet);
    }

    /// Takes the packet to send out of the table.
    fn dequeue(&mut self, table: &mut Table<Self::State>, now: Instant) -> Option<Packet>;

    /// See [`Scheduler::next_ready`]; called only while something waits. A discipline that always
    /// has a packet to send when one waits leaves this as it is.
    fn next_ready(&self, _table: &Table<Self::State>) -> Instant {
        Instant::ZERO
    }
}

/// An egress under one discipline.
#[derive(Clone, Debug)]
pub struct Port<P: Policy> {
    policy: P,
    table: Table<P::State>,
    /// Latest `now`.
    now: Instant,
    /// Sum of the queues' limits in packets, at most the port's.
    promised: u64,
}

impl<P: Policy> Port<P> {
    /// An egress without queues. Reserves all packet memory.
    pub fn new(config: &PortConfig) -> Result<Self, ConfigError> {
        cost_per_byte(config.rate)?;
        let limit = u64::from(PACKET_BYTES_LIMIT);
        within("packet_bytes_max", u64::from(config.packet_bytes_max), 1, limit)?;
        within("queues_max", u64::from(config.queues_max), 1, u64::from(COUNT_LIMIT))?;
        within("packets_max", u64::from(config.packets_max), 1, u64::from(COUNT_LIMIT))?;
        let policy = P::new(config)?;
        Ok(Self { policy, table: Table::new(*config), now: Instant::ZERO, promised: 0 })
    }

    /// Both halves, for tests of a policy.
    #[cfg(test)]
    pub(super) fn parts(&mut self) -> (&mut P, &mut Table<P::State>) {
        (&mut self.policy, &mut self.table)
    }

    fn check(&self, config: &QueueConfig) -> Result<(), ConfigError> {
        let bytes_min = u64::from(self.table.port.packet_bytes_max);
        within("weight", u64::from(config.weight), 1, u64::from(u16::MAX))?;
        within("priority", u64::from(config.priority), 0, u64::from(PRIORITIES) - 1)?;
        within("queue packets_max", u64::from(config.packets_max), 1, u64::from(u32::MAX))?;
        within("bytes_max", u64::from(config.bytes_max), bytes_min, u64::from(u32::MAX))?;
        within("burst_bytes", config.burst.as_bytes(), 0, u64::from(u32::MAX))
    }

    fn kind(&self, queue: QueueId) -> Kind {
        self.table.kind(queue.0)
    }

    fn apply(&mut self, queue: QueueId, config: &QueueConfig) -> Result<(), ConfigError> {
        let limit = self.table.port.packets_max;
        let old = self.table.packets_max(queue.0);
        let requested = self.promised - u64::from(old) + u64::from(config.packets_max);
        if requested > u64::from(limit) {
            return Err(ConfigError::Memory { requested, limit });
        }
        self.policy.configure(&mut self.table, queue.0, config)?;
        self.promised = requested;
        self.table.set_limits(queue.0, config.packets_max, config.bytes_max);
        if self.kind(queue) == Kind::Absent {
            self.table.set_kind(queue.0, Kind::Leaf);
        }
        Ok(())
    }

    #[inline]
    fn takes(&self, packet: &Packet) -> bool {
        let sound = packet.bytes.wrapping_sub(1) < self.table.port.packet_bytes_max;
        self.table.queues.get(packet.queue.0 as usize).is_some_and(|Queue { fifo, .. }| {
            sound
                && fifo.packets < fifo.packets_max
                && fifo.bytes_max.saturating_sub(fifo.bytes) >= packet.bytes
        })
    }

    #[cold]
    fn refusal(&self, packet: &Packet) -> Refused {
        let queue = packet.queue;
        match self.kind(queue) {
            Kind::Absent => Refused::Unknown { queue },
            Kind::Interior => Refused::Interior { queue },
            Kind::Leaf => {
                let fifo = &self.table.queues[queue.0 as usize].fifo;
                let limit = self.table.port.packet_bytes_max;
                if packet.bytes == 0 || packet.bytes > limit {
                    Refused::Size { bytes: packet.bytes, limit }
                } else if fifo.packets >= fifo.packets_max {
                    Refused::Full { queue, limit: fifo.packets_max }
                } else {
                    Refused::FullBytes { queue, limit: fifo.bytes_max }
                }
            }
        }
    }
}

impl<P: Policy> Scheduler for Port<P> {
    fn add_queue(&mut self, queue: QueueId, config: &QueueConfig) -> Result<(), ConfigError> {
        let max = self.table.port.queues_max;
        within("queue id", u64::from(queue.0), 0, u64::from(max) - 1)?;
        if self.kind(queue) != Kind::Absent {
            return Err(ConfigError::Exists { queue });
        }
        self.check(config)?;
        self.table.reset(queue.0);
        self.apply(queue, config)
    }

    fn reconfigure(&mut self, queue: QueueId, config: &QueueConfig) -> Result<(), ConfigError> {
        if self.kind(queue) == Kind::Absent {
            return Err(ConfigError::Unknown { queue });
        }
        self.check(config)?;
        self.apply(queue, config)
    }

    fn remove_queue(&mut self, queue: QueueId) -> Result<(), ConfigError> {
        if self.kind(queue) == Kind::Absent {
            return Err(ConfigError::Unknown { queue });
        }
        let packets = self.table.queues[queue.0 as usize].fifo.packets;
        let children = self.policy.children(&self.table, queue.0);
        if packets > 0 || children > 0 {
            return Err(ConfigError::Busy { queue, packets, children });
        }
        self.policy.remove(&mut self.table, queue.0);
        self.promised -= u64::from(self.table.packets_max(queue.0));
        self.table.reset(queue.0);
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refused> {
        self.now = self.now.max(now);
        if self.takes(&packet) {
            self.policy.enqueue(&mut self.table, self.now, &packet);
            Ok(())
        } else {
            Err(self.refusal(&packet))
        }
    }

    fn follow(&mut self, since: Instant, packet: Packet) -> Result<(), Refused> {
        if self.takes(&packet) {
            self.policy.follow(&mut self.table, (since, self.now), &packet);
            Ok(())
        } else {
            Err(self.refusal(&packet))
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Instant) -> Option<Packet> {
        self.now = self.now.max(now);
        self.policy.dequeue(&mut self.table, self.now)
    }

    fn next_ready(&self) -> Option<Instant> {
        (self.table.packets > 0).then(|| self.policy.next_ready(&self.table))
    }

    fn backlog(&self) -> Backlog {
        self.table.backlog()
    }

    fn room(&self, queue: QueueId) -> Option<u32> {
        let fifo = &self.table.queues.get(queue.0 as usize)?.fifo;
        (self.kind(queue) == Kind::Leaf).then(|| fifo.packets_max.saturating_sub(fifo.packets))
    }

    fn queue_backlog(&self, queue: QueueId) -> Option<Backlog> {
        let fifo = &self.table.queues.get(queue.0 as usize)?.fifo;
        (self.kind(queue) != Kind::Absent)
            .then(|| Backlog { packets: fifo.packets, bytes: u64::from(fifo.bytes) })
    }
}
