use super::*;
use crate::matching::Wanted;
use alloc::vec::Vec;
use proptest::prelude::*;
use towpath_wire::talk::Header;
use towpath_wire::{HostId, TaskId};

fn task(n: u32) -> TaskId {
    HostId::new(1, 1).unwrap().task(n).unwrap()
}

fn header(seq: u32, total: u64, offset: u64) -> Header {
    Header { src: task(1), dst: task(2), tag: 0, context: 0, seq, format: 0, total, offset }
}

fn message(seq: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ seq as u8).collect()
}

/// Takes all that wait; their contents.
fn received(endpoint: &mut Endpoint<()>) -> Vec<Vec<u8>> {
    let any = Wanted { source: None, tag: None, context: 0 };
    let bytes = |parcel: Parcel<()>| match parcel.body {
        Body::Own(bytes) => bytes,
        Body::Route(()) => unreachable!("nothing came by shared memory"),
    };
    ::core::iter::from_fn(|| endpoint.take(&any)).map(|w| bytes(w.payload)).collect()
}

#[test]
fn a_long_message_gets_the_buffer_of_one_that_was_received() {
    let mut endpoint = Endpoint::<()>::new(1);
    let any = Wanted { source: None, tag: None, context: 0 };
    let mut buffers = Vec::new();
    for (seq, len) in [(0, 100_000), (1, 95_000), (2, 20_000), (3, 99_000)] {
        let sent = message(seq, len);
        endpoint.piece(&header(seq, len as u64, 0), &sent).unwrap();
        let body = endpoint.take(&any).unwrap().payload.body;
        let Body::Own(bytes) = &body else { unreachable!("nothing came by shared memory") };
        assert_eq!(*bytes, sent);
        buffers.push(bytes.as_ptr());
        assert_eq!(endpoint.held(), 0);
        endpoint.reuse(body);
    }
    assert_eq!((buffers[1], buffers[3]), (buffers[0], buffers[0]));
    assert_ne!(buffers[2], buffers[0], "much too long for it");
}

#[test]
fn a_message_goes_on_by_the_daemons_where_its_stream_broke() {
    let mut endpoint = Endpoint::new(1);
    let bytes = message(0, 100);
    assert_eq!(endpoint.stream_piece(&header(0, 100, 0), &bytes[..40]), Ok(true));
    assert_eq!(endpoint.stream_piece(&header(0, 100, 40), &bytes[40..70]), Ok(true));
    // The sender was told of less than was taken, and cuts differently.
    assert_eq!(endpoint.piece(&header(0, 100, 40), &bytes[40..60]), Ok(()));
    assert_eq!(endpoint.held(), 70);
    assert_eq!(endpoint.piece(&header(0, 100, 60), &bytes[60..90]), Ok(()));
    assert_eq!(endpoint.piece(&header(0, 100, 90), &bytes[90..]), Ok(()));
    assert_eq!(received(&mut endpoint), [bytes]);
    assert_eq!(endpoint.held(), 0);
}

#[test]
fn a_message_sent_again_goes_before_those_that_came_by_the_daemons() {
    let mut endpoint = Endpoint::new(1);
    assert_eq!(endpoint.stream_piece(&header(1, 1, 0), &[1]), Ok(false), "not due");
    assert_eq!(endpoint.piece(&header(0, 1, 0), &[0]), Ok(()));
    assert_eq!(endpoint.piece(&header(2, 1, 0), &[2]), Ok(()));
    assert_eq!(endpoint.piece(&header(1, 1, 0), &[1]), Ok(()));
    for late in [0, 1, 2] {
        assert_eq!(endpoint.stream_piece(&header(late, 1, 0), &[9]), Ok(true));
        assert_eq!(endpoint.piece(&header(late, 1, 0), &[9]), Ok(()));
    }
    assert_eq!(received(&mut endpoint), [[0], [1], [2]]);
    assert_eq!(endpoint.held(), 0);
}

#[test]
fn a_piece_whose_beginning_is_missing_is_an_error() {
    let mut endpoint = Endpoint::<()>::new(1);
    assert_eq!(endpoint.piece(&header(0, 1, 0), &[0]), Ok(()));
    for late in [1, 2] {
        let what = "its beginning is missing";
        let bad = Err(BadPiece { src: task(1), seq: late, what });
        assert_eq!(endpoint.piece(&header(late, 9, 4), &[0]), bad);
    }
    assert!(endpoint.stream_piece(&header(1, 9, 4), &[0]).is_err());
    assert_eq!(endpoint.stream_piece(&header(1, 9, 0), &[0]), Ok(true));
    assert!(endpoint.stream_piece(&header(1, 9, 4), &[0]).is_err());
    assert!(endpoint.stream_piece(&header(1, 9, 1), &[0; 9]).is_err());
}

