//! Talking to this machine's daemons: `token`, and what the other commands share.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath::lock::Holder;
use towpath::protocol::{Info, Network, Reply, Request, TokenInfo};
use towpath::start::parallel;
use towpath::task::place::SOCKET_NAME;
use towpath::{Client, ClientError, Task, Token, VmDir};
use towpath_vm::{Host, HostState, TaskInfo};
use towpath_wire::HostId;

use crate::units;

/// A time that daemons count, in milliseconds of 32 bits.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    units::duration_between("1ms", "1111h")(text)
}

/// How long an answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Daemons asked at once.
pub(crate) const AT_ONCE: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath token --uses 1            for one host, within an hour
  towpath token --ttl 24h           for any number of hosts, within a day
  towpath token --list              which tokens are good, and have admitted how many hosts
  towpath token --revoke 1f00c3a9   have one admit nobody any more

Whoever has a token can become a host, and a host can run anything on the others. Hosts that a token
has admitted stay when it ends or is revoked: `towpath host delete` takes them out. A token names
the hosts that may lead (`up --voters 3`), and is good after the one that issued it is gone.")]
pub(crate) struct TokenArgs {
    /// How long the token is valid, in whole seconds: at most thirty days (720h), with --uses a
    /// year (8784h)
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    #[arg(value_parser = units::duration_between("1s", "8784h"))]
    ttl: Duration,
    /// How many hosts the token admits [default: any number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    uses: Option<u32>,
    /// List the tokens that are good
    #[arg(long, conflicts_with_all = ["ttl", "uses", "revoke"])]
    list: bool,
    /// With --list: those that have admitted as many hosts as they were made for, too
    #[arg(long, requires = "list")]
    all: bool,
    /// Have a token admit nobody any more, named as by --list; may be given several times
    #[arg(long, value_name = "ID", conflicts_with_all = ["ttl", "uses"])]
    revoke: Vec<String>,
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

/// Hosts that should be up and of which the daemon that is asked hears nothing: those that leave
/// everything unanswered at present, and those that a leader which was started again knows of
/// before, until they come or are given up. Only that one can tell the latter.
pub(crate) fn unheard(client: &mut Client, hosts: &[Host]) -> anyhow::Result<BTreeSet<HostId>> {
    let info = client.info()?;
    let silent = info.silent.iter().copied();
    let Some(me) = info.me.filter(|me| Some(*me) == info.leader) else {
        return Ok(silent.collect());
    };
    let mut networks = Vec::new();
    ask_networks(client, me, &mut networks)?;
    let heard: BTreeSet<HostId> = networks.into_iter().map(|(_, network)| network.host).collect();
    let others = hosts.iter().filter(|h| h.state == HostState::Up && h.id != me);
    Ok(others.map(|h| h.id).filter(|host| !heard.contains(host)).chain(silent).collect())
}

/// The tasks of these hosts, and what is said of those that do not tell theirs.
pub(crate) fn tasks_of(
    client: &mut Client,
    hosts: &[Host],
) -> anyhow::Result<(Vec<TaskInfo>, Vec<String>)> {
    let unheard = unheard(client, hosts)?;
    let mut asked: BTreeSet<HostId> = BTreeSet::new();
    let (mut tasks, mut silent) = (Vec::new(), Vec::new());
    for host in hosts.iter().filter(|h| h.state == HostState::Up) {
        if unheard.contains(&host.id) {
            silent.push(format!("{}: not heard from, so its tasks are not known", host.id));
            continue;
        }
        client.sender.send(&Request::Tasks { tag: host.id.to_raw(), host: host.id })?;
        asked.insert(host.id);
    }
    let until = Instant::now() + ANSWER;
    while !asked.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        match client.receiver.next(Some(left.max(Duration::from_millis(1))))? {
            Some(Reply::Tasks { host, tasks: told, .. }) => {
                asked.remove(&host);
                match told {
                    Ok(list) => tasks.extend(list),
                    Err(why) => silent.push(format!("{host}: {why}")),
                }
            }
            Some(Reply::Failed(why)) => bail!(why),
            Some(_) => bail!("the daemon answers something else than was asked"),
            None => break,
        }
    }
    let late = |host: HostId| format!("{host}: did not answer within {} s", ANSWER.as_secs());
    silent.extend(asked.into_iter().map(late));
    tasks.sort_by_key(|task: &TaskInfo| task.id);
    Ok((tasks, silent))
}

