use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use towpath_wire::HostId;

use crate::direct::Offer;

const RING: usize = 256 << 10;

fn task(slot: u16) -> TaskId {
    HostId::new(slot, 1).unwrap().task(7).unwrap()
}

fn sessions(sealed: bool) -> [Session; 2] {
    let ours = Offer { me: task(1), peer: task(2), key: [1; 32], sealed };
    let theirs = Offer { me: task(2), peer: task(1), key: [1; 32], sealed };
    Agreed::pair(&ours, &theirs, [[3; 32], [4; 32]]).map(|agreed| Session::with_ring(agreed, RING))
}

fn header(from: usize, seq: u32, total: u64, offset: u64) -> Header {
    let (src, dst) = if from == 0 { (task(1), task(2)) } else { (task(2), task(1)) };
    Header { src, dst, tag: 5, context: 0, seq, format: 1, total, offset }
}

/// Byte `at` of message `seq` of a side.
fn byte(from: usize, seq: u32, at: u64) -> u8 {
    (at.wrapping_mul(31) ^ u64::from(seq).wrapping_mul(7) ^ (at >> 9)) as u8 ^ from as u8
}

fn payload(from: usize, seq: u32, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| byte(from, seq, at)).collect()
}

/// Moves all bytes that there are from one session to the other.
fn carry(from: &mut Session, to: &mut Session) {
    from.seal();
    while !from.pending().is_empty() {
        let n = from.pending().len().min(to.space().len());
        if n == 0 {
            return;
        }
        to.space()[..n].copy_from_slice(&from.pending()[..n]);
        from.wrote(n);
        to.filled(n);
    }
}

fn push(session: &mut Session, from: usize, seq: u32, len: usize) -> Push {
    session.push(&header(from, seq, len as u64, 0), &[&payload(from, seq, 0, len)])
}

#[test]
fn small_pieces_share_a_record_and_long_ones_do_not() {
    for sealed in [true, false] {
        let [mut a, mut b] = sessions(sealed);
        for (seq, len) in [0, 1, 100, 4096].into_iter().enumerate() {
            assert_eq!(push(&mut a, 0, seq as u32, len), Push::Taken);
        }
        let parts = payload(0, 4, 0, 10_000);
        let (one, two) = parts.split_at(3000);
        assert_eq!(a.push(&header(0, 4, 10_000, 0), &[one, &[], two]), Push::Taken);
        assert_eq!(push(&mut a, 0, 5, PIECE_MAX), Push::Taken);
        carry(&mut a, &mut b);
        assert_eq!(a.records(), (3, 0));
        for (seq, len) in [0, 1, 100, 4096, 10_000, PIECE_MAX].into_iter().enumerate() {
            assert_eq!(b.advance(), Ok(true));
            let piece = b.head().unwrap();
            assert_eq!(piece.header, header(0, seq as u32, len as u64, 0));
            assert_eq!(piece.payload, payload(0, seq as u32, 0, len));
            b.take();
        }
        assert_eq!(b.advance(), Ok(false));
        assert!(b.is_between());
        assert_eq!(b.records(), (0, 3));
    }
}

#[test]
fn a_sender_waits_until_the_peer_takes_and_is_then_told() {
    let [mut a, mut b] = sessions(true);
    let mut pushed = 0;
    while push(&mut a, 0, pushed, PIECE_MAX) == Push::Taken {
        pushed += 1;
    }
    assert_eq!(pushed as usize, RING / (PIECE_MAX + 1000), "the ring is used up, and only it");
    carry(&mut a, &mut b);
    carry(&mut b, &mut a);
    assert_eq!((a.advance(), a.records()), (Ok(false), (3, 0)));
    assert_eq!(push(&mut a, 0, pushed, PIECE_MAX), Push::Full, "nothing was taken yet");
    for _ in 0..2 {
        assert_eq!(b.advance(), Ok(true));
        b.take();
    }
    assert!(b.owes());
    carry(&mut b, &mut a);
    assert_eq!(a.advance(), Ok(false));
    assert_eq!(push(&mut a, 0, pushed, PIECE_MAX), Push::Taken);
}

