//! Chains of hosts, and direct routes.

use alloc::vec;
use alloc::vec::Vec;

use towpath_vm::talk::{ToDaemon, ToTask};
use towpath_wire::TaskId;
use towpath_wire::talk::PIECE_MAX;

use super::net::Net;
use crate::NodeEvent;
use crate::direct::{RINGS_MAX, ROUTES_MAX};
use crate::relay::{HELD_MAX, PASSING_MAX, RELAY_MIN, RELAY_PIECE};

fn counter(net: &mut Net, host: usize, name: &str) -> u64 {
    let counters = net.node(host).counters();
    counters.iter().find(|(n, _)| *n == name).expect("there is one of that name").1
}

fn passed(net: &mut Net) -> Vec<u64> {
    (0..net.seats.len())
        .map(|h| if net.seats[h].node.is_some() { counter(net, h, "pieces_passed_on") } else { 0 })
        .collect()
}

/// A sender on host 0 and a receiver on each other one, with windows of 4 MiB, and hosts that were
/// asked whether they take what comes by others.
fn chain(hosts: usize) -> (Net, TaskId, Vec<TaskId>) {
    let mut net = Net::new(hosts);
    let a = net.enrol(0);
    let others: Vec<TaskId> = (1..hosts).map(|h| net.enrol(h)).collect();
    for peer in &others {
        for _ in 0..5 {
            net.says(0, a, ToDaemon::Blocked { peer: *peer, need: 8192 });
            net.run(20);
        }
        net.told(0, a);
    }
    assert!(net.cast(0, a, &others, 0, RELAY_MIN as usize));
    net.run(100);
    for (host, task) in others.iter().enumerate() {
        assert_eq!(net.got(host + 1, *task), [0]);
    }
    assert_eq!(passed(&mut net), vec![0; hosts], "hosts that were not asked get theirs straight");
    (net, a, others)
}

fn end(net: &mut Net, a: TaskId, others: &[TaskId]) {
    net.left(0, a);
    for (host, task) in others.iter().enumerate() {
        if net.seats[host + 1].node.is_some() {
            net.left(host + 1, *task);
        }
    }
    net.run(3_000);
    net.nothing_is_left();
}

#[test]
fn long_messages_for_several_hosts_pass_each_link_once() {
    let (mut net, a, others) = chain(4);
    net.run(1_000);
    let before = net.passed.clone();
    assert!(net.cast(0, a, &others, 1, PIECE_MAX));
    net.run(200);
    for (host, task) in others.iter().enumerate() {
        assert_eq!(net.got(host + 1, *task), [1]);
    }
    let pieces = PIECE_MAX.div_ceil(RELAY_PIECE) as u64;
    assert_eq!(passed(&mut net), [0, pieces, pieces, 0]);
    let sent = |from, to| net.passed[&(from, to)] - before.get(&(from, to)).copied().unwrap_or(0);
    assert!(sent(0, 1) > 40 && sent(1, 2) > 40 && sent(2, 3) > 40);
    assert!(sent(0, 2) < 20 && sent(0, 3) < 20, "{} {}", sent(0, 2), sent(0, 3));
    // A short one, one for a single host and one to tasks of our own go straight.
    assert!(net.cast(0, a, &others, 2, RELAY_MIN as usize - 1));
    assert!(net.cast(0, a, &others[..1], 3, PIECE_MAX));
    assert!(net.send(0, a, others[0], 4, 10));
    net.run(100);
    assert_eq!(passed(&mut net), [0, pieces, pieces, 0]);
    assert_eq!(net.got(1, others[0]), [2, 3, 4]);
    for (host, task) in others.iter().enumerate().skip(1) {
        assert_eq!(net.got(host + 1, *task), [2]);
    }
    assert_eq!(counter(&mut net, 0, "pieces_sent_again"), 0);
    end(&mut net, a, &others);
}

#[test]
fn whatever_way_they_go_messages_keep_their_order() {
    let (mut net, a, others) = chain(4);
    for round in 0..4 {
        let seq = 1 + 3 * round;
        assert!(net.cast(0, a, &others, seq, 40_000));
        assert!(net.cast(0, a, &others, seq + 1, 100));
        for task in &others {
            assert!(net.send(0, a, *task, seq + 2, 50));
        }
        net.run(if round == 2 { 100 } else { 0 });
    }
    net.run(300);
    for (host, task) in others.iter().enumerate() {
        assert_eq!(net.got(host + 1, *task), (1..13).collect::<Vec<_>>());
    }
    end(&mut net, a, &others);
}

