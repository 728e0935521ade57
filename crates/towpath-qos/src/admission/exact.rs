//! Verdicts and least deadlines of an EDF port against every nanosecond of what its channels may
//! send.

use std::vec::Vec;

use proptest::prelude::*;

use super::load::Load;
use super::port::{PortState, Slot, SlotKind};
use crate::spec::limits::NANO;
use crate::spec::wire::Demand;
use crate::spec::{Bucket, Buckets, TSpec, TSpecForm};
use crate::topology::{Discipline, Topology};
use towpath_wire::ByteSize;

/// What a channel of a hop may send in a window, from its definition.
#[derive(Clone, Debug)]
enum Source {
    /// xmin, n, interval and bits: `averaged`, or `spaced` with n = 1.
    Packets(u64, u64, u64, u64),
    Buckets(Vec<(u64, u64)>),
}

impl Source {
    fn nanobits(&self, window: u64) -> u128 {
        let window = u128::from(window);
        match self {
            Self::Packets(xmin, n, interval, bits) => {
                let [xmin, n, interval, bits] = [xmin, n, interval, bits].map(|v| u128::from(*v));
                let rest = (window % interval / xmin + 1).min(n);
                bits * NANO * (window / interval * n + rest)
            }
            Self::Buckets(all) => {
                let line = |&(b, r): &(u64, u64)| u128::from(b) * NANO + u128::from(r) * window;
                all.iter().map(line).min().expect("one bucket at least")
            }
        }
    }

    fn load(&self) -> Load {
        let eight = ByteSize::from_bytes(8);
        Load::of(&match self {
            &Self::Packets(xmin_ns, n, interval_ns, bits) => {
                let smax_bytes = bits / 8;
                let form = if n == 1 {
                    TSpecForm::Spaced { xmin_ns, smax_bytes }
                } else {
                    let xave_ns = interval_ns / n;
                    TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes }
                };
                Demand::of_spec(&TSpec::try_from(form).expect("valid"), eight)
            }
            Self::Buckets(all) => {
                let bucket = |&(burst_bits, rate_bps): &(u64, u64)| Bucket { burst_bits, rate_bps };
                let all: Vec<Bucket> = all.iter().map(bucket).collect();
                Demand::of_wire(Buckets::least(&all), eight, eight)
            }
        })
    }
}

/// Rates around a bit per nanosecond, so that bends and jumps lie close.
fn any_source() -> impl Strategy<Value = Source> {
    let rate = 50_000_000u64..2_000_000_000;
    prop_oneof![
        3 => (8u64..90, 1u64..6).prop_map(|(x, s)| Source::Packets(x, 1, x, 8 * s)),
        3 => (3u64..30, 2u64..5, 0u64..60, 1u64..4).prop_map(|(x, n, more, s)| {
            Source::Packets(x, n, n * (x + more), 8 * s)
        }),
        2 => prop::collection::vec((1u64..80, rate.clone()), 3..7).prop_map(Source::Buckets),
        2 => ((1u64..60, rate.clone()), (1u64..99, rate.clone()))
            .prop_map(|(a, b)| Source::Buckets([a, b].into())),
        1 => (1u64..60, rate).prop_map(|a| Source::Buckets([a].into())),
    ]
}

fn port(rate_bps: u64, packet_bits: u64, kind: &str) -> PortState {
    let text = std::format!(
        "[[host]]\nname = \"a\"\nscheduler = \"{kind}\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nends = [\"a\", \"b\"]\nrate_bps = 1000000\n"
    );
    let topology = Topology::parse(&text).expect("valid");
    let mut port = topology.ports()[0].clone();
    (port.rate_bps, port.packet_bits, port.queue_bits) = (rate_bps, packet_bits, u64::MAX);
    if let Discipline::Fcfs(budget_ns) = &mut port.discipline {
        *budget_ns = 100;
    }
    PortState::new(&port)
}

type Kept = Vec<(Source, u64, u64)>;

/// Every nanosecond up to `until`: Σ A(t − d + J) + L ≤ C·t.
fn brute(kept: &[(Source, u64, u64)], (rate_bps, packet_bits): (u64, u64), until: u64) -> bool {
    let first = kept.iter().map(|k| k.1).min().unwrap_or(0);
    (first..until).all(|t| {
        let due = kept.iter().filter(|k| k.1 <= t).map(|(s, d, j)| s.nanobits(t - d + j));
        due.sum::<u128>() + u128::from(packet_bits) * NANO <= u128::from(rate_bps) * u128::from(t)
    })
}

