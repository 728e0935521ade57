//! The trait, and why nothing came or went.

use std::time::Duration;

use rustfft::num_complex::Complex64;
use towpath::Task;

use super::Arrays;
use super::pool::{Pool, Shares};

/// A message of an application is at most so long: a peer's length is never believed beyond it.
pub(crate) const MESSAGE_MAX: usize = 1 << 28;
/// Tags from here on are the exchange's own.
const TAG_OWN: i32 = 1 << 24;
pub(super) const BROADCAST: i32 = TAG_OWN;
pub(super) const GATHER: i32 = TAG_OWN + 1;
pub(super) const ALL_TO_ALL: i32 = TAG_OWN + 2;
pub(super) const POOL: i32 = TAG_OWN + 3;

/// Why nothing came or went.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// Who should send has ended: the job's answer would be incomplete, so there is none.
    #[error("task {rank} ended in the middle of the work")]
    Ended {
        /// Which.
        rank: usize,
    },
    /// All wait for each other (only the local exchange knows).
    #[error("task {rank} waits for a message that nobody sends (tag {tag})")]
    Stuck {
        /// Who waits.
        rank: usize,
        /// For what.
        tag: i32,
    },
    /// A message that cannot be what it should.
    #[error("a message of {len} bytes is not {what}")]
    Malformed {
        /// Its length.
        len: usize,
        /// What was expected.
        what: &'static str,
    },
    /// The machine says no.
    #[error("{0}")]
    Machine(String),
}

pub(crate) type Result<T> = std::result::Result<T, ExchangeError>;

/// One rank's view of the tasks that work together.
pub(crate) trait Exchange: Arrays<f64> + Arrays<u64> + Arrays<Complex64> {
    /// 0 ≤ rank < size.
    fn rank(&self) -> usize;
    fn size(&self) -> usize;

    /// Sends without waiting for the receiver.
    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()>;

    /// Waits for a message with `tag`, of `from` or of anyone: its sender and its bytes. Messages
    /// of one sender with one tag come in order.
    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)>;

    /// The same without waiting.
    fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>>;

    /// What was done until now was preparation: a record begins here. All ranks call it between
    /// the same messages, and so [`done`](Self::done).
    fn begin(&mut self) {}

    /// What comes now is reporting and checking: a record ends here.
    fn done(&mut self) {}

    /// Whether all are there still, for one that works long between two messages: whoever is lost
    /// is an error here rather than after the work. Threads are lost with the process alone.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    /// The machine's task, where there is one: for panels.
    fn task(&mut self) -> Option<&mut Task> {
        None
    }

    /// Does nothing for so long; who follows a panel is not kept waiting by it.
    fn rest(&mut self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        Ok(())
    }

    /// Gives everyone the root's bytes; the root gives some.
    fn broadcast(&mut self, root: usize, data: Option<Vec<u8>>) -> Result<Vec<u8>> {
        if self.rank() != root {
            return Ok(self.recv(Some(root), BROADCAST)?.1);
        }
        let data = data.unwrap_or_default();
        for to in (0..self.size()).filter(|to| *to != root) {
            self.send(to, BROADCAST, &data)?;
        }
        Ok(data)
    }

    /// Gives the root everyone's part by rank; others get nothing.
    fn gather(&mut self, root: usize, data: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>> {
        if self.rank() != root {
            self.send(root, GATHER, &data)?;
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(self.size());
        for from in 0..self.size() {
            parts.push(match from == root {
                true => data.clone(),
                false => self.recv(Some(from), GATHER)?.1,
            });
        }
        Ok(Some(parts))
    }

    /// Part k goes to rank k; from rank k comes what is at place k of the result.
    fn all_to_all(&mut self, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.rank(), self.size());
        assert_eq!(parts.len(), size, "a part for each rank");
        let mut got = vec![Vec::new(); size];
        got[rank] = std::mem::take(&mut parts[rank]);
        for away in 1..size {
            self.send((rank + away) % size, ALL_TO_ALL, &parts[(rank + away) % size])?;
        }
        for away in 1..size {
            let from = (rank + size - away) % size;
            got[from] = self.recv(Some(from), ALL_TO_ALL)?.1;
        }
        Ok(got)
    }

    /// Gives everyone everyone's part by rank.
    fn all_gather(&mut self, data: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let parts = vec![data; self.size()];
        self.all_to_all(parts)
    }

    /// A pool of the items 0 to `items` - 1. All ranks make it alike, and ask it until there is
    /// nothing left.
    fn pool(&mut self, items: u64) -> Pool {
        Pool::Messages(Shares::new(items, self.rank(), self.size()))
    }

    /// The next item to do; none, for all ranks at the same time, when all are done or being done.
    /// Others are served here: while an item is being done they wait.
    fn next_item(&mut self, pool: &mut Pool) -> Result<Option<u64>> {
        match pool {
            Pool::Messages(shares) => shares.next(self),
            Pool::Machine(_) => unreachable!("a pool is asked through the exchange that made it"),
        }
    }
}
