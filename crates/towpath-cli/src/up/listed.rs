//! Hosts of a list that another command made: `pvm` with PVM's host files.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};
use clap::Args;
use towpath::VmDir;
use towpath::pvm::hostfile::PvmHost;
use towpath::start::hostfile::{Machine, Options};
use towpath::start::launch::Way;
use towpath::start::machines::Source;
use towpath_wire::TaskId;

use super::command::{check_down, report, start_machines};
use super::daemon::SPEED_VAR;
use super::local::{Interrupted, Leading, Tuning};
use super::remote::{Machines, RemoteArgs};

/// How hosts of a list are started.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListedArgs {
    /// Where this machine's host receives, if it founds the virtual machine [default: the address
    /// that leads to the other machines]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    tuning: Tuning,
}

/// A host and what became of it: its id, or why it was not started.
pub(crate) type Added = (String, Result<String, String>);

impl ListedArgs {
    /// Founds the virtual machine on this machine and starts the others of the list.
    pub(crate) fn found(
        &self,
        vm: &VmDir,
        hosts: &[PvmHost],
        own: Option<&str>,
    ) -> anyhow::Result<()> {
        let returning = check_down(vm, Leading::default())?;
        let machines = Machines { source: Source::Hostfile, list: list(hosts)? };
        let how = (&self.remote, &self.tuning, Leading::default());
        let outcome = start_machines(vm, machines, (own, returning), &self.listen, how)?;
        if outcome.interrupted {
            return Err(Interrupted.into());
        }
        report(vm, &outcome.started, &outcome.failed, false)?;
        Ok(())
    }

    /// Adds hosts to the virtual machine, by a task that starts hosts, if there is one.
    pub(crate) fn add(
        &self,
        vm: &VmDir,
        hosts: &[PvmHost],
        hoster: Option<TaskId>,
    ) -> anyhow::Result<Vec<Added>> {
        let mut list = list(hosts)?;
        for machine in &mut list {
            machine.options.slots = machine.options.slots.or(self.tuning.slots);
            machine.options.link_rate = self.tuning.link_rate;
        }
        let machines = Machines { source: Source::Names, list };
        let way = hoster.map(|hoster| by_hoster(vm, hoster)).transpose()?;
        let outcome = self.remote.start(vm, &machines, self.tuning.lost_after_ms, way)?;
        let started = outcome.started.into_iter().map(|s| (s.name, Ok(s.host)));
        let failed = outcome.failed.into_iter().map(|f| (f.name, Err(f.why)));
        Ok(started.chain(failed).collect())
    }
}

/// Hosts are started by a task: this program, in the place of ssh, asks it.
fn by_hoster(vm: &VmDir, hoster: TaskId) -> anyhow::Result<Way> {
    let program = std::env::current_exe().context("the path of this program")?;
    let program = program.to_str().context("the path of this program is no text")?;
    let task = hoster.to_raw().to_string();
    let words = [program, "--vm", &vm.name, "pvm", "--ask-hoster", &task];
    Ok(Way::Ssh(words.map(String::from).to_vec()))
}

fn list(hosts: &[PvmHost]) -> anyhow::Result<Vec<Machine>> {
    hosts.iter().map(machine).collect()
}

fn machine(host: &PvmHost) -> anyhow::Result<Machine> {
    let options = &host.options;
    let mut env = Vec::new();
    let mut set = |name: &str, value: Option<String>| {
        env.extend(value.map(|value| (name.to_string(), value)));
    };
    set("PVM_PATH", options.programs.clone());
    set("PVM_WD", options.folder.clone());
    set("PVM_DEBUGGER", options.debugger.clone());
    set(SPEED_VAR, options.speed.map(|speed| speed.to_string()));
    let addr = options.address.as_deref().map(address).transpose()?;
    let options = Options { user: options.user.clone(), addr, env, ..Options::default() };
    Ok(Machine { name: host.name.clone(), options })
}

/// An address, or the first one of a name.
fn address(text: &str) -> anyhow::Result<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, 0));
    }
    let found = (text, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    match found {
        Some(addr) => Ok(addr),
        None => bail!("ip={text}: no address is known for it here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath::pvm::hostfile;

    #[test]
    fn options_become_variables_of_the_hosts_daemon() {
        let text = "a ep=$HOME/bin:/x wd=/w sp=20 lo=bob ip=192.0.2.1";
        let hosts = hostfile::parse(text, &|_| None).unwrap().hosts;
        let Machine { name, options } = machine(&hosts[0]).unwrap();
        assert_eq!(name, "a");
        let env = [("PVM_PATH", "$HOME/bin:/x"), ("PVM_WD", "/w"), ("TOWPATH_SPEED", "20")];
        assert_eq!(options.env, env.map(|(n, v)| (n.to_string(), v.to_string())));
        assert_eq!(options.user.as_deref(), Some("bob"));
        assert_eq!(options.addr, Some(([192, 0, 2, 1], 0).into()));
    }
}
