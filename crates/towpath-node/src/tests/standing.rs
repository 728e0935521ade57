//! A host and those that lead it, or say so: what it tells them, and what it believes.

use core::time::Duration;

use towpath_proto::{AssociationId, ConnectFailure, Refusal};
use towpath_vm::control::ControlState;
use towpath_vm::message::{Report, Resumed};
use towpath_vm::{Change, Entry, Host, HostState, Message, Snapshot};
use towpath_wire::HostId;

use super::judging::led_by;
use super::{NOW, append, events, node};
use crate::config::refusal;
use crate::{Node, NodeEvent};

fn refused(code: u16) -> ConnectFailure {
    ConnectFailure::Refused(Refusal { code, text: "no".into() })
}

/// One that follows the first of three others; who may lead where `is_shared`: the first two.
pub(super) fn following(is_shared: bool) -> (Node, [HostId; 3]) {
    let (mut node, two, _) = node();
    let more = [3, 4].map(|slot| {
        let id = HostId::new(slot, slot.into()).expect("a host");
        let like: Host = node.hosts().next().expect("itself").clone();
        let key = [slot as u8; 32];
        append(&mut node, Change::Added(Host { id, key, state: HostState::Up, ..like }));
        id
    });
    if is_shared {
        append(&mut node, Change::Voters([two, more[0]].into()));
    }
    led_by(&mut node, two);
    for (n, host) in [two, more[0], more[1]].into_iter().enumerate() {
        node.peers.set_up(host, AssociationId(n as u32));
    }
    events(&mut node);
    (node, [two, more[0], more[1]])
}

/// What waits for a host: reports without and with what this one has, and answers with that.
fn waits(node: &Node, host: HostId) -> (usize, usize, usize) {
    let all = node.queued(host);
    let count = |is: &dyn Fn(&Message) -> bool| all.iter().filter(|m| is(m)).count();
    (
        count(&|m| matches!(m, Message::Report(r) if r.snapshot.is_none())),
        count(&|m| matches!(m, Message::Report(r) if r.snapshot.is_some())),
        count(&|m| matches!(m, Message::Resumed(r) if r.snapshot.is_some())),
    )
}

/// What another one has, in which this came after what the node has.
fn later(node: &Node, changes: &[Change]) -> Snapshot {
    let mut log = node.log.clone().expect("a log");
    for change in changes {
        let (term, index) = log.snapshot().place();
        let entry = Entry { term, index: index + 1, change: change.clone() };
        log.follow(&entry).expect("it follows");
    }
    log.snapshot().clone()
}

fn resumed(node: &mut Node, from: HostId, snapshot: Option<Snapshot>) {
    node.handle_resumed(NOW, from, Resumed { snapshot });
}

#[test]
fn those_that_may_lead_are_asked_about_one_that_says_it_leads_once_a_second() {
    let (mut node, [leader, other, liar]) = following(true);
    let (term, index) = node.log.as_ref().map(|log| log.snapshot().place()).expect("a log");
    node.doubt(NOW, liar, (term, index));
    assert_eq!([leader, other, liar].map(|host| waits(&node, host).0), [0, 0, 0], "no news");
    let second = Duration::from_secs(1);
    for (at, asked) in [(0, 1), (999, 1), (1000, 2), (1500, 2), (2000, 3)] {
        node.doubt(NOW + Duration::from_millis(at), liar, (term + 1, 0));
        assert_eq!([leader, other, liar].map(|host| waits(&node, host).0), [asked, asked, 0]);
    }
    append(&mut node, Change::Lost(other));
    node.doubt(NOW + second * 5, liar, (term + 1, 0));
    assert_eq!([leader, other].map(|host| waits(&node, host).0), [4, 3], "who is there");
    assert_eq!(node.malformed(), 0);
}

#[test]
fn one_that_asks_the_wrong_host_hears_who_leads_where_that_is_news() {
    let (term, index) = following(true).0.log.map(|log| log.snapshot().place()).expect("a log");
    for (is_shared, frozen, (term, index), answers) in [
        (true, false, (term, index - 1), 1),
        (true, false, (term - 1, index + 9), 1),
        (true, false, (term, index), 0),
        (true, false, (term, index + 1), 0),
        (true, true, (term, index - 1), 0),
        (false, false, (0, 0), 1),
        (false, false, (term, index), 0),
        (false, true, (0, 0), 0),
    ] {
        let (mut node, [_, other, _]) = following(is_shared);
        node.standing.frozen = frozen;
        let registered = [].into();
        node.handle_report(NOW, other, Report { term, index, registered, snapshot: None });
        assert_eq!(waits(&node, other).2, answers, "{term}, {index}, frozen: {frozen}");
        assert_eq!(node.malformed(), 0, "it may have been one that leads");
    }
}

