//! Small traces for property tests.

use alloc::vec::Vec;

use proptest::prelude::*;

use crate::trace::{ExactRate, Trace};

pub(crate) fn rate(bytes: u64, ticks: u64) -> ExactRate {
    ExactRate::new(u128::from(bytes), u128::from(ticks)).expect("small")
}

/// Groups `(gap to the one before, bytes)` with a clock of one tick per second.
pub(crate) fn trace(groups: &[(u64, u64)]) -> Option<Trace> {
    let mut now = 0;
    let groups = groups.iter().map(|&(gap, bytes)| {
        now += gap;
        (now, bytes)
    });
    Trace::from_groups(groups, 1).ok()
}

/// Frames of equal spacing, `gap` ticks.
pub(crate) fn even(gap: u64, sizes: &[u64]) -> Trace {
    let groups: Vec<_> = sizes.iter().map(|&bytes| (gap, bytes)).collect();
    trace(&groups).expect("a trace")
}

/// Up to a dozen groups with few different sizes and gaps, so that ties are common.
pub(crate) fn any_trace() -> impl Strategy<Value = Trace> {
    let group = (1u64..4, prop_oneof![Just(0u64), 1u64..6, 1u64..60]);
    prop::collection::vec(group, 1..13).prop_filter_map("not one byte", |groups| trace(&groups))
}