/// How long a host that nobody here knows may take to be heard of: one that has just joined by
/// another daemon comes to this one with the next news.
const HEARD_OF: Duration = Duration::from_secs(1);

/// What `choose` finds among the hosts that a daemon knows, asked again for [`HEARD_OF`] where one
/// is unknown.
pub(crate) fn among_hosts<T>(
    client: &mut Client,
    choose: impl Fn(&[Host]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let until = Instant::now() + HEARD_OF;
    let wait = || {
        let left = Instant::now() < until;
        if left {
            std::thread::sleep(Duration::from_millis(20));
        }
        left
    };
    again(|| choose(&host_table(client)?), wait)
}

/// Asks again while a host is unknown and `wait` has waited.
fn again<T>(
    mut ask: impl FnMut() -> anyhow::Result<T>,
    mut wait: impl FnMut() -> bool,
) -> anyhow::Result<T> {
    loop {
        match ask() {
            Err(why) if why.is::<NoHost>() && wait() => {}
            found => return found,
        }
    }
}

/// Nobody is called so: what was asked for, and who there is.
#[derive(Debug)]
struct NoHost(String, Vec<String>);

impl fmt::Display for NoHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no host `{}`\nhint: there are {}", self.0, self.1.join(", "))
    }
}

impl std::error::Error for NoHost {}

/// Finds a host by id (`h2`, `2`) or name.
pub(crate) fn find_host(hosts: &[Host], wanted: &str) -> anyhow::Result<Host> {
    let host = known_host(hosts, wanted)?;
    if host.state == HostState::Lost {
        bail!(
            "host {} is lost, or not heard from\nhint: `towpath hosts` shows which are up",
            host.id
        );
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
    Err(NoHost(wanted.into(), known).into())
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
        "the daemon that leads the virtual machine does not run on this machine\n\
         hint: run the command on its machine; `towpath hosts` shows which host leads"
    )
}

