//! All ranks as threads of this process, their messages in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::{Exchange, ExchangeError, Messages, Result};

struct Letter {
    from: usize,
    tag: i32,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Rank {
    letters: VecDeque<Letter>,
    /// What it waits for.
    waits: Option<(Option<usize>, i32)>,
    is_over: bool,
}

impl Rank {
    fn find(&self, from: Option<usize>, tag: i32) -> Option<usize> {
        let fits = |letter: &Letter| letter.tag == tag && from.is_none_or(|f| f == letter.from);
        self.letters.iter().position(fits)
    }

    fn can_go_on(&self) -> bool {
        !self.is_over && self.waits.is_none_or(|(from, tag)| self.find(from, tag).is_some())
    }
}

struct Post {
    ranks: Mutex<Vec<Rank>>,
    changed: Condvar,
}

impl Post {
    /// A rank that panicked has changed nothing by halves.
    fn ranks(&self) -> MutexGuard<'_, Vec<Rank>> {
        self.ranks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One rank among threads.
pub(crate) struct Local {
    rank: usize,
    size: usize,
    post: Arc<Post>,
}

impl Drop for Local {
    fn drop(&mut self) {
        self.post.ranks()[self.rank].is_over = true;
        self.post.changed.notify_all();
    }
}

/// Runs `size` ranks to their end; what each says, by rank.
pub(crate) fn run<T: Send>(
    size: usize,
    work: impl Fn(&mut dyn Exchange) -> anyhow::Result<T> + Sync,
) -> Vec<anyhow::Result<T>> {
    let ranks = Mutex::new((0..size).map(|_| Rank::default()).collect());
    let post = Arc::new(Post { ranks, changed: Condvar::new() });
    std::thread::scope(|scope| {
        let start = |rank| {
            let mut own = Local { rank, size, post: Arc::clone(&post) };
            let work = &work;
            scope.spawn(move || work(&mut own))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        let end = |(rank, thread): (usize, std::thread::ScopedJoinHandle<'_, _>)| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("task {rank} panicked")))
        };
        threads.into_iter().enumerate().map(end).collect()
    })
}

impl Local {
    /// Why what is wanted will never come, if so.
    fn hopeless(&self, ranks: &[Rank], from: Option<usize>, tag: i32) -> Option<ExchangeError> {
        let over = |rank: usize| rank != self.rank && ranks[rank].is_over;
        if let Some(rank) = from.filter(|rank| over(*rank)) {
            return Some(ExchangeError::Ended { rank });
        }
        if ranks.iter().any(Rank::can_go_on) {
            return None;
        }
        match (0..self.size).find(|rank| over(*rank)) {
            Some(rank) => Some(ExchangeError::Ended { rank }),
            None => Some(ExchangeError::Stuck { rank: self.rank, tag }),
        }
    }
}

impl Messages for Local {}

impl Exchange for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        let letter = Letter { from: self.rank, tag, bytes: bytes.to_vec() };
        self.post.ranks()[to].letters.push_back(letter);
        self.post.changed.notify_all();
        Ok(())
    }

    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
        let mut ranks = self.post.ranks();
        loop {
            let own = &mut ranks[self.rank];
            if let Some(letter) = own.find(from, tag).and_then(|at| own.letters.remove(at)) {
                own.waits = None;
                return Ok((letter.from, letter.bytes));
            }
            own.waits = Some((from, tag));
            if let Some(error) = self.hopeless(&ranks, from, tag) {
                self.post.changed.notify_all();
                return Err(error);
            }
            let woken = self.post.changed.wait(ranks);
            ranks = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>> {
        let mut ranks = self.post.ranks();
        let own = &mut ranks[self.rank];
        let letter = own.find(from, tag).and_then(|at| own.letters.remove(at));
        Ok(letter.map(|letter| (letter.from, letter.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_nobody_is_told() {
        let all = run(3, |exchange| {
            let from = (exchange.rank() + 1) % 3;
            Ok(exchange.recv(Some(from), 5)?)
        });
        for outcome in all {
            let said = outcome.unwrap_err().to_string();
            assert!(said.contains("waits for a message") || said.contains("ended"), "{said}");
        }
    }

    #[test]
    fn who_waits_for_one_that_ended_is_told_after_its_last_message() {
        let all = run(2, |exchange| {
            if exchange.rank() == 1 {
                exchange.send(0, 1, b"last")?;
                anyhow::bail!("killed");
            }
            let last = exchange.recv(Some(1), 1)?.1;
            Ok((last, exchange.recv(Some(1), 1)))
        });
        let (last, then) = all[0].as_ref().unwrap();
        assert_eq!(last, b"last");
        assert_eq!(*then, Err(ExchangeError::Ended { rank: 1 }));
    }
}