fn slot(load: &Load, place: (u64, u8, [super::profile::Piece; 3])) -> Slot {
    Slot {
        port: 0,
        level: place.1,
        kind: SlotKind::Bounded,
        budget_ns: place.0,
        jitter_ns: load.early_ns,
        rate_bps: load.rate_bps(),
        memory_bits: 0,
        pieces: place.2,
    }
}

/// `until`: behind it nothing is short that was not before.
fn check(sources: &[(Source, u64, u64)], line: (u64, u64), until: u64) {
    let mut state = port(line.0, line.1, "edf");
    let (mut kept, mut slots) = (Kept::new(), Vec::new());
    for (source, jitter, budget) in sources {
        let load = source.load().after(*jitter);
        if load.rate_bps() > state.free_bps() {
            continue;
        }
        let with = |d: u64| {
            let mut all = kept.clone();
            all.push((source.clone(), d, *jitter));
            brute(&all, line, until)
        };
        let least = state.place_least(&load).map(|place| place.0).ok();
        let tried = (0..600).find(|&d| with(d));
        assert_eq!(least.filter(|&d| d < 600), tried, "{kept:?} {source:?} after {jitter}");
        let place = state.place(&load, *budget);
        assert_eq!(place.is_some(), with(*budget), "{kept:?} {source:?} at {budget}");
        // The least, or what was drawn.
        let place = if budget % 2 == 0 { state.place_least(&load).ok() } else { place };
        if let Some(place) = place.filter(|place| place.0 < 600) {
            let new = slot(&load, place);
            assert_eq!(state.place_again(&load, &new), Some(place));
            state.add(&new, &load);
            kept.push((source.clone(), place.0, *jitter));
            slots.push((new, load));
            assert!(state.holds_true());
        }
    }
    for (slot, load) in slots {
        state.remove(&slot, &load);
        assert!(state.holds_true());
    }
    assert_eq!(state, port(line.0, line.1, "edf"), "nothing is left behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// With a bit per nanosecond to spare, 2500 ns are enough: at most 7 channels are ahead of
    /// their rates by no more than 200 bits each.
    #[test]
    fn verdicts_and_least_deadlines_are_those_of_every_nanosecond(
        sources in prop::collection::vec((any_source(), 0u64..40, 1u64..300), 1..8),
        spare in 1_000_000_000u64..4_000_000_000,
        packet in 0u64..60,
    ) {
        let rates: u64 = sources.iter().map(|s| s.0.load().rate_bps()).sum();
        check(&sources, (rates + spare, packet), 2500);
    }

    /// Packets that take all of a link, or nearly: what is short repeats with their intervals.
    #[test]
    fn a_link_full_of_packets(
        packets in prop::collection::vec(
            (prop::sample::select(&[4u64, 5, 6, 8, 10, 12, 20][..]), 1u64..5, 1u64..80), 1..6,
        ),
        less in 0u64..2,
        packet in 0u64..20,
    ) {
        let source = |&(x, s, d): &(u64, u64, u64)| {
            (Source::Packets(x, 1, x, 8 * s), 0, d)
        };
        let sources: Vec<_> = packets.iter().map(source).collect();
        let rates: u64 = sources.iter().map(|s| s.0.load().rate_bps()).sum();
        // 120 ns is a common interval of all.
        check(&sources, (rates - less * (rates / 7), packet), 1400);
    }
}

/// FCFS is EDF with one deadline for all: 96 bits within 20 ns and 24 every 45 ns fill a budget of
/// 100 ns at a bit per ns, where the 10 bits that buckets would add have no room.
#[test]
fn a_budget_for_all_counts_packets() {
    let mut state = port(1_000_000_000, 0, "fcfs");
    for source in [Source::Packets(20, 2, 400, 48), Source::Packets(45, 1, 45, 24)] {
        let load = source.load();
        let place = state.place(&load, 100).expect("there is room");
        state.add(&slot(&load, place), &load);
    }
    assert!(state.holds_true());
    assert!(state.place(&Source::Buckets([(1, 1)].into()).load(), 100).is_none());
}
