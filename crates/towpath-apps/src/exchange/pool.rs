//! A pool of numbered items that all ranks do, whoever has time.
//!
//! Each rank begins with its share. One that has done its own asks the others in turn for half of
//! what they have left. Nothing is made or lost on the way, so each item is done once. A rank that
//! nobody gives anything tells the root; when all have told it, the root tells all that it is over.
//! `towpath::Pool` is the same by the machine's own messages and barrier.

use std::ops::Range;

use super::contract::POOL;
use super::{Exchange, ExchangeError, Result, bytes, share};

/// What a message of a pool says, before its two numbers.
const ASK: u64 = 0;
const GIVE: u64 = 1;
const DONE: u64 = 2;
const OVER: u64 = 3;

/// What a rank has left of a pool: made by [`Exchange::pool`], asked by [`Exchange::next_item`].
#[derive(Debug)]
pub(crate) enum Pool {
    /// Over messages of the exchange.
    Messages(Shares),
    /// The machine's own.
    Machine(towpath::Pool),
}

/// A pool over messages. `own` lies within `0..items`.
#[derive(Debug)]
pub(crate) struct Shares {
    items: u64,
    /// What is left here, behind the item that is being done.
    own: Range<u64>,
    /// How many were asked since the last that had something.
    asked: usize,
    /// Whether whoever was asked last has not answered yet.
    waits: bool,
    /// Ranks that have told the root that they have nothing.
    done: usize,
    is_over: bool,
    stolen: u64,
}

impl Shares {
    pub(super) fn new(items: u64, rank: usize, size: usize) -> Self {
        let own = share(items as usize, rank, size);
        let own = own.start as u64..own.end as u64;
        Self { items, own, asked: 0, waits: false, done: 0, is_over: false, stolen: 0 }
    }

    pub(super) fn next<E: Exchange + ?Sized>(&mut self, exchange: &mut E) -> Result<Option<u64>> {
        if self.is_over {
            return Ok(None);
        }
        while let Some((from, message)) = exchange.try_recv(None, POOL)? {
            self.hear(exchange, from, &message)?;
        }
        loop {
            if let Some(item) = self.own.next() {
                return Ok(Some(item));
            }
            if self.asked + 1 == exchange.size() {
                self.end(exchange)?;
                return Ok(None);
            }
            self.asked += 1;
            let victim = (exchange.rank() + self.asked) % exchange.size();
            self.waits = true;
            exchange.send(victim, POOL, &bytes::of(&[ASK, 0, 0]))?;
            while self.waits {
                self.take(exchange)?;
            }
        }
    }

    /// Nobody has anything: waits until that is so for all.
    fn end<E: Exchange + ?Sized>(&mut self, exchange: &mut E) -> Result<()> {
        match exchange.rank() {
            0 => self.done += 1,
            _ => exchange.send(0, POOL, &bytes::of(&[DONE, 0, 0]))?,
        }
        while !self.is_over {
            if self.done == exchange.size() {
                self.is_over = true;
                for to in 1..exchange.size() {
                    exchange.send(to, POOL, &bytes::of(&[OVER, 0, 0]))?;
                }
            } else {
                self.take(exchange)?;
            }
        }
        Ok(())
    }

    fn take<E: Exchange + ?Sized>(&mut self, exchange: &mut E) -> Result<()> {
        let (from, message) = exchange.recv(None, POOL)?;
        self.hear(exchange, from, &message)
    }

