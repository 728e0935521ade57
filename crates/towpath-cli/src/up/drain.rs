//! `host drain`: a host is given nothing new, until what runs there has ended.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde_json::json;
use towpath::protocol::Request;
use towpath::{Client, VmDir};
use towpath_report::text::visible;
use towpath_report::words::counted;
use towpath_vm::{Host, HostState};
use towpath_wire::HostId;

use super::command::SOME_FAILED;
use crate::control::{self, ANSWER};

/// How often it is looked what still runs.
const LOOK: Duration = Duration::from_millis(250);
/// How long the log may take.
const DECIDED: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath host drain h3                  nothing new there; waits until nothing runs there
  towpath host drain h3 --timeout 10m    the same, for ten minutes at most
  towpath host drain h3 --no-wait        only says that nothing new is to run there
  towpath host drain h3 --undo           as before

Neither `run`, `farm` nor tasks that spawn choose a drained host; what runs there goes on, and so
does what its daemon serves elsewhere: both are waited for. Then `towpath host delete h3` takes it
out, or its daemon is ended there (`towpath down --local`), its machine seen to, and `towpath join`
brings it back as a host that is given work again. Interrupted, the host stays drained.

Run it on the machine of the host that leads. Exit status: 0 nothing runs on any of them; 1
something still does after --timeout, or a host has not told; 255 it could not be done, or a host
was lost meanwhile.")]
pub(super) struct DrainArgs {
    /// Hosts: h2, 2, or the name that `towpath hosts` shows
    #[arg(value_name = "HOST", required = true)]
    names: Vec<String>,
    /// Give them work again
    #[arg(long, conflicts_with_all = ["no_wait", "timeout"])]
    undo: bool,
    /// Do not wait until nothing runs there
    #[arg(long)]
    no_wait: bool,
    /// Wait for so long at most
    #[arg(long, value_name = "DURATION", value_parser = control::time)]
    timeout: Option<Duration>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What still keeps a host busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Busy {
    /// Tasks that run there.
    here: usize,
    /// Tasks elsewhere whose job it serves.
    served: usize,
}

impl Busy {
    fn text(self) -> String {
        let here = counted(self.here as u64, "task");
        match self.served {
            0 => format!("{here} there"),
            n => format!("{here} there, {} elsewhere that it serves", counted(n as u64, "task")),
        }
    }
}

pub(super) fn drain(vm: &VmDir, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let mut leader = control::leader(vm)?;
    let hosts = control::host_table(&mut leader)?;
    let mut wanted: Vec<Host> = Vec::new();
    for name in &args.names {
        let host = control::find_host(&hosts, name)?;
        if !wanted.iter().any(|h| h.id == host.id) {
            wanted.push(host);
        }
    }
    let on = !args.undo;
    for host in &wanted {
        leader.ask(&Request::Drain { host: host.id, on }, ANSWER)?;
    }
    decided(&mut leader, &wanted, on)?;
    let waits = on && !args.no_wait;
    let (left, unknown) =
        if waits { wait(&mut leader, &wanted, args)? } else { Default::default() };
    if args.json {
        let told: Vec<_> = wanted
            .iter()
            .map(|h| {
                let known = waits && unknown.is_empty();
                let busy = left.get(&h.id).copied().or(known.then(Busy::default));
                json!({
                    "host": h.id.to_string(), "name": h.name, "drains": on,
                    "tasks": busy.map(|busy| busy.here), "serves": busy.map(|busy| busy.served),
                })
            })
            .collect();
        putln!("{}", json!({ "vm": vm.name, "hosts": told, "not_told": unknown }))?;
    } else {
        for h in &wanted {
            let what = match left.get(&h.id) {
                _ if !on => "is given work again".into(),
                Some(busy) => format!("is drained; still {}", busy.text()),
                None if !unknown.is_empty() => "is drained".into(),
                None if waits => "is drained, and nothing runs there".into(),
                None => "is drained".to_string(),
            };
            eprintln!("{} ({}) {what}", h.id, visible(&h.name));
        }
    }
    Ok(ExitCode::from(if left.is_empty() && unknown.is_empty() { 0 } else { SOME_FAILED }))
}

/// Waits until the log says so.
fn decided(client: &mut Client, wanted: &[Host], on: bool) -> anyhow::Result<()> {
    let until = Instant::now() + DECIDED;
    loop {
        let hosts = control::host_table(client)?;
        let is = |w: &&Host| hosts.iter().any(|h| h.id == w.id && h.drains() != on);
        let Some(open) = wanted.iter().find(is) else { return Ok(()) };
        if Instant::now() >= until {
            bail!(
                "host {} has not changed within {} s: most of those that keep the log may be \
                 silent\nhint: `towpath status`",
                open.id,
                DECIDED.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What still keeps hosts busy, and what is said of hosts that do not tell.
type Left = (BTreeMap<HostId, Busy>, Vec<String>);

/// Waits until nothing runs on them any more, which every host has to have told; what still does.
fn wait(client: &mut Client, wanted: &[Host], args: &DrainArgs) -> anyhow::Result<Left> {
    let until = args.timeout.and_then(|time| Instant::now().checked_add(time));
    let mut told = Left::default();
    loop {
        let left = busy(client, wanted)?;
        let (busy, unknown) = &left;
        if left != told && (std::io::stderr().is_terminal() || told == Left::default()) {
            for (host, busy) in busy {
                eprintln!("{host}: {}", busy.text());
            }
            for line in unknown {
                eprintln!("waiting for {line}");
            }
        }
        let over = busy.is_empty() && unknown.is_empty();
        if over || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(left);
        }
        told = left;
        std::thread::sleep(LOOK);
    }
}

fn busy(client: &mut Client, wanted: &[Host]) -> anyhow::Result<Left> {
    let hosts = control::host_table(client)?;
    let up: Vec<Host> = hosts.into_iter().filter(|h| h.state == HostState::Up).collect();
    if let Some(gone) = wanted.iter().find(|w| up.iter().all(|h| h.id != w.id)) {
        bail!("host {} is lost, or has left, meanwhile\nhint: `towpath hosts`", gone.id);
    }
    let (tasks, unknown) = control::tasks_of(client, &up)?;
    let mut all: BTreeMap<HostId, Busy> = BTreeMap::new();
    for task in &tasks {
        let (here, serves) = (task.id.host(), task.requester);
        if wanted.iter().any(|h| h.id == here) {
            all.entry(here).or_default().here += 1;
        }
        if here != serves && wanted.iter().any(|h| h.id == serves) {
            all.entry(serves).or_default().served += 1;
        }
    }
    Ok((all, unknown))
}
