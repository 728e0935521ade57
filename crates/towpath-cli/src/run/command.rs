//! The command line of `run`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use rustix::fs::{Access, access};
use towpath::protocol::Request;
use towpath::pvm::library::{FOLDER_VAR, Library, SWITCH};
use towpath::start::limits::Descriptors;
use towpath::{ClientError, VmDir};
use towpath_io::RealCrypto;
use towpath_pvm::linkage::{self, Linkage};
use towpath_report::text::visible;
use towpath_vm::{HostState, TaskSpec};

use super::input::{self, Input};
use super::job::{Job, Rules, signals};
use super::place::{place, rooms};
use super::show::{Manner, Show};
use super::summary::{self, Member};
use crate::control::{among_hosts, connect, host_table, unheard};
use crate::jobs::{self, DetachArgs, Kind};

/// What becomes of the others when a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnFailure {
    /// They are ended.
    End,
    /// They go on.
    GoOn,
}

/// Variables of PVM's own: what children are to get, and where programs are.
const EXPORT: &str = "PVM_EXPORT";
const PATH: &str = "PVM_PATH";
/// Bytes of output under way, of all tasks and of one.
const WINDOW_ALL: usize = 16 << 20;
const WINDOW_MIN: usize = 16 * 1024;
const WINDOW_MAX: usize = 256 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath run --host h2 -- uname -a
  towpath run --host h3 --env LANG=C --workdir /tmp -- sh -c 'pwd; exit 3'; echo $?
  towpath run -n 8 --host h1,h2:6 -- ./solver input.dat
  towpath run -n 100 --spread --output-dir out -- ./sample
  towpath run -n 8 --detach -- ./solver input.dat          `towpath attach` shows it

Placement: hosts are filled one after the other, each up to its slots (`:N` behind its name, slots=
of the host file, else as `towpath hosts` shows), and again from the first when all are full. With
--spread each host gets one task in turn. Each task finds its number, from 0, in TOWPATH_RANK, how
many there are in TOWPATH_SIZE, its host in TOWPATH_HOST and the job's name in TOWPATH_JOB.

Input goes to the first task. Output of several tasks comes line by line with `[RANK HOST]` before
it. Ctrl-C is passed on to all; the second one kills. Hosts that do not answer then are waited for
1.5 s. Tasks that tasks spawn belong to the job, as `[+N HOST]`: it ends with the last of them; how
they end is for those that spawned them.

Exit status: that of the first task that failed, else 0; where several end with statuses of their
own, that of task 0 if it is one of them, within 0.1 s or with --on-failure go-on. A task's status
is its command's own; 128+n if signal n ended it; 124 after --timeout; 127 where there is no such
program or no such working directory, 126 where the program cannot be run or the directory not be
entered (it says which); 255 where its host was lost or Towpath failed.

When a task fails (status other than 0) the others get SIGTERM, and SIGKILL after --grace. Programs
written for PVM go on, as under PVM, where many end with any status: a program is one if the file as
it is found on this machine is linked with libpvm3. --on-failure says it for any program.

