//! What streams carry, how they fail, and what the daemon reads of all routes in the account.

use std::time::{Duration, Instant};

use towpath_io::direct::STREAMS_MAX;
use towpath_vm::Ending;
use towpath_vm::account::{Account, RouteState, Sent};
use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::TaskId;

use super::actors::{ANY, enrol, with_ring};
use super::stage::{Heard, Side, Stage};
use super::streams::{Peer, answers};
use crate::message::Envelope;
use crate::parts::directs::Route;
use crate::task::Task;

fn counter(task: &Task, name: &str) -> u64 {
    task.counters().iter().find(|(n, _)| *n == name).expect("it is counted").1
}

/// What the task tells of its way to `peer`.
fn account(task: &Task, peer: TaskId) -> Account {
    let line = task.directs.accounts.lines[&peer];
    Account::from_words(&task.home.as_ref().unwrap().ledger().get(line))
}

fn sent(messages: u64, bytes: u64) -> Sent {
    Sent { messages, bytes }
}

/// A task with a stream to a task of another host.
fn with_stream() -> (Task, Side, Peer) {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let mut peer = Peer::new(1);
    peer.asks(&mut side);
    let (ports, _) = answers(&mut task, &mut side, 1);
    assert_eq!(account(&task, peer.id).direct, RouteState::SettingUp);
    peer.dial(&mut task, ports[0].1);
    assert_eq!(account(&task, peer.id).direct, RouteState::Stands);
    assert_eq!(task.route(peer.id), Route::Stream);
    (task, side, peer)
}

/// Bytes of which each piece is another.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at >> 9) as u8 ^ at as u8).collect()
}

/// Takes the next message out of the peer's stream; `meanwhile` between two looks.
fn taken(peer: &mut Peer, mut meanwhile: impl FnMut()) -> (u32, i64, Vec<u8>) {
    let (stream, mut whole) = (peer.stream.as_mut().unwrap(), Vec::new());
    loop {
        stream.woken();
        while let Some(piece) = stream.head() {
            let header = piece.header;
            assert_eq!(header.offset, whole.len() as u64, "in order");
            whole.extend_from_slice(piece.payload);
            stream.take();
            if whole.len() as u64 == header.total {
                stream.flush();
                return (header.seq, header.tag, whole);
            }
        }
        stream.flush();
        assert!(stream.ended().is_none());
        meanwhile();
    }
}

#[test]
fn a_started_send_goes_on_by_the_stream_as_its_receiver_takes() {
    let (mut task, mut side, mut peer) = with_stream();
    let long = pattern(16 << 20);
    let pending = task.start_send_bytes(peer.id, 3, &long).unwrap();
    assert!(!task.is_over(&pending).unwrap(), "nobody takes anything");
    assert!(!task.try_send(peer.id, 9, b"before it?").unwrap());
    let behind = task.start_send_bytes(peer.id, 4, b"behind it").unwrap();
    let mut poll = || {
        task.poll().unwrap();
    };
    let first = taken(&mut peer, &mut poll);
    assert!((first.0, first.1) == (0, 3) && first.2 == long);
    assert_eq!(taken(&mut peer, poll), (1, 4, b"behind it".to_vec()));
    task.finish_send(pending).unwrap();
    task.finish_send(behind).unwrap();
    assert_eq!((counter(&task, "sent_by_stream"), counter(&task, "sent_by_daemon")), (2, 0));
    assert_eq!(account(&task, peer.id).by_stream, sent(2, (16 << 20) + 9));
    let pieces = std::iter::from_fn(|| side.heard()).filter(|h| matches!(h, Heard::Data(..)));
    assert_eq!(pieces.count(), 0);
}

#[test]
fn a_send_waits_until_the_kernel_has_all_of_it() {
    let (mut task, _side, mut peer) = with_stream();
    let (long, to) = (pattern(8 << 20), peer.id);
    let cut = [&long[..3], &long[3..70_000], &long[70_000..]];
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| {
            task.send_parts(to, Envelope::tag(5), &cut).unwrap();
            assert!(task.has_written(to));
            task.send(to, 6, b"").unwrap();
        });
        let got = taken(&mut peer, std::thread::yield_now);
        assert!((got.0, got.1) == (0, 5) && got.2 == long);
        assert_eq!(taken(&mut peer, std::thread::yield_now), (1, 6, Vec::new()));
        sends.join().unwrap();
    });
    assert_eq!(counter(&task, "sent_by_stream"), 2);
    assert_eq!(account(&task, to).by_stream, sent(2, 8 << 20));
}