#[test]
fn what_a_dead_host_had_to_pass_on_goes_straight_to_those_behind_it() {
    for dies in 1..4 {
        let (mut net, a, others) = chain(4);
        assert!(net.cast(0, a, &others, 1, PIECE_MAX));
        net.run(1);
        net.crash(dies);
        assert!(net.cast(0, a, &others, 2, PIECE_MAX));
        net.run(10_000);
        for (host, task) in others.iter().enumerate() {
            let whole = if host + 1 == dies { vec![] } else { vec![1, 2] };
            if host + 1 != dies {
                assert_eq!(net.got(host + 1, *task), whole, "{dies} dies");
            }
        }
        let again = counter(&mut net, 0, "pieces_sent_again");
        assert_eq!(again > 0, dies < 3, "{again} when {dies} dies");
        end(&mut net, a, &others);
    }
}

#[test]
fn the_end_of_a_sender_is_told_behind_what_goes_along_a_chain() {
    let (mut net, a, others) = chain(4);
    // The last link of the chain is slow: nothing passes it for a while.
    net.cut(2, 3);
    assert!(net.cast(0, a, &others, 1, PIECE_MAX));
    net.left(0, a);
    net.run(500);
    assert_eq!(net.told(1, others[0]), [ToTask::Gone { peer: a }]);
    assert_eq!(net.told(3, others[2]), [], "its message is still on the way");
    // Who asks now must not hear of it before.
    net.says(3, others[2], ToDaemon::Blocked { peer: a, need: 100 });
    net.run(100);
    assert_eq!(net.told(3, others[2]), []);
    assert_ne!(net.node(0).remains(), Vec::<alloc::string::String>::new());
    net.mend();
    net.run(3_000);
    assert_eq!(net.got(3, others[2]), [1]);
    let told = net.told(3, others[2]);
    assert!(!told.is_empty() && told.iter().all(|t| *t == ToTask::Gone { peer: a }), "{told:?}");
    end(&mut net, a, &others);
}

#[test]
fn an_origin_keeps_so_much_and_sends_straight_what_is_beyond() {
    let (mut net, a, others) = chain(3);
    // More receivers, so that their windows hold more than an origin keeps.
    let mut more: Vec<Vec<TaskId>> = Vec::new();
    for _ in 0..6 {
        let to: Vec<TaskId> = [1, 2].map(|h| net.enrol(h)).to_vec();
        for peer in &to {
            for _ in 0..5 {
                net.says(0, a, ToDaemon::Blocked { peer: *peer, need: 8192 });
                net.run(20);
            }
        }
        net.told(0, a);
        more.push(to);
    }
    // Nothing arrives.
    net.cut(0, 1);
    net.cut(0, 2);
    let mut seqs = vec![0; more.len()];
    let mut kept = 0;
    let pieces = PIECE_MAX.div_ceil(RELAY_PIECE);
    let on_chains = |net: &mut Net| {
        let remains = net.node(0).remains();
        let line = remains.iter().find(|l| l.ends_with(" pieces on chains"));
        line.map_or(0, |l| l.split(' ').next().expect("a number").parse::<usize>().expect("one"))
    };
    'all: loop {
        for (to, seq) in more.iter().zip(&mut seqs) {
            let way = net.node(0).explain(a, to[0]).by_daemons;
            let room = way.limit_bytes - way.sent_bytes;
            assert!(room >= PIECE_MAX as u64 + 64, "windows are used up, {kept} kept");
            assert!(net.cast(0, a, to, *seq, PIECE_MAX));
            *seq += 1;
            if on_chains(&mut net) == kept * pieces {
                break 'all;
            }
            kept += 1;
        }
    }
    assert_eq!(kept as u64, HELD_MAX / PIECE_MAX as u64, "16 MiB");
    net.mend();
    net.run(5_000);
    for (to, seq) in more.iter().zip(seqs) {
        assert_eq!(net.got(1, to[0]), (0..seq).collect::<Vec<_>>());
        assert_eq!(net.got(2, to[1]), (0..seq).collect::<Vec<_>>());
    }
    for task in more.iter().flatten() {
        net.left(if task.host() == net.id(1) { 1 } else { 2 }, *task);
    }
    end(&mut net, a, &others);
}

