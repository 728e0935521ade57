//! `jobs`: which there are, and what is to become of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use towpath::VmDir;
use towpath::jobs::{self, Job, JobError, State};
use towpath_report::text::visible;

use super::start::{mind, minding};

/// How long is waited for a job that is told to end.
const END_WAIT: Duration = Duration::from_secs(9);
const LOOK: Duration = Duration::from_millis(50);
/// Characters of a command that are shown.
const SHOWN: usize = 60;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  towpath farm --detach ./simulate --seed {} ::: 1 2 3 4     begins one, and prints its number
  towpath jobs
  towpath attach 3
  towpath jobs end 3

A job is a farm or a command that was started with --detach. It goes on when the terminal is closed,
keeps what it prints (--keep-output), and a farm goes on when its client is killed or this machine's
daemons are: with what is not done, each item with one result. A command that `run --detach` began
cannot go on; how it ended is not known then.

STATE is `runs`, also while the disk is full and it waits for room; `waits` for a daemon of this
machine to be up again; `interrupted` where its processes were killed, or the machine was: `towpath
attach` has a farm go on; or `ended` with its exit status. DONE counts results of a farm's items;
those of items that ran again count again.

Jobs that have ended are kept until they are forgotten; of more than 100 the oldest are."
)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// End jobs: what runs is told to end, as by Ctrl-C, and a farm's items are killed after 2 s
    End {
        /// Their numbers
        #[arg(required = true, value_name = "JOB")]
        jobs: Vec<usize>,
        /// As by a second Ctrl-C: at once
        #[arg(long)]
        now: bool,
    },
    /// Run items of a farm again that failed or were not run
    Again {
        /// Its number
        job: usize,
    },
    /// Forget jobs that do not run, with what they printed
    Forget {
        /// Their numbers
        #[arg(required_unless_present = "ended", value_name = "JOB")]
        jobs: Vec<usize>,
        /// All that have ended
        #[arg(long)]
        ended: bool,
    },
    /// Mind a job (what --detach starts)
    #[command(hide = true)]
    Mind { job: usize },
}

pub(crate) fn jobs(vm: &VmDir, args: &JobsArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        None => list(vm, args.json),
        Some(What::End { jobs, now }) => end(vm, jobs, *now),
        Some(What::Again { job }) => again(vm, *job),
        Some(What::Forget { jobs, ended }) => forget(vm, jobs, *ended),
        Some(What::Mind { job }) => minding(vm, *job),
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::Runs => "runs",
        State::Waits => "waits",
        State::Interrupted => "interrupted",
        State::Ended(_) => "ended",
    }
}

fn list(vm: &VmDir, json: bool) -> anyhow::Result<ExitCode> {
    let all = jobs::all(vm)?;
    if json {
        let listed: Vec<Value> = all.iter().map(object).collect();
        putln!("{}", json!({ "jobs": listed }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        eprintln!("no jobs: `towpath farm --detach` and `towpath run --detach` make some");
        return Ok(ExitCode::SUCCESS);
    }
    let row = |cells: [String; 5]| -> anyhow::Result<()> {
        let [job, state, began, done, command] = cells;
        Ok(putln!("{job:>4}  {state:<15}  {began:<11}  {done:>11}  {command}")?)
    };
    row(["JOB", "STATE", "BEGAN", "DONE", "COMMAND"].map(String::from))?;
    all.iter().map(line).try_for_each(row)?;
    Ok(ExitCode::SUCCESS)
}

fn object(job: &Job) -> Value {
    let (about, state) = (job.about(), job.state());
    let ended = if let State::Ended(ended) = state { Some(ended) } else { None };
    json!({
        "job": job.number,
        "state": name(state),
        "status": ended.map(|ended| ended.status),
        "began_s": about.as_ref().map(|about| about.began_s),
        "ended_s": ended.map(|ended| ended.at_s),
        "results": job.items().map(|_| job.results()),
        "items": job.items(),
        "unwritten_bytes": ended.map(|ended| ended.unwritten),
        "command": about.map(|about| about.command),
        "directory": job.path.display().to_string(),
    })
}

fn line(job: &Job) -> [String; 5] {
    let (about, state) = (job.about(), job.state());
    let mut stands = name(state).to_string();
    if runs(job) && job.is_disk_full() {
        stands += ", disk full";
    }
    if let State::Ended(ended) = state {
        stands = format!("{stands} {}", ended.status);
    }
    let began = about.as_ref().map(|about| ago(jobs::now_s().saturating_sub(about.began_s)));
    let done = job.items().map(|items| format!("{}/{items}", job.results()));
    let command = about.map(|about| {
        let short: String = about.command.chars().take(SHOWN).collect();
        let rest = if short.len() < about.command.len() { "…" } else { "" };
        format!("{}{rest}", visible(&short))
    });
    let none = || "-".to_string();
    [Some(job.number.to_string()), Some(stands), began, done, command]
        .map(|cell| cell.unwrap_or_else(none))
}

/// How long ago, in the largest unit that fits.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn found(vm: &VmDir, numbers: &[usize]) -> Result<Vec<Job>, JobError> {
    numbers.iter().map(|number| jobs::find(vm, *number)).collect()
}

fn runs(job: &Job) -> bool {
    matches!(job.state(), State::Runs | State::Waits)
}

fn end(vm: &VmDir, numbers: &[usize], now: bool) -> anyhow::Result<ExitCode> {
    let all = found(vm, numbers)?;
    if let Some(job) = all.iter().find(|job| !runs(job)) {
        bail!("job {0} does not run\nhint: `towpath jobs forget {0}` forgets it", job.number);
    }
    for job in &all {
        job.end(now);
    }
    let begin = Instant::now();
    for job in &all {
        while runs(job) {
            if begin.elapsed() > END_WAIT {
                bail!(
                    "job {0} has not ended yet\nhint: `towpath jobs end --now {0}` does not wait \
                     for what runs",
                    job.number
                );
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn again(vm: &VmDir, number: usize) -> anyhow::Result<ExitCode> {
    let job = jobs::find(vm, number)?;
    if runs(&job) {
        return Err(JobError::Runs(number).into());
    }
    if !job.about().is_some_and(|about| about.resumes) {
        return Err(JobError::CannotGoOn(number).into());
    }
    job.runs_again()?;
    mind(vm, &job)?;
    eprintln!("job {number} runs again: `towpath attach {number}` shows what it prints");
    Ok(ExitCode::SUCCESS)
}

fn forget(vm: &VmDir, numbers: &[usize], ended: bool) -> anyhow::Result<ExitCode> {
    let mut all = found(vm, numbers)?;
    if ended {
        let over = |job: &Job| matches!(job.state(), State::Ended(_));
        all.extend(jobs::all(vm)?.into_iter().filter(over));
    }
    for job in all {
        if job.path.exists() {
            job.forget()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ago_is_said_in_one_unit() {
        let said = [0, 59, 60, 3599, 3600, 172_799, 172_800].map(ago);
        let expected =
            ["0 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "47 h ago", "2 days ago"];
        assert_eq!(said, expected);
    }
}
