//! `demo`: an application, as a job of the virtual machine that is up, or as threads.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use towpath::VmDir;

use crate::control::sockets;

/// The program with the applications; it lies beside this one.
const PROGRAM: &str = "towpath-apps";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath demo options                        prices of one option by many models
  towpath demo -n 4 --out page tracker        four tasks; pictures in page/index.html
  towpath demo kernel sort --size 1000000     a kernel of the suite, checked
  towpath demo list                           which applications there are
  towpath demo field --help                   what one of them understands

With a virtual machine up (`towpath up`) the application is a job of it, as with `towpath run`; \
otherwise its tasks are threads of one process. docs/applications.md says what each computes.

Exit status: the application's.")]
pub(crate) struct DemoArgs {
    /// How many tasks
    #[arg(short, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    n: u16,
    /// Write a page with pictures (index.html) and the data to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Threads of one process, even where a virtual machine is up
    #[arg(long)]
    threads: bool,
    /// Which application, and what it is to do
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "NAME"
    )]
    application: Vec<String>,
}

fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    let path = own.with_file_name(PROGRAM);
    if !path.is_file() {
        bail!(
            "there is no {}\nhint: cargo build --release -p towpath-apps makes it",
            path.display()
        );
    }
    Ok(path)
}

/// Becomes the application, or the `towpath run` that runs it.
pub(crate) fn demo(vm: &VmDir, name: &str, args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let program = program()?;
    let asks = |word: &String| matches!(word.as_str(), "--help" | "-h" | "help" | "list");
    let help = args.application.iter().any(asks);
    let is_up = !help && !args.threads && sockets(vm).is_ok();
    let mut command = if is_up {
        let mut run = Command::new(std::env::current_exe().context("where this program is")?);
        run.args(["--vm", name, "run", "--no-tag", "-n", &args.n.to_string(), "--"]).arg(&program);
        run
    } else {
        let mut alone = Command::new(&program);
        alone.args(["--tasks", &args.n.to_string()]);
        alone
    };
    if let Some(out) = &args.out {
        // Tasks of a job have a directory of their own.
        let out = std::path::absolute(out).context("the directory for the page")?;
        command.arg("--out").arg(out);
    }
    match args.application.first().map(String::as_str) {
        Some("list") => command.arg("--help"),
        _ => command.args(&args.application),
    };
    Err(command.exec()).with_context(|| format!("{} cannot be started", program.display()))
}
