//! Channels of tasks' own, between two nodes and on one.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::channel::{
    ChannelSpec, ChannelStatus, Class, Closed, Code, ENROL_WAIT, Reserve, Until,
};
use towpath_vm::message::{ChannelAnswer, ChannelAsk};
use towpath_vm::talk::{Answer, Fault, Question, ToDaemon, ToTask};
use towpath_wire::talk::ChannelFront;
use towpath_wire::{HostId, TaskId};

use super::net::{Net, program};

const USUAL: ChannelSpec = ChannelSpec {
    class: Class::Ordered,
    priority: 4,
    deadline: None,
    window: 8192,
    reserve: None,
    code: None,
};

const RESERVE: Reserve = Reserve {
    bytes: 100,
    every: Duration::from_millis(10),
    burst: 1,
    within: Duration::from_millis(10),
    until: Until::Left,
};

const fn coded(packets: u8, parities: u8) -> ChannelSpec {
    ChannelSpec { code: Some(Code { packets, parities, adaptive: false }), ..USUAL }
}

fn open(net: &mut Net, host: usize, task: TaskId, number: u32, to: TaskId, spec: ChannelSpec) {
    net.says(host, task, ToDaemon::OpenChannel { number, to, spec });
}

fn on(net: &mut Net, host: usize, task: TaskId, number: u32, bytes: &[u8]) -> bool {
    by(net, host, task, number, bytes, None)
}

fn by(
    net: &mut Net,
    host: usize,
    task: TaskId,
    number: u32,
    bytes: &[u8],
    left: Option<Duration>,
) -> bool {
    net.call(host, |node, now, memory| {
        node.task_channel(now, task, ChannelFront { number, left }, bytes, memory)
    })
}

fn came(net: &mut Net, host: usize) -> Vec<(TaskId, u32, Vec<u8>)> {
    core::mem::take(&mut net.seats[host].on_channels)
}

fn opened(number: u32, outcome: Result<(), Fault>) -> ToTask {
    ToTask::ChannelOpen { number, outcome }
}

fn status(net: &mut Net, host: usize, task: TaskId, number: u32) -> Result<ChannelStatus, Fault> {
    match net.ask(host, task, Question::Channel(number))? {
        Answer::Channel(status) => Ok(*status),
        other => panic!("{other:?}"),
    }
}

/// A channel between tasks of hosts `a` and `b`: the tasks, and the number at the second.
fn channel(net: &mut Net, a: usize, b: usize, spec: ChannelSpec) -> (TaskId, TaskId, u32) {
    let (one, two) = (net.enrol(a), net.enrol(b));
    open(net, a, one, 0, two, spec);
    net.run(100);
    assert_eq!(net.told(a, one), [opened(0, Ok(()))]);
    let told = net.told(b, two);
    let [ToTask::ChannelOffered { number, from, spec: said }] = told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((number % 2, from, said), (1, one, spec));
    (one, two, number)
}

fn nothing_remains(net: &mut Net) {
    net.run(1000);
    for host in 0..net.seats.len() {
        let remains = net.node(host).remains();
        assert!(remains.iter().all(|what| !what.contains("channels")), "{host}: {remains:?}");
        assert!(remains.iter().all(|what| !what.contains("bytes")), "{host}: {remains:?}");
    }
}

/// Between hosts and on one: both ways, room, status, close.
#[test]
fn both_tasks_send_and_room_comes_back() {
    for b in [1, 0] {
        let mut net = Net::new(2);
        let (one, two, number) = channel(&mut net, 0, b, USUAL);
        assert!(on(&mut net, 0, one, 0, b"forth") && on(&mut net, b, two, number, b"back"));
        net.run(50);
        let mut all = came(&mut net, 0);
        all.extend(came(&mut net, b));
        all.sort();
        let mut expected = vec![(one, 0, b"back".to_vec()), (two, number, b"forth".to_vec())];
        expected.sort();
        assert_eq!(all, expected);
        net.says(b, two, ToDaemon::ChannelTaken { number, messages: 1 });
        net.run(50);
        assert_eq!(net.told(0, one), [ToTask::ChannelSent { number: 0, bytes: 69 }]);
        let status = status(&mut net, 0, one, 0).unwrap();
        assert_eq!((status.peer, status.spec), (two, USUAL));
        assert_eq!((status.sent, status.bytes_sent, status.received), (1, 5, 1));
        assert_eq!((status.bytes_received, status.waiting), (4, 0));
        assert_eq!(status.rtt.is_some(), b == 1);
        net.says(0, one, ToDaemon::CloseChannel { number: 0 });
        net.run(50);
        let told = net.told(b, two);
        let closed = ToTask::ChannelClosed { number, why: Closed::ByPeer };
        assert!(told.contains(&closed), "{told:?}");
        // What was sent before it heard of that is dropped.
        assert!(on(&mut net, b, two, number, b"late"));
        nothing_remains(&mut net);
    }
}