#[test]
fn a_host_passes_so_much_on_at_once_and_no_more() {
    // Several origins by one host on the way to one that does not answer.
    let mut net = Net::new(8);
    let (way, last) = (6, 7);
    let mut senders = Vec::new();
    for origin in 0..6 {
        for _ in 0..4 {
            let a = net.enrol(origin);
            let to = [net.enrol(way), net.enrol(last)];
            for peer in to {
                for _ in 0..5 {
                    net.says(origin, a, ToDaemon::Blocked { peer, need: 8192 });
                    net.run(10);
                }
            }
            assert!(net.cast(origin, a, &to, 0, RELAY_MIN as usize));
            net.run(20);
            senders.push((origin, a, to));
        }
    }
    net.run(200);
    net.cut(way, last);
    let mut seq = 1;
    let refused = |net: &mut Net| (0..6).map(|h| counter(net, h, "pieces_sent_again")).sum::<u64>();
    // Each origin keeps 16 MiB at most, of which the one that does not answer holds all.
    while refused(&mut net) == 0 && seq < 64 {
        for (origin, a, to) in &senders {
            let by = net.node(*origin).explain(*a, to[0]).by_daemons;
            let there = net.node(*origin).explain(*a, to[1]).by_daemons;
            let room = |w: crate::explain::Exchange| w.limit_bytes - w.sent_bytes;
            if room(by).min(room(there)) > PIECE_MAX as u64 + 64 {
                assert!(net.cast(*origin, *a, to, seq, PIECE_MAX));
            }
        }
        seq += 1;
        net.run(8);
    }
    assert!(refused(&mut net) > 0, "nothing was refused in {seq} rounds");
    let most = counter(&mut net, way, "task_bytes_outgoing_max");
    assert!((PASSING_MAX..PASSING_MAX + (8 << 20)).contains(&most), "{most}");
    net.mend();
    net.run(20_000);
    for (_, _, to) in &senders {
        let got = net.got(way, to[0]);
        assert!(got.len() > 5 && got.is_sorted(), "{got:?}");
        assert_eq!(net.got(last, to[1]), got);
    }
}

#[test]
fn two_tasks_of_a_host_get_one_ring_and_both_are_told_when_it_goes() {
    let mut net = Net::new(1);
    let (a, b) = (net.enrol(0), net.enrol(0));
    net.says(0, a, ToDaemon::Direct { peer: b });
    net.says(0, b, ToDaemon::Direct { peer: a });
    let ring = |net: &mut Net| {
        net.events(0)
            .into_iter()
            .filter(|e| matches!(e, NodeEvent::Direct { .. }))
            .collect::<Vec<_>>()
    };
    assert_eq!(ring(&mut net), [NodeEvent::Direct { a, b }], "once");
    net.says(0, b, ToDaemon::CloseDirect { peer: a });
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: b }]);
    assert_eq!(net.told(0, b), []);
    net.says(0, b, ToDaemon::Direct { peer: a });
    assert_eq!(ring(&mut net), [NodeEvent::Direct { a: b, b: a }], "again");
    // One that cannot be used is not made again.
    net.says(0, a, ToDaemon::RingFailed { peer: b });
    assert_eq!(net.told(0, b), [ToTask::RingFailed { peer: a }]);
    net.says(0, b, ToDaemon::RingFailed { peer: a });
    assert_eq!(net.told(0, a), [], "it said so first");
    for (task, peer) in [(a, b), (b, a)] {
        net.says(0, task, ToDaemon::Direct { peer });
        assert_eq!(net.told(0, task), [ToTask::NoDirect { peer }]);
    }
    net.says(0, a, ToDaemon::Direct { peer: a });
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: a }], "to itself");
    let nobody = a.host().task(99).expect("a task");
    net.says(0, a, ToDaemon::Direct { peer: nobody });
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: nobody }]);
    net.left(0, a);
    assert_eq!(net.told(0, b), [ToTask::Gone { peer: a }]);
    net.left(0, b);
    net.nothing_is_left();
}

