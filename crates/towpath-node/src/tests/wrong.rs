//! What a host is told that nobody should say: it counts once, unless another one may have come to
//! lead meanwhile, and changes nothing.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::control::ControlState;
use towpath_vm::message::{
    Blocked, Consensus, Entries, Halt, Keep, Parted, Report, Resumed, StreamAsk, StreamAt,
    TaskEnded, TaskOver, Unreachable,
};
use towpath_vm::{Change, Entry, Host, HostState, Message};
use towpath_wire::HostId;

use super::judging::led_by;
use super::{NOW, append, node};
use crate::Node;

/// A node that leads, another host, and a third one.
fn three() -> (Node, HostId, HostId) {
    let (mut node, other, _) = node();
    let id = HostId::new(3, 3).expect("a host");
    let like: Host = node.hosts().next().expect("itself").clone();
    append(&mut node, Change::Added(Host { id, key: [3; 32], state: HostState::Up, ..like }));
    // Not nothing: what counts wrongly is seen.
    node.malformed = 5;
    (node, other, id)
}

/// So many hosts may come to lead.
fn shared(mut node: Node, hosts: &[HostId]) -> Node {
    append(&mut node, Change::Voters(hosts.to_vec()));
    node
}

fn count(node: &mut Node, from: HostId, says: Vec<Message>) -> Vec<u64> {
    let count = |message| {
        let (before, index) = (node.malformed(), node.log_index());
        node.handle_message(NOW, from, message);
        assert_eq!(node.log_index(), index, "nothing changes");
        node.malformed().wrapping_sub(before)
    };
    says.into_iter().map(count).collect()
}

/// What only whoever leads may say, and says to one that follows.
fn as_leader(node: &Node, from: HostId) -> Vec<Message> {
    let mut snapshot = node.log.as_ref().map(ControlState::snapshot).expect("a log").clone();
    snapshot.index += 1;
    let (term, index) = snapshot.place();
    let entries = [Entry { term, index, change: Change::Lost(from) }].into();
    let (generation, replica) = (1, from.to_raw());
    [
        Message::Entries(Entries { entries }),
        Message::Resumed(Resumed { snapshot: Some(snapshot) }),
        Message::Keep(Keep { generation, replica, vm_key: [1; 32], voters: 3 }),
        Message::Reach(Unreachable { host: from }),
    ]
    .into()
}

/// What only one that follows says, to whoever leads.
fn as_follower(host: HostId) -> Vec<Message> {
    let report = Report { term: 1, index: 1, registered: Vec::new(), snapshot: None };
    [
        Message::Report(report),
        Message::Unreachable(Unreachable { host }),
        Message::Reached(Unreachable { host }),
        Message::Unheard(Unreachable { host }),
    ]
    .into()
}

#[test]
fn who_does_not_lead_may_not_speak_as_if_unless_others_may_have_come_to_lead() {
    let (mut alone, other, third) = three();
    let says = as_leader(&alone, other);
    assert_eq!(count(&mut alone, other, says), [1, 1, 1, 1]);
    let me = alone.me().expect("it is one");
    let mut several = shared(three().0, &[me, third]);
    let says = as_leader(&several, other);
    assert_eq!(count(&mut several, other, says), [0, 0, 0, 0]);
    assert!(several.leads() && several.vm_key() == Some(&[7; 32]));
    assert!(several.voting.voter.is_none() && several.voting.asked_about.is_empty());
}

#[test]
fn who_does_not_lead_is_told_nothing_that_only_a_leader_hears_unless_it_may_have_led() {
    let (mut alone, other, third) = three();
    led_by(&mut alone, other);
    // One that knows less may be of the time before all that may lead started again.
    assert_eq!(count(&mut alone, third, as_follower(other)), [0, 1, 1, 1]);
    let says = as_leader(&alone, third);
    assert_eq!(count(&mut alone, third, says), [1, 1, 1, 1]);
    let mut several = shared(three().0, &[other, third]);
    led_by(&mut several, other);
    assert_eq!(count(&mut several, third, as_follower(other)), [0; 4]);
    assert_eq!(several.leader(), Some(other));
}

#[test]
fn nobody_speaks_for_tasks_of_another_host() {
    let (mut node, other, third) = three();
    let me = node.me().expect("it is one");
    let [own, theirs, thirds] = [me, other, third].map(|host| host.task(4).expect("a task"));
    let says = |theirs| {
        [
            Message::Blocked(Blocked { sender: theirs, receiver: own, sent: 0, need: 1 }),
            Message::StreamAsk(StreamAsk { from: theirs, to: own, key: [0; 32] }),
            Message::StreamAt(StreamAt { from: own, to: theirs, port: None }),
            Message::TaskEnded(TaskEnded { task: theirs, ending: None }),
            Message::Parted(Parted { task: theirs, peer: own }),
            Message::TaskOver(TaskOver { task: theirs }),
        ]
        .into()
    };
    assert_eq!(count(&mut node, other, says(theirs)), [0; 6]);
    assert_eq!(count(&mut node, other, says(thirds)), [1; 6]);
    let of_others = [
        Message::StreamAt(StreamAt { from: thirds, to: theirs, port: None }),
        Message::Parted(Parted { task: theirs, peer: thirds }),
        Message::Halt(Halt {}),
    ];
    assert_eq!(count(&mut node, other, of_others.into()), [1; 3]);
}

#[test]
fn what_is_said_of_a_log_that_is_not_kept_here_is_not_heard() {
    let (mut node, other, _) = three();
    let says = Message::Consensus(Consensus { bytes: [9; 40].into() });
    assert_eq!(count(&mut node, other, [says].into()), [0]);
    let mut net = super::voting::net(3);
    let (one, from) = (net.id(0), net.id(1));
    net.call(0, |node, now, _| {
        let before = node.malformed();
        let wrong = |bytes: &[u8]| Consensus { bytes: bytes.to_vec() };
        node.handle_consensus(now, from, &wrong(&[0xff; 3]), false);
        assert_eq!(node.malformed() - before, 1);
    });
    // What one says in another's name.
    net.run(50);
    let now = net.now;
    let voter = net.node(1).voting.voter.as_mut().expect("it votes");
    let said = (1..200).flat_map(|n| {
        voter.tick(now + Duration::from_millis(100) * n);
        voter.outgoing()
    });
    let said = { said }.find(|said| said.to == one);
    let bytes = said.expect("it has been silent for long").bytes;
    let third = net.id(2);
    net.call(0, |node, now, _| {
        let before = node.malformed();
        node.handle_consensus(now, third, &Consensus { bytes }, false);
        assert_eq!(node.malformed() - before, 1);
    });
}
