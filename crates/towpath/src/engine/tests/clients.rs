//! Clients: what the daemon measures, how a conversation with it goes wrong.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use towpath_vm::metrics::{self, Row, Store};

use super::{ask, first, next, refusal};
use crate::client::{Client, ClientError};
use crate::protocol::{
    FrameReader, OBSERVERS_MAX, ONCE_MAX, Reply, Request, TaskEvent, encode, greeting,
};
use crate::support::{LONG, Vm};

/// Takes in what a client is told until its store has a row of this group.
fn measured(client: &mut Client, store: &mut Store, group: u8) -> Row {
    loop {
        if let Some(row) = store.rows().find(|row| row.series.group == group) {
            return row;
        }
        let Reply::Metrics(delta) = next(client) else { panic!("no metrics") };
        store.apply(&delta).unwrap();
    }
}

fn value(row: &Row, name: &str) -> u64 {
    row.named().find(|(metric, _)| metric.name == name).expect("there is such a metric").1
}

#[test]
fn whoever_asks_is_told_what_the_daemon_measures() {
    let vm = Vm::up(2);
    let task = vm.task(1);
    let mut client = vm.client(1);
    client.sender.send(&Request::Observe { host: None, every_ms: None }).unwrap();
    let mut store = Store::default();
    // The last of its groups stand behind the daemon's and the links'.
    let turns = measured(&mut client, &mut store, metrics::table::TURN_TIME.number);
    assert!(turns.values.iter().any(|value| *value > 0));
    let daemon = measured(&mut client, &mut store, metrics::Daemon::GROUP.number);
    assert_eq!((value(&daemon, "clients"), value(&daemon, "tasks_connected")), (1, 1));
    assert_eq!(value(&daemon, "tasks_cut_off"), 0);
    let links = store.rows().filter(|row| row.series.group == metrics::Link::GROUP.number);
    let links: Vec<Row> = links.collect();
    assert_eq!(links.len(), 1, "the daemon has one");
    for name in ["datagrams_sent", "bytes_sent", "datagrams_received", "bytes_received"] {
        assert!(value(&links[0], name) > 0, "{name}");
    }
    assert_eq!((value(&links[0], "send_errors"), value(&links[0], "paced_channels")), (0, 0));
    for group in [metrics::Endpoint::GROUP.number, metrics::Node::GROUP.number] {
        assert!(store.rows().any(|row| row.series.group == group), "group {group}");
    }
    // The same by name.
    assert_eq!(vm.counter(1, "tasks_connected"), 1);
    assert!(vm.counter(1, "packets_sent") > 0);
    drop(task);
}

#[test]
fn an_observer_is_told_again_and_again_and_not_twice_at_once() {
    let vm = Vm::up(1);
    let again = Request::Observe { host: None, every_ms: Some(1) };
    let mut first = vm.client(1);
    first.sender.send(&again).unwrap();
    let mut store = Store::default();
    let before = measured(&mut first, &mut store, metrics::Daemon::GROUP.number);
    first.sender.send(&again).unwrap();
    let mut told = Vec::new();
    let why = loop {
        match next(&mut first) {
            Reply::Metrics(delta) => told.push(delta),
            Reply::Failed(why) => break why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why.starts_with("this connection is told"), "{why}");
    for delta in &told {
        store.apply(delta).unwrap();
    }
    let mut others: Vec<Client> = (1..OBSERVERS_MAX).map(|_| vm.client(1)).collect();
    for client in &mut others {
        client.sender.send(&again).unwrap();
        assert!(matches!(next(client), Reply::Metrics(_)));
    }
    let mut one_more = vm.client(1);
    let why = refusal(&mut one_more, &again);
    assert!(why.starts_with(&format!("{OBSERVERS_MAX} others are told")), "{why}");
    // One that asks once is told all the same, and the first hears of the others' connections.
    assert!(matches!(
        ask(&mut one_more, &Request::Observe { host: None, every_ms: None }),
        Reply::Metrics(_)
    ));
    assert_eq!(value(&before, "clients"), 1);
    loop {
        let Reply::Metrics(delta) = next(&mut first) else { panic!("no metrics") };
        store.apply(&delta).unwrap();
        let row = measured(&mut first, &mut store, metrics::Daemon::GROUP.number);
        if value(&row, "clients") == OBSERVERS_MAX as u64 + 1 {
            break;
        }
    }
    // A place is free once one has gone.
    drop(others);
    super::until(|| {
        one_more = vm.client(1);
        matches!(one_more.ask(&again, LONG), Ok(Reply::Metrics(_))).then_some(())
    });
    const { assert!(ONCE_MAX > 0) };
}

#[test]
fn a_client_of_another_build_is_told_which_this_is_and_no_more() {
    let vm = Vm::up(1);
    let path = vm.host(1).join("sock");
    let talk = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        said
    };
    let (own, len) = greeting().emit();
    let theirs = towpath_wire::greeting::Greeting { build: "another", ..greeting() };
    let (other, other_len) = theirs.emit();
    let info = encode(&Request::Info).unwrap();
    assert_eq!(talk(&[&other[..other_len], &info].concat()), own[..len]);
    // A frame that does not decode, and one that is too long.
    assert_eq!(talk(&[&own[..len], &[1, 0, 0, 0, 0xff]].concat()), own[..len]);
    assert_eq!(talk(&[&own[..len], &[0xff; 4]].concat()), own[..len]);
    // Cut into single bytes it is answered all the same.
    let mut stream = UnixStream::connect(&path).unwrap();
    for byte in [&own[..len], &info].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    stream.set_read_timeout(Some(LONG)).unwrap();
    let (mut frames, mut greeted, mut buf) = (FrameReader::default(), false, [0; 4096]);
    let reply = loop {
        let n = stream.read(&mut buf).unwrap();
        frames.extend(&buf[..n]);
        greeted = greeted || frames.greeted().unwrap();
        if greeted && let Some(reply) = frames.next::<Reply>().unwrap() {
            break reply;
        }
    };
    assert!(matches!(reply, Reply::Info(_)), "{reply:?}");
    assert_eq!(frames.next::<Reply>(), Ok(None));
}

