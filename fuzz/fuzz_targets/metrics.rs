//! What a daemon may tell of what it measures, delta by delta: taken in or refused, within memory
//! bounded by what came; and whatever was taken in is told to another as it stands.
//!
//! The input: length u16, delta, length u16, delta, ...
#![no_main]

use core::time::Duration;
use std::collections::BTreeMap;
use std::ops::Bound;

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_vm::metrics::{Row, Series, Source, Store, Subscription, Values};
use towpath_wire::Instant;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of input at most: a series takes 17 bytes at least, and in a tree that
/// is half full twice its 192.
const FACTOR: usize = 32;
const FLOOR: usize = 16 << 10;

struct Rows(BTreeMap<Series, Values>);

impl Source for Rows {
    fn after(&mut self, last: Option<Series>) -> Option<Row> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.0.range((from, Bound::Unbounded)).next();
        next.map(|(series, values)| Row { series: *series, values: *values })
    }
}

fn told(mut bytes: &[u8]) -> Store {
    let mut store = Store::default();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (delta, rest) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
        bytes = rest;
        if store.apply(delta).is_err() {
            break;
        }
    }
    store
}

fuzz_target!(|bytes: &[u8]| {
    let (store, heap) = allocation::during(|| told(bytes));
    assert!(heap <= FACTOR * bytes.len() + FLOOR, "{heap} B for {} B", bytes.len());
    let mut rows = Rows(store.rows().map(|row| (row.series, row.values)).collect());
    let mut subscription = Subscription::new(Instant::ZERO, Duration::ZERO);
    let mut again = Store::default();
    let turns = rows.0.len() / 64 + 1;
    for turn in 1..=turns {
        let delta = subscription.turn(Instant::ZERO, 0, &mut rows).expect("it is time");
        assert!(delta.len() < 32 << 10, "{} B", delta.len());
        assert_eq!(again.apply(&delta).expect("our own").ends, turn == turns);
    }
    assert!(again.rows().eq(store.rows()));
});
