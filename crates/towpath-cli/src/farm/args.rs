//! The command line of `farm`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use towpath::farm::{Halt, Separation};

use crate::control::time;
use crate::jobs::DetachArgs;
use crate::units;

const EXAMPLES: &str = "\
Items stand after ::: (words) or :::: (files, an item a line), else they are the lines of standard
input. Several ::: give every combination, the last changing fastest; :::+ and ::::+ go together
with the source before them instead, item by item, as far as the shorter one goes.

Placeholders: {} the item, {.} without extension, {/} its file name, {//} its directory, {/.} its
file name without extension, {#} its number. Of several sources, of --colsep and of -N: {1}, {2},
{-1} the first, second, last column, {1.}, {2/} and so on the same of that column. A command without
any gets the item as its last arguments. No shell is involved; where one is wanted, hand it the item
as an argument (see below). A column that an item lacks is refused before anything runs; only with
-N the last command may lack some, which are empty.

Examples:
  towpath farm gzip -k ::: *.log                 one file after :::, or one line of input, per run
  towpath farm ./simulate -a {1} -b {2} ::: 1 2 3 ::: x y                  six runs
  find . -name '*.wav' -print0 | towpath farm -0 flac -s {} -o {.}.flac
  towpath farm --colsep , ./add {1} to {3} :::: table.csv
  towpath farm -a list -k sh -c 'gzip -c \"$1\" | sha256sum' sh {} >sums
  towpath farm --joblog log --timeout 2m ./simulate --seed {} ::: 1 2 3 4
  towpath farm --joblog log --resume ./simulate --seed {} ::: 1 2 3 4    only what did not succeed
  towpath farm -k --pipe --block 10M ./count <big.log                    blocks of whole lines
  towpath farm --halt now,fail=1 make -C {} ::: */                       ends with the first failure
  towpath farm --detach ./simulate --seed {} ::: 1 2 3 4                 `towpath attach` shows it

Every command has TOWPATH_SEQ (the item's number) and TOWPATH_HOST set, and of this environment
only what --env names. Its standard input is empty, but for --pipe. If a host is lost, its items
run again elsewhere: a command may run more than once, but exactly one result of it counts. A host
that has no descriptors, processes or memory left is told of and asked again later; meanwhile its
items run elsewhere. Where no host has any for about half a minute, the farm ends with 255.

With --detach the items are read, and a process of its own takes the farm over: it goes on where its
client is killed, or no daemon of this machine answers for a while, with what is not done; every
item has one result. See `towpath jobs --help`.

Items are known by their numbers and commands: --resume wants the same command and the same items in
the same order as before (more may follow), else it says what differs and runs nothing.

Ctrl-C ends what runs, with SIGKILL after 2 s, and reports how far it came; a second one kills at
once.

Exit status: 0 all succeeded, or as many as --halt asks for; 1-100 so many items failed; 101 more
than 100 failed; 130 interrupted; 141 the output was closed; 255 Towpath itself could not do it.";

/// What `towpath farm` is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FarmArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) running: RunningArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) by_itself: DetachArgs,
    /// The command with its arguments, and perhaps `:::` and items
    // Without `allow_hyphen_values`, which would take `-j2` for the beginning of the command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

/// What the items are.
#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// Items end with a NUL byte instead of a line feed
    #[arg(short = '0', long)]
    pub(super) null: bool,
    /// Read the items from a file instead of standard input; several give every combination
    #[arg(short, long, value_name = "FILE")]
    pub(super) arg_file: Vec<PathBuf>,
    /// Part each item into columns where this stands: `,`, `\t`, `\|`, `\s+` for any blanks
    #[arg(long, short = 'C', value_name = "TEXT")]
    pub(super) colsep: Option<Separation>,
    /// So many items for each command: {1} to {N}
    #[arg(short = 'N', short_alias = 'n', long = "max-args", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) group: Option<u32>,
    /// Cut standard input into blocks of whole lines, each the input of a command
    #[arg(long, conflicts_with_all = ["arg_file", "colsep", "group", "null", "plain_braces"])]
    pub(super) pipe: bool,
    /// With --pipe: how long a block is at most, unless a line is longer: 64k, 1M
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = block)]
    pub(super) block: usize,
    /// {1}, {-1}, {%} and their like stand for themselves, as in `grep 'a{5}'`
    #[arg(long)]
    pub(super) plain_braces: bool,
}