#[test]
fn a_receiver_that_takes_nothing_stops_its_sender_and_nobody_else() {
    for b in [1, 0] {
        let mut net = Net::new(2);
        let (one, two, number) = channel(&mut net, 0, b, USUAL);
        open(&mut net, 0, one, 2, two, USUAL);
        net.run(100);
        net.told(0, one);
        let told = net.told(b, two);
        let [ToTask::ChannelOffered { number: other, .. }] = told[..] else { panic!("{told:?}") };
        for _ in 0..8 {
            assert!(on(&mut net, 0, one, 0, &[7; 960]));
        }
        net.run(200);
        assert_eq!(came(&mut net, b).len(), 8, "as many as there is room for");
        net.told(0, one);
        assert!(on(&mut net, 0, one, 2, b"by the other"));
        net.run(50);
        assert_eq!(came(&mut net, b), [(two, other, b"by the other".to_vec())]);
        if b == 1 {
            // Acknowledged, so its sender may hand in as much again; the transport keeps it.
            for _ in 0..8 {
                assert!(on(&mut net, 0, one, 0, &[8; 960]));
            }
            net.run(500);
            assert_eq!(came(&mut net, 1), [], "there is no credit");
        }
        assert!(on(&mut net, 0, one, 0, &[9; 960]), "it is cut off");
        let why = net.cut_off(0, one).unwrap();
        assert_eq!(why, "it sent more on channel 0 than it may");
        net.says(b, two, ToDaemon::ChannelTaken { number, messages: 8 });
        net.run(200);
        assert_eq!(came(&mut net, b).len(), if b == 1 { 8 } else { 0 });
    }
}

#[test]
fn who_asks_for_what_there_is_not_is_told_why() {
    let mut net = Net::new(2);
    let (one, here, there) = (net.enrol(0), net.enrol(0), net.enrol(1));
    let (no_task, nowhere) = (net.id(1).task(999).unwrap(), HostId::new(9, 9).unwrap());
    let timely = ChannelSpec { class: Class::Timely, ..USUAL };
    let bad = |why: &str| Fault::Bad(why.into());
    for (to, spec, fault) in [
        (no_task, USUAL, Fault::NoTask),
        (net.id(0).task(999).unwrap(), USUAL, Fault::NoTask),
        (nowhere.task(1).unwrap(), USUAL, Fault::NoHost),
        (one, USUAL, bad("a channel from a task to itself")),
        (there, timely, bad("a timely channel without a deadline")),
        (here, ChannelSpec { priority: 8, ..USUAL }, bad("priority 8, from 0 to 7")),
        (here, coded(17, 1), bad("17 packets coded, from 1 to 16")),
        (here, coded(3, 0), bad("0 parities, from 1 to 4")),
        (
            here,
            ChannelSpec { reserve: Some(RESERVE), ..coded(3, 1) },
            bad("a code on a channel with a reservation: its data is not coded"),
        ),
    ] {
        open(&mut net, 0, one, 4, to, spec);
        net.run(100);
        assert_eq!(net.told(0, one), [opened(4, Err(fault))]);
    }
    for (number, why) in [(5, "channel 5 is odd, or there already"), (0, "")] {
        open(&mut net, 0, one, number, there, USUAL);
        assert_eq!(net.cut_off(0, one).unwrap_or_default(), why);
    }
    open(&mut net, 0, one, 0, there, USUAL);
    assert!(net.cut_off(0, one).is_some(), "it is there already");
    assert!(on(&mut net, 0, one, 0, b"early"));
    let why = net.cut_off(0, one).unwrap();
    assert_eq!(why, "it sent on channel 0: before it stood");
    net.run(100);
    assert!(on(&mut net, 0, one, 0, &[0; 8129]));
    let why = net.cut_off(0, one).unwrap();
    assert_eq!(why, "it sent on channel 0: 8129 bytes, limit 8128");
    net.says(0, one, ToDaemon::ChannelTaken { number: 0, messages: 1 });
    let why = net.cut_off(0, one).unwrap();
    assert_eq!(why, "it received 1 messages of channel 0: too many");
}