#[test]
fn a_stream_that_brings_what_cannot_be_is_cut_off_and_not_asked_for_again() {
    let (mut task, mut side, peer) = with_stream();
    let socket = peer.stream.as_ref().unwrap().share().unwrap();
    let bytes = [0x5a; 4096];
    assert_eq!(rustix::io::write(&socket, &bytes).unwrap(), bytes.len());
    while task.routes.count() > 0 {
        task.poll().unwrap();
    }
    assert_eq!(counter(&task, "streams_bad"), 1);
    assert_eq!(account(&task, peer.id).direct, RouteState::Bad);
    for _ in 0..10 {
        task.send(peer.id, 1, b"").unwrap();
    }
    let asked = Heard::Control(ToDaemon::Direct { peer: peer.id });
    assert!(std::iter::from_fn(|| side.heard()).all(|heard| heard != asked));
    assert_eq!(account(&task, peer.id).by_daemons.messages, 10);
}

#[test]
fn a_stream_that_has_ended_says_so_and_another_may_be_asked_for() {
    let (mut task, mut side, mut peer) = with_stream();
    let mut stream = peer.stream.take().unwrap();
    stream.close();
    while task.routes.count() > 0 || stream.ended().is_none() {
        task.poll().unwrap();
        stream.woken();
        assert!(stream.head().is_none());
    }
    assert_eq!(account(&task, peer.id).direct, RouteState::Ended);
    assert_eq!(counter(&task, "streams_bad"), 0);
    for _ in 0..10 {
        task.send(peer.id, 1, b"").unwrap();
    }
    let asked = Heard::Control(ToDaemon::Direct { peer: peer.id });
    assert_eq!(std::iter::from_fn(|| side.heard()).filter(|heard| *heard == asked).count(), 1);
    side.say(&ToTask::NoDirect { peer: peer.id });
    while account(&task, peer.id).direct != RouteState::Refused {
        task.poll().unwrap();
    }
}

#[test]
fn why_a_stream_is_not_taken_is_said() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    task.allow_direct(false);
    let unwanted = Peer::new(900);
    unwanted.asks(&mut side);
    assert_eq!(answers(&mut task, &mut side, 1), (vec![], vec![unwanted.id]));
    assert_eq!(account(&task, unwanted.id).direct, RouteState::NotWanted);
    task.allow_direct(true);
    let peers: Vec<Peer> = (1..=STREAMS_MAX as u32 + 1).map(Peer::new).collect();
    for peer in &peers {
        peer.asks(&mut side);
    }
    let (ports, none) = answers(&mut task, &mut side, peers.len());
    assert_eq!((ports.len(), none.len()), (STREAMS_MAX, 1));
    assert_eq!(account(&task, none[0]).direct, RouteState::NoRoom);
}

#[test]
fn rings_and_daemons_are_in_the_account_too_until_a_peer_has_ended() {
    let (mut a, mut a_side, mut b, _b_side) = with_ring();
    let to = b.id();
    assert_eq!(account(&a, to).direct, RouteState::Stands);
    let before = account(&a, to).by_ring;
    assert_eq!(before, Sent::default());
    a.send(to, 1, b"tiny").unwrap();
    a.send(to, 1, &[1; 3000]).unwrap();
    a.send_parts(to, Envelope::tag(1), &[&vec![1; 40_000], b"long"]).unwrap();
    for _ in 0..3 {
        b.recv(&ANY).unwrap();
    }
    assert_eq!(account(&a, to).by_ring, sent(3, 4 + 3000 + 40_004));
    a.allow_direct(false);
    a.send(to, 1, b"by the daemon").unwrap();
    let own = a.id();
    a.multicast(&[to, own], Envelope::tag(1), &[b"both"]).unwrap();
    assert_eq!(account(&a, to).by_daemons, sent(2, 13 + 4));
    a.allow_direct(true);
    a_side.say(&ToTask::RingFailed { peer: to });
    while account(&a, to).direct != RouteState::Refused {
        a.poll().unwrap();
    }
    let all = |task: &Task| {
        Account::from_words(&task.home.as_ref().unwrap().ledger().get(crate::parts::accounts::GONE))
    };
    assert_eq!(all(&a), Account::default());
    let last = account(&a, to);
    a_side.say(&ToTask::Gone { peer: to });
    while !a.endpoint.has_ended(to) {
        a.poll().unwrap();
    }
    assert!(!a.directs.accounts.lines.contains_key(&to), "its line is free");
    let expected = Account { peer: None, direct: RouteState::None, ..last };
    assert_eq!(all(&a), expected, "what went to it counts on");
}

