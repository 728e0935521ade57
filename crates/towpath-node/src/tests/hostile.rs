//! A peer that breaks the rules: what it can make another host keep, and what still gets through.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::association::{AssociationEvent, End, Opening};
use towpath_proto::{AssociationId, HeapMemory};
use towpath_vm::channel::{ChannelSpec, THERE_MAX};
use towpath_vm::message::{Answered, Exited, LABEL_OWNER, LABEL_TASK, SpawnFor};
use towpath_vm::talk::{
    Answer, Fault, MailRules, Place, Question, RegistryAnswer, SpawnTasks, ToDaemon, ToTask,
    encoded_len,
};
use towpath_vm::{Ending, Message, RequestEvent, TaskExit, TaskInfo};
use towpath_wire::frame::Direction;
use towpath_wire::talk::{ChannelFront, FRAME_BODY_MAX};
use towpath_wire::{ByteSize, ChannelId, TaskId};

use super::data::counter;
use super::net::{Net, config, program};
use super::{NOW, enrol, events, node};
use crate::NodeEvent;
use crate::hello::Purpose;

pub(super) type Wire = (AssociationId, ChannelId);

/// Host `from` opens a channel to host `to` that its daemon would not.
pub(super) fn open(net: &mut Net, from: usize, to: usize, opening: Opening) -> Wire {
    let to = net.id(to);
    let association = net.node(from).association_to(to).expect("they are connected");
    let channel = net.call(from, |node, _, _| node.open_channel(association, opening));
    (association, channel.expect("there is room"))
}

pub(super) fn send(net: &mut Net, from: usize, wire: Wire, bytes: &[u8]) {
    net.call(from, |node, now, memory| {
        let block = memory.put(bytes).expect("there is room");
        node.send(wire.0, wire.1, block, bytes.len() as u32).expect("it is taken");
        node.pump(now, memory);
    });
}

fn owners(window: u32) -> Opening {
    Opening { window: Some(window), ..Opening::new(Direction::Both, LABEL_OWNER) }
}

/// Messages that arrived for a host's owner, and those of its own that were told to have arrived.
fn for_owner(net: &mut Net, host: usize) -> (usize, usize) {
    let (mut came, mut sent) = (0, 0);
    for event in net.events(host) {
        match event {
            NodeEvent::Channel { event: AssociationEvent::Message { .. }, .. } => came += 1,
            NodeEvent::Channel { event: AssociationEvent::Sent { .. }, .. } => sent += 1,
            _ => {}
        }
    }
    (came, sent)
}

#[test]
fn what_the_owner_does_not_serve_is_dropped_and_holds_nobody_up() {
    let mut net = Net::new(2);
    let wire = open(&mut net, 1, 0, owners(4096));
    for _ in 0..16 {
        send(&mut net, 1, wire, &[7; 1000]);
    }
    net.run(200);
    assert_eq!(for_owner(&mut net, 0).0, 0);
    assert_eq!(for_owner(&mut net, 1).1, 16, "four times its window: the credit came back");
    assert_eq!(net.seats[0].memory.used(), 0);
    assert_eq!(counter(&mut net, 0, "messages_unserved"), 17, "and the channel itself");
    // One that it serves it gets.
    net.node(0).serve(LABEL_OWNER..=LABEL_OWNER);
    send(&mut net, 1, wire, &[7; 1000]);
    net.run(100);
    assert_eq!(for_owner(&mut net, 0).0, 1);
}

#[test]
fn a_deleted_host_that_hears_its_farewell_reaches_no_owner() {
    let mut net = Net::new(2);
    net.node(0).serve(LABEL_OWNER..=u16::MAX);
    let wire = open(&mut net, 1, 0, owners(4096));
    net.run(50);
    let (id, until) = (net.id(1), net.now + Duration::from_secs(1));
    net.node(0).lead.farewells.insert(id, until);
    for _ in 0..16 {
        send(&mut net, 1, wire, &[7; 1000]);
    }
    net.run(200);
    assert_eq!((for_owner(&mut net, 0).0, net.seats[0].memory.used()), (0, 0));
    assert_eq!(for_owner(&mut net, 1).1, 16);
}