/// 10⁵ of them: as many as a task may have stand, the rest is refused with the limit.
#[test]
fn opens_without_end_meet_a_limit() {
    let mut net = Net::new(2);
    let (one, two) = (net.enrol(0), net.enrol(1));
    let spec = ChannelSpec { window: 4096, ..USUAL };
    let (mut stand, mut refused) = (0, 0);
    for part in 0..100 {
        for n in 0..1000 {
            open(&mut net, 0, one, 2 * (1000 * part + n), two, spec);
        }
        net.run(100);
        for say in net.told(0, one) {
            match say {
                ToTask::ChannelOpen { outcome: Ok(()), .. } => stand += 1,
                ToTask::ChannelOpen { outcome: Err(Fault::Limit { limit, .. }), .. } => {
                    assert!([1000, 1024].contains(&limit));
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((stand, refused), (1024, 98_976));
    assert_eq!(net.told(1, two).len(), 1024);
    net.left(0, one);
    nothing_remains(&mut net);
}

#[test]
fn a_task_that_has_not_enrolled_is_offered_what_waits_for_it() {
    for b in [1, 0] {
        let mut net = Net::new(2);
        let one = net.enrol(0);
        let id = net.id(b);
        net.spawn(0, id, super::net::program(&[]));
        net.run(100);
        let claim = net.started(b);
        open(&mut net, 0, one, 0, claim.task, USUAL);
        net.run(100);
        assert_eq!(net.told(0, one), [], "nobody has it yet");
        net.enrol_by(b, Some(claim)).unwrap();
        net.run(100);
        let told = net.told(b, claim.task);
        let offers =
            |say: &&ToTask| matches!(say, ToTask::ChannelOffered { from, .. } if *from == one);
        assert_eq!(told.iter().filter(offers).count(), 1, "{told:?}");
        assert_eq!(net.told(0, one), [opened(0, Ok(()))]);
    }
}

#[test]
fn a_task_that_ends_closes_its_channels_behind_what_it_sent() {
    for b in [1, 0] {
        let mut net = Net::new(2);
        let (one, two, number) = channel(&mut net, 0, b, USUAL);
        assert!(on(&mut net, 0, one, 0, b"last words"));
        net.left(0, one);
        net.run(100);
        assert_eq!(came(&mut net, b), [(two, number, b"last words".to_vec())]);
        let told = net.told(b, two);
        assert!(told.contains(&ToTask::ChannelClosed { number, why: Closed::ByPeer }), "{told:?}");
        nothing_remains(&mut net);
    }
}

#[test]
fn a_host_that_is_cut_ends_channels_and_those_opened_after_its_return_are_new() {
    let mut net = Net::new(3);
    let (one, two, number) = channel(&mut net, 1, 2, USUAL);
    assert!(on(&mut net, 1, one, 0, b"before"));
    net.run(50);
    came(&mut net, 2);
    net.cut(1, 2);
    assert!(on(&mut net, 1, one, 0, b"into the cut"));
    net.run(3000);
    let closed = |number| ToTask::ChannelClosed { number, why: Closed::Cut };
    let told = net.told(1, one);
    assert!(told.contains(&closed(0)), "{told:?}");
    let told = net.told(2, two);
    assert!(told.contains(&closed(number)), "{told:?}");
    open(&mut net, 1, one, 2, two, USUAL);
    net.mend();
    net.run(5000);
    assert_eq!(net.told(1, one), [opened(2, Ok(()))]);
    let told = net.told(2, two);
    let [ToTask::ChannelOffered { number: again, .. }] = told[..] else { panic!("{told:?}") };
    assert!(on(&mut net, 1, one, 2, b"after"));
    net.run(50);
    assert_eq!(came(&mut net, 2), [(two, again, b"after".to_vec())], "nothing of the old one");
    assert!(on(&mut net, 1, one, 0, b"on the old one"), "taken in silence");
    net.says(1, one, ToDaemon::CloseChannel { number: 2 });
    nothing_remains(&mut net);
}

#[test]
fn what_is_out_of_date_is_given_up_and_its_room_comes_back() {
    for b in [1, 0] {
        let mut net = Net::new(2);
        let deadline = Some(Duration::from_millis(5));
        let spec = ChannelSpec { class: Class::Timely, deadline, ..USUAL };
        let (one, two, number) = channel(&mut net, 0, b, spec);
        assert!(by(&mut net, 0, one, 0, b"too late", Some(Duration::ZERO)));
        assert!(on(&mut net, 0, one, 0, b"in time"));
        net.run(50);
        assert_eq!(came(&mut net, b), [(two, number, b"in time".to_vec())]);
        net.says(b, two, ToDaemon::ChannelTaken { number, messages: 1 });
        net.run(50);
        let status = status(&mut net, 0, one, 0).unwrap();
        assert_eq!((status.sent, status.abandoned, status.waiting), (1, 1, 0));
        if b == 1 {
            // Nothing gets through for longer than it is of use.
            net.cut(0, 1);
            assert!(on(&mut net, 0, one, 0, b"lost"));
            net.run(20);
            net.mend();
            net.run(500);
            assert_eq!(came(&mut net, 1), []);
        }
    }
}

/// What another host says of channels that are not its tasks', or were opened as others.
#[test]
fn a_host_speaks_of_its_own_tasks_channels_only() {
    let mut net = Net::new(3);
    let (one, two) = (net.enrol(1), net.enrol(2));
    let stranger = net.id(2).task(7).unwrap();
    let (id, host) = (net.id(2), net.id(1));
    net.call(1, |node, now, memory| node.connect_to(now, id, memory));
    net.run(100);
    let association = net.node(1).association_to(id).unwrap();
    let before = net.node(1).malformed();
    let ask = ChannelAsk { channel: 77, from: two, to: one, spec: USUAL };
    for wrong in [
        ChannelAsk { from: one, ..ask },
        ChannelAsk { from: net.id(0).task(1).unwrap(), ..ask },
        ChannelAsk { to: stranger, ..ask },
    ] {
        net.call(1, |node, now, _| node.handle_channel_ask(now, id, association, wrong));
    }
    assert_eq!(net.node(1).malformed(), before + 3);
    // Of one that it never opens nothing follows, nor of an answer that nobody asked for.
    net.call(1, |node, now, _| node.handle_channel_ask(now, id, association, ask));
    let answer = ChannelAnswer { channel: 78, outcome: Ok(()) };
    net.call(1, |node, _, _| node.handle_channel_answer(association, answer));
    net.run(100);
    assert_eq!(net.told(1, one), []);
    // Opened with another priority than is said.
    let open = net.call(2, |node, _, _| {
        let association = node.association_to(host).expect("it is connected");
        let opening = towpath_proto::association::Opening {
            window: Some(8192),
            ..towpath_proto::association::Opening::new(towpath_wire::frame::Direction::Both, 6)
        };
        node.open_channel(association, opening).expect("there is room")
    });
    net.run(100);
    let ask = ChannelAsk { channel: open.0, ..ask };
    net.call(1, |node, now, _| node.handle_channel_ask(now, id, association, ask));
    net.run(100);
    assert_eq!((net.node(1).malformed(), net.told(1, one)), (before + 4, vec![]));
}

/// The opener closes, or opens another under the same number, while its first waits: for a task
/// that has yet to enrol, or for a connection.
#[test]
fn what_was_closed_while_it_waited_is_offered_to_nobody() {
    let mut net = Net::new(3);
    let (one, other) = (net.enrol(0), net.enrol(0));
    let id = net.id(0);
    net.spawn(0, id, super::net::program(&[]));
    net.run(100);
    let claim = net.started(0);
    open(&mut net, 0, one, 2, claim.task, USUAL);
    net.says(0, one, ToDaemon::CloseChannel { number: 2 });
    open(&mut net, 0, one, 2, other, USUAL);
    open(&mut net, 0, other, 2, claim.task, USUAL);
    net.left(0, other);
    net.enrol_by(0, Some(claim)).unwrap();
    net.run(100);
    let told = net.told(0, claim.task);
    assert!(!told.iter().any(|say| matches!(say, ToTask::ChannelOffered { .. })), "{told:?}");
    // The same with two hosts, the first of which is not connected yet.
    let (one, far, near) = (net.enrol(1), net.enrol(2), net.enrol(0));
    open(&mut net, 1, one, 4, far, USUAL);
    net.says(1, one, ToDaemon::CloseChannel { number: 4 });
    open(&mut net, 1, one, 4, near, USUAL);
    net.run(200);
    assert_eq!(net.told(2, far), []);
    assert_eq!(net.told(0, near).len(), 1);
    assert!(on(&mut net, 1, one, 4, b"to the second"));
    net.run(50);
    assert_eq!(came(&mut net, 0).len(), 1);
    net.left(1, one);
    net.left(0, claim.task);
    net.run(500);
    for host in 0..3 {
        let remains = net.node(host).remains();
        assert!(remains.iter().all(|what| !what.contains("channels")), "{host}: {remains:?}");
    }
}

/// Its peer had as much again under way, which can only arrive once there is credit.
#[test]
fn a_receiver_that_ends_without_receiving_holds_nothing_up() {
    for how in 0..2 {
        let mut net = Net::new(2);
        let (one, two, number) = channel(&mut net, 0, 1, USUAL);
        for _ in 0..2 {
            for _ in 0..8 {
                assert!(on(&mut net, 0, one, 0, &[7; 960]));
            }
            net.run(200);
        }
        if how == 0 {
            net.left(1, two);
        } else {
            net.says(1, two, ToDaemon::CloseChannel { number });
        }
        net.run(200);
        let told = net.told(0, one);
        let closed = ToTask::ChannelClosed { number: 0, why: Closed::ByPeer };
        assert!(told.contains(&closed), "{told:?}");
        nothing_remains(&mut net);
    }
}

/// More names than channels: the peer that says them is told, and nobody else suffers.
#[test]
fn names_of_channels_that_are_never_opened_meet_a_limit() {
    let mut net = Net::new(3);
    let (one, two, three) = (net.enrol(1), net.enrol(2), net.enrol(0));
    for host in [0, 2] {
        let id = net.id(host);
        net.call(1, |node, now, memory| node.connect_to(now, id, memory));
    }
    net.run(100);
    let id = net.id(2);
    let association = net.node(1).association_to(id).unwrap();
    for channel in 0..16_390 {
        let ask = ChannelAsk { channel: 100_000 + channel, from: two, to: one, spec: USUAL };
        let now = net.now;
        net.node(1).handle_channel_ask(now, id, association, ask);
    }
    assert_eq!(net.node(1).local.channels.named_on(association), 16_384);
    open(&mut net, 0, three, 0, one, USUAL);
    net.run(200);
    assert_eq!(net.told(0, three), [opened(0, Ok(()))]);
}

/// A window of 16 MiB full of messages without any bytes: none is lost on the way in.
#[test]
fn as_many_empty_messages_as_there_is_room_for_arrive() {
    let mut net = Net::new(2);
    let spec = ChannelSpec { window: 16 << 20, ..USUAL };
    let (one, _, _) = channel(&mut net, 0, 1, spec);
    for _ in 0..16_384 {
        assert!(on(&mut net, 0, one, 0, b""));
    }
    net.run(3000);
    assert_eq!((net.cut_off(0, one), came(&mut net, 1).len()), (None, 16_384));
}

/// A host that says yes, and then no.
#[test]
fn an_answer_that_is_taken_back_closes_the_channel() {
    let mut net = Net::new(2);
    let (one, _, _) = channel(&mut net, 0, 1, USUAL);
    let id = net.id(1);
    let association = net.node(0).association_to(id).unwrap();
    for channel in 0..64 {
        let answer = ChannelAnswer { channel, outcome: Err(Fault::NoTask) };
        net.call(0, |node, _, _| node.handle_channel_answer(association, answer));
    }
    net.run(50);
    let closed = ToTask::ChannelClosed { number: 0, why: Closed::ByPeer };
    assert_eq!(net.told(0, one), [closed]);
}

#[test]
fn a_channel_to_a_process_that_never_enrols_is_refused_after_a_minute() {
    for host in [0, 1] {
        let mut net = Net::new(2);
        let (one, on) = (net.enrol(0), net.id(host));
        net.spawn(0, on, program(&[]));
        net.run(50);
        let claim = net.started(host);
        open(&mut net, 0, one, 0, claim.task, USUAL);
        net.run(ENROL_WAIT.as_millis() as u64 - 200);
        assert_eq!(net.told(0, one), [], "host {host}: it may still come");
        net.run(400);
        assert_eq!(net.told(0, one), [opened(0, Err(Fault::NoTask))], "host {host}");
        // Nothing is kept of it; one that is opened anew waits anew, and is offered.
        open(&mut net, 0, one, 2, claim.task, USUAL);
        net.run(100);
        net.enrol_by(host, Some(claim)).unwrap();
        net.run(100);
        assert_eq!(net.told(0, one), [opened(2, Ok(()))], "host {host}");
    }
}
