//! Who may send what: every kind of message, from everybody who could be its sender. What a host
//! has no right to say changes nothing.
//!
//! A kind of message that is added has no row in [`who`] and does not compile; one without an
//! example fails [`every_kind_of_message_has_an_example`].

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::channel::ChannelSpec;
use towpath_vm::consensus::checksum::crc32c;
use towpath_vm::message::{
    Accepted, Answered, AnsweredAll, Asked, Blocked, Caught, CaughtCredit, ChannelAnswer,
    ChannelAsk, ChannelWithdrawn, Confirm, Consensus, Content, Contents, Credit, Ends, Entries,
    Exited, Halt, Input, Keep, Kill, List, MayEnd, MessageError, Numbers, Outnumbered, Output,
    Parted, Promised, Relay, Report, Resumed, Said, SayHolds, Siblings, Spawn, SpawnFor, Started,
    StreamAsk, StreamAt, TaskCredit, TaskEnded, TaskList, TaskOver, Unreachable, Watch, WatchTask,
    Welcome,
};
use towpath_vm::promises::{Again, Granted, Holds, Promise, Release, Terms};
use towpath_vm::registry::Kept;
use towpath_vm::talk::{Answer, Fault, Question, RegistryOp, SpawnTasks, Subject, ToDaemon};
use towpath_vm::{Change, Ending, Entry, Message, Stream, TaskExit};
use towpath_wire::{ByteSize, HostId, Rate, TaskId};

use super::net::{Net, program};

/// Who may say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Nobody, once the connection has a host: it is the first word on one that joins.
    Nobody,
    /// The leader.
    Leader,
    /// The host that the message is of: whose task, request, question or piece it names.
    Named,
    /// Every host of the virtual machine, of itself.
    Anyone,
    /// Every host of the virtual machine but the one that it names.
    Others,
}

/// By rule. Messages of [`Who::Anyone`] name neither a host nor a task but what the sender itself
/// asks for: it is kept under its own name.
const fn who(message: &Message) -> Who {
    match message {
        // The latter three are heard on the connection that they speak of, and nowhere else:
        // `super::channels` says from whom.
        Message::Welcome(_)
        | Message::ChannelAsk(_)
        | Message::ChannelAnswer(_)
        | Message::ChannelWithdrawn(_)
        // Where one host keeps the log: `super::voting` has the others.
        | Message::Consensus(_)
        | Message::Outnumbered(_)
        | Message::Content(_)
        | Message::Contents(_)
        | Message::Ends(_)
        | Message::Unheard(_)
        | Message::Reach(_) => Who::Nobody,
        Message::Entries(_)
        | Message::Halt(_)
        | Message::Resumed(_)
        | Message::Keep(_)
        | Message::Promised(_)
        | Message::SayHolds(_)
        | Message::Confirmed(_)
        | Message::MayEnd(_) => Who::Leader,
        // Of requests of ours, which run on one host.
        Message::Started(_)
        | Message::Output(_)
        | Message::Exited(_)
        | Message::InputTaken(_)
        | Message::Accepted(_)
        // Of requests of the sender's, which run here.
        | Message::Kill(_)
        | Message::Credit(_)
        | Message::Input(_)
        | Message::Siblings(_)
        | Message::Caught(_)
        // Answers of who was asked.
        | Message::Tasks(_)
        | Message::Answered(_)
        | Message::AnsweredAll(_)
        // Of tasks of the sender's.
        | Message::SpawnFor(_)
        | Message::Asked(_)
        | Message::TaskCredit(_)
        | Message::Blocked(_)
        | Message::TaskEnded(_)
        | Message::Parted(_)
        | Message::TaskOver(_)
        | Message::StreamAsk(_)
        | Message::StreamAt(_)
        | Message::CaughtCredit(_)
        // Of what the sender is promised.
        | Message::Promise(_)
        | Message::Again(_)
        | Message::Release(_)
        | Message::Holds(_)
        // Of pieces that the sender was to have, or to pass on.
        | Message::RelayReady(_)
        | Message::Relayed(_)
        | Message::Unrelayed(_) => Who::Named,
        Message::Spawn(_)
        | Message::List(_)
        | Message::Watch(_)
        | Message::AskFirst(_)
        | Message::WatchTask(_)
        | Message::Report(_)
        | Message::Confirm(_)
        | Message::Relay(_) => Who::Anyone,
        Message::Unreachable(_) | Message::Reached(_) => Who::Others,
    }
}

