//! Sans-IO transport: handshake, association, acknowledgement and selective retransmission,
//! credit, congestion, failure detection.
//!
//! Nothing here reads a clock, opens a socket or draws from a global random source: see
//! [`machine`] for the contract. Message bytes belong to the driver ([`memory`]); the machines
//! hold handles and ranges.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | the sans-IO contract: [`Machine`], [`Grant`], [`TxBatch`] |
//! | [`egress`] | who sends next on a link: [`Egress`], [`Free`] |
//! | [`memory`] | where message bytes live: [`Memory`], [`HeapMemory`] |
//! | [`crypto`] | what a driver supplies for handshake and sealing |
//! | [`endpoint`] | handshakes, cookie, and the table of associations |
//! | [`association`] | one authenticated conversation: paths, channels, repair, credit |
//! | [`congestion`], [`stripe`] | policies, a file each |
//! | [`coding`] | packets that are coded together, across paths |
//! | [`config`] | every option with its default and the memory it costs |
//!
//! **Memory of an association**, worst case in bytes, with the fields of [`Config`]:
//!
//! ```text
//! 5/2 · credit_max · (2 · 7/4 + 4) + 2 · channels_max · 1536
//!     + 2 · min(channels_max · messages_max, credit_max / 64 + 16 · channels_max) · 144
//!     + paths · (2 · 8192 · (48 + 64 · 24) + 4096)
//!     + coding.memory + 2048 · 16 + 128 · 4 · datagram
//! ```
//!
//! Channels of either side's making, and half as much again by which windows may grow; of all
//! windows together, message memory each way plus 48 bytes of bookkeeping per 64 bytes of credit,
//! and at most 4 times their size in range bookkeeping against a peer that sends every second byte;
//! for each channel its state and the queues that it once needed, idle or not (used one way, and
//! idle since: 791 B, counted); for each message that waits to be sent or acknowledged its own and
//! its deadline: of a channel no more than its credit covers of empty ones, or 16; and of each
//! path what retransmission remembers: 8192 packets from the oldest under way to the newest, and as
//! many more beside them, with up to 64 pieces of messages in each. Packets of long messages hold
//! one piece: 1.2 MB a path. Of what the peer codes, symbols within `coding.memory` and a place for
//! each of 2048 groups; of what we code, 128 groups with 4 parities at most. A reserved channel
//! adds 8 bytes for each message that waits.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod association;
pub mod coding;
pub mod config;
pub mod congestion;
pub mod crypto;
pub mod egress;
pub mod endpoint;
mod id;
pub mod machine;
pub mod memory;
mod range_set;
mod recent;
pub mod rng;
mod rtt;
pub mod stripe;

pub use association::{Association, AssociationEvent, AssociationStats, ChannelStats, SendError};
pub use config::Config;
pub use crypto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk};
pub use egress::{Decision, Egress, Free, Head};
pub use endpoint::{Connect, ConnectFailure, Endpoint, EndpointEvent, Refusal};
pub use id::AssociationId;
pub use machine::{
    Grant, GrantKind, Inset, Machine, PACKET_MIN, PathChange, RxMeta, TimerKind, Transmit, TxBatch,
};
pub use memory::{Arrival, Block, HeapMemory, Memory};
pub use rng::Rng;
