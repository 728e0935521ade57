//! An endpoint with its memory, its socket and its timer.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::{Config, Endpoint, Rng};
use towpath_wire::{ByteSize, Instant};

use crate::clock::Clock;
use crate::crypto::StandIn;
use crate::kernel::Handle;
use crate::memory::SimMemory;
use crate::network::Transit;

/// Message memory of a host.
const MEMORY: ByteSize = ByteSize::from_mib(2048);

pub(super) struct Host {
    pub(super) endpoint: Endpoint,
    pub(super) memory: SimMemory,
    /// What its endpoint takes for the time.
    pub(super) clock: Clock,
    pub(super) timer: Option<(Handle, Instant)>,
    /// It stands still before this.
    pub(super) stopped_until: Instant,
    /// It wakes up by about so much too late; draws by how much.
    pub(super) wake: Duration,
    pub(super) rng: Rng,
    /// It knows when a datagram arrived.
    pub(super) stamps: bool,
    /// What arrived meanwhile, and when.
    pub(super) socket: VecDeque<(Instant, Transit)>,
    pub(super) socket_dropped: u64,
    pub(super) sent: u64,
}

impl Host {
    pub(super) fn new(index: usize, seed: u64, config: Config, real: bool) -> Self {
        let rng = |stream: u64| Rng::new(seed, (index as u64) << 8 | stream | 1 << 40);
        Self {
            endpoint: Endpoint::new(config, Box::new(StandIn::new(rng(1))), rng(2)),
            memory: SimMemory::new(MEMORY, real),
            clock: Clock::new(0, 0),
            timer: None,
            stopped_until: Instant::ZERO,
            wake: Duration::ZERO,
            rng: rng(3),
            stamps: true,
            socket: VecDeque::new(),
            socket_dropped: 0,
            sent: 0,
        }
    }

    /// Sleeps, and is woken: returns when it runs, `None` if it is awake or will be woken anyway.
    pub(super) fn wakes(&mut self, now: Instant) -> Option<Instant> {
        if self.wake.is_zero() || self.stopped_until > now {
            return None;
        }
        let times = if self.rng.below(100) == 0 { 10 } else { 1 };
        let most = 2 * self.wake.as_nanos() as u64;
        self.stopped_until = now + Duration::from_nanos(1 + self.rng.below(most) * times);
        Some(self.stopped_until)
    }
}
