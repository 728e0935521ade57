//! Addresses of this machine's interfaces.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The list of `getifaddrs(3)`; freed with the value.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `getifaddrs` and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

/// Addresses at which others may reach this machine, of interfaces that are up; only where there is
/// none, those that lead nowhere but here. None are of one link only (169.254/16, `fe80::/10`).
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writing.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let mut found = Vec::new();
    let mut next = list.0;
    while !next.is_null() {
        // SAFETY: the list lives as long as `list`, and each entry points to the next or to none.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 != 0 {
            // SAFETY: an entry's address is that of a whole socket address or null.
            found.extend(unsafe { ip(entry.ifa_addr) });
        }
    }
    Ok(chosen(found))
}

/// # Safety
///
/// `addr` is null or points to a socket address as long as its family says.
unsafe fn ip(addr: *const libc::sockaddr) -> Option<IpAddr> {
    if addr.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    match c_int::from(unsafe { (*addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of IPv4; read unaligned, as it may lie.
            let v4 = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the same of IPv6.
            let v6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Those of use to others, without repetitions, in order; else those of this machine only.
fn chosen(all: Vec<IpAddr>) -> Vec<IpAddr> {
    let of_one_link = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let mut all = all;
    all.retain(|ip| !of_one_link(ip) && !ip.is_unspecified() && !ip.is_multicast());
    let (here, mut out): (Vec<IpAddr>, Vec<IpAddr>) =
        all.into_iter().partition(IpAddr::is_loopback);
    if out.is_empty() {
        out = here;
    }
    let mut seen = Vec::new();
    for ip in out {
        if !seen.contains(&ip) {
            seen.push(ip);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_others_can_use() {
        let all = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let there = ["127.0.0.1", "192.0.2.7", "::1", "fe80::1", "169.254.3.4", "2001:db8::7"];
        assert_eq!(chosen(all(&there)), all(&["192.0.2.7", "2001:db8::7"]));
        assert_eq!(chosen(all(&["127.0.0.1", "fe80::1", "::1"])), all(&["127.0.0.1", "::1"]));
        assert_eq!(chosen(all(&["192.0.2.7", "192.0.2.7"])), all(&["192.0.2.7"]));
    }

    #[test]
    fn a_machines_own_addresses_can_be_bound() {
        for ip in addresses().unwrap() {
            std::net::UdpSocket::bind((ip, 0)).unwrap();
        }
    }
}
