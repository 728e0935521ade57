//! What comes from another host's daemon, straight into one node: there is no network.

extern crate std;

mod alone;
mod bounds;
mod broken;
mod channels;
mod commit;
mod contact;
mod contents;
mod copying;
mod data;
mod deleting;
mod disk;
mod excess;
mod hostile;
mod joining;
mod judging;
mod keeping;
mod kept;
mod ledger;
mod lives;
mod loss;
mod maintenance;
mod metrics;
mod minority;
mod net;
mod owners;
mod parting;
mod passing;
mod promising;
mod questions;
mod relaying;
mod reserving;
mod returns;
mod seen;
mod senders;
mod silence;
mod spawning;
mod standin;
mod standing;
mod telling;
mod tokens;
mod unique;
mod voters;
mod voting;
mod written;
mod wrong;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use towpath_proto::crypto::{CryptoError, Handshake, HeaderKey, PacketKey, Secrets};
use towpath_proto::{
    AssociationId, Config, Crypto, HeapMemory, HostKey, Machine, Memory, Psk, Rng,
};
use towpath_vm::control::{is_with_slot, with_slot};
use towpath_vm::data::Placed;
use towpath_vm::host::NAME_MAX;
use towpath_vm::message::{Asked, Entries, Resumed, SpawnFor, StreamAsk};
use towpath_vm::talk::{
    Enrol, Fault, MAIL_MAX, MailRules, Question, RegistryOp, SpawnTasks, Subject, TALK_VERSION,
    ToDaemon, ToTask,
};
use towpath_vm::{Change, Entry, Host, HostState, Message, Tasks};
use towpath_wire::talk::Header;
use towpath_wire::{Admission, ByteSize, ChannelId, HostId, Instant, TaskId};

use crate::config::refusal;

use crate::direct::ROUTES_MAX;
use crate::hello::Purpose;
use crate::{Links, Node, NodeConfig, NodeEvent};

/// No cryptography: nothing of these tests goes out.
struct Mute;

impl Crypto for Mute {
    fn public_key(&self) -> HostKey {
        HostKey([1; 32])
    }

    fn initiate(&mut self, _: &HostKey, _: &Psk, _: &[u8]) -> Box<dyn Handshake> {
        Box::new(Self)
    }

    fn respond(&mut self, _: &[u8]) -> Box<dyn Handshake> {
        Box::new(Self)
    }

    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(HeaderKey::new(secret))
    }

    fn mac(&self, _: &[u8; 32], _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn derive(&self, secret: &[u8; 32], _: &[u8]) -> [u8; 32] {
        *secret
    }

    fn random(&mut self) -> [u8; 32] {
        [3; 32]
    }
}

impl Handshake for Mute {
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        out[..payload.len()].copy_from_slice(payload);
        Ok(payload.len())
    }

    fn read(&mut self, _: &[u8], _: &mut [u8]) -> Result<usize, CryptoError> {
        Err(CryptoError)
    }

    fn remote_key(&self) -> Option<HostKey> {
        None
    }

    fn set_psk(&mut self, _: &Psk) -> Result<(), CryptoError> {
        Ok(())
    }

    fn split(self: Box<Self>) -> Secrets {
        Secrets { send: [0; 32], receive: [0; 32] }
    }
}

const NOW: Instant = Instant::ZERO;

/// A node that founded a virtual machine and believes in another host, and its memory.
fn node() -> (Node, HostId, HeapMemory) {
    let config = NodeConfig {
        name: "one".into(),
        build: "test".into(),
        links: Links::one(([10, 0, 0, 1], 7077).into()),
        arch: "any".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: 1_000_000,
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    };
    let mut node = Node::found(config, Box::new(Mute), Rng::new(1, 2), [7; 32]);
    let other = HostId::new(2, 2).expect("a host");
    let mut host = node.hosts().next().expect("itself").clone();
    host = Host { id: other, name: "two".into(), key: [2; 32], state: HostState::Up, ..host };
    append(&mut node, Change::Added(host));
    (node, other, HeapMemory::new(ByteSize::from_mib(4)))
}

/// The next entry of a node's log, whoever decided it.
fn append(node: &mut Node, change: Change) {
    let log = node.log.as_mut().expect("a log");
    let (term, index) = log.snapshot().place();
    log.follow(&Entry { term, index: index + 1, change }).expect("it follows");
}

