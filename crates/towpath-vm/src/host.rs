//! The host table: control state that every host holds a copy of.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use towpath_wire::HostId;
use towpath_wire::bytes::ParseError;
use towpath_wire::id::SLOT_MAX;

use crate::fields::{DRAINS, Fields};

/// Longest host name kept, in bytes.
pub const NAME_MAX: usize = 64;

/// Whether a host takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostState {
    /// It does.
    Up,
    /// It was silent for too long. Its key may come back, as a new incarnation.
    Lost,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Slot and incarnation.
    pub id: HostId,
    /// Name for people, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Where its daemon receives.
    pub addr: SocketAddr,
    /// Its static public key.
    pub key: [u8; 32],
    /// What programs it can run, as `x86_64-linux`, at most [`NAME_MAX`] bytes.
    pub arch: String,
    /// How fast it is beside others, as its owner sees it; 1000 unless said otherwise.
    pub speed: u32,
    /// Processors that it has.
    pub cpus: u16,
    /// Jobs that it runs at once when they wait for their turn.
    pub slots: u16,
    /// Whether it takes part.
    pub state: HostState,
    /// What it says of kinds, known here or not.
    pub fields: Fields,
}

impl Host {
    /// Whether it is given nothing new: it is to be taken out, or restarted, when all that runs
    /// there has ended.
    pub fn drains(&self) -> bool {
        self.fields.get(DRAINS).is_some()
    }
}

/// All hosts by slot. Invariant: a host's slot is its key here; keys are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTable {
    hosts: BTreeMap<u16, Host>,
    /// The slot given out last: the search for a free one starts behind it, so that slots are
    /// reused last.
    last_slot: u16,
}

impl HostTable {
    /// The host with exactly this id.
    pub fn get(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(&id.slot()).filter(|h| h.id == id)
    }

    /// The host that holds this static key.
    pub fn by_key(&self, key: &[u8; 32]) -> Option<&Host> {
        self.hosts.values().find(|h| h.key == *key)
    }

    /// Whether all that must be known of the hosts is.
    pub fn check(&self) -> Result<(), ParseError> {
        self.iter().try_for_each(|host| host.fields.check())
    }

    /// Every host, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// Hosts that take part.
    pub fn up(&self) -> impl Iterator<Item = &Host> {
        self.iter().filter(|h| h.state == HostState::Up)
    }

    /// Number of hosts, lost ones included.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// A slot for a new host: unused, else that of the host lost longest ago by slot order;
    /// `None` when 4095 hosts are up.
    pub fn free_slot(&self) -> Option<u16> {
        let order = || (self.last_slot + 1..=SLOT_MAX).chain(1..=self.last_slot);
        let unused = order().find(|s| !self.hosts.contains_key(s));
        unused.or_else(|| {
            order().find(|s| self.hosts.get(s).is_some_and(|h| h.state == HostState::Lost))
        })
    }

    pub(crate) fn insert(&mut self, host: Host) {
        self.hosts.retain(|_, h| h.key != host.key);
        self.last_slot = host.id.slot();
        self.hosts.insert(host.id.slot(), host);
    }

    pub(crate) fn set_lost(&mut self, id: HostId) {
        if let Some(host) = self.hosts.get_mut(&id.slot()).filter(|h| h.id == id) {
            host.state = HostState::Lost;
        }
    }

    /// False where its fields leave no room for that.
    pub(crate) fn set_drains(&mut self, id: HostId, on: bool) -> bool {
        let Some(host) = self.hosts.get_mut(&id.slot()).filter(|h| h.id == id) else {
            return false;
        };
        if on {
            return host.fields.set(DRAINS, &[]).is_ok();
        }
        host.fields = core::mem::take(&mut host.fields).without(DRAINS);
        true
    }

    pub(crate) fn remove(&mut self, id: HostId) {
        if self.get(id).is_some() {
            self.hosts.remove(&id.slot());
        }
    }
}
