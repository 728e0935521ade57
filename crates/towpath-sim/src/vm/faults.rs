//! What goes wrong with hosts.

use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

use crate::link::LinkSpec;
use crate::scenario::between;
use crate::world::World;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A host is gone for good.
    Crash { host: usize },
    /// It stands still.
    Pause { host: usize, ms: u64 },
    /// Nothing goes in or out.
    Cut { host: usize, ms: u64 },
    /// Half of everything is lost.
    Burst { host: usize, ms: u64 },
}

impl Fault {
    pub(super) fn draw(rng: &mut Rng, hosts: usize) -> Self {
        // The founder stays: without it nothing changes any more.
        let host = 1 + rng.below(hosts as u64 - 1) as usize;
        let long = rng.below(3) == 0;
        let ms = if long { between(rng, 2500, 6000) } else { between(rng, 50, 1500) };
        match rng.below(4) {
            0 => Self::Crash { host },
            1 => Self::Pause { host, ms },
            2 => Self::Cut { host, ms },
            _ => Self::Burst { host, ms },
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
        }
    }

    pub(super) fn heal(self, world: &mut World, link: LinkSpec) {
        if let Self::Cut { host, .. } | Self::Burst { host, .. } = self {
            world.set_ray(host, link);
        }
    }
}
