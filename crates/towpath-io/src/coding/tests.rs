//! Every kernel that runs here against products by the table, byte for byte; and whole groups, each
//! pattern of what is missing.

use proptest::prelude::*;
use towpath_proto::coding::field::product;
use towpath_proto::coding::{Coding, Decoder, Encoder, Kernel, MEMBERS_MAX, PARITIES_MAX, Rebuilt};
use towpath_wire::coding::{Coded, Parity};
use towpath_wire::{Instant, PathId};

use super::{all, best};

fn by_table(rows: &[Vec<u8>], sources: &[Vec<u8>], outs: &mut [Vec<u8>]) {
    for (row, out) in rows.iter().zip(outs) {
        for (coefficient, source) in row.iter().zip(sources) {
            for (o, s) in out.iter_mut().zip(source) {
                *o ^= product(*coefficient, *s);
            }
        }
    }
}

fn slices(of: &[Vec<u8>]) -> Vec<&[u8]> {
    of.iter().map(Vec::as_slice).collect()
}

proptest! {
    #[test]
    fn every_kernel_gives_the_bytes_of_the_table(
        (sums, sources) in (1..=5_usize, 0..=17_usize),
        plain_first: bool,
        most in prop_oneof![0..70_usize, 1380..1475_usize],
        cuts in proptest::collection::vec(0..90_usize, 17),
        beyond in 0..40_usize,
        seed: u64,
    ) {
        let mut rng = towpath_proto::Rng::new(seed, 0);
        let mut bytes = |n: usize| (0..n).map(|_| rng.u32() as u8).collect::<Vec<u8>>();
        let mut rows: Vec<Vec<u8>> = (0..sums).map(|_| bytes(sources)).collect();
        if plain_first {
            rows[0].fill(1);
        }
        let sources: Vec<_> =
            (0..sources).map(|n| bytes(most.saturating_sub(cuts[n] / 2))).collect();
        let outs: Vec<_> = (0..sums).map(|_| bytes(most + beyond)).collect();
        let mut expected = outs.clone();
        by_table(&rows, &sources, &mut expected);
        for kernel in all() {
            let mut sums = outs.clone();
            let mut place: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.add(&slices(&rows), &slices(&sources), &mut place);
            prop_assert_eq!(&sums, &expected, "{}", kernel.name());
        }
    }
}

/// A group: its members' frames, of lengths around `len`, and its parities.
fn group(members: u8, parities: u8, len: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let coding = Coding::new(members, parities).expect("within the limits");
    let mut encoder = Encoder::default();
    let frames: Vec<Vec<u8>> = (0..usize::from(members))
        .map(|n| (0..len.saturating_sub(n * 7) + n % 2).map(|i| (i * 31 + n * 7) as u8).collect())
        .collect();
    for (n, frames) in frames.iter().enumerate() {
        let path = PathId(n as u16 % 4);
        let seat = encoder.seat(path, 4, coding);
        assert_eq!((seat.group, usize::from(seat.index)), (0, n));
        encoder.add(Instant::ZERO, seat, (path, 100 + n as u64), frames, best());
    }
    let mut sums = vec![Vec::new(); parities.into()];
    while let Some(path) = (0..4).map(PathId).find(|p| encoder.owes(*p, 4)) {
        let parity = encoder.take(path, 4, usize::MAX).expect("it is owed");
        assert_eq!((parity.group, parity.members), (0, members));
        sums[usize::from(parity.index)] = parity.symbol;
    }
    (frames, sums)
}

/// What is rebuilt of a group of which those members come whose bit is set, and then those
/// parities.
fn receive(
    frames: &[Vec<u8>],
    sums: &[Vec<u8>],
    (came, summed): (u32, u32),
    kernel: &dyn Kernel,
) -> Vec<Rebuilt> {
    let mut decoder = Decoder::new(1 << 20);
    let (mut rebuilt, planned) = (Vec::new(), frames.len() as u8);
    for (n, frames) in frames.iter().enumerate().filter(|(n, _)| came >> n & 1 == 1) {
        let coded = Coded { group: 0, index: n as u8, members: planned, frames };
        rebuilt.extend(decoder.member(&coded, (PathId(n as u16 % 4), 100 + n as u64), kernel));
    }
    for (n, symbol) in sums.iter().enumerate().filter(|(n, _)| summed >> n & 1 == 1) {
        let parity = Parity { group: 0, members: frames.len() as u8, index: n as u8, symbol };
        rebuilt.extend(decoder.parity(&parity, kernel));
    }
    assert_eq!(decoder.stats().garbage, 0);
    rebuilt
}

/// What is missing is rebuilt where there are enough parities, and nothing else ever is.
fn try_pattern(frames: &[Vec<u8>], sums: &[Vec<u8>], pattern: (u32, u32), kernel: &dyn Kernel) {
    let missing: Vec<usize> = (0..frames.len()).filter(|n| pattern.0 >> n & 1 == 0).collect();
    let mut rebuilt = receive(frames, sums, pattern, kernel);
    rebuilt.sort_by_key(|r| r.number);
    let enough = missing.len() <= pattern.1.count_ones() as usize;
    let expected: Vec<Rebuilt> = missing
        .iter()
        .filter(|_| enough)
        .map(|n| {
            let (path, number) = (PathId(*n as u16 % 4), 100 + *n as u64);
            Rebuilt { path, number, frames: frames[*n].clone() }
        })
        .collect();
    assert_eq!(rebuilt, expected, "{pattern:x?} of {} and {}", frames.len(), sums.len());
}

#[test]
fn whatever_is_missing_of_a_group_is_rebuilt_to_the_byte() {
    for kernel in all() {
        for (members, parities) in
            (1..=MEMBERS_MAX as u8).flat_map(|k| (1..=PARITIES_MAX as u8).map(move |m| (k, m)))
        {
            let (frames, sums) = group(members, parities, 131);
            for came in 0..1_u32 << members {
                // More can never be missing than there are parities; of those that are too many, a
                // few.
                let missing = u32::from(members) - came.count_ones();
                if missing > u32::from(parities) + 1 {
                    continue;
                }
                for summed in 0..1_u32 << parities {
                    try_pattern(&frames, &sums, (came, summed), kernel);
                }
            }
        }
    }
}

#[test]
fn members_of_every_length_are_rebuilt() {
    for kernel in all() {
        for len in (0..200).chain(1390..1420) {
            let (frames, sums) = group(3, 2, len);
            for came in [0b110, 0b001, 0b100, 0b010, 0b111] {
                try_pattern(&frames, &sums, (came, 0b11), kernel);
            }
        }
    }
}
