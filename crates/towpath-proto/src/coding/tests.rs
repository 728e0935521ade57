//! Groups as a sender lays them and a receiver gathers them.

use core::time::Duration;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::coding::{Coded, Parity as ParityFrame, SYMBOL_HEAD};
use towpath_wire::{Instant, PathId};

use super::{Coding, Decoder, Encoder, PLAIN, Parity, Rebuilt};

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn code(members: u8, parities: u8) -> Coding {
    Coding::new(members, parities).unwrap()
}

/// A packet as it leaves.
#[derive(Clone, Debug)]
enum Sent {
    Member { group: u32, index: u8, members: u8, path: PathId, number: u64, frames: Vec<u8> },
    Parity(PathId, Parity),
}

/// Adds a packet of `path`, and sends what parity may go by now.
fn send(
    e: &mut Encoder,
    now: Instant,
    (path, paths): (u16, usize),
    coding: Coding,
    number: u64,
    frames: Vec<u8>,
) -> Sent {
    let path = PathId(path);
    let seat = e.seat(path, paths, coding);
    e.add(now, seat, (path, number), &frames, &PLAIN);
    let super::Seat { group, index, members, .. } = seat;
    Sent::Member { group, index, members, path, number, frames }
}

fn parities(e: &mut Encoder, paths: u16) -> Vec<Sent> {
    let mut all = Vec::new();
    while let Some(path) = (0..paths).map(PathId).find(|p| e.owes(*p, paths.into())) {
        let parity = e.take(path, paths.into(), 2000).expect("it is owed");
        all.push(Sent::Parity(path, parity));
    }
    all
}

fn receive(d: &mut Decoder, sent: &Sent) -> Vec<Rebuilt> {
    match sent {
        Sent::Member { group, index, members, path, number, frames } => {
            let coded = Coded { group: *group, index: *index, members: *members, frames };
            d.member(&coded, (*path, *number), &PLAIN)
        }
        Sent::Parity(_, Parity { group, members, index, symbol }) => {
            let (group, members, index) = (*group, *members, *index);
            d.parity(&ParityFrame { group, members, index, symbol }, &PLAIN)
        }
    }
}

#[test]
fn no_path_takes_more_of_a_group_than_may_be_lost() {
    for (coding, paths) in [(code(3, 1), 4), (code(6, 2), 4), (code(2, 1), 3), (code(4, 1), 5)] {
        let mut e = Encoder::default();
        let mut spread: BTreeMap<(u32, PathId), usize> = BTreeMap::new();
        let mut sent = Vec::new();
        // A train by each path in turn, as links are asked.
        for n in 0..400_u64 {
            let path = (n / 10 % paths) as u16;
            let to = (path, paths as usize);
            sent.push(send(&mut e, at(n), to, coding, n, vec![1; 100]));
            sent.extend(parities(&mut e, paths as u16));
        }
        for one in &sent {
            let place = match one {
                Sent::Member { group, path, .. } => (*group, *path),
                Sent::Parity(path, parity) => (parity.group, *path),
            };
            *spread.entry(place).or_default() += 1;
        }
        let most = spread.values().max().copied();
        assert_eq!(most, Some(coding.parities()), "{coding:?} on {paths}");
        assert!(e.stats().groups * coding.members() as u64 > 300, "{:?}", e.stats());
        assert_eq!(e.stats().dropped, 0);
    }
}

#[test]
fn with_too_few_paths_each_takes_its_share_and_one_alone_takes_all() {
    for (paths, most) in [(2_usize, 2), (1, 4)] {
        let mut e = Encoder::default();
        let mut counts: BTreeMap<(u32, PathId), usize> = BTreeMap::new();
        for n in 0..40_u64 {
            let path = PathId((n as usize % paths) as u16);
            let seat = e.seat(path, paths, code(3, 1));
            e.add(at(n), seat, (path, n), &[1; 50], &PLAIN);
            *counts.entry((seat.group, path)).or_default() += 1;
            for one in parities(&mut e, paths as u16) {
                let Sent::Parity(path, parity) = one else { continue };
                *counts.entry((parity.group, path)).or_default() += 1;
            }
        }
        assert_eq!(counts.values().max(), Some(&most), "{paths} paths");
    }
}

