//! `host add` and `host delete`: hosts come and go while the virtual machine runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use towpath::protocol::{Reply, Request, TokenInfo};
use towpath::start::hostfile::Machine;
use towpath::start::machines::{self, Source};
use towpath::{Client, VmDir};
use towpath_vm::{Host, HostState};
use towpath_wire::Rate;

use super::command::SOME_FAILED;
use super::drain::{DrainArgs, drain};
use super::local::link_rate;
use super::remote::{Failed, Machines, RemoteArgs, read};
use crate::control::{self, ANSWER};
use crate::interrupt::INTERRUPTED;

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// Start hosts on other machines and take them in
    Add(AddArgs),
    /// Have hosts given nothing new, and wait until nothing runs there
    Drain(DrainArgs),
    /// Take hosts out: their tasks end, their daemons too
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath host add node7 alice@node[8-9]:4
  towpath host add --hostfile more.txt

Run it on the machine of the host that leads. Exit status: 0 all were added; 1 some were
not, each with its reason; 255 none.")]
struct AddArgs {
    /// Names, with `user@` before and `:SLOTS` behind if wanted; `n[1-3]` is three
    #[arg(value_name = "NAME", required_unless_present = "hostfile")]
    names: Vec<String>,
    /// Also the machines of this file (see `towpath up --help`)
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Does not count: the founder's does, for all hosts
    #[arg(long, value_name = "MS", hide = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=600_000))]
    lost_after_ms: Option<u32>,
    /// How fast each address of these hosts sends at most (see `towpath up --help`)
    #[arg(long, value_name = "RATE", value_parser = link_rate)]
    link_rate: Option<Rate>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath host delete node7 h3

Run it on the machine of the host that leads. One that kept the log may know all tokens:
they are revoked with it. Exit status: 0 all were deleted; 1 some were not, each with its
reason; 255 none.")]
struct DeleteArgs {
    /// Hosts: h2, 2, or the name that `towpath hosts` shows
    #[arg(value_name = "HOST", required = true)]
    names: Vec<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn host(vm: &VmDir, args: &HostArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        HostCommand::Add(args) => add(vm, args),
        HostCommand::Drain(args) => drain(vm, args),
        HostCommand::Delete(args) => delete(vm, args),
    }
}

/// All that is named, in a row.
fn wanted(args: &AddArgs) -> anyhow::Result<Vec<Machine>> {
    let mut list = machines::named(&args.names.join(","), "names")?;
    if let Some(path) = &args.hostfile {
        for machine in read(path)? {
            if list.iter().any(|m| m.name == machine.name) {
                bail!("host `{}` is named and in the file", machine.name);
            }
            list.push(machine);
        }
    }
    Ok(list)
}

fn add(vm: &VmDir, args: &AddArgs) -> anyhow::Result<ExitCode> {
    let mut list = wanted(args)?;
    let hosts = control::host_table(&mut control::leader(vm)?)?;
    let mut failed: Vec<Failed> = Vec::new();
    list.retain(|m| {
        let there = hosts.iter().find(|h| h.name == m.name && h.state == HostState::Up);
        failed.extend(there.map(|h| Failed {
            name: m.name.clone(),
            why: format!("is part of the virtual machine already, as {}", h.id),
        }));
        there.is_none()
    });
    for machine in &mut list {
        machine.options.link_rate = args.link_rate;
    }
    let machines = Machines { source: Source::Names, list };
    let outcome = args.remote.start(vm, &machines, args.lost_after_ms, None)?;
    failed.extend(outcome.failed);
    let added = &outcome.started;
    if args.json {
        putln!("{}", json!({ "vm": vm.name, "added": added, "failed": failed }))?;
    } else {
        for s in added {
            eprintln!("added: {}: {} at {}", s.name, s.host, s.addr);
        }
        for f in &failed {
            eprintln!("not added: {}: {}", f.name, f.why);
        }
    }
    if outcome.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(exit(added.len(), failed.len()))
}

fn delete(vm: &VmDir, args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let mut leader = control::leader(vm)?;
    let hosts = control::host_table(&mut leader)?;
    let good = tokens(&mut leader);
    let (mut deleted, mut failed): (Vec<Host>, Vec<Failed>) = (Vec::new(), Vec::new());
    for name in &args.names {
        if deleted.iter().any(|h| control::is_called(h, name)) {
            continue;
        }
        let result = control::known_host(&hosts, name).and_then(|host| {
            leader.ask(&Request::Delete { host: host.id }, ANSWER)?;
            Ok(host)
        });
        match result {
            Ok(host) => deleted.push(host),
            Err(e) => failed.push(Failed { name: name.clone(), why: e.to_string() }),
        }
    }
    let revoked = match (good, tokens(&mut leader)) {
        (Some(good), Some(left)) => good.difference(&left).count(),
        _ => 0,
    };
    if args.json {
        let gone: Vec<_> =
            deleted.iter().map(|h| json!({ "host": h.id.to_string(), "name": h.name })).collect();
        putln!(
            "{}",
            json!({
                "vm": vm.name, "deleted": gone, "failed": failed, "tokens_revoked": revoked
            })
        )?;
    } else {
        for h in &deleted {
            eprintln!("deleted: {} ({})", h.id, h.name);
        }
        if revoked > 0 {
            let all =
                if revoked == 1 { "1 token is".into() } else { format!("{revoked} tokens are") };
            eprintln!(
                "{all} revoked, which a deleted host may know\nhint: `towpath token` issues another"
            );
        }
        for f in &failed {
            eprintln!("not deleted: {}: {}", f.name, f.why);
        }
    }
    Ok(exit(deleted.len(), failed.len()))
}

/// The tokens that admit anybody, by their names, where that can be said.
fn tokens(leader: &mut Client) -> Option<BTreeSet<String>> {
    let Ok(Reply::Tokens(tokens)) = leader.ask(&Request::Tokens, ANSWER) else { return None };
    Some(tokens.into_iter().filter(TokenInfo::admits).map(|token| token.id).collect())
}

/// What a command for several hosts ends with.
pub(crate) fn exit(done: usize, failed: usize) -> ExitCode {
    ExitCode::from(match (done, failed) {
        (_, 0) => 0,
        (0, _) => 255,
        _ => SOME_FAILED,
    })
}
