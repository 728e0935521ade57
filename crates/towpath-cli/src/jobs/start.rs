//! Starting a job, and the process that minds it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::jobs::{self, About, JOB_VAR, Job, JobError, Making, minder};
use towpath::start::launch::quote;
use towpath_report::units;
use towpath_wire::ByteSize;

/// What the process says that minds a job, once it does.
const MINDS: &str = "minds";

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// Go on without this terminal: prints the job's number, for `towpath attach`, and returns
    #[arg(long)]
    pub(crate) detach: bool,
    /// With --detach: so much is kept of what is printed on standard output, and as much of
    /// standard error; beyond that the oldest goes
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    #[arg(value_parser = units::size_between("64KiB", "1TiB"))]
    keep_output: ByteSize,
}

/// What a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Farm,
    Run,
}

/// The job whose client this process is; an error where it is said to be one, and is none.
pub(crate) fn client_of(vm: &VmDir) -> anyhow::Result<Option<Job>> {
    let Some(path) = std::env::var_os(JOB_VAR).map(PathBuf::from) else { return Ok(None) };
    let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let job = number.map(|number| jobs::find(vm, number)).transpose()?;
    let same = |job: &Job| job.path.canonicalize().ok() == path.canonicalize().ok();
    match job.filter(|job| same(job) && minder::is_client(job)) {
        Some(job) => Ok(Some(job)),
        None => bail!("{JOB_VAR} is set, and this is no job's\nhint: `unset {JOB_VAR}`"),
    }
}

/// Starts a job of this process's command line.
pub(crate) fn start(
    vm: &VmDir,
    making: Making,
    args: &DetachArgs,
    kind: Kind,
) -> anyhow::Result<()> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let shown: Vec<String> = words.iter().map(|word| quote(&word.to_string_lossy())).collect();
    let about = About {
        command: shown.join(" "),
        workdir: std::env::current_dir().context("this directory")?,
        began_s: jobs::now_s(),
        resumes: kind == Kind::Farm,
        writes: kind == Kind::Farm,
        keep: args.keep_output.as_bytes(),
    };
    let job = making.done(&words, &about)?;
    if let Err(why) = mind(vm, &job) {
        let _ = job.forget();
        return Err(why);
    }
    let runs = || format!("job {} runs", job.number);
    putln!("{}", job.number).with_context(runs)?;
    eprintln!("job {0} runs: `towpath attach {0}` shows what it prints", job.number);
    Ok(())
}

/// Starts a process that minds a job.
pub(super) fn mind(vm: &VmDir, job: &Job) -> anyhow::Result<()> {
    let mut command = Command::new(minder::SELF);
    command
        .arg0(minder::NAME)
        .args(["--vm", &vm.name, "jobs", "mind", &job.number.to_string()])
        .env_remove(JOB_VAR)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().context("starting a process for the job")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).context("hearing of the job")?;
    }
    if line.trim_end() != MINDS {
        let why = if line.is_empty() { "its process ended at once" } else { line.trim_end() };
        return Err(JobError::NotStarted(job.number, why.into()).into());
    }
    Ok(())
}

/// Minds a job to its end, in a session of its own.
pub(super) fn minding(vm: &VmDir, number: usize) -> anyhow::Result<ExitCode> {
    let _ = rustix::process::setsid();
    let mut begun = false;
    let minded = jobs::find(vm, number).and_then(|job| {
        let mut begins = || {
            begun = true;
            let _ = putln!("{MINDS}");
        };
        minder::mind(vm, &job, &mut begins)
    });
    match minded {
        Ok(_) => {
            if !begun {
                // Another one does.
                let _ = putln!("{MINDS}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(e) => {
            let _ = putln!("{}", e.to_string().replace('\n', "; "));
            Err(e.into())
        }
    }
}