#[test]
fn a_group_that_waits_closes_where_nothing_is_to_come_and_else_takes_any_packet() {
    let (to, coding) = ((0, 4), code(3, 1));
    let mut e = Encoder::default();
    send(&mut e, at(0), to, coding, 0, vec![7; 30]);
    assert_eq!(e.poll_timeout(false), Some(at(2000)));
    e.handle_timeout(at(1999), false);
    assert!(!e.owes_any());
    let mut idle = e.clone();
    idle.handle_timeout(at(2000), false);
    let all = parities(&mut idle, 4);
    let Sent::Parity(_, parity) = &all[0] else { panic!("a parity") };
    // The parity of one is a copy of it.
    assert_eq!((all.len(), parity.members, &parity.symbol[SYMBOL_HEAD..]), (1, 1, &[7; 30][..]));
    assert_eq!(idle.poll_timeout(false), None);
    // Where more waits, the same path may fill it up ...
    e.handle_timeout(at(2000), true);
    assert!(!e.owes_any());
    assert_eq!(e.poll_timeout(true), Some(at(8000)));
    for n in 1..3 {
        assert_eq!(e.seat(PathId(0), 4, coding).index, n);
        send(&mut e, at(2000), to, coding, n.into(), vec![7; 30]);
    }
    assert!(e.owes_any() && e.owes(PathId(1), 4) && !e.owes(PathId(0), 4));
    // ... and what has waited for another path goes by any.
    e.handle_timeout(at(4000), true);
    assert!(e.owes(PathId(0), 4));
    // At last it closes with what it has.
    let mut e = Encoder::default();
    send(&mut e, at(0), to, coding, 0, vec![7; 30]);
    e.handle_timeout(at(8000), true);
    assert_eq!((e.owes_any(), e.stats().groups), (true, 1));
}

#[test]
fn a_parity_longer_than_a_path_takes_goes_by_another_and_is_dropped_at_last() {
    let mut e = Encoder::default();
    for path in 0..3 {
        send(&mut e, at(0), (path, 4), code(3, 1), 0, vec![7; 300]);
    }
    assert!(e.owes(PathId(3), 4));
    assert_eq!(e.take(PathId(3), 4, 311), None);
    assert!(e.owes_any() && !e.owes(PathId(3), 4), "not by this one");
    e.handle_timeout(at(2000), true);
    let taken = e.clone().take(PathId(0), 4, 312);
    assert_eq!(taken.map(|p| p.symbol.len()), Some(312));
    assert_eq!(e.take(PathId(0), 4, 311), None);
    assert_eq!((e.owes_any(), e.stats().dropped), (false, 1));
}

#[test]
fn what_is_open_and_what_waits_is_bounded() {
    let mut e = Encoder::default();
    // One path of four sends alone, and no link takes the parity.
    for n in 0..10_000 {
        send(&mut e, at(0), (0, 4), code(2, 1), n, vec![1; 10]);
    }
    let groups = e.stats().groups;
    // All but 64 were filled up, and of those all but 64 lost their parity.
    assert!((5000 - 64..=5000).contains(&groups), "{groups}");
    assert_eq!(e.stats().dropped, groups - 64);
}

#[test]
fn symbols_are_kept_within_their_memory_and_the_oldest_group_goes_first() {
    let mut d = Decoder::new(20_000);
    let member = |d: &mut Decoder, group, index| {
        let coded = Coded { group, index, members: 3, frames: &[5; 1000] };
        d.member(&coded, (PathId(0), u64::from(group)), &PLAIN)
    };
    for group in 0..100 {
        member(&mut d, group, 1);
        assert!(d.used() <= 20_000, "{} bytes", d.used());
    }
    let stats = *d.stats();
    // Each had its first member missing.
    assert_eq!((stats.forgotten, stats.unrebuilt), (stats.unrebuilt, stats.forgotten));
    assert!((84..95).contains(&stats.forgotten), "{stats:?}");
    // One far ahead forgets all, one from long ago is not wanted.
    member(&mut d, 1_000_000, 0);
    let one = d.used();
    member(&mut d, 5, 0);
    assert_eq!((d.used(), one < 3000), (one, true));
    assert_eq!(d.stats().garbage, 0);
}

#[test]
fn symbols_that_contradict_their_group_are_counted_and_give_nothing() {
    let mut d = Decoder::new(100_000);
    let member = |d: &mut Decoder, group, index, members| {
        let coded = Coded { group, index, members, frames: &[1; 40] };
        assert_eq!(d.member(&coded, (PathId(0), 1), &PLAIN), []);
    };
    let parity = |d: &mut Decoder, group, members, index, symbol: &[u8]| {
        d.parity(&ParityFrame { group, members, index, symbol }, &PLAIN)
    };
    let mut expected = 0;
    let mut counts = |d: &Decoder, what: &str| {
        expected += 1;
        assert_eq!(d.stats().garbage, expected, "{what}");
    };
    member(&mut d, 1, 3, 3);
    counts(&d, "a place beyond the group");
    member(&mut d, 1, 0, 17);
    counts(&d, "too many members");
    member(&mut d, 1, 0, 0);
    counts(&d, "no members");
    assert_eq!(parity(&mut d, 1, 0, 0, &[0; 60]), []);
    counts(&d, "a parity of nothing");
    assert_eq!(parity(&mut d, 1, 17, 0, &[0; 60]), []);
    counts(&d, "a parity of too many");
    assert_eq!(parity(&mut d, 1, 3, 4, &[0; 60]), []);
    counts(&d, "a fifth parity");
    assert_eq!(parity(&mut d, 1, 3, 0, &[0; 11]), []);
    counts(&d, "a parity without a head");
    member(&mut d, 2, 2, 3);
    assert_eq!(parity(&mut d, 2, 2, 0, &[0; 60]), []);
    counts(&d, "fewer members than came");
    member(&mut d, 3, 0, 3);
    assert_eq!(parity(&mut d, 3, 3, 0, &[0; 20]), []);
    counts(&d, "shorter than a member");
    member(&mut d, 4, 0, 4);
    assert_eq!(parity(&mut d, 4, 4, 0, &[0; 60]), []);
    assert_eq!(parity(&mut d, 4, 3, 1, &[0; 60]), []);
    counts(&d, "parities that disagree");
    member(&mut d, 5, 0, 2);
    assert_eq!(parity(&mut d, 5, 2, 0, &[9; 60]), []);
    counts(&d, "what is rebuilt is no symbol");
    assert_eq!(d.used(), 0, "all of them are over");
}

