//! `manual`, which is in no help: manual pages and shell completions, from the definition of the
//! command line itself. The installation runs it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::{Shell, generate_to};

use crate::files::shown;

#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Directory to write into: man1/*.1 and a file for each shell
    dir: PathBuf,
}

pub(crate) fn run(mut root: Command, args: &ManualArgs) -> anyhow::Result<ExitCode> {
    let pages = args.dir.join("man1");
    let cannot = || format!("cannot write into {}", shown(&args.dir));
    fs::create_dir_all(&pages).with_context(cannot)?;
    clap_mangen::generate_to(root.clone(), &pages).with_context(cannot)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut root, "towpath", &args.dir).with_context(cannot)?;
    }
    Ok(ExitCode::SUCCESS)
}
