//! Tasks that take part: enrolment, the ways of their messages, what is told of them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_task::{Event, Route, Subject, Task, WatchEvent};
use towpath_vm::talk::Claim;
use towpath_wire::TaskId;

use super::{ask, first, host, until};
use crate::client::Client;
use crate::protocol::{DirectState, Explanation, Reply, Request, RouteState};
use crate::support::{ANY, LONG, Vm, pattern};

fn explained(client: &mut Client, from: TaskId, to: TaskId) -> Explanation {
    let Reply::Explained { way, .. } = ask(client, &Request::Explain { from, to }) else {
        panic!("nothing is explained")
    };
    way
}

/// A message each way, many times, until both go by this route.
fn until_route(a: &mut Task, b: &mut Task, route: Route) -> u64 {
    let (first, second) = (a.id(), b.id());
    for n in 0.. {
        a.send(second, 1, &pattern(n, 100)).unwrap();
        assert_eq!(b.recv(&ANY).unwrap().bytes(), pattern(n, 100));
        b.send(first, 2, b"seen").unwrap();
        assert_eq!(a.recv(&ANY).unwrap().bytes(), b"seen");
        if a.route(second) == route && b.route(first) == route {
            return n + 1;
        }
    }
    unreachable!("numbers do not end")
}

#[test]
fn who_was_not_started_as_a_task_becomes_another_one() {
    let vm = Vm::up(1);
    let claimed = first().task(5).unwrap();
    let mut task = Task::enrol_at(&vm.socket(1), Some(Claim { task: claimed, cookie: 1 })).unwrap();
    let own = task.id();
    assert!(own != claimed && own.host() == first());
    task.send(own, 3, b"to myself").unwrap();
    assert_eq!(task.recv(&ANY).unwrap().bytes(), b"to myself");
    assert_eq!(vm.counter(1, "tasks_connected"), 1);
    task.leave().unwrap();
    until(|| (vm.counter(1, "tasks_connected") == 0).then_some(()));
    let other = vm.task(1);
    assert_ne!(other.id(), own, "a number is not used again");
}

