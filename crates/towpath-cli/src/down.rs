//! `down`: the hosts end, with whatever runs on them.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use towpath::lock::{Guard, Holder, is_locked};
use towpath::protocol::{Reply, Request};
use towpath::start::parallel;
use towpath::{Client, ClientError, VmDir, daemon};
use towpath_vm::{Host, HostState};
use towpath_wire::HostId;

use crate::control::{self, ANSWER, AT_ONCE};

/// How long a daemon may take to answer, and to end then, before it is killed.
const END_WAIT: Duration = Duration::from_secs(5);
/// How long hosts of other machines may take to say that they end.
const HEAR_WAIT: Duration = Duration::from_millis(1500);
/// How long a host that keeps the log may take to be out of it.
const VOTER_WAIT: Duration = Duration::from_secs(3);
/// How long its guard may take to clean up behind it.
const GUARD_WAIT: Duration = Duration::from_secs(1);
/// How long one that was killed may take to be gone.
const KILL_WAIT: Duration = Duration::from_secs(1);
/// Exit status when something is left.
const SOME_LEFT: u8 = 1;

#[derive(Debug, Args)]
#[command(after_help = "\
On the machine of the host that leads, the hosts of other machines end, too (not with
--local). On another machine, its own hosts leave. Daemons that are stopped are woken up for it, and
killed where they do not wake.

Exit status: 0 nothing is left; 1 something is, which is told.")]
pub(crate) struct DownArgs {
    /// End this machine's hosts only
    #[arg(long)]
    local: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What [`end_all`] did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    /// Daemons of this machine that were ended.
    here: usize,
    /// Of them, those that had to be killed.
    killed: Vec<String>,
    /// Hosts of other machines that were told to end.
    deleted: usize,
    /// What still runs, with a hint.
    left: Vec<String>,
}

pub(crate) fn down(vm: &VmDir, args: &DownArgs) -> anyhow::Result<ExitCode> {
    let Ended { here, killed, deleted, left } = end_all(vm, !args.local)?;
    if args.json {
        let ended = json!({
            "vm": vm.name, "ended": here, "killed": killed.len(), "deleted": deleted, "left": left,
        });
        putln!("{ended}")?;
    } else if here == 0 && left.is_empty() {
        eprintln!("virtual machine `{}` was not up", vm.name);
    } else {
        let count = here + deleted;
        let hosts = if count == 1 { "host" } else { "hosts" };
        let note = match killed.len() {
            0 => String::new(),
            n => format!(", {n} of them killed: {}", killed.join(", ")),
        };
        eprintln!("virtual machine `{}`: {count} {hosts} down{note}", vm.name);
    }
    for line in left.iter().filter(|_| !args.json) {
        eprintln!("left: {line}");
    }
    Ok(ExitCode::from(if left.is_empty() { 0 } else { SOME_LEFT }))
}

/// Ends every local daemon, the founder last, and before it, with `everywhere`, the hosts of
/// other machines.
pub(crate) fn end_all(vm: &VmDir, everywhere: bool) -> anyhow::Result<Ended> {
    let numbers = vm.local_hosts()?;
    let (running, over): (Vec<usize>, Vec<usize>) =
        numbers.into_iter().partition(|n| is_locked(&vm.host(*n)));
    for holder in running.iter().filter_map(|n| Holder::stopped(&vm.host(*n))) {
        holder.wake();
    }
    let mut ended = Ended::default();
    let host = |n: &usize| Holder::of(&vm.host(*n)).and_then(|holder| holder.host);
    let leader = if everywhere { delete_others(vm, &running, &mut ended) } else { None };
    // Whoever leads is the last, else the founder.
    let leads = running.iter().position(|n| leader.is_some() && host(n) == leader).unwrap_or(0);
    let (last, rest): (Vec<usize>, Vec<usize>) =
        running.iter().partition(|n| running.get(leads) == Some(n));
    for daemons in [&rest[..], &last] {
        let how = parallel::each(daemons, AT_ONCE, |n| end(vm, *n), |_, _| {});
        for (n, how) in daemons.iter().zip(how) {
            ended.here += usize::from(!matches!(how, End::Left(_)));
            match how {
                End::Polite => {}
                End::Killed(holder) => ended.killed.push(control::called(*n, Some(&holder))),
                End::Left(holder) => {
                    let called = control::called(*n, holder.as_ref());
                    ended.left.push(format!(
                        "{called} does not end\nhint: see {}",
                        vm.host(*n).join("daemon.log").display()
                    ));
                }
            }
        }
    }
    for n in over {
        let dir = vm.host(n);
        end_guard(&dir, Holder::of(&dir).and_then(|holder| holder.guard()));
        // Left behind by one that was killed together with its guard.
        daemon::end_left_behind(&dir);
    }
    Ok(ended)
}

