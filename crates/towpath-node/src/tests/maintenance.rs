//! Hosts that are to be taken out, and a leader that is about to end.

use alloc::vec::Vec;

use towpath_vm::talk::{Place, Question, SpawnTasks, ToDaemon};

use super::net::{Net, config, program};
use super::parting::may_end;
use super::voting::sharing;
use crate::{DeleteError, NodeEvent};

fn spawned(net: &mut Net, by: usize, place: Place, count: u32) -> Vec<usize> {
    let task = net.enrol(by);
    let spawn = SpawnTasks { program: b"p".to_vec(), count, place, ..<_>::default() };
    net.says(by, task, ToDaemon::Ask { number: 1, question: Question::Spawn(spawn) });
    net.run(100);
    (0..net.seats.len()).map(|host| net.starts(host).len()).collect()
}

fn drain(net: &mut Net, by: usize, host: usize, on: bool) -> Result<(), DeleteError> {
    let host = net.id(host);
    net.call(by, |node, now, memory| node.drain_host(now, 1, host, on, memory))
}

#[test]
fn a_drained_host_goes_on_and_is_given_nothing_new() {
    let mut net = Net::new(3);
    let (one, two) = (net.id(0), net.id(1));
    let request = net.spawn(0, two, program(&[]));
    net.run(100);
    net.started(1);
    assert_eq!(drain(&mut net, 2, 1, true), Err(DeleteError::NotLeader));
    assert_eq!(drain(&mut net, 0, 1, true), Ok(()));
    net.run(100);
    for host in 0..3 {
        assert!(net.events(host).contains(&NodeEvent::HostDrains(two, true)), "host {host}");
        assert!(net.node(host).hosts().all(|h| h.drains() == (h.id == two)), "host {host}");
    }
    let started = spawned(&mut net, 2, Place::Any, 6);
    assert_eq!((started.iter().sum::<usize>(), started[1]), (6, 0), "{started:?}");
    assert_eq!(spawned(&mut net, 2, Place::Host(two), 2), [0, 0, 0]);
    let ended = net.news(0, request);
    assert!(ended.iter().all(|e| !matches!(e, towpath_vm::RequestEvent::Ended(_))), "{ended:?}");
    assert_eq!(drain(&mut net, 0, 1, false), Ok(()));
    net.run(100);
    assert!(net.events(2).contains(&NodeEvent::HostDrains(two, false)));
    assert_eq!(spawned(&mut net, 2, Place::Host(two), 2), [0, 2, 0]);
    assert_eq!(drain(&mut net, 0, 0, true), Ok(()), "the leader, too");
    net.run(100);
    assert!(net.node(2).hosts().all(|h| h.drains() == (h.id == one)));
}

#[test]
fn a_leader_that_ends_has_another_one_lead_first() {
    let mut net = Net::founded(sharing(0));
    for index in 1..5 {
        net.add(sharing(index));
        net.run(100);
    }
    net.run(1000);
    let before = net.id(0);
    let seen = net.call(0, |node, now, _| node.voters_seen(now));
    assert_eq!(seen.voters.len(), 3);
    assert!(seen.voters.iter().all(|v| v.votes && v.heard && v.behind == 0), "{seen:?}");
    assert_eq!(net.call(1, |node, now, _| node.voters_seen(now)), <_>::default());
    assert_eq!(drain(&mut net, 0, 1, true), Ok(()));
    net.run(50);
    assert!(!may_end(&mut net, 0), "another one is to lead first");
    net.run(100);
    assert!(may_end(&mut net, 0));
    let leads: Vec<usize> = (0..5).filter(|host| net.node(*host).leads()).collect();
    let [leader] = leads[..] else { panic!("{leads:?} lead") };
    assert!(leader > 0);
    for host in 0..5 {
        assert!(!net.node(host).is_frozen(), "host {host}");
        assert_eq!(net.node(host).leader(), Some(net.id(leader)));
    }
    // It is one like the others now, and leaves as such.
    let two = net.id(1);
    assert!(net.node(4).hosts().all(|h| h.drains() == (h.id == two)), "the new one knows it");
    net.call(0, |node, now, memory| node.leave(now, "left", memory));
    net.run(500);
    for host in 1..5 {
        assert!(net.events(host).contains(&NodeEvent::HostLeft(before)), "host {host}");
    }
}

#[test]
fn a_founder_that_alone_leads_has_nobody_to_hand_over_to() {
    for voters in [1, 3] {
        let mut net = Net::founded(crate::NodeConfig { voters, ..config(0, "h0") });
        assert!(may_end(&mut net, 0));
        let seen = net.call(0, |node, now, _| node.voters_seen(now));
        assert_eq!((seen.voters.len(), seen.voters[0].host), (1, net.id(0)));
    }
}
