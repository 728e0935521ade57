//! Random work for a team, and what must come out of it, computed directly.

use std::vec::Vec;

use proptest::prelude::*;

use super::network::Chance;
use crate::collective::*;

/// Operators that the tests use; elements of 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Sum,
    /// A user's operator that commutes.
    Xor,
    /// 2 × 2 matrices of bytes: associative, and nothing else.
    Matrix,
}

#[derive(Clone, Debug)]
pub(super) enum Task {
    Barrier,
    Broadcast { root: usize, bytes: usize },
    Reduce { root: usize, elements: usize, by: By },
    AllReduce { elements: usize, by: By },
    Gather { root: usize, bytes: usize, lengths: Lengths },
    AllGather { bytes: usize, lengths: Lengths },
    Scatter { root: usize, bytes: usize },
    AllToAll { bytes: usize, lengths: Lengths },
    Scan { elements: usize, by: By },
    ExclusiveScan { elements: usize, by: By },
}

/// Thresholds so low that little data takes the ways of much.
pub(super) fn settings() -> impl Strategy<Value = Settings> {
    let reach = prop_oneof![
        2 => Just(Reach::Nowhere),
        2 => Just(Reach::Host),
        1 => Just(Reach::Everywhere),
    ];
    (reach, any::<bool>(), 1..9u32, 1..5u64).prop_map(
        |(multicast, host_stage, local_fan, least)| Settings {
            multicast,
            host_stage,
            local_fan,
            pipeline_from: 60,
            segment_min: least,
            split_from: 60,
            share_min: least,
            direct_from: 40,
            bytes_max: 1 << 20,
        },
    )
}

pub(super) fn hosts() -> impl Strategy<Value = Vec<u32>> {
    (1..9u32).prop_flat_map(|hosts| proptest::collection::vec(0..hosts, 1..=40))
}

pub(super) fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let by = || prop_oneof![Just(By::Sum), Just(By::Xor), Just(By::Matrix)];
    let lengths = || prop_oneof![Just(Lengths::Equal), Just(Lengths::Any)];
    let (root, bytes, elements) = (|| 0..1000usize, || 0..100usize, || 0..60usize);
    let task = prop_oneof![
        2 => Just(Task::Barrier),
        2 => (root(), bytes()).prop_map(|(root, bytes)| Task::Broadcast { root, bytes: 3 * bytes }),
        2 => (root(), elements(), by())
            .prop_map(|(root, elements, by)| Task::Reduce { root, elements, by }),
        2 => (elements(), by()).prop_map(|(elements, by)| Task::AllReduce { elements, by }),
        1 => (root(), bytes(), lengths())
            .prop_map(|(root, bytes, lengths)| Task::Gather { root, bytes, lengths }),
        2 => (bytes(), lengths()).prop_map(|(bytes, lengths)| Task::AllGather { bytes, lengths }),
        1 => (root(), bytes()).prop_map(|(root, bytes)| Task::Scatter { root, bytes }),
        1 => (bytes(), lengths()).prop_map(|(bytes, lengths)| Task::AllToAll { bytes, lengths }),
        1 => (elements(), by()).prop_map(|(elements, by)| Task::Scan { elements, by }),
        1 => (elements(), by()).prop_map(|(elements, by)| Task::ExclusiveScan { elements, by }),
    ];
    proptest::collection::vec(task, 1..5)
}

/// What `rank` gives, `salt` apart.
pub(super) fn data(rank: u32, salt: usize, bytes: usize) -> Vec<u8> {
    let mut chance = Chance((u64::from(rank) << 32) + 77 * salt as u64);
    (0..bytes).map(|_| chance.below(256) as u8).collect()
}

/// Length of a part that may have any length.
fn length(bytes: usize, lengths: Lengths, rank: u32, salt: usize) -> usize {
    match lengths {
        Lengths::Equal => bytes,
        Lengths::Any => (bytes * (rank as usize % 4 + 2 * salt % 3)) / 2,
    }
}

fn matrix(left: &mut [u8], right: &[u8]) {
    for (a, b) in left.chunks_exact_mut(4).zip(right.chunks_exact(4)) {
        let entry = |i: usize, j: usize| {
            let product = |k: usize| a[2 * i + k].wrapping_mul(b[2 * k + j]);
            product(0).wrapping_add(product(1))
        };
        let product = [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)];
        a.copy_from_slice(&product);
    }
}

fn xor(left: &mut [u8], right: &[u8]) {
    left.iter_mut().zip(right).for_each(|(a, b)| *a ^= b);
}

