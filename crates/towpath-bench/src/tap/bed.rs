//! Hosts for tests: network namespaces, and links between them, each with a tap.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{Context, ensure};
use towpath_sim::tap::Script;

use super::end::{End, Kind, Namespace};
use super::running::{Options, Tap};
use crate::netns;

/// Hosts and links at most: their numbers are parts of addresses.
const HOSTS_MAX: usize = 200;
const LINKS_MAX: usize = 200;
const MTU: u32 = 1500;

/// Beds of this process so far.
static BEDS: AtomicU32 = AtomicU32::new(0);

/// A link of a bed, in the order in which they were made, from 0.
pub type LinkNumber = usize;

/// Hosts, each a network namespace with a loopback interface, and what is between them. It is gone
/// when this is dropped, and with it what runs in it has no network any more.
///
/// Link `n` is an interface `l{n}` (MTU 1500, a TUN device) on two of them; the address of the
/// host that was named `i`-th is 10.214.`n`.`i`/24 there, `i` from 1.
pub struct Bed {
    prefix: String,
    hosts: Vec<String>,
    links: Vec<(Tap, [usize; 2])>,
}

impl Bed {
    /// Hosts without links. An error says that there can be no namespaces here: a test skips.
    pub fn new(hosts: &[&str]) -> anyhow::Result<Self> {
        ensure!(hosts.len() <= HOSTS_MAX, "{} hosts, limit {HOSTS_MAX}", hosts.len());
        let number = BEDS.fetch_add(1, Relaxed);
        let prefix = format!("tap{}-{number}", std::process::id());
        let mut bed = Self { prefix, hosts: Vec::new(), links: Vec::new() };
        for host in hosts {
            let made = netns::run(&format!("ip netns add {}-{host}", bed.prefix));
            made.context("cannot make a network namespace\nhint: it takes root and `ip`")?;
            bed.hosts.push((*host).to_owned());
            netns::run(&format!("ip -n {} link set lo up", bed.namespace(host)))?;
        }
        Ok(bed)
    }

    /// Joins two hosts by a link of their own, with a tap that begins its script now.
    pub fn link(
        &mut self,
        first: &str,
        second: &str,
        script: &Script,
    ) -> anyhow::Result<LinkNumber> {
        self.link_with(first, second, script, Options::default())
    }

    /// The same, with a tap that runs otherwise.
    pub fn link_with(
        &mut self,
        first: &str,
        second: &str,
        script: &Script,
        options: Options,
    ) -> anyhow::Result<LinkNumber> {
        let number = self.links.len();
        ensure!(number < LINKS_MAX, "{number} links, limit {LINKS_MAX}");
        let hosts = [self.host(first)?, self.host(second)?];
        let ends = [first, second].map(|host| End {
            namespace: Namespace::Named(self.namespace(host)),
            device: device(number),
            addresses: Vec::new(),
        });
        let mut ends = ends;
        for (end, host) in ends.iter_mut().zip(hosts) {
            end.addresses.push(format!("{}/24", address(number, host)));
        }
        let tap = Tap::between(&ends, Kind::Tun, MTU, script, options)?;
        self.links.push((tap, hosts));
        Ok(number)
    }

    fn host(&self, name: &str) -> anyhow::Result<usize> {
        self.hosts.iter().position(|host| host == name).with_context(|| format!("no host {name:?}"))
    }

    /// The tap of a link.
    pub fn tap(&self, link: LinkNumber) -> &Tap {
        &self.links[link].0
    }

    /// What a host's namespace is called.
    pub fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// A host's address on a link.
    pub fn address(&self, link: LinkNumber, host: &str) -> anyhow::Result<IpAddr> {
        let host = self.host(host)?;
        ensure!(self.links[link].1.contains(&host), "{:?} is not on link {link}", self.hosts[host]);
        Ok(address(link, host))
    }

    /// A command on a host.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), program]);
        command
    }

    /// Does something on a thread in a host's namespace: a socket opened there is the host's.
    pub fn on<T: Send>(
        &self,
        host: &str,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        Namespace::Named(self.namespace(host)).run(work)
    }

    /// A host's interface loses its carrier (it is set down), or is up again: unlike
    /// [`Tap::kill`], the host knows.
    pub fn plug(&self, link: LinkNumber, host: &str, up: bool) -> anyhow::Result<()> {
        let state = if up { "up" } else { "down" };
        netns::run(&format!("ip -n {} link set {} {state}", self.namespace(host), device(link)))
    }
}

fn device(link: LinkNumber) -> String {
    format!("l{link}")
}

fn address(link: LinkNumber, host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 214, link as u8, host as u8 + 1))
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.links.clear();
        for host in &self.hosts {
            // Whoever removed it before us has done it.
            let _ = netns::run(&format!("ip netns del {}", self.namespace(host)));
        }
    }
}
