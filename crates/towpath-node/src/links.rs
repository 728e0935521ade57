//! Over which of this host's links another address is reached.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use towpath_wire::LinkId;

/// The links of a host: where each of them receives. Invariant: there is at least one; the link at
/// place `i` is `LinkId(i)`; `devices` is as long as `addrs`.
#[derive(Clone, Debug)]
pub struct Links {
    addrs: Vec<SocketAddr>,
    told: SocketAddr,
    /// By which network attachment each of them goes.
    devices: Vec<u16>,
}

impl Links {
    /// Links at these addresses, numbered in order from zero; the first is the one that other hosts
    /// are told. Asserts that there is one.
    pub fn new(addrs: Vec<SocketAddr>) -> Self {
        let told = *addrs.first().expect("a host receives somewhere");
        let devices = (0..addrs.len() as u16).collect();
        Self { addrs, told, devices }
    }

    /// The same, of which several may go by one network attachment: its number, for each in turn.
    /// Else each has one of its own.
    ///
    /// # Panics
    /// Where these are not as many as there are links.
    #[must_use]
    pub fn on_devices(self, devices: Vec<u16>) -> Self {
        assert_eq!(devices.len(), self.addrs.len(), "a device for each link");
        Self { devices, ..self }
    }

    /// By which network attachment a link goes.
    pub(crate) fn device(&self, link: LinkId) -> LinkId {
        LinkId(self.devices.get(usize::from(link.0)).copied().unwrap_or(link.0))
    }

    /// The links by which `remote` may be reached, and how near each is: of its family and kind,
    /// at an address of their own.
    pub(crate) fn nearnesses(&self, remote: SocketAddr) -> impl Iterator<Item = (LinkId, u32)> {
        self.addrs.iter().enumerate().filter_map(move |(at, own)| {
            let (family, kind, near) = nearness(own.ip(), remote.ip());
            let fits = family == 2 && kind && !own.ip().is_unspecified();
            fits.then_some((LinkId(at as u16), near))
        })
    }

    /// The same, of which others are told another address: of a socket at every address, one of
    /// them.
    #[must_use]
    pub fn told_as(self, told: SocketAddr) -> Self {
        Self { told, ..self }
    }

    /// A single link.
    pub fn one(addr: SocketAddr) -> Self {
        Self::new([addr].into())
    }

    /// Where each of them receives.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// The address that other hosts are told.
    pub const fn addr(&self) -> SocketAddr {
        self.told
    }

    /// The link that leads to `remote`: one of its family, then one of its kind (this machine only,
    /// or not), then the one whose address has most leading bits in common with it, as those of a
    /// network have; among equals the first.
    pub fn to(&self, remote: SocketAddr) -> LinkId {
        let near = |i: &usize| (nearness(self.addrs[*i].ip(), remote.ip()), core::cmp::Reverse(*i));
        LinkId((0..self.addrs.len()).max_by_key(near).unwrap_or(0) as u16)
    }

    /// Which of several addresses of one host is nearest to any of the links: the first of these.
    pub fn nearest(&self, remotes: &[SocketAddr]) -> Option<SocketAddr> {
        let mut remotes = remotes.to_vec();
        self.order(&mut remotes);
        remotes.first().copied()
    }

    /// Puts addresses of one host in order: those nearest to any of the links first.
    pub fn order(&self, remotes: &mut [SocketAddr]) {
        let near = |r: &SocketAddr| self.addrs.iter().map(|l| nearness(l.ip(), r.ip())).max();
        remotes.sort_by_key(|r| core::cmp::Reverse(near(r)));
    }
}

/// Bits before an IPv4 address that is written as an IPv6 one.
const MAPPED: u32 = 96;

