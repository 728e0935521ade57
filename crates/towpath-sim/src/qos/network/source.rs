//! Where packets come from: well-behaved, random, recorded, and as bad as a specification allows.

use towpath_proto::Rng;
use towpath_qos::spec::{Regulator, TSpec};
use towpath_wire::{ByteSize, Instant};

/// Packet sizes on the wire, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(u32),
    /// Evenly between least and most.
    Between(u32, u32),
    /// The large and the small one in turn.
    Alternating(u32, u32),
}

/// When a greedy source wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Always.
    Open,
    /// On for a time, then off for a time: tokens saved while off go out as a burst.
    OnOff {
        /// Time on, ns.
        on: u64,
        /// Time off, ns.
        off: u64,
    },
    /// Times on and off drawn evenly up to these, anew each time.
    Random {
        /// Longest time on, ns.
        on: u64,
        /// Longest time off, ns.
        off: u64,
    },
}

/// When packets are made.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// As soon as the regulator lets it, while the gate is open.
    Greedy(Gate),
    /// Every `interval_ns`, each up to `jitter_ns` late.
    Periodic {
        /// The period.
        interval_ns: u64,
        /// Greatest lateness, drawn evenly.
        jitter_ns: u64,
    },
    /// Independent arrivals.
    Poisson {
        /// Mean time between two.
        mean_ns: u64,
    },
    /// Recorded times in ns and sizes in bytes, in order; once, or again and again.
    Trace {
        /// The record.
        items: Vec<(u64, u32)>,
        /// Length of one round, if it repeats.
        every_ns: Option<u64>,
    },
}

/// A pattern, sizes, and the regulator that it goes through.
#[derive(Clone, Debug)]
pub struct Source {
    /// When packets are made.
    pub pattern: Pattern,
    /// How large they are; a trace brings its own sizes.
    pub sizes: Sizes,
    /// What it may send; packets wait at the source until they conform.
    pub spec: Option<TSpec>,
    /// Nothing before this time, ns.
    pub start_ns: u64,
    /// Nothing from this time on, ns.
    pub stop_ns: u64,
    /// Packets at most.
    pub packets_max: u64,
}

impl Source {
    /// A source without end.
    pub fn new(pattern: Pattern, sizes: Sizes) -> Self {
        Self { pattern, sizes, spec: None, start_ns: 0, stop_ns: u64::MAX, packets_max: u64::MAX }
    }

    /// What is wrong with it: field, its value, what it must be.
    pub(super) fn fault(&self) -> Option<(&'static str, u64, &'static str)> {
        let (least, most) = match self.sizes {
            Sizes::Fixed(bytes) => (bytes, bytes),
            Sizes::Between(a, b) | Sizes::Alternating(a, b) => (a.min(b), a.max(b)),
        };
        let traced = matches!(self.pattern, Pattern::Trace { .. });
        if !traced && (least == 0 || most > 1 << 20) {
            return Some(("packet bytes", u64::from(least.min(most)), "1 to 1048576"));
        }
        match &self.pattern {
            Pattern::Periodic { interval_ns: 0, .. } => Some(("interval_ns", 0, "above 0")),
            Pattern::Poisson { mean_ns: 0 } => Some(("mean_ns", 0, "above 0")),
            Pattern::Trace { every_ns: Some(0), .. } => Some(("every_ns", 0, "above 0")),
            _ => None,
        }
    }

    /// Whether nothing in it ever makes it wait.
    pub(super) const fn unbounded(&self) -> bool {
        matches!(self.pattern, Pattern::Greedy(_)) && self.spec.is_none()
    }

    /// One that sends all that its specification allows, in packets of one size, from a time on.
    pub fn greedy(spec: TSpec, bytes: u32, start_ns: u64) -> Self {
        let mut source = Self::new(Pattern::Greedy(Gate::Open), Sizes::Fixed(bytes));
        source.spec = Some(spec);
        source.start_ns = start_ns;
        source
    }
}

/// A packet to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// When its source had it, ns.
    pub(super) born_ns: u64,
    /// When it conforms and is handed to the network, ns; not before `born_ns`.
    pub(super) release_ns: u64,
    pub(super) bytes: u32,
}

