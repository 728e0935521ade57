//! A UDP socket that moves trains: several per system call, cut and joined by the kernel.
//!
//! | file | what it holds |
//! |---|---|
//! | `link` | [`UdpLink`]: options, counters, what to do when the kernel refuses |
//! | `batch` | [`SendBatch`]: trains on their way to one system call |
//! | `plain` | [`PlainSocket`]: single datagrams of others' protocols |
//! | `kernel` | `sendmmsg`, `recvmmsg` and their control messages; the only `unsafe` here |

mod batch;
mod kernel;
mod link;
mod plain;

pub use batch::{SendBatch, TRAIN_BYTES, TRAINS};
pub use link::{BindError, LinkCounters, Notice, TooLong, UdpLink, route_mtu};
pub use plain::{Arrived, Flushed, Multicast, PLAIN_BATCH, PLAIN_BYTES, PlainSocket};
