//! Sources that keep their word and are as bad as that allows.

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;

use super::deploy::Channel;
use crate::qos::network::{Gate, Pattern, Sizes, Source};

/// How the sources of a run behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// All that is allowed from the same instant on, in largest packets.
    Aligned,
    /// The same from instants drawn at random.
    RandomPhases,
    /// Bursts that reach one port at the same instant, whatever they have passed before.
    Converging,
    /// Pauses until every bucket is full again, then all at once, again and again.
    Pulses,
    /// On and off at random, sizes at random.
    Restless,
    /// As `Aligned`, largest and smallest packet in turn.
    Alternating,
}

impl Plan {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Aligned,
        Self::RandomPhases,
        Self::Converging,
        Self::Pulses,
        Self::Restless,
        Self::Alternating,
    ];
}

/// A run's plan, when it is at its worst, and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attack {
    /// What the sources do.
    pub plan: Plan,
    /// The port at which `Converging` bursts meet.
    pub target: u32,
    /// Nothing is sent from this long after the beginning on.
    pub length_ns: u64,
}

/// Every plan is under way by then: later than the way to any port takes.
const MEET_NS: u64 = 2_000_000;

impl Attack {
    /// When aligned bursts start.
    pub const fn meet_ns(&self) -> u64 {
        MEET_NS
    }

    /// When sources stop.
    pub const fn stop_ns(&self) -> u64 {
        MEET_NS + self.length_ns
    }

    /// The source of channel number `index`.
    pub(super) fn source(&self, rng: &mut Rng, index: usize, channel: &Channel) -> Source {
        let (least, largest) = channel.wanted.packets;
        let spec = channel.wanted.spec.clone();
        let burst_ns = refill_ns(channel);
        let mut source = Source::greedy(spec, largest, MEET_NS);
        source.stop_ns = self.stop_ns();
        match self.plan {
            Plan::Aligned => {}
            Plan::Alternating => source.sizes = Sizes::Alternating(largest, least),
            Plan::RandomPhases => {
                source.start_ns = MEET_NS + rng.below(self.length_ns / 2 + 1);
            }
            Plan::Converging => {
                let way = way_ns(channel, self.target);
                source.start_ns = MEET_NS.saturating_sub(way);
            }
            Plan::Pulses => {
                // The same period for all: pulses stay together.
                let period = self.length_ns / 5 + 1;
                source.pattern =
                    Pattern::Greedy(Gate::OnOff { on: period / 4, off: period - period / 4 });
            }
            Plan::Restless => {
                source.sizes = Sizes::Between(least, largest);
                source.start_ns = MEET_NS + rng.below(burst_ns + 1);
                let gate = Gate::Random { on: 2 * burst_ns, off: 3 * burst_ns };
                // Every third keeps its burst together.
                if !index.is_multiple_of(3) {
                    source.pattern = Pattern::Greedy(gate);
                }
            }
        }
        source
    }
}

/// How long a bucket takes to fill.
fn refill_ns(channel: &Channel) -> u64 {
    let buckets = channel.wanted.request.demand.buckets;
    let slow = buckets.as_slice().iter().min_by_key(|b| b.rate_bps);
    slow.map_or(0, |b| {
        let ns = u128::from(b.burst_bits) * 1_000_000_000 / u128::from(b.rate_bps.max(1));
        ns.min(1_000_000_000) as u64
    })
}

/// Time to a port's queue over an empty network: what was fixed, and each transmission.
fn way_ns(channel: &Channel, target: u32) -> u64 {
    let bits = u64::from(channel.wanted.packets.1) * 8;
    let hops = channel.promise.hops.iter().take_while(|h| h.port_id != target);
    // A hop's least delay is a transmission; the promise knows it as delay less variation.
    hops.map(|h| h.fixed_ns + (bits * 1000).min(h.delay_ns)).sum()
}
