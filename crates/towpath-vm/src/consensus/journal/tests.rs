use super::*;
use crate::consensus::disk::{Record, Write};
use crate::consensus::entry::{Body, Entry, Members, ReplicaId};
use crate::consensus::log::Snapshot;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::format;

const HEADER: Head = Head { generation: 3, id: ReplicaId(1), salt: 77 };

fn entry(term: u64, index: u64) -> Record {
    Record::Entry(Entry { term, index, body: Body::Open { nonce: index } })
}

fn write(records: Vec<Record>) -> Write {
    Write { number: 1, replaces: false, records }
}

/// A file of three writes, each brought to the disk, and where each of these ends.
fn file() -> (Journal, Vec<u8>, Vec<usize>) {
    let (mut journal, mut bytes) = Journal::begin(&HEADER, 1, 9);
    let members = Members::of([ReplicaId(1), ReplicaId(2)]);
    let snapshot = Snapshot { index: 4, term: 2, members, state: b"the state".into() };
    let vote = |term| Record::Vote { term, vote: Some(ReplicaId(2)) };
    let mut ends = Vec::new();
    for records in [
        [Record::Snapshot(Arc::new(snapshot)), vote(2)].into(),
        [entry(2, 5), entry(2, 6), entry(2, 7)].into(),
        [vote(3), entry(3, 6)].into(),
    ] {
        journal.write(&write(records), &mut bytes);
        ends.push(bytes.len());
        journal.mark(&mut bytes);
    }
    (journal, bytes, ends)
}

fn entries(found: &Recovered) -> Vec<(u64, u64)> {
    found.stored.entries.iter().map(|e| (e.term, e.index)).collect()
}

#[test]
fn a_file_is_read_as_it_was_written_and_goes_on() {
    let (_, mut bytes, _) = file();
    let found = recover(&bytes).unwrap();
    assert_eq!((found.head, found.boot, found.torn), (HEADER, 1, 0));
    assert_eq!((found.stored.term, found.stored.vote), (3, Some(ReplicaId(2))));
    assert_eq!(found.stored.snapshot.state, b"the state");
    assert_eq!(entries(&found), [(2, 5), (3, 6)], "what was taken back is gone");
    assert_eq!(found.journal.len(), bytes.len() as u64);
    let mut journal = found.journal;
    journal.boot(2, 10, &mut bytes);
    journal.write(&write([entry(4, 7)].into()), &mut bytes);
    let found = recover(&bytes).unwrap();
    assert_eq!((found.boot, found.stored.term, found.stored.vote), (2, 4, None));
    assert_eq!(entries(&found), [(2, 5), (3, 6), (4, 7)]);
}

#[test]
fn a_file_cut_anywhere_ends_with_its_last_whole_record() {
    let (_, bytes, ends) = file();
    let (_, begun) = Journal::begin(&HEADER, 1, 9);
    for cut in 0..=bytes.len() {
        let found = recover(&bytes[..cut]);
        if cut < begun.len() {
            assert!(found.is_err(), "cut at {cut}");
            continue;
        }
        let found = found.unwrap();
        assert_eq!(found.journal.len() + found.torn, cut as u64);
        assert!(found.torn < 24 + 64, "cut at {cut}: {} torn", found.torn);
        if cut >= ends[1] {
            assert!(found.stored.entries.len() >= 2, "cut at {cut}");
        }
    }
}

#[test]
fn each_byte_that_changes_before_the_last_mark_is_told() {
    let (_, bytes, ends) = file();
    let last = *ends.last().unwrap();
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let found = recover(&damaged);
            if at >= last {
                // The mark itself says nothing that was promised.
                assert_eq!(entries(&found.unwrap()), [(2, 5), (3, 6)], "byte {at}");
                continue;
            }
            let why = found.expect_err(&format!("byte {at}"));
            let expected = match at {
                0..16 => matches!(why, JournalError::Foreign),
                16..48 => matches!(why, JournalError::Head),
                _ => matches!(why, JournalError::Damaged { at: from, witness }
                    if from <= at as u64 && witness > from),
            };
            assert!(expected, "byte {at}: {why}");
        }
    }
}

#[test]
fn what_was_not_marked_may_be_torn_in_any_way() {
    let (mut journal, bytes, _) = file();
    let durable = bytes.len();
    let mut more = Vec::new();
    journal.write(&write((6..20).map(|n| entry(4, n)).collect()), &mut more);
    for hole in 0..more.len() {
        let mut torn = bytes.clone();
        torn.extend_from_slice(&more);
        torn[durable + hole..durable + (hole + 60).min(more.len())].fill(0);
        let found = recover(&torn).unwrap();
        assert!(found.journal.len() >= durable as u64 && found.stored.term >= 3);
    }
}

#[test]
fn another_files_records_do_not_pass_for_ours() {
    let (_, bytes, ends) = file();
    let (mut other, mut foreign) = Journal::begin(&Head { salt: 78, ..HEADER }, 1, 9);
    let begun = foreign.len();
    other.write(&write([entry(9, 1)].into()), &mut foreign);
    foreign.truncate(begun);
    foreign.extend_from_slice(&bytes[begun..]);
    let found = recover(&foreign).unwrap();
    assert_eq!((found.stored.term, found.torn), (0, (bytes.len() - begun) as u64));
    assert!(ends[0] > begun);
}

#[test]
fn what_a_later_build_writes_is_passed_over_or_refused_as_its_kind_says() {
    for (kind, fits) in [(150, true), (50, false)] {
        let (mut journal, mut bytes, _) = file();
        journal.record(kind, &[b"later"], &mut bytes);
        let found = recover(&bytes);
        assert_eq!(found.is_ok(), fits);
        if let Err(why) = found {
            assert!(format!("{why}").contains("record of a log has value 50"), "{why}");
        }
    }
    let (mut journal, mut bytes, _) = file();
    journal.write(&write([entry(4, 9)].into()), &mut bytes);
    let why = format!("{}", recover(&bytes).unwrap_err());
    assert!(why.contains("entry 9 at byte") && why.contains("follows on entry 6"), "{why}");
}
