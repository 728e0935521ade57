//! The repository's own checks, run as `cargo xtask <command>`.
//!
//! This file only dispatches; each command has its module, each check its file.

mod args;
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

use args::{Command, Parsed};

fn main() -> ExitCode {
    let outcome = args::parse(std::env::args().skip(1)).and_then(|parsed| match parsed {
        Parsed::Help(text) => {
            println!("{text}");
            Ok(())
        }
        Parsed::Run(Command::Mutants, options) => mutants::run(&options),
        Parsed::Run(Command::Tidy, options) => tidy::run(&options),
        Parsed::Run(Command::Purity, options) => purity::run(&options),
        Parsed::Run(Command::Selfcheck, options) => selfcheck::run(&options),
        Parsed::Run(Command::Deny, options) => deny::run(&options),
        Parsed::Run(Command::Test, options) => test::run(&options),
        Parsed::Run(Command::Targets, options) => targets::run(&options),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", report::failure(&error));
            ExitCode::FAILURE
        }
    }
}
