//! Types with units, identifiers, packet and frame headers with their byte maps; no state.
//!
//! Everything that crosses a network or a process boundary is spelled here, once. Integers on
//! the wire are little-endian. Parsing borrows from the datagram and never panics, whatever the
//! bytes; emitting writes into a slice that the caller owns and never allocates.
//!
//! | module | what it holds |
//! |---|---|
//! | [`units`] | [`Instant`], [`Rate`], [`ByteSize`] |
//! | [`id`] | hosts, tasks, channels, paths, links |
//! | [`packet`] | what stands in clear at the front of each datagram |
//! | [`frame`] | what stands inside the seal |
//! | [`coding`] | ... of packets that are coded together |
//! | [`show`] | datagrams and frames in words |
//! | [`greeting`] | which build speaks, in a form that never changes |
//! | [`talk`] | messages of tasks, frames between a task and its daemon |
//! | [`histogram`] | distributions in bounded space |
//! | [`version`] | how two hosts agree on a wire version |
//! | [`bytes`] | the cursor both directions use |
//!
//! ```
//! use towpath_wire::talk::{HEADER_LEN, Header};
//! use towpath_wire::{HostId, Rate};
//!
//! let host = HostId::new(3, 1).expect("slot 3, its first life");
//! let (src, dst) = (host.task(7).expect("a task"), host.task(8).expect("another"));
//! let header =
//!     Header { src, dst, tag: 5, context: 0, seq: 0, format: 0, total: 11, offset: 0 };
//! let bytes: [u8; HEADER_LEN] = header.emit();
//! assert_eq!(Header::parse(&bytes), Ok(header));
//! assert_eq!(Rate::from_mbps(5).as_bps(), 5_000_000);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bytes;
pub mod coding;
pub mod frame;
pub mod greeting;
pub mod histogram;
pub mod id;
pub mod packet;
pub mod parameter;
pub mod show;
pub mod talk;
pub mod units;
pub mod version;

#[cfg(test)]
mod vectors;

pub use frame::{ChannelOpen, Direction, Frame, Reliability, TrafficSpec};
pub use greeting::Greeting;
pub use id::{ChannelId, HostId, LinkId, PathId, TaskId};
pub use packet::{Admission, Packet};
pub use units::{ByteSize, Instant, Rate};
pub use version::{VersionRange, WIRE_VERSIONS};
