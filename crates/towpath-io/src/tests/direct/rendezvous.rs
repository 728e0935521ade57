//! Setting up: strangers, impostors, silence, limits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use towpath_io::direct::{Offer, Outcome, Rendezvous, SetUpError};
use towpath_wire::Instant;

use super::side::{V4, finish, next, offers, task, wait};

/// Bytes of who connects, before it hears anything.
const HELLO: usize = 88;

#[test]
fn a_stranger_is_dropped_and_the_peer_still_gets_through() {
    let [ours, theirs] = offers(true);
    let now = Instant::ZERO;
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, now).unwrap();
    let strangers: Vec<TcpStream> = (0..5)
        .map(|i| {
            let mut stranger = TcpStream::connect((V4, port)).unwrap();
            stranger.write_all(&vec![i; 30 * usize::from(i)]).unwrap();
            stranger
        })
        .collect();
    let mut a = Rendezvous::new().unwrap();
    a.dial(ours, SocketAddr::new(V4, port), now).unwrap();
    let [stream, _] = finish([&mut a, &mut b], now);
    assert_eq!(stream.peer(), task(2));
    assert!(b.dropped() >= 2, "those who said 88 bytes of nonsense");
    for mut stranger in strangers {
        // Nobody is expected any more: all are dropped, and nobody was told anything.
        let mut heard = Vec::new();
        let end = stranger.read_to_end(&mut heard);
        assert!(
            heard.is_empty()
                && end.map_or_else(|e| e.kind() == io::ErrorKind::ConnectionReset, |n| n == 0)
        );
    }
    assert!(TcpStream::connect((V4, port)).is_err(), "it still listens");
}

#[test]
fn silence_and_wrong_keys_run_into_their_time() {
    let [ours, theirs] = offers(true);
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, Instant::ZERO).unwrap();
    let mut silent = TcpStream::connect((V4, port)).unwrap();
    let mut a = Rendezvous::new().unwrap();
    let impostor = Offer { key: [9; 32], ..ours };
    a.dial(impostor, SocketAddr::new(V4, port), Instant::ZERO).unwrap();
    // The listener never answers a wrong key; it drops the connection.
    let failed = loop {
        assert!(b.advance(Instant::ZERO).is_none());
        if let Some(outcome) = a.advance(Instant::ZERO) {
            break outcome;
        }
        wait(&[&a, &b]);
    };
    assert!(matches!(failed, Outcome::Failed { why: SetUpError::Refused(_), .. }));
    assert_eq!(b.dropped(), 1);
    let hello_over = Instant::ZERO + towpath_io::direct::HELLO_TIME;
    assert_eq!(b.deadline(), Some(hello_over));
    assert!(b.advance(hello_over).is_none());
    assert_eq!(b.dropped(), 2);
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
    let over = Instant::ZERO + towpath_io::direct::SET_UP_TIME;
    assert_eq!(b.deadline(), Some(over));
    assert!(matches!(b.advance(over), Some(Outcome::Failed { why: SetUpError::Time, .. })));
    assert!(b.advance(over).is_none() && b.deadline().is_none());
}

#[test]
fn whoever_listens_without_the_key_is_not_believed() {
    let [ours, _] = offers(true);
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let mut a = Rendezvous::new().unwrap();
    a.dial(ours, listener.local_addr().unwrap(), Instant::ZERO).unwrap();
    assert!(a.advance(Instant::ZERO).is_none());
    let (mut peer, _) = listener.accept().unwrap();
    let mut hello = [0; HELLO];
    peer.read_exact(&mut hello).unwrap();
    peer.write_all(&[7; 48]).unwrap();
    assert_eq!(next(&mut a, Instant::ZERO).err(), Some(SetUpError::Unproven));
}

#[test]
fn a_hello_heard_and_played_again_does_not_use_up_the_offer() {
    let [ours, theirs] = offers(true);
    let now = Instant::ZERO;
    // A relay hears the hello of a first attempt.
    let relay = TcpListener::bind((V4, 0)).unwrap();
    let mut a = Rendezvous::new().unwrap();
    a.dial(ours.clone(), relay.local_addr().unwrap(), now).unwrap();
    let (mut heard, _) = relay.accept().unwrap();
    wait(&[&a]);
    assert!(a.advance(now).is_none());
    let mut hello = [0; HELLO];
    heard.read_exact(&mut hello).unwrap();
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, now).unwrap();
    let mut players = Vec::new();
    for _ in 0..6 {
        let mut player = TcpStream::connect((V4, port)).unwrap();
        player.write_all(&hello).unwrap();
        player.write_all(&[0; 16]).unwrap();
        players.push(player);
        wait(&[&b]);
        assert!(b.advance(now).is_none());
    }
    a.dial(ours, SocketAddr::new(V4, port), now).unwrap();
    finish([&mut a, &mut b], now);
    assert!(b.dropped() > 0);
}