/// Where, when and how often commands run.
#[derive(Debug, Args)]
pub(super) struct RunningArgs {
    /// Run exactly so many at once on each host (default: as many as it has job slots)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Use only this host: h2, 2, or its name; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(super) host: Vec<String>,
    /// From the start of a command to that of the next at least so long, such as 100ms or 2s
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(super) delay: Option<Duration>,
    /// Start nothing more once so many failed, succeeded or are done: `soon` waits for what runs,
    /// `now` ends it. now,fail=1 soon,fail=10% now,success=1 soon,done=100
    #[arg(long, value_name = "WHEN,WHAT=N[%]", value_parser = halt)]
    pub(super) halt: Option<Rule>,
    /// End an item that runs longer, such as 500ms, 30s, 2m or 1h
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    /// Run an item again up to so many times when its host is lost or refuses it
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) retries: u32,
    /// Run a failed item again up to so many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) retry_failed: u32,
    /// Set a variable for every command, or pass on one of ours
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,
    /// Working directory on the hosts (default: this one)
    #[arg(long, value_name = "DIR")]
    pub(super) workdir: Option<OsString>,
    /// Print the commands, run nothing
    #[arg(long, alias = "dryrun", conflicts_with = "detach")]
    pub(super) dry_run: bool,
}

/// Where results go.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Write output in the order of the items, not as they finish
    #[arg(short, long)]
    pub(super) keep_order: bool,
    /// Write a line about each finished item, as GNU parallel does
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub(super) joblog: Option<PathBuf>,
    /// Leave out items that succeeded according to the job log; failed ones run again. Refused
    /// where the log has other commands than these
    #[arg(long, requires = "joblog", conflicts_with = "pipe")]
    pub(super) resume: bool,
    /// With --resume: items whose command is another than in the job log run again
    #[arg(long, requires = "resume")]
    pub(super) rerun_changed: bool,
    /// Put each item's output into files, too: DIR/1/COLUMN/2/COLUMN/stdout, stderr and seq
    #[arg(long, value_name = "DIR")]
    pub(super) results: Option<PathBuf>,
    /// Write a report in JSON
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub(super) report: Option<PathBuf>,
    /// Write one JSON object per item, and the report as the last one
    #[arg(long, conflicts_with = "tag")]
    pub(super) json: bool,
    /// Begin each line of output with the item and a tab
    #[arg(long)]
    pub(super) tag: bool,
    /// Show a progress bar: `auto` does if standard error is a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) progress: When,
    /// The same as --progress always
    #[arg(long, alias = "bar", conflicts_with = "progress")]
    pub(super) eta: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    Always,
    Never,
}

/// When the farm ends before its items; `None`: never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule(pub(super) Option<Halt>);

/// GNU parallel's sizes: powers of 1024, or of 1000 for small letters.
/// With the single letters of GNU parallel, of which capitals are multiples of 1024.
fn block(text: &str) -> Result<usize, String> {
    const UNITS: [(char, usize); 6] = [
        ('k', 1000),
        ('K', 1 << 10),
        ('m', 1_000_000),
        ('M', 1 << 20),
        ('g', 1_000_000_000),
        ('G', 1 << 30),
    ];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let size = match unit {
        Some((c, unit)) => {
            let digits = text.trim_end_matches(*c).parse::<usize>().ok();
            digits.and_then(|n| n.checked_mul(*unit))
        }
        None => usize::try_from(units::size(text)?.as_bytes()).ok(),
    };
    let size = size.filter(|size| (1..=1 << 30).contains(size));
    size.ok_or_else(|| format!("a block of {text:?}, limits 1 byte and 1G; such as 64K or 10MiB"))
}

fn halt(text: &str) -> Result<Rule, String> {
    if text == "never" {
        return Ok(Rule(None));
    }
    text.parse().map(|halt| Rule(Some(halt))).map_err(|e: towpath::farm::HaltError| e.to_string())
}
