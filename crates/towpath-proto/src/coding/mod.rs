//! Coding across paths: any k of k packets and m parities bring all of the k (docs/decisions/0032).
//!
//! | module | what it holds |
//! |---|---|
//! | `kind` | [`Coding`], what a channel asks for; [`CodingConfig`] |
//! | `field` | GF(256), and which parity has which member how often |
//! | `kernel` | [`Kernel`], what a driver may do better; [`Plain`], what anybody can |
//! | `encoder` | [`Encoder`]: which packet joins which group, parity by and by |
//! | `decoder` | [`Decoder`]: what came of each group, and what is rebuilt of it |
//!
//! A *symbol* is what is coded of a packet, its frames with a head:
//!
//! ```text
//! 0..2 length n of the frames | 2..4 path | 4..12 packet number | 12..12+n frames
//! ```
//! and zeros behind that, up to the longest of its group.

mod decoder;
mod encoder;
pub mod field;
mod kernel;
mod kind;
mod solve;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, DecoderStats, Rebuilt};
pub(crate) use encoder::PATIENCE;
pub use encoder::{Encoder, EncoderStats, Parity, Seat};
pub use kernel::{Kernel, PLAIN, Plain};
pub use kind::{Coding, CodingConfig, CodingError, MEMBERS_MAX, PARITIES_MAX};
