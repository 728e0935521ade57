//! What a daemon tells of what it measures.

use towpath_vm::metrics::Series;
use towpath_vm::metrics::delta::{Composer, Head};

/// Series that are new, change and go, and one of a group that there is not yet.
pub(crate) fn deltas() -> Vec<(&'static str, Vec<u8>)> {
    let series = |group, key| Series::new(group, key, 1);
    let values = |n: u64| std::array::from_fn(|i| n * i as u64);
    let mut deltas: [Composer; 3] = Default::default();
    for group in [1, 5, 6, 99] {
        deltas[0].step(series(group, 7), None, &values(9));
        deltas[1].step(series(group, 7), Some(&values(9)), &values(8));
    }
    deltas[1].step(series(7, u64::MAX), None, &values(u64::MAX / 40));
    deltas[2].gone(series(5, 7));
    let mut bytes = Vec::new();
    for (number, delta) in (0..).zip(deltas) {
        let delta = delta.finish(&Head { number, begins: true, ends: true, lost: 1, untold: 2 });
        bytes.extend(u16::try_from(delta.len()).expect("a short one").to_le_bytes());
        bytes.extend(delta);
    }
    vec![("deltas", bytes)]
}
