//! Two sessions of the direct route, joined by wires that may change bytes.
//!
//! Records are in clear, so that changed content reaches what is behind the seal; heads, lengths
//! and tags are checked all the same.

use arbitrary::Arbitrary;
use towpath_io::direct::{Agreed, BUFFER_BYTES, Offer, Push, Session};
use towpath_wire::HostId;
use towpath_wire::talk::{Header, PIECE_MAX};

/// Bytes under way on one wire, at most.
const WIRE_MAX: usize = 1 << 20;

/// What can happen.
#[derive(Arbitrary, Debug)]
pub enum Operation {
    /// A side pushes the next piece of so many bytes.
    Push { second: bool, len: u16, small: bool },
    /// A side's bytes go onto its wire.
    Write { second: bool },
    /// So many bytes of a side's wire arrive at the other.
    Arrive { second: bool, bytes: u16 },
    /// A byte on a side's wire changes.
    Change { second: bool, at: u16, to: u8 },
    /// Bytes of a stranger get onto a side's wire.
    Insert { second: bool, bytes: Vec<u8> },
    /// A side takes so many pieces.
    Take { second: bool, pieces: u8 },
    /// A side closes.
    Close { second: bool },
}

struct Side {
    session: Session,
    wire: Vec<u8>,
    /// What it sends next, and what it expects.
    next: u32,
    expected: u32,
    bad: bool,
}

fn sides() -> [Side; 2] {
    let task = |slot| HostId::new(slot, 1).expect("small").task(1).expect("small");
    let offer = |me, peer| Offer { me, peer, key: [1; 32], sealed: false };
    let (one, two) = (offer(task(1), task(2)), offer(task(2), task(1)));
    Agreed::pair(&one, &two, [[3; 32], [4; 32]]).map(|agreed| Side {
        session: Session::new(agreed),
        wire: Vec::new(),
        next: 0,
        expected: 0,
        bad: false,
    })
}

/// Runs a script. As long as nothing was changed, pieces arrive once and in order, and the rest
/// is given back; whatever was changed, memory stays bounded and nothing panics.
///
/// # Panics
/// When it is not so.
pub fn run(operations: &[Operation]) {
    let mut sides = sides();
    let mut honest = true;
    for operation in operations {
        apply(operation, &mut sides, &mut honest);
    }
    if !honest {
        for side in &mut sides {
            side.session.untaken(&mut |_, _| {});
        }
        return;
    }
    for from in [0, 1] {
        let (mut expected, next) = (sides[1 - from].expected, sides[from].next);
        sides[from].session.untaken(&mut |header, _| {
            if header.seq >= expected {
                assert_eq!(header.seq, expected, "nothing is missing");
                expected += 1;
            }
        });
        assert_eq!(expected, next, "nothing is missing at the end");
    }
}

fn apply(operation: &Operation, sides: &mut [Side; 2], honest: &mut bool) {
    match operation {
        Operation::Push { second, len, small } => push(sides, usize::from(*second), *len, *small),
        Operation::Write { second } => {
            let side = &mut sides[usize::from(*second)];
            side.session.seal();
            let n = side.session.pending().len().min(WIRE_MAX - side.wire.len());
            side.wire.extend_from_slice(&side.session.pending()[..n]);
            side.session.wrote(n);
        }
        Operation::Arrive { second, bytes } => {
            let from = usize::from(*second);
            let mut wire = std::mem::take(&mut sides[from].wire);
            let space = sides[1 - from].session.space();
            assert!(space.len() <= BUFFER_BYTES);
            let n = usize::from(*bytes).min(wire.len()).min(space.len());
            space[..n].copy_from_slice(&wire[..n]);
            sides[1 - from].session.filled(n);
            sides[from].wire = wire.split_off(n);
        }
        Operation::Change { second, at, to } => {
            if let Some(byte) = sides[usize::from(*second)].wire.get_mut(usize::from(*at)) {
                *honest &= *byte == *to;
                *byte = *to;
            }
        }
        Operation::Insert { second, bytes } => {
            let wire = &mut sides[usize::from(*second)].wire;
            *honest &= bytes.is_empty();
            wire.extend_from_slice(&bytes[..bytes.len().min(WIRE_MAX - wire.len())]);
        }
        Operation::Take { second, pieces } => {
            take(&mut sides[usize::from(*second)], *pieces, *honest);
        }
        Operation::Close { second } => sides[usize::from(*second)].session.close(),
    }
}

fn push(sides: &mut [Side; 2], from: usize, len: u16, small: bool) {
    let side = &mut sides[from];
    let len = if small { usize::from(len % 64) } else { usize::from(len) + 1 };
    assert!(len <= PIECE_MAX);
    let bytes = vec![side.next as u8; len];
    let task = |slot| HostId::new(slot, 1).expect("small").task(1).expect("small");
    let (src, dst) = if from == 0 { (task(1), task(2)) } else { (task(2), task(1)) };
    let (tag, context, format, total, offset) = (0, 0, 0, len as u64, 0);
    let header = Header { src, dst, tag, context, seq: side.next, format, total, offset };
    if side.session.push(&header, &[&bytes]) == Push::Taken {
        side.next += 1;
    }
}

fn take(side: &mut Side, pieces: u8, honest: bool) {
    for _ in 0..pieces {
        if side.bad {
            return;
        }
        match side.session.advance() {
            Ok(true) => {}
            Ok(false) => return,
            Err(bad) => {
                assert!(!honest, "{bad}");
                side.bad = true;
                return;
            }
        }
        let piece = side.session.head().expect("it was just found");
        assert!(piece.payload.len() <= PIECE_MAX);
        if honest {
            assert_eq!(piece.header.seq, side.expected);
            assert!(piece.payload.iter().all(|b| *b == side.expected as u8));
        }
        side.expected += 1;
        side.session.take();
    }
}