/// A source at work. Invariant: neither births nor releases go back in time.
#[derive(Debug)]
pub(super) struct Feed {
    source: Source,
    regulator: Option<Regulator>,
    rng: Rng,
    made: u64,
    /// Birth of the packet before, or the start.
    clock_ns: u64,
    released_ns: u64,
    /// The gate's state holds until then.
    gate_until_ns: u64,
    gate_open: bool,
}

impl Feed {
    pub(super) fn new(source: Source, rng: Rng) -> Self {
        let regulator = source.spec.as_ref().map(Regulator::new);
        let start = source.start_ns;
        Self {
            source,
            regulator,
            rng,
            made: 0,
            clock_ns: start,
            released_ns: start,
            gate_until_ns: start,
            gate_open: false,
        }
    }

    /// The next packet; `None` when there will be none. `now_ns`: a source that was held back
    /// goes on from here.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Planned> {
        if self.made >= self.source.packets_max {
            return None;
        }
        let (born_ns, bytes) = self.birth(now_ns)?;
        self.clock_ns = born_ns;
        let ready = born_ns.max(self.released_ns).max(now_ns);
        let release_ns = match &mut self.regulator {
            Some(regulator) => {
                let size = ByteSize::from_bytes(bytes.into());
                regulator.reserve(Instant::from_nanos(ready), size)?.as_nanos()
            }
            None => ready,
        };
        if release_ns >= self.source.stop_ns {
            return None;
        }
        self.released_ns = release_ns;
        self.made += 1;
        let greedy = matches!(self.source.pattern, Pattern::Greedy(_));
        let born_ns = if greedy { release_ns } else { born_ns };
        Some(Planned { born_ns, release_ns, bytes })
    }

    fn birth(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let first = self.made == 0;
        let born = match &self.source.pattern {
            Pattern::Greedy(gate) => {
                let gate = *gate;
                self.opening(gate, self.released_ns.max(now_ns))
            }
            Pattern::Periodic { interval_ns, jitter_ns } => {
                let late = if *jitter_ns == 0 { 0 } else { self.rng.below(jitter_ns + 1) };
                let due =
                    self.source.start_ns.saturating_add(interval_ns.saturating_mul(self.made));
                (due + late).max(self.clock_ns)
            }
            Pattern::Poisson { mean_ns } => {
                let mean_ns = *mean_ns;
                self.clock_ns.saturating_add(exponential(&mut self.rng, mean_ns))
            }
            Pattern::Trace { items, every_ns } => {
                let n = items.len() as u64;
                let (round, index) = (self.made.checked_div(n)?, self.made % n);
                if round > 0 && every_ns.is_none() {
                    return None;
                }
                let (at, bytes) = items[index as usize];
                let base = round.saturating_mul(every_ns.unwrap_or(0));
                let at = self.source.start_ns.saturating_add(base).saturating_add(at);
                return Some((at.max(self.clock_ns), bytes));
            }
        };
        let bytes = match self.source.sizes {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Between(a, b) => a + self.rng.below(u64::from(b.saturating_sub(a)) + 1) as u32,
            Sizes::Alternating(a, b) => {
                if self.made.is_multiple_of(2) {
                    a
                } else {
                    b
                }
            }
        };
        debug_assert!(!first || born >= self.source.start_ns);
        Some((born, bytes))
    }

    /// When a greedy source wants to send, at `at` or later.
    fn opening(&mut self, gate: Gate, at: u64) -> u64 {
        let (on, off, random) = match gate {
            Gate::Open => return at,
            Gate::OnOff { on, off } => (on, off, false),
            Gate::Random { on, off } => (on, off, true),
        };
        while self.gate_until_ns <= at {
            self.gate_open = !self.gate_open;
            let longest = if self.gate_open { on } else { off };
            let length = if random { self.rng.below(longest.saturating_add(1)) } else { longest };
            self.gate_until_ns = self.gate_until_ns.saturating_add(length.max(1));
        }
        if self.gate_open { at } else { self.gate_until_ns }
    }
}

/// ln 2 in 32-bit fixed point.
const LN_2: u128 = 2_977_044_472;