Of mpirun, -np, -x, -H, -host, -hostfile, -machinefile and -wdir are understood.")]
pub(crate) struct RunArgs {
    /// How many tasks
    #[arg(short = 'n', long = "tasks", default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    tasks: u32,
    /// Which hosts: h2, 2 or a name, several with commas, `:N` for N slots (default: all)
    #[arg(short = 'H', long, value_name = "HOST[:N],…")]
    host: Vec<String>,
    /// The hosts of this file (see `towpath up --help`)
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// One task on each host in turn
    #[arg(long)]
    spread: bool,
    /// Set a variable, or pass on one of ours; not for what the tasks spawn. PVM's export and
    /// path variables, and what is exported, are passed on anyway
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Working directory (default: this one)
    #[arg(long, value_name = "DIR")]
    workdir: Option<OsString>,
    /// End each task, and what it spawned, after so long, such as 500ms, 30s, 2m or 1h
    #[arg(long, value_name = "DURATION", value_parser = crate::control::time)]
    timeout: Option<Duration>,
    /// Tasks that must not run twice: each is ended by its host before that could be declared lost
    #[arg(long)]
    unique: bool,
    /// `[RANK HOST]` before each line (default with several tasks)
    #[arg(long, conflicts_with = "no_tag")]
    tag: bool,
    /// Output as it comes, without names
    #[arg(long)]
    no_tag: bool,
    /// Output into files: DIR/RANK.out and DIR/RANK.err
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// No input for the first task
    #[arg(long)]
    no_stdin: bool,
    /// PVM's own library for programs written for PVM, instead of ours in its place
    #[arg(long)]
    no_pvm: bool,
    /// Whether the others are ended when a task fails (default: end; go-on for PVM's programs)
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<OnFailure>,
    /// The same as --on-failure go-on
    #[arg(long, conflicts_with = "on_failure")]
    keep_going: bool,
    /// From SIGTERM to SIGKILL when a task has failed
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    #[arg(value_parser = crate::control::time)]
    grace: Duration,
    /// Print what became of the job as a JSON object; the tasks' output goes to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    by_itself: DetachArgs,
    /// The command and its arguments
    // Without `allow_hyphen_values`, which would take a mistyped option for the command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What PVM's programs find of their shell: where programs are, and what their children are to get.
fn pass_on_for_pvm(env: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    let export = std::env::var_os(EXPORT).unwrap_or_default();
    let exported = export.as_bytes().split(|b| *b == b':').map(OsStr::from_bytes);
    for name in [OsStr::new(EXPORT), OsStr::new(PATH)].into_iter().chain(exported) {
        let given = env.iter().any(|(given, _)| given == name.as_bytes());
        // The environment has no variable whose name is empty, or has `=` or a null in it.
        let sound = !name.is_empty() && !name.as_bytes().iter().any(|b| matches!(b, b'=' | 0));
        if let Some(value) = std::env::var_os(name).filter(|_| sound && !given) {
            env.push((name.as_bytes().to_vec(), value.into_vec()));
        }
    }
}

/// How the program is linked with PVM's library, as this machine has it.
fn linkage(spec: &TaskSpec) -> Linkage {
    let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let given = |name: &str| {
        let set = spec.env.iter().rev().find(|(known, _)| known == name.as_bytes());
        set.map(|(_, value)| OsString::from_vec(value.clone()))
    };
    let folder = OsStr::from_bytes(&spec.cwd);
    let program = linkage::file(OsStr::from_bytes(&spec.program), Some(folder), &own, &given);
    program.map_or(Linkage::None, |file| linkage::at(&file))
}

/// Says that a program for PVM will not get our library, where that can be known here.
fn warn_without_library(vm: &VmDir, args: &RunArgs, linkage: Linkage) {
    let given = args.env.iter().any(|set| set.as_bytes().starts_with(b"LD_LIBRARY_PATH"));
    if args.no_pvm || given {
        return;
    }
    if let Some(why) = lacks_library(vm, &args.command[0], linkage) {
        eprintln!("warning: {why}; --no-pvm says that PVM's is wanted");
    }
}

/// That a program so linked will not get our library in the place of PVM's, where that is so.
pub(crate) fn lacks_library(vm: &VmDir, program: &OsStr, linkage: Linkage) -> Option<String> {
    let asks = matches!(linkage, Linkage::Shared | Linkage::Fixed);
    // Daemons that were started elsewhere may know of one.
    let known = || {
        let local = vm.local_hosts().unwrap_or_default().into_iter();
        local.map(|n| vm.host(n).join("pvm")).any(|folder| folder.is_dir())
    };
    if !asks || Library::is_there() || known() {
        return None;
    }
    Some(format!(
        "{} is written for PVM, and Towpath's library for it is not to be found beside this \
         program: it gets PVM's own\n\
         hint: put libpvm3.so.3 into ../lib of this program (`make install` does), or name its \
         folder with {FOLDER_VAR} when the hosts are started",
        program.display()
    ))
}

/// What all tasks have in common.
fn spec(args: &RunArgs) -> anyhow::Result<TaskSpec> {
    let bytes = |s: &OsString| s.clone().into_vec();
    let timeout_ms = match args.timeout.map(|t| u32::try_from(t.as_millis())) {
        None => 0,
        Some(Ok(ms)) => ms.max(1),
        Some(Err(_)) => bail!("--timeout is above 1193 hours, the limit"),
    };
    let cwd = match &args.workdir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().context("this directory")?.into_os_string(),
    };
    let mut env = Vec::new();
    for setting in &args.env {
        let setting = bytes(setting);
        if setting.first().is_none_or(|b| *b == b'=') {
            bail!("--env `{}`: a variable needs a name", setting.escape_ascii());
        }
        if let Some(at) = setting.iter().position(|b| *b == b'=') {
            env.push((setting[..at].to_vec(), setting[at + 1..].to_vec()));
        } else {
            let name = OsString::from_vec(setting.clone());
            let value = std::env::var_os(&name);
            let value = value.with_context(|| format!("--env {}: not set here", name.display()))?;
            env.push((setting, value.into_vec()));
        }
    }
    if args.no_pvm {
        env.push((SWITCH.into(), b"no".to_vec()));
    } else {
        pass_on_for_pvm(&mut env);
    }
    let window = (WINDOW_ALL / args.tasks as usize).clamp(WINDOW_MIN, WINDOW_MAX);
    Ok(TaskSpec {
        program: bytes(&args.command[0]),
        args: args.command[1..].iter().map(bytes).collect(),
        env,
        cwd: cwd.into_vec(),
        queued: false,
        timeout_ms,
        output_window: window as u32,
        input_window: 0,
        unique: args.unique,
    })
}

