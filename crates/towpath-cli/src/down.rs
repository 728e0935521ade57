//! `down`: the hosts end, with whatever runs on them.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use towpath::jobs::{self, State};
use towpath::lock::{Guard, Holder, is_locked};
use towpath::protocol::{Reply, Request};
use towpath::start::parallel;
use towpath::{Client, ClientError, VmDir, daemon};
use towpath_report::words::counted;
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
    let waits = |job: &towpath::jobs::Job| {
        let goes_on = job.about().is_some_and(|about| about.resumes);
        goes_on && matches!(job.state(), State::Runs | State::Waits)
    };
    let waiting = jobs::all(vm)?.iter().filter(|job| waits(job)).count();
    if waiting > 0 && !args.json {
        eprintln!(
            "{} started with --detach: they go on once a daemon of this machine is up again\n\
             hint: `towpath jobs` lists them, `towpath jobs end N` ends one",
            counted(waiting as u64, "job"),
        );
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
    let lead =
        if everywhere && !running.is_empty() { Lead::of(vm, &running, &mut ended) } else { None };
    let Some(mut lead) = lead else {
        let (first, rest) = running.split_at(running.len().min(1));
        end_these(vm, rest, &mut ended);
        end_these(vm, first, &mut ended);
        clean_up(vm, over);
        return Ok(ended);
    };
    // Most of those that keep the log have to live until all the others' ends are decided, and of
    // these one ends after the other.
    let host = |n: &usize| Holder::of(&vm.host(*n)).and_then(|holder| holder.host);
    let (last, rest): (Vec<usize>, Vec<usize>) =
        running.iter().partition(|n| host(n).as_ref() == Some(&lead.me));
    let (voters, rest): (Vec<usize>, Vec<usize>) =
        rest.iter().partition(|n| host(n).is_some_and(|host| lead.voters.contains(&host)));
    // One that is lost keeps others that vote from being deleted.
    lead.delete(|host, _| host.is_lost, &mut ended);
    let mut deleted = lead.delete(|host, here| !here && !host.votes, &mut ended);
    end_these(vm, &rest, &mut ended);
    deleted.extend(lead.delete(|host, _| host.votes, &mut ended));
    lead.await_alone();
    lead.hear(&deleted, &mut ended);
    end_these(vm, &voters, &mut ended);
    end_these(vm, &last, &mut ended);
    clean_up(vm, over);
    Ok(ended)
}

/// Ends daemons of this machine.
fn end_these(vm: &VmDir, daemons: &[usize], ended: &mut Ended) {
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

/// What daemons left behind that were killed together with their guards.
fn clean_up(vm: &VmDir, over: Vec<usize>) {
    for n in over {
        let dir = vm.host(n);
        end_guard(&dir, Holder::of(&dir).and_then(|holder| holder.guard()));
        daemon::end_left_behind(&dir);
    }
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

/// Another host, as whoever leads has it.
struct Member {
    id: HostId,
    name: String,
    votes: bool,
    is_lost: bool,
}

/// The daemon of this machine that leads.
struct Lead {
    client: Client,
    me: String,
    /// Those that keep the log with it.
    voters: Vec<String>,
    /// All others that are up, and those that are lost and still count as voters.
    members: Vec<Member>,
    /// The hosts of this machine.
    here: Vec<String>,
}

impl Lead {
    /// `None` where none leads; what cannot be ended for that is told.
    fn of(vm: &VmDir, running: &[usize], ended: &mut Ended) -> Option<Self> {
        let ids = running.iter().filter_map(|n| Holder::of(&vm.host(*n))?.host);
        let here: Vec<String> = ids.collect();
        let up = |hosts: Vec<Host>| hosts.into_iter().filter(|host| host.state == HostState::Up);
        let leading = control::leader(vm).ok().and_then(|mut client| {
            let info = client.info().ok()?;
            Some((client, info.me?, info.voters))
        });
        if let Some((mut client, me, voters)) = leading {
            let hosts = control::host_table(&mut client).unwrap_or_default();
            let member = |Host { id, name, state, .. }| {
                let (votes, is_lost) = (voters.contains(&id), state == HostState::Lost);
                Member { id, name, votes, is_lost }
            };
            let others = hosts.into_iter().filter(|host| host.id != me).map(member);
            let members = others.filter(|host| host.votes || !host.is_lost).collect();
            let voters = voters.iter().map(HostId::to_string).collect();
            return Some(Self { client, me: me.to_string(), voters, members, here });
        }
        // Led from here, by a daemon that does not answer: nobody else can delete them.
        let mut client = control::connect(vm).ok()?;
        let leader = client.info().ok().and_then(|info| info.leader);
        if leader.is_some_and(|leader| here.contains(&leader.to_string())) {
            let hosts = up(control::host_table(&mut client).unwrap_or_default());
            let others = hosts.filter(|host| !here.contains(&host.id.to_string()));
            ended.left.extend(others.map(|Host { id, name, .. }| {
                format!(
                    "{id} ({name}): the daemon that leads does not answer\n\
                     hint: run `towpath down` on its machine"
                )
            }));
        }
        None
    }

    fn is_here(&self, host: &Member) -> bool {
        self.here.contains(&host.id.to_string())
    }

    /// Deletes hosts; gives those of other machines.
    fn delete(&mut self, which: impl Fn(&Member, bool) -> bool, ended: &mut Ended) -> Vec<Member> {
        let (these, rest): (Vec<Member>, Vec<Member>) =
            std::mem::take(&mut self.members).into_iter().partition(|h| which(h, self.is_here(h)));
        self.members = rest;
        let mut deleted = Vec::new();
        for host in these {
            let is_here = self.is_here(&host);
            match self.client.ask(&Request::Delete { host: host.id }, ANSWER) {
                // One of this machine is ended anyway.
                _ if is_here => {}
                Ok(_) => deleted.push(host),
                Err(why) => ended.left.push(format!(
                    "{} ({}): {why}\nhint: run `towpath down` on its machine",
                    host.id, host.name
                )),
            }
        }
        deleted
    }

    /// Waits until nobody keeps the log with it any more.
    fn await_alone(&mut self) {
        let until = Instant::now() + VOTER_WAIT;
        while Instant::now() < until
            && self.client.info().is_ok_and(|info| info.voters.iter().any(|v| info.me != Some(*v)))
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the deleted hosts to say that they end.
    fn hear(&mut self, deleted: &[Member], ended: &mut Ended) {
        let until = Instant::now() + HEAR_WAIT;
        let left: Vec<&Member> = loop {
            let Ok(Reply::Unheard(unheard)) = self.client.ask(&Request::Unheard, ANSWER) else {
                // Nobody says that they end.
                break deleted.iter().collect();
            };
            let left: Vec<_> = deleted.iter().filter(|h| unheard.contains(&h.id)).collect();
            if left.is_empty() || Instant::now() > until {
                break left;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        ended.deleted += deleted.len() - left.len();
        ended.left.extend(left.into_iter().map(|Member { id, name, .. }| {
            format!(
                "{id} ({name}): it does not answer, and may run on\n\
                 hint: run `towpath down` on its machine; or `towpath up` here once it can be \
                 reached: it is told then, and ends"
            )
        }));
    }
}