#[test]
fn a_task_has_so_many_direct_routes_and_a_host_so_many_rings() {
    let mut net = Net::new(1);
    let a = net.enrol(0);
    let others: Vec<TaskId> = (0..=ROUTES_MAX).map(|_| net.enrol(0)).collect();
    for peer in &others[..ROUTES_MAX] {
        net.says(0, a, ToDaemon::Direct { peer: *peer });
    }
    assert_eq!(net.told(0, a), []);
    let last = others[ROUTES_MAX];
    net.says(0, a, ToDaemon::Direct { peer: last });
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: last }]);
    net.says(0, last, ToDaemon::Direct { peer: a });
    assert_eq!(net.told(0, last), [ToTask::NoDirect { peer: a }], "nor by its wish");
    assert_eq!(net.node(0).explain(last, a).direct, crate::explain::DirectState::Full);
    // With one less there is room.
    net.says(0, a, ToDaemon::CloseDirect { peer: others[0] });
    net.says(0, last, ToDaemon::Direct { peer: a });
    assert_eq!(net.told(0, last), []);
    // Rings of the whole host.
    let mut rings = ROUTES_MAX;
    'all: for (i, x) in others.iter().enumerate() {
        for y in &others[i + 1..] {
            if rings == RINGS_MAX {
                break 'all;
            }
            if net.node(0).is_full(*x, *y) || net.node(0).is_full(*y, *x) {
                continue;
            }
            net.says(0, *x, ToDaemon::Direct { peer: *y });
            rings += 1;
        }
    }
    assert!(net.node(0).is_full_of_rings());
    let (x, y) = (net.enrol(0), net.enrol(0));
    net.says(0, x, ToDaemon::Direct { peer: y });
    assert_eq!(net.told(0, x), [ToTask::NoDirect { peer: y }]);
    net.left(0, a);
    assert!(!net.node(0).is_full_of_rings(), "its rings went with it");
    net.says(0, x, ToDaemon::Direct { peer: y });
    assert_eq!(net.told(0, x), []);
}

#[test]
fn tasks_of_two_hosts_are_brought_together_by_one_that_listens() {
    let mut net = Net::new(2);
    let (a, b) = (net.enrol(0), net.enrol(1));
    let offer = |told: Vec<ToTask>| match <[ToTask; 1]>::try_from(told) {
        Ok([ToTask::Stream(offer)]) => offer,
        other => panic!("{other:?}"),
    };
    net.says(0, a, ToDaemon::Direct { peer: b });
    net.says(0, a, ToDaemon::Direct { peer: b });
    net.run(50);
    let listens = offer(net.told(1, b));
    assert_eq!((listens.peer, listens.address), (a, None));
    net.says(1, b, ToDaemon::Listening { peer: a, port: 4711 });
    net.run(50);
    let connects = offer(net.told(0, a));
    let mut address = super::net::addr(1);
    address.set_port(4711);
    assert_eq!((connects.peer, connects.address), (b, Some(address)));
    assert_eq!(connects.key, listens.key);
    // It is closed: the other side is told, and either may ask again.
    net.says(1, b, ToDaemon::CloseDirect { peer: a });
    net.run(50);
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: b }]);
    // Both at once: the smaller one connects.
    net.says(0, a, ToDaemon::Direct { peer: b });
    net.says(1, b, ToDaemon::Direct { peer: a });
    net.run(50);
    assert_eq!(net.told(0, a), []);
    assert_eq!(offer(net.told(1, b)).address, None);
    // To a task that is not there.
    let nobody = b.host().task(99).expect("a task");
    net.says(0, a, ToDaemon::Direct { peer: nobody });
    net.run(50);
    assert_eq!(net.told(0, a), [ToTask::NoDirect { peer: nobody }]);
    net.left(0, a);
    net.left(1, b);
    net.run(1_000);
    net.nothing_is_left();
}

#[test]
fn a_long_list_of_receivers_goes_with_longer_pieces_each_of_which_has_it() {
    let (mut net, a, others) = chain(3);
    let mut to = others.clone();
    for _ in 0..40 {
        to.extend([1, 2].map(|h| net.enrol(h)));
    }
    for (host, task) in to.iter().map(|t| (usize::from(t.host().slot()) - 1, *t)).skip(2) {
        for _ in 0..3 {
            net.says(0, a, ToDaemon::Blocked { peer: task, need: 8192 });
            net.run(5);
        }
        assert!(host > 0);
    }
    net.told(0, a);
    let bytes = towpath_vm::talk::CREDIT_FIRST as usize * 3;
    assert!(net.cast(0, a, &to, 1, bytes));
    net.run(300);
    for task in &to {
        assert_eq!(net.got(usize::from(task.host().slot()) - 1, *task), [1]);
    }
    // Sixteen times as long as the list: 82 receivers of 16 bytes each.
    let pieces = bytes.div_ceil(16 * 16 * to.len()) as u64;
    assert_eq!(passed(&mut net), [0, pieces, 0]);
    for task in &to[2..] {
        net.left(usize::from(task.host().slot()) - 1, *task);
    }
    end(&mut net, a, &others);
}