/// What to say where the program is not found, and a file of its name is in the working directory.
fn beside(spec: &TaskSpec) -> Option<String> {
    let name = OsStr::from_bytes(&spec.program);
    let file = Path::new(OsStr::from_bytes(&spec.cwd)).join(name);
    let is_plain = !spec.program.contains(&b'/');
    let can_run = is_plain && file.is_file() && access(&file, Access::EXEC_OK).is_ok();
    can_run.then(|| format!("did you mean ./{}", name.display()))
}

/// What one task is told beside that.
fn spec_of(common: &TaskSpec, args: &RunArgs, rank: usize, host: &str, job: &str) -> TaskSpec {
    let mut spec = common.clone();
    let own = [
        ("TOWPATH_HOST", host.to_string()),
        ("TOWPATH_RANK", rank.to_string()),
        ("TOWPATH_SIZE", args.tasks.to_string()),
        ("TOWPATH_JOB", job.to_string()),
    ];
    spec.env.extend(own.map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes())));
    if rank == 0 && !args.no_stdin {
        spec.input_window = input::WINDOW;
    }
    spec
}

fn show(args: &RunArgs, members: &[Member]) -> anyhow::Result<Show> {
    let tagged = args.tag || (members.len() > 1 && !args.no_tag);
    let manner = if tagged { Manner::Tagged } else { Manner::Raw };
    let tag = |(rank, m): (usize, &Member)| format!("[{rank} {}] ", visible(&m.name));
    let show = Show::new(manner, members.iter().enumerate().map(tag).collect(), args.json);
    match &args.output_dir {
        Some(dir) => {
            // Two for each task.
            Descriptors::raise();
            show.into_files(dir)
        }
        None => Ok(show),
    }
}

/// Names a job: no two alike.
fn job_name() -> String {
    let secret = RealCrypto::generate_secret();
    let number = secret.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
    format!("{number:016x}")
}

pub(crate) fn run(vm: &VmDir, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let common = spec(args)?;
    if args.by_itself.detach && jobs::client_of(vm)?.is_none() {
        connect(vm)?;
        jobs::start(vm, towpath::jobs::make(vm)?, &args.by_itself, Kind::Run)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut client = connect(vm)?;
    let linkage = linkage(&common);
    warn_without_library(vm, args, linkage);
    // Read once: it may be a pipe.
    let file = args.hostfile.as_deref().map(crate::up::read_hostfile).transpose()?;
    // A task on a host that is not heard from would wait until that is given up.
    let known = host_table(&mut client)?;
    let unheard = unheard(&mut client, &known)?;
    let (hosts, rooms) = among_hosts(&mut client, |all| {
        let mut all = all.to_vec();
        for host in all.iter_mut().filter(|host| unheard.contains(&host.id)) {
            host.state = HostState::Lost;
        }
        let rooms = rooms(&all, &args.host, file.as_deref())?;
        Ok((all, rooms))
    })?;
    let member = |at: usize| Member::new(&rooms[at].host);
    let placed = place(args.tasks as usize, &rooms, args.spread);
    let members: Vec<Member> = placed.into_iter().map(member).collect();
    let show = show(args, &members)?;
    let mut signals = signals().context("handling signals")?;
    let name = job_name();
    for (rank, member) in members.iter().enumerate() {
        let host = member.host;
        let spec = spec_of(&common, args, rank, &member.name, &name);
        client.sender.send(&Request::Spawn { tag: rank as u64, host, spec })?;
    }
    let input = (!args.no_stdin).then(Input::new);
    let until = args.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let for_pvm = !args.no_pvm && linkage != Linkage::None;
    let on_failure = match args.on_failure {
        Some(said) => said,
        None if args.keep_going || for_pvm => OnFailure::GoOn,
        None => OnFailure::End,
    };
    let rules = Rules { go_on: on_failure == OnFailure::GoOn, grace: args.grace, until };
    let hint = beside(&common);
    let mut job = Job::new(client, &hosts, members, show, input, rules, &mut signals);
    job.hint = hint;
    let status = job.run().map_err(|error| match error.downcast_ref::<ClientError>() {
        Some(ClientError::Gone) => error.context(
            "the host that served this job is gone: its tasks on other hosts are ended, too",
        ),
        _ => error,
    })?;
    if args.json {
        putln!("{}", summary::json(&name, &job.members, status, begin.elapsed()))?;
    }
    Ok(ExitCode::from(status))
}