/// Hosts: the leader, the one that listens, the one that messages are of, and another one.
const LEADER: usize = 0;
const NAMED: usize = 2;
const OTHER: usize = 3;
/// The named one as it was before it was lost and came back.
const OLD_LIFE: usize = usize::MAX;

/// What there is between the host that listens (`me`) and the named one, so that what the named
/// one may say has consequences.
struct Stage {
    net: Net,
    me: usize,
    /// A task of each.
    mine: TaskId,
    theirs: TaskId,
    /// A request of ours that runs there, and its task; the same of theirs here.
    request: u64,
    there: TaskId,
    their_request: u64,
    here: TaskId,
    /// A request of ours that was not taken yet.
    asked: u64,
    query: u64,
}

fn stage(me: usize) -> Stage {
    let mut net = Net::new(4);
    let network = super::promising::star(4);
    assert!(net.call(LEADER, |node, now, m| node.set_network(now, 1, network, m)));
    net.run(100);
    let (mine, theirs) = (net.enrol(me), net.enrol(NAMED));
    let (my_id, their_id) = (net.id(me), net.id(NAMED));
    for host in 0..4 {
        let id = net.id(host);
        if host != me {
            net.call(me, |node, now, memory| node.connect_to(now, id, memory));
        }
    }
    net.run(100);
    let request = net.spawn(me, their_id, program(&[])).0;
    let their_request = net.spawn(NAMED, my_id, program(&[])).0;
    net.run(50);
    let (there, here) = (net.started(NAMED).task, net.started(me));
    net.enrol_by(me, Some(here)).expect("it enrols");
    net.run(50);
    // Both ways something was sent, and the listener's task has asked for more.
    assert!(net.send(me, mine, theirs, 0, 10) && net.send(NAMED, theirs, mine, 0, 10));
    net.run(50);
    // From here on nothing comes or goes but by hand.
    let asked = net.spawn(me, their_id, program(&[])).0;
    let query = net.call(me, |node, now, memory| node.list(now, their_id, memory));
    net.says(me, mine, ToDaemon::Ask { number: 5, question: Question::Clock(their_id) });
    net.says(me, mine, ToDaemon::Direct { peer: theirs });
    net.says(me, mine, ToDaemon::Watch { watch: 1, subject: Subject::Task(there) });
    for host in 0..4 {
        net.seats[host].events.clear();
    }
    Stage { net, me, mine, theirs, request, there, their_request, here: here.task, asked, query }
}