#[test]
fn who_breaks_the_rules_of_the_conversation_is_cut_off() {
    let vm = Vm::up(1);
    let cut = |bytes: &[u8], count: u64| {
        let mut stream = UnixStream::connect(vm.socket(1)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(vm.counter(1, "tasks_cut_off"), count);
        String::from_utf8_lossy(&said).into_owned()
    };
    // No frame at all; a message before it has said who it is.
    let said = cut(&[0xff; 64], 1);
    assert!(said.contains("cut off"), "{said:?}");
    let head = towpath_wire::talk::FrameHead { kind: towpath_wire::talk::FrameKind::Data, len: 48 };
    let said = cut(&[&head.emit()[..], &[0; 48]].concat(), 2);
    assert!(said.contains("cut off"), "{said:?}");
    let leave = towpath_vm::talk::encode(&towpath_vm::talk::ToDaemon::Hold, Vec::new());
    let kind = towpath_wire::talk::FrameKind::Control;
    let head = towpath_wire::talk::FrameHead { kind, len: leave.len() };
    let said = cut(&[&head.emit()[..], &leave].concat(), 3);
    assert!(said.contains("spoke before it enrolled"), "{said:?}");
    until(|| (vm.counter(1, "tasks_connected") == 0).then_some(()));
}

#[test]
fn two_tasks_of_a_host_come_to_share_memory_and_it_is_told() {
    let vm = Vm::up(1);
    let (mut a, mut b) = (vm.task(1), vm.task(1));
    let mut client = vm.client(1);
    let before = explained(&mut client, a.id(), b.id());
    assert_eq!((before.known, before.peer_known), (true, Some(true)));
    assert_eq!((before.direct, before.by_daemons.sent_bytes), (DirectState::None, 0));
    let nobody = first().task(77).unwrap();
    let none = explained(&mut client, nobody, a.id());
    assert_eq!((none.known, none.peer_known), (false, Some(true)));
    assert_eq!(explained(&mut client, a.id(), nobody).peer_known, Some(false));
    let messages = until_route(&mut a, &mut b, Route::Ring);
    let long = pattern(7, 3 << 20);
    a.send(b.id(), 5, &long).unwrap();
    assert!(b.recv(&ANY).unwrap().bytes() == long);
    let after = explained(&mut client, a.id(), b.id());
    assert_eq!((after.direct, after.network), (DirectState::Ring, None));
    assert!(after.by_daemons.sent_bytes > 0 && after.by_daemons.sent_bytes <= messages * 164);
    // What it says of it itself.
    let request = Request::Explain { from: a.id(), to: b.id() };
    let Reply::Explained { account: Some(account), .. } = ask(&mut client, &request) else {
        panic!("it has a line for its peer")
    };
    assert_eq!((account.peer, account.direct), (Some(b.id()), RouteState::Stands));
    let Reply::Loads { tasks, ways, more } = ask(&mut client, &Request::Loads { after: None })
    else {
        panic!("no loads")
    };
    let ids: Vec<_> = tasks.iter().map(|load| load.task).collect();
    assert_eq!((ids, more), (vec![a.id(), b.id()], false));
    assert!(tasks.iter().all(|load| (load.peers, load.direct) == (1, 1)), "{tasks:?}");
    assert_eq!(ways.len(), 2);
    assert!(ways.iter().all(|(_, way)| (way.rings, way.streams) == (1, 0)), "{ways:?}");
    let of_a = ways.iter().find(|(task, _)| *task == a.id()).map(|(_, way)| way.by_ring);
    assert!(of_a.is_some_and(|sent| sent.bytes >= 3 << 20), "{of_a:?}");
    let rest = ask(&mut client, &Request::Loads { after: Some(a.id()) });
    assert!(matches!(rest, Reply::Loads { tasks, .. } if tasks.len() == 1));
}

#[test]
fn tasks_of_two_hosts_come_to_have_a_stream_that_outlives_them() {
    let vm = Vm::up(2);
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let mut client = vm.client(1);
    until_route(&mut a, &mut b, Route::Stream);
    let way = explained(&mut client, a.id(), b.id());
    assert_eq!((way.known, way.peer_known, way.direct), (true, None, DirectState::Stream));
    let network = way.network.expect("an association carries it");
    assert_eq!((network.host, network.sealed), (b.id().host(), true));
    assert!(network.packets_sent > 0 && network.datagram_bytes > 1000);
    let Reply::Networks { networks, more } = ask(&mut client, &Request::Networks { after: None })
    else {
        panic!("no networks")
    };
    assert_eq!((networks.len(), networks[0].host, more), (1, b.id().host(), false));
    let behind = ask(&mut client, &Request::Networks { after: Some(b.id().host()) });
    assert!(matches!(behind, Reply::Networks { networks, more: false } if networks.is_empty()));
    // The daemons hold the sockets while the tasks are there, and let go of them afterwards.
    for on in [1, 2] {
        until(|| (vm.counter(on, "streams_held") >= 1).then_some(()));
    }
    let long = pattern(3, 2 << 20);
    let (first, second) = (a.id(), b.id());
    b.watch(Subject::Task(first)).unwrap();
    let sender = std::thread::spawn(move || {
        a.send(second, 9, &long).unwrap();
        drop(a);
    });
    let got = b.recv(&ANY).unwrap();
    assert!(got.bytes() == pattern(3, 2 << 20));
    sender.join().unwrap();
    let event = loop {
        if let Some(event) = b.next_event() {
            break event;
        }
        assert!(b.wait(Some(LONG)).unwrap());
    };
    let Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(task, first);
    drop(b);
    for on in [1, 2] {
        until(|| (vm.counter(on, "streams_held") == 0).then_some(()));
        until(|| (vm.counter(on, "tasks_connected") == 0).then_some(()));
        until(|| (vm.counter(on, "tasks_enrolled") == 0).then_some(()));
    }
}

#[test]
fn long_messages_to_several_hosts_and_on_channels_arrive_whole() {
    let vm = Vm::up(3);
    let mut a = vm.task(1);
    let mut others: Vec<Task> = [2, 3, 1].map(|on| vm.task(on)).into();
    let ids: Vec<TaskId> = others.iter().map(Task::id).collect();
    let long = pattern(11, 1 << 20);
    a.multicast(&ids, 4.into(), &[&long]).unwrap();
    for task in &mut others {
        let got = task.recv(&ANY).unwrap();
        assert!(got.tag() == 4 && got.src() == a.id() && got.bytes() == long);
    }
    for task in &mut others {
        let channel = a.open_channel(task.id(), &towpath_task::ChannelSpec::default()).unwrap();
        let (theirs, _) = task.accept_channel(Some(LONG)).unwrap().expect("it is offered");
        for n in 0..20 {
            a.send_on(channel, &pattern(n, 10_000)).unwrap();
            assert_eq!(task.recv_on(theirs, Some(LONG)).unwrap(), Some(pattern(n, 10_000)));
        }
        let way = explained(&mut vm.client(1), a.id(), task.id());
        assert_eq!(way.channels.len(), 1);
    }
    assert!(vm.counter(1, "message_memory_bytes_max") > 0);
}

#[test]
fn a_signal_for_a_task_that_enrolled_by_itself_goes_to_its_process() {
    const URGENT: i32 = 12;
    let vm = Vm::up(2);
    let heard = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(URGENT, Arc::clone(&heard)).unwrap();
    let here = vm.task(1);
    let mut there = vm.task(2);
    there.signal(here.id(), URGENT).unwrap();
    until(|| heard.load(Ordering::Relaxed).then_some(()));
}

#[test]
fn a_task_that_spawns_is_told_of_what_it_spawned() {
    let vm = Vm::up(2);
    let mut task = vm.task(1);
    let spawned = task
        .spawn(towpath_task::SpawnTasks {
            program: b"sh".to_vec(),
            args: vec![b"-c".to_vec(), b"exit 3".to_vec()],
            count: 2,
            place: towpath_task::Place::Host(host(&vm, 2)),
            ..towpath_task::SpawnTasks::default()
        })
        .unwrap();
    for child in spawned {
        let child = child.unwrap();
        task.watch(Subject::Task(child)).unwrap();
        let event = loop {
            match task.next_event() {
                Some(event) => break event,
                None => assert!(task.wait(Some(LONG)).unwrap()),
            }
        };
        let ending = Some(towpath_vm::Ending::Exited(3));
        let Event::Notice { event, .. } = event else { panic!("{event:?}") };
        assert_eq!(event, WatchEvent::TaskEnded { task: child, ending });
    }
}