#[test]
fn a_leader_that_is_back_is_told_what_there_is_and_followed_when_it_answers() {
    let (mut node, [leader, other, third]) = following(true);
    node.leader_out_of_contact(NOW, leader);
    node.watch.silent.insert(other);
    events(&mut node);
    let own = node.log.as_ref().map(|log| log.snapshot().place()).expect("a log");
    node.contact_is_back(NOW, other, AssociationId(1), None);
    assert_eq!(events(&mut node), [NodeEvent::HostHeard(other)]);
    assert_eq!(waits(&node, other), (1, 0, 0), "it may know who leads");
    node.contact_is_back(NOW, leader, AssociationId(0), Some(own));
    assert_eq!((events(&mut node), waits(&node, leader)), ([].into(), (1, 0, 0)));
    node.tell_standing(NOW, Some(own));
    assert_eq!(waits(&node, leader), (1, 0, 0), "once");
    node.tell_standing(NOW, Some((own.0, own.1 - 1)));
    assert_eq!(waits(&node, leader), (1, 1, 0), "it has less");
    resumed(&mut node, leader, None);
    let back = [NodeEvent::HostHeard(leader), NodeEvent::LeaderBack(leader)];
    assert_eq!((events(&mut node), node.is_frozen()), (back.into(), false));
    node.contact_is_back(NOW, third, AssociationId(2), None);
    assert_eq!(waits(&node, third), (0, 0, 0), "it has nothing to ask");
    let (mut node, [leader, other, _]) = following(false);
    node.leader_out_of_contact(NOW, leader);
    node.contact_is_back(NOW, other, AssociationId(1), None);
    assert_eq!(waits(&node, other), (0, 0, 0), "nobody else may lead");
}

#[test]
fn a_leader_is_followed_only_to_what_is_later_and_another_one_only_if_it_may_lead() {
    let (mut node, [leader, other, third]) = following(true);
    let mut behind = later(&node, &[]);
    behind.index -= 1;
    resumed(&mut node, leader, Some(behind));
    let why = "it has an older table";
    assert_eq!((node.is_frozen(), node.refused()), (true, Some(why)));
    let says = NodeEvent::LeaderRefuses { leader, why: why.into() };
    assert_eq!(events(&mut node), [says]);
    let drains = later(&node, &[Change::Drains(third, true), Change::Left(other)]);
    resumed(&mut node, leader, Some(drains.clone()));
    assert_eq!((node.is_frozen(), node.refused(), node.log_index()), (false, None, drains.index));
    let told = events(&mut node);
    for event in [NodeEvent::HostDrains(third, true), NodeEvent::HostLeft(other)] {
        assert!(told.contains(&event), "{told:?}");
    }
    // What one says that may not lead, or what is no news.
    let lost = later(&node, &[Change::Lost(third)]);
    resumed(&mut node, third, Some(lost.clone()));
    assert_eq!((node.log_index(), node.malformed()), (drains.index, 0));
    resumed(&mut node, leader, Some(lost));
    assert!(events(&mut node).contains(&NodeEvent::HostLost(third)));
    assert!(node.joining.is_none());
    let me = node.me().expect("it is one");
    let fenced = later(&node, &[Change::Lost(me)]);
    resumed(&mut node, leader, Some(fenced));
    let joining = node.joining.as_ref().expect("it is lost, as its leader has it");
    assert_eq!(joining.key.0, [2; 32]);
    assert!(node.is_frozen());
}

#[test]
fn one_that_may_lead_is_believed_about_who_does_where_it_knows_more() {
    let (mut node, [leader, other, third]) = following(true);
    let mut log: ControlState = node.log.clone().expect("a log");
    let (term, index) = log.snapshot().place();
    let change = Change::Leads(other);
    log.follow(&Entry { term: term + 1, index: index + 1, change }).expect("it follows");
    let says = log.snapshot().clone();
    resumed(&mut node, third, Some(says.clone()));
    assert_eq!(node.leader(), Some(leader), "it may not");
    resumed(&mut node, other, Some(says.clone()));
    assert_eq!((node.leader(), node.is_frozen()), (Some(other), true));
    assert_eq!(waits(&node, other), (1, 0, 0), "that one is asked");
    resumed(&mut node, leader, Some(later(&following(true).0, &[])));
    assert_eq!((node.leader(), node.malformed()), (Some(other), 0), "it is behind");
    resumed(&mut node, other, Some(says));
    assert!(!node.is_frozen());
}

#[test]
fn where_the_leader_does_not_answer_those_that_may_lead_are_asked_who_does() {
    for (failure, asks) in [
        (ConnectFailure::NoAnswer, 1),
        (refused(refusal::RETURNING), 1),
        (refused(refusal::RECOVERING), 0),
        (refused(refusal::NOT_MEMBER), 0),
        (ConnectFailure::WrongKey, 0),
    ] {
        let (mut node, [leader, other, third]) = following(true);
        let again = node.leader_failed(NOW, leader, &failure);
        assert_eq!(again, Duration::from_secs(1));
        let asked = [leader, other, third].map(|host| waits(&node, host).0);
        assert_eq!(asked, [0, asks, 0], "{failure:?}");
        let says = matches!(&failure, ConnectFailure::Refused(r) if r.code == refusal::NOT_MEMBER);
        assert_eq!(node.refused().is_some(), says, "{failure:?}");
    }
    let (mut node, [leader, other, _]) = following(true);
    append(&mut node, Change::Lost(other));
    node.leader_failed(NOW, leader, &ConnectFailure::NoAnswer);
    assert_eq!(waits(&node, other).0, 0, "it is not there");
    let (mut node, [leader, other, _]) = following(false);
    node.leader_failed(NOW, leader, &ConnectFailure::NoAnswer);
    assert_eq!(waits(&node, other).0, 0, "nobody else may lead");
}

#[test]
fn a_host_that_may_not_lead_and_says_so_is_what_none_says() {
    let (mut node, [_, _, third]) = following(false);
    let (term, index) = node.log.as_ref().map(|log| log.snapshot().place()).expect("a log");
    for times in 1..3 {
        node.doubt(NOW, third, (term + 1, index));
        assert_eq!(node.malformed(), times);
    }
    node.requests.strays = 5;
    assert_eq!(node.malformed(), 7, "with those who speak of requests that there are not");
}
