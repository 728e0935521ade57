//! Branch and bound: one frame for problems whose solutions are rows of choices.
//!
//! The first places of a row, in all ways, are the items of a pool; below one of them a rank looks
//! depth first. Better costs are told to all, who take them up between items. Of solutions that
//! cost the same the first in the order of choices counts: the same one for any number of ranks.

use anyhow::Context as _;

use crate::exchange::{Exchange, ExchangeError, Result};

/// Tag of what ranks tell each other.
const BEST: i32 = 9;
/// What it is: better than what is known, or a rank's last word.
const BETTER: u8 = 0;
const LAST: u8 = 1;
/// The pool has so many items at least, where there are so many beginnings.
const ITEMS: u64 = 256;

/// A problem whose solutions are [`Problem::depth`] choices, each one of `0..width`.
pub(crate) trait Problem {
    /// What the choices so far amount to.
    type State: Copy;

    /// Choices at each place, at least 1.
    fn width(&self) -> u8;
    /// Choices of a whole solution, at least 1.
    fn depth(&self) -> usize;
    fn start(&self) -> Self::State;
    /// With one choice more; none: it cannot be made.
    fn choose(&self, state: &Self::State, choice: u8) -> Option<Self::State>;
    /// No whole solution that begins so costs less. None: all of them are wanted.
    fn bound(&self, state: &Self::State) -> Option<u64>;
    /// Of a whole solution.
    fn cost(&self, state: &Self::State) -> u64;
    /// The choices of a solution to begin with.
    fn guess(&self) -> Option<Vec<u8>> {
        None
    }
}

/// A whole row of choices; the less it costs the better, then the earlier choices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Solution {
    pub(crate) cost: u64,
    pub(crate) choices: Vec<u8>,
}

/// What there is, the same at every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// None: no row of choices can be made.
    pub(crate) best: Option<Solution>,
    /// Whole rows that were reached: all there are, where the problem wants all.
    pub(crate) reached: u64,
}

struct Search<'a, P: Problem> {
    problem: &'a P,
    best: Option<Solution>,
    path: Vec<u8>,
    reached: u64,
    /// States looked at.
    seen: u64,
}

/// States between two looks whether all ranks are there.
const LOOK: u64 = 4096;

/// Places that the pool's items decide.
fn places<P: Problem>(problem: &P) -> (usize, u64) {
    let (mut places, mut items) = (0, 1_u64);
    while items < ITEMS && places < problem.depth() {
        places += 1;
        items *= u64::from(problem.width());
    }
    (places, items)
}

/// A row that another rank tells of, with its cost.
fn understood<P: Problem>(problem: &P, choices: &[u8]) -> Result<Solution> {
    let bad = ExchangeError::Malformed { len: choices.len(), what: "a row of choices" };
    let begun = Some(problem.start()).filter(|_| choices.len() == problem.depth());
    let walk = |state: Option<P::State>, choice: &u8| {
        state.filter(|_| *choice < problem.width()).and_then(|s| problem.choose(&s, *choice))
    };
    let state = choices.iter().fold(begun, walk).ok_or(bad)?;
    Ok(Solution { cost: problem.cost(&state), choices: choices.to_vec() })
}

/// The best solution; all ranks call it with the same problem.
pub(crate) fn explore<P: Problem>(
    exchange: &mut dyn Exchange,
    problem: &P,
) -> anyhow::Result<Found> {
    let guess = problem.guess().map(|choices| understood(problem, &choices)).transpose();
    let best = guess.context("the guess")?;
    let mut search = Search { problem, best, path: Vec::new(), reached: 0, seen: 0 };
    let (places, items) = places(problem);
    let mut pool = exchange.pool(items);
    while let Some(item) = exchange.next_item(&mut pool)? {
        // All that has come, so that nothing waits longer than one item takes.
        while let Some((_, message)) = exchange.try_recv(None, BEST)? {
            search.hear(&message)?;
        }
        let before = search.cost();
        search.below(exchange, item, places)?;
        if search.cost() < before {
            tell(exchange, &search.said(BETTER))?;
        }
    }
    search.agree(exchange)?;
    Ok(Found { best: search.best, reached: search.reached })
}

