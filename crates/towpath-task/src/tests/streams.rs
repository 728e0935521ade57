//! What streams leave behind.

use std::time::Duration;

use towpath_vm::talk::{StreamOffer, ToDaemon, ToTask};

use super::actors::{enrol, header, sent};
use super::stage::{Heard, Stage};
use crate::error::SendError;

#[test]
fn a_full_task_that_leaves_delivers_what_a_stream_left() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = towpath_wire::HostId::new(2, 1).unwrap().task(1).unwrap();
    let long: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let rest = header(task.id(), peer, 7, 0, long.len());
    task.held_max = 0;
    task.routes.keep(rest, long.clone().into(), 0);
    side.say(&ToTask::Credit { peer, limit: 1 << 30 });
    // The daemon knows of the pair once something was sent.
    task.endpoint.meet(peer);
    task.leave().unwrap();
    assert_eq!(sent(&mut side, peer), [(0, 7, long)]);
}

#[test]
fn leaving_ends_also_when_a_receiver_takes_nothing() {
    let mut stage = Stage::new();
    let (mut task, _side) = enrol(&mut stage, 1);
    let peer = towpath_wire::HostId::new(2, 1).unwrap().task(1).unwrap();
    let rest = header(task.id(), peer, 7, 0, 100_000);
    task.routes.keep(rest, vec![1; 100_000].into(), 0);
    let left = task.settle_streams(Duration::from_millis(5));
    assert_eq!(left, Err(SendError::Undelivered { pieces: 1, seconds: 0 }));
    // It does not wait again for what is given up.
    assert_eq!(task.settle_streams(Duration::from_millis(5)), Ok(()));
}

#[test]
fn a_stream_that_does_not_stand_leaves_nothing_behind() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let host = towpath_wire::HostId::new(2, 1).unwrap();
    // A port that nobody listens on any more.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    for n in 1..=5 {
        let peer = host.task(n).unwrap();
        let (send_key, receive_key) = ([1; 32], [2; 32]);
        let offer = StreamOffer { peer, address: Some(nowhere), send_key, receive_key };
        side.say(&ToTask::Stream(offer));
        let closed = Heard::Control(ToDaemon::CloseDirect { peer });
        let mut heard = None;
        while heard.is_none() {
            task.wait(Some(Duration::from_millis(1))).unwrap();
            heard = side.heard();
        }
        assert_eq!(heard, Some(closed));
    }
    assert_eq!(task.routes.dialled(), 0);
}
