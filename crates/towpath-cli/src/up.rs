//! Starting daemons: `init`, `up`, `join`, `daemon`.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use towpath::config::{LOCAL_HOSTS_MAX, make_dir};
use towpath::daemon::{self, DaemonOptions, Role, Started};
use towpath::{Token, VmDir};

use crate::control;

/// How long a daemon may take to say that it is part of its virtual machine.
const START_WAIT: Duration = Duration::from_secs(15);
/// How long the tokens live that `up` makes for its own hosts.
const OWN_TOKEN_S: u64 = 120;

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
  towpath up --listen 0.0.0.0:7077  one host that other machines can join (see `towpath token`)")]
pub(crate) struct UpArgs {
    /// How many hosts to start on this machine
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    hosts: u16,
    /// Where the first host receives; the others take the next ports (port 0: any free one)
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    tuning: Tuning,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath token                     on the first machine; then, on this one:
  towpath join tow1-…               join with the token it printed
  towpath join - < token.txt        the same, with the token kept off the command line")]
pub(crate) struct JoinArgs {
    /// The token; `-` reads it from standard input
    token: String,
    /// Where this host receives (default: any port of the address that leads to the founder)
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    tuning: Tuning,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Tuning {
    /// Jobs that each host runs at once (default: its share of the processors, and one)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: Option<u16>,
    /// A host that answers nothing for so long is lost, in milliseconds
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=600_000))]
    lost_after_ms: u32,
}

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
    /// Where to receive
    #[arg(long)]
    listen: SocketAddr,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) fn init(vm: &VmDir, args: &InitArgs) -> anyhow::Result<ExitCode> {
    let new = vm.found()?;
    if args.json {
        println!("{}", json!({ "vm": vm.name, "path": vm.path, "new": new }));
    } else {
        let state = if new { "made" } else { "is there already" };
        eprintln!("virtual machine `{}` {state}: {}", vm.name, vm.path.display());
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn up(vm: &VmDir, args: &UpArgs) -> anyhow::Result<ExitCode> {
    vm.found()?;
    if let Some(n) = vm.local_hosts().into_iter().find(|n| daemon::is_locked(&vm.host(*n))) {
        let pid =
            daemon::lock_holder(&vm.host(n)).map_or(String::new(), |p| format!(", process {p}"));
        bail!(
            "virtual machine `{}` is up already (daemon {n}{pid})\nhint: `towpath hosts` shows it, \
             `towpath down` ends it, `--vm NAME` makes another",
            vm.name
        );
    }
    let cpus = cpus();
    // One more than its share of processors: a job that waits leaves none idle.
    let slots = args.tuning.slots.unwrap_or_else(|| cpus.div_ceil(args.hosts) + 1);
    let tuning = Tuning { slots: Some(slots), ..args.tuning.clone() };
    let mut started = vec![start(vm, 1, args.listen, &tuning, None)?.wait()?];
    let result = start_rest(vm, args, &tuning, &mut started);
    if let Err(e) = result {
        // Half a virtual machine is of no use to anyone.
        let _ = control::end_all(vm);
        return Err(e);
    }
    report(vm, &started, args.json);
    Ok(ExitCode::SUCCESS)
}

fn start_rest(
    vm: &VmDir,
    args: &UpArgs,
    tuning: &Tuning,
    started: &mut Vec<Started>,
) -> anyhow::Result<()> {
    if args.hosts == 1 {
        return Ok(());
    }
    let token = control::issue_token(vm, OWN_TOKEN_S)?;
    // One after the other, so that daemon n of this machine is host n.
    for number in 2..=args.hosts {
        let mut listen = args.listen;
        if listen.port() != 0 {
            let port = listen.port().checked_add(number - 1).context("ports end at 65535")?;
            listen.set_port(port);
        }
        started.push(start(vm, number, listen, tuning, Some(&token))?.wait()?);
    }
    Ok(())
}

pub(crate) fn join(vm: &VmDir, args: &JoinArgs) -> anyhow::Result<ExitCode> {
    let mut text = args.token.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().take(4096).read_to_string(&mut text)?;
    }
    let token: Token = text.parse()?;
    make_dir(&vm.path)?;
    let free = (1..=LOCAL_HOSTS_MAX as u16).find(|n| !daemon::is_locked(&vm.host((*n).into())));
    let number = free.with_context(|| {
        format!("{LOCAL_HOSTS_MAX} daemons of `{}` run here, the limit", vm.name)
    })?;
    let listen = match args.listen {
        Some(listen) => listen,
        None => local_address_towards(token.0.addr)?,
    };
    let slots = args.tuning.slots.unwrap_or_else(|| cpus() + 1);
    let tuning = Tuning { slots: Some(slots), ..args.tuning.clone() };
    let started = start(vm, number, listen, &tuning, Some(&token.to_string()))?.wait()?;
    report(vm, &[started], args.json);
    Ok(ExitCode::SUCCESS)
}

/// The address that this machine uses towards another one, any port.
fn local_address_towards(remote: SocketAddr) -> anyhow::Result<SocketAddr> {
    let any: SocketAddr = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(remote).with_context(|| format!("no way to {remote}"))?;
    let mut addr = socket.local_addr()?;
    addr.set_port(0);
    Ok(addr)
}

fn report(vm: &VmDir, started: &[Started], json: bool) {
    if json {
        println!("{}", json!({ "vm": vm.name, "hosts": started }));
        return;
    }
    for s in started {
        eprintln!("{} at {} (process {})", s.host, s.addr, s.pid);
    }
    let s = if started.len() == 1 { "" } else { "s" };
    eprintln!("virtual machine `{}`: {} host{s} up", vm.name, started.len());
}

fn cpus() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(1024) as u16)
}

