//! Hosts that keep the log and end by themselves: those that stay go on.

use alloc::vec;
use alloc::vec::Vec;

use towpath_vm::talk::{Question, RegistryOp, ToDaemon, ToTask};
use towpath_wire::HostId;

use super::disk::Disk;
use super::net::{Net, config};
use super::voting::{leader, net, net_of, sharing};
use crate::{NodeConfig, NodeEvent};

/// Most milliseconds that one waits here.
const WITHIN: u64 = 2000;
/// So long one takes then until it has ended.
const ENDING: u64 = 300;

pub(super) fn may_end(net: &mut Net, host: usize) -> bool {
    net.call(host, |node, now, memory| node.may_end(now, memory))
}

/// These are to end, each as soon as it may; how long it took until all had.
fn end(net: &mut Net, hosts: &[usize]) -> u64 {
    let (mut left, mut goes) = (hosts.to_vec(), Vec::new());
    for ms in 0..=WITHIN {
        for host in core::mem::take(&mut left) {
            if may_end(net, host) {
                // Its tasks take a while to end, in which it answers nothing.
                let node = net.seats[host].node.take();
                goes.push((host, ms + ENDING, node));
            } else {
                left.push(host);
            }
        }
        let (gone, rest) = goes.into_iter().partition(|(_, at, _)| *at <= ms || left.is_empty());
        goes = rest;
        let gone: Vec<_> = gone;
        for (host, _, node) in gone {
            net.seats[host].node = node;
            net.call(host, |node, now, memory| {
                node.comes_back(true);
                node.leave(now, "left", memory);
            });
            net.crash(host);
        }
        if left.is_empty() {
            return ms;
        }
        net.run(1);
    }
    panic!("{left:?} still wait, {:?}", net.node(left[0]).voting())
}

fn voters(net: &mut Net, seen_by: usize) -> Vec<u16> {
    net.node(seen_by).voters().0.into_iter().map(HostId::slot).collect()
}

/// Something can be decided.
fn decides(net: &mut Net, host: usize) -> bool {
    let task = net.enrol(host);
    let question = Question::Registry(RegistryOp::Join("g".into()));
    net.says(host, task, ToDaemon::Ask { number: 1, question });
    net.run(500);
    let told = net.told(host, task);
    told.iter().any(|say| matches!(say, ToTask::Answer { number: 1, answer: Ok(_) }))
}

fn keeping(hosts: usize) -> Net {
    let config = |host| NodeConfig { keeps_table: true, ..sharing(host) };
    let mut net = Net::founded(config(0));
    net.seats[0].disk = Some(Disk::new());
    for host in 1..hosts {
        net.add(config(host));
        net.seats[host].disk = Some(Disk::new());
        run(&mut net, 100);
    }
    run(&mut net, 1000);
    net
}

/// Lets time pass; whoever keeps a table has it on its disk.
fn run(net: &mut Net, ms: u64) {
    for _ in 0..ms.div_ceil(100) {
        net.run(100);
        for host in 0..net.seats.len() {
            if net.seats[host].node.is_some() && net.node(host).keeps() {
                net.node(host).kept(u64::MAX);
            }
        }
    }
}

#[test]
fn one_of_three_that_ends_waits_a_round_trip_and_nothing_is_changed_for_it() {
    let mut net = keeping(3);
    assert!(end(&mut net, &[2]) < 20);
    net.run(3000);
    assert_eq!(voters(&mut net, 0), [1, 2, 3], "it comes back");
    assert!(decides(&mut net, 1));
}

#[test]
fn two_of_three_that_end_together_leave_one_that_goes_on_alone() {
    for (ends, leads) in [([1, 2], 0), ([2, 0], 1), ([0, 1], 2)] {
        let mut net = keeping(3);
        let took = end(&mut net, &ends);
        assert!(took < 1000, "{took} ms");
        net.run(1000);
        assert_eq!(leader(&mut net), leads, "of {ends:?}");
        assert_eq!(voters(&mut net, leads), [net.id(leads).slot()]);
        assert!(decides(&mut net, leads));
        let host = net.seats.len();
        let target = net.target_of(leads, 3600);
        net.add_by(sharing(host), target);
        run(&mut net, 1000);
        let target = net.target_of(leads, 3600);
        net.add_by(sharing(host + 1), target);
        run(&mut net, 1000);
        assert_eq!(voters(&mut net, leads).len(), 3, "there are three again");
    }
}

#[test]
fn one_that_ends_after_another_takes_that_one_out_with_it() {
    for gap in [1, 100, 5000, 30_000] {
        let mut net = keeping(3);
        end(&mut net, &[1]);
        net.run(gap);
        assert!(end(&mut net, &[2]) < 1000);
        net.run(1000);
        assert_eq!((leader(&mut net), voters(&mut net, 0)), (0, vec![1]), "after {gap} ms");
        assert!(decides(&mut net, 0));
    }
    let mut net = keeping(3);
    net.crash(1);
    net.run(20_000);
    assert!(end(&mut net, &[2]) < 1000);
    assert!(decides(&mut net, 0), "whether it ended by itself or not");
}

#[test]
fn of_five_hosts_another_one_votes_instead() {
    let mut net = keeping(5);
    let ends: Vec<usize> = (0..5)
        .filter(|host| {
            let id = net.id(*host);
            *host != 0 && net.node(0).voters().0.contains(&id)
        })
        .collect();
    assert!(end(&mut net, &ends) < 1000);
    net.run(5000);
    assert_eq!((leader(&mut net), voters(&mut net, 0).len()), (0, 3));
}

#[test]
fn all_that_end_together_wait_for_nobody() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut net = keeping(3);
        let took = end(&mut net, &order);
        assert!(took < 1000, "{order:?}: {took} ms");
    }
}

#[test]
fn who_hears_no_leader_does_not_wait_for_one() {
    let mut net = keeping(3);
    for other in 0..2 {
        net.cut(2, other);
    }
    net.run(20_000);
    assert_eq!(net.node(2).leader(), Some(net.id(0)));
    assert_eq!(end(&mut net, &[2]), 0);
    let mut net = net_of(3, config(0, "h0"));
    assert_eq!(end(&mut net, &[2, 0]), 0, "nobody else keeps the log");
}

#[test]
fn a_leader_that_ends_with_nobody_but_such_does_not_hand_over_to_them() {
    let mut net = net(3);
    for host in [1, 2] {
        assert!(!may_end(&mut net, host));
    }
    net.run(2);
    assert!(may_end(&mut net, 0), "both asked");
    net.call(0, |node, now, memory| node.leave(now, "left", memory));
    net.run(2);
    for host in [1, 2] {
        assert!(may_end(&mut net, host), "it has ended");
        let over = |e: &NodeEvent| matches!(e, NodeEvent::ContactOver { .. });
        assert!(net.events(host).iter().any(over));
    }
}