#[test]
fn the_owner_hears_that_the_connection_of_a_deleted_host_is_over_where_another_takes_its_place() {
    let mut net = Net::new(2);
    let (host, key) = (net.id(1), net.node(1).endpoint().public_key());
    let hello = net.node(1).hello(Purpose::Member(host)).encode("test");
    let old = net.node(0).association_to(host).expect("they are connected");
    net.cut(0, 1);
    net.call(0, |node, now, memory| node.delete_host(now, 1, host, memory)).expect("it may");
    assert_eq!(net.node(0).unheard(), [host], "it cannot have heard");
    net.events(0);
    let again = AssociationId(u32::MAX);
    assert!(net.call(0, |node, now, _| node.say_farewell(now, again, &key, &hello)));
    let over = |event: &NodeEvent| {
        let over = AssociationEvent::Over(End::Closed);
        *event == NodeEvent::Channel { host, association: old, event: over }
    };
    assert!(net.events(0).iter().any(over));
}

#[test]
fn a_deleted_host_that_ends_is_heard_of() {
    let mut net = Net::new(2);
    let host = net.id(1);
    net.call(0, |node, now, memory| node.delete_host(now, 1, host, memory)).expect("it may");
    net.run(50);
    assert!(net.events(1).contains(&NodeEvent::Deleted));
    assert_eq!(net.node(0).unheard(), [host], "not before its last word");
    net.call(1, |node, now, memory| node.leave(now, "left", memory));
    net.run(50);
    assert_eq!(net.node(0).unheard(), []);
}

#[test]
fn the_answer_to_a_spawn_of_which_nothing_started_fits_whatever_is_said() {
    let (mut node, other, _) = node();
    let request = node.requests.open(other, 1, true).expect("a request").0;
    let asker = other.task(5).expect("a task");
    let spawn = SpawnTasks {
        program: b"p".to_vec(),
        count: 4096,
        place: Place::Host(other),
        ..<_>::default()
    };
    let ask = SpawnFor { request, asker, number: 1, catch: false, spawn };
    node.handle_message(NOW, other, Message::SpawnFor(ask));
    let spawned = |m| if let Message::Spawn(s) = m { Some(s.request) } else { None };
    let requests: Vec<u64> = node.queued(other).into_iter().filter_map(spawned).collect();
    assert_eq!(requests.len(), 4096);
    for request in requests {
        let ending = Ending::NotStarted { errno: 2, text: "x".repeat(300) };
        let exit = TaskExit::without_run(ending);
        node.handle_message(NOW, other, Message::Exited(Exited { request, exit, output_bytes: 0 }));
    }
    node.handle_spawned(NOW);
    let answer = node.queued(other).into_iter().find(|m| matches!(m, Message::Answered(_)));
    let answer = answer.expect("it is answered");
    assert!(answer.encode().len() <= FRAME_BODY_MAX, "{} bytes", answer.encode().len());
    let Message::Answered(Answered { answer: Ok(Answer::Spawned(results)), .. }) = answer else {
        panic!("it is no list")
    };
    let short = |r: &Result<TaskId, Fault>| match r {
        Err(Fault::NotStarted { errno: 2, text }) => text.len() <= 200,
        _ => false,
    };
    assert!(results.len() == 4096 && results.iter().all(short));
}

#[test]
fn an_answer_that_is_too_long_says_so() {
    let (mut node, other, _) = node();
    let asker = other.task(5).expect("a task");
    let mail = RegistryAnswer::Mail {
        index: 0,
        owner: None,
        rules: MailRules::default(),
        format: 0,
        content: vec![0; FRAME_BODY_MAX],
    };
    node.reply(NOW, asker, 7, Ok(Answer::Registry(mail)));
    let queued = node.queued(other);
    assert!(
        matches!(&queued[..], [Message::Answered(Answered { number: 7, answer, .. })]
            if matches!(answer, Err(Fault::Limit { .. }))),
        "{} messages, or not that it is too long",
        queued.len()
    );
    assert_eq!(node.peers.too_long, 1);
}

