//! One end of a tap: an interface in a network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::device::Device;
use crate::netns;
use crate::tun::{Layer, NAME_MAX, TunDevice};

/// Packets that the kernel keeps for a program that has not read them yet.
const QUEUE: u32 = 10_000;

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// That of the calling thread.
    Own,
    /// One that `ip netns` made.
    Named(String),
    /// That of a process.
    Process(u32),
    /// The one that a file holds.
    File(PathBuf),
}

impl Namespace {
    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Own => None,
            Self::Named(name) => Some(Path::new("/run/netns").join(name)),
            Self::Process(pid) => Some(PathBuf::from(format!("/proc/{pid}/ns/net"))),
            Self::File(path) => Some(path.clone()),
        }
    }

    /// Does something in it, on a thread of its own. Processes started there are in it, too.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let Some(path) = self.file() else { return work() };
        let enter = || -> anyhow::Result<()> {
            let file = File::open(&path).with_context(|| {
                format!("no network namespace {}\nhint: `ip netns` lists them", path.display())
            })?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("cannot enter {}\nhint: it takes root", path.display()))
        };
        std::thread::scope(|scope| {
            let done = scope.spawn(|| enter().and_then(|()| work())).join();
            done.unwrap_or_else(|_| Err(io::Error::other("a thread panicked").into()))
        })
    }
}

/// What kind of interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TUN device, made for the purpose: IP packets.
    Tun,
    /// A TAP device, made for the purpose: Ethernet frames.
    Tap,
    /// An interface that is there, by a packet socket: Ethernet frames.
    Packet,
}

impl Kind {
    pub(crate) const fn layer(self) -> Layer {
        match self {
            Self::Tun => Layer::Ip,
            Self::Tap | Self::Packet => Layer::Ethernet,
        }
    }
}

/// Where an interface is and what it is called; as text `[NAMESPACE:]DEVICE[=ADDRESS/LENGTH,…]`,
/// where a namespace is a name, a path or `@PROCESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The namespace.
    pub namespace: Namespace,
    /// The interface.
    pub device: String,
    /// Addresses that it gets, with the length of their networks.
    pub addresses: Vec<String>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, addresses) = text.split_once('=').unwrap_or((text, ""));
        let (namespace, device) = match place.rsplit_once(':') {
            None => (Namespace::Own, place),
            Some((name, device)) => (namespace(name)?, device),
        };
        let is_name = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '%');
        if device.is_empty() || device.len() > NAME_MAX || !device.chars().all(is_name) {
            return Err(format!("{device:?} is no interface's name: 1 to {NAME_MAX} characters"));
        }
        let addresses: Vec<String> =
            addresses.split(',').filter(|a| !a.is_empty()).map(str::to_owned).collect();
        for address in &addresses {
            let (ip, length) = address.split_once('/').unwrap_or((address, ""));
            let longest = match ip.parse() {
                Ok(std::net::IpAddr::V4(_)) => 32,
                Ok(std::net::IpAddr::V6(_)) => 128,
                Err(_) => return Err(format!("{address:?} is no address such as 10.0.0.1/24")),
            };
            if !length.parse().is_ok_and(|length: u8| length <= longest) {
                return Err(format!("{address:?} needs a length of its network, as {ip}/24"));
            }
        }
        Ok(Self { namespace, device: device.to_owned(), addresses })
    }
}

fn namespace(name: &str) -> Result<Namespace, String> {
    if let Some(pid) = name.strip_prefix('@') {
        let pid = pid.parse().map_err(|_| format!("{name:?} is no process such as @1234"))?;
        return Ok(Namespace::Process(pid));
    }
    match name {
        "" | "." | ".." => Err(format!("{name:?} is no network namespace's name")),
        path if path.contains('/') => Ok(Namespace::File(path.into())),
        name => Ok(Namespace::Named(name.to_owned())),
    }
}

impl End {
    /// Makes its device, or takes the one that is there, and has it up. `mtu`: of one that is made.
    pub(crate) fn open(&self, kind: Kind, mtu: u32) -> anyhow::Result<Device> {
        let device = &self.device;
        self.namespace.run(|| {
            let made = match kind {
                Kind::Packet => Device::packet(device, mtu)?,
                Kind::Tun | Kind::Tap => {
                    let hint = "hint: it takes root, or user namespaces and a /dev/net/tun that \
                                all may open";
                    let made = TunDevice::open(device, kind.layer());
                    let made = made.with_context(|| format!("cannot make {device}\n{hint}"))?;
                    netns::run(&format!("ip link set {device} mtu {mtu} txqueuelen {QUEUE}"))?;
                    // What a host says by itself (IPv6's search for routers) would be counted
                    // among the frames, and take fates that are for them. In vain without IPv6.
                    let _ = netns::run(&format!("ip link set {device} addrgenmode none"));
                    Device::Tun(made, kind.layer())
                }
            };
            for address in &self.addresses {
                let quick = if address.contains(':') { " nodad" } else { "" };
                netns::run(&format!("ip addr add {address} dev {device}{quick}"))?;
            }
            netns::run(&format!("ip link set {device} up"))?;
            Ok(made)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_namespace_a_device_and_addresses() {
        let end: End = "h1:wan0=10.0.0.1/24,fd00::1/64".parse().unwrap();
        assert_eq!(end.namespace, Namespace::Named("h1".into()));
        assert_eq!((end.device.as_str(), end.addresses.len()), ("wan0", 2));
        let end: End = "@77:t0".parse().unwrap();
        assert_eq!((end.namespace, end.addresses.len()), (Namespace::Process(77), 0));
        let end: End = "/run/netns/x:t0".parse().unwrap();
        assert_eq!(end.namespace, Namespace::File("/run/netns/x".into()));
        assert_eq!("eth1".parse::<End>().unwrap().namespace, Namespace::Own);
    }

    #[test]
    fn what_is_no_end_is_named() {
        for (text, named) in [
            ("h1:", "\"\" is no interface"),
            ("h1:sixteen_letters_", "sixteen_letters_"),
            (":t0", "namespace"),
            ("@x:t0", "@x"),
            ("t0=10.0.0.1", "10.0.0.1/24"),
            ("t0=10.0.0.1/33", "10.0.0.1/33"),
            ("t0=ten/8", "ten/8"),
        ] {
            let error = text.parse::<End>().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
