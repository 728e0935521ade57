//! A network namespace for each host, all of them at one switch: gone when the processes in them
//! are, however those end.

use std::ffi::OsStr;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

use super::super::netns::{self, run};

/// Name of a host's own end of its link.
const LINK: &str = "tp0";

/// A process that does nothing, in a namespace of its own, until its owner is gone.
struct Holder(Child);

impl Holder {
    fn start() -> anyhow::Result<Self> {
        // It says when it is there, and ends at the end of its input.
        let mut c = netns::second();
        c.args(["sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Self(c.spawn().context("cannot run `unshare`")?);
        let said = holder.0.stdout.take().map_or(Ok(0), |mut out| out.read(&mut [0]));
        let hint = "hint: it takes root, or user namespaces";
        ensure!(said? == 1, "no network namespace could be made\n{hint}");
        Ok(holder)
    }

    fn enter(&self) -> String {
        netns::enter_beside(self.0.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The namespaces: host 1 is in this process's own.
pub(super) struct Spaces {
    switch: Holder,
    others: Vec<Holder>,
}

impl Spaces {
    /// Makes the namespaces of hosts 2 to `hosts`, the switch and the links; each link takes `rate`
    /// (as `tc` writes rates) each way, or whatever the machine can.
    pub(super) fn make(hosts: u16, rate: Option<&str>) -> anyhow::Result<Self> {
        let switch = Holder::start()?;
        let atswitch = switch.enter();
        run(&format!("{atswitch} ip link add br0 type bridge"))?;
        run(&format!("{atswitch} ip link set br0 up"))?;
        let mut spaces = Self { switch, others: Vec::new() };
        for host in 1..=hosts {
            if host > 1 {
                spaces.others.push(Holder::start()?);
            }
            spaces.link(host, &atswitch, rate)?;
        }
        Ok(spaces)
    }

    fn link(&self, host: u16, atswitch: &str, rate: Option<&str>) -> anyhow::Result<()> {
        let here = self.other(host).map_or(String::new(), |other| other.enter() + " ");
        let switch = self.switch.0.id();
        let (port, address) = (format!("p{host}"), address(host));
        run(&format!("{here}ip link set lo up"))?;
        run(&format!("{here}ip link add {LINK} type veth peer name {port} netns {switch}"))?;
        run(&format!("{here}ip addr add {address}/24 dev {LINK}"))?;
        run(&format!("{here}ip link set {LINK} up"))?;
        run(&format!("{atswitch} ip link set {port} master br0 up"))?;
        if let Some(rate) = rate {
            let shape = format!("root tbf rate {rate} burst 8kb latency 50ms");
            run(&format!("{here}tc qdisc add dev {LINK} {shape}"))?;
            run(&format!("{atswitch} tc qdisc add dev {port} {shape}"))?;
        }
        Ok(())
    }

    fn other(&self, host: u16) -> Option<&Holder> {
        self.others.get(usize::from(host).checked_sub(2)?)
    }

    /// The start of a command that runs `program` on a host, counted from 1.
    pub(super) fn command(&self, host: u16, program: impl AsRef<OsStr>) -> Command {
        match self.other(host) {
            None => Command::new(program),
            Some(other) => {
                let mut c = netns::beside(other.0.id());
                c.arg(program);
                c
            }
        }
    }
}

/// A host's address, counted from 1.
pub(super) fn address(host: u16) -> IpAddr {
    let [_, last] = host.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 213, 78, last))
}
