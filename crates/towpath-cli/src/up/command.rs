//! `init` and `up`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath::config::SOCK;
use towpath::daemon::Started;
use towpath::kept::{self, Returning};
use towpath::lock::{Holder, is_locked};
use towpath::start::hostfile::{Machine, Options};
use towpath::start::machines::Source;
use towpath::{Client, VmDir, table};

use super::local::{Interrupted, Leading, Start, Tuning};
use super::remote::{Failed, Machines, Outcome, RemoteArgs, is_here, reachable};
use crate::{control, down, interrupt, network};

/// How long the tokens live that `up` makes for its own hosts.
const OWN_TOKEN_S: u64 = 120;
/// Where a host receives that is told nothing else.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Why a founder may not come back.
const NOBODY_LEADS: &str = "others may lead this virtual machine by now, and none of them took \
    this host in\nhint: start one of them, or all that voted; where most of those are gone for \
    good, `towpath up --recover` leads again from what this host kept";
/// Exit status when some hosts are up and some are not.
pub(super) const SOME_FAILED: u8 = 1;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath up                        one host
  towpath up --hosts 3              three hosts, on loopback addresses
  towpath up --hosts 3 --voters 1   the first one alone leads (see --voters)
  towpath up --link-rate 950Mbit/s  one that is paced, so that tasks can reserve on its link
  towpath up --hosts 3 --link-rate 95Mbit/s --topology office.toml
                                    the same for the whole way between two hosts
  towpath up --listen 0.0.0.0:7077  one host that other machines can join (see `towpath token`)
  towpath up --listen 192.0.2.1:7077 --listen '[2001:db8::1]:7077'
                                    one that receives at both addresses
  towpath up --hostfile hosts.txt   this machine and those of the file, started by ssh
  TOWPATH_HOSTS=a,b[1-3]:4 towpath up
  towpath up                        in a Slurm job: on its nodes

Host file: one host a line, `[user@]NAME [slots=N] [addr=IP[:PORT]] [home=DIR] [towpath=PATH]`;
`#` begins a comment, `*` for a name gives options to the lines below it, `n[01-16]` is sixteen
hosts. This machine leads at first; it need not be in the file. Without a file, TOWPATH_HOSTS
counts, then SLURM_JOB_NODELIST; --hosts turns both off. Hosts need Towpath and a way for UDP
between all of them; ssh must not ask for anything. A Slurm job's are started by srun if there is
one.

