//! Several hosts that keep the log are deleted: one after the other, and nobody has to ask twice.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::config::Liveness;
use towpath_vm::talk::{Answer, Fault, Question, ToDaemon, ToTask};
use towpath_wire::HostId;

use super::net::Net;
use super::voting::{leader, net, net_of, sharing};
use crate::node::deleting::{TURN_WITHIN, TURNS_MAX};
use crate::{DeleteError, NodeEvent};

const LEADER: usize = 0;

fn delete(net: &mut Net, number: u64, host: HostId) -> Result<(), DeleteError> {
    net.call(LEADER, |node, now, memory| node.delete_host(now, number, host, memory))
}

/// What the owner was told of its changes since, with their numbers.
fn outcomes(net: &mut Net) -> Vec<(u64, Result<(), DeleteError>)> {
    let changed = |event| match event {
        NodeEvent::TableChanged { number, outcome } => Some((number, outcome)),
        _ => None,
    };
    net.events(LEADER).into_iter().filter_map(changed).collect()
}

/// Those that keep the log, without the one that leads.
fn others(net: &mut Net) -> [HostId; 2] {
    let (voters, _) = net.node(LEADER).voters();
    let [_, two, three] = voters[..] else { panic!("{voters:?}") };
    [two, three]
}

#[test]
fn of_those_that_keep_the_log_one_is_deleted_after_the_other() {
    let mut net = net(5);
    let [two, three] = others(&mut net);
    assert_eq!((delete(&mut net, 1, two), delete(&mut net, 2, three)), (Ok(()), Ok(())));
    assert_eq!(outcomes(&mut net), [], "nothing is decided yet");
    net.run(500);
    assert_eq!(outcomes(&mut net), [(1, Ok(())), (2, Ok(()))]);
    for host in 1..5 {
        if net.node(host).me().is_some_and(|me| [two, three].contains(&me)) {
            net.crash(host);
        }
    }
    net.run(5000);
    assert_eq!(leader(&mut net), LEADER);
    assert_eq!(net.node(LEADER).voters().0.len(), 3);
}

#[test]
fn a_task_that_deletes_several_has_one_answer_once_all_are_out() {
    let mut net = net(5);
    let [two, three] = others(&mut net);
    let (task, founder) = (net.enrol(LEADER), net.id(LEADER));
    let hosts = vec![two, three, founder, three, two];
    net.says(LEADER, task, ToDaemon::Ask { number: 1, question: Question::DeleteHosts(hosts) });
    assert_eq!(net.told(LEADER, task), []);
    net.run(500);
    let none = Err(Fault::NoHost);
    let each = vec![Ok(()), Ok(()), Err(Fault::Denied), none.clone(), none];
    let answer = ToTask::Answer { number: 1, answer: Ok(Answer::Each(each)) };
    assert_eq!(net.told(LEADER, task), [answer]);
    let left: Vec<HostId> = net.node(LEADER).hosts().map(|host| host.id).collect();
    assert!(left.len() == 3 && !left.contains(&two) && !left.contains(&three), "{left:?}");
}

/// Three keep the log, and one of them is lost: there is none in its place.
fn with_one_lost() -> (Net, HostId, HostId) {
    let mut net = net(3);
    let (two, three) = (net.id(1), net.id(2));
    net.crash(1);
    net.run(20_000);
    net.events(LEADER);
    (net, two, three)
}

#[test]
fn where_one_is_lost_the_other_waits_for_that_one_to_go_first_and_not_for_ever() {
    let (mut net, two, three) = with_one_lost();
    let within_ms = u64::try_from(TURN_WITHIN.as_millis()).expect("seconds");
    let task = net.enrol(LEADER);
    let question = Question::DeleteHosts(vec![three]);
    net.says(LEADER, task, ToDaemon::Ask { number: 1, question });
    assert_eq!(delete(&mut net, 1, three), Ok(()));
    net.run(within_ms - 100);
    assert_eq!((outcomes(&mut net), net.told(LEADER, task)), (vec![], vec![]));
    net.run(300);
    assert_eq!(outcomes(&mut net), [(1, Err(DeleteError::Voter(three)))]);
    let refused = Ok(Answer::Each(vec![Err(Fault::Denied)]));
    assert_eq!(net.told(LEADER, task), [ToTask::Answer { number: 1, answer: refused }]);
    // Now the lost one is deleted while it waits.
    assert_eq!((delete(&mut net, 2, three), delete(&mut net, 3, two)), (Ok(()), Ok(())));
    net.run(500);
    assert_eq!(outcomes(&mut net), [(3, Ok(())), (2, Ok(()))]);
    assert_eq!(net.node(LEADER).hosts().count(), 1);
}