#[test]
fn two_full_rings_do_not_keep_each_other_from_telling() {
    let [mut a, mut b] = sessions(true);
    for len in [PIECE_MAX, 4000, 40, 0] {
        for side in [0, 1] {
            let session = [&mut a, &mut b];
            while push(session[side], side, 9, len) == Push::Taken {}
        }
    }
    a.seal();
    b.seal();
    carry(&mut a, &mut b);
    carry(&mut b, &mut a);
    for session in [&mut a, &mut b] {
        for _ in 0..3 {
            assert_eq!(session.advance(), Ok(true));
            session.take();
        }
        assert!(session.owes());
    }
    // Both rings are full and both must tell; what is told makes room on both sides.
    carry(&mut a, &mut b);
    carry(&mut b, &mut a);
    for (side, session) in [&mut a, &mut b].into_iter().enumerate() {
        while session.advance() == Ok(true) {
            session.take();
        }
        assert_eq!(push(session, side, 10, PIECE_MAX), Push::Taken);
    }
}

#[test]
fn closing_ends_when_both_have_taken_everything() {
    let [mut a, mut b] = sessions(true);
    assert_eq!(push(&mut a, 0, 0, 10), Push::Taken);
    assert_eq!(push(&mut b, 1, 0, 20), Push::Taken);
    a.close();
    assert_eq!(push(&mut a, 0, 1, 10), Push::Closed);
    carry(&mut a, &mut b);
    assert_eq!(b.advance(), Ok(true));
    b.take();
    assert_eq!(push(&mut b, 1, 1, 20), Push::Taken, "it has not seen the last record yet");
    assert_eq!(b.advance(), Ok(false));
    assert_eq!(push(&mut b, 1, 2, 20), Push::Closed);
    assert!(!a.is_done() && !b.is_done());
    carry(&mut b, &mut a);
    for seq in 0..2 {
        assert_eq!(a.advance(), Ok(true));
        assert_eq!(a.head().unwrap().header.seq, seq);
        assert!(!a.is_done());
        a.take();
    }
    assert_eq!(a.advance(), Ok(false));
    assert!(a.owes() && !a.is_done(), "the peer must hear that its last was taken");
    carry(&mut a, &mut b);
    assert_eq!(b.advance(), Ok(false));
    assert!(a.is_done() && b.is_done());
    for mut session in [a, b] {
        session.untaken(&mut |header, _| panic!("{header:?} was taken"));
    }
}

#[test]
fn closing_at_the_same_time_ends_too() {
    let [mut a, mut b] = sessions(true);
    a.close();
    b.close();
    a.seal();
    b.seal();
    for _ in 0..3 {
        carry(&mut a, &mut b);
        assert_eq!(b.advance(), Ok(false));
        carry(&mut b, &mut a);
        assert_eq!(a.advance(), Ok(false));
    }
    assert!(a.is_done() && b.is_done());
}

/// What `a` says, changed by `change`, as `b` hears it.
fn heard(sealed: bool, change: impl FnOnce(&mut Vec<u8>)) -> Result<bool, BadRecord> {
    let [mut a, mut b] = sessions(sealed);
    assert_eq!(push(&mut a, 0, 0, 100), Push::Taken);
    a.seal();
    let mut bytes = a.pending().to_vec();
    change(&mut bytes);
    b.space()[..bytes.len()].copy_from_slice(&bytes);
    b.filled(bytes.len());
    b.advance()
}

#[test]
fn a_bad_record_is_named() {
    assert_eq!(heard(true, |_| {}), Ok(true));
    assert_eq!(heard(true, |b| b.truncate(b.len() - 1)), Ok(false));
    let number = 0;
    assert_eq!(heard(true, |b| *b.last_mut().unwrap() ^= 1), Err(BadRecord::Seal { number }));
    assert_eq!(heard(true, |b| b[70] ^= 1), Err(BadRecord::Seal { number }));
    assert_eq!(heard(true, |b| b[4] ^= 1), Err(BadRecord::Seal { number }));
    assert_eq!(heard(true, |b| b[4] = 2), Err(BadRecord::Kind { kind: 2 }));
    assert_eq!(heard(true, |b| b[3] = 1), Err(BadRecord::Length { len: (1 << 24) + 188 }));
    // In clear, the content is only checked for sense.
    let (taken, sent, known) = (1, 0, 0);
    assert_eq!(heard(false, |b| b[8] = 1), Err(BadRecord::Taken { taken, sent, known }));
    assert_eq!(heard(false, |b| b[24] ^= 1), Err(BadRecord::Stranger));
    assert!(matches!(heard(false, |b| b[16] = 101), Err(BadRecord::Piece(_))));
}

