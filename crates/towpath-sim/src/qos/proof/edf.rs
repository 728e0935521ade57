//! Non-preemptive EDF at the edge: sets accepted and refused by a hair, against the source that
//! the proof of the test constructs.
//!
//! Where the test says that more is due by time t than the link can have sent, the adversary is
//! the proof's own (Liebeherr, Wrege and Ferrari 1996): the largest packet whose deadline lies
//! beyond t starts just before the others, every flow with a deadline up to t sends all it may
//! from then on, and nobody else sends.

use core::time::Duration;

use towpath_proto::Rng;
use towpath_qos::admission::edf::{Arrivals, Flow, Verdict, schedulable};
use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId};
use towpath_qos::spec::{Spaced, TSpec};
use towpath_wire::{ByteSize, Instant, Rate};

use crate::qos::network::{
    FlowSpec, Hop, HostSpec, Network, NetworkError, Pacing, PortSpec, Source,
};

/// One bit in the units of the test, where time is in ns and rates are in bit/s.
const BIT: u64 = 1_000_000_000;
/// The blocking packet starts this long before the others.
const HEAD_START_NS: u64 = 1;

/// A flow of packets of `bytes`, no two closer than `period_ns`, each due `deadline_ns` after it
/// arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// Least time between two packets.
    pub period_ns: u64,
    /// Packet size on the wire.
    pub bytes: u32,
    /// From arrival to the end of transmission.
    pub deadline_ns: u64,
}

/// A set of flows and its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Link rate.
    pub rate_bps: u64,
    /// The flows.
    pub flows: Vec<Periodic>,
}

/// What the adversary found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attack {
    /// Packets that arrived.
    pub packets: u64,
    /// Packets beyond their deadline.
    pub misses: u64,
    /// By how much the latest was late, ns.
    pub late_ns_max: u64,
}

impl Set {
    /// The exact test.
    pub fn verdict(&self) -> Verdict {
        let flows: Vec<Flow> = self
            .flows
            .iter()
            .map(|f| Flow {
                arrivals: Arrivals::Periodic {
                    period: f.period_ns,
                    size: u64::from(f.bytes) * 8 * BIT,
                },
                deadline: f.deadline_ns,
            })
            .collect();
        schedulable(&flows, self.rate_bps)
    }

    /// A random set of up to `flows_max` flows.
    pub fn draw(rng: &mut Rng, flows_max: u64) -> Self {
        let rate_bps = [10, 100, 1000][rng.below(3) as usize] * 1_000_000;
        let n = 2 + rng.below(flows_max.saturating_sub(1));
        let flow = |_| {
            let bytes = 64 + rng.below(1475) as u32;
            let transmit_ns = u64::from(bytes) * 8 * BIT / rate_bps;
            // About as many transmission times apart as there are flows: load near one half to one.
            let period_ns = transmit_ns * (n + rng.below(n)) + rng.below(1000);
            let deadline_ns = transmit_ns * (1 + rng.below(4 * n)) + rng.below(1000);
            Periodic { period_ns, bytes, deadline_ns }
        };
        Self { rate_bps, flows: (0..n).map(flow).collect() }
    }

    /// The set with all deadlines times `ppm` / 1 000 000.
    #[must_use]
    pub fn scaled(&self, ppm: u64) -> Self {
        let mut set = self.clone();
        for f in &mut set.flows {
            let scaled = u128::from(f.deadline_ns) * u128::from(ppm) / 1_000_000;
            f.deadline_ns = (scaled as u64).max(1);
        }
        set
    }

    /// Scales that lie next to each other, the one refused and the other accepted, found by
    /// bisection over deadlines from nothing to 64 times the set's own: the edge, to a millionth.
    pub fn edge(&self) -> Option<(u64, u64)> {
        let fine = |ppm| self.scaled(ppm).verdict() == Verdict::Schedulable;
        let (mut refused, mut accepted) = (0, 64_000_000);
        if !fine(accepted) {
            return None;
        }
        while accepted - refused > 1 {
            let middle = accepted.midpoint(refused);
            if fine(middle) {
                accepted = middle;
            } else {
                refused = middle;
            }
        }
        Some((refused, accepted))
    }

    /// The largest scale of `below` less a power of two at which the set is short by more than
    /// the adversary's head start of a nanosecond and the rounding of a packet's end to one; and
    /// when it is short.
    fn short_by_more_than_rounding(&self, below: u64) -> Option<(Self, u64)> {
        let hair = u128::from(self.rate_bps) * u128::from(HEAD_START_NS + 1);
        let scales = (0..24).map_while(|i| below.checked_sub((1 << i) - 1));
        scales.map(|ppm| self.scaled(ppm)).find_map(|set| match set.verdict() {
            Verdict::Misses { at, excess } if excess > hair => Some((set, at)),
            _ => None,
        })
    }