/// Asks the daemon that leads the virtual machine, which must be one of this machine's; gives
/// the connection with the answer.
fn ask_founder(vm: &VmDir, request: &Request) -> anyhow::Result<(Reply, Client)> {
    let mut refused = None;
    let ask = |socket: &PathBuf| {
        let mut client = Client::connect(socket)?;
        Ok((client.ask(request, ANSWER)?, client))
    };
    for socket in sockets(vm)? {
        match ask(&socket) {
            Ok(told) => return Ok(told),
            // Of those that answer something the first has the word: the founder is number 1.
            Err(_)
                if refused.as_ref().is_some_and(|e| !matches!(e, ClientError::Connect { .. })) => {}
            Err(ClientError::Connect { .. }) if refused.is_some() => {}
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.context("no daemon answers\nhint: start one with `towpath up`")?.into())
}

/// A token for so many hosts.
pub(crate) fn issue_token(vm: &VmDir, ttl_s: u64, uses: Option<u32>) -> anyhow::Result<String> {
    Ok(issue(vm, ttl_s, uses)?.0)
}

/// The same, and the connection to who issued it.
fn issue(vm: &VmDir, ttl_s: u64, uses: Option<u32>) -> anyhow::Result<(String, Client)> {
    match ask_founder(vm, &Request::Invite { ttl_s, uses })? {
        (Reply::Token(token), client) => Ok((token, client)),
        _ => bail!("the daemon answers something else than was asked"),
    }
}

pub(crate) fn token(vm: &VmDir, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return list_tokens(vm, args);
    }
    if !args.revoke.is_empty() {
        return revoke_tokens(vm, args);
    }
    let ttl_s = args.ttl.as_secs();
    let (token, mut founder) = issue(vm, ttl_s, args.uses)?;
    let id = token.parse::<Token>().context("the daemon's token")?.id();
    // It has tried to write it down before it answered.
    let trouble = founder.info()?.trouble;
    if args.json {
        putln!(
            "{}",
            json!({
                "token": token, "id": id, "ttl_s": ttl_s, "uses": args.uses, "trouble": trouble,
            })
        )?;
    } else {
        putln!("{token}")?;
        let hosts = match args.uses {
            None => String::new(),
            Some(1) => " for one host".into(),
            Some(n) => format!(" for {n} hosts"),
        };
        eprintln!(
            "token {id}, valid for {ttl_s} s{hosts}; on the other machine: towpath join TOKEN"
        );
    }
    if trouble.iter().any(|line| line.starts_with("the list of tokens")) {
        eprintln!(
            "warning: token {id} is not written down: should the founder's daemon end before it \
             can be, it admits nobody where no other host may lead"
        );
    }
    for line in trouble {
        eprintln!("warning: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

fn list_tokens(vm: &VmDir, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let Reply::Tokens(mut tokens) = ask_founder(vm, &Request::Tokens)?.0 else {
        bail!("the daemon answers something else than was asked");
    };
    tokens.retain(|t| args.all || t.admits());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.unwrap_or_default().as_secs();
    if args.json {
        let row = |t: &TokenInfo| {
            let left = t.expiry_unix_s.saturating_sub(now_s);
            json!({ "id": t.id, "expires_in_s": left, "uses": t.uses, "uses_max": t.uses_max })
        };
        let rows: Vec<_> = tokens.iter().map(row).collect();
        putln!("{}", json!({ "vm": vm.name, "tokens": rows }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if tokens.is_empty() {
        eprintln!("no token of `{}` is good", vm.name);
        return Ok(ExitCode::SUCCESS);
    }
    putln!("{:8}  {:>12}  {:>8}  of", "token", "expires in s", "admitted")?;
    for t in tokens {
        let left = t.expiry_unix_s.saturating_sub(now_s);
        let max = t.uses_max.map_or_else(|| "any".into(), |max| max.to_string());
        putln!("{:8}  {left:>12}  {:>8}  {max}", t.id, t.uses)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke_tokens(vm: &VmDir, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    for id in &args.revoke {
        ask_founder(vm, &Request::Revoke { id: id.clone() })?;
        if !args.json {
            eprintln!("token {id} is revoked; hosts that it has admitted stay");
        }
    }
    if args.json {
        putln!("{}", json!({ "vm": vm.name, "revoked": args.revoke }))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The associations of a daemon with other hosts, so many at a time.
pub(crate) fn ask_networks(
    client: &mut Client,
    me: HostId,
    all: &mut Vec<(HostId, Network)>,
) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let Reply::Networks { networks, more } =
            client.ask(&Request::Networks { after }, ANSWER)?
        else {
            bail!("the daemon answers something else than was asked");
        };
        after = networks.last().map(|network| network.host);
        all.extend(networks.into_iter().map(|network| (me, network)));
        if !more || after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_host_that_is_unknown_is_asked_for_again_and_nothing_else_is() {
        let (asked, waits) = (Cell::new(0), Cell::new(3_u32));
        let ask = |known_at: u32, why: &'static str| {
            asked.set(0);
            let (asked, waits) = (&asked, &waits);
            waits.set(3);
            again(
                move || {
                    asked.set(asked.get() + 1);
                    match why {
                        _ if asked.get() == known_at => Ok(()),
                        "" => known_host(&[], "h3").map(|_| ()),
                        why => bail!(why),
                    }
                },
                || waits.replace(waits.get().saturating_sub(1)) > 0,
            )
        };
        ask(3, "").unwrap();
        assert_eq!(asked.get(), 3);
        let said = ask(9, "").unwrap_err().to_string();
        assert!(said.starts_with("no host `h3`\nhint: "), "{said}");
        assert_eq!(asked.get(), 4, "once, and once for each time that was waited");
        assert_eq!(ask(9, "no daemon").unwrap_err().to_string(), "no daemon");
        assert_eq!(asked.get(), 1);
    }
}
