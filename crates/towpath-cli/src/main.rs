//! The `towpath` command. Data goes to standard output, everything else to standard error.
#![deny(clippy::print_stdout)] // which ends the program where output is closed: `put!`, `putln!`

#[macro_use(put, putln)]
extern crate towpath_report;

/// Prints a line to standard error, as the standard library's macro of that name, which it stands
/// in for, but what has its text from elsewhere cannot steer the terminal with it, and a closed
/// standard error ends nobody.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::files::tell(&format!($($words)*)) };
}

mod bound;
mod capture;
mod clocks;
mod control;
mod demo;
mod down;
mod dump;
mod experiment;
mod explain;
mod farm;
mod health;
mod jobs;
mod kill;
mod links;
mod logs;
mod manual;
mod media;
mod metrics;
mod network;
mod outputs;
mod panel;
mod plan;
mod pvm;
mod reserve;
mod run;
mod schedulers;
mod sim;
mod status;
mod stream;
mod tap;
mod top;
mod topology;
mod tspec;
mod up;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use towpath::{Home, VmDir};
use towpath_report::text::causes;
use towpath_report::{batch, cells, files, interrupt, plot, units, words};

const EXAMPLES: &str = "\
Examples:
  towpath up --hosts 3                       three hosts on this machine
  towpath hosts                              which hosts there are
  towpath run --host h2 -- uname -a          a command on one of them
  ls *.log | towpath farm gzip -k {}         a command over many files, on all of them
  towpath down                               end them all
  towpath media info film.ts                 what is in a video
  towpath plan film.ts --startup 500ms       what rate and buffer it needs
  towpath stream serve films                 offer a directory to players

Exit status: 0 success; 255 Towpath could not do it; `run` gives the command's own status,
`farm` the number of failed items (101: more than 100), `media` and `plan` 1 for damage or an
answer of no; 130 interrupted.
Files: $TOWPATH_HOME, or ~/.towpath.";

/// Makes a set of machines behave as one parallel computer.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Global {
    /// Which virtual machine, where there are several
    #[arg(long, global = true, env = "TOWPATH_VM", default_value = "default", value_name = "NAME")]
    vm: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a virtual machine's key and directory (`up` does so by itself)
    Init(up::InitArgs),
    /// Start hosts on this machine and others
    Up(up::UpArgs),
    /// Add and delete hosts while the virtual machine runs
    Host(up::HostArgs),
    /// Print a unit for the user's systemd
    Unit(up::UnitArgs),
    /// End the hosts and whatever runs on them
    Down(down::DownArgs),
    /// Issue a token with which another machine can join
    Token(control::TokenArgs),
    /// Start a host on this machine that joins another machine's virtual machine
    Join(up::JoinArgs),
    /// Say how the virtual machine stands, and what may fail next
    Status(health::StatusArgs),
    /// List hosts
    Hosts(status::HostsArgs),
    /// List tasks
    Ps(status::PsArgs),
    /// Send a signal to tasks
    Kill(kill::KillArgs),
    /// Watch hosts, tasks, rates and routes
    Top(top::TopArgs),
    /// Print what this machine's daemons measure, for Prometheus or as JSON
    Metrics(metrics::MetricsArgs),
    /// Tell which way messages between two tasks take, why, and what it costs
    Explain(explain::ExplainArgs),
    /// List every path to every other host: rate, loss, share, and why it is idle
    Links(links::LinksArgs),
    /// Say what the network is, so that channels can be promised the whole way
    Network(network::NetworkArgs),
    /// List what is promised to channels
    Channels(network::ChannelsArgs),
    /// Show what this machine's daemons have to say
    Logs(logs::LogsArgs),
    /// Run a command on hosts
    Run(run::RunArgs),
    /// Run a command over many inputs on all hosts
    Farm(farm::FarmArgs),
    /// List jobs that go on by themselves, end and forget them
    Jobs(jobs::JobsArgs),
    /// Show what such a job prints, and end as it does
    Attach(jobs::AttachArgs),
    /// Run an application, and show its picture
    Demo(demo::DemoArgs),
    /// See and change what tasks show while they compute
    Panel(panel::PanelArgs),
    /// PVM's console
    Pvm(pvm::PvmArgs),
    /// Look into video files
    Media(media::MediaArgs),
    /// Find out what rate, buffer and wait stored video needs
    Plan(plan::PlanArgs),
    /// Send, offer, receive and judge video on the wire
    Stream(stream::StreamArgs),
    /// Measure what a link carries, beside what the kernel alone carries
    Bench(towpath_bench::BenchArgs),
    /// Have a link behave as told: rate, delay, loss, silent death, by a script
    Tap(tap::TapArgs),
    /// Show the packets of a capture in words
    Dump(dump::DumpArgs),
    /// Run the protocols in a simulated network
    Sim(sim::SimArgs),
    /// Ask what a network would promise to channels
    Reserve(reserve::ReserveArgs),
    /// Compute worst-case delays
    Bound(bound::BoundArgs),
    /// Compare packet schedulers
    Schedulers(schedulers::SchedulersArgs),
    /// Check and draw a network
    Topology(topology::TopologyArgs),
    /// Measure what traffic a trace needs
    Tspec(tspec::TspecArgs),
    /// Run one host's daemon in the foreground (what `up` and `join` start)
    #[command(hide = true)]
    Daemon(up::DaemonArgs),
    /// Write manual pages and shell completions
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

/// Commands that need no virtual machine; `--vm` is not in their help.
const WITHOUT_VM: [&str; 12] = [
    "media",
    "plan",
    "stream",
    "bench",
    "tap",
    "dump",
    "sim",
    "reserve",
    "bound",
    "schedulers",
    "topology",
    "tspec",
];

