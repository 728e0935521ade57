//! What every stripe scheduler keeps to, and what each is for.

use core::time::Duration;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::PathId;

use super::*;

const DATAGRAM: u64 = 1472;
const MS: Duration = Duration::from_millis(1);

fn path(id: u16, rate: u64, trip: Duration) -> PathView {
    PathView {
        id: PathId(id),
        room: u64::MAX,
        up: true,
        asks: true,
        in_flight: 0,
        rate,
        trip,
        service: trip,
        weight: 1,
    }
}

fn much() -> Next {
    Next { bytes: DATAGRAM, backlog: 1 << 20 }
}

fn each() -> impl Iterator<Item = (StripeKind, Box<dyn StripeScheduler>)> {
    StripeKind::ALL.into_iter().map(|kind| (kind, kind.build(7)))
}

/// Each path delivers at its rate, and holds five quarters of what that is in a round trip; there
/// is always more to send. Bytes that each carried in a second, asked by one link after the other.
fn run(scheduler: &mut dyn StripeScheduler, paths: &mut [PathView]) -> Vec<u64> {
    let mut carried = vec![0; paths.len()];
    for step in 0..10_000_usize {
        for (path, carried) in paths.iter_mut().zip(&mut carried) {
            let done = (path.rate / 10_000).min(path.in_flight);
            (path.in_flight, *carried) = (path.in_flight - done, *carried + done);
        }
        for turn in 0..1000 {
            for (n, path) in paths.iter_mut().enumerate() {
                let most = path.rate * path.trip.as_micros() as u64 / 1_000_000 * 5 / 4;
                let room = most.max(2 * DATAGRAM).saturating_sub(path.in_flight);
                path.room = if room < DATAGRAM { 0 } else { room };
                path.asks = n == (step + turn) % carried.len();
            }
            let Some(n) = scheduler.pick(&much(), paths) else {
                if turn < carried.len() {
                    continue;
                }
                break;
            };
            assert!(paths[n].is_open());
            scheduler.sent(paths, paths[n].id, DATAGRAM);
            paths[n].in_flight += DATAGRAM;
        }
    }
    carried
}

proptest! {
    #[test]
    fn what_is_picked_is_up_and_has_room_and_where_much_waits_something_is(
        paths in proptest::collection::vec(
            (any::<bool>(), 0..3u64, 0..200_000u64, 0..20_000_000u64, 0..100u64, 0..4u32), 1..9,
        ),
        picks in 1..40usize,
        backlog in 0..2_000_000u64,
    ) {
        let view = |(n, p): (usize, &(bool, u64, u64, u64, u64, u32))| PathView {
            up: p.0,
            room: p.1 * DATAGRAM,
            in_flight: p.2,
            weight: p.5,
            ..path(n as u16 * 2, p.3, MS * p.4 as u32)
        };
        let views: Vec<_> = paths.iter().enumerate().map(view).collect();
        let open = views.iter().any(PathView::is_open);
        for (kind, mut scheduler) in each() {
            for _ in 0..picks {
                let next = Next { bytes: DATAGRAM, backlog: DATAGRAM.max(backlog) };
                let picked = scheduler.pick(&next, &views);
                if let Some(n) = picked {
                    prop_assert!(views[n].is_open(), "{}", kind.name());
                    scheduler.sent(&views, views[n].id, DATAGRAM);
                }
                prop_assert!(picked.is_none() || open);
                // Only who knows of a better path waits for it.
                let waits = kind == StripeKind::Earliest;
                prop_assert!(picked.is_some() || !open || waits, "{}", kind.name());
            }
        }
    }
}

#[test]
fn a_path_alone_is_used_whenever_it_can_be() {
    for (kind, mut scheduler) in each() {
        let mut only = [path(0, 0, Duration::ZERO)];
        assert_eq!(scheduler.pick(&much(), &only), Some(0), "{}", kind.name());
        (only[0].room, only[0].rate) = (0, 1_000_000);
        assert_eq!(scheduler.pick(&much(), &only), None, "{}", kind.name());
        only[0].room = 1;
        assert_eq!(scheduler.pick(&Next { bytes: 1, backlog: 1 }, &only), Some(0));
        only[0].up = false;
        assert_eq!(scheduler.pick(&much(), &only), None, "{}", kind.name());
    }
}

#[test]
fn while_there_is_much_to_send_no_path_stands_idle_however_unequal_they_are() {
    for (kind, mut scheduler) in each() {
        let rates = [12_500_000, 6_250_000, 3_125_000, 1_250_000];
        let trips = [2, 2, 100, 5];
        let mut paths: Vec<_> = (0..4).map(|n| path(n as u16, rates[n], MS * trips[n])).collect();
        for (carried, rate) in run(&mut *scheduler, &mut paths).into_iter().zip(rates) {
            assert!(carried >= rate / 100 * 95, "{}: {carried} of {rate}", kind.name());
        }
    }
}

