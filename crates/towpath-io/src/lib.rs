//! Real drivers: UDP sockets, the monotonic clock, cryptography.
//!
//! | module | what it holds |
//! |---|---|
//! | [`clock`] | time as the protocol machines want it |
//! | [`crypto`] | Noise handshakes and AES-256-GCM packets |
//! | [`udp`] | a UDP socket with segmentation offload, in batches |

pub mod clock;
pub mod crypto;
pub mod udp;

pub use clock::Clock;
pub use crypto::RealCrypto;
pub use udp::UdpLink;
