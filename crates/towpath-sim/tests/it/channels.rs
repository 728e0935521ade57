//! What the channels between two hosts do for their tasks: a long, fast link is filled, and short
//! messages do not wait behind long ones.

use std::time::Duration;

use crate::hosts::{Got, Vm, ms};
use towpath_sim::clock::Clock;
use towpath_sim::link::LinkSpec;
use towpath_vm::credit::WINDOW_FAR;
use towpath_vm::talk::{ToDaemon, ToTask};
use towpath_wire::talk::{PIECE_CHARGE, PIECE_MAX};
use towpath_wire::{ByteSize, Instant, Rate, TaskId};

/// Two hosts with a link of this kind each way.
fn two(spec: LinkSpec) -> Vm {
    Vm::with(2, |world| {
        world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
    })
}

/// What a task may still send another one by the daemons.
fn credit(vm: &Vm, from: TaskId, to: TaskId) -> u64 {
    let node = vm.world.hosts[0].node.as_ref().expect("it runs");
    let way = node.explain(from, to).by_daemons;
    way.limit_bytes - way.sent_bytes
}

/// A task that sends another one long messages, as much as it may, a piece each.
pub(crate) struct Bulk {
    from: TaskId,
    to: TaskId,
    seq: u32,
    asked: bool,
    pub(crate) received: u64,
}

impl Bulk {
    pub(crate) fn new(vm: &mut Vm) -> Self {
        let (from, to) = (vm.enrol(0), vm.enrol(1));
        Self { from, to, seq: 0, asked: false, received: 0 }
    }

    /// Sends what it may, `most` pieces at most; asks for more when that is used up.
    pub(crate) fn go_on(&mut self, vm: &mut Vm, most: usize) {
        for got in vm.take(self.from) {
            self.asked &= !matches!(got, Got::Said(ToTask::Credit { .. }));
        }
        for got in vm.take(self.to) {
            if let Got::Piece(_, len) = got {
                self.received += len as u64;
            }
        }
        for _ in 0..most {
            if credit(vm, self.from, self.to) < PIECE_MAX as u64 + PIECE_CHARGE {
                if !self.asked {
                    self.asked = true;
                    vm.says(0, self.from, ToDaemon::Blocked { peer: self.to, need: WINDOW_FAR });
                }
                return;
            }
            if !vm.send(0, self.from, self.to, self.seq, PIECE_MAX) {
                return;
            }
            self.seq += 1;
        }
    }
}

#[test]
fn one_pair_fills_a_gigabit_with_a_round_trip_of_20_ms_by_the_daemons() {
    let queue_bytes = 2_500_000;
    let mut vm = two(LinkSpec { delay_us: 10_000, queue_bytes, ..LinkSpec::PLAIN });
    let mut bulk = Bulk::new(&mut vm);
    let (mut before, begin) = (0, vm.world.now());
    while vm.world.now() < begin + ms(6000) {
        bulk.go_on(&mut vm, usize::MAX);
        vm.run(ms(1));
        if vm.world.now() <= begin + ms(2000) {
            before = bulk.received;
        }
    }
    let share = (bulk.received - before) as f64 / 4.0 / 125e6;
    println!("{share:.3} of the link");
    assert!(share >= 0.9, "{share:.3} of the link after two seconds, at least 0.9");
}

/// The time that 99 of 100 short messages take from one host to another at most, one every 5 ms
/// for 15 s; beside them long ones, `most` pieces every `every` tenths of a millisecond.
fn short_ones(
    vm: &mut Vm,
    mut bulk: Option<Bulk>,
    (every, most): (usize, usize),
) -> (Duration, u64) {
    let (from, to) = (vm.enrol(0), vm.enrol(1));
    // While it asks for the first time it may send nothing.
    vm.says(0, from, ToDaemon::Blocked { peer: to, need: 8 << 10 });
    vm.run(ms(100));
    vm.take(from);
    let (mut sent, mut took): (Vec<Instant>, Vec<Duration>) = (Vec::new(), Vec::new());
    let begin = vm.world.now();
    for tick in 0..150_000 {
        if tick % every == 0
            && let Some(bulk) = &mut bulk
        {
            bulk.go_on(vm, most);
        }
        if tick % 50 == 0 {
            if credit(vm, from, to) < 1 << 10 {
                vm.says(0, from, ToDaemon::Blocked { peer: to, need: 1 << 20 });
            }
            assert!(vm.send(0, from, to, sent.len() as u32, 16));
            sent.push(vm.world.now());
        }
        vm.run(Duration::from_micros(100));
        for seq in vm.seqs(to) {
            took.push(vm.world.now().since(sent[seq as usize]));
        }
    }
    assert_eq!(vm.world.now(), begin + ms(15_000));
    vm.run(ms(1000));
    took.extend(vm.seqs(to).into_iter().map(|_| ms(1000)));
    assert_eq!(took.len(), sent.len(), "each has come");
    took.sort_unstable();
    (took[took.len() * 99 / 100], bulk.map_or(0, |bulk| bulk.received))
}

