//! Talking to this machine's daemons: `down`, `token`, and what the other commands share.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use towpath::daemon;
use towpath::protocol::{Reply, Request};
use towpath::{Client, VmDir};
use towpath_vm::{Host, HostState};

/// How long an answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// How long a daemon may take to end before it is killed.
const END_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Seconds that the token is valid, at most ten years
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=315_360_000))]
    ttl: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Sockets of this machine's daemons that may answer; an error where there is none.
pub(crate) fn sockets(vm: &VmDir) -> anyhow::Result<Vec<PathBuf>> {
    let sockets = vm.sockets();
    if sockets.is_empty() {
        bail!(
            "virtual machine `{}` is not up on this machine\nhint: start it with `towpath up`",
            vm.name
        );
    }
    Ok(sockets)
}

/// A connection to the first of this machine's daemons that answers.
pub(crate) fn connect(vm: &VmDir) -> anyhow::Result<Client> {
    let mut last = None;
    for socket in sockets(vm)? {
        match Client::connect(&socket) {
            Ok(client) => return Ok(client),
            Err(e) => last = Some(e),
        }
    }
    Err(last.context("no daemon answers\nhint: start one with `towpath up`")?.into())
}

/// All hosts of the virtual machine, as a daemon sees them.
pub(crate) fn host_table(client: &mut Client) -> anyhow::Result<Vec<Host>> {
    match client.ask(&Request::Hosts, ANSWER)? {
        Reply::Hosts(hosts) => Ok(hosts),
        _ => bail!("the daemon answers something else than was asked"),
    }
}

/// Finds a host by id (`h2`, `2`) or name.
pub(crate) fn find_host(hosts: &[Host], wanted: &str) -> anyhow::Result<Host> {
    let matches = |h: &&Host| {
        let slot = h.id.slot().to_string();
        h.id.to_string() == wanted || h.name == wanted || slot == wanted.trim_start_matches('h')
    };
    let Some(host) = hosts.iter().find(matches) else {
        let known: Vec<String> = hosts.iter().map(|h| format!("h{}", h.id.slot())).collect();
        bail!("no host `{wanted}`\nhint: there are {}", known.join(", "));
    };
    if host.state == HostState::Lost {
        bail!("host {} is lost\nhint: `towpath hosts` shows which are up", host.id);
    }
    Ok(host.clone())
}

pub(crate) fn issue_token(vm: &VmDir, ttl_s: u64) -> anyhow::Result<String> {
    let mut refused = None;
    for socket in sockets(vm)? {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        match client.ask(&Request::Invite { ttl_s }, ANSWER) {
            Ok(Reply::Token(token)) => return Ok(token),
            Ok(_) => {}
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.context("no daemon answers\nhint: start one with `towpath up`")?.into())
}

pub(crate) fn token(vm: &VmDir, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let token = issue_token(vm, args.ttl)?;
    if args.json {
        println!("{}", json!({ "token": token, "ttl_s": args.ttl }));
    } else {
        println!("{token}");
        eprintln!("valid for {} s; on the other machine: towpath join TOKEN", args.ttl);
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn down(vm: &VmDir, args: &DownArgs) -> anyhow::Result<ExitCode> {
    let (ended, killed) = end_all(vm)?;
    if args.json {
        println!("{}", json!({ "vm": vm.name, "ended": ended, "killed": killed }));
    } else if ended == 0 {
        eprintln!("virtual machine `{}` was not up", vm.name);
    } else {
        let hosts = if ended == 1 { "host" } else { "hosts" };
        let note = if killed > 0 { format!(", {killed} of them killed") } else { String::new() };
        eprintln!("virtual machine `{}`: {ended} {hosts} down{note}", vm.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends every local daemon, the founder last; returns how many, and how many had to be killed.
pub(crate) fn end_all(vm: &VmDir) -> anyhow::Result<(usize, usize)> {
    let running: Vec<usize> =
        vm.local_hosts().into_iter().filter(|n| daemon::is_locked(&vm.host(*n))).collect();
    let mut killed = 0;
    for n in running.iter().rev() {
        let dir = vm.host(*n);
        if let Ok(mut client) = Client::connect(&dir.join("sock")) {
            let _ = client.ask(&Request::Shutdown, END_WAIT);
        }
        let deadline = Instant::now() + END_WAIT;
        while daemon::is_locked(&dir) {
            if Instant::now() > deadline {
                let pid = daemon::lock_holder(&dir).and_then(|p| Pid::from_raw(p.cast_signed()));
                let pid = pid.context("a daemon does not end, and its process is not known")?;
                kill_process(pid, Signal::KILL)?;
                killed += 1;
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok((running.len(), killed))
}
