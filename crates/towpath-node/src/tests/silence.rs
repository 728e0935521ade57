//! Hosts that leave everything unanswered for less than they are waited for, and hosts whose engine
//! has ended without a word.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::config::Liveness;
use towpath_proto::{Config, Psk};
use towpath_vm::HostState;
use towpath_vm::talk::{Question, SpawnTasks, ToDaemon};
use towpath_wire::{Admission, HostId};

use super::joining::knock;
use super::net::{Net, config};
use crate::config::refusal;
use crate::{NodeConfig, NodeEvent};

/// Hosts here are silent after 1.5 s and lost after ten.
fn patient(index: usize, voters: u8) -> NodeConfig {
    let liveness = Liveness::after(Duration::from_secs(10));
    let proto = Config { liveness, ..Config::default() };
    NodeConfig { voters, proto, ..config(index, &alloc::format!("h{index}")) }
}

fn net(hosts: usize, voters: u8) -> Net {
    let mut net = Net::founded(patient(0, voters));
    for index in 1..hosts {
        net.add(patient(index, voters));
        net.run(100);
    }
    net.call(0, |node, now, memory| node.watch_hosts(now, true, memory));
    net.run(1000);
    for index in 0..hosts {
        net.events(index);
    }
    net
}

/// Nothing passes between a host and the others.
fn cut_off(net: &mut Net, host: usize) {
    for other in 0..net.seats.len() {
        if other != host {
            net.cut(host, other);
        }
    }
}

fn all_are_who_they_were(net: &mut Net, ids: &[HostId]) {
    for host in 0..ids.len() {
        assert_eq!(net.node(host).me(), Some(ids[host]));
        let hosts: Vec<_> = net.node(host).hosts().map(|h| (h.id, h.state)).collect();
        let up: Vec<_> = ids.iter().map(|id| (*id, HostState::Up)).collect();
        assert_eq!(hosts, up, "as host {host} sees it");
        assert!(!net.node(host).is_frozen(), "host {host}");
        assert_eq!(net.node(host).silent().count(), 0, "host {host}");
        assert_eq!(net.node(host).malformed(), 0, "host {host}");
    }
}

fn ids(net: &Net) -> Vec<HostId> {
    (0..net.seats.len()).map(|host| net.id(host)).collect()
}

/// Whether something ended, as a host said since the last time.
fn ended(events: &[NodeEvent]) -> bool {
    let ends = |e: &NodeEvent| {
        matches!(
            e,
            NodeEvent::HostLost(_)
                | NodeEvent::HostLeft(_)
                | NodeEvent::LeaderLost(_)
                | NodeEvent::ContactOver { .. }
                | NodeEvent::Joined { .. }
        )
    };
    events.iter().any(ends)
}

#[test]
fn a_silence_is_told_and_ends_nothing() {
    for (ms, is_noticed) in [(1000, false), (3000, true), (5000, true), (9500, true)] {
        let mut net = net(3, 1);
        let ids = ids(&net);
        let (near, far) = (net.enrol(0), net.enrol(2));
        assert!(net.send(0, near, far, 0, 100));
        net.run(50);
        assert_eq!(net.got(2, far), [0]);
        cut_off(&mut net, 2);
        assert!(net.send(0, near, far, 1, 100) && net.send(2, far, near, 0, 100));
        net.run(ms);
        let silent: Vec<_> = net.node(0).silent().collect();
        assert_eq!(silent.contains(&ids[2]), is_noticed, "after {ms} ms");
        if is_noticed {
            let spawn = SpawnTasks { program: b"p".to_vec(), count: 6, ..<_>::default() };
            let number = 77;
            let ask = ToDaemon::Ask { number, question: Question::Spawn(spawn) };
            net.says(0, near, ask);
            net.run(100);
            let starts = net.starts(0).len() + net.starts(1).len();
            assert_eq!(starts, 6, "all on the two that answer");
        }
        net.mend();
        net.run(2000);
        let told: Vec<_> = [0, 1, 2].into_iter().map(|host| net.events(host)).collect();
        assert!(!told.iter().any(|events| ended(events)), "after {ms} ms: {told:?}");
        let both = [NodeEvent::HostSilent(ids[2]), NodeEvent::HostHeard(ids[2])];
        let news: Vec<_> = told[0].iter().filter(|e| both.contains(e)).cloned().collect();
        assert_eq!(news, if is_noticed { both.to_vec() } else { Vec::new() });
        assert_eq!((net.got(2, far), net.got(0, near)), ([1].to_vec(), [0].to_vec()));
        all_are_who_they_were(&mut net, &ids);
    }
}

#[test]
fn what_goes_to_several_goes_to_a_silent_one_too() {
    let mut net = net(4, 1);
    let ids = ids(&net);
    let near = net.enrol(0);
    let far: Vec<_> = (1..4).map(|host| net.enrol(host)).collect();
    assert!(net.cast(0, near, &far, 0, 3000));
    net.run(100);
    cut_off(&mut net, 2);
    net.run(3000);
    assert_eq!(net.node(0).silent().collect::<Vec<_>>(), [ids[2]]);
    assert!(net.cast(0, near, &far, 1, 3000));
    net.run(2000);
    assert_eq!(net.got(2, far[1]), [0], "it waits");
    net.mend();
    net.run(3000);
    for (host, task) in (1..4).zip(far) {
        assert_eq!(net.got(host, task).last(), Some(&1), "host {host}");
    }
    all_are_who_they_were(&mut net, &ids);
}