fn sum(left: &mut [u8], right: &[u8]) {
    for (a, b) in left.as_chunks_mut::<4>().0.iter_mut().zip(right.as_chunks::<4>().0) {
        *a = u32::from_le_bytes(*a).wrapping_add(u32::from_le_bytes(*b)).to_le_bytes();
    }
}

impl By {
    pub(super) fn operator(self) -> Operator {
        match self {
            Self::Sum => Operator::built_in(Function::Sum, Element::U32),
            Self::Xor => Operator::user(4, Commutes::Yes, xor),
            Self::Matrix => Operator::user(4, Commutes::No, matrix),
        }
        .unwrap()
    }

    fn combined(self, ranks: std::ops::Range<u32>, elements: usize) -> Payload {
        let combine = match self {
            Self::Sum => sum,
            Self::Xor => xor,
            Self::Matrix => matrix,
        };
        let mut vectors = ranks.map(|rank| data(rank, 0, 4 * elements));
        let mut acc = vectors.next().unwrap();
        vectors.for_each(|vector| combine(&mut acc, &vector));
        acc.into()
    }
}

fn part(from: u32, to: u32, bytes: usize, lengths: Lengths) -> Payload {
    let salt = 1 + to as usize;
    data(from, salt, length(bytes, lengths, from, salt)).into()
}

impl Task {
    /// What `rank` does.
    pub(super) fn operation(&self, rank: u32, size: u32) -> Operation {
        let root_of = |root: usize| (root % size as usize) as u32;
        let vector = |elements: usize| data(rank, 0, 4 * elements).into();
        match *self {
            Self::Barrier => Operation::Barrier,
            Self::Broadcast { root, bytes } => {
                let root = root_of(root);
                let data = (rank == root).then(|| data(root, 0, bytes).into());
                Operation::Broadcast { root, data }
            }
            Self::Reduce { root, elements, by } => {
                let (root, data, operator) = (root_of(root), vector(elements), by.operator());
                Operation::Reduce { root, data, operator }
            }
            Self::AllReduce { elements, by } => {
                Operation::AllReduce { data: vector(elements), operator: by.operator() }
            }
            Self::Gather { root, bytes, lengths } => {
                let data = data(rank, 0, length(bytes, lengths, rank, 0)).into();
                Operation::Gather { root: root_of(root), data, lengths }
            }
            Self::AllGather { bytes, lengths } => {
                let data = data(rank, 0, length(bytes, lengths, rank, 0)).into();
                Operation::AllGather { data, lengths }
            }
            Self::Scatter { root, bytes } => {
                let root = root_of(root);
                let parts = || (0..size).map(|to| part(root, to, bytes, Lengths::Any)).collect();
                Operation::Scatter { root, parts: (rank == root).then(parts) }
            }
            Self::AllToAll { bytes, lengths } => {
                let parts = (0..size).map(|to| part(rank, to, bytes, lengths)).collect();
                Operation::AllToAll { parts, lengths }
            }
            Self::Scan { elements, by } => {
                Operation::Scan { data: vector(elements), operator: by.operator() }
            }
            Self::ExclusiveScan { elements, by } => {
                Operation::ExclusiveScan { data: vector(elements), operator: by.operator() }
            }
        }
    }

    /// What `rank` must get.
    pub(super) fn expected(&self, rank: u32, size: u32) -> Output {
        let is_root = |root: usize| (root % size as usize) as u32 == rank;
        let all = |bytes: usize, lengths: Lengths| {
            let part = |from| data(from, 0, length(bytes, lengths, from, 0)).into();
            Output::Many((0..size).map(part).collect())
        };
        match *self {
            Self::Barrier => Output::None,
            Self::Broadcast { root, bytes } => {
                Output::One(data((root % size as usize) as u32, 0, bytes).into())
            }
            Self::Reduce { root, .. } | Self::Gather { root, .. } if !is_root(root) => Output::None,
            Self::Reduce { elements, by, .. } | Self::AllReduce { elements, by } => {
                Output::One(by.combined(0..size, elements))
            }
            Self::Gather { bytes, lengths, .. } | Self::AllGather { bytes, lengths } => {
                all(bytes, lengths)
            }
            Self::Scatter { root, bytes } => {
                Output::One(part((root % size as usize) as u32, rank, bytes, Lengths::Any))
            }
            Self::AllToAll { bytes, lengths } => {
                Output::Many((0..size).map(|from| part(from, rank, bytes, lengths)).collect())
            }
            Self::Scan { elements, by } => Output::One(by.combined(0..rank + 1, elements)),
            Self::ExclusiveScan { .. } if rank == 0 => Output::None,
            Self::ExclusiveScan { elements, by } => Output::One(by.combined(0..rank, elements)),
        }
    }
}
