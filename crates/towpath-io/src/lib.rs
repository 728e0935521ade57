//! Real drivers: UDP sockets, streams between tasks, the monotonic clock, cryptography.
//!
//! | module | what it holds |
//! |---|---|
//! | [`clock`] | time as the protocol machines want it |
//! | [`crypto`] | Noise handshakes and AES-256-GCM packets |
//! | [`direct`] | sealed streams between tasks of two hosts |
//! | [`drive`] | moves datagrams between a link and a machine |
//! | [`interfaces`] | addresses of this machine |
//! | [`shared`] | the exchange of tasks on one host, in shared memory |
//! | [`tun`] | network interfaces made of a program |
//! | [`udp`] | a UDP socket that moves trains of datagrams |
//! | [`words`] | words that processes share, for measurements |

pub mod clock;
pub mod crypto;
pub mod direct;
pub mod drive;
pub mod interfaces;
pub mod shared;
pub mod tun;
pub mod udp;
pub mod words;

pub use clock::Clock;
pub use crypto::RealCrypto;
pub use drive::{LinkDriver, Turn};
pub use tun::TunDevice;
pub use udp::UdpLink;
pub use words::Words;
