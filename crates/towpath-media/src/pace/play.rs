//! A pacer, a network and a player in virtual time.

use super::{Action, Fault, Pace, Player};
use crate::trace::Trace;

/// A network that keeps order: each datagram takes `delay` ticks and up to `jitter` more, drawn
/// from `seed`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network {
    /// Least time on the way in ticks.
    pub delay: u64,
    /// Most that is added, in ticks.
    pub jitter: u64,
    /// Draws the jitter.
    pub seed: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first fault, if any; play stops there.
    pub fault: Option<Fault>,
    /// Most bytes in the player's buffer.
    pub most: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Tick at which the last byte arrived.
    pub finish: u64,
}

/// Sends a trace through a pacer and a network to a player, in virtual time. The player must
/// already wait as long as the network may take.
pub fn play(
    trace: &Trace,
    pacer: &mut dyn Pace,
    network: Network,
    mut player: Player<'_>,
) -> Outcome {
    let mut sizes = trace.times().iter().zip(trace.sums().windows(2));
    let mut arrival = 0;
    let mut now = 0;
    let mut datagrams = 0;
    let end = |player: &Player<'_>, fault, datagrams, finish| Outcome {
        fault,
        most: player.most(),
        datagrams,
        finish,
    };
    loop {
        match pacer.poll(now) {
            Action::Feed => match sizes.next() {
                Some((&time, pair)) => {
                    pacer.feed(time, pair[1] - pair[0]).expect("it asked for a group");
                }
                None => pacer.end(),
            },
            Action::Wait(tick) => now = tick,
            Action::Send { bytes, at } => {
                datagrams += 1;
                let late = scatter(network.seed, datagrams, network.jitter);
                arrival = arrival.max(at + network.delay + late);
                while let Some(due) = player.next_due()
                    && due < arrival
                {
                    if let Err(fault) = player.consume() {
                        return end(&player, Some(fault), datagrams, arrival);
                    }
                }
                if let Err(fault) = player.arrive(arrival, bytes) {
                    return end(&player, Some(fault), datagrams, arrival);
                }
            }
            Action::Done => break,
        }
    }
    while player.next_due().is_some() {
        if let Err(fault) = player.consume() {
            return end(&player, Some(fault), datagrams, arrival);
        }
    }
    end(&player, None, datagrams, arrival)
}

