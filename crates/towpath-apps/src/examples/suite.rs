//! Which example runs.

use clap::{Args, Subcommand};

use super::compress::{CompressArgs, compress};
use super::keysearch::{KeysearchArgs, keysearch};
use super::knapsack::{KnapsackArgs, knapsack};
use super::make::{MakeArgs, make};
use super::queens::{QueensArgs, queens};
use super::raytrace::{RaytraceArgs, raytrace};
use super::search::{SearchArgs, search};
use super::spell::{SpellArgs, spell};
use crate::exchange::Exchange;
use crate::report::Report;

#[derive(Clone, Debug, Args)]
pub(crate) struct ExampleArgs {
    #[command(subcommand)]
    example: Example,
}

#[derive(Clone, Debug, Subcommand)]
enum Example {
    /// Draw spheres on a plane, by tiles
    Raytrace(RaytraceArgs),
    /// Compress a file in blocks that any gzip reads
    Compress(CompressArgs),
    /// Find the bits of an AES key that are not known
    Keysearch(KeysearchArgs),
    /// Fill a knapsack by branch and bound
    Knapsack(KnapsackArgs),
    /// Count the ways in which queens do not see each other
    Queens(QueensArgs),
    /// Look for a text in a file
    Search(SearchArgs),
    /// Find words that are not in a list
    Spell(SpellArgs),
    /// Make files out of others by rules, on all tasks
    Make(MakeArgs),
}

/// Runs one; the root gets the report.
pub(crate) fn example(
    exchange: &mut dyn Exchange,
    args: &ExampleArgs,
) -> anyhow::Result<Option<Report>> {
    match &args.example {
        Example::Raytrace(args) => raytrace(exchange, args),
        Example::Compress(args) => compress(exchange, args),
        Example::Keysearch(args) => keysearch(exchange, args),
        Example::Knapsack(args) => knapsack(exchange, args),
        Example::Queens(args) => queens(exchange, args),
        Example::Search(args) => search(exchange, args),
        Example::Spell(args) => spell(exchange, args),
        Example::Make(args) => make(exchange, args),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exchange::local::run;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: ExampleArgs,
    }

    /// What each says, and the files that it would write, by any number of tasks.
    #[test]
    fn every_example_runs_as_it_is_and_says_the_same_for_any_number_of_tasks() {
        for (words, part) in [
            (&["raytrace", "--columns", "40"][..], "4 spheres"),
            (&["compress"], "ratio"),
            (&["keysearch", "--bits", "9"], "The key"),
            (&["knapsack", "--things", "20"], "The greatest value"),
            (&["queens", "--queens", "7"], "Ways\n40\n"),
            (&["search"], "times"),
            (&["spell"], "Not in the list"),
        ] {
            let args = Alone::parse_from(std::iter::once(&"example").chain(words)).args;
            let said = |size: usize| {
                let mut all = run(size, |exchange| example(exchange, &args));
                assert!(all[1..].iter().all(|other| matches!(other, Ok(None))), "{words:?}");
                let report = all.swap_remove(0).unwrap().unwrap();
                let text = report.text().replace(&format!("{size} tasks"), "n tasks");
                (text, report.files().to_vec())
            };
            let one = said(1);
            assert!(one.0.contains(part) && one.0.contains("n tasks"), "{}", one.0);
            for size in [2, 3, 4, 7, 8] {
                assert!(said(size) == one, "{words:?}, {size} tasks");
            }
        }
    }
}