#[test]
fn many_questions_at_once_are_answered_in_order() {
    const COUNT: u64 = 2000;
    let vm = Vm::up(1);
    let mut client = vm.client(1);
    let ask = |tag| encode(&Request::Tasks { tag, host: first() }).unwrap();
    let frames: Vec<u8> = (0..COUNT).flat_map(ask).collect();
    client.sender.send_bytes(&frames).unwrap();
    for n in 0..COUNT {
        let told = next(&mut client);
        assert!(matches!(&told, Reply::Tasks { tag, .. } if *tag == n), "{n}: {told:?}");
    }
    // What was asked before the end of the connection is done still.
    client.sender.send_bytes(&frames).unwrap();
    let spec = super::script("true");
    client.sender.send(&Request::Spawn { tag: 1, host: first(), spec }).unwrap();
    for _ in 0..COUNT {
        next(&mut client);
    }
    let started = next(&mut client);
    assert!(matches!(started, Reply::Task { tag: 1, event: TaskEvent::Started { .. } }));
}

#[test]
fn who_says_nothing_more_is_answered_all_the_same() {
    let vm = Vm::up(2);
    let (own, len) = greeting().emit();
    let far = super::host(&vm, 2);
    // Answered at once, by another host, and when the disk has it.
    let questions = [
        Request::Info,
        Request::Tasks { tag: 7, host: far },
        Request::Invite { ttl_s: 60, uses: None },
    ];
    for questions in [&questions[..], &questions[..1], &questions[1..2], &questions[2..]] {
        let mut stream = UnixStream::connect(vm.host(1).join("sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let asked: Vec<u8> = questions.iter().flat_map(|q| encode(q).unwrap()).collect();
        stream.write_all(&[&own[..len], &asked].concat()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        let mut frames = FrameReader::default();
        frames.extend(&said);
        assert!(frames.greeted().unwrap());
        let replies = std::iter::from_fn(|| frames.next::<Reply>().unwrap()).count();
        assert_eq!(replies, questions.len(), "{questions:?}");
    }
    // Nobody of them stays.
    super::until(|| (vm.counter(1, "clients") == 1).then_some(()));
}

/// A daemon that the test plays: what it says to one client, and then.
fn played(say: &'static [u8], stays: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(say).unwrap();
        if stays {
            let _ = stream.read_to_end(&mut Vec::new());
        } else {
            let (_, len) = greeting().emit();
            let _ = stream.read_exact(&mut vec![0; len]);
        }
    });
    (dir, path)
}

#[test]
fn a_client_says_why_it_cannot_talk_to_a_daemon() {
    let nowhere = Client::connect("/no/such/sock".as_ref()).unwrap_err();
    assert!(matches!(nowhere, ClientError::Connect { .. }), "{nowhere}");
    let (_dir, path) = played(b"", false);
    let silent = Client::connect(&path).unwrap().receiver.next(Some(LONG)).unwrap_err();
    assert!(matches!(silent, ClientError::Silent), "{silent}");
    let (_dir, path) = played(b"", false);
    let silent = Client::connect(&path).unwrap().receiver.fill().unwrap_err();
    assert!(matches!(silent, ClientError::Silent), "{silent}");
    let (_dir, path) = played(b"something else altogether, and not a greeting of ours", true);
    let other = Client::connect(&path).unwrap().receiver.next(Some(LONG)).unwrap_err();
    assert!(matches!(other, ClientError::Build(_)), "{other}");
    // One that says nothing at all.
    let (_dir, path) = played(b"", true);
    let mut client = Client::connect(&path).unwrap();
    let short = Duration::from_millis(5);
    assert!(matches!(client.receiver.next(Some(short)), Ok(None)));
    let late = client.ask(&Request::Info, short).unwrap_err();
    assert!(matches!(&late, ClientError::Failed(why) if why.contains("did not answer")), "{late}");
    client.sender.close();
    let gone = client.receiver.next(Some(LONG)).unwrap_err();
    assert!(matches!(gone, ClientError::Silent), "{gone}");
}

#[test]
fn what_was_read_together_is_given_out_one_by_one() {
    let vm = Vm::up(1);
    let mut client = vm.client(1);
    for _ in 0..3 {
        client.sender.send(&Request::Info).unwrap();
    }
    let mut seen = 0;
    while seen < 3 {
        assert!(client.receiver.as_fd().try_clone_to_owned().is_ok());
        client.receiver.fill().unwrap();
        while let Some(reply) = client.receiver.buffered().unwrap() {
            assert!(matches!(reply, Reply::Info(_)));
            seen += 1;
        }
    }
    assert!(matches!(client.receiver.buffered(), Ok(None)));
    client.sender.close();
    assert!(matches!(client.receiver.fill(), Err(ClientError::Gone)));
    assert!(matches!(client.sender.send(&Request::Info), Err(ClientError::Gone)));
}