#[test]
fn a_record_sent_again_or_back_does_not_open() {
    let [mut a, mut b] = sessions(true);
    assert_eq!(push(&mut a, 0, 0, 100), Push::Taken);
    a.seal();
    let bytes = a.pending().to_vec();
    for session in [&mut b, &mut a] {
        for _ in 0..2 {
            session.space()[..bytes.len()].copy_from_slice(&bytes);
            session.filled(bytes.len());
        }
    }
    assert_eq!(b.advance(), Ok(true));
    b.take();
    assert_eq!(b.advance(), Err(BadRecord::Seal { number: 1 }));
    assert_eq!(a.advance(), Err(BadRecord::Seal { number: 0 }));
}

/// A task's side in a random run: what it has sent, and how far it has taken the other's.
#[derive(Default)]
struct Side {
    /// Lengths of its messages.
    messages: Vec<u64>,
    /// How much of the last one was pushed.
    pushed: u64,
    /// Message and offset expected next.
    expected: (u32, u64),
    /// Pieces that came although they were here.
    twice: u64,
}

impl Side {
    /// Takes a piece of the other side, unless it is here.
    fn take(&mut self, from: usize, header: &Header, bytes: &[u8]) {
        if (header.seq, header.offset) < self.expected {
            self.twice += 1;
            return;
        }
        assert_eq!((header.seq, header.offset), self.expected, "nothing is missing");
        let same = |(at, b): (u64, &u8)| byte(from, header.seq, at) == *b;
        assert!((header.offset..).zip(bytes).all(same), "content of {header:?}");
        let end = header.offset + bytes.len() as u64;
        self.expected = if end == header.total { (header.seq + 1, 0) } else { (header.seq, end) };
    }

    fn next_piece(&self) -> Option<(u32, u64, u64, usize)> {
        let total = *self.messages.last()?;
        let (seq, offset) = (self.messages.len() as u32 - 1, self.pushed);
        Some((seq, total, offset, (total - offset).min(PIECE_MAX as u64) as usize))
    }

