//! Real drivers: UDP sockets, streams between tasks, the monotonic clock, cryptography.
//!
//! | module | what it holds |
//! |---|---|
//! | [`carriers`] | whether links are connected |
//! | [`clock`] | time as the protocol machines want it |
//! | [`coding`] | the inner loop of coding across paths |
//! | [`crypto`] | Noise handshakes and AES-256-GCM packets |
//! | [`direct`] | sealed streams between tasks of two hosts |
//! | [`drive`] | moves datagrams between a link and a machine |
//! | [`interfaces`] | addresses of this machine |
//! | [`realtime`] | threads that must wake on time |
//! | [`shared`] | the exchange of tasks on one host, in shared memory |
//! | [`udp`] | a UDP socket that moves trains of datagrams |

// Tests of whole drivers speak of the crate by its name, as its users do.
#[cfg(test)]
extern crate self as towpath_io;

pub mod carriers;
pub mod clock;
pub mod coding;
pub mod crypto;
pub mod direct;
pub mod drive;
pub mod interfaces;
pub mod realtime;
pub mod shared;
#[cfg(test)]
mod tests;
pub mod udp;

pub use clock::Clock;
pub use crypto::RealCrypto;
pub use drive::{LinkDriver, Turn};
pub use udp::{PlainSocket, UdpLink};
