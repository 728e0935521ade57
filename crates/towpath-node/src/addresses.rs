//! Where hosts receive that have several addresses. The host table has one of each host: the one
//! that the leader saw. A newcomer says all of its own in its hello, as a field of its entry
//! ([`towpath_vm::fields`]). Whoever connects takes the nearest, and the next one where nobody
//! answers.

use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_vm::{Fields, Host};
use towpath_wire::HostId;

use crate::hello::Purpose;
use crate::node::Node;

/// Addresses of one host that count.
const ADDRESSES_MAX: usize = 8;

/// What can be told of what a host says: nothing of a socket at every address, or of none.
pub(crate) fn told(mut addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addrs.retain(|a| !a.ip().is_unspecified() && !a.ip().is_multicast() && a.port() != 0);
    addrs.truncate(ADDRESSES_MAX);
    addrs
}

impl Node {
    /// What this host's entry is to say beside what every build knows: to the leader.
    pub(crate) fn own_fields(&self, purpose: Purpose) -> Fields {
        let addrs = self.config.links.addrs();
        let says = addrs.len() > 1 && !matches!(purpose, Purpose::Member(_) | Purpose::Lead { .. });
        if says { Fields::of_addresses(&told(addrs.to_vec())) } else { Fields::default() }
    }

    /// Where a host receives, the nearest first: the leader where it was found when we joined,
    /// since the table may have another address of it, or that it receives at all of them.
    pub(crate) fn addrs_of(&self, host: &Host) -> Vec<SocketAddr> {
        let leads = self.leader() == Some(host.id);
        if let Some(addr) = self.join_addr.filter(|_| leads) {
            return [addr].into();
        }
        let mut addrs = alloc::vec![host.addr];
        for addr in told(host.fields.addresses()) {
            if !addrs.contains(&addr) {
                addrs.push(addr);
            }
        }
        self.config.links.order(&mut addrs);
        addrs
    }

    /// Where to try after so many of its addresses at which nobody answered.
    pub(crate) fn addr_to_try(&self, host: &Host, tries: usize) -> SocketAddr {
        let addrs = self.addrs_of(host);
        addrs[tries % addrs.len()]
    }

    /// Nobody answered at one of a host's addresses: turns to the next one, if there is one.
    pub(crate) fn next_address(&mut self, host: HostId) -> bool {
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        let count = entry.map_or(0, |host| self.addrs_of(host).len());
        self.peers.next_try(host, count)
    }

    /// The nearest of these.
    pub(crate) fn addr_of(&self, host: &Host) -> SocketAddr {
        self.addrs_of(host)[0]
    }
}