fn enrol(node: &mut Node, memory: &mut HeapMemory) -> TaskId {
    let enrol = Enrol { version: TALK_VERSION, claim: None, pid: 1, command: String::new() };
    node.task_enrol(NOW, &enrol, memory).expect("it enrols")
}

fn events(node: &mut Node) -> Vec<NodeEvent> {
    core::iter::from_fn(|| node.poll_event()).collect()
}

fn faults(node: &Node, host: HostId) -> Vec<Fault> {
    let fault = |m| if let Message::Answered(a) = m { a.answer.err() } else { None };
    node.queued(host).into_iter().filter_map(fault).collect()
}

#[test]
fn another_hosts_spawn_is_held_to_the_limits_of_a_task() {
    let (mut node, other, _) = node();
    // What the asker's job came of: a request of ours that runs there.
    let request = node.requests.open(other, 1, true).expect("a request").0;
    let asker = other.task(5).expect("a task");
    let large = alloc::vec![b'x'; 400 << 10];
    for (count, arg) in [(u32::MAX, Vec::new()), (0, Vec::new()), (4000, large)] {
        let spawn =
            SpawnTasks { program: b"p".to_vec(), args: [arg].into(), count, ..<_>::default() };
        let ask = SpawnFor { request, asker, number: 1, catch: false, spawn };
        node.handle_message(NOW, other, Message::SpawnFor(ask));
    }
    let faults = faults(&node, other);
    assert!(
        matches!(&faults[..], [Fault::Bad(_), Fault::Bad(_), Fault::Limit { limit, .. }]
            if *limit == 64 << 20),
        "{faults:?}"
    );
    assert!(node.jobs.spawning.is_empty());
    assert_eq!(node.requests.len(), 1, "nothing was asked of anybody");
}

#[test]
fn another_hosts_questions_are_held_to_the_limits_of_a_task() {
    let (mut node, other, _) = node();
    let put = RegistryOp::Put {
        name: "box".into(),
        index: None,
        rules: MailRules::default(),
        format: 0,
        content: alloc::vec![0; MAIL_MAX + 1],
    };
    let asker = other.task(5).expect("a task");
    let asked =
        Asked { asker, number: 1, serial: <_>::default(), question: Question::Registry(put) };
    node.handle_message(NOW, other, Message::Asked(asked));
    let faults = faults(&node, other);
    assert!(matches!(&faults[..], [Fault::Limit { .. }]), "{faults:?}");
    assert!(node.log.as_ref().expect("a log").registry().is_empty());
}

#[test]
fn two_that_ask_each_other_at_the_limit_of_routes_get_theirs() {
    let (mut node, two, mut memory) = node();
    // We are the second host: of two that ask each other, the other one's task connects.
    let other = node.me.replace(two).expect("the first");
    node.tasks = Some(Tasks::new(two, 2));
    let task = enrol(&mut node, &mut memory);
    let peers = (1..).map(|n| other.task(n).expect("a task"));
    let peers: Vec<TaskId> = peers.take(ROUTES_MAX + 1).collect();
    for peer in &peers[..ROUTES_MAX] {
        node.task_says(NOW, task, ToDaemon::Direct { peer: *peer }, &mut memory);
    }
    events(&mut node);
    let ask = |from| Message::StreamAsk(StreamAsk { from, to: task, key: [1; 32] });
    let (last, beyond) = (peers[ROUTES_MAX - 1], peers[ROUTES_MAX]);
    node.handle_message(NOW, other, ask(last));
    let listens = |e: &NodeEvent| match e {
        NodeEvent::ToTask { say: ToTask::Stream(offer), .. } => offer.peer == last,
        _ => false,
    };
    assert!(events(&mut node).iter().any(listens), "both asked, so there is room");
    node.handle_message(NOW, other, ask(beyond));
    let refusal = node.queued(other).pop();
    assert!(matches!(refusal, Some(Message::StreamAt(at)) if at.port.is_none()), "{refusal:?}");
}

#[test]
fn a_multicast_that_names_a_receiver_twice_is_the_end_of_its_sender() {
    let (mut node, other, mut memory) = node();
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let peer = other.task(1).expect("a task");
    let header =
        Header { src: task, dst: peer, tag: 0, context: 0, seq: 0, format: 0, total: 9, offset: 0 };
    let to = [(peer, 0), (other.task(2).expect("a task"), 0), (peer, 1)];
    node.task_multicast(NOW, task, &to, &header.emit(), &[0; 9], &mut memory);
    assert!(matches!(&events(&mut node)[..], [NodeEvent::CutOff { task: t, .. }] if *t == task));
}