fn command() -> clap::Command {
    // It stands in for the global option of the same name.
    let hidden = Arg::new("vm").long("vm").global(true).hide(true);
    Cli::command().mut_subcommands(|command| {
        let needless = WITHOUT_VM.contains(&command.get_name());
        if needless { command.arg(hidden.clone()) } else { command }
    })
}

fn parse() -> Result<Cli, clap::Error> {
    let mut known = command();
    let words = run::understood(std::env::args_os(), |word| takes_value(&known, "run", word));
    let parsed = known.try_get_matches_from_mut(words);
    let parsed = parsed.and_then(|found| Cli::from_arg_matches(&found));
    parsed.map_err(|e| with_plain_usage(e, command()))
}

/// Whether an option of a command has its value in the next word.
fn takes_value(root: &clap::Command, command: &str, word: &std::ffi::OsStr) -> bool {
    let Some((command, word)) = root.find_subcommand(command).zip(word.to_str()) else {
        return false;
    };
    command.get_arguments().chain(root.get_arguments()).any(|arg| {
        let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| word == format!("-{short}"));
        (long || short) && arg.get_action().takes_values()
    })
}

/// What to do instead, where a command has an option that another program of its kind has.
fn hint(error: &clap::Error) -> Option<&'static str> {
    use clap::error::ErrorKind;
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(said)) => Some(said.as_str()),
        _ => None,
    };
    let (option, value) = (said(ContextKind::InvalidArg)?, said(ContextKind::InvalidValue));
    match error.kind() {
        ErrorKind::UnknownArgument => {}
        // `-npernode` is `-n pernode` to clap, and `-genv` is `-g`: the word itself is looked for.
        ErrorKind::ValueValidation => {
            let word = std::env::args()
                .find(|word| value.and_then(|v| word.strip_suffix(v)) == Some("-n"));
            return word.and_then(|word| run::hint_for(&word));
        }
        _ => return None,
    }
    let whole = std::env::args().find(|word| word.starts_with(option));
    let option = whole.as_deref().unwrap_or(option);
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let of = |command: &str| usage.contains(&format!("towpath {command} "));
    match (of("run"), of("farm")) {
        (true, _) => Some(run::hint(option)),
        (_, true) => Some(farm::hint(option)),
        _ => None,
    }
}

/// The same error with the usage line of `--help`: the one made for an error has options in it that
/// only the environment sets.
fn with_plain_usage(mut error: clap::Error, mut root: clap::Command) -> clap::Error {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return error };
    let usage = usage.to_string();
    let words = usage.strip_prefix("Usage: ").unwrap_or_default();
    root.build();
    let is_it = |c: &&clap::Command| {
        let rest = c.get_bin_name().and_then(|name| words.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let mut command = &root;
    while let Some(sub) = command.get_subcommands().find(is_it) {
        command = sub;
    }
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            if let Some(hint) = hint(&e) {
                eprintln!("hint: {hint}");
            }
            return if e.use_stderr() { ExitCode::from(255) } else { ExitCode::SUCCESS };
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(e) if e.is::<up::Interrupted>() => {
            eprintln!("{e}");
            ExitCode::from(interrupt::INTERRUPTED)
        }
        Err(e) if outputs::is_closed(&e) => ExitCode::from(files::OUTPUT_CLOSED),
        Err(e) => {
            eprintln!("error: {}", causes(e.chain()));
            ExitCode::from(255)
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let vm = || -> anyhow::Result<VmDir> { Ok(Home::from_env()?.vm(&cli.global.vm)?) };
    match cli.command {
        Command::Init(args) => up::init(&vm()?, &args),
        Command::Up(args) => up::up(&vm()?, &args),
        Command::Host(args) => up::host(&vm()?, &args),
        Command::Unit(args) => up::unit(&vm()?, &args),
        Command::Join(args) => up::join(&vm()?, &args),
        Command::Daemon(args) => up::daemon(&vm()?, &args),
        Command::Down(args) => down::down(&vm()?, &args),
        Command::Token(args) => control::token(&vm()?, &args),
        Command::Status(args) => health::status(&vm()?, &args),
        Command::Hosts(args) => status::hosts(&vm()?, &args),
        Command::Ps(args) => status::ps(&vm()?, &args),
        Command::Kill(args) => kill::kill(&vm()?, &args),
        Command::Top(args) => top::top(&vm()?, &args),
        Command::Metrics(args) => metrics::metrics(&vm()?, &args),
        Command::Explain(args) => explain::explain(&vm()?, &args),
        Command::Links(args) => links::links(&vm()?, &args),
        Command::Panel(args) => panel::panel(&vm()?, &args),
        Command::Network(args) => network::network(&vm()?, &args),
        Command::Channels(args) => network::channels(&vm()?, &args),
        Command::Logs(args) => logs::logs(&vm()?, &args),
        Command::Run(args) => run::run(&vm()?, &args),
        Command::Farm(args) => Ok(farm::run(&vm()?, &args)?.into()),
        Command::Jobs(args) => jobs::jobs(&vm()?, &args),
        Command::Attach(args) => jobs::attach(&vm()?, &args),
        Command::Demo(args) => demo::demo(&vm()?, &cli.global.vm, &args),
        Command::Pvm(args) => pvm::pvm(&vm()?, &args),
        Command::Media(args) => media::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Stream(args) => stream::run(&args),
        Command::Bench(args) => towpath_bench::run(&args),
        Command::Tap(args) => tap::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Reserve(args) => reserve::run(&args),
        Command::Bound(args) => bound::run(&args),
        Command::Schedulers(args) => schedulers::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Tspec(args) => tspec::run(&args),
        Command::Manual(args) => manual::run(command(), &args),
    }
}
