//! `daemon`: one host's process, in the foreground.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use towpath::daemon::{self, DaemonOptions, EngineArgs, Role, Started};
use towpath::start::processors;
use towpath::{VmDir, log};
use towpath_report::text::causes;

use super::local::{Leading, Tuning};

/// Names how fast a host is beside others.
pub(super) const SPEED_VAR: &str = "TOWPATH_SPEED";

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Number of the daemon on this machine
    #[arg(long)]
    number: u16,
    /// Read a token from standard input and join; else found the virtual machine
    #[arg(long)]
    join: bool,
    /// Leave the terminal's session
    #[arg(long)]
    detach: bool,
    /// Where to receive; may be given several times
    #[arg(long, required = true)]
    listen: Vec<std::net::SocketAddr>,
    /// The host's name (default: this machine's and the number)
    #[arg(long)]
    name: Option<String>,
    /// Given by the guard to the engine: the guard's process
    #[arg(long = "engine-of", hide = true)]
    guard: Option<u32>,
    /// Given by the guard to the engine: the control group to be in
    #[arg(long, hide = true)]
    group: Option<PathBuf>,
    /// Given by the guard to the engine: where it reads what is to be said for it
    #[arg(long, hide = true)]
    words: Option<PathBuf>,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    leading: Leading,
}

pub(crate) fn daemon(vm: &VmDir, args: &DaemonArgs) -> anyhow::Result<ExitCode> {
    let Some(guard) = args.guard else {
        if args.detach {
            let _ = rustix::process::setsid();
        }
        let dir = vm.make_host(args.number.into())?;
        log::start(&dir);
        return Ok(daemon::guard(&dir, &format!("{}-{}", vm.name, args.number))?);
    };
    let engine =
        EngineArgs { guard: Some(guard), group: args.group.clone(), words: args.words.clone() };
    log::start(&vm.host(args.number.into()));
    let result = options(vm, args, engine).and_then(|options| {
        let mut ready = |started: &Started| {
            say(&json!({ "started": started }));
            tell_systemd();
        };
        Ok(daemon::run(&options, &mut ready)?)
    });
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            say(&json!({ "failed": causes(e.chain()) }));
            Err(e)
        }
    }
}

/// Tells whoever started us. Nobody may be listening any more.
fn say(value: &Value) {
    let _ = writeln!(std::io::stdout(), "{value}");
}

/// Tells systemd, where it started us and waits for that (`sd_notify(3)`).
fn tell_systemd() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}

/// Of `TOWPATH_SPEED`; 1000 is usual.
fn speed() -> u32 {
    let set = std::env::var(SPEED_VAR).ok().and_then(|text| text.parse().ok());
    set.filter(|speed| (1..=1_000_000).contains(speed)).unwrap_or(1000)
}

fn options(vm: &VmDir, args: &DaemonArgs, engine: EngineArgs) -> anyhow::Result<DaemonOptions> {
    let role = if args.join {
        let mut text = String::new();
        std::io::stdin().take(4096).read_to_string(&mut text)?;
        Role::Join(text.parse()?)
    } else {
        Role::Found(vm.vm_key_of(args.number.into())?)
    };
    let name = args.name.clone().unwrap_or_else(|| {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{node}/{}", args.number)
    });
    let cpus = processors::available();
    Ok(DaemonOptions {
        vm: vm.name.clone(),
        dir: vm.host(args.number.into()),
        listen: args.listen.clone(),
        role,
        name,
        speed: speed(),
        cpus,
        slots: args.tuning.slots.unwrap_or(cpus + 1),
        lost_after_ms: args.tuning.lost_after_ms,
        voters: args.leading.voters,
        recover: args.leading.recover,
        link_rate: args.tuning.link_rate,
        stripe: args.tuning.stripe,
        coding: args.tuning.coding,
        standby: args.tuning.standby.clone(),
        engine,
    })
}