#[test]
fn a_piece_that_says_to_come_before_the_first_is_dropped() {
    let (mut node, other, mut memory) = node();
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let src = other.task(1).expect("a task");
    let header =
        Header { src, dst: task, tag: 0, context: 0, seq: 0, format: 0, total: 9, offset: 0 };
    for place in [u32::MAX, 1 << 31, 0] {
        let front = Placed::straight(alloc::vec![(task, 0, place)]).front();
        let block = memory.put_parts(&[&front, &header.emit(), &[5; 9]]).expect("there is room");
        let via = (AssociationId(0), ChannelId(6));
        node.handle_data(NOW, other, via, block, &mut memory);
        node.pump(NOW, &mut memory);
        let given = events(&mut node).len();
        assert_eq!(given, usize::from(place == 0), "place {place}");
    }
}

#[test]
fn a_task_that_floods_a_host_that_does_not_read_is_not_listened_to_and_the_host_stays() {
    let (mut node, other, mut memory) = node();
    let (task, peer) = (enrol(&mut node, &mut memory), other.task(1).expect("a task"));
    let mut heard = 0;
    let name = "n".repeat(200);
    while heard < 1_000_000 {
        let watch = ToDaemon::Watch { watch: 1, subject: Subject::Task(peer) };
        if let Some(crowded) = node.task_says(NOW, task, watch, &mut memory) {
            assert_eq!(crowded, other);
            break;
        }
        node.task_says(NOW, task, ToDaemon::Unwatch { watch: 1 }, &mut memory);
        heard += 1;
    }
    assert!((1000..200_000).contains(&heard), "{heard} words were taken in");
    assert!(!node.has_room(other));
    let all = ToDaemon::Ask { number: 2, question: Question::Tasks(None) };
    assert_eq!(node.task_says(NOW, task, all, &mut memory), Some(other));
    // What does not concern that host is heard, and nobody who waits for another one waits for it.
    assert!(node.has_room(node.me().expect("it has joined")));
    let mine = ToDaemon::Ask { number: 1, question: Question::Registry(RegistryOp::Join(name)) };
    assert_eq!(node.task_says(NOW, task, mine, &mut memory), None);
    assert!(node.hosts().all(|h| h.state == HostState::Up));
    let lost = |e: &NodeEvent| matches!(e, NodeEvent::HostLost(_));
    assert!(!events(&mut node).iter().any(lost));
}

#[test]
fn a_name_that_is_taken_stays_within_its_length() {
    assert_eq!(with_slot("node", 12), "node~12");
    let long = "n".repeat(NAME_MAX);
    assert_eq!(with_slot(&long, 4095), long[..NAME_MAX - 5].to_string() + "~4095");
    // Cut between letters.
    assert_eq!(with_slot(&"\u{e9}".repeat(32), 2), "\u{e9}".repeat(31) + "~2");
}

#[test]
fn a_host_that_was_declared_lost_is_refused_as_the_member_it_was() {
    let (mut node, other, _) = node();
    let judge = |node: &Node, purpose| {
        let verdict = node.judge(NOW, &HostKey([2; 32]), &Admission::Member, purpose);
        verdict.map_err(|(code, _)| code)
    };
    assert_eq!(judge(&node, Purpose::Member(other)), Ok(Some(other)));
    assert_eq!(judge(&node, Purpose::Rejoin), Err(refusal::STANDS), "it need not");
    let before = HostId::new(2, 1).expect("a host");
    assert_eq!(judge(&node, Purpose::Member(before)), Err(refusal::FENCED), "in an earlier life");
    let after = HostId::new(2, 9).expect("a host");
    assert_eq!(judge(&node, Purpose::Member(after)), Err(refusal::NOT_MEMBER), "in a later one");
    node.lose(NOW, other);
    assert_eq!(judge(&node, Purpose::Member(other)), Err(refusal::FENCED));
    assert_eq!(judge(&node, Purpose::Member(after)), Err(refusal::NOT_MEMBER), "in a later one");
    assert_eq!(judge(&node, Purpose::Rejoin), Ok(None), "it may, as another");
    // Deleted, it is let in to hear of that, and for nothing else.
    node.delete_host(NOW, 1, other, &mut HeapMemory::new(ByteSize::from_mib(1))).expect("it leads");
    assert_eq!(judge(&node, Purpose::Member(other)), Ok(None));
    let (mut stranger, _, _) = super::tests::node();
    append(&mut stranger, Change::Left(other));
    assert_eq!(judge(&stranger, Purpose::Member(other)), Err(refusal::NOT_MEMBER));
}