/// When the task looks again whether the end of `peer` is to be told.
fn wakes_for(task: &mut Task, side: &mut Side, peer: TaskId, ending: Option<Ending>) -> Duration {
    let watch = peer.number().into();
    let event = WatchEvent::TaskEnded { task: peer, ending };
    let before = (Instant::now(), task.routes.parked.len());
    side.say(&ToTask::Notice { watch, event });
    while task.routes.parked.len() == before.1 {
        task.poll().unwrap();
    }
    task.routes.parked[before.1].until.saturating_duration_since(before.0)
}

#[test]
fn the_end_of_a_task_of_a_lost_host_is_told_sooner() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let mut peers: Vec<Peer> = (1..=3).map(Peer::new).collect();
    for peer in &mut peers {
        peer.asks(&mut side);
        let (ports, _) = answers(&mut task, &mut side, 1);
        peer.dial(&mut task, ports[0].1);
    }
    let late = Duration::from_millis(1500);
    let [one, two, three] = [0, 1, 2].map(|n| peers[n].id);
    assert!(wakes_for(&mut task, &mut side, one, None) > late, "it may bring something still");
    assert!(wakes_for(&mut task, &mut side, two, Some(Ending::HostLost)) < late);
    // That it is lost is known then for all of its tasks.
    assert!(wakes_for(&mut task, &mut side, three, None) < late);
    assert!(task.wakes_at().is_some_and(|at| at < Instant::now() + late));
    assert!(task.next_event().is_none(), "none is told yet");
}

#[test]
fn a_multicast_to_many_of_one_host_tries_their_streams_now_and_then() {
    const RECEIVERS: u32 = 40;
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let mut peers: Vec<Peer> = (1..=RECEIVERS).map(Peer::new).collect();
    for peer in &mut peers {
        peer.asks(&mut side);
        let (ports, _) = answers(&mut task, &mut side, 1);
        peer.dial(&mut task, ports[0].1);
        task.endpoint.next_number(peer.id);
        task.endpoint.credit(peer.id, 1 << 30);
    }
    let to: Vec<TaskId> = peers.iter().map(|peer| peer.id).collect();
    let bytes = [7; 4000];
    let mut by_stream = Vec::new();
    for round in 1..=130 {
        let before = counter(&task, "sent_by_stream");
        task.multicast(&to, Envelope::tag(1), &[&bytes]).unwrap();
        if counter(&task, "sent_by_stream") > before {
            assert_eq!(counter(&task, "sent_by_stream"), before + u64::from(RECEIVERS), "all");
            by_stream.push(round);
        }
        while side.heard().is_some() {}
    }
    assert_eq!(by_stream, [64, 128], "so that it shows how fast they are");
}

#[test]
fn what_a_stream_has_begun_it_ends_though_no_more_go_by_it() {
    let (mut task, _side, mut peer) = with_stream();
    let long = pattern(16 << 20);
    let pending = task.start_send_bytes(peer.id, 3, &long).unwrap();
    assert!(!task.is_over(&pending).unwrap());
    task.allow_direct(false);
    assert_eq!(task.route(peer.id), Route::Daemon);
    let got = taken(&mut peer, || {
        task.poll().unwrap();
    });
    assert!((got.0, got.1) == (0, 3) && got.2 == long, "whole, by the stream");
    task.finish_send(pending).unwrap();
    assert_eq!((counter(&task, "sent_by_stream"), counter(&task, "sent_by_daemon")), (1, 0));
}

#[test]
fn what_a_task_starts_to_send_itself_is_there_and_counted() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    for n in 1..=2_u8 {
        let pending = task.start_send(own, 1, &[n, n]).unwrap();
        assert!(task.is_over(&pending).unwrap());
        let values = task.recv_slice::<u8>(&ANY).unwrap();
        assert_eq!(values.into_iter().collect::<Vec<_>>(), [n, n]);
        assert_eq!(counter(&task, "sent_to_self"), u64::from(n));
    }
}
