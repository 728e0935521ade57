//! How work is split.

use std::ops::Range;

use super::{Exchange, Result};

/// The part of `0..n` that `rank` of `size` works on: whole, in order, lengths differ by one at
/// most.
pub(crate) const fn share(n: usize, rank: usize, size: usize) -> Range<usize> {
    let begin = (n as u128 * rank as u128 / size as u128) as usize;
    let end = (n as u128 * (rank as u128 + 1) / size as u128) as usize;
    begin..end
}

/// How many values the shares of all ranks have, of `0..n` with `width` values each.
pub(crate) fn share_counts(n: usize, size: usize, width: usize) -> Vec<usize> {
    (0..size).map(|rank| share(n, rank, size).len() * width).collect()
}

/// All values of `0..n`, each computed by the rank whose share it is in, at every rank: the same
/// bits for any number of ranks, as `value` knows nothing of them.
pub(crate) fn map_all(
    exchange: &mut dyn Exchange,
    n: usize,
    width: usize,
    mut value: impl FnMut(usize, &mut Vec<f64>),
) -> Result<Vec<f64>> {
    let mut own = Vec::new();
    for at in share(n, exchange.rank(), exchange.size()) {
        exchange.check()?;
        value(at, &mut own);
        assert_eq!(own.len() % width, 0, "values come {width} at a time");
    }
    exchange.all_gather_counts(&own, &share_counts(n, exchange.size(), width))
}

#[cfg(test)]
mod tests {
    use super::super::local::run;
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for n in [0, 1, 5, 17, 1000] {
            for size in 1..9 {
                let mut next = 0;
                for rank in 0..size {
                    let share = share(n, rank, size);
                    assert_eq!(share.start, next);
                    assert!(share.len() <= n / size + 1);
                    next = share.end;
                }
                assert_eq!(next, n);
            }
        }
    }

    #[test]
    fn collectives_give_everyone_what_they_say() {
        for size in [1, 2, 3, 4, 7, 8] {
            let all = run(size, |exchange| {
                let rank = exchange.rank();
                let root = exchange.broadcast(size - 1, Some(vec![rank as u8]))?;
                let gathered = exchange.gather(0, vec![rank as u8; rank])?;
                let mine = (0..size).map(|to| vec![rank as u8, to as u8]).collect();
                let swapped = exchange.all_to_all(mine)?;
                let values = map_all(exchange, 10, 1, |at, out| out.push(at as f64))?;
                Ok((root, gathered, swapped, values))
            });
            for (rank, outcome) in all.into_iter().enumerate() {
                let (root, gathered, swapped, values) = outcome.unwrap();
                assert_eq!(root, [size as u8 - 1]);
                assert_eq!(gathered.is_some(), rank == 0);
                if let Some(parts) = gathered {
                    assert!(parts.iter().enumerate().all(|(r, part)| *part == vec![r as u8; r]));
                }
                let right = |(from, part): (usize, &Vec<u8>)| *part == [from as u8, rank as u8];
                assert!(swapped.iter().enumerate().all(right));
                assert_eq!(values, (0..10).map(f64::from).collect::<Vec<_>>());
            }
        }
    }
}