/// How likely a socket at `local` reaches `remote`: family, kind, leading bits in common.
fn nearness(local: IpAddr, remote: IpAddr) -> (u8, bool, u32) {
    let kind = local.is_unspecified() || local.is_loopback() == remote.is_loopback();
    match (local, remote) {
        (IpAddr::V4(l), IpAddr::V4(r)) if !l.is_unspecified() => {
            (2, kind, MAPPED + (l.to_bits() ^ r.to_bits()).leading_zeros())
        }
        (IpAddr::V6(l), IpAddr::V6(r)) if !l.is_unspecified() => {
            (2, kind, (l.to_bits() ^ r.to_bits()).leading_zeros())
        }
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => (2, kind, 0),
        // A socket at every IPv6 address has the IPv4 ones, too, where no other has.
        (IpAddr::V6(l), IpAddr::V4(_)) if l.is_unspecified() => (1, kind, 0),
        _ => (0, kind, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn links(texts: &[&str]) -> Links {
        Links::new(texts.iter().map(|t| at(t)).collect())
    }

    #[test]
    fn the_family_decides_then_the_kind_then_the_network() {
        let l =
            links(&["127.0.0.1:1", "[::1]:1", "192.0.2.7:1", "198.51.100.7:1", "[2001:db8::1]:1"]);
        for (remote, link) in [
            ("127.0.0.2:9", 0),
            ("[::1]:9", 1),
            ("192.0.2.200:9", 2),
            ("198.51.100.1:9", 3),
            ("[2001:db8::9]:9", 4),
            ("[2001:db9::9]:9", 4),
        ] {
            assert_eq!(l.to(at(remote)), LinkId(link), "{remote}");
        }
    }

    #[test]
    fn of_two_networks_of_one_family_the_nearer_counts() {
        let l = links(&["[2001:db8::1]:1", "[2001:db8:9::1]:1", "192.0.2.1:1", "198.51.100.1:1"]);
        for (remote, link) in [
            ("[2001:db8::7]:9", 0),
            ("[2001:db8:9::7]:9", 1),
            ("192.0.2.9:9", 2),
            ("198.51.100.9:9", 3),
        ] {
            assert_eq!(l.to(at(remote)), LinkId(link), "{remote}");
        }
    }

    #[test]
    fn every_address_of_one_family_or_of_both() {
        let both = links(&["127.0.0.1:1", "0.0.0.0:2", "[::]:3"]);
        assert_eq!(both.to(at("203.0.113.4:9")), LinkId(1));
        assert_eq!(both.to(at("[2001:db8::9]:9")), LinkId(2));
        let one = links(&["[::1]:1", "[::]:2"]);
        assert_eq!(one.to(at("203.0.113.4:9")), LinkId(1));
        assert_eq!(one.to(at("[::1]:9")), LinkId(0));
        assert_eq!(links(&["192.0.2.7:1", "192.0.2.7:2"]).to(at("192.0.2.9:9")), LinkId(0));
    }

    #[test]
    fn of_the_addresses_of_a_host_the_nearest_counts() {
        let host = [at("192.0.2.1:7"), at("[2001:db8::1]:7"), at("198.51.100.1:7")];
        for (own, nearest) in [
            ("[2001:db8::2]:1", 1),
            ("198.51.100.2:1", 2),
            ("192.0.2.2:1", 0),
            ("[::1]:1", 1),
            ("0.0.0.0:1", 0),
        ] {
            assert_eq!(links(&[own]).nearest(&host), Some(host[nearest]), "{own}");
        }
        assert_eq!(links(&["0.0.0.0:1"]).nearest(&[]), None);
        let here = ["127.0.0.1:1", "[::1]:1"];
        assert_eq!(links(&["[::1]:9", "127.0.0.1:9"]).nearest(&here.map(at)), Some(at(here[0])));
    }

    #[test]
    fn a_socket_at_every_address_shares_no_network_with_anybody() {
        for (own, remote, link) in [
            (["0.0.0.0:1", "203.0.113.1:1"], "10.0.0.1:9", 1),
            (["[::]:1", "[2001::1]:1"], "[1::9]:9", 1),
            (["[2001:db8::1]:1", "[::]:2"], "203.0.113.4:9", 1),
            (["[2001:db8::1]:1", "0.0.0.0:2"], "203.0.113.4:9", 1),
        ] {
            assert_eq!(links(&own).to(at(remote)), LinkId(link), "{own:?} to {remote}");
        }
    }

    #[test]
    fn a_link_fits_of_its_family_and_kind_at_an_address_of_its_own() {
        let own = ["192.0.2.7:1", "198.51.100.7:1", "0.0.0.0:1", "127.0.0.1:1", "[2001:db8::1]:1"];
        let found: Vec<_> = links(&own).nearnesses(at("192.0.2.6:9")).collect();
        assert_eq!(found, [(LinkId(0), 96 + 31), (LinkId(1), 96 + 5)]);
        let found: Vec<_> = links(&own).nearnesses(at("127.0.0.1:9")).collect();
        assert_eq!(found, [(LinkId(3), 128)]);
        let found: Vec<_> = links(&own).nearnesses(at("[2001:db8::3]:9")).collect();
        assert_eq!(found, [(LinkId(4), 126)]);
    }

    #[test]
    fn links_have_attachments_of_their_own_unless_it_is_said_and_tell_the_first_address() {
        let own = links(&["192.0.2.7:1", "198.51.100.7:1"]);
        assert_eq!([0, 1, 2].map(|n| own.device(LinkId(n)).0), [0, 1, 2]);
        assert_eq!(own.addr(), own.addrs()[0]);
        let told = own.on_devices([7, 7].into()).told_as(at("203.0.113.9:1"));
        assert_eq!([0, 1, 2].map(|n| told.device(LinkId(n)).0), [7, 7, 2]);
        assert_eq!((told.addr(), told.addrs().len()), (at("203.0.113.9:1"), 2));
    }
}
