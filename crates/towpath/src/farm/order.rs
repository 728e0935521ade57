//! In which order finished items are written.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_vm::TaskExit;
use towpath_wire::HostId;

use super::bits::Bits;
use super::output::Capture;

/// An item with its result and output.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) item: u32,
    pub(crate) host: HostId,
    pub(crate) exit: TaskExit,
    /// When it ended, since the Unix epoch.
    pub(crate) ended: Duration,
    pub(crate) capture: Capture,
}

/// Finished items that wait for their turn. Without order there is no waiting.
#[derive(Debug)]
pub(crate) struct Order {
    /// Next item in turn; none: as they finish.
    turn: Option<u32>,
    skipped: Bits,
    waiting: BTreeMap<u32, Done>,
}

impl Order {
    /// `keep`: by item number, but for those `skipped`.
    pub(crate) const fn new(keep: bool, skipped: Bits) -> Self {
        let turn = if keep { Some(0) } else { None };
        Self { turn, skipped, waiting: BTreeMap::new() }
    }

    /// An item finished.
    pub(crate) fn push(&mut self, done: Done) {
        self.waiting.insert(done.item, done);
    }

    /// The next one to write.
    pub(crate) fn pop(&mut self) -> Option<Done> {
        let Some(turn) = &mut self.turn else { return self.pop_any() };
        while self.skipped.contains(*turn) {
            *turn += 1;
        }
        let done = self.waiting.remove(turn)?;
        *turn += 1;
        Some(done)
    }

    /// The next one to write when nothing more will finish.
    pub(crate) fn pop_any(&mut self) -> Option<Done> {
        self.waiting.pop_first().map(|(_, done)| done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use towpath_vm::Ending;

    fn done(item: u32) -> Done {
        let exit = TaskExit::without_run(Ending::Exited(0));
        let (host, ended) = (HostId::new(1, 1).unwrap(), Duration::ZERO);
        Done { item, host, exit, ended, capture: Capture::default() }
    }

    fn written(order: &mut Order) -> Vec<u32> {
        std::iter::from_fn(|| order.pop()).map(|d| d.item).collect()
    }

    #[test]
    fn without_order_items_are_written_as_they_finish() {
        let mut order = Order::new(false, Bits::new(3));
        order.push(done(2));
        assert_eq!(written(&mut order), [2]);
    }

    #[test]
    fn at_the_end_what_waits_is_written_in_order() {
        let mut order = Order::new(true, Bits::new(4));
        for item in [3, 1] {
            order.push(done(item));
        }
        assert!(written(&mut order).is_empty());
        let rest: Vec<u32> = std::iter::from_fn(|| order.pop_any()).map(|d| d.item).collect();
        assert_eq!(rest, [1, 3]);
    }

    proptest! {
        #[test]
        fn order_is_kept_around_skipped_items(
            items in Just((0u32..30).collect::<Vec<_>>()).prop_shuffle(),
            skip in proptest::collection::btree_set(0u32..30, 0..10),
        ) {
            let mut skipped = Bits::new(30);
            for item in &skip {
                skipped.insert(*item);
            }
            let mut order = Order::new(true, skipped);
            let mut seen = vec![];
            for item in items.into_iter().filter(|i| !skip.contains(i)) {
                order.push(done(item));
                seen.extend(written(&mut order));
            }
            let expected: Vec<u32> = (0..30).filter(|i| !skip.contains(i)).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
