//! Who is whose neighbour: grids and hypercubes of a team's ranks.

/// The ranks of a team as a grid of so many in each direction, the last of which counts fastest
/// (rows before columns, as matrices lie in memory). Each direction ends at the border, or goes
/// round.
///
/// ```
/// use towpath_task::Grid;
/// let grid = Grid::balanced(6, 2);
/// assert_eq!(grid.extents(), [3, 2]);
/// assert_eq!(grid.coordinates(3), [1, 1]);
/// assert_eq!(grid.neighbour(3, 0, 1), Some(5));
/// assert_eq!(grid.neighbour(3, 1, 1), None);
/// let ring = Grid::new(&[4]).round(0);
/// assert_eq!(ring.neighbour(0, 0, -1), Some(3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    extents: Vec<u32>,
    round: Vec<bool>,
}

impl Grid {
    /// So many in each direction. Panics where one of them is 0 or all together are too many to be
    /// counted.
    pub fn new(extents: &[u32]) -> Self {
        let all = extents.iter().try_fold(1_u32, |all, extent| all.checked_mul(*extent));
        assert!(all.is_some_and(|all| all > 0), "a grid of {extents:?}");
        Self { extents: extents.to_vec(), round: vec![false; extents.len()] }
    }

    /// Of `size` in all, in so many directions, as equal as they can be, the longest first.
    pub fn balanced(size: u32, directions: usize) -> Self {
        let mut extents = vec![1; directions.max(1)];
        let (mut rest, mut primes) = (size.max(1), Vec::new());
        let mut divisor = 2;
        while divisor * divisor <= rest {
            while rest.is_multiple_of(divisor) {
                primes.push(divisor);
                rest /= divisor;
            }
            divisor += 1;
        }
        primes.extend((rest > 1).then_some(rest));
        for prime in primes.into_iter().rev() {
            let least = extents.iter_mut().min().expect("there is a direction");
            *least *= prime;
        }
        extents.sort_unstable_by(|a, b| b.cmp(a));
        Self::new(&extents)
    }

    /// The same with a direction that goes round.
    #[must_use]
    pub fn round(mut self, direction: usize) -> Self {
        self.round[direction] = true;
        self
    }

    /// How many there are in each direction.
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// How many there are in all.
    pub fn size(&self) -> u32 {
        self.extents.iter().product()
    }

    /// Where a rank is.
    pub fn coordinates(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut at: Vec<u32> = Vec::with_capacity(self.extents.len());
        for extent in self.extents.iter().rev() {
            at.push(rest % extent);
            rest /= extent;
        }
        at.reverse();
        at
    }

    /// The rank that is there; `None`: beyond a border.
    pub fn rank(&self, coordinates: &[i64]) -> Option<u32> {
        let mut rank = 0;
        for ((at, extent), round) in coordinates.iter().zip(&self.extents).zip(&self.round) {
            let at = if *round { at.rem_euclid(i64::from(*extent)) } else { *at };
            let at = u32::try_from(at).ok().filter(|at| at < extent)?;
            rank = rank * extent + at;
        }
        (coordinates.len() == self.extents.len()).then_some(rank)
    }

    /// The rank that is so many steps from another in a direction; `None`: beyond a border.
    pub fn neighbour(&self, rank: u32, direction: usize, steps: i64) -> Option<u32> {
        let mut at: Vec<i64> = self.coordinates(rank).into_iter().map(i64::from).collect();
        *at.get_mut(direction)? += steps;
        self.rank(&at)
    }
}

/// The neighbours of a rank in a hypercube, one for each bit, lowest first; where `size` is no
/// power of two, those that there are.
///
/// ```
/// use towpath_task::topology::hypercube;
/// assert_eq!(hypercube(5, 8).collect::<Vec<_>>(), [4, 7, 1]);
/// assert_eq!(hypercube(5, 6).collect::<Vec<_>>(), [4, 1]);
/// ```
pub fn hypercube(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let bits = size.next_power_of_two().trailing_zeros();
    (0..bits).map(move |bit| rank ^ 1 << bit).filter(move |other| *other < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_mutual_and_ranks_go_there_and_back() {
        for size in 1..40 {
            for directions in 1..4 {
                let grid = Grid::balanced(size, directions).round(0);
                assert_eq!(grid.size(), size);
                for rank in 0..size {
                    let at: Vec<i64> = grid.coordinates(rank).into_iter().map(i64::from).collect();
                    assert_eq!(grid.rank(&at), Some(rank));
                    for direction in 0..directions {
                        let next = grid.neighbour(rank, direction, 1);
                        let back = next.map(|next| grid.neighbour(next, direction, -1));
                        assert!(back.is_none_or(|back| back == Some(rank)));
                        assert!(direction > 0 || next.is_some(), "it goes round");
                    }
                }
            }
            for rank in 0..size {
                assert!(
                    hypercube(rank, size).all(|other| hypercube(other, size).any(|r| r == rank))
                );
            }
        }
        assert_eq!(Grid::balanced(64, 3).extents(), [4, 4, 4]);
        assert_eq!(Grid::balanced(7, 2).extents(), [7, 1]);
    }

    #[test]
    fn a_cube_has_a_neighbour_for_each_bit_and_a_grid_ends_at_its_borders() {
        let cube = |rank, size| hypercube(rank, size).collect::<Vec<_>>();
        assert_eq!(
            (cube(5, 8), cube(5, 6), cube(0, 5)),
            (vec![4, 7, 1], vec![4, 1], vec![1, 2, 4])
        );
        assert_eq!((cube(0, 1), cube(1, 2), cube(1, 5)), (vec![], vec![0], vec![0, 3]));
        let grid = Grid::new(&[2, 3]).round(1);
        assert_eq!((grid.coordinates(5), grid.size()), (vec![1, 2], 6));
        let ranks = [[1, 2], [1, 3], [1, -1], [2, 0], [-1, 0], [0, 4]].map(|at| grid.rank(&at));
        assert_eq!(ranks, [Some(5), Some(3), Some(5), None, None, Some(1)]);
        assert_eq!((grid.rank(&[1]), grid.neighbour(4, 2, 1)), (None, None));
        assert_eq!((grid.neighbour(4, 1, 2), grid.neighbour(4, 0, -1)), (Some(3), Some(1)));
    }
}
