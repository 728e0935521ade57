//! Faults, drawn from the seed and struck while data is under way.

use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

use crate::link::LinkSpec;
use crate::scenario::between;
use crate::world::World;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Both directions between two hosts are cut.
    Cut { a: usize, b: usize, ms: u64 },
    /// One direction is cut.
    CutOneWay { a: usize, b: usize, ms: u64 },
    /// Everything from and to a host is cut.
    Isolate { host: usize, ms: u64 },
    /// Most datagrams between two hosts are lost.
    Burst { a: usize, b: usize, ms: u64, loss_ppm: u32 },
    /// A link's rate falls to a twentieth while its queue stays as long: what fills it waits.
    Bloat { from: usize, to: usize, ms: u64 },
    /// A host stands still.
    Pause { host: usize, ms: u64 },
    /// A host's clock jumps ahead.
    Step { host: usize, ms: u64 },
    /// A host is gone for good.
    Crash { host: usize },
    /// A host's link has no carrier, and the host is told.
    Unplug { host: usize, ms: u64 },
    /// A network is gone: no host's link to it has a carrier.
    Switch { ms: u64 },
}

/// On which network a fault strikes; `None`: on all.
pub(super) type On = Option<u8>;

impl Fault {
    pub(super) fn draw(rng: &mut Rng, hosts: usize) -> Self {
        let a = rng.below(hosts as u64) as usize;
        let b = (a + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
        let long = rng.below(4) == 0;
        let ms = if long { between(rng, 2_200, 4_000) } else { between(rng, 20, 1_200) };
        match rng.below(16) {
            0..=2 => Self::Cut { a, b, ms },
            3..=4 => Self::CutOneWay { a, b, ms },
            5 => Self::Isolate { host: a, ms },
            6..=8 => Self::Burst { a, b, ms, loss_ppm: between(rng, 200_000, 900_000) as u32 },
            9..=10 => Self::Pause { host: a, ms },
            11..=12 => Self::Bloat { from: a, to: b, ms },
            13..=14 => Self::Step { host: a, ms },
            // The founder alone can take hosts in, so it does not crash.
            _ => Self::Crash { host: a.max(1) },
        }
    }

    /// Where hosts stand on several networks: some faults are of one link, and most strike on one
    /// network only.
    pub(super) fn place(self, rng: &mut Rng, hosts: usize, networks: usize) -> (Self, On) {
        let ms = between(rng, 20, 4_000);
        let fault = match (rng.below(6), self.crashes()) {
            (0..=1, None) => Self::Unplug { host: rng.below(hosts as u64) as usize, ms },
            (2, None) => Self::Switch { ms },
            _ => self,
        };
        let on = rng.below(networks as u64) as u8;
        let one = matches!(fault, Self::Unplug { .. } | Self::Switch { .. }) || rng.below(3) > 0;
        (fault, one.then_some(on))
    }

    /// The host that crashes, if one does.
    pub(super) const fn crashes(self) -> Option<usize> {
        match self {
            Self::Crash { host } => Some(host),
            _ => None,
        }
    }

    /// For how long it may keep hosts from hearing each other.
    pub(super) fn lasts(self) -> Duration {
        match self {
            Self::Cut { ms, .. }
            | Self::CutOneWay { ms, .. }
            | Self::Isolate { ms, .. }
            | Self::Burst { ms, .. }
            | Self::Unplug { ms, .. }
            | Self::Switch { ms }
            | Self::Pause { ms, .. } => Duration::from_millis(ms),
            // What filled the queue before takes its time afterwards.
            Self::Bloat { ms, .. } => Duration::from_millis(ms + 2000),
            Self::Step { .. } | Self::Crash { .. } => Duration::ZERO,
        }
    }

    fn directions(self, hosts: usize) -> Vec<(usize, usize)> {
        match self {
            Self::Cut { a, b, .. } | Self::Burst { a, b, .. } => vec![(a, b), (b, a)],
            Self::CutOneWay { a, b, .. } => vec![(a, b)],
            Self::Bloat { from, to, .. } => vec![(from, to)],
            Self::Isolate { host, .. } => {
                (0..hosts).filter(|o| *o != host).flat_map(|o| [(host, o), (o, host)]).collect()
            }
            Self::Pause { .. }
            | Self::Step { .. }
            | Self::Crash { .. }
            | Self::Unplug { .. }
            | Self::Switch { .. } => Vec::new(),
        }
    }

    /// The hosts whose links lose their carrier.
    fn unplugged(self, hosts: usize) -> core::ops::Range<usize> {
        match self {
            Self::Unplug { host, .. } => host..host + 1,
            Self::Switch { .. } => 0..hosts,
            _ => 0..0,
        }
    }

    /// Strikes; returns when to call [`Fault::heal`].
    pub(super) fn strike(self, world: &mut World, on: On) -> Option<Instant> {
        let hosts = world.hosts.len();
        let now = world.now();
        let end = |ms| Some(now + Duration::from_millis(ms));
        for fabric in struck(world, on) {
            for (from, to) in self.directions(hosts) {
                let link = world.link_on(fabric, from, to);
                let spec = *link.spec();
                match self {
                    Self::Burst { loss_ppm, .. } => link.set_spec(LinkSpec { loss_ppm, ..spec }),
                    Self::Bloat { .. } => {
                        let rate_bps = (spec.rate_bps / 20).max(1_000_000);
                        link.set_spec(LinkSpec { rate_bps, ..spec });
                    }
                    _ => link.set_up(false),
                }
            }
            self.unplugged(hosts).for_each(|host| world.set_carrier(host, fabric, false));
        }
        match self {
            Self::Cut { ms, .. }
            | Self::CutOneWay { ms, .. }
            | Self::Isolate { ms, .. }
            | Self::Burst { ms, .. }
            | Self::Unplug { ms, .. }
            | Self::Switch { ms }
            | Self::Bloat { ms, .. } => end(ms),
            Self::Pause { host, ms } => {
                world.pause(host, now + Duration::from_millis(ms));
                None
            }
            Self::Step { host, ms } => {
                world.step_clock(host, Duration::from_millis(ms));
                None
            }
            Self::Crash { host } => {
                world.crash(host);
                None
            }
        }
    }

    /// Makes good what [`Fault::strike`] did. `specs` are by network, from and to. Overlapping
    /// faults on one link heal together with the first: what matters is that all of them have
    /// healed in the end.
    pub(super) fn heal(self, world: &mut World, on: On, specs: &[Vec<Vec<LinkSpec>>]) {
        let hosts = world.hosts.len();
        for fabric in struck(world, on) {
            for (from, to) in self.directions(hosts) {
                let link = world.link_on(fabric, from, to);
                link.set_up(true);
                link.set_spec(specs[usize::from(fabric)][from][to]);
            }
            self.unplugged(hosts).for_each(|host| world.set_carrier(host, fabric, true));
        }
    }
}

fn struck(world: &World, on: On) -> core::ops::Range<u8> {
    on.map_or(0..world.fabrics() as u8, |one| one..one + 1)
}