/// An example of each kind, as the named host would say it.
fn examples(s: &mut Stage) -> Vec<Message> {
    let Stage { mine, theirs, request, there, their_request, here, asked, query, .. } = *s;
    let (number, bytes) = (5, 100);
    let (me, named) = (s.net.id(s.me), s.net.id(NAMED));
    let log = s.net.node(LEADER).log.as_ref().expect("it leads");
    let snapshot = log.snapshot().clone();
    let lost = Change::Lost(s.net.id(OTHER));
    let entry = Entry { term: snapshot.term, index: snapshot.index + 1, change: lost };
    let exit = TaskExit::without_run(Ending::Exited(0));
    let spawn = SpawnTasks { program: b"p".to_vec(), count: 1, ..SpawnTasks::default() };
    let answer = || Ok(Answer::Clock(77));
    let asker = theirs;
    let join = || Question::Registry(RegistryOp::Join("g".into()));
    let stream = StreamAsk { from: theirs, to: mine, key: [1; 32] };
    vec![
        Message::Welcome(Welcome { you: me, snapshot }),
        Message::Entries(Entries { entries: vec![entry] }),
        Message::Spawn(Spawn { request: 900, spec: program(&[]), family: None }),
        Message::Started(Started { request: asked, task: there, pid: 9 }),
        Message::Output(Output { request, stream: Stream::Out, bytes: vec![1; 10] }),
        Message::Exited(Exited { request, exit, output_bytes: 0 }),
        Message::Kill(Kill { request: their_request, signal: 9 }),
        Message::Credit(Credit { request: their_request, bytes }),
        Message::List(List { request: 1 }),
        Message::Tasks(TaskList { request: query, tasks: Vec::new(), more: false }),
        Message::Input(Input { request: their_request, bytes: vec![1; 10], end: false }),
        Message::InputTaken(Credit { request, bytes }),
        Message::Watch(Watch { on: true }),
        Message::Accepted(Accepted { request: asked, task: there, load: 3 }),
        Message::Siblings(Siblings { number: 1, tasks: vec![here] }),
        Message::SpawnFor(SpawnFor { request, asker: there, number, catch: false, spawn }),
        Message::Asked(Asked { asker, number, serial: <_>::default(), question: join() }),
        Message::Answered(Answered { asker: mine, number, answer: answer(), more: false }),
        Message::AnsweredAll(AnsweredAll { askers: vec![(mine, number)], answer: answer() }),
        Message::TaskCredit(TaskCredit { receiver: theirs, sender: mine, limit: 1 << 20 }),
        Message::Blocked(Blocked { sender: theirs, receiver: mine, sent: 74, need: 1000 }),
        Message::AskFirst(Watch { on: true }),
        Message::Unreachable(Unreachable { host: named }),
        Message::WatchTask(WatchTask { task: here }),
        Message::TaskEnded(TaskEnded { task: theirs, ending: Some(Ending::Exited(0)) }),
        Message::Parted(Parted { task: theirs, peer: mine }),
        Message::TaskOver(TaskOver { task: theirs }),
        Message::StreamAsk(stream),
        Message::StreamAt(StreamAt { from: mine, to: theirs, port: Some(7) }),
        Message::Caught(Caught { by: here, task: there, stream: Stream::Out, bytes: vec![1] }),
        Message::CaughtCredit(CaughtCredit { by: theirs, bytes: 10 }),
        Message::Halt(Halt {}),
        Message::Relay(Relay { first: 1 }),
        Message::RelayReady(Relay { first: 1 }),
        Message::Relayed(Numbers::of(vec![1])),
        Message::Unrelayed(Numbers::of(vec![1])),
        Message::Report(Report { term: 1, index: 1, registered: Vec::new(), snapshot: None }),
        Message::Resumed(Resumed { snapshot: None }),
        Message::Reached(Unreachable { host: named }),
        Message::ChannelAsk(ChannelAsk {
            channel: 70,
            from: theirs,
            to: mine,
            spec: ChannelSpec::default(),
        }),
        Message::ChannelAnswer(ChannelAnswer { channel: 70, outcome: Ok(()) }),
        Message::ChannelWithdrawn(ChannelWithdrawn { channel: 70 }),
        Message::Keep(Keep { generation: 1, replica: me.to_raw(), vm_key: [1; 32], voters: 3 }),
        Message::Consensus(Consensus { bytes: Vec::new() }),
    ]
    .into_iter()
    .chain(about_promises(named, theirs, me))
    .collect()
}

