//! What passes on a stream, and how it ends when nothing goes wrong.

use std::net::TcpListener;
use std::time::Duration;

use towpath_io::direct::{End, Push, STREAMS_MAX, Stream, Streams};
use towpath_wire::Instant;

use super::side::{
    Side, V4, V6, all_taken, connect, exchange, header, offers, offers_between, sides, task,
};
use towpath_skip::skip;

#[test]
fn messages_pass_both_ways_over_ipv4_and_ipv6_sealed_and_in_clear() {
    for (address, sealed) in [(V4, true), (V4, false), (V6, true)] {
        if address == V6 && TcpListener::bind((V6, 0)).is_err() {
            skip("this machine has no IPv6");
            continue;
        }
        let mut streams = connect(offers(sealed), address);
        let mut sides = sides(&[0, 16, 4096, 4097, 300_000, 1], &[1_000_000, 0, 7]);
        exchange(&mut streams, &mut sides, all_taken);
        // Credit that came last is read by whoever looks again.
        let begun = std::time::Instant::now();
        let a = loop {
            for stream in &mut streams {
                stream.woken();
                assert!(stream.head().is_none());
            }
            let [a, b] = [0, 1].map(|i: usize| streams[i].counters());
            let all = (a.bytes_sent, b.bytes_sent) == (b.bytes_received, a.bytes_received);
            if all || begun.elapsed().as_secs() > 60 {
                assert!(all, "{a:?} {b:?}");
                break a;
            }
        };
        assert_eq!((a.pieces_sent, a.pieces_received), (10, 18));
    }
}

#[test]
fn both_may_send_64_mb_before_either_expects_any() {
    let mut streams = connect(offers(true), V4);
    let mut sides = sides(&[64_000_000], &[64_000_000]);
    exchange(&mut streams, &mut sides, all_taken);
    assert!(streams.iter().any(|stream| stream.counters().full > 0), "the limit was never met");
}

#[test]
fn a_peer_that_takes_nothing_stops_its_sender_at_the_limit() {
    let [mut a, mut b] = connect(offers(true), V4);
    let [mut ours, mut theirs] = sides(&[64_000_000], &[]);
    while ours.send(&mut a) {}
    assert!(ours.next.1 <= towpath_io::direct::RING_BYTES as u64);
    // It keeps the head where it is, however often it looks.
    for _ in 0..3 {
        assert_eq!(b.head().map(|piece| piece.header.offset), Some(0));
    }
    let before = ours.next;
    a.woken();
    assert!(!ours.send(&mut a) && ours.next == before);
    exchange(&mut [a, b], &mut [ours, theirs], all_taken);
    theirs = Side::new(task(2), task(1), &[]);
    assert_eq!(theirs.twice, 0);
}

#[test]
fn a_stream_that_is_closed_ends_when_everything_is_taken() {
    let mut streams = connect(offers(true), V4);
    let mut sides = sides(&[100_000, 5], &[200_000]);
    exchange(&mut streams, &mut sides, |streams, _| {
        streams.iter().all(|s| s.counters().bytes_sent > 0)
    });
    streams[0].close();
    let ended = |streams: &[Stream; 2], _: &[Side; 2]| streams.iter().all(|s| s.ended().is_some());
    exchange(&mut streams, &mut sides, ended);
    let [a, b] = &mut sides;
    for (stream, side) in streams.iter_mut().zip([&mut *a, &mut *b]) {
        assert_eq!(stream.ended(), Some(&End::Closed));
        let piece = side.next_piece();
        assert!(
            piece.is_none_or(|(header, bytes)| stream.push(&header, &[&bytes]) == Push::Closed)
        );
        stream.untaken(&mut |header, _| panic!("{header:?} was taken"));
    }
    a.send_rest(&mut streams[0], b);
    b.send_rest(&mut streams[1], a);
    assert_eq!((a.expected, b.expected, a.twice + b.twice), ((1, 0), (2, 0), 0));
}

#[test]
fn only_a_stream_that_is_idle_makes_room() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let (mut streams, mut peers) = (Streams::new(), Vec::new());
    for slot in 0..STREAMS_MAX as u16 {
        assert!(streams.make_room(0, at(0)));
        let [stream, peer] = connect(offers_between(1, slot + 2, true), V4);
        peers.push(peer);
        assert!(streams.insert(Box::new(stream), at(0)).is_none());
    }
    assert!(!streams.make_room(0, at(4)), "nobody knows yet that they are idle");
    // Receiving is use, too: all but the second bring something.
    for (i, peer) in peers.iter_mut().enumerate().filter(|(i, _)| *i != 1) {
        let task = task(i as u16 + 2);
        assert_eq!(peer.push(&header(task, self::task(1), 0, 0, 0), &[]), Push::Taken);
        peer.flush();
        let ours = streams.get(task).unwrap();
        while ours.head().is_none() {
            ours.woken();
        }
        ours.take();
    }
    assert!(streams.make_room(0, at(5)));
    assert!(!streams.make_room(1, at(5)), "the room is for what is being set up");
    assert!(!streams.make_room(1, at(9)));
    assert_eq!(streams.len(), STREAMS_MAX);
    let ours = streams.get(task(3)).unwrap();
    assert_eq!(ours.push(&header(task(1), task(3), 0, 0, 0), &[]), Push::Closed);
    let theirs = &mut peers[1];
    while theirs.ended().is_none() || ours.ended().is_none() {
        for stream in [&mut *ours, &mut *theirs] {
            stream.woken();
            assert!(stream.head().is_none());
        }
    }
    assert_eq!((ours.ended(), theirs.ended()), (Some(&End::Closed), Some(&End::Closed)));
}

#[test]
fn a_stream_says_whether_it_has_room() {
    let [mut a, mut b] = connect(offers(true), V4);
    assert!(a.has_room() && a.has_room_for(100_000) && a.is_open() && a.is_written());
    let piece = vec![7; towpath_wire::talk::PIECE_MAX];
    let mut seq = 0;
    while a.has_room() {
        let len = piece.len() as u64;
        assert_eq!(a.push(&header(task(1), task(2), seq, len, 0), &[&piece]), Push::Taken);
        seq += 1;
    }
    assert!(!a.has_room_for(piece.len()));
    assert!(!a.is_written());
    let mut taken = 0;
    while taken < seq {
        a.flush();
        a.woken();
        assert!(a.head().is_none());
        b.woken();
        while b.head().is_some() {
            b.take();
            taken += 1;
        }
        b.flush();
    }
    while !a.has_room_for(100_000) {
        a.woken();
        assert!(a.head().is_none());
    }
    a.close();
    assert!(!a.has_room() && !a.has_room_for(0) && !a.is_open());
}
