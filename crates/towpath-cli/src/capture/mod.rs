//! Capture files: pcap and pcapng, packet by packet, and the UDP datagrams in them; pcapng is
//! written, too.

mod layers;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub(crate) use layers::{Udp, udp};
pub(crate) use read::{Captured, is_one, link_name, read};
pub(crate) use write::Writer;