/// A daemon that has been started and not yet reported.
struct Starting {
    number: u16,
    child: Child,
    log: std::path::PathBuf,
}

fn start(
    vm: &VmDir,
    number: u16,
    listen: SocketAddr,
    tuning: &Tuning,
    token: Option<&str>,
) -> anyhow::Result<Starting> {
    let dir = vm.host(number.into());
    make_dir(&dir)?;
    let log = dir.join("daemon.log");
    let stderr = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--vm", &vm.name, "daemon", "--detach"])
        .args(["--number", &number.to_string(), "--listen", &listen.to_string()])
        .args(["--lost-after-ms", &tuning.lost_after_ms.to_string()])
        .args(tuning.slots.iter().flat_map(|s| ["--slots".to_string(), s.to_string()]))
        .args(token.map(|_| "--join"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut child = command.spawn().context("starting a daemon")?;
    if let (Some(mut stdin), Some(token)) = (child.stdin.take(), token) {
        // A daemon that ended before it read its token says why on its own.
        let _ = stdin.write_all(token.as_bytes());
    }
    Ok(Starting { number, child, log })
}

impl Starting {
    /// Waits until the daemon says how its start went.
    fn wait(mut self) -> anyhow::Result<Started> {
        let stdout = self.child.stdout.take().context("the daemon's output")?;
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout.take(65_536)).read_line(&mut line);
            let _ = send.send(read.map(|_| line));
        });
        let number = self.number;
        let Ok(line) = receive.recv_timeout(START_WAIT) else {
            let _ = self.child.kill();
            bail!(
                "daemon {number} did not start within {} s\nhint: see {}",
                START_WAIT.as_secs(),
                self.log.display()
            );
        };
        let line = line?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        match (said.get("started"), said.get("failed").and_then(Value::as_str)) {
            (Some(started), _) => Ok(serde_json::from_value(started.clone())?),
            (None, Some(failed)) => bail!("daemon {number}: {failed}"),
            (None, None) => {
                bail!("daemon {number} ended at once\nhint: see {}", self.log.display())
            }
        }
    }
}

pub(crate) fn daemon(vm: &VmDir, args: &DaemonArgs) -> anyhow::Result<ExitCode> {
    if !daemon::is_engine() {
        if args.detach {
            let _ = rustix::process::setsid();
        }
        return Ok(daemon::guard()?);
    }
    let result = options(vm, args).and_then(|options| {
        let mut ready = |started: &Started| say(&json!({ "started": started }));
        Ok(daemon::run(&options, &mut ready)?)
    });
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            say(&json!({ "failed": format!("{e:#}") }));
            Err(e)
        }
    }
}

/// Tells whoever started us. Nobody may be listening any more.
fn say(value: &Value) {
    let _ = writeln!(std::io::stdout(), "{value}");
}

fn options(vm: &VmDir, args: &DaemonArgs) -> anyhow::Result<DaemonOptions> {
    let role = if args.join {
        let mut text = String::new();
        std::io::stdin().take(4096).read_to_string(&mut text)?;
        Role::Join(text.parse()?)
    } else {
        Role::Found(vm.vm_key()?)
    };
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("{node}/{}", args.number);
    let dir: &Path = &vm.host(args.number.into());
    Ok(DaemonOptions {
        vm: vm.name.clone(),
        dir: dir.to_path_buf(),
        listen: args.listen,
        role,
        name,
        cpus: cpus(),
        slots: args.tuning.slots.unwrap_or_else(|| cpus() + 1),
        lost_after_ms: args.tuning.lost_after_ms,
    })
}