#[test]
fn whoever_is_in_the_table_comes_back_with_a_token_that_has_expired() {
    let (mut node, other, _) = node();
    let old = Admission::Token { expiry_unix_s: 0, nonce: [0; 16] };
    let judge = |node: &Node, key| {
        node.judge(NOW, &HostKey([key; 32]), &old, Purpose::Join).map_err(|(code, _)| code)
    };
    assert_eq!(judge(&node, 2), Ok(None));
    assert_eq!(judge(&node, 3), Err(refusal::EXPIRED));
    node.lose(NOW, other);
    assert_eq!(judge(&node, 2), Ok(None));
    node.delete_host(NOW, 1, other, &mut HeapMemory::new(ByteSize::from_mib(1))).expect("it leads");
    assert_eq!(judge(&node, 2), Err(refusal::EXPIRED), "its key is revoked");
}

#[test]
fn only_the_leader_says_what_is_in_the_log() {
    let (mut node, leader, _) = node();
    // We are the second host, and there is a third.
    let third = HostId::new(3, 3).expect("a host");
    let first = node.me.replace(leader).expect("the first");
    let mut host = node.hosts().next().expect("one").clone();
    host = Host { id: third, name: "three".into(), key: [3; 32], ..host };
    append(&mut node, Change::Added(host));
    let entry = |term, index| Entry { term, index, change: Change::Left(leader) };
    let says = |entry| Message::Entries(Entries { entries: [entry].into() });
    let ended = |node: &mut Node| events(node).contains(&NodeEvent::Deleted);
    let mut snapshot = node.log.as_ref().expect("a log").snapshot().clone();
    snapshot.index += 5;
    let resumed = Message::Resumed(Resumed { snapshot: Some(snapshot) });
    for from in [third, leader] {
        node.handle_message(NOW, from, says(entry(1, 4)));
        node.handle_message(NOW, from, resumed.clone());
    }
    // It may have started again since.
    node.handle_message(NOW, first, says(entry(7, 4)));
    assert_eq!((node.malformed, node.log_index(), ended(&mut node)), (4, 3, false));
    // A host that is told of others, and not of what came before, asks for it.
    let other = Entry { term: 1, index: 9, change: Change::Left(third) };
    node.handle_message(NOW, first, says(other));
    assert_eq!((node.log_index(), node.hosts().count()), (3, 3));
    // Its own end it believes.
    node.handle_message(NOW, first, says(entry(1, 9)));
    assert!(ended(&mut node));
}

#[test]
fn a_name_that_was_changed_is_known_again() {
    for (name, plain, is) in [
        ("node", "node", true),
        ("node~12", "node", true),
        ("node~12", "nod", false),
        ("node~x", "node", false),
        ("other", "node", false),
        ("~3", "", false),
    ] {
        assert_eq!(is_with_slot(name, plain), is, "{name} of {plain}");
    }
    let long = "n".repeat(NAME_MAX);
    assert!(is_with_slot(&with_slot(&long, 7), &long));
}

#[test]
fn what_the_leader_decides_nobody_else_does() {
    for question in [
        Question::Halt,
        Question::Registry(RegistryOp::Join("group".into())),
        Question::DeleteHosts(alloc::vec![HostId::new(1, 1).expect("a host")]),
    ] {
        let (mut node, second, mut memory) = node();
        let first = node.me.replace(second).expect("the first");
        let asker = first.task(5).expect("a task");
        node.handle_message(
            NOW,
            first,
            Message::Asked(Asked { asker, number: 1, serial: <_>::default(), question }),
        );
        let leader = Some("one at 10.0.0.1:7077".into());
        assert_eq!(faults(&node, first), [Fault::Frozen(leader)]);
        node.pump(NOW, &mut memory);
        assert!(
            node.lead.halt_at.is_none() && node.log.as_ref().expect("a log").registry().is_empty()
        );
        assert_eq!(node.hosts().count(), 2);
    }
}