    fn is_between(&self) -> bool {
        self.messages.last().is_none_or(|total| self.pushed == *total)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { side: usize, len: u64 },
    Seal { side: usize },
    Carry { from: usize, bytes: usize },
    Take { side: usize, pieces: usize },
    Close { side: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 0..300_u64, 2 => 0..20_000_u64, 2 => 0..200_000_u64];
    prop_oneof![
        6 => (0..2_usize, len).prop_map(|(side, len)| Step::Send { side, len }),
        2 => (0..2_usize).prop_map(|side| Step::Seal { side }),
        6 => (0..2_usize, 0..300_000_usize).prop_map(|(from, bytes)| Step::Carry { from, bytes }),
        6 => (0..2_usize, 1..20_usize).prop_map(|(side, pieces)| Step::Take { side, pieces }),
        1 => (0..2_usize).prop_map(|side| Step::Close { side }),
    ]
}

struct Run {
    sessions: [Session; 2],
    sides: [Side; 2],
    wires: [VecDeque<u8>; 2],
}

impl Run {
    fn push_rest(&mut self, side: usize) {
        while !self.sides[side].is_between() || self.sides[side].messages.last() == Some(&0) {
            let (seq, total, offset, len) = self.sides[side].next_piece().unwrap();
            let bytes = payload(side, seq, offset, len);
            let head = header(side, seq, total, offset);
            if self.sessions[side].push(&head, &[&bytes]) != Push::Taken {
                return;
            }
            self.sides[side].pushed += len as u64;
            if total == 0 {
                return;
            }
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Send { side, len } => {
                self.push_rest(side);
                if self.sides[side].is_between() && len > 0 {
                    self.sides[side].messages.push(len);
                    self.sides[side].pushed = 0;
                    self.push_rest(side);
                }
            }
            Step::Seal { side } => self.sessions[side].seal(),
            Step::Carry { from, mut bytes } => {
                self.sessions[from].seal();
                let wire = &mut self.wires[from];
                let n = self.sessions[from].pending().len().min(bytes / 2 + 1);
                wire.extend(&self.sessions[from].pending()[..n]);
                self.sessions[from].wrote(n);
                let space = self.sessions[1 - from].space();
                bytes = bytes.min(space.len()).min(wire.len());
                for to in &mut space[..bytes] {
                    *to = wire.pop_front().unwrap();
                }
                self.sessions[1 - from].filled(bytes);
            }
            Step::Take { side, pieces } => {
                for _ in 0..pieces {
                    if !self.sessions[side].advance().unwrap() {
                        break;
                    }
                    let piece = self.sessions[side].head().unwrap();
                    self.sides[side].take(1 - side, &piece.header, piece.payload);
                    self.sessions[side].take();
                }
            }
            Step::Close { side } => self.sessions[side].close(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is done in whatever order, and wherever the connection is cut: what was taken and
    /// what is given back make up everything, in order, nothing twice.
    #[test]
    fn nothing_is_lost_or_doubled_wherever_it_is_cut(
        steps in prop::collection::vec(step(), 1..60),
        sealed: bool,
    ) {
        let (sides, wires) = (Default::default(), Default::default());
        let mut run = Run { sessions: sessions(sealed), sides, wires };
        for step in &steps {
            run.apply(step);
        }
        // The cut: what is on the wires is gone.
        for side in [0, 1] {
            let taker = &mut run.sides[1 - side];
            run.sessions[side].untaken(&mut |header, bytes| taker.take(side, header, bytes));
            // The rest of a message that was not pushed goes the other way, too.
            while let Some((seq, total, offset, len)) = run.sides[side].next_piece()
                && len > 0
            {
                let bytes = payload(side, seq, offset, len);
                run.sides[1 - side].take(side, &header(side, seq, total, offset), &bytes);
                run.sides[side].pushed += len as u64;
            }
            let sent = run.sides[side].messages.len() as u32;
            prop_assert_eq!(run.sides[1 - side].expected, (sent, 0));
        }
    }

    /// Bytes that are no record end in an error or are waited for; nothing else happens.
    #[test]
    fn foreign_bytes_never_become_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in 0..200_usize,
    ) {
        let [mut a, mut b] = sessions(true);
        assert_eq!(push(&mut a, 0, 0, 100), Push::Taken);
        a.seal();
        let mut wire = a.pending().to_vec();
        let at = at.min(wire.len());
        if wire[at..] == bytes[..bytes.len().min(wire.len() - at)] {
            return Ok(());
        }
        wire.truncate(at);
        wire.extend(&bytes);
        b.space()[..wire.len()].copy_from_slice(&wire);
        b.filled(wire.len());
        prop_assert!(matches!(b.advance(), Ok(false) | Err(_)) || at == a.pending().len());
    }
}

/// Numbers that look like chance, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn what_is_said_of_room_is_so_wherever_the_ring_stands() {
    let mut chance = Chance(1);
    let mut seen = [[0; 2]; 2];
    for _ in 0..60 {
        let [mut a, mut b] = sessions(false);
        assert!(a.has_room() && a.has_room_for(RING / 2) && !a.has_room_for(RING));
        let mut seq = 0;
        let mut next = |a: &mut Session, len| {
            seq += 1;
            push(a, 0, seq, len)
        };
        for _ in 0..40 {
            match chance.below(4) {
                0 => drop(next(&mut a, chance.below(2 * PIECE_MAX / 3))),
                1 => {
                    let said = a.has_room();
                    seen[0][usize::from(said)] += 1;
                    assert_eq!(next(&mut a, PIECE_MAX) == Push::Taken, said);
                }
                2 => {
                    let len = chance.below(RING);
                    let said = a.has_room_for(len);
                    seen[1][usize::from(said)] += 1;
                    // It may say no where there would be room, by a record or two.
                    let sure = a.has_room_for(len + 3 * PIECE_MAX);
                    assert!(said || !sure, "more has room, and less has none");
                    if said {
                        let lens = [vec![PIECE_MAX; len / PIECE_MAX], vec![len % PIECE_MAX]];
                        assert!(
                            lens.concat().into_iter().all(|len| next(&mut a, len) == Push::Taken)
                        );
                    }
                }
                _ => {
                    carry(&mut a, &mut b);
                    for _ in 0..chance.below(4) {
                        if b.advance() == Ok(true) {
                            b.take();
                        }
                    }
                    carry(&mut b, &mut a);
                    assert_eq!(a.advance(), Ok(false));
                }
            }
        }
        a.close();
        assert!(!a.has_room() && !a.has_room_for(0) && a.is_closing());
    }
    assert!(seen.as_flattened().iter().all(|count| *count > 50), "{seen:?}");
}