    fn hear<E: Exchange + ?Sized>(
        &mut self,
        exchange: &mut E,
        from: usize,
        message: &[u8],
    ) -> Result<()> {
        let bad = ExchangeError::Malformed { len: message.len(), what: "what ranks of a pool say" };
        match bytes::to::<u64>(message)?[..] {
            [ASK, 0, 0] => {
                let left = self.own.end - self.own.start;
                // One item less than half where it is odd: it may be soon done here.
                let given = self.own.end - left / 2..self.own.end;
                self.own.end = given.start;
                exchange.send(from, POOL, &bytes::of(&[GIVE, given.start, given.end]))
            }
            [GIVE, start, end] if self.waits && start <= end && end <= self.items => {
                self.waits = false;
                if start < end {
                    self.stolen += end - start;
                    self.own = start..end;
                    self.asked = 0;
                }
                Ok(())
            }
            [DONE, 0, 0] if exchange.rank() == 0 && self.done < exchange.size() => {
                self.done += 1;
                Ok(())
            }
            [OVER, 0, 0] if from == 0 => {
                self.is_over = true;
                Ok(())
            }
            _ => Err(bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::local::run;
    use super::*;

    const SIZES: [usize; 6] = [1, 2, 3, 4, 7, 8];

    fn emptied(exchange: &mut dyn Exchange, items: u64) -> Result<(Vec<u64>, u64)> {
        let mut pool = exchange.pool(items);
        let mut own = Vec::new();
        while let Some(item) = exchange.next_item(&mut pool)? {
            own.push(item);
        }
        assert_eq!(exchange.next_item(&mut pool)?, None);
        let Pool::Messages(shares) = pool else { panic!("a pool of threads") };
        Ok((own, shares.stolen))
    }

    #[test]
    fn each_item_is_done_once_pool_after_pool() {
        for size in SIZES {
            for items in [0, 1, 5, 200] {
                let all = run(size, |exchange| {
                    let first = emptied(exchange, items)?.0;
                    Ok((first, emptied(exchange, items + 3)?.0))
                });
                let (first, second): (Vec<_>, Vec<_>) =
                    all.into_iter().map(anyhow::Result::unwrap).unzip();
                for (lists, items) in [(first, items), (second, items + 3)] {
                    let mut done = lists.concat();
                    done.sort_unstable();
                    assert_eq!(done, (0..items).collect::<Vec<_>>(), "{size} tasks");
                }
            }
        }
    }

    #[test]
    fn who_is_done_takes_half_of_what_another_has_left() {
        let all = run(2, |exchange| {
            if exchange.rank() == 1 {
                let (own, stolen) = emptied(exchange, 16)?;
                assert!(stolen >= 4);
                return Ok(own);
            }
            let mut pool = exchange.pool(16);
            // The other has done its eight once it asks.
            let (from, ask) = exchange.recv(Some(1), POOL)?;
            let Pool::Messages(shares) = &mut pool else { panic!("a pool of threads") };
            shares.hear(exchange, from, &ask)?;
            assert_eq!(shares.own, 0..4);
            let mut own = Vec::new();
            while let Some(item) = exchange.next_item(&mut pool)? {
                own.push(item);
            }
            Ok(own)
        });
        let (one, two) = (all[0].as_ref().unwrap(), all[1].as_ref().unwrap());
        assert_eq!(two[..9], [8, 9, 10, 11, 12, 13, 14, 15, 4]);
        assert_eq!(one[0], 0);
        assert_eq!(one.len() + two.len(), 16);
    }

    #[test]
    fn who_ends_in_the_middle_ends_it_for_all() {
        for size in [2, 3, 4, 7, 8] {
            let all = run(size, |exchange| {
                let mut pool = exchange.pool(100);
                while exchange.next_item(&mut pool)?.is_some() {
                    anyhow::ensure!(exchange.rank() != 1, "killed");
                }
                Ok(())
            });
            for (rank, outcome) in all.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
                let said = outcome.unwrap_err();
                let ended = matches!(said.downcast_ref(), Some(ExchangeError::Ended { .. }));
                assert!(ended, "{size} tasks, rank {rank}: {said}");
            }
        }
    }

    #[test]
    fn what_no_rank_says_is_refused() {
        for bad in [&[1_u64, 3, 2][..], &[1, 0, 900], &[9, 0, 0], &[3], &[]] {
            let all = run(2, |exchange| {
                if exchange.rank() == 1 {
                    exchange.send(0, POOL, &bytes::of(bad))?;
                    return Ok(());
                }
                let mut pool = exchange.pool(0);
                exchange.next_item(&mut pool)?;
                Ok(())
            });
            let said = all[0].as_ref().unwrap_err().to_string();
            assert!(said.ends_with("is not what ranks of a pool say"), "{bad:?}: {said}");
        }
    }
}