/// An exponentially distributed time with mean `mean_ns`: −ln(u)·mean, with the logarithm in
/// 32-bit fixed point by repeated squaring, so that it is the same on every machine.
fn exponential(rng: &mut Rng, mean_ns: u64) -> u64 {
    let u = rng.u64() | 1;
    let whole = u64::from(u.leading_zeros());
    let mut mantissa = (u << whole) >> 1;
    let mut fraction = 0u64;
    for _ in 0..32 {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 62;
        let carry = (square >> 63) as u64;
        mantissa = (square >> carry) as u64;
        fraction = fraction << 1 | carry;
    }
    // -log2(u / 2^64) = whole + 1 - fraction/2^32; times ln 2 in 32-bit fixed point.
    let log = ((u128::from(whole) + 1) << 32) - u128::from(fraction);
    ((log * LN_2) >> 32).saturating_mul(mean_ns.into()).checked_shr(32).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_qos::spec::SigmaRho;
    use towpath_wire::Rate;

    fn releases(source: Source, n: usize) -> Vec<u64> {
        let mut feed = Feed::new(source, Rng::new(5, 5));
        core::iter::from_fn(|| feed.next(0)).take(n).map(|p| p.release_ns).collect()
    }

    fn spec() -> TSpec {
        // 3000 B at once, then 1000 B a millisecond.
        let sigma = ByteSize::from_bytes(3000);
        TSpec::SigmaRho(SigmaRho::new(sigma, Rate::from_mbps(8)).expect("valid"))
    }

    #[test]
    fn a_greedy_source_sends_its_burst_and_then_its_rate() {
        let times = releases(Source::greedy(spec(), 1000, 7), 5);
        assert_eq!(times, [7, 7, 7, 1_000_007, 2_000_007]);
    }

    #[test]
    fn after_an_off_time_the_burst_comes_again() {
        let mut source = Source::greedy(spec(), 1000, 0);
        source.pattern = Pattern::Greedy(Gate::OnOff { on: 10, off: 9_999_990 });
        let times = releases(source, 9);
        assert_eq!(times[..6], [0, 0, 0, 1_000_000, 10_000_000, 10_000_000]);
        assert_eq!(times[6..], [10_000_000, 11_000_000, 20_000_000]);
    }

    #[test]
    fn a_regulator_delays_a_trace_and_births_stay() {
        let items = (0..5).map(|i| (i, 1000)).collect();
        let mut source = Source::new(Pattern::Trace { items, every_ns: None }, Sizes::Fixed(0));
        source.spec = Some(spec());
        let mut feed = Feed::new(source, Rng::new(5, 5));
        let all: Vec<Planned> = core::iter::from_fn(|| feed.next(0)).collect();
        let pairs: Vec<_> = all.iter().map(|p| (p.born_ns, p.release_ns)).collect();
        assert_eq!(pairs, [(0, 0), (1, 1), (2, 2), (3, 1_000_000), (4, 2_000_000)]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_memoryless_tail() {
        let mut rng = Rng::new(1, 1);
        let gaps: Vec<u64> = (0..100_000).map(|_| exponential(&mut rng, 1_000_000)).collect();
        let mean = gaps.iter().sum::<u64>() / 100_000;
        // Standard error 1/sqrt(100 000) = 0.32 %: four of them.
        assert!(mean.abs_diff(1_000_000) < 12_600, "{mean}");
        // P(gap > 2 means) = e^-2 = 13.53 %; standard deviation 108 of 100 000.
        let long = gaps.iter().filter(|g| **g > 2_000_000).count();
        assert!(long.abs_diff(13_534) < 450, "{long}");
    }

    #[test]
    fn a_periodic_source_keeps_its_period_whatever_its_jitter() {
        let pattern = Pattern::Periodic { interval_ns: 1000, jitter_ns: 300 };
        let times = releases(Source::new(pattern, Sizes::Fixed(100)), 50);
        for (i, t) in times.iter().enumerate() {
            assert!((i as u64 * 1000..=i as u64 * 1000 + 300).contains(t), "{i}: {t}");
        }
    }
}