#[test]
fn who_has_to_wait_longer_keeps_nobody_else_waiting() {
    let (mut net, two, three) = with_one_lost();
    // The second waits for the lost one to go, and that one for what the second was about to do.
    let until = net.now + Duration::from_millis(500);
    net.node(LEADER).voting.leaving = Some((three, until));
    assert_eq!((delete(&mut net, 1, three), delete(&mut net, 2, two)), (Ok(()), Ok(())));
    net.run(400);
    assert_eq!(outcomes(&mut net), []);
    net.run(400);
    assert_eq!(outcomes(&mut net), [(2, Ok(())), (1, Ok(()))]);
}

#[test]
fn no_more_wait_than_are_remembered() {
    let (mut net, _, three) = with_one_lost();
    for number in 0..TURNS_MAX as u64 {
        assert_eq!(delete(&mut net, number, three), Ok(()));
    }
    assert_eq!(delete(&mut net, 99, three), Err(DeleteError::Voter(three)));
    let task = net.enrol(LEADER);
    let each = net.ask(LEADER, task, Question::DeleteHosts(vec![three]));
    assert_eq!(each, Ok(Answer::Each(vec![Err(Fault::Denied)])), "at once");
    net.run(5000);
    assert_eq!(outcomes(&mut net).len(), TURNS_MAX);
}

#[test]
fn who_waits_while_the_lead_is_lost_hears_that_nothing_is_decided() {
    let mut net = net(5);
    let [two, three] = others(&mut net);
    let task = net.enrol(LEADER);
    for other in 1..5 {
        net.cut(LEADER, other);
    }
    assert_eq!((delete(&mut net, 1, two), delete(&mut net, 2, three)), (Ok(()), Ok(())));
    let question = Question::DeleteHosts(vec![three]);
    net.says(LEADER, task, ToDaemon::Ask { number: 1, question });
    net.run(40_000);
    let mut told = outcomes(&mut net);
    told.sort_by_key(|(number, _)| *number);
    let [(1, Err(DeleteError::Undecided)), (2, Err(why))] = told[..] else { panic!("{told:?}") };
    assert!(matches!(why, DeleteError::NothingDecided | DeleteError::NotLeader), "{why:?}");
    let answers = net.told(LEADER, task);
    let [ToTask::Answer { number: 1, answer: Ok(Answer::Each(each)) }] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(matches!(each[..], [Err(Fault::Frozen(_))]), "{each:?}");
}

/// It is dead, and nobody knows yet: the other one's vote is needed to find out.
#[test]
fn none_is_deleted_that_the_others_could_decide_nothing_without() {
    let mut founder = sharing(LEADER);
    founder.proto.liveness = Liveness::after(Duration::from_secs(10));
    let mut net = net_of(4, founder);
    let [two, three] = others(&mut net);
    let silent = (1..4).find(|host| net.id(*host) == two).expect("it is there");
    net.crash(silent);
    net.run(1500);
    assert_eq!(delete(&mut net, 1, three), Ok(()), "it waits for its turn");
    let within_ms = u64::try_from(TURN_WITHIN.as_millis()).expect("seconds");
    net.run(within_ms + 200);
    assert_eq!(outcomes(&mut net), [(1, Err(DeleteError::Voter(three)))]);
    assert!(!net.node(LEADER).is_frozen());
    // Once it is lost, and the fourth one votes in its place, any may go.
    net.run(20_000);
    net.events(LEADER);
    assert_eq!(delete(&mut net, 2, three), Ok(()));
    net.run(4000);
    assert_eq!(outcomes(&mut net), [(2, Ok(()))]);
    assert!(!net.node(LEADER).is_frozen());
}
