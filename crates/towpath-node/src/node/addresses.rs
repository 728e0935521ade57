//! Hosts that receive at several addresses.

use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_vm::message::Addresses;
use towpath_vm::{Change, Entry, Host, Message};
use towpath_wire::HostId;

use super::Node;
use crate::addresses::told;
use crate::hello::Purpose;

impl Node {
    /// Where this host receives, if it is to say so: to the leader, which tells the others.
    pub(crate) fn own_addresses(&self, purpose: Purpose) -> Vec<SocketAddr> {
        let addrs = self.config.links.addrs();
        let says = addrs.len() > 1 && !matches!(purpose, Purpose::Member(_) | Purpose::Lead { .. });
        if says { told(addrs.to_vec()) } else { Vec::new() }
    }

    /// What a host said of itself, or the leader of it.
    pub(crate) fn note_addresses(&mut self, host: HostId, addrs: Vec<SocketAddr>) {
        let addrs = told(addrs);
        if !addrs.is_empty() {
            self.peers.addresses.insert(host, addrs);
        }
    }

    /// What is to be told of these hosts, if anything.
    pub(crate) fn addresses_of(&self, hosts: impl Iterator<Item = HostId>) -> Option<Message> {
        let known = |host| Some((host, self.peers.addresses.get(&host)?.clone()));
        let hosts: Vec<_> = hosts.filter_map(known).collect();
        (!hosts.is_empty()).then_some(Message::Addresses(Addresses { hosts }))
    }

    /// The same of those that were added.
    pub(crate) fn addresses_in(&self, entries: &[Entry]) -> Option<Message> {
        let added = |entry: &Entry| match &entry.change {
            Change::Added(host) => Some(host.id),
            _ => None,
        };
        self.addresses_of(entries.iter().filter_map(added))
    }

    /// The leader tells where hosts receive that it is about to tell of, or told of.
    pub(crate) fn handle_addresses(&mut self, from: HostId, addresses: Addresses) {
        if self.leader() != Some(from) {
            self.malformed += 1;
            return;
        }
        for (host, addrs) in addresses.hosts {
            self.note_addresses(host, addrs);
        }
    }

    /// Where a host receives, the nearest first: the leader where it was found when we joined,
    /// since the table may have another address of it, or that it receives at all of them.
    pub(crate) fn addrs_of(&self, host: &Host) -> Vec<SocketAddr> {
        let leads = self.leader() == Some(host.id);
        if let Some(addr) = self.join_addr.filter(|_| leads) {
            return [addr].into();
        }
        let mut addrs = alloc::vec![host.addr];
        for addr in self.peers.addresses.get(&host.id).into_iter().flatten() {
            if !addrs.contains(addr) {
                addrs.push(*addr);
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