/// Sees to it that the guard of a daemon that has ended does, too: one that is stopped would stay,
/// and what it has to clean up.
fn end_guard(dir: &Path, guard: Option<Guard>) {
    let Some(guard) = guard else { return };
    guard.wake();
    if !guard.is_over(GUARD_WAIT) && guard.is_stopped() {
        guard.kill();
        guard.is_over(KILL_WAIT);
        daemon::end_left_behind(dir);
    }
}

/// How a daemon ended.
enum End {
    Polite,
    Killed(Holder),
    Left(Option<Holder>),
}

fn end(vm: &VmDir, number: usize) -> End {
    let dir = vm.host(number);
    let holder = Holder::of(&dir);
    let guard = holder.as_ref().and_then(Holder::guard);
    let how = end_engine(&dir, holder);
    if !matches!(how, End::Left(_)) {
        end_guard(&dir, guard);
    }
    how
}

fn end_engine(dir: &Path, holder: Option<Holder>) -> End {
    // One that a debugger holds was not woken.
    if Holder::stopped(dir).is_none() {
        let asked = Client::connect(&dir.join("sock"))
            .and_then(|mut client| client.ask(&Request::Shutdown, END_WAIT));
        if let (Err(ClientError::Build(_) | ClientError::Silent), Some(holder)) = (asked, &holder) {
            // Another build's daemon understands a signal.
            holder.terminate();
        }
        if is_over(dir, END_WAIT) {
            return End::Polite;
        }
    }
    let Some(holder) = holder else { return End::Left(None) };
    holder.kill();
    if is_over(dir, KILL_WAIT) { End::Killed(holder) } else { End::Left(Some(holder)) }
}

/// True once the daemon of `dir` has ended; waits for it.
fn is_over(dir: &Path, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    while is_locked(dir) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Those of the deleted hosts that did not say that they end.
fn unheard(leader: &mut Client, deleted: &[Host]) -> Vec<Host> {
    let until = Instant::now() + HEAR_WAIT;
    loop {
        let Ok(Reply::Unheard(unheard)) = leader.ask(&Request::Unheard, ANSWER) else {
            // Nobody says that they end.
            return deleted.to_vec();
        };
        let left: Vec<Host> = deleted.iter().filter(|h| unheard.contains(&h.id)).cloned().collect();
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Deletes a host. Of those that keep the log the next one can go when the one before is out.
fn delete(leader: &mut Client, host: HostId) -> Result<Reply, ClientError> {
    let until = Instant::now() + VOTER_WAIT;
    loop {
        match leader.ask(&Request::Delete { host }, ANSWER) {
            Err(why) if Instant::now() < until && format!("{why}").contains("is just leaving") => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Deletes every host that is not of this machine, if the leader is, and those of this machine that
/// keep the log with it: of two that just end, nobody could decide the second one's end. Gives the
/// leader.
fn delete_others(vm: &VmDir, running: &[usize], ended: &mut Ended) -> Option<String> {
    let ids = running.iter().filter_map(|n| Holder::of(&vm.host(*n))?.host);
    let here: Vec<String> = ids.collect();
    let is_here = |host: &Host| here.contains(&host.id.to_string());
    let is_other = |host: &Host| host.state == HostState::Up && !is_here(host);
    if let Ok(mut leader) = control::leader(vm) {
        let info = leader.info().ok();
        let (me, voters) = info.map_or((None, Vec::new()), |info| (info.me, info.voters));
        let is_voter = |host: &Host| voters.contains(&host.id) && me != Some(host.id);
        let mut deleted = control::host_table(&mut leader).unwrap_or_default();
        deleted.retain(|host| is_other(host) || host.state == HostState::Up && is_voter(host));
        // Most of those that vote have to live until all is decided.
        deleted.sort_by_key(is_voter);
        deleted.retain(|host| match delete(&mut leader, host.id) {
            Ok(_) => !is_here(host),
            Err(why) => {
                // One of this machine is ended anyway.
                let left = format!("{} ({}): {why}", host.id, host.name);
                ended.left.extend(Some(left).filter(|_| !is_here(host)));
                false
            }
        });
        let unheard = unheard(&mut leader, &deleted);
        ended.deleted += deleted.len() - unheard.len();
        ended.left.extend(unheard.into_iter().map(|Host { id, name, .. }| {
            format!(
                "{id} ({name}): it does not answer, and may run on\n\
                 hint: run `towpath down` on its machine; or `towpath up` here once it can be \
                 reached: it is told then, and ends"
            )
        }));
        return me.map(|me| me.to_string());
    }
    // Led from here, by a daemon that does not answer: nobody else can delete them.
    let mut client = control::connect(vm).ok()?;
    let leader = client.info().ok().and_then(|info| info.leader).map(|leader| leader.to_string());
    if leader.as_ref().is_some_and(|leader| here.contains(leader)) {
        let mut hosts = control::host_table(&mut client).unwrap_or_default();
        hosts.retain(is_other);
        ended.left.extend(hosts.into_iter().map(|Host { id, name, .. }| {
            format!(
                "{id} ({name}): the daemon that leads does not answer\n\
                 hint: run `towpath down` on its machine"
            )
        }));
    }
    leader
}
