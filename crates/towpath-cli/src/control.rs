//! Talking to this machine's daemons: `token`, and what the other commands share.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath::lock::Holder;
use towpath::protocol::{Info, Reply, Request};
use towpath::start::parallel;
use towpath::task::place::SOCKET_NAME;
use towpath::{Client, Task, VmDir};
use towpath_vm::{Host, HostState};

/// How long an answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Daemons asked at once.
pub(crate) const AT_ONCE: usize = 64;

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

/// A daemon of this machine, as people are told of it.
pub(crate) fn called(number: usize, holder: Option<&Holder>) -> String {
    let host = holder.and_then(|h| Some(format!(", {}", h.host.as_ref()?))).unwrap_or_default();
    let process = holder.map_or(String::new(), |h| format!(" (process {}{host})", h.pid));
    format!("daemon {number}{process}")
}

/// What is said of each of this machine's daemons that is stopped: it answers nobody.
pub(crate) fn stopped(vm: &VmDir) -> anyhow::Result<Vec<String>> {
    let told = |n: usize| {
        let holder = Holder::stopped(&vm.host(n))?;
        let (called, pid) = (called(n, Some(&holder)), holder.pid);
        Some(format!(
            "{called} is stopped\nhint: `kill -CONT {pid}` lets it go on, `kill -9 {pid}` ends it"
        ))
    };
    Ok(vm.local_hosts()?.into_iter().filter_map(told).collect())
}

/// Sockets of this machine's daemons that may answer; an error where there is none.
pub(crate) fn sockets(vm: &VmDir) -> anyhow::Result<Vec<PathBuf>> {
    let mut sockets = vm.sockets()?;
    let there = sockets.len();
    sockets.retain(|s| s.parent().is_none_or(|dir| Holder::stopped(dir).is_none()));
    if sockets.is_empty() {
        if there > 0 {
            bail!("{}", stopped(vm)?.join("\n"));
        }
        bail!(
            "virtual machine `{}` is not up on this machine\nhint: start it with `towpath up`",
            vm.name
        );
    }
    Ok(sockets)
}

/// What this machine's daemons say of themselves.
pub(crate) fn infos(vm: &VmDir) -> anyhow::Result<Vec<Info>> {
    let ask = |socket: &PathBuf| Client::connect(socket).ok()?.info().ok();
    let told = parallel::each(&sockets(vm)?, AT_ONCE, ask, |_, _| {});
    Ok(told.into_iter().flatten().collect())
}

/// Becomes a task of this machine's first host that answers.
pub(crate) fn enrol(vm: &VmDir) -> anyhow::Result<Task> {
    let sockets = sockets(vm)?;
    let answers = |socket: &&PathBuf| Client::connect(socket).is_ok();
    let socket = sockets.iter().find(answers);
    let socket = socket.context("no daemon answers\nhint: `towpath hosts` shows what is up")?;
    Ok(Task::enrol_at(&socket.with_file_name(SOCKET_NAME), None)?)
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
    let host = known_host(hosts, wanted)?;
    if host.state == HostState::Lost {
        bail!("host {} is lost\nhint: `towpath hosts` shows which are up", host.id);
    }
    Ok(host)
}

/// True when `wanted` means this host: by id (`h2`, `2`) or name.
pub(crate) fn is_called(host: &Host, wanted: &str) -> bool {
    let slot = host.id.slot().to_string();
    let number = wanted.strip_prefix('h').unwrap_or(wanted);
    host.id.to_string() == wanted || host.name == wanted || slot == number
}

/// Finds a host, up or lost. A name goes before a number.
pub(crate) fn known_host(hosts: &[Host], wanted: &str) -> anyhow::Result<Host> {
    let named = hosts.iter().find(|h| h.name == wanted);
    if let Some(host) = named.or_else(|| hosts.iter().find(|h| is_called(h, wanted))) {
        return Ok(host.clone());
    }
    let mut known: Vec<String> =
        hosts.iter().take(12).map(|h| format!("h{} ({})", h.id.slot(), h.name)).collect();
    if hosts.len() > known.len() {
        known.push("…".into());
    }
    bail!("no host `{wanted}`\nhint: there are {}", known.join(", "))
}

/// A connection to the daemon that leads, which must be one of this machine's.
pub(crate) fn leader(vm: &VmDir) -> anyhow::Result<Client> {
    for socket in sockets(vm)? {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        let Ok(info) = client.info() else { continue };
        if info.me.is_some() && info.me == info.leader {
            return Ok(client);
        }
    }
    let stopped = stopped(vm)?;
    if !stopped.is_empty() {
        bail!("no daemon that answers here leads the virtual machine; {}", stopped.join("\n"));
    }
    bail!(
        "the daemon that founded the virtual machine does not run on this machine\n\
         hint: run the command on its machine; `towpath hosts` shows which host leads"
    )
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
        putln!("{}", json!({ "token": token, "ttl_s": args.ttl }))?;
    } else {
        putln!("{token}")?;
        eprintln!("valid for {} s; on the other machine: towpath join TOKEN", args.ttl);
    }
    Ok(ExitCode::SUCCESS)
}
