//! Where hosts receive that have several addresses. The host table has one of each host: the one
//! that the leader saw. A newcomer says all of its own in its hello; the leader tells the others of
//! them before it tells of the host, and a newcomer before anything else that follows its welcome.
//! Whoever connects takes the nearest, and the next one where nobody answers.
//!
//! A host of an older version neither says nor hears of addresses: the table's is used.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;

use towpath_wire::HostId;

/// Addresses of one host that count.
pub(crate) const ADDRESSES_MAX: usize = 8;

/// Addresses of hosts that have several. Memory: [`ADDRESSES_MAX`] of each host of the table.
pub(crate) type ByHost = BTreeMap<HostId, Vec<SocketAddr>>;

/// What can be told of what a host says: nothing of a socket at every address, or of none.
pub(crate) fn told(mut addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addrs.retain(|a| !a.ip().is_unspecified() && !a.ip().is_multicast() && a.port() != 0);
    addrs.truncate(ADDRESSES_MAX);
    addrs
}
