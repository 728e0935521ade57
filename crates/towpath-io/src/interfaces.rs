//! Addresses of this machine's interfaces.

use std::ffi::{CStr, CString, c_int};
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
    Ok(chosen(all()?.into_iter().map(|(ip, _)| ip).collect()))
}

/// By which interface each of these addresses goes: a number for each, the same for those of one
/// interface. One that is no interface's has a number of its own.
pub fn devices(addrs: &[IpAddr]) -> io::Result<Vec<u16>> {
    let all = all()?;
    let index = |ip: &IpAddr| all.iter().find(|(own, _)| own == ip).map(|(_, index)| *index);
    Ok(numbered(&addrs.iter().map(index).collect::<Vec<_>>()))
}

/// The name of the interface of each of these addresses, where it is one's.
pub fn names(addrs: &[IpAddr]) -> io::Result<Vec<Option<CString>>> {
    let mut names = vec![None; addrs.len()];
    each(|own, name, _| {
        let of_this = addrs.iter().zip(&mut names).filter(|(ip, at)| **ip == own && at.is_none());
        of_this.for_each(|(_, at)| *at = Some(name.to_owned()));
    })?;
    Ok(names)
}

/// The place of the first of each kind; what is of none is of its own.
fn numbered(kinds: &[Option<u32>]) -> Vec<u16> {
    let first = |(at, kind): (usize, &Option<u32>)| {
        let same = kinds.iter().position(|k| kind.is_some() && k == kind);
        same.unwrap_or(at) as u16
    };
    kinds.iter().enumerate().map(first).collect()
}

/// Addresses of interfaces that are up, and the index of each one's interface.
fn all() -> io::Result<Vec<(IpAddr, u32)>> {
    let mut found = Vec::new();
    each(|ip, name, flags| {
        if flags & libc::IFF_UP as u32 != 0 {
            // SAFETY: the name is a string that ends with a null byte.
            found.push((ip, unsafe { libc::if_nametoindex(name.as_ptr()) }));
        }
    })?;
    Ok(found)
}

/// Every address of an interface, with its name and flags.
fn each(mut told: impl FnMut(IpAddr, &CStr, u32)) -> io::Result<()> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writing.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let mut next = list.0;
    while !next.is_null() {
        // SAFETY: the list lives as long as `list`, and each entry points to the next or to none.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: an entry's address is that of a whole socket address or null.
        if let Some(ip) = unsafe { ip(entry.ifa_addr) } {
            // SAFETY: an entry's name is a string that ends with a null byte, and lives as long.
            told(ip, unsafe { CStr::from_ptr(entry.ifa_name) }, entry.ifa_flags);
        }
    }
    Ok(())
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
    fn addresses_of_one_interface_have_one_number() {
        assert_eq!(numbered(&[Some(4), None, Some(7), Some(4), None]), [0, 1, 2, 0, 4]);
        let here = ["127.0.0.1", "203.0.113.77", "127.0.0.1"].map(|t| t.parse().unwrap());
        assert_eq!(devices(&here).unwrap(), [0, 1, 0]);
    }

    #[test]
    fn a_machines_own_addresses_can_be_bound() {
        for ip in addresses().unwrap() {
            std::net::UdpSocket::bind((ip, 0)).unwrap();
        }
    }
}