/// A piece every 4 ms: an eighth of a gigabit. At half of it and more this is missed where the
/// link is not paced: docs/vm.md.
const AN_EIGHTH: (usize, usize) = (40, 1);
/// All that credit allows.
const ALL: (usize, usize) = (5, usize::MAX);

#[test]
fn short_messages_do_not_wait_for_what_long_ones_of_others_lost() {
    // At a thousandth there are ten losses a second, each of which takes 20 ms to be repaired.
    let lossy =
        LinkSpec { delay_us: 10_000, queue_bytes: 125_000, loss_ppm: 1000, ..LinkSpec::PLAIN };
    let (quiet, _) = short_ones(&mut two(lossy), None, AN_EIGHTH);
    let mut vm = two(lossy);
    let bulk = Bulk::new(&mut vm);
    let (beside, _) = short_ones(&mut vm, Some(bulk), AN_EIGHTH);
    println!("{quiet:?} alone, {beside:?} beside a long message");
    assert!(beside <= quiet * 3 / 2, "{beside:?} beside a long message, {quiet:?} alone");
}

#[test]
fn short_messages_do_not_wait_for_long_ones_of_others_at_a_paced_link() {
    // The queue is ours: a paced link is never given more than it carries.
    let spec = LinkSpec { delay_us: 10_000, queue_bytes: 125_000, ..LinkSpec::PLAIN };
    let paced = || {
        let mut vm = two(spec);
        (0..2).for_each(|host| vm.world.pace(host, Some(Rate::from_mbps(990))));
        vm
    };
    let (quiet, _) = short_ones(&mut paced(), None, ALL);
    let mut vm = paced();
    let bulk = Bulk::new(&mut vm);
    let (beside, moved) = short_ones(&mut vm, Some(bulk), ALL);
    let share = moved as f64 / 16.1 / 125e6;
    let mut vm = two(spec);
    let bulk = Bulk::new(&mut vm);
    let (free, _) = short_ones(&mut vm, Some(bulk), ALL);
    println!("{quiet:?} alone, {beside:?} beside {share:.3} of the link, {free:?} if it is free");
    assert!(beside < free, "{beside:?} is no better than {free:?} on a free link");
    assert!(beside <= quiet * 3 / 2, "{beside:?} beside long messages, {quiet:?} alone");
    assert!(share >= 0.8, "{share:.3} of the link by long messages");
}

#[test]
fn a_pair_keeps_its_order_whatever_the_lengths_of_its_messages() {
    let lossy = LinkSpec { delay_us: 1000, loss_ppm: 20_000, ..LinkSpec::PLAIN };
    let mut vm = two(lossy);
    let (from, to) = (vm.enrol(0), vm.enrol(1));
    let lengths = [10, 40_000, 0, 16_384, 16_385, 65_000, 1, 2, 30_000, 3];
    let mut sent = 0;
    for round in 0..20 {
        for len in lengths {
            if credit(&vm, from, to) < len as u64 + PIECE_CHARGE {
                vm.says(0, from, ToDaemon::Blocked { peer: to, need: len as u64 });
                vm.run(ms(200));
            }
            assert!(vm.send(0, from, to, sent, len), "round {round}");
            sent += 1;
        }
    }
    // Its end is told behind all of them, though it goes by the channel of the short ones.
    vm.left(0, from);
    vm.run(ms(5000));
    let got = vm.take(to);
    let (last, pieces) = got.split_last().expect("all of it");
    assert_eq!(last, &Got::Said(ToTask::Gone { peer: from }));
    let seqs: Vec<u32> = pieces
        .iter()
        .map(|got| if let Got::Piece(header, _) = got { header.seq } else { panic!("{got:?}") })
        .collect();
    assert_eq!(seqs, (0..sent).collect::<Vec<u32>>());
    vm.left(1, to);
    vm.run(ms(5000));
    vm.nothing_is_left();
}