/// The same of what is said about promises and contents of mailbox entries, where most of those
/// that vote start again, and before one of them ends.
fn about_promises(named: HostId, theirs: TaskId, me: HostId) -> [Message; 15] {
    let (within, rate) = (Duration::from_millis(10), Rate::from_mbps(1));
    let (burst, packet) = (ByteSize::from_bytes(3000), ByteSize::from_bytes(1538));
    let terms = Terms { rate, burst, packet, within };
    let promise = Promise { host: named, number: 1, task: theirs, to: me, terms };
    let kept = Kept { holder: me, number: 1, len: 5000, crc: crc32c(0, &[7; 5000]) };
    let granted = Granted { delay: within, first: within, rate, hops: Vec::new() };
    [
        Message::Outnumbered(Outnumbered { term: 1, life: 1, last: (1, 1) }),
        Message::Promise(promise),
        Message::Promised(Promised { number: 1, outcome: Ok(granted) }),
        Message::Again(Again { promise, hops: Vec::new() }),
        Message::Release(Release { host: named, number: 1 }),
        Message::Reach(Unreachable { host: named }),
        Message::Unheard(Unreachable { host: named }),
        Message::Holds(Holds { host: named, last: 1, numbers: [1].into() }),
        Message::SayHolds(SayHolds { after_ms: 0 }),
        Message::Content(Content { kept, bytes: vec![7; 5000] }),
        Message::Contents(Contents { of: Said::Needed, which: vec![kept] }),
        Message::Ends(Ends { now: false }),
        Message::MayEnd(MayEnd {}),
        Message::Confirm(Confirm { number: 1 }),
        Message::Confirmed(Confirm { number: 1 }),
    ]
}

