//! What befalls a datagram by chance.

use std::time::Duration;

use towpath_proto::Rng;

use super::LinkSpec;

/// The chances of a link, which remember whether it is in its bad state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    bad: bool,
}

/// What befalls one of the arrivals of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trip {
    /// Delay beyond the link's, in order.
    pub(crate) jitter: Duration,
    /// Delay beyond that, with which others overtake it.
    pub(crate) late: Option<Duration>,
    /// A bit to change, counted from the front.
    pub(crate) corrupt: Option<usize>,
}

impl Noise {
    /// Whether the next datagram is lost.
    pub(crate) fn loses(&mut self, spec: &LinkSpec, rng: &mut Rng) -> bool {
        if spec.burst_enter_ppm > 0 || self.bad {
            let turn = if self.bad { spec.burst_leave_ppm } else { spec.burst_enter_ppm };
            self.bad ^= rng.chance_ppm(turn);
            if self.bad && rng.chance_ppm(spec.burst_loss_ppm) {
                return true;
            }
        }
        rng.chance_ppm(spec.loss_ppm)
    }

    /// What befalls a datagram of `len` bytes that is not lost; the second is that of its double.
    pub(crate) fn trips(spec: &LinkSpec, rng: &mut Rng, len: usize) -> (Trip, Option<Trip>) {
        let first = Self::trip(spec, rng, len);
        let second = rng.chance_ppm(spec.duplicate_ppm).then(|| Self::trip(spec, rng, len));
        (first, second)
    }

    fn trip(spec: &LinkSpec, rng: &mut Rng, len: usize) -> Trip {
        let jitter = match spec.jitter_us {
            0 => Duration::ZERO,
            most => Duration::from_nanos(rng.below(most * 1000 + 1)),
        };
        let late = rng.chance_ppm(spec.reorder_ppm);
        let late = late.then(|| Duration::from_nanos(rng.below(spec.reorder_us * 1000)));
        let corrupt = rng.chance_ppm(spec.corrupt_ppm);
        let corrupt = corrupt.then(|| rng.below(8 * len as u64) as usize);
        Trip { jitter, late, corrupt }
    }
}
