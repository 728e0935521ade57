//! Hosts on other machines: which, and how they are started there.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use towpath::VmDir;
use towpath::daemon::Started;
use towpath::start::hostfile::{self, Machine};
use towpath::start::launch::{LaunchError, Launcher, Way};
use towpath::start::machines::{self, Source};
use towpath::start::parallel;
use towpath::token::TTL_MAX_S;

use crate::{control, interrupt};

/// How long a token lives beyond the time that starting may take.
const TOKEN_SPARE: Duration = Duration::from_mins(1);
/// Port of addresses that are only asked for the way to them.
const ANY_PORT: u16 = 9;

/// How hosts of other machines are started.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Command that runs a command on another machine
    #[arg(long, value_name = "COMMAND", env = "TOWPATH_SSH", default_value = "ssh")]
    ssh: String,
    /// Start hosts by srun, in a Slurm job (default where the hosts are a job's and srun is there)
    #[arg(long)]
    slurm: bool,
    /// The program on the other machines
    #[arg(long, value_name = "PATH", env = "TOWPATH_REMOTE")]
    towpath: Option<String>,
    /// A host that has not answered for so long has failed
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = crate::control::time)]
    start_timeout: Duration,
    /// Hosts started at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
}

/// One that could not be started.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) why: String,
}

/// What became of all of them.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) started: Vec<Started>,
    pub(super) failed: Vec<Failed>,
    pub(super) interrupted: bool,
}

/// The machines to start hosts on, and where they were named.
#[derive(Debug)]
pub(super) struct Machines {
    pub(super) source: Source,
    pub(super) list: Vec<Machine>,
}

impl RemoteArgs {
    /// The machines of a file; without one those of `TOWPATH_HOSTS` or of a Slurm job.
    pub(super) fn machines(&self, file: Option<&Path>) -> anyhow::Result<Option<Machines>> {
        if let Some(path) = file {
            let list = read(path)?;
            return Ok(Some(Machines { source: Source::Hostfile, list }));
        }
        let variable = |name: &str| std::env::var(name).ok();
        if self.slurm {
            let list = machines::from_slurm(&variable)?.context(
                "SLURM_JOB_NODELIST is not set\nhint: run it in a job, by sbatch or salloc",
            )?;
            return Ok(Some(Machines { source: Source::Slurm, list }));
        }
        let found = machines::from_environment(&variable)?;
        Ok(found.map(|(source, list)| Machines { source, list }))
    }

    fn way(&self, source: Source) -> Way {
        let srun = std::env::var("TOWPATH_SRUN").unwrap_or_else(|_| "srun".into());
        if self.slurm || (source == Source::Slurm && is_command(&srun)) {
            Way::srun(&srun)
        } else {
            Way::ssh(&self.ssh, self.start_timeout)
        }
    }

    /// Starts a host on each machine of a virtual machine that this one leads.
    pub(super) fn start(
        &self,
        vm: &VmDir,
        machines: &Machines,
        lost_after_ms: Option<u32>,
        way: Option<Way>,
    ) -> anyhow::Result<Outcome> {
        let list = &machines.list;
        let waves = list.len().div_ceil(self.parallel.into()) as u32;
        let ttl = self.start_timeout * waves + TOKEN_SPARE;
        let own = std::env::current_exe().ok().and_then(|p| Some(p.to_str()?.to_string()));
        let way = way.unwrap_or_else(|| self.way(machines.source));
        // The nodes of a Slurm job see the same files, as a rule.
        let default = if matches!(way, Way::Srun(_)) { own } else { None };
        let towpath = self.towpath.clone().or(default).unwrap_or_else(|| "towpath".into());
        // None of them may be another machine's; a token is for one at least.
        let uses = list.len().max(1) as u32;
        let launcher = Launcher {
            way,
            vm: vm.name.clone(),
            token: control::issue_token(vm, ttl.as_secs().min(TTL_MAX_S), Some(uses))?,
            towpath,
            lost_after_ms,
            limit: self.start_timeout,
        };
        let interrupted = interrupt::flag()?;
        let mut count = 0;
        let told = |at: usize, result: &Result<Started, LaunchError>| {
            count += 1;
            let (name, of) = (&list[at].name, list.len());
            match result {
                Ok(s) => eprintln!("[{count}/{of}] {name}: {} at {}", s.host, s.addr),
                Err(LaunchError::Interrupted) => {}
                Err(e) => eprintln!("[{count}/{of}] {name}: {e}"),
            }
        };
        let work = |machine: &Machine| launcher.launch(machine, &interrupted);
        let results = parallel::each(list, self.parallel.into(), work, told);
        let mut outcome = Outcome::default();
        for (machine, result) in list.iter().zip(results) {
            let name = machine.name.clone();
            match result {
                Ok(started) => outcome.started.push(started),
                Err(e) => {
                    outcome.interrupted |= matches!(e, LaunchError::Interrupted);
                    outcome.failed.push(Failed { name, why: e.to_string() });
                }
            }
        }
        Ok(outcome)
    }
}

/// The machines of a host file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Machine>> {
    let mut text = String::new();
    let limit = hostfile::FILE_BYTES_MAX as u64 + 1;
    File::open(path)
        .and_then(|f| f.take(limit).read_to_string(&mut text))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let machines = hostfile::parse(&text).with_context(|| path.display().to_string())?;
    if machines.is_empty() {
        bail!("{} names no host", path.display());
    }
    Ok(machines)
}

/// True when `command`'s first word is a program that can be found.
fn is_command(command: &str) -> bool {
    let Some(word) = command.split_whitespace().next() else { return false };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).map(|dir| dir.join(word)).collect();
    if word.contains('/') {
        places = vec![word.into()];
    }
    places.iter().any(|p| p.is_file())
}

/// True for names of this machine; Slurm may call it by one of its own.
pub(super) fn is_here(name: &str) -> bool {
    if std::env::var("SLURMD_NODENAME").is_ok_and(|node| node == name) {
        return true;
    }
    let uname = rustix::system::uname();
    let node = uname.nodename().to_string_lossy();
    let short = |n: &str| n.split('.').next().unwrap_or_default().to_string();
    name == "localhost" || name == node || (!node.is_empty() && short(name) == short(&node))
}

/// The address that this machine uses towards another one.
pub(super) fn towards(remote: SocketAddr) -> anyhow::Result<IpAddr> {
    let any: SocketAddr = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote).with_context(|| format!("no way to {remote}"))?;
    Ok(socket.local_addr()?.ip())
}

/// The address that this machine uses towards the first of several to which there is a way.
pub(super) fn towards_any(remotes: &[SocketAddr]) -> anyhow::Result<IpAddr> {
    let ways = || remotes.iter().map(|remote| towards(*remote));
    ways().find(Result::is_ok).or_else(|| ways().next()).context("no address")?
}

/// The address by which the other machines reach this one: the one that leads to the first of
/// them whose own address is known and is not of this machine only.
pub(super) fn reachable(machines: &[Machine]) -> anyhow::Result<IpAddr> {
    let address = |m: &Machine| -> Option<IpAddr> {
        let found = m
            .options
            .addr
            .or_else(|| (m.name.as_str(), ANY_PORT).to_socket_addrs().ok()?.next())?;
        towards(SocketAddr::new(found.ip(), ANY_PORT)).ok()
    };
    let mut here = None;
    for found in machines.iter().filter_map(address) {
        if !found.is_loopback() {
            return Ok(found);
        }
        here = here.or(Some(found));
    }
    here.context(
        "none of the hosts' addresses is known here, so neither is the way back\n\
         hint: say where this host is reached: --listen ADDR:PORT",
    )
}
