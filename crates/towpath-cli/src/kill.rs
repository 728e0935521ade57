//! `kill`: a signal to tasks, on whatever host they run.

use std::process::ExitCode;

use clap::Args;
use signal_hook::consts::{SIGABRT, SIGUSR2, SIGWINCH};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGUSR1};
use towpath::VmDir;
use towpath_wire::HostId;

use crate::control::{connect, enrol, host_table};
use crate::explain::task;

/// Highest number of a signal.
const SIGNAL_MAX: i32 = 64;
const NAMES: [(&str, i32); 11] = [
    ("HUP", SIGHUP),
    ("INT", SIGINT),
    ("QUIT", SIGQUIT),
    ("ABRT", SIGABRT),
    ("KILL", SIGKILL),
    ("USR1", SIGUSR1),
    ("USR2", SIGUSR2),
    ("TERM", SIGTERM),
    ("CONT", SIGCONT),
    ("STOP", SIGSTOP),
    ("WINCH", SIGWINCH),
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath kill h1:t3                   asks it to end
  towpath kill -s KILL h1:t3 h2:t1     ends both
  towpath kill -s USR1 h1:t3

Exit status: 0 all have the signal, 1 some, 255 none.")]
pub(crate) struct KillArgs {
    /// Tasks, as `towpath ps` lists them: h1:t3
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<String>,
    /// Which signal: its name or number
    #[arg(short, long, default_value = "TERM", value_parser = signal)]
    signal: i32,
}

fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number);
    let number = named.or_else(|| text.parse().ok().filter(|n| (1..=SIGNAL_MAX).contains(n)));
    number.ok_or_else(|| {
        let names = NAMES.map(|(name, _)| name).join(", ");
        format!("signals are {names}, or a number from 1 to {SIGNAL_MAX}")
    })
}

pub(crate) fn kill(vm: &VmDir, args: &KillArgs) -> anyhow::Result<ExitCode> {
    let hosts = host_table(&mut connect(vm)?)?;
    let ids: Vec<HostId> = hosts.iter().map(|h| h.id).collect();
    let tasks = args.tasks.iter().map(|text| task(text, &ids));
    let tasks = tasks.collect::<anyhow::Result<Vec<_>>>()?;
    let mut own = enrol(vm)?;
    let mut failed = 0;
    for task in &tasks {
        if let Err(why) = own.signal(*task, args.signal) {
            eprintln!("{task}: {why}");
            failed += 1;
        }
    }
    let _ = own.leave();
    Ok(ExitCode::from(match failed {
        0 => 0,
        n if n == tasks.len() => 255,
        _ => 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal("TERM"), Ok(15));
        assert_eq!(signal("sigkill"), Ok(9));
        assert_eq!(signal("34"), Ok(34));
        assert!(signal("0").is_err() && signal("65").is_err());
        assert!(signal("SEGVX").unwrap_err().contains("USR1"));
    }
}
