//! An egress at work: its scheduler, the packet under way, and senders that a full queue blocks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use towpath_qos::scheduler::{Packet, QueueId, Refused, Scheduler};
use towpath_wire::Instant;

use super::spec::PortSpec;

/// Counts of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStats {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets that a full queue dropped.
    pub dropped: u64,
    /// Most packets waiting at once.
    pub backlog_packets_max: u32,
    /// Most bytes waiting at once.
    pub backlog_bytes_max: u64,
}

/// What a port does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Transmits this packet, until then.
    Send { packet: Packet, until_ns: u64 },
    /// Has nothing that may go before then.
    WakeAt(u64),
    /// Has nothing.
    Idle,
}

pub(super) struct Port {
    pub(super) name: String,
    pub(super) latency_ns: u64,
    rate_bps: u64,
    scheduler: Box<dyn Scheduler>,
    /// When the packet under way will be through: the exact end lies `early / rate` ns before.
    pub(super) free_at: u64,
    early: u64,
    /// A time at which it will be asked again.
    pub(super) wake_at: u64,
    /// It is on the list of ports to serve at this instant.
    pub(super) due: bool,
    /// Slab indices of packets whose senders are blocked, in order.
    blocked: VecDeque<(QueueId, u32)>,
    pub(super) stats: PortStats,
}

impl Port {
    pub(super) fn new(spec: PortSpec, scheduler: Box<dyn Scheduler>) -> Self {
        Self {
            name: spec.name,
            latency_ns: spec.latency_ns,
            rate_bps: spec.config.rate.as_bps(),
            scheduler,
            free_at: 0,
            early: 0,
            wake_at: u64::MAX,
            due: false,
            blocked: VecDeque::new(),
            stats: PortStats::default(),
        }
    }

    pub(super) fn scheduler(&mut self) -> &mut dyn Scheduler {
        &mut *self.scheduler
    }

    pub(super) fn waiting(&self) -> bool {
        self.scheduler.backlog().packets > 0
    }

    pub(super) fn enqueue(&mut self, now: u64, packet: Packet) -> Result<(), Refused> {
        self.scheduler.enqueue(Instant::from_nanos(now), packet)?;
        let backlog = self.scheduler.backlog();
        let s = &mut self.stats;
        s.backlog_packets_max = s.backlog_packets_max.max(backlog.packets);
        s.backlog_bytes_max = s.backlog_bytes_max.max(backlog.bytes);
        Ok(())
    }

    pub(super) fn block(&mut self, queue: QueueId, packet: u32) {
        self.blocked.push_back((queue, packet));
    }

    /// The longest blocked packet of a queue.
    pub(super) fn unblock(&mut self, queue: QueueId) -> Option<u32> {
        let i = self.blocked.iter().position(|(q, _)| *q == queue)?;
        self.blocked.remove(i).map(|(_, packet)| packet)
    }

    /// It did not fit after all.
    pub(super) fn block_again(&mut self, queue: QueueId, packet: u32) {
        self.blocked.push_front((queue, packet));
    }

    pub(super) fn is_blocking(&self, queue: QueueId) -> bool {
        self.blocked.iter().any(|(q, _)| *q == queue)
    }

    /// Chooses what to send at `now`, when the link is free.
    pub(super) fn choose(&mut self, now: u64) -> Next {
        let at = Instant::from_nanos(now);
        let Some(packet) = self.scheduler.dequeue(at) else {
            return match self.scheduler.next_ready() {
                Some(ready) => Next::WakeAt(ready.as_nanos().max(now + 1)),
                None => Next::Idle,
            };
        };
        // A packet that follows at once starts at the exact end of the one before.
        let early = if now == self.free_at { self.early } else { 0 };
        let work = u64::from(packet.bytes) * 8_000_000_000 - early;
        let took = work.div_ceil(self.rate_bps);
        self.early = took * self.rate_bps - work;
        self.free_at = now + took;
        self.stats.packets += 1;
        self.stats.bytes += u64::from(packet.bytes);
        Next::Send { packet, until_ns: self.free_at }
    }
}
