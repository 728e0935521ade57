//! Collectives on arrays of numbers, which are borrowed: nothing is packed for them.
//!
//! A machine has them as its own ([`Machine`](super::machine::Machine)). For the others they are
//! messages ([`Messages`]), of the same bytes.

use rustfft::num_complex::Complex64;
use towpath::Plain;

use super::contract::{ALL_TO_ALL, BROADCAST, GATHER};
use super::{Exchange, ExchangeError, Result, bytes};

/// Collectives on values of type `T`. All ranks call them alike.
pub(crate) trait Arrays<T: Plain> {
    /// Gives everyone the root's values; all give an array of the same length.
    fn broadcast_slice(&mut self, root: usize, values: &mut [T]) -> Result<()>;

    /// Gives the root everyone's values, of whatever length, by rank; others get nothing.
    fn gather_parts(&mut self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>>;

    /// Gives everyone everyone's values, of whatever length, by rank.
    fn all_gather_parts(&mut self, values: &[T]) -> Result<Vec<Vec<T>>>;

    /// Gives rank k so many of the values as `counts[k]` says, in order; what comes from each rank.
    fn all_to_all_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>>;

    /// Gives the root everyone's values, one behind the other in the order of ranks; rank k has
    /// `counts[k]` of them, as all ranks say. Others get nothing.
    fn gather_counts(
        &mut self,
        root: usize,
        values: &[T],
        counts: &[usize],
    ) -> Result<Option<Vec<T>>> {
        let parts = self.gather_parts(root, values)?;
        parts.map(|parts| joined(&parts, counts)).transpose()
    }

    /// The same for everyone.
    fn all_gather_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<T>> {
        joined(&self.all_gather_parts(values)?, counts)
    }
}

/// Parts behind each other, if each is as long as it should be.
pub(super) fn joined<T: Plain>(parts: &[Vec<T>], counts: &[usize]) -> Result<Vec<T>> {
    if let Some((part, _)) = parts.iter().zip(counts).find(|(part, count)| part.len() != **count) {
        return Err(ExchangeError::Malformed { len: part.len() * T::SIZE, what: "a rank's share" });
    }
    Ok(parts.concat())
}

/// Types of numbers that an [`Exchange`] knows.
pub(crate) trait Number: Plain {
    /// The exchange's collectives on this type.
    fn arrays(exchange: &mut dyn Exchange) -> &mut dyn Arrays<Self>;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Number for $type {
            fn arrays(exchange: &mut dyn Exchange) -> &mut dyn Arrays<Self> {
                exchange
            }
        }
    )* };
}

numbers!(f64, u64, Complex64);

/// An exchange whose collectives on arrays are messages.
pub(crate) trait Messages: Exchange {}

impl<T: Plain, E: Messages> Arrays<T> for E {
    fn broadcast_slice(&mut self, root: usize, values: &mut [T]) -> Result<()> {
        if self.rank() != root {
            return bytes::fill(values, &self.recv(Some(root), BROADCAST)?.1);
        }
        for to in (0..self.size()).filter(|to| *to != root) {
            self.send(to, BROADCAST, &bytes::of(values))?;
        }
        Ok(())
    }

    fn gather_parts(&mut self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        if self.rank() != root {
            self.send(root, GATHER, &bytes::of(values))?;
            return Ok(None);
        }
        let size = self.size();
        let part = |from| match from == root {
            true => Ok(values.to_vec()),
            false => bytes::to(&self.recv(Some(from), GATHER)?.1),
        };
        (0..size).map(part).collect::<Result<_>>().map(Some)
    }

    fn all_gather_parts(&mut self, values: &[T]) -> Result<Vec<Vec<T>>> {
        let size = self.size();
        all_to_all(self, |_| values, size)
    }

    fn all_to_all_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>> {
        assert_eq!(counts.iter().sum::<usize>(), values.len(), "all values go somewhere");
        let begin = |to: usize| counts[..to].iter().sum::<usize>();
        all_to_all(self, |to| &values[begin(to)..][..counts[to]], counts.len())
    }
}

/// What is for each rank to it, and what comes from each.
fn all_to_all<'a, T: Plain>(
    exchange: &mut (impl Exchange + ?Sized),
    of: impl Fn(usize) -> &'a [T],
    size: usize,
) -> Result<Vec<Vec<T>>> {
    let rank = exchange.rank();
    assert_eq!(size, exchange.size(), "a part for each rank");
    for away in 1..size {
        let to = (rank + away) % size;
        exchange.send(to, ALL_TO_ALL, &bytes::of(of(to)))?;
    }
    let part = |from| match from == rank {
        true => Ok(of(rank).to_vec()),
        false => bytes::to(&exchange.recv(Some(from), ALL_TO_ALL)?.1),
    };
    (0..size).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::local::run;

    #[test]
    fn collectives_give_everyone_what_they_say() {
        for size in [1, 2, 3, 4, 7, 8] {
            let all = run(size, |exchange| {
                let rank = exchange.rank();
                let mut root = [rank as u64, 1];
                exchange.broadcast_slice(size - 1, &mut root)?;
                assert_eq!(root, [size as u64 - 1, 1]);
                let own = vec![rank as f64; rank];
                let counts: Vec<usize> = (0..size).collect();
                let right: Vec<f64> = (0..size).flat_map(|r| vec![r as f64; r]).collect();
                assert_eq!(exchange.all_gather_counts(&own, &counts)?, right);
                let gathered = exchange.gather_counts(0, &own, &counts)?;
                assert_eq!(gathered, (rank == 0).then_some(right));
                // To rank k go k values that say from whom.
                let parts = exchange.all_to_all_counts(
                    &vec![rank as u64; size * (size - 1) / 2],
                    &(0..size).collect::<Vec<_>>(),
                )?;
                for (from, part) in parts.iter().enumerate() {
                    assert_eq!(*part, vec![from as u64; rank]);
                }
                Ok(())
            });
            for outcome in all {
                outcome.unwrap();
            }
        }
    }

    #[test]
    fn a_part_of_another_length_is_refused() {
        let all = run(2, |exchange| Ok(exchange.gather_counts(0, &[1.0], &[1, 2])?));
        let said = all[0].as_ref().unwrap_err().to_string();
        assert_eq!(said, "a message of 8 bytes is not a rank's share");
        let all = run(2, |exchange| {
            let mut values = vec![0_u64; 1 + exchange.rank()];
            Ok(exchange.broadcast_slice(0, &mut values)?)
        });
        let said = all[1].as_ref().unwrap_err().to_string();
        assert_eq!(said, "a message of 8 bytes is not as many numbers as there should be");
    }
}