/// A number in `0 ..= most` from a seed and an index (`SplitMix64`'s finaliser).
fn scatter(seed: u64, index: u64, most: u64) -> u64 {
    if most == 0 {
        return 0;
    }
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % most.saturating_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::{Cbr, Follow, Pacer, Pcbr, Pdcbr, Policy, Window};
    use crate::plan::{Wish, plan};
    use crate::schedule::testing::any_trace;
    use crate::schedule::{Scheme, cbr, pcbr, pdcbr, window};
    use crate::trace::{ExactRate, PCR_HZ};
    use proptest::prelude::*;

    fn run(trace: &Trace, policy: impl Policy, datagram: u32, buffer: u64, delay: u64) -> Outcome {
        let mut pacer = Pacer::new(policy, datagram);
        play(trace, &mut pacer, Network::default(), Player::new(trace, buffer, delay))
    }

    fn less(rate: ExactRate) -> ExactRate {
        rate.scaled(999, 1000).expect("rate")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn online_is_as_planned(
            trace in any_trace(), delay in 1u64..40, datagram in 1u32..9, extra in 0u64..60,
            share in 1u32..20,
        ) {
            let rate = cbr::least_rate(&trace, delay).expect("rate");
            let policy = Cbr::new(rate).expect("rate");
            let buffer = cbr::buffer(&trace, rate, delay);
            prop_assert_eq!(run(&trace, policy, datagram, buffer, delay).fault, None);

            let rate = pcbr::least_rate(&trace, delay).expect("rate");
            let policy = Pcbr::new(rate).expect("rate");
            let buffer = pcbr::buffer(&trace, rate, delay);
            prop_assert_eq!(run(&trace, policy, datagram, buffer, delay).fault, None);
            let policy = Pcbr::new(less(rate)).expect("rate");
            let starved = run(&trace, policy, datagram, buffer, delay).fault;
            let is_starved = matches!(starved, Some(Fault::Starved { .. }));
            prop_assert!(is_starved, "{:?}", starved);

            let rates = pdcbr::DualRate::new(rate, share, 20).expect("rates");
            let wait = pdcbr::least_delay(&trace, rates).expect("delay");
            let buffer = pdcbr::buffer(&trace, rates, wait).expect("buffer");
            prop_assert_eq!(run(&trace, Pdcbr::new(rates), datagram, buffer, wait).fault, None);

            let buffer = trace.largest() + extra;
            let rate = window::least_rate(&trace, buffer, delay).expect("rate");
            let policy = Window::new(rate, buffer, delay, 64).expect("rate");
            prop_assert_eq!(run(&trace, policy, datagram, buffer, delay).fault, None);
            let policy = Window::new(less(rate), buffer, delay, 64).expect("rate");
            let starved = run(&trace, policy, datagram, buffer, delay).fault;
            let is_starved = matches!(starved, Some(Fault::Starved { .. }));
            prop_assert!(is_starved, "{:?}", starved);
        }

        #[test]
        fn every_schedule_can_be_followed(
            trace in any_trace(), delay in 1u64..40, datagram in 1u32..9, extra in 0u64..60,
        ) {
            for scheme in Scheme::ALL {
                let buffer = trace.largest() + extra;
                for wish in [Wish::Delay(delay), Wish::BufferDelay(buffer, delay)] {
                    let Ok(plan) = plan(&trace, scheme, wish) else { continue };
                    let schedule = plan.schedule(&trace).expect("schedule");
                    let played = run(&trace, Follow::new(&schedule), datagram, plan.buffer, delay);
                    prop_assert!(played.fault.is_none(), "{scheme} {played:?}");
                }
            }
        }

        #[test]
        fn jitter_costs_its_length_in_delay_and_its_bytes_in_buffer(
            trace in any_trace(), delay in 1u64..40, extra in 0u64..60, jitter in 0u64..5,
            seed: u64,
        ) {
            let buffer = trace.largest() + extra;
            let rate = window::least_rate(&trace, buffer, delay).expect("rate");
            let mut pacer = Pacer::new(Window::new(rate, buffer, delay, 64).expect("rate"), 4);
            let late = u128::from(rate.bytes()) * u128::from(jitter);
            let late = late.div_ceil(u128::from(rate.ticks()));
            let player = Player::new(&trace, buffer + late as u64, 7 + delay + jitter);
            let outcome = play(&trace, &mut pacer, Network { delay: 7, jitter, seed }, player);
            prop_assert_eq!(outcome.fault, None);
        }
    }

    #[test]
    fn a_full_ring_waits_and_counts() {
        let trace = Trace::from_groups((0..100).map(|n| (n * 10, 5)), PCR_HZ).expect("trace");
        let rate = ExactRate::new(5, 1).expect("rate");
        let mut pacer = Pacer::new(Window::new(rate, 500, 50, 3).expect("rate"), 5);
        let outcome = play(&trace, &mut pacer, Network::default(), Player::new(&trace, 20, 50));
        assert_eq!(outcome.fault, None, "three groups of 5 bytes and one more on its way");
        assert!(pacer.policy().stalls() > 0);
    }

    #[test]
    fn late_polls_move_nothing() {
        let rate = ExactRate::new(1, 2).expect("rate");
        let mut pacer = Pacer::new(Cbr::new(rate).expect("rate"), 4);
        pacer.feed(0, 10).expect("first");
        assert_eq!(pacer.poll(0), Action::Wait(8));
        assert_eq!(pacer.feed(1, 1), Err(crate::pace::Busy { left: 10 }));
        assert_eq!(pacer.poll(100), Action::Send { bytes: 4, at: 8 });
        assert_eq!(pacer.poll(100), Action::Send { bytes: 4, at: 16 });
        assert_eq!(pacer.poll(100), Action::Send { bytes: 2, at: 20 });
        assert_eq!(pacer.poll(100), Action::Feed);
        pacer.end();
        assert_eq!(pacer.poll(100), Action::Done);
    }

    /// The first outputs of `SplitMix64` from 0, as published with it.
    #[test]
    fn what_is_scattered_is_as_good_as_random() {
        let all = [1, 2, 3, 4].map(|index| scatter(0, index, u64::MAX));
        let published = [
            0xE220_A839_7B1D_CDAF,
            0x6E78_9E6A_A1B9_65F4,
            0x06C4_5D18_8009_454F,
            0xF88B_B8A8_724C_81EC,
        ];
        assert_eq!(all, published);
        assert_eq!(scatter(0, 1, 99), 0xE220_A839_7B1D_CDAF % 100);
        assert_eq!((scatter(7, 1, 0), scatter(7, 1, 1) <= 1), (0, true));
    }
}