#[test]
fn one_hello_played_again_and_again_is_answered_so_often_and_no_more() {
    let [ours, theirs] = offers(true);
    let now = Instant::ZERO;
    let relay = TcpListener::bind((V4, 0)).unwrap();
    let mut a = Rendezvous::new().unwrap();
    a.dial(ours, relay.local_addr().unwrap(), now).unwrap();
    let (mut heard, _) = relay.accept().unwrap();
    wait(&[&a]);
    assert!(a.advance(now).is_none());
    let mut hello = [0; HELLO];
    heard.read_exact(&mut hello).unwrap();
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, now).unwrap();
    let mut answered = 0;
    for _ in 0..40 {
        let mut player = TcpStream::connect((V4, port)).unwrap();
        player.write_all(&hello).unwrap();
        player.set_nonblocking(true).unwrap();
        let before = b.dropped();
        // Whoever is dropped is closed before it is counted here.
        while b.dropped() == before && player.peek(&mut [0]).is_err() {
            wait(&[&b]);
            assert!(b.advance(now).is_none());
        }
        if b.dropped() == before {
            answered += 1;
            drop(player);
            while b.dropped() == before {
                wait(&[&b]);
                assert!(b.advance(now).is_none());
            }
        }
    }
    assert_eq!(answered, 16);
}

#[test]
fn a_connection_that_is_cut_in_the_middle_of_a_handshake_is_told_or_waited_for() {
    let [ours, theirs] = offers(true);
    let now = Instant::ZERO;
    // Before the answer, and in the middle of it: who dials hears of it at once.
    for cut in [0, 47] {
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let mut a = Rendezvous::new().unwrap();
        a.dial(ours.clone(), listener.local_addr().unwrap(), now).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        wait(&[&a]);
        assert!(a.advance(now).is_none());
        let mut hello = [0; HELLO];
        peer.read_exact(&mut hello).unwrap();
        peer.write_all(&vec![7; cut]).unwrap();
        drop(peer);
        assert_eq!(
            next(&mut a, now).err(),
            Some(SetUpError::Refused(io::ErrorKind::UnexpectedEof))
        );
    }
    // Behind the hello: who listens goes on waiting for the one that proves itself.
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, now).unwrap();
    let (mut a, mut second) = (Rendezvous::new().unwrap(), Rendezvous::new().unwrap());
    a.dial(ours.clone(), SocketAddr::new(V4, port), now).unwrap();
    wait(&[&a]);
    assert!(a.advance(now).is_none());
    drop(a);
    while b.dropped() == 0 {
        wait(&[&b]);
        assert!(b.advance(now).is_none());
    }
    second.dial(ours, SocketAddr::new(V4, port), now).unwrap();
    finish([&mut second, &mut b], now);
}

#[test]
fn as_many_may_be_set_up_at_once_as_is_said_and_no_more() {
    let mut b = Rendezvous::new().unwrap();
    let [_, theirs] = offers(true);
    for slot in 0..towpath_io::direct::SETTING_UP_MAX as u16 {
        let offer = Offer { peer: task(slot + 10), ..theirs.clone() };
        b.listen(offer.clone(), Instant::ZERO).unwrap();
        b.listen(offer, Instant::ZERO).unwrap();
    }
    assert_eq!(b.listen(theirs.clone(), Instant::ZERO), Err(SetUpError::Full));
    b.forget(task(10));
    assert!(b.listen(theirs, Instant::ZERO).is_ok());
}

#[test]
fn a_refused_connection_is_told_at_once() {
    let [ours, _] = offers(true);
    let free = TcpListener::bind((V4, 0)).unwrap().local_addr().unwrap();
    let mut a = Rendezvous::new().unwrap();
    let refused = match a.dial(ours, free, Instant::ZERO) {
        Ok(()) => next(&mut a, Instant::ZERO).err(),
        Err(e) => Some(e),
    };
    assert_eq!(refused, Some(SetUpError::Refused(io::ErrorKind::ConnectionRefused)));
}