#[test]
fn the_end_of_a_message_waits_for_the_quick_path_sooner_than_go_by_the_slow_one() {
    // 12.5 MB/s in 5 ms, full for now, and 12.5 MB/s in 100 ms, empty.
    let quick = PathView { room: 0, in_flight: 70_000, ..path(0, 12_500_000, 5 * MS) };
    let paths = [quick, path(1, 12_500_000, 100 * MS)];
    let mut earliest = Earliest::default();
    let end = |backlog| Next { bytes: DATAGRAM, backlog };
    assert_eq!(earliest.pick(&end(DATAGRAM), &paths), None);
    assert_eq!(earliest.pick(&end(100_000), &paths), None, "8 ms by the quick one");
    assert_eq!(earliest.pick(&end(1_000_000), &paths), Some(1), "80 ms, and 50 by the other");
    let free = [PathView { room: DATAGRAM, in_flight: 0, ..quick }, paths[1]];
    assert_eq!(earliest.pick(&end(1_000_000), &free), Some(0));
}

#[test]
fn what_a_path_was_sent_too_little_of_late_counts_for_it() {
    let mut earliest = Earliest::default();
    let paths = [path(0, 10_000_000, 10 * MS), path(1, 10_000_000, 10 * MS)];
    for _ in 0..40 {
        earliest.sent(&paths, PathId(0), DATAGRAM);
    }
    assert_eq!(earliest.pick(&much(), &paths), Some(1));
    for _ in 0..80 {
        earliest.sent(&paths, PathId(1), DATAGRAM);
    }
    assert_eq!(earliest.pick(&much(), &paths), Some(0));
}

#[test]
fn turns_are_taken_in_order_or_in_one_of_each_senders_own() {
    let paths: Vec<_> = (0..6).map(|n| path(n, 1_000_000, MS)).collect();
    let turns = |scheduler: &mut dyn StripeScheduler| {
        let mut turn = || {
            let n = scheduler.pick(&much(), &paths).expect("all have room");
            scheduler.sent(&paths, paths[n].id, DATAGRAM);
            n
        };
        (0..60).map(|_| turn()).collect::<Vec<_>>()
    };
    assert_eq!(turns(&mut RoundRobin::default())[..8], [0, 1, 2, 3, 4, 5, 0, 1]);
    let [one, two] = [1, 2].map(|seed| turns(&mut Permuted::new(seed)));
    assert_ne!(one, two);
    for round in one.chunks(6).chain(two.chunks(6)) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2, 3, 4, 5], "each once a round");
    }
}

#[test]
fn weights_are_kept_while_all_have_room_and_one_of_none_helps_out() {
    let mut paths: Vec<_> = (0..3).map(|n| path(n, 1_000_000, MS)).collect();
    for (p, weight) in paths.iter_mut().zip([6, 3, 0]) {
        p.weight = weight;
    }
    let (mut weighted, mut carried) = (Weighted::default(), [0; 3]);
    for _ in 0..900 {
        let n = weighted.pick(&much(), &paths).expect("all have room");
        weighted.sent(&paths, paths[n].id, DATAGRAM);
        carried[n] += 1;
    }
    assert_eq!(carried, [600, 300, 0]);
    (paths[0].room, paths[1].room) = (0, 0);
    assert_eq!(weighted.pick(&much(), &paths), Some(2));
}

#[test]
fn queue_and_service_decide_where_they_are_looked_at() {
    let busy = PathView { in_flight: 100_000, ..path(0, 12_500_000, MS) };
    let far = PathView { service: 200 * MS, ..path(1, 12_500_000, 200 * MS) };
    let slow = path(2, 100_000, MS);
    assert_eq!(ShortestQueue.pick(&much(), &[busy, far, slow]), Some(1));
    // 8 ms of queue; 20 ms for the last rotation; 15 ms for one datagram.
    assert_eq!(Adaptive.pick(&much(), &[busy, far, slow]), Some(0));
    assert_eq!(Adaptive.pick(&much(), &[far, slow]), Some(1));
}

#[test]
fn only_the_redundant_one_wants_copies_and_each_has_a_name() {
    for (kind, scheduler) in each() {
        assert_eq!(scheduler.copies(), kind == StripeKind::Redundant);
        assert_eq!(StripeKind::named(kind.name()), Some(kind));
    }
    assert_eq!(StripeKind::named("fastest"), None);
}