proptest! {
    /// Messages cut at random, some by the daemons and some by a stream that breaks somewhere;
    /// what the sender does not know to be taken comes again by the daemons.
    #[test]
    fn every_message_comes_once_and_in_order(
        messages in prop::collection::vec((any::<bool>(), 0..50_usize), 1..20),
        cuts in prop::collection::vec(1..20_usize, 1..8),
        reads: prop::sample::Index,
        known: prop::sample::Index,
        mixed in prop::collection::vec(any::<bool>(), 1..30),
    ) {
        let mut cut = cuts.iter().cycle();
        let (mut stream, mut daemons) = (Vec::new(), Vec::new());
        for (seq, &(by_stream, len)) in (0..).zip(&messages) {
            let bytes = message(seq, len);
            let mut offset = 0;
            while offset < len || (len == 0 && offset == 0) {
                let end = len.min(offset + cut.next().unwrap());
                let piece = (header(seq, len as u64, offset as u64), bytes[offset..end].to_vec());
                if by_stream { stream.push(piece) } else { daemons.push(piece) }
                offset = end.max(1);
                if len == 0 { break; }
            }
        }
        let mut endpoint = Endpoint::new(1);
        endpoint.meet(task(1));
        // Both routes as they come; the stream is read up to some piece and then breaks.
        let limit = reads.index(stream.len() + 1);
        let (mut read, mut heard) = (0, daemons.iter());
        for by_stream in mixed.iter().cycle().take(200) {
            if *by_stream && read < limit {
                let (header, bytes) = &stream[read];
                read += usize::from(endpoint.stream_piece(header, bytes).unwrap());
            } else if let Some((header, bytes)) = heard.next() {
                endpoint.piece(header, bytes).unwrap();
            }
        }
        for (header, bytes) in heard {
            endpoint.piece(header, bytes).unwrap();
        }
        let known = known.index(read + 1);
        for (header, bytes) in &stream[known..] {
            // Cut again, as credit allows.
            for (i, part) in bytes.chunks(7).enumerate() {
                let offset = header.offset + 7 * i as u64;
                endpoint.piece(&Header { offset, ..*header }, part).unwrap();
            }
            if bytes.is_empty() {
                endpoint.piece(header, bytes).unwrap();
            }
        }
        let expected: Vec<_> =
            (0..).zip(&messages).map(|(seq, &(_, len))| message(seq, len)).collect();
        prop_assert_eq!(received(&mut endpoint), expected);
        prop_assert_eq!(endpoint.held(), 0);
    }
}

#[test]
fn numbers_of_messages_count_for_each_peer_and_go_round() {
    let mut endpoint = Endpoint::<()>::new(1);
    for n in 0..3 {
        assert_eq!((endpoint.next_number(task(1)), endpoint.take_number(task(1))), (n, n));
    }
    assert_eq!(endpoint.next_number(task(3)), 0, "another peer's are its own");
    endpoint.gone(task(1));
    assert_eq!(endpoint.next_number(task(1)), 0, "nothing is kept of one that has gone");
}

#[test]
fn a_piece_goes_out_as_far_as_its_credit_reaches() {
    use crate::talk::CREDIT_FIRST;
    use towpath_wire::talk::{PIECE_CHARGE, PIECE_MAX};
    let mut endpoint = Endpoint::<()>::new(1);
    let to = task(1);
    assert_eq!(endpoint.room(to, 0), Some(0));
    assert_eq!(endpoint.room(to, 10), Some(10));
    assert_eq!(
        endpoint.room(to, usize::MAX),
        Some(PIECE_MAX.min((CREDIT_FIRST - PIECE_CHARGE) as usize))
    );
    // All but room for a piece of three bytes.
    let mut left = CREDIT_FIRST;
    while left > PIECE_CHARGE + 3 {
        let most = left - PIECE_CHARGE;
        let payload = most.min(1000).min(if most > 1000 + PIECE_CHARGE + 3 {
            1000
        } else {
            most - PIECE_CHARGE - 3
        });
        endpoint.wrote(to, payload as usize);
        left -= payload + PIECE_CHARGE;
    }
    assert_eq!(left, PIECE_CHARGE + 3);
    assert_eq!(endpoint.unasked(), CREDIT_FIRST - left);
    assert_eq!((endpoint.room(to, 9), endpoint.room(to, 2)), (Some(3), Some(2)));
    endpoint.wrote(to, 3);
    assert_eq!((endpoint.room(to, 9), endpoint.room(to, 0)), (None, None));
    // That is said once, and again when more was let and is used up.
    assert!(endpoint.blocked(to) && !endpoint.blocked(to));
    endpoint.credit(to, CREDIT_FIRST);
    assert!(!endpoint.blocked(to), "it is no more than there was");
    endpoint.credit(to, CREDIT_FIRST + PIECE_CHARGE);
    assert_eq!((endpoint.room(to, 9), endpoint.room(to, 0)), (None, Some(0)), "an empty one has");
    endpoint.credit(to, CREDIT_FIRST + PIECE_CHARGE + 5);
    assert_eq!(endpoint.room(to, 9), Some(5));
    endpoint.wrote(to, 5);
    assert_eq!(endpoint.unasked(), CREDIT_FIRST, "what was asked for does not count");
    assert!(endpoint.blocked(to));
    // Credit for somebody who is unknown changes nothing.
    endpoint.credit(task(9), 1 << 40);
    assert_eq!(endpoint.room(task(9), usize::MAX), endpoint.room(task(8), usize::MAX));
}

