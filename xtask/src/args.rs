//! The command line: commands and options, each defined once here; the help is derived from them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::report::WithHint;

/// The repository's own checks.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    /// The repository to check (default: the one around the current folder)
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Change a seeded sample of lines; each crate's own tests must notice most (hours)
    Mutants(CratesArgs),
    /// Count instructions and allocations of a packet and of a message with callgrind (minutes)
    Count {
        /// Beside them, those of another checkout
        #[arg(value_name = "CHECKOUT")]
        other: Option<PathBuf>,
    },
    /// Check dependency edges, sans-IO rules, unsafe, sizes, sleeping, leftovers, fuzzing
    Tidy,
    /// Link each sans-IO crate alone, with memory functions and an allocator only
    Purity(CratesArgs),
    /// Plant one fault per check in a copy of the tree; each check must find its fault
    Selfcheck,
    /// Check bans, licences and sources with cargo-deny (offline)
    Deny {
        /// Also check security advisories (fetches their database)
        #[arg(long)]
        advisories: bool,
    },
    /// Run `cargo test` with what follows `--`, then list what was skipped, and count
    Test(TestArgs),
    /// Print the fuzz targets of what changed since a commit
    Targets {
        /// What changed since the working tree left this commit (default: all)
        #[arg(long, value_name = "COMMIT")]
        since: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CratesArgs {
    /// Only this crate; may be repeated
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) crates: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Fail on a skip that this file does not list; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) allow: Vec<PathBuf>,
    /// All that follows goes to `cargo test`
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) rest: Vec<String>,
}

impl Cli {
    /// The repository root: the option, or the nearest folder upwards that holds `xtask/`.
    pub(crate) fn root(&self) -> Result<PathBuf> {
        if let Some(root) = &self.root {
            return std::path::absolute(root).hint(
                || format!("cannot resolve {}", root.display()),
                "give an existing folder to --root",
            );
        }
        let here = std::env::current_dir()
            .hint(|| "cannot read the current folder".into(), "run inside the repository")?;
        let is_root =
            |dir: &&Path| dir.join("Cargo.toml").exists() && dir.join("xtask/Cargo.toml").exists();
        match here.ancestors().find(is_root) {
            Some(root) => Ok(root.to_path_buf()),
            None => bail!(
                "no folder above {} holds Cargo.toml and xtask/\nhint: run inside the repository, \
                 or give --root",
                here.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("xtask").chain(words.split_whitespace()))
    }

    #[test]
    fn options_are_taken_only_by_their_command() {
        let parsed = parse("purity --crate towpath-wire --crate towpath-vm --root /x").unwrap();
        assert_eq!(parsed.root().unwrap(), Path::new("/x"));
        let Command::Purity(args) = parsed.command else { panic!("purity takes --crate") };
        assert_eq!(args.crates, ["towpath-wire", "towpath-vm"]);
        for wrong in ["tidy --crate towpath-wire", "tidy --root", "tidy --advisories", "", "x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_cargo_s() {
        let parsed = parse("test --allow a --allow b -- --workspace --allow").unwrap();
        let Command::Test(args) = parsed.command else { panic!("test takes --allow and --") };
        assert_eq!(args.allow, ["a", "b"].map(PathBuf::from));
        assert_eq!(args.rest, ["--workspace", "--allow"]);
        assert!(parse("tidy -- x").is_err());
    }
}
