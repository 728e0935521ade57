//! All associations of a host: handshakes, the cookie that comes before their cost, and the table
//! that tells which association a datagram belongs to.
//!
//! **Handshake.** `Initiation` → (`Cookie` → `Initiation`) → `Response` → first sealed packet.
//! The responder keeps a half-open association until the initiator's first sealed packet shows
//! that it holds the keys; until then nothing that exists is replaced, so a replayed initiation
//! gains nothing but a slot in a bounded table. If two hosts start at once, the one with the
//! smaller public key is the initiator and the other yields.
//!
//! **Cost.** Before any public-key operation an initiation must carry a keyed hash over our
//! public key (`mac1`), and beyond [`Handshakes::per_s`](crate::config::Handshakes) also one that
//! proves its source address (`mac2`). Where all half-open places are taken, the network (an IPv4
//! address, an IPv6 /64) that holds most of them loses its oldest to one that holds fewer.

mod carrier;
mod cookie;
mod core;
mod event;
mod heads;
mod hello;
mod initiate;
mod paths;
mod ready;
mod respond;
mod stamps;
#[cfg(test)]
mod tests;
mod timers;

pub use core::Endpoint;
pub use event::{EndpointEvent, EndpointStats};
pub(crate) use hello::cut_text;
pub use hello::{HELLO_MAX, REFUSAL_TEXT_MAX, Refusal};
pub use initiate::{Connect, ConnectError, ConnectFailure};
pub use respond::Answer;
