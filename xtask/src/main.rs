//! The repository's own checks, run as `cargo xtask <command>`.
//!
//! This file only dispatches; each command has its module, each check its file.

mod args;
mod count;
mod deny;
mod listing;
mod mutants;
mod process;
mod purity;
mod report;
mod rules;
mod selfcheck;
mod targets;
mod test;
mod tidy;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", report::failure(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let root = cli.root()?;
    match &cli.command {
        Command::Mutants(args) => mutants::run(&root, &args.crates),
        Command::Count { other } => count::run(&root, other.as_deref()),
        Command::Tidy => tidy::run(&root),
        Command::Purity(args) => purity::run(&root, &args.crates),
        Command::Selfcheck => selfcheck::run(&root),
        Command::Deny { advisories } => deny::run(&root, *advisories),
        Command::Test(args) => test::run(&root, args),
        Command::Targets { since } => targets::run(&root, since.as_deref()),
    }
}