#[test]
fn who_asks_before_its_credit_is_used_up_has_none_until_it_is_given() {
    let mut endpoint = Endpoint::<()>::new(1);
    let to = task(1);
    endpoint.wrote(to, 100);
    let before = endpoint.unasked();
    assert!(endpoint.blocked(to));
    assert_eq!(endpoint.room(to, 0), None);
    endpoint.credit(to, before + 64 + 7);
    assert_eq!(endpoint.room(to, 100), Some(7));
    endpoint.wrote(to, 7);
    assert_eq!(endpoint.unasked(), before);
}

#[test]
fn nothing_goes_unasked_to_hosts_that_want_to_be_asked_first() {
    let mut endpoint = Endpoint::<()>::new(1);
    let host = |slot| HostId::new(slot, 1).unwrap();
    let (near, far) = (host(1).task(1).unwrap(), host(2).task(1).unwrap());
    endpoint.ask_first(host(2), true);
    endpoint.ask_first(host(2), true);
    assert_eq!((endpoint.room(near, 5), endpoint.room(far, 5)), (Some(5), None));
    assert!(endpoint.blocked(far));
    endpoint.credit(far, 64 + 5);
    assert_eq!(endpoint.room(far, 9), Some(5), "it was asked");
    let other = host(2).task(2).unwrap();
    assert_eq!(endpoint.room(other, 5), None);
    endpoint.ask_first(host(2), false);
    assert_eq!(endpoint.room(other, 5), Some(5));
}

#[test]
fn a_task_that_has_gone_is_remembered_until_it_speaks_again_or_many_others_went() {
    let mut endpoint = Endpoint::<()>::new(1);
    let bytes = message(0, 50);
    assert!(!endpoint.has_ended(task(1)));
    endpoint.piece(&header(0, 100, 0), &bytes).unwrap();
    endpoint.piece(&Header { seq: 2, ..header(2, 1, 0) }, &[1]).unwrap_err();
    assert_eq!(endpoint.held(), 50);
    endpoint.gone(task(1));
    endpoint.gone(task(1));
    assert_eq!((endpoint.held(), endpoint.has_ended(task(1))), (0, true));
    // Something late of it says nothing; a first message does.
    endpoint.piece(&header(0, 100, 50), &bytes).unwrap();
    endpoint.piece(&header(4, 1, 0), &[1]).unwrap();
    assert!(endpoint.has_ended(task(1)) && received(&mut endpoint).is_empty());
    endpoint.piece(&header(0, 1, 0), &[7]).unwrap();
    assert!(!endpoint.has_ended(task(1)));
    assert_eq!(received(&mut endpoint), [[7]]);
    for n in 0..1024 {
        endpoint.gone(task(100 + n));
    }
    assert!(endpoint.has_ended(task(100)));
    endpoint.gone(task(5));
    assert!(!endpoint.has_ended(task(100)) && endpoint.has_ended(task(101)));
}

#[test]
fn messages_of_other_routes_are_taken_in_their_turn_with_those_of_the_daemons() {
    let mut endpoint = Endpoint::new(1);
    assert!(endpoint.is_turn(task(1), 0) && !endpoint.is_turn(task(1), 1));
    // The second comes by the daemons before the first, which comes by another route.
    endpoint.piece(&header(0, 1, 0), &[0]).unwrap();
    endpoint.piece(&header(2, 1, 0), &[2]).unwrap();
    assert!(endpoint.is_turn(task(1), 1));
    endpoint.arrive(&header(1, 1, 0), Body::Own(alloc::vec![1]));
    assert_eq!(received(&mut endpoint), [[0], [1], [2]]);
    // One that is received straight from there counts all the same.
    endpoint.piece(&header(4, 1, 0), &[4]).unwrap();
    assert!(received(&mut endpoint).is_empty() && endpoint.held() == 1);
    endpoint.pass(task(1));
    assert_eq!(received(&mut endpoint), [[4]]);
    assert!(endpoint.is_turn(task(1), 5));
    endpoint.pass(task(1));
    assert!(endpoint.is_turn(task(1), 6));
}
