//! What the fuzz targets share. The targets themselves stand in `fuzz_targets/`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`emit`] | parsed packets and frames back into bytes |
//! | [`allocation`] | how far the heap grows |
//! | [`keys`] | stand-in cryptography that lets its packet keys be heard |
//! | [`hostile`] | frames of a peer that keeps to no rule |
//! | [`handshake`] | handshake messages with any payload behind the seal |
//! | [`newcomer`] | one that joins and says anything of itself |
//! | [`coding`] | a receiver of coded packets, and peers that code or pretend to |
//! | [`collective`] | one member of a team among others that send anything |
//! | [`media`] | files read in two ways |
//! | [`direct`] | two sessions of the direct route, and what must hold |
//! | [`operations`] | two endpoints, an adversarial network, and the invariants |
//! | [`shared`] | a peer that writes anything into its shared pages |
//! | [`qos`] | a port beside a model, under any sequence of calls |

pub mod allocation;
pub mod coding;
pub mod collective;
pub mod direct;
pub mod emit;
pub mod handshake;
pub mod hostile;
pub mod keys;
pub mod media;
pub mod newcomer;
mod operation;
pub mod operations;
pub mod qos;
pub mod shared;
