//! Queens that do not see each other, counted on the frame of branch and bound: nothing is pruned
//! but what cannot be.

use anyhow::ensure;
use clap::Args;

use crate::exchange::Exchange;
use crate::kernels::branch::{Problem, explore};
use crate::report::Report;

const QUEENS_MAX: usize = 16;

#[derive(Clone, Debug, Args)]
pub(crate) struct QueensArgs {
    /// Rows of the board
    #[arg(long, default_value_t = 10)]
    queens: usize,
}

/// A board of 1 to 16 rows.
struct Board(usize);

/// What the next row's queen must not stand on: columns, and diagonals where they meet the row.
#[derive(Clone, Copy)]
struct Seen {
    columns: u32,
    left: u32,
    right: u32,
}

/// Choices are the columns, row by row.
impl Problem for Board {
    type State = Seen;

    fn width(&self) -> u8 {
        self.0 as u8
    }

    fn depth(&self) -> usize {
        self.0
    }

    fn start(&self) -> Seen {
        Seen { columns: 0, left: 0, right: 0 }
    }

    fn choose(&self, seen: &Seen, column: u8) -> Option<Seen> {
        let queen = 1 << column;
        ((seen.columns | seen.left | seen.right) & queen == 0).then_some(Seen {
            columns: seen.columns | queen,
            left: (seen.left | queen) << 1,
            right: (seen.right | queen) >> 1,
        })
    }

    fn bound(&self, _: &Seen) -> Option<u64> {
        None
    }

    fn cost(&self, _: &Seen) -> u64 {
        0
    }
}

/// How many ways there are, and the first of them; at every rank.
fn ways(exchange: &mut dyn Exchange, queens: usize) -> anyhow::Result<(u64, Option<Vec<u8>>)> {
    ensure!((1..=QUEENS_MAX).contains(&queens), "{queens} queens: from 1 to {QUEENS_MAX}");
    let found = explore(exchange, &Board(queens))?;
    Ok((found.reached, found.best.map(|best| best.choices)))
}

/// The whole example; the root gets the report.
pub(super) fn queens(
    exchange: &mut dyn Exchange,
    args: &QueensArgs,
) -> anyhow::Result<Option<Report>> {
    let (count, first) = ways(exchange, args.queens)?;
    let lead = format!("{} queens, {} tasks", args.queens, exchange.size());
    let mut report = Report::new("Queens", &lead);
    report.say("Ways", &count.to_string());
    if let Some(columns) = first {
        let row = |column: &u8| {
            let cell = |at| if at == usize::from(*column) { " Q" } else { " ." };
            (0..args.queens).map(cell).collect::<String>()
        };
        report.say("The first", &columns.iter().map(row).collect::<Vec<_>>().join("\n"));
    }
    Ok((exchange.rank() == 0).then_some(report))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn known_counts_for_any_number_of_tasks() {
        let known: Value =
            serde_json::from_str(include_str!("../../data/kernels/known.json")).unwrap();
        for (queens, count) in known["nqueens"].as_object().unwrap() {
            let queens: usize = queens.parse().unwrap();
            // Large boards take a while: two of the sizes.
            let sizes: &[usize] = if queens < 11 { &[1, 2, 3, 4, 7, 8] } else { &[2, 3] };
            for size in sizes {
                for said in run(*size, |exchange| ways(exchange, queens)) {
                    let (got, first) = said.unwrap();
                    assert_eq!(Some(got), count.as_u64(), "{queens} queens, {size} tasks");
                    let first = first.unwrap();
                    let pairs = (0..queens).flat_map(|b| (0..b).map(move |a| (a, b)));
                    let apart = |(a, b): (usize, usize)| first[a].abs_diff(first[b]);
                    assert!(
                        pairs.clone().all(|p| apart(p) != 0 && usize::from(apart(p)) != p.1 - p.0)
                    );
                }
            }
        }
        assert_eq!(run(2, |e| ways(e, 3)).swap_remove(0).unwrap(), (0, None));
        let said = run(1, |e| ways(e, 17)).swap_remove(0).unwrap_err().to_string();
        assert_eq!(said, "17 queens: from 1 to 16");
    }
}
