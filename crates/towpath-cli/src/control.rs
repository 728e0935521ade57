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
use towpath::task::place::SOCKET_NAME;
use towpath::{Client, Task, VmDir};
use towpath_vm::{Host, HostState};

/// How long an answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// How long a daemon may take to end before it is killed.
const END_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
On the machine that founded the virtual machine, the hosts of other machines end, too (not with
--local). On another machine, its own hosts leave.")]
pub(crate) struct DownArgs {
    /// End this machine's hosts only
    #[arg(long)]
    local: bool,
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
    let sockets = vm.sockets()?;
    if sockets.is_empty() {
        bail!(
            "virtual machine `{}` is not up on this machine\nhint: start it with `towpath up`",
            vm.name
        );
    }
    Ok(sockets)
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

pub(crate) fn down(vm: &VmDir, args: &DownArgs) -> anyhow::Result<ExitCode> {
    let Ended { here, killed, deleted } = end_all(vm, !args.local)?;
    if args.json {
        let ended = json!({ "vm": vm.name, "ended": here, "killed": killed, "deleted": deleted });
        putln!("{ended}")?;
    } else if here == 0 {
        eprintln!("virtual machine `{}` was not up", vm.name);
    } else {
        let count = here + deleted;
        let hosts = if count == 1 { "host" } else { "hosts" };
        let note = if killed > 0 { format!(", {killed} of them killed") } else { String::new() };
        eprintln!("virtual machine `{}`: {count} {hosts} down{note}", vm.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// What [`end_all`] did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// Daemons of this machine that were ended.
    here: usize,
    /// Of them, how many had to be killed.
    killed: usize,
    /// Hosts of other machines that were told to end.
    deleted: usize,
}

/// Ends every local daemon, the founder last, and before it, with `everywhere`, the hosts of
/// other machines.
pub(crate) fn end_all(vm: &VmDir, everywhere: bool) -> anyhow::Result<Ended> {
    let numbers = vm.local_hosts()?;
    let running: Vec<usize> =
        numbers.iter().copied().filter(|n| daemon::is_locked(&vm.host(*n))).collect();
    let deleted = if everywhere { delete_others(vm) } else { 0 };
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
    for n in numbers.iter().filter(|n| !running.contains(n)) {
        // Left behind by one that was killed together with its guard.
        daemon::end_group(&vm.host(*n));
    }
    Ok(Ended { here: running.len(), killed, deleted })
}

/// Deletes every host that is not of this machine, if the leader is; how many.
fn delete_others(vm: &VmDir) -> usize {
    let Ok(mut leader) = leader(vm) else { return 0 };
    let here: Vec<_> = vm
        .sockets()
        .into_iter()
        .flatten()
        .filter_map(|socket| Client::connect(&socket).ok()?.info().ok()?.me)
        .collect();
    let hosts = host_table(&mut leader).unwrap_or_default();
    let others = hosts.iter().filter(|h| h.state == HostState::Up && !here.contains(&h.id));
    others.filter(|h| leader.ask(&Request::Delete { host: h.id }, ANSWER).is_ok()).count()
}