#[test]
fn a_host_that_is_silent_for_too_long_is_lost() {
    let mut net = net(3, 1);
    let ids = ids(&net);
    cut_off(&mut net, 2);
    net.run(9800);
    let lost = |events: &[NodeEvent]| events.contains(&NodeEvent::HostLost(ids[2]));
    assert!(!lost(&net.events(0)));
    net.run(1000);
    assert!(lost(&net.events(0)) && lost(&net.events(1)));
    net.mend();
    net.run(5000);
    let again = net.id(2);
    assert!(again != ids[2], "it is another host now");
    assert_eq!(net.node(2).silent().count(), 0, "it hears everybody");
}

#[test]
fn a_leader_that_is_away_is_followed_again() {
    for ms in [1000, 3000, 5000, 9000] {
        let mut net = net(4, 1);
        let ids = ids(&net);
        let (a, b) = (net.enrol(1), net.enrol(2));
        cut_off(&mut net, 0);
        net.run(ms);
        assert!(net.send(1, a, b, 0, 10));
        net.run(50);
        assert_eq!(net.got(2, b), [0]);
        net.mend();
        net.run(1000);
        for host in 0..4 {
            let told = net.events(host);
            assert!(!ended(&told), "after {ms} ms, host {host}: {told:?}");
        }
        all_are_who_they_were(&mut net, &ids);
    }
}

#[test]
fn another_one_leads_while_the_leader_is_away_and_it_stays_who_it_is() {
    for ms in [1000, 3000, 5000, 9000] {
        let mut net = net(5, 3);
        let ids = ids(&net);
        let (a, b) = (net.enrol(0), net.enrol(4));
        assert!(net.send(0, a, b, 0, 10) && net.send(4, b, a, 0, 10));
        net.run(50);
        cut_off(&mut net, 0);
        assert!(net.send(0, a, b, 1, 10));
        net.run(ms);
        assert_eq!(net.node(0).leads(), ms < 2000, "after {ms} ms");
        assert!(net.node(1).leads() || net.node(2).leads() || ms < 2000, "after {ms} ms");
        net.mend();
        net.run(3000);
        assert_eq!((net.got(0, a), net.got(4, b)), ([0].to_vec(), [0, 1].to_vec()));
        for host in 0..5 {
            let told = net.events(host);
            let lost = told.iter().any(|e| matches!(e, NodeEvent::HostLost(_)));
            assert!(!lost, "after {ms} ms, host {host}: {told:?}");
        }
        all_are_who_they_were(&mut net, &ids);
    }
}

#[test]
fn a_host_whose_engine_has_ended_is_lost_at_once_by_its_guards_word() {
    for voters in [1, 3] {
        let mut net = net(5, voters);
        let ids = ids(&net);
        let words = net.node(4).last_words().expect("it is a host");
        let first = net.node(0).endpoint().public_key().0;
        assert_eq!(words.to[0], (super::net::addr(0), first), "the leader before all others");
        net.crash(4);
        // Another host's key says nothing of this one.
        net.stranger(4);
        let noted = Err(refusal::NOTED);
        for key in [4, 5] {
            net.stranger(key);
            let before = net.now;
            assert_eq!(knock(&mut net, 0, Admission::Member, Psk::MEMBER, &words.hello), noted);
            net.run(300);
            let lost = net.events(1).contains(&NodeEvent::HostLost(ids[4]));
            assert_eq!(lost, key == 5, "within {:?}", net.now.since(before));
        }
        // It is another one by then.
        net.run(2000);
        assert_eq!(knock(&mut net, 0, Admission::Member, Psk::MEMBER, &words.hello), noted);
        let up = net.node(0).hosts().filter(|h| h.state == HostState::Up).count();
        assert_eq!((up, net.node(0).malformed()), (4, 0));
    }
}

#[test]
fn a_leader_whose_engine_has_ended_is_lost_as_soon_as_another_one_leads() {
    let mut net = net(5, 3);
    let ids = ids(&net);
    let words = net.node(0).last_words().expect("it is a host");
    net.crash(0);
    net.stranger(1);
    for host in 1..5 {
        let noted = Err(refusal::NOTED);
        assert_eq!(knock(&mut net, host, Admission::Member, Psk::MEMBER, &words.hello), noted);
        let told = net.events(host);
        assert!(told.contains(&NodeEvent::LeaderLost(ids[0])), "{told:?}");
    }
    net.run(3000);
    for host in 1..5 {
        let told = net.events(host);
        assert!(told.contains(&NodeEvent::HostLost(ids[0])), "host {host}: {told:?}");
        assert!(!net.node(host).is_frozen());
    }
}
