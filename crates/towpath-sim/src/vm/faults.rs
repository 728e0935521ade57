//! What goes wrong with hosts.

use std::ops::Range;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

use super::restarts::{How, Restart};
use super::scenario::VmScenario;
use crate::link::LinkSpec;
use crate::scenario::between;
use crate::world::World;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A host is gone for good.
    Crash { host: usize },
    /// It is gone, and starts again.
    Restart(Restart),
    /// It stands still.
    Pause { host: usize, ms: u64 },
    /// Nothing goes in or out.
    Cut { host: usize, ms: u64 },
    /// Half of everything is lost.
    Burst { host: usize, ms: u64 },
    /// Some hosts reach each other, but nobody else.
    Part { first: usize, count: usize, ms: u64 },
    /// One host does not reach another, nor that one it where it is so `both` ways, while all
    /// others do.
    Apart { from: usize, to: usize, both: bool, ms: u64 },
    /// One of several networks is gone: no host's link to it has a carrier.
    Switch { fabric: u8, ms: u64 },
    /// Its clock jumps ahead, by 100 minutes at worst.
    Step { host: usize, ms: u64 },
}

impl Fault {
    /// Those of a run on so many hosts.
    pub(super) fn draw_all(
        scenario: &VmScenario,
        hosts: usize,
        rng: &mut Rng,
        more: &mut Rng,
    ) -> Vec<Self> {
        let draw = |_| Self::draw(rng, hosts, scenario.voters > 1);
        let mut faults: Vec<_> = (0..scenario.faults).map(draw).collect();
        // One at most is of a network: two at once would cut everybody off.
        if let Some(first) = faults.first_mut() {
            *first = first.place(more, scenario.links);
        }
        let shared = scenario.voters > 1;
        let hows = [
            (How::Crash, scenario.restarts),
            (How::PowerCut, scenario.power_cuts),
            (How::Told, scenario.endings),
        ];
        let hows = hows.into_iter().flat_map(|(how, times)| std::iter::repeat_n(how, times));
        faults.extend(hows.map(|how| Self::Restart(Restart::draw(more, hosts, (how, shared)))));
        let first = u64::from(!shared);
        faults.extend((0..scenario.aparts).map(|_| Self::draw_apart(more, first..hosts as u64)));
        faults
    }

    /// Two of these hosts, of which none leads alone.
    fn draw_apart(rng: &mut Rng, hosts: Range<u64>) -> Self {
        let many = hosts.end - hosts.start;
        let (from, on) = (rng.below(many), 1 + rng.below((many - 1).max(1)));
        let (from, to) = (hosts.start + from, hosts.start + (from + on) % many);
        let (both, ms) = (rng.below(2) == 0, between(rng, 2500, 25_000));
        Self::Apart { from: from as usize, to: to as usize, both, ms }
    }

    fn draw(rng: &mut Rng, hosts: usize, shared: bool) -> Self {
        // Where it alone leads, the founder is away at times, but it stays: without it nothing
        // changes any more.
        let first = u64::from(!shared);
        let host = (first + rng.below(hosts as u64 - first)) as usize;
        let founder = if shared { host } else { 0 };
        let long = rng.below(3) == 0;
        let ms = if long { between(rng, 2500, 6000) } else { between(rng, 50, 1500) };
        match rng.below(8) {
            0 => Self::Crash { host },
            1 => Self::Pause { host, ms },
            2 => Self::Cut { host, ms },
            3 => Self::Part { first: host, count: 1 + rng.below(4) as usize, ms },
            4 => Self::Step { host, ms: if long { 1000 * ms } else { ms } },
            5 => Self::Pause { host: founder, ms },
            6 => Self::Cut { host: founder, ms },
            _ => Self::Burst { host, ms },
        }
    }

