//! Work over many inputs at once, told in the order of the inputs, with a bar for people.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Results that may wait for a slower one before them, per thread: bounds what is in memory.
const AHEAD: usize = 4;

/// What is under way.
struct Queue<R> {
    next: usize,
    told: usize,
    /// A thread died: nobody shall wait for its result.
    broken: bool,
    done: BTreeMap<usize, R>,
}

/// Does `work` on each item, on as many threads as there are processors, and hands the results to
/// `tell` on this thread, in the order of the items.
pub fn in_order<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut tell: impl FnMut(&T, R),
) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let queue = Mutex::new(Queue { next: 0, told: 0, broken: false, done: BTreeMap::new() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let guard = Guard { queue: &queue, changed: &changed };
                while let Some(index) = take(&queue, &changed, items.len(), threads * AHEAD) {
                    let result = work(&items[index]);
                    lock(&queue).done.insert(index, result);
                    changed.notify_all();
                }
                std::mem::forget(guard);
            });
        }
        for (index, item) in items.iter().enumerate() {
            let mut state = lock(&queue);
            let result = loop {
                if let Some(result) = state.done.remove(&index) {
                    break result;
                }
                if state.broken {
                    // The scope passes the panic on.
                    return;
                }
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.told = index + 1;
            drop(state);
            changed.notify_all();
            tell(item, result);
        }
    });
}

/// The next item to work on, once few enough results wait.
fn take<R>(
    queue: &Mutex<Queue<R>>,
    changed: &Condvar,
    items: usize,
    ahead: usize,
) -> Option<usize> {
    let mut state = lock(queue);
    while !state.broken && state.next < items && state.next >= state.told + ahead {
        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let index = state.next;
    state.next += 1;
    (index < items && !state.broken).then_some(index)
}

/// Tells the others when its thread panics.
struct Guard<'a, R> {
    queue: &'a Mutex<Queue<R>>,
    changed: &'a Condvar,
}

impl<R> Drop for Guard<'_, R> {
    fn drop(&mut self) {
        lock(self.queue).broken = true;
        self.changed.notify_all();
    }
}

fn lock<R>(queue: &Mutex<Queue<R>>) -> MutexGuard<'_, Queue<R>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bar over bytes; hidden where standard error is no terminal.
pub fn bytes_bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}"),
    };
    dressed(bar, template)
}

/// A bar over pieces of work of about equal size; hidden where standard error is no terminal.
pub fn work_bar(total: usize) -> ProgressBar {
    dressed(ProgressBar::new(total as u64), "{bar:30} {percent} %, {eta} left")
}

fn dressed(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // So that a bar shows up only where there is something to wait for.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_and_each_once() {
        let items: Vec<usize> = (0..500).collect();
        let mut told = Vec::new();
        // Early items take longest.
        let work = |k: &usize| (0..(500 - k) * 50).fold(*k, |a, b| std::hint::black_box(a ^ b ^ b));
        in_order(&items, work, |item, result| told.push((*item, result)));
        assert_eq!(told, items.iter().map(|k| (*k, *k)).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_ends_it_instead_of_waiting_for_ever() {
        let run = || in_order(&[1, 2, 3], |k| assert!(*k != 2, "planted"), |_, ()| ());
        assert!(std::panic::catch_unwind(run).is_err());
    }

    #[test]
    fn no_more_results_wait_than_may() {
        let items: Vec<usize> = (0..200).collect();
        let (worked, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |_: &usize| worked.fetch_add(1, Ordering::SeqCst);
        in_order(&items, work, |item, _| {
            most.fetch_max(worked.load(Ordering::SeqCst) - item, Ordering::SeqCst);
        });
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        assert!(most.into_inner() <= threads * AHEAD + 1);
        in_order(&[0; 0], |_| (), |_, ()| panic!("nothing to tell"));
    }
}