fn tell(exchange: &mut dyn Exchange, message: &[u8]) -> Result<()> {
    let own = exchange.rank();
    (0..exchange.size()).filter(|to| *to != own).try_for_each(|to| exchange.send(to, BEST, message))
}

impl<P: Problem> Search<'_, P> {
    fn cost(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| best.cost)
    }

    /// Kind, rows reached, choices (none where no row is known).
    fn said(&self, kind: u8) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend(self.reached.to_le_bytes());
        message.extend(self.best.iter().flat_map(|best| &best.choices));
        message
    }

    /// Takes up a better row; rows reached where it is a rank's last word.
    fn hear(&mut self, message: &[u8]) -> Result<Option<u64>> {
        let bad = ExchangeError::Malformed { len: message.len(), what: "a solution" };
        let [kind @ (BETTER | LAST), rest @ ..] = message else { return Err(bad) };
        let Some((reached, choices)) = rest.split_first_chunk::<8>() else { return Err(bad) };
        if !choices.is_empty() {
            let told = understood(self.problem, choices)?;
            if self.best.as_ref().is_none_or(|best| told < *best) {
                self.best = Some(told);
            }
        }
        Ok((*kind == LAST).then_some(u64::from_le_bytes(*reached)))
    }

    /// Everyone's last word: the best of all, rows reached by all. Nothing is under way after it,
    /// as messages of one rank with one tag come in order.
    fn agree(&mut self, exchange: &mut dyn Exchange) -> Result<()> {
        tell(exchange, &self.said(LAST))?;
        let own = exchange.rank();
        for from in (0..exchange.size()).filter(|from| *from != own) {
            let reached = loop {
                let message = exchange.recv(Some(from), BEST)?.1;
                if let Some(reached) = self.hear(&message)? {
                    break reached;
                }
            };
            self.reached = self.reached.saturating_add(reached);
        }
        Ok(())
    }

    /// All rows that begin as item `item` says: its digits are the first choices.
    fn below(&mut self, exchange: &mut dyn Exchange, item: u64, places: usize) -> Result<()> {
        let width = u64::from(self.problem.width());
        let digit = |place: usize| (item / width.pow((places - 1 - place) as u32) % width) as u8;
        self.path = (0..places).map(digit).collect();
        let choose = |state: Option<P::State>, choice: &u8| {
            state.and_then(|state| self.problem.choose(&state, *choice))
        };
        if let Some(state) = self.path.iter().fold(Some(self.problem.start()), choose) {
            self.descend(exchange, &state)?;
        }
        Ok(())
    }

    /// Whether nothing that begins so comes before the best.
    fn is_hopeless(&self, state: &P::State) -> bool {
        let (Some(best), Some(bound)) = (&self.best, self.problem.bound(state)) else {
            return false;
        };
        // A beginning of the best itself compares as less.
        (bound, self.path.as_slice()) > (best.cost, best.choices.as_slice())
    }

    fn descend(&mut self, exchange: &mut dyn Exchange, state: &P::State) -> Result<()> {
        // An item may take minutes; what follows from one state seldom is worth a look.
        self.seen = self.seen.wrapping_add(1);
        if self.seen.is_multiple_of(LOOK) {
            exchange.check()?;
        }
        if self.path.len() == self.problem.depth() {
            self.reached += 1;
            let cost = self.problem.cost(state);
            let better = |best: &Solution| {
                (cost, self.path.as_slice()) < (best.cost, best.choices.as_slice())
            };
            if self.best.as_ref().is_none_or(better) {
                self.best = Some(Solution { cost, choices: self.path.clone() });
            }
            return Ok(());
        }
        if self.is_hopeless(state) {
            return Ok(());
        }
        for choice in 0..self.problem.width() {
            if let Some(next) = self.problem.choose(state, choice) {
                self.path.push(choice);
                self.descend(exchange, &next)?;
                self.path.pop();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;
    use crate::options::splitmix;

    /// Rows of six of four numbers, no two neighbours alike; their cost is a sum by places.
    struct Rows {
        seed: u64,
        all: bool,
    }

    impl Rows {
        fn price(&self, place: usize, choice: u8) -> u64 {
            splitmix(self.seed ^ splitmix((place * 4 + usize::from(choice)) as u64)) % 5
        }
    }

    impl Problem for Rows {
        type State = (usize, u8, u64);

        fn width(&self) -> u8 {
            4
        }
        fn depth(&self) -> usize {
            6
        }
        fn start(&self) -> Self::State {
            (0, 4, 0)
        }
        fn choose(&self, &(place, last, cost): &Self::State, choice: u8) -> Option<Self::State> {
            (choice != last).then(|| (place + 1, choice, cost + self.price(place, choice)))
        }
        fn bound(&self, state: &Self::State) -> Option<u64> {
            (!self.all).then_some(state.2)
        }
        fn cost(&self, state: &Self::State) -> u64 {
            state.2
        }
    }

    #[test]
    fn the_first_of_the_best_is_found_by_any_number_of_ranks() {
        for seed in 0..20 {
            let rows = Rows { seed, all: false };
            let every = (0..4_u32.pow(6)).filter_map(|n| {
                let choices: Vec<u8> = (0..6).map(|p| (n >> (2 * (5 - p)) & 3) as u8).collect();
                understood(&rows, &choices).ok()
            });
            let right = every.min().unwrap();
            for size in [1, 2, 3, 4, 7, 8] {
                for outcome in run(size, |exchange| explore(exchange, &rows)) {
                    assert_eq!(outcome.unwrap().best.as_ref(), Some(&right), "{size} tasks");
                }
                let all = run(size, |e| explore(e, &Rows { seed, all: true }));
                assert!(all.into_iter().all(|found| found.unwrap().reached == 4 * 3_u64.pow(5)));
            }
        }
    }

    #[test]
    fn what_is_told_is_taken_up_and_leaves_less_to_do() {
        let rows = Rows { seed: 3, all: false };
        let alone = || Search { problem: &rows, best: None, path: Vec::new(), reached: 0, seen: 0 };
        let (places, items) = places(&rows);
        let told = run(1, |exchange| {
            let mut first = alone();
            (0..items).try_for_each(|item| first.below(exchange, item, places))?;
            let mut second = alone();
            assert_eq!(second.hear(&first.said(BETTER)), Ok(None));
            (0..items).try_for_each(|item| second.below(exchange, item, places))?;
            assert!(second.best == first.best && second.reached < first.reached);
            assert_eq!(second.hear(&first.said(LAST)), Ok(Some(first.reached)));
            Ok(second.hear(&[7; 15]).unwrap_err().to_string())
        });
        assert_eq!(told[0].as_ref().unwrap(), "a message of 15 bytes is not a solution");
    }

    #[test]
    fn a_rank_that_ends_in_the_middle_leaves_no_answer_and_a_false_row_is_refused() {
        let all = run(3, |exchange| {
            anyhow::ensure!(exchange.rank() != 2, "killed");
            explore(exchange, &Rows { seed: 1, all: false })
        });
        for rank in [0, 1] {
            let said = all[rank].as_ref().unwrap_err();
            assert!(matches!(said.downcast_ref(), Some(ExchangeError::Ended { .. })), "{said}");
        }
        for told in [&[0, 1][..], &[0; 7], &[0, 1, 0, 1, 0, 7]] {
            let said = understood(&Rows { seed: 1, all: false }, told).unwrap_err().to_string();
            assert_eq!(said, format!("a message of {} bytes is not a row of choices", told.len()));
        }
    }
}
