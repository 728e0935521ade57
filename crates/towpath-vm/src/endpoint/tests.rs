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