    /// Where hosts stand on several networks: some faults are of one of these.
    fn place(self, rng: &mut Rng, networks: u8) -> Self {
        let (lost, fabric, ms) =
            (rng.below(2) == 0, rng.below(networks.into()) as u8, between(rng, 50, 6000));
        if lost && networks > 1 { Self::Switch { fabric, ms } } else { self }
    }

    /// How long it keeps hosts from answering; `None`: for good.
    pub(super) fn lasts(self) -> Option<Duration> {
        match self {
            Self::Crash { .. } | Self::Restart(_) => None,
            Self::Step { .. } => Some(Duration::ZERO),
            Self::Pause { ms, .. }
            | Self::Cut { ms, .. }
            | Self::Burst { ms, .. }
            | Self::Part { ms, .. }
            | Self::Apart { ms, .. }
            | Self::Switch { ms, .. } => Some(Duration::from_millis(ms)),
        }
    }

    /// The hosts, of `hosts`, that it keeps from answering the others.
    pub(super) fn strikes(self, hosts: usize, shared: bool) -> Range<usize> {
        match self {
            Self::Crash { host }
            | Self::Pause { host, .. }
            | Self::Cut { host, .. }
            | Self::Burst { host, .. } => host..host + 1,
            Self::Restart(restart) => restart.strikes(hosts),
            // On which side there is a leader then, nobody can say.
            Self::Part { .. } if shared => 0..hosts,
            Self::Part { first, count, .. } => first..hosts.min(first + count),
            // Nobody is silent for the loss of one of several networks, nor where others hear it.
            Self::Apart { .. } | Self::Switch { .. } | Self::Step { .. } => 0..0,
        }
    }

    /// Strikes; when it is to be healed, if the world does not do that.
    pub(super) fn strike(self, world: &mut World, link: LinkSpec) -> Option<Instant> {
        let until = |ms| world.now() + Duration::from_millis(ms);
        match self {
            Self::Crash { host } => {
                world.crash(host);
                None
            }
            Self::Pause { host, ms } => {
                let until = until(ms);
                world.pause(host, until);
                None
            }
            Self::Cut { host, ms } => {
                let until = until(ms);
                world.set_ray(host, LinkSpec { loss_ppm: 1_000_000, ..link });
                Some(until)
            }
            Self::Burst { host, ms } => {
                let until = until(ms);
                world.set_ray(host, LinkSpec { loss_ppm: 500_000, ..link });
                Some(until)
            }
            Self::Part { first, count, ms } => {
                let until = until(ms);
                let last = (first + count).min(world.hosts.len());
                (first..last).for_each(|host| world.apart.set_side(host, first));
                Some(until)
            }
            Self::Apart { from, to, both, ms } => {
                let until = until(ms);
                world.apart.part(from, to);
                if both {
                    world.apart.part(to, from);
                }
                Some(until)
            }
            Self::Switch { fabric, ms } => {
                let until = until(ms);
                (0..world.hosts.len()).for_each(|host| world.set_carrier(host, fabric, false));
                Some(until)
            }
            Self::Step { host, ms } => {
                world.step_clock(host, Duration::from_millis(ms));
                None
            }
            Self::Restart(Restart { ms, .. }) => Some(until(ms)),
        }
    }

    pub(super) fn heal(self, world: &mut World, link: LinkSpec) {
        match self {
            Self::Cut { host, .. } | Self::Burst { host, .. } => world.set_ray(host, link),
            Self::Part { first, count, .. } => {
                let last = (first + count).min(world.hosts.len());
                (first..last).for_each(|host| world.apart.set_side(host, 0));
            }
            Self::Apart { from, to, both, .. } => {
                world.apart.join(from, to);
                if both {
                    world.apart.join(to, from);
                }
            }
            Self::Switch { fabric, .. } => {
                (0..world.hosts.len()).for_each(|host| world.set_carrier(host, fabric, true));
            }
            Self::Crash { .. } | Self::Restart(_) | Self::Pause { .. } | Self::Step { .. } => {}
        }
    }
}
