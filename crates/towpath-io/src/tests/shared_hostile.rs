//! A peer that writes anything at all into its pages: never a panic, a hang or a byte from
//! elsewhere; at worst a wrong message or an error.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::neighbours::{End, Place, head, pair_fds};
use proptest::prelude::*;
use towpath_io::shared::{Corrupt, Kind, PushError, SLOTS};

/// A pair whose second end is only its pages.
fn spoiled() -> (End, File, File) {
    let (near, far) = (Place::new(1 << 20), Place::new(1 << 20));
    let ([own, _], [_, half]) = pair_fds(&near, &far);
    (End::new(&near, own), half, File::from(far.segment.owner))
}

/// Receives until there is nothing or the ring is corrupt; how many messages.
fn receive(end: &mut End) -> Result<usize, Corrupt> {
    // A ring holds `SLOTS` records; a peer that goes on writing is not in this test.
    for count in 0..=SLOTS {
        let Some(arrival) = end.inbound.peek()? else { return Ok(count) };
        let end_of_piece = arrival.head.offset.checked_add(arrival.len as u64);
        assert!(end_of_piece.is_some_and(|end| end <= arrival.head.total));
        if arrival.kind == Kind::Short {
            end.inbound.take_short(&mut vec![0; arrival.len]);
        } else {
            let view = end.inbound.take_block();
            let mut copy = vec![0; view.len()];
            assert_eq!(view.read(0, &mut copy), view.filled());
            assert_eq!(view.bytes().map(<[u8]>::len), view.is_whole().then_some(view.len()));
            assert!(view.filled() <= view.len());
        }
    }
    panic!("more records than the ring holds");
}

/// Where records begin in a half, and their size.
const SLOT_ARRAY: u64 = 8192;
const LINE: u64 = 64;

fn write(half: &File, at: u64, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    half.write_all_at(&bytes, at).expect("within the half");
}

#[test]
fn records_that_cannot_be_are_named() {
    let first = |kind: u64, small: u64| 1 | kind << 32 | small << 48;
    let max = u64::MAX;
    let cases: [(&[u64], &str); 5] = [
        (&[first(9, 0)], "unknown kind 9"),
        (&[first(1, 41)], "41 bytes at 0, outside of its line"),
        (&[first(2, 0), 0, 0, max, 0, 0x7ffa | 7 << 32], "7 bytes at 32762, outside of its ring"),
        (&[first(3, 0), 0, 0, max, 0, 256, 1], "1 bytes at 256, outside of its arena"),
        (&[first(2, 0), 0, 0, 6, 1, 6 << 32], "6 bytes at 1 of a message of 6"),
    ];
    for (words, text) in cases {
        let (mut end, half, _) = spoiled();
        write(&half, SLOT_ARRAY, words);
        let corrupt = end.inbound.peek().expect_err("corrupt");
        assert!(corrupt.to_string().contains(text), "{corrupt}");
    }
}

#[test]
fn a_record_changed_after_it_was_seen_stays_as_it_was_seen() {
    let (mut end, half, _) = spoiled();
    write(&half, SLOT_ARRAY, &[1 | 1 << 32 | 8 << 48, 0, 0, 0x55]);
    assert_eq!(end.inbound.peek().expect("intact").expect("a message").len, 8);
    write(&half, SLOT_ARRAY, &[1 | 2 << 32, 0, 0, u64::MAX, 0, u64::MAX]);
    let mut payload = [0; 8];
    end.inbound.take_short(&mut payload);
    // Its kind and length do; the bytes are the writer's own until they are taken.
    assert_eq!(payload, u64::MAX.to_le_bytes());
}

#[test]
fn counts_and_tickets_that_cannot_be_are_named() {
    let (mut end, half, _) = spoiled();
    for seq in 0..SLOTS as u32 {
        end.out.push(&head(seq, 0), &[]).expect("room");
    }
    write(&half, 64, &[SLOTS as u64 + 1]);
    let taken = Corrupt::Taken { taken: 129, least: 0, most: 128 };
    assert_eq!(end.out.push(&head(0, 0), &[]), Err(PushError::Corrupt(taken)));

    for ticket in [0, 511, 512, u32::MAX] {
        let (mut end, half, _) = spoiled();
        write(&half, 4096, &[1 << 32 | u64::from(ticket)]);
        assert_eq!(end.out.reclaim(), Err(Corrupt::Ticket { ticket }));
    }
}

#[test]
fn a_block_given_back_twice_is_given_back_once() {
    let (mut end, half, _) = spoiled();
    let arena = end.home.arena();
    let (kept, sent) = (arena.alloc(1).expect("a block"), arena.alloc(1).expect("a block"));
    end.out.push_block(&head(0, 1), sent.freeze()).expect("room");
    write(&half, 4096, &[1 << 32, 2 << 32]);
    assert_eq!(end.out.reclaim(), Err(Corrupt::Ticket { ticket: 0 }));
    assert_eq!(end.home.arena().used(), 4096, "the other block is not touched");
    drop(kept);
}

/// Records with numbers that are believed and anything else in them.
fn records() -> impl Strategy<Value = Vec<[u64; 8]>> {
    let near = |bits: u32| prop_oneof![0..1_u64 << bits, any::<u64>()];
    let words = (0..6_u64, near(10), near(20), near(18), near(9), near(21));
    let record = words.prop_map(|(kind, small, total, offset, place, len)| {
        let first = kind << 32 | small << 48;
        [first, small, total, total, offset, place, len, small]
    });
    prop::collection::vec(record, 1..20)
}

proptest! {
    #[test]
    fn any_records_are_received_or_refused(records in records()) {
        let (mut end, half, segment) = spoiled();
        segment.write_all_at(&[0x77; 8], 4096).expect("the first block is filled so far");
        for (number, record) in (1_u64..).zip(&records) {
            let mut words = *record;
            words[0] = words[0] & !u64::from(u32::MAX) | number;
            write(&half, SLOT_ARRAY + (number - 1) * LINE, &words);
        }
        match receive(&mut end) {
            Ok(count) => prop_assert_eq!(count, records.len()),
            Err(corrupt) => prop_assert!(corrupt.to_string().contains("shared memory")),
        }
    }

    #[test]
    fn any_bytes_anywhere_are_survived(
        writes in prop::collection::vec((0..49_000_u64, any::<[u64; 4]>()), 0..40),
        records in 0..20_u64,
    ) {
        let (mut end, half, segment) = spoiled();
        for number in 1..=records {
            write(&half, SLOT_ARRAY + (number - 1) * LINE, &[number | 1 << 32 | 3 << 48]);
        }
        for (at, words) in &writes {
            write(&half, *at, words);
            write(&segment, *at, words);
        }
        let _ = receive(&mut end);
        let _ = end.out.push(&head(0, 3), b"abc");
        let _ = end.out.push_copy(&head(0, 3), b"abc");
        let _ = (end.out.reclaim(), end.out.has_room(), end.out.wake());
    }
}