proptest! {
    /// Any order, any loss, any repetition: what is rebuilt is what was sent, once, and all of it
    /// where at least as many symbols of a group came as it has members.
    #[test]
    fn what_is_rebuilt_is_what_was_sent(
        (members, parity_count, paths) in (1..=6_u8, 1..=4_u8, 1..=5_u16),
        packets in proptest::collection::vec((0..5_u16, 0..300_usize, 0..1500_u64), 1..60),
        lost in proptest::collection::vec(any::<bool>(), 400),
        order in proptest::collection::vec(any::<u16>(), 400),
        repeated in 0..40_usize,
    ) {
        let (coding, mut e, mut now) = (code(members, parity_count), Encoder::default(), 0);
        let mut sent = Vec::new();
        for (n, (path, len, wait)) in packets.iter().enumerate() {
            now += wait;
            e.handle_timeout(at(now), n % 3 > 0);
            let frames = (0..*len).map(|i| (i * 7 + n) as u8).collect();
            let to = (path % paths, paths.into());
            sent.push(send(&mut e, at(now), to, coding, n as u64, frames));
            sent.extend(parities(&mut e, paths));
        }
        e.handle_timeout(at(now + 10_000), false);
        e.handle_timeout(at(now + 20_000), false);
        sent.extend(parities(&mut e, paths));
        prop_assert!(!e.owes_any());
        prop_assert_eq!(e.poll_timeout(true), None);
        let mut by_group: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut came: Vec<(u16, Sent)> = Vec::new();
        let mut there = vec![false; packets.len()];
        for (n, one) in sent.iter().enumerate() {
            let (group, is_member) = match one {
                Sent::Member { group, .. } => (*group, true),
                Sent::Parity(_, p) => (p.group, false),
            };
            let entry = by_group.entry(group).or_default();
            entry.0 += usize::from(is_member);
            if !lost[n % 400] {
                entry.1 += 1;
                came.push((order[n % 400], one.clone()));
                if let Sent::Member { number, .. } = one {
                    there[*number as usize] = true;
                }
            }
        }
        came.sort_by_key(|(place, _)| *place);
        let again: Vec<_> = came.iter().take(repeated).cloned().collect();
        came.extend(again);
        let mut d = Decoder::new(1 << 20);
        let mut rebuilt = BTreeMap::new();
        for (_, one) in &came {
            for r in receive(&mut d, one) {
                prop_assert!(rebuilt.insert(r.number, r).is_none(), "twice");
            }
        }
        prop_assert_eq!((d.stats().garbage, d.stats().forgotten), (0, 0));
        for one in &sent {
            let Sent::Member { group, path, number, frames, .. } = one else { continue };
            let (members, symbols) = by_group[group];
            if let Some(r) = rebuilt.get(number) {
                prop_assert_eq!((r.path, &r.frames), (*path, frames));
            } else {
                let whole = there[*number as usize] || symbols < members;
                prop_assert!(whole, "packet {} of group {}", number, group);
            }
        }
    }

    /// Symbols of a peer that means harm.
    #[test]
    fn no_symbols_make_it_panic_or_keep_more_than_it_may(
        symbols in proptest::collection::vec(
            (any::<bool>(), any::<u32>(), 0..18_u8, 0..18_u8, any::<u8>(), 0..200_usize), 1..300),
        near: bool,
    ) {
        let mut d = Decoder::new(10_000);
        for (is_member, group, index, members, fill, len) in symbols {
            let group = if near { group % 7 } else { group };
            let bytes = vec![fill; len];
            if is_member {
                let coded = Coded { group, index, members, frames: &bytes };
                d.member(&coded, (PathId(0), 1), &PLAIN);
            } else {
                d.parity(&ParityFrame { group, members, index, symbol: &bytes }, &PLAIN);
            }
            prop_assert!(d.used() <= 10_000);
        }
    }
}