fn kind(message: &Message) -> u16 {
    let bytes = message.encode();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

#[test]
fn every_kind_of_message_has_an_example() {
    let known =
        |kind: &u16| !matches!(Message::decode(&kind.to_le_bytes()), Err(MessageError::Unknown(_)));
    let kinds: BTreeSet<u16> = (0..=u16::MAX).filter(known).collect();
    let shown: BTreeSet<u16> = examples(&mut stage(1)).iter().map(kind).collect();
    assert_eq!(shown, kinds);
}

/// All that a message from a host could have changed: what is kept, what was said and to whom.
/// Counters of what was refused are left out, and so is the refusal that a sender gets.
fn traces(s: &mut Stage, from: HostId) -> String {
    let me = s.me;
    let hosts: Vec<HostId> = (0..4).map(|h| s.net.id(h)).chain([from]).collect();
    let node = s.net.node(me);
    let refusal = |m: &Message| match m {
        Message::Answered(a) => matches!(a.answer, Err(Fault::Bad(_))),
        Message::Kill(_) => true,
        _ => false,
    };
    let queued = |host: HostId| {
        let all = node.queued(host).into_iter();
        all.filter(|m| host != from || !refusal(m)).collect::<Vec<_>>()
    };
    let queued: Vec<Vec<Message>> = hosts.into_iter().map(queued).collect();
    let strays = core::mem::take(&mut node.requests.strays);
    let traces = format!(
        "{queued:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        node.local,
        node.jobs,
        node.lead,
        node.voting,
        node.data,
        node.watch,
        node.requests,
        node.tasks,
        node.log,
        node.events,
        node.is_frozen(),
    );
    node.requests.strays = strays;
    traces
}

/// Whether a message from a host leaves traces.
fn is_taken(s: &mut Stage, from: HostId, message: &Message) -> bool {
    let (before, now) = (traces(s, from), s.net.now);
    s.net.node(s.me).handle_message(now, from, message.clone());
    let after = traces(s, from);
    before != after
}

/// The old life of the named host, which was lost, does not stand in the table any more.
fn old_life(id: HostId) -> HostId {
    HostId::new(id.slot(), id.incarnation() - 1).expect("a host")
}

fn check(me: usize, prepare: impl Fn(&mut Stage, &Message)) {
    let kinds = examples(&mut stage(me)).len();
    for index in 0..kinds {
        let set = || {
            let mut s = stage(me);
            let message = examples(&mut s).swap_remove(index);
            prepare(&mut s, &message);
            (s, message)
        };
        let (mut s, mut message) = set();
        let rule = who(&message);
        for from in [OLD_LIFE, LEADER, OTHER, NAMED] {
            // What comes on a connection is of the life that it was made with, and that of a host
            // that is lost is closed.
            if from == me || !concerns(me, &message) || (from == OLD_LIFE && rule == Who::Anyone) {
                continue;
            }
            let id = if from == OLD_LIFE { old_life(s.net.id(NAMED)) } else { s.net.id(from) };
            let allowed = match rule {
                Who::Nobody => false,
                Who::Leader => from == LEADER,
                Who::Named => from == NAMED,
                Who::Anyone => true,
                Who::Others => from == OTHER,
            };
            let taken = is_taken(&mut s, id, &message);
            assert_eq!(taken, allowed, "{message:?} at host {me}, from {id}: {rule:?}");
            if taken {
                (s, message) = set();
            }
        }
    }
}

/// Whether a host that leads, or one that does not, has anything to do with a kind.
const fn concerns(me: usize, message: &Message) -> bool {
    match message {
        Message::Entries(_)
        | Message::Halt(_)
        | Message::Resumed(_)
        | Message::Keep(_)
        | Message::Promised(_)
        | Message::Confirmed(_)
        | Message::SayHolds(_) => me != LEADER,
        Message::Promise(_) | Message::Again(_) | Message::Release(_) | Message::Holds(_) => {
            me == LEADER
        }
        Message::Asked(_)
        | Message::Confirm(_)
        | Message::TaskOver(_)
        | Message::Report(_)
        | Message::Unreachable(_)
        | Message::Reached(_) => me == LEADER,
        _ => true,
    }
}

/// What a kind needs beside the stage, done by hand.
fn prepare(s: &mut Stage, message: &Message) {
    let (me, now) = (s.me, s.net.now);
    let named = s.net.id(NAMED);
    match message {
        Message::Watch(_) => {
            // Nobody waits yet.
            for host in 0..4 {
                let (id, off) = (s.net.id(host), Message::Watch(Watch { on: false }));
                s.net.node(me).handle_message(now, id, off);
            }
        }
        Message::TaskOver(_) => {
            // It is in a group.
            let question = Question::Registry(RegistryOp::Join("g".into()));
            let asked = Asked { asker: s.theirs, number: 1, serial: <_>::default(), question };
            s.net.node(me).handle_message(now, named, Message::Asked(asked));
        }
        Message::Confirmed(_) => {
            let asked =
                s.net.node(me).jobs.certainty.asks(now, core::time::Duration::from_secs(10));
            assert_eq!(asked, Some(1));
        }
        Message::Siblings(_) => {
            let member = s.net.node(me).local.members.get_mut(s.here).expect("it is here");
            (member.origin.family, member.siblings) = (Some(1), None);
        }
        Message::Accepted(_) => {
            let spawning = &mut s.net.node(me).jobs.spawning;
            let set = spawning.begin(s.mine, 9, 2);
            spawning.asked(set, 0, s.asked, named);
        }
        Message::Resumed(_) => s.net.node(me).standing.frozen = true,
        Message::Reached(_) => {
            let (other, host) = (s.net.id(OTHER), named);
            let lost = Message::Unreachable(Unreachable { host });
            s.net.node(me).handle_message(now, other, lost);
        }
        Message::CaughtCredit(_) => {
            let catching = &mut s.net.node(me).jobs.catching;
            catching.catch(s.request, s.theirs, 1000);
            catching.sent(s.request, 500);
        }
        Message::StreamAsk(_) => {
            // They ask, not we.
            s.net.node(me).close_direct(now, s.mine, s.theirs);
            s.net.node(me).local.offers.clear();
        }
        Message::RelayReady(_) | Message::Relayed(_) | Message::Unrelayed(_) => {
            let ready = matches!(message, Message::RelayReady(_));
            s.net.node(me).data.relays.stage(named, s.mine, ready);
        }
        _ => {}
    }
}

#[test]
fn a_message_is_taken_from_whom_it_may_come_and_from_nobody_else() {
    check(1, prepare);
}

#[test]
fn the_leader_takes_messages_from_whom_they_may_come_and_from_nobody_else() {
    check(LEADER, prepare);
}
