//! Hosts that do not reach each other: of different sides, or of two while all others reach both.

use std::collections::BTreeMap;

/// Who does not reach whom.
#[derive(Debug, Default)]
pub struct Apart {
    /// Pairs of which the first does not reach the second, as often as that was said.
    pairs: Vec<(usize, usize)>,
    sides: BTreeMap<usize, usize>,
}

impl Apart {
    /// What `from` sends does not reach `to`, until [`Apart::join`] as often as this.
    pub fn part(&mut self, from: usize, to: usize) {
        self.pairs.push((from, to));
    }

    /// Ends what one [`Apart::part`] of the same two began.
    pub fn join(&mut self, from: usize, to: usize) {
        if let Some(at) = self.pairs.iter().position(|apart| *apart == (from, to)) {
            self.pairs.swap_remove(at);
        }
    }

    /// Whether what `from` sends does not reach `to`.
    pub fn has(&self, from: usize, to: usize) -> bool {
        let side = |host| self.sides.get(&host).copied().unwrap_or(0);
        side(from) != side(to) || self.pairs.contains(&(from, to))
    }

    /// Puts a host on a side: those of different sides do not reach each other. All begin on 0.
    pub fn set_side(&mut self, host: usize, side: usize) {
        self.sides.insert(host, side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_apart_until_that_has_ended_as_often_as_it_began() {
        let mut apart = Apart::default();
        apart.join(1, 2);
        for _ in 0..2 {
            apart.part(1, 2);
        }
        assert!(apart.has(1, 2) && !apart.has(2, 1));
        apart.join(2, 1);
        apart.join(1, 2);
        assert!(apart.has(1, 2));
        apart.join(1, 2);
        assert!(!apart.has(1, 2));
        apart.set_side(1, 1);
        assert!(apart.has(1, 2) && apart.has(2, 1) && !apart.has(2, 3));
        apart.set_side(2, 1);
        assert!(!apart.has(1, 2) && apart.has(2, 3));
    }
}
