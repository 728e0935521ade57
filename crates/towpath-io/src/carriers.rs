//! Which links have a carrier: whether the interface of each one's address is up and connected.
//!
//! The kernel says that some interface has changed (`rtnetlink(7)`, which nobody needs a privilege
//! to hear); what it says of it is not read. Those of the links are then asked one by one, so that
//! nothing is missed where more changes than the kernel keeps.

use std::ffi::{CString, c_int, c_short};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Changes of interfaces (`RTMGRP_LINK` of `linux/rtnetlink.h`).
const GROUP_LINK: u32 = 1;
/// Messages of the kernel that are taken at once; the rest is taken next time.
const MESSAGES_MAX: usize = 256;

/// What is watched of one link.
#[derive(Debug)]
struct Watched {
    /// Its place among the links.
    link: usize,
    ip: IpAddr,
    interface: CString,
    /// As it was told last.
    up: bool,
}

/// The carriers of links. Readable where some may have changed.
#[derive(Debug)]
pub struct Carriers {
    news: OwnedFd,
    /// By which interfaces are asked.
    asks: OwnedFd,
    links: Vec<Watched>,
}

impl Carriers {
    /// Watches the interfaces of these links' addresses; an address of none is not watched. All
    /// count as connected until [`Self::changes`] says something else.
    ///
    /// # Errors
    /// The kernel has no such sockets for us.
    pub fn watch(addrs: &[IpAddr]) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: that of routes and links.
        let news = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&news, &SocketAddrNetlink::new(0, GROUP_LINK))?;
        let asks = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        // Listened first: what changes meanwhile is asked again.
        let names = crate::interfaces::names(addrs)?;
        let watched = |(link, interface): (usize, Option<CString>)| {
            let ip = addrs[link];
            interface.map(|interface| Watched { link, ip, interface, up: true })
        };
        let links = names.into_iter().enumerate().filter_map(watched).collect();
        Ok(Self { news, asks, links })
    }

    /// The links that have lost their carrier, or have one again, since this was asked last: the
    /// place of each among the addresses, and whether it has one now.
    pub fn changes(&mut self) -> Vec<(usize, bool)> {
        let mut rest = [0; 64];
        for _ in 0..MESSAGES_MAX {
            match recv(&self.news, &mut rest[..], RecvFlags::TRUNC) {
                // More than it kept: that is what is asked for below.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let Self { asks, links, .. } = self;
        let changed = |link: &mut Watched| {
            let up = link.is_connected(asks);
            (up != std::mem::replace(&mut link.up, up)).then_some((link.link, up))
        };
        links.iter_mut().filter_map(changed).collect()
    }
}

impl AsFd for Carriers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

impl Watched {
    /// Whether its interface is connected: the one that had the address, or, where that is not, the
    /// one that has it now. It may have another name, or the address have moved.
    fn is_connected(&mut self, asks: &OwnedFd) -> bool {
        if is_connected(asks, &self.interface) {
            return true;
        }
        let names = crate::interfaces::names(&[self.ip]).unwrap_or_default();
        let Some(now) = names.into_iter().flatten().next() else { return false };
        let connected = now != self.interface && is_connected(asks, &now);
        if connected {
            self.interface = now;
        }
        connected
    }
}

/// Whether an interface is there, up and connected (netdevice(7)).
fn is_connected(asks: &OwnedFd, interface: &CString) -> bool {
    const WANTED: c_int = libc::IFF_UP | libc::IFF_RUNNING;
    // SAFETY: all bits zero are a request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    // A name has its end.
    if name.len() >= request.ifr_name.len() {
        return false;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    // SAFETY: the request is one of this kind, and lives through the call.
    let asked = unsafe { libc::ioctl(asks.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    // SAFETY: where that has not failed it has written the flags.
    let flags: c_short = if asked == 0 { unsafe { request.ifr_ifru.ifru_flags } } else { 0 };
    c_int::from(flags) & WANTED == WANTED
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_interface_that_is_up_has_a_carrier_and_one_that_is_not_there_has_none() {
        let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        let mut carriers = Carriers::watch(&here).unwrap();
        assert_eq!(carriers.links.len(), 1, "every address is no interface's");
        assert_eq!(carriers.changes(), []);
        let name = std::mem::replace(&mut carriers.links[0].interface, c"tp-none".into());
        assert_eq!(carriers.changes(), [], "the address is another interface's now");
        assert_eq!(carriers.links[0].interface, name);
        // Of an address that nobody has.
        carriers.links[0].ip = Ipv4Addr::new(192, 0, 2, 1).into();
        carriers.links[0].interface = c"tp-none".into();
        assert_eq!(carriers.changes(), [(0, false)]);
        assert_eq!(carriers.changes(), [], "it was told");
        carriers.links[0].interface = name;
        assert_eq!(carriers.changes(), [(0, true)]);
        carriers.links[0].interface = CString::new("n".repeat(16)).unwrap();
        assert_eq!(carriers.changes(), [(0, false)], "longer than any name");
    }
}
