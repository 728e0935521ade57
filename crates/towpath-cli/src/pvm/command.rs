//! The command line of `pvm`; brings the virtual machine up where there is none.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::lock::is_locked;
use towpath::pvm::hostfile::{self, PvmHost};
use towpath::start::hostfile::FILE_BYTES_MAX;
use towpath::start::hostlist::is_name;
use towpath_wire::TaskId;

use super::console::Console;
use super::input::Input;
use super::settings::Settings;
use super::summary::Summary;
use super::{roles, starter};
use crate::control::enrol;
use crate::up::{self, ListedArgs};

/// Longest token that is read, in bytes.
const TOKEN_MAX: u64 = 4096;
/// Commands that are carried out first, in the home directory.
const FIRST_COMMANDS: &str = ".pvmrc";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath pvm hosts.pvm                          PVM's host file
  printf 'conf\\nquit\\n' | towpath pvm
  printf 'spawn -4 -> spmd\\n' | towpath pvm       to the end of what spmd prints
  towpath run --host h1 -- hello.pvm             without a console
  towpath pvm --trace trace.file                 calls and times of a trace

Brings the virtual machine up if it is not, else goes to the one that runs. Commands come from
~/.pvmrc and then from standard input; `help` lists them. At the end of input the console waits for
jobs whose output it shows; `quit` does not. The virtual machine goes on: `halt` or `towpath down`
ends it.

Host file: one host a line with PVM's options; `*` for a name gives options to the lines below it,
`&` describes a host for a later `add`. ep= wd= bx= sp= lo= ip= count; so= dx= id= have no meaning
here, which is said. Programs are found on the host that runs them: in its ep=, in the PVM_PATH of
who spawns, in $HOME/pvm3/bin/$PVM_ARCH, $PVM_ROOT/bin/$PVM_ARCH, and in its PATH.

Exit status with --add: 0 all were added; 1 some were not, each with its reason; 255 none.")]
pub(crate) struct PvmArgs {
    /// PVM's host file, for the start of the virtual machine
    #[arg(value_name = "HOSTFILE")]
    hostfile: Option<PathBuf>,
    /// Name of this host (default: this machine's)
    #[arg(short = 'n', value_name = "NAME")]
    name: Option<String>,
    /// Add a host as the command `add` does, and end; can be given more than once
    #[arg(long, value_name = "HOST", conflicts_with = "hostfile")]
    add: Vec<String>,
    /// Has a hoster start a host: the hoster, who and where, what to run; the token on standard
    /// input
    #[arg(long, hide = true, num_args = 3, value_names = ["TASK", "LOGIN", "COMMAND"])]
    ask_hoster: Vec<String>,
    /// Starts a program as this task, by the tasker of this host among these, if one is
    #[arg(long, hide = true, value_name = "TASKS", requires = "program")]
    by_tasker: Option<String>,
    /// Kills a task's program when standard input ends, which has the task's cookie
    #[arg(long, hide = true)]
    survivor: bool,
    /// Flags of the spawn
    #[arg(long, hide = true, value_name = "N", default_value_t = 0, requires = "by_tasker")]
    flags: i32,
    #[arg(last = true, hide = true, requires = "by_tasker")]
    program: Vec<OsString>,
    /// Show what a trace file of PVM's `tracer` or console says, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hostfile", "add"])]
    trace: Option<PathBuf>,
    /// Leave the commands of ~/.pvmrc alone
    #[arg(long)]
    no_commands: bool,
    #[command(flatten)]
    start: ListedArgs,
}

pub(crate) fn pvm(vm: &VmDir, args: &PvmArgs) -> anyhow::Result<ExitCode> {
    if let Some(taskers) = &args.by_tasker {
        return starter::start(taskers, args.flags, &args.program);
    }
    if args.survivor {
        return starter::survive();
    }
    if let [hoster, login, command] = args.ask_hoster.as_slice() {
        let hoster = hoster.parse().ok().and_then(|raw: u64| TaskId::try_from(raw).ok());
        let hoster = hoster.context("no task")?;
        let mut token = String::new();
        stdin().take(TOKEN_MAX).read_to_string(&mut token)?;
        let said = roles::ask_hoster(enrol(vm)?, hoster, [login, command], &token)?;
        putln!("{said}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.trace {
        let summary =
            File::open(path).map_err(Into::into).and_then(|f| Summary::read(BufReader::new(f)));
        put!("{}", summary.with_context(|| path.display().to_string())?.table())?;
        return Ok(ExitCode::SUCCESS);
    }
    let hosts = args.hostfile.as_deref().map_or(Ok(Vec::new()), read)?;
    let (start, described): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| host.start);
    if is_up(vm) {
        if !start.is_empty() {
            eprintln!("virtual machine `{}` is up already: its hosts stay as they are", vm.name);
        }
    } else {
        // As PVM has it, the host's name is this machine's.
        let uname = rustix::system::uname();
        let own = args.name.as_deref().or_else(|| uname.nodename().to_str().ok());
        args.start.found(vm, &start, own.filter(|name| is_name(name)))?;
    }
    let task = enrol(vm)?;
    let first = std::env::home_dir().map(|home| home.join(FIRST_COMMANDS));
    let first = first.filter(|path| path.is_file() && !args.no_commands);
    let first = first.map_or(Ok(String::new()), |path| text(&path))?;
    let settings = Settings::from_environment();
    let mut console = Console::new(task, vm, &args.start, described, settings);
    if !args.add.is_empty() {
        let hosts: Vec<&str> = args.add.iter().map(String::as_str).collect();
        // Standard output may be that of a job.
        let rows = console.start_hosts(&hosts)?;
        let mut failed = 0;
        for (name, outcome) in &rows {
            if let Err(why) = outcome {
                failed += 1;
                eprintln!("not added: {name}: {why}");
            }
        }
        return Ok(up::exit(rows.len() - failed, failed));
    }
    console.run(Input::new(&first))?;
    Ok(ExitCode::SUCCESS)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() > FILE_BYTES_MAX {
        bail!("{} is longer than {FILE_BYTES_MAX} bytes, the limit", path.display());
    }
    Ok(text)
}

/// The hosts of a file; what of it has no effect is told.
fn read(path: &Path) -> anyhow::Result<Vec<PvmHost>> {
    let variable = |name: &str| std::env::var(name).ok();
    let found = hostfile::parse(&text(path)?, &variable);
    let found = found.with_context(|| path.display().to_string())?;
    for note in found.notes {
        eprintln!("{}: {note}", path.display());
    }
    Ok(found.hosts)
}

fn running(vm: &VmDir) -> impl Iterator<Item = PathBuf> {
    let dirs = vm.local_hosts().into_iter().flatten().map(|number| vm.host(number));
    dirs.filter(|dir| is_locked(dir))
}

fn is_up(vm: &VmDir) -> bool {
    running(vm).next().is_some()
}
