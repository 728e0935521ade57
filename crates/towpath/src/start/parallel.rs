//! Many things at once, but not too many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does `work` for each item on at most `threads` threads, and tells `done` each result as it
/// comes, with the item's place. Returns when all are done; results are in the items' order.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(usize, &R),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    if send.send((at, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (at, result) in receive {
            done(at, &result);
            results[at] = Some(result);
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    #[test]
    fn as_many_run_at_once_as_are_allowed_and_no_more() {
        // Each of the first eight waits until eight are there: fewer threads would wait for ever.
        let (inside, all_in) = (Mutex::new((0, 0)), Condvar::new());
        let items: Vec<usize> = (0..200).collect();
        let work = |item: &usize| {
            let mut state = inside.lock().unwrap();
            state.0 += 1;
            state.1 = state.1.max(state.0);
            all_in.notify_all();
            while *item < 8 && state.1 < 8 {
                state = all_in.wait(state).unwrap();
            }
            state.0 -= 1;
            item * 2
        };
        let mut told = 0;
        let results = each(&items, 8, work, |at, result| {
            assert_eq!(*result, at * 2);
            told += 1;
        });
        assert_eq!(results, items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert_eq!((told, inside.into_inner().unwrap().1), (200, 8));
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        assert_eq!(each(&[], 8, |_: &u8| 1, |_, _| {}), [0; 0]);
    }
}
