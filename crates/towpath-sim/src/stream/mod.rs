//! Video over a link to a client with a processor: the third source's Figures 2 to 4.
//!
//! Sender and receiver are the machines that `towpath stream` runs; link, processor and clock are
//! simulated. What the client's processor does, in this order: it takes datagrams in; it decodes
//! the frame it is at; it waits. A datagram that finds the ring full stays in the kernel, or is
//! dropped with its frame where the kernel has no room either, and costs more than one that is
//! taken: that is what the source blames for the collapse (§III.A).
//!
//! | file | what is there |
//! |---|---|
//! | `clip` | a transport stream of numbered frames |
//! | `client` | ring, kernel buffer, decoder, processor |
//! | `run` | server, link and client together; curves |

mod client;
mod clip;
mod run;

pub use client::{ClientCounters, ClientSpec};
pub use clip::Clip;
pub use run::{LinkModel, StreamOutcome, StreamSpec, run};