/// The joining host opens the channels that both have: with hardly any room.
#[test]
fn what_is_too_long_for_a_peers_room_does_not_stay_in_front_of_the_rest() {
    let mut net = Net::founded(config(0, "h0"));
    let mut narrow = config(1, "h1");
    narrow.proto.window = 2048;
    net.add(narrow);
    net.run(100);
    let two = net.id(1);
    let request = net.spawn(0, two, program(&["x".repeat(5000).as_str()]));
    let query = net.call(0, |node, now, memory| node.list(now, two, memory));
    net.run(100);
    let listed =
        |e: &NodeEvent| matches!(e, NodeEvent::Tasks { query: q, tasks: Ok(_), .. } if *q == query);
    assert!(net.seats[0].events.iter().any(listed), "the question behind it is answered");
    assert_eq!(counter(&mut net, 0, "messages_too_long"), 1);
    let news = net.news(0, request);
    assert!(
        matches!(&news[..], [RequestEvent::Ended(TaskExit { ending: Ending::Refused(_), .. })]),
        "{news:?}"
    );
    net.nothing_is_left();
}

fn spec(window: u32) -> ChannelSpec {
    ChannelSpec { window, ..ChannelSpec::default() }
}

/// Five hosts fill channels whose receiver is not written to, in a memory that has room for fewer.
#[test]
fn control_gets_through_where_channels_have_filled_all_that_tasks_may() {
    let mut net = Net::new(7);
    net.run(1000);
    let (all, most) = (10 << 20, 8 << 20);
    assert_eq!(net.seats[0].memory.used(), 0);
    net.seats[0].memory = HeapMemory::new(ByteSize::from_bytes(all));
    net.node(0).data.arriving.max = most;
    let receiver = net.enrol(0);
    let senders: Vec<TaskId> = (1..6).map(|host| net.enrol(host)).collect();
    for (host, task) in (1..).zip(&senders) {
        for number in [0, 2, 4] {
            let spec = spec(1 << 20);
            net.says(host, *task, ToDaemon::OpenChannel { number, to: receiver, spec });
        }
    }
    net.run(200);
    net.seats[0].holds = true;
    let message = vec![7; 60_000];
    let mut sent = 0;
    for (host, task) in (1..).zip(&senders) {
        for number in [0, 2, 4].repeat(16) {
            let front = ChannelFront { number, left: None };
            assert!(net.call(host, |node, now, memory| {
                node.task_channel(now, *task, front, &message, memory)
            }));
            sent += 1;
        }
    }
    net.run(3000);
    let used = net.seats[0].memory.used();
    assert!((most - (1 << 20)..=most).contains(&used), "{used}: it is full, but for the rest");
    assert!(counter(&mut net, 0, "messages_put_off") > 0);
    let (zero, quiet) = (net.id(0), net.enrol(6));
    let question = Question::Tasks(Some(zero));
    let answer = net.ask(6, quiet, question.clone());
    assert!(
        matches!(answer, Ok(Answer::Tasks(_))),
        "who sends nothing waits for nobody: {answer:?}"
    );
    for (host, task) in (1..).zip(&senders) {
        net.says(host, *task, ToDaemon::Ask { number: 9, question: question.clone() });
    }
    // Once the receiver reads, all of it comes, and what those who sent it asked behind it.
    let mut came = 0;
    for _ in 0..100 {
        net.run(100);
        for event in core::mem::take(&mut net.seats[0].events) {
            if let NodeEvent::OnChannel { task, number, block, .. } = event {
                net.call(0, |node, _, memory| node.channel_written(block, memory));
                net.says(0, task, ToDaemon::ChannelTaken { number, messages: 1 });
                came += 1;
            }
        }
    }
    assert_eq!((came, net.seats[0].memory.used()), (sent, 0));
    for (host, task) in (1..).zip(&senders) {
        let answered = |t: &ToTask| matches!(t, ToTask::Answer { number: 9, answer: Ok(_) });
        assert!(net.told(host, *task).iter().any(answered), "host {host}");
    }
}