    /// Runs the adversary that aims at `aim_ns` through a real port under EDF until everything
    /// due by then, and everything behind it, has been sent.
    pub fn attack(&self, aim_ns: u64) -> Result<Attack, NetworkError> {
        let mut net = Network::new(1);
        let host = net.add_host("h", HostSpec::default())?;
        let largest = self.flows.iter().map(|f| f.bytes).max().unwrap_or(64);
        let count = self.flows.len() as u32;
        let config = PortConfig {
            rate: Rate::from_bps(self.rate_bps),
            packet_bytes_max: largest,
            queues_max: count,
            packets_max: 10_000 * count,
        };
        let name = "edf".into();
        let port =
            net.add_port(PortSpec { name, discipline: Discipline::Edf, config, latency_ns: 0 })?;
        let later = self.flows.iter().enumerate().filter(|(_, f)| f.deadline_ns > aim_ns);
        let blocker = later.max_by_key(|(_, f)| f.bytes).map(|(i, _)| i);
        let mut sent = Vec::new();
        for (i, f) in self.flows.iter().enumerate() {
            let blocks = blocker == Some(i);
            if !blocks && f.deadline_ns > aim_ns {
                continue;
            }
            let queue = QueueId(i as u32);
            let delay = Duration::from_nanos(f.deadline_ns);
            // Its own packets always conform: spaced by less than their period.
            let rate = Rate::from_bps(self.rate_bps);
            let burst = ByteSize::from_bytes(u64::from(largest) * 10);
            let packets_max = 10_000;
            let config = QueueConfig { delay, rate, burst, packets_max, ..QueueConfig::default() };
            net.add_queue(port, queue, &config)?;
            let Some(spec) = spaced(f) else { continue };
            let start_ns = if blocks { 0 } else { HEAD_START_NS };
            let mut source = Source::greedy(spec, f.bytes, start_ns);
            source.stop_ns = aim_ns + 1;
            if blocks {
                source.packets_max = 1;
            }
            sent.push(net.add_flow(FlowSpec {
                name: i.to_string(),
                from: host,
                to: host,
                hops: vec![Hop::new(port, queue)],
                source,
                pacing: Pacing::Open,
                shaper: None,
                bound_ns: Some(f.deadline_ns),
                series: (0, 0),
            })?);
        }
        net.run_until(Instant::from_nanos(aim_ns.saturating_mul(4).saturating_add(BIT)));
        let mut attack = Attack::default();
        for s in sent.iter().filter_map(|f| net.flow(*f)) {
            attack.packets += s.delivered;
            attack.misses += s.beyond;
            if let Some(miss) = s.first_miss {
                let late = s.delay.max() - miss.bound_ns;
                attack.late_ns_max = attack.late_ns_max.max(late);
            }
        }
        Ok(attack)
    }
}

fn spaced(f: &Periodic) -> Option<TSpec> {
    let smax = ByteSize::from_bytes(f.bytes.into());
    Spaced::new(Duration::from_nanos(f.period_ns), smax).ok().map(TSpec::Spaced)
}

/// What became of one set at its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hair {
    /// No such edge: the set is refused whatever its deadlines.
    Skipped,
    /// The accepted set met every deadline whatever the adversary aimed at, the refused one
    /// missed one.
    AsProven {
        /// Packets of the accepted set.
        packets: u64,
    },
    /// The test was wrong.
    Wrong {
        /// Deadlines missed by the set that was accepted.
        misses_accepted: u64,
        /// Deadlines missed by the set that was refused.
        misses_refused: u64,
    },
}

/// Draws a set by its seed, brings it to its edge, and attacks both sides of it.
pub fn hair(seed: u64) -> Result<Hair, NetworkError> {
    let set = Set::draw(&mut Rng::new(seed, 0xedf), 12);
    let Some((refused, accepted)) = set.edge() else { return Ok(Hair::Skipped) };
    let Some((refused, at)) = set.short_by_more_than_rounding(refused) else {
        return Ok(Hair::Skipped);
    };
    let missed = refused.attack(at)?;
    let accepted = set.scaled(accepted);
    let mut met = Attack::default();
    // Where the accepted set is tightest is not known: aim at every deadline.
    for aim in accepted.flows.iter().map(|f| f.deadline_ns).chain([at]) {
        let attack = accepted.attack(aim)?;
        met.packets += attack.packets;
        met.misses += attack.misses;
    }
    if met.misses == 0 && missed.misses > 0 {
        return Ok(Hair::AsProven { packets: met.packets });
    }
    Ok(Hair::Wrong { misses_accepted: met.misses, misses_refused: missed.misses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_computed_by_hand_is_at_its_edge() {
        // 1000 B take 80 µs at 100 Mbit/s. Due 80 + 80 (blocking) µs after arrival: just possible.
        let flow = |deadline_ns| Periodic { period_ns: 10_000_000, bytes: 1000, deadline_ns };
        let set = |first| Set { rate_bps: 100_000_000, flows: vec![flow(first), flow(500_000)] };
        assert_eq!(set(160_000).verdict(), Verdict::Schedulable);
        assert_eq!(set(160_000).attack(160_000).expect("runs").misses, 0);
        assert!(matches!(set(159_000).verdict(), Verdict::Misses { at: 159_000, .. }));
        let attack = set(159_000).attack(159_000).expect("runs");
        assert_eq!((attack.misses, attack.late_ns_max), (1, 999));
    }

    #[test]
    fn sets_refused_by_a_hair_miss_and_sets_accepted_by_a_hair_do_not() {
        let (mut proven, mut packets) = (0, 0);
        for seed in 0..300 {
            match hair(seed).expect("runs") {
                Hair::Skipped => {}
                Hair::AsProven { packets: n } => {
                    proven += 1;
                    packets += n;
                }
                wrong @ Hair::Wrong { .. } => {
                    panic!("{wrong:?}: replay with towpath_sim::qos::proof::edf::hair({seed})")
                }
            }
        }
        assert!(proven > 150, "only {proven} sets had an edge");
        assert!(packets > 10_000, "{packets}");
    }
}