Exit status: 0 all hosts are up; 1 some are not (the others are, and each failure was told); 255
none is.")]
pub(crate) struct UpArgs {
    /// How many hosts to start on this machine [default: 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["hostfile", "slurm"])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    hosts: Option<u16>,
    /// Start hosts on the machines of this file
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Where the first host receives; the others here take the next ports (port 0: any free one)
    /// [default: where it was, if it starts again, else 127.0.0.1:0, or the address that leads to
    /// the other machines]. May be given up to eight times, the address for other hosts first
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    leading: Leading,
    /// What the network is, so that channels can be promised the whole way (see `towpath network`)
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn init(vm: &VmDir, args: &InitArgs) -> anyhow::Result<ExitCode> {
    let new = vm.found()?;
    if args.json {
        putln!("{}", json!({ "vm": vm.name, "path": vm.path, "new": new }))?;
    } else {
        let state = if new { "made" } else { "is there already" };
        eprintln!("virtual machine `{}` {state}: {}", vm.name, vm.path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// This machine's part of the list, and the others.
fn split(mut machines: Machines, own: Option<&str>) -> (Options, Option<String>, Machines) {
    let is_own = |m: &Machine| own == Some(m.name.as_str()) || is_here(&m.name);
    let here = machines.list.iter().position(is_own);
    let here = here.map(|at| machines.list.remove(at));
    let name = here.as_ref().map(|m| m.name.clone()).or_else(|| own.map(String::from));
    (here.map_or_else(Options::default, |m| m.options), name, machines)
}

pub(crate) fn up(vm: &VmDir, args: &UpArgs) -> anyhow::Result<ExitCode> {
    let topology = args.topology.as_deref().map(network::read).transpose()?;
    let status = start_all(vm, args)?;
    if let Some(topology) = topology {
        network::set(vm, topology)?;
    }
    Ok(status)
}

fn start_all(vm: &VmDir, args: &UpArgs) -> anyhow::Result<ExitCode> {
    let named = match args.hosts {
        Some(_) => None,
        None => args.remote.machines(args.hostfile.as_deref())?,
    };
    let returning = check_down(vm, args.leading)?;
    let hosts = args.hosts.unwrap_or(1);
    let Some(machines) = named else {
        let before = returning.and_then(|it| it.addr).map(|addr| addr.ip());
        let ip = match before.filter(|ip| *ip != LOOPBACK && args.listen.is_empty()) {
            Some(ip) => again_at(ip)?,
            None => LOOPBACK,
        };
        // On the port of before, if it is free.
        let here = SocketAddr::new(ip, 0);
        let listen = if args.listen.is_empty() { &[here][..] } else { &args.listen };
        let how = (&args.tuning, args.leading, returning);
        let started = start_here(vm, hosts, listen, how)?;
        report(vm, &started, &[], args.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    if machines.source != Source::Hostfile {
        let list: Vec<&str> = machines.list.iter().map(|m| m.name.as_str()).take(8).collect();
        let more = if machines.list.len() > list.len() { ", …" } else { "" };
        let from = if machines.source == Source::Slurm { "Slurm" } else { "TOWPATH_HOSTS" };
        eprintln!("hosts of {from}: {}{more}", list.join(", "));
    }
    let how = (&args.remote, &args.tuning, args.leading);
    let outcome = start_machines(vm, machines, (None, returning), &args.listen, how)?;
    if outcome.interrupted {
        return Err(Interrupted.into());
    }
    report(vm, &outcome.started, &outcome.failed, args.json)?;
    Ok(ExitCode::from(if outcome.failed.is_empty() { 0 } else { SOME_FAILED }))
}

/// Starts so many hosts on this machine, or none.
fn start_here(
    vm: &VmDir,
    hosts: u16,
    listen: &[SocketAddr],
    (tuning, leading, returning): (&Tuning, Leading, Option<Returning>),
) -> anyhow::Result<Vec<Started>> {
    let interrupt = interrupt::flag()?;
    let tuning = tuning.for_hosts(hosts);
    let first = found(vm, listen, (&tuning, leading), None, (&[], returning), &interrupt)?;
    let own = returning.map_or(1, |it| it.number);
    let mut started = vec![first];
    if let Err(e) = start_rest(vm, (hosts, own), listen, &tuning, &mut started, &interrupt) {
        // Half a virtual machine is of no use to anyone, but for what it was before.
        if returning.is_none() {
            let _ = down::end_all(vm, true);
        }
        return Err(e);
    }
    Ok(started)
}

/// Founds the virtual machine here and starts a host on each of the other machines; ends what it
/// started where it cannot go on. `own` names this machine, beside the names that it has anyway.
pub(super) fn start_machines(
    vm: &VmDir,
    machines: Machines,
    (own, returning): (Option<&str>, Option<Returning>),
    listen: &[SocketAddr],
    (remote, tuning, leading): (&RemoteArgs, &Tuning, Leading),
) -> anyhow::Result<Outcome> {
    let (options, name, mut machines) = split(machines, own);
    for machine in &mut machines.list {
        machine.options.slots = machine.options.slots.or(tuning.slots);
        machine.options.link_rate = tuning.link_rate;
    }
    let own_addr = match options.addr {
        _ if !listen.is_empty() => None,
        Some(addr) => Some(addr),
        None if machines.list.is_empty() => Some(([127, 0, 0, 1], 0).into()),
        None => Some(SocketAddr::new(reachable(&machines.list)?, 0)),
    };
    let listen = own_addr.as_ref().map_or(listen, std::slice::from_ref);
    let tuning = Tuning { slots: options.slots.or(tuning.slots), ..tuning.clone() };
    let tuning_here = tuning.for_hosts(1);
    let interrupt = interrupt::flag()?;
    let own = (&tuning_here, leading);
    let how = (&options.env[..], returning);
    let first = found(vm, listen, own, name.as_deref(), how, &interrupt)?;
    // Whoever starts the others takes them.
    let came = interrupt.load(Ordering::Relaxed);
    drop(interrupt);
    let undo = || {
        if returning.is_none() {
            let _ = down::end_all(vm, true);
        }
    };
    if came {
        undo();
        return Err(Interrupted.into());
    }
    let outcome = remote.start(vm, &machines, tuning.lost_after_ms, None);
    if outcome.as_ref().map_or(true, |outcome| outcome.interrupted) {
        undo();
    }
    let mut outcome = outcome?;
    outcome.started.insert(0, first);
    Ok(outcome)
}

/// How long one that was killed may take to be gone.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for one that is ending: its lock is still held, and it answers nobody.
fn await_end(dir: &Path) {
    let until = Instant::now() + ENDS_WITHIN;
    let ends = || {
        is_locked(dir)
            && Holder::stopped(dir).is_none()
            && Client::connect(&dir.join(SOCK)).and_then(|mut client| client.info()).is_err()
    };
    while Instant::now() < until && ends() {
        std::thread::sleep(LOOK);
    }
}

/// Which daemon of this machine begins the virtual machine again; `None`: the first founds it.
pub(super) fn check_down(vm: &VmDir, leading: Leading) -> anyhow::Result<Option<Returning>> {
    for n in vm.local_hosts()? {
        await_end(&vm.host(n));
    }
    let (returning, passed_over) = kept::returning(vm, leading.recover)?;
    if let Some(why) = passed_over {
        eprintln!("passed over: {why}");
    }
    if !returning.is_some_and(|it| it.was_let_in) {
        vm.found()?;
    }
    if returning.is_none() && leading.recover {
        bail!(
            "no daemon of `{}` that does not run has kept anything here\n\
             hint: without --recover a virtual machine begins anew",
            vm.name
        );
    }
    // One that kept its table comes back to the hosts that still run.
    let mut running = vm.local_hosts()?.into_iter().filter(|n| is_locked(&vm.host(*n)));
    if let Some(n) = running.next().filter(|_| returning.is_none()) {
        let called = control::called(n, Holder::of(&vm.host(n)).as_ref());
        bail!(
            "virtual machine `{}` is up already: {called}\nhint: `towpath hosts` shows it, \
             `towpath down` ends it, `--vm NAME` makes another",
            vm.name
        );
    }
    Ok(returning)
}

/// Where a host received that starts again, and is not told another address: the others know it
/// there, and may not reach it at loopback.
fn again_at(ip: IpAddr) -> anyhow::Result<IpAddr> {
    UdpSocket::bind((ip, 0)).with_context(|| {
        format!(
            "this host was at {ip}, and that is no address of this machine any more\n\
             hint: `towpath up --listen ADDR:PORT` with its new one"
        )
    })?;
    eprintln!("at {ip}, where the others know it (--listen for another address)");
    Ok(ip)
}

/// Starts the one that founds the virtual machine, or begins it again.
fn found(
    vm: &VmDir,
    listen: &[SocketAddr],
    (tuning, mut leading): (&Tuning, Leading),
    name: Option<&str>,
    (env, returning): (&[(String, String)], Option<Returning>),
    interrupt: &AtomicBool,
) -> anyhow::Result<Started> {
    let number = returning.map_or(1, |it| it.number);
    if returning.is_some_and(|it| it.is_all) && !leading.recover {
        eprintln!(
            "all hosts are daemons of this machine, and none runs: daemon {number} leads again \
             from what it kept"
        );
        leading.recover = true;
    }
    let returns = !leading.recover && returning.is_some_and(|it| it.is_shared);
    let start = Start { vm, number, listen, tuning, leading, returns, token: None, name, env };
    if returns {
        eprintln!("asking the others that may lead; where all of them start again, one begins");
    }
    let started = start.start()?.wait(interrupt);
    let told = || {
        let table = table::path(&vm.host(number.into()));
        format!("{NOBODY_LEADS}; if it is over, remove {}", table.display())
    };
    Ok(if returns { started.with_context(told)? } else { started? }.0)
}

fn start_rest(
    vm: &VmDir,
    (hosts, own): (u16, u16),
    first: &[SocketAddr],
    tuning: &Tuning,
    started: &mut Vec<Started>,
    interrupt: &AtomicBool,
) -> anyhow::Result<()> {
    if hosts == 1 {
        return Ok(());
    }
    let token = control::issue_token(vm, OWN_TOKEN_S, Some(u32::from(hosts) - 1))?;
    // One after the other, so that daemon n of this machine is host n.
    let others = (1..=hosts).filter(|number| *number != own);
    for number in others.take(usize::from(hosts) - 1) {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        if is_locked(&vm.host(number.into())) {
            continue; // it came back, or will
        }
        let mut listen = first.to_vec();
        for addr in listen.iter_mut().filter(|addr| addr.port() != 0) {
            // Each host takes as many ports of an address as the first.
            let taken = first.iter().filter(|other| other.ip() == addr.ip()).count() as u32;
            // Whoever began again has the place of the first.
            let place = if number == 1 { own } else { number };
            let port = u32::from(addr.port()) + taken * u32::from(place - 1);
            let port = u16::try_from(port).context("ports end at 65535")?;
            addr.set_port(port);
        }
        let start = Start {
            vm,
            number,
            listen: &listen,
            tuning,
            leading: Leading::default(),
            returns: false,
            token: Some(&token),
            name: None,
            env: &[],
        };
        started.push(start.start()?.wait(interrupt)?.0);
    }
    Ok(())
}

/// Says which hosts are up and which are not.
pub(super) fn report(
    vm: &VmDir,
    started: &[Started],
    failed: &[Failed],
    json: bool,
) -> anyhow::Result<()> {
    if json {
        return Ok(putln!("{}", json!({ "vm": vm.name, "hosts": started, "failed": failed }))?);
    }
    for s in started {
        eprintln!("{} at {} (process {})", s.host, s.addr, s.pid);
    }
    let s = if started.len() == 1 { "" } else { "s" };
    let not = match failed.len() {
        0 => String::new(),
        n => format!(", {n} not"),
    };
    eprintln!("virtual machine `{}`: {} host{s} up{not}", vm.name, started.len());
    for f in failed {
        eprintln!("not up: {}: {}", f.name, f.why);
    }
    Ok(())
}