#[test]
fn the_room_of_all_channels_to_other_hosts_meets_a_limit() {
    let mut net = Net::new(4);
    let receiver = net.enrol(0);
    let senders: Vec<TaskId> = (1..4).map(|host| net.enrol(host)).collect();
    let each = 16 << 20;
    let mut left = THERE_MAX / u64::from(each);
    for (host, task) in (1..).zip(&senders) {
        for number in (0..14).step_by(2) {
            let spec = spec(each);
            net.says(host, *task, ToDaemon::OpenChannel { number, to: receiver, spec });
            net.run(50);
            let told = net.told(host, *task);
            let [ToTask::ChannelOpen { outcome, .. }] = &told[..] else { panic!("{told:?}") };
            if left > 0 {
                assert_eq!(*outcome, Ok(()));
                left -= 1;
            } else {
                assert!(
                    matches!(outcome, Err(Fault::Limit { what, limit: THERE_MAX })
                        if what.contains("to other hosts")),
                    "{outcome:?}"
                );
            }
        }
    }
    assert_eq!(left, 0);
    // Nor does one of its own get one; but there is room again when one has ended.
    let open = |net: &mut Net, number| {
        let (to, spec) = (senders[0], spec(each));
        net.says(0, receiver, ToDaemon::OpenChannel { number, to, spec });
        net.run(50);
        let is_it = |t: &ToTask| matches!(t, ToTask::ChannelOpen { .. });
        net.told(0, receiver).into_iter().find(is_it)
    };
    let refused = open(&mut net, 0);
    assert!(matches!(refused, Some(ToTask::ChannelOpen { outcome: Err(_), .. })), "{refused:?}");
    net.says(1, senders[0], ToDaemon::CloseChannel { number: 0 });
    net.run(50);
    let opened = open(&mut net, 2);
    assert_eq!(opened, Some(ToTask::ChannelOpen { number: 2, outcome: Ok(()) }));
}

#[test]
fn nothing_that_is_said_to_a_task_is_longer_than_a_frame() {
    let (mut node, other, mut memory) = node();
    let task = enrol(&mut node, &mut memory);
    events(&mut node);
    let long = |len| TaskInfo {
        channels: 0,
        reserved_bps: 0,
        id: other.task(1).expect("a task"),
        requester: other,
        pid: 1,
        age_us: 1,
        command: "x".repeat(len),
        parent: None,
        enrolled: true,
        started: true,
    };
    for number in 0..2 {
        let question = Question::Tasks(Some(other));
        node.task_says(NOW, task, ToDaemon::Ask { number, question }, &mut memory);
    }
    let mail = RegistryAnswer::Mail {
        index: 0,
        owner: None,
        rules: MailRules::default(),
        format: 0,
        content: vec![0; FRAME_BODY_MAX],
    };
    for (number, answer) in
        [(0, Answer::Registry(mail)), (1, Answer::Tasks(vec![long(3000); 1000]))]
    {
        let answer = Ok(answer);
        let answered = Answered { asker: task, number, answer, more: false };
        node.handle_message(NOW, other, Message::Answered(answered));
    }
    let said: Vec<ToTask> = events(&mut node)
        .into_iter()
        .filter_map(|e| if let NodeEvent::ToTask { say, .. } = e { Some(say) } else { None })
        .collect();
    assert!(said.iter().all(|say| encoded_len(say) <= FRAME_BODY_MAX));
    assert!(
        matches!(&said[..], [
            ToTask::Answer { number: 0, answer: Err(Fault::Limit { .. }) },
            ToTask::Answer { number: 1, answer: Ok(Answer::Tasks(tasks)) },
        ] if tasks.len() == 1000 && tasks[0].command.len() == 200),
        "{} answers",
        said.len()
    );
}

#[test]
fn a_message_for_a_daemon_that_no_frame_could_hold_is_not_looked_at() {
    let mut net = Net::new(2);
    let (task, two) = (net.enrol(0), net.id(1));
    let opening = Opening { window: Some(8 << 20), ..Opening::new(Direction::Both, LABEL_TASK) };
    let wire = open(&mut net, 1, 0, opening);
    net.node(0).wait_for(task, 7, two);
    for (len, heard) in [(2 << 20, false), (1000, true)] {
        let fault = Fault::Bad("x".repeat(len));
        let answered = Answered { asker: task, number: 7, answer: Err(fault), more: false };
        let before = net.node(0).malformed();
        send(&mut net, 1, wire, &Message::Answered(answered).encode());
        net.run(300);
        assert_eq!(net.node(0).malformed() == before, heard);
        let told = net.told(0, task);
        assert_eq!(told.len(), usize::from(heard), "{told:?}");
        assert!(told.iter().all(|say| encoded_len(say) < 300), "and what it says is cut");
    }
    assert_eq!(net.seats[0].memory.used(), 0);
}
