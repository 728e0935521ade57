//! Capture files: pcap and pcapng, packet by packet, and the UDP datagrams in them.

mod layers;
mod read;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use layers::{Udp, udp};
pub(crate) use read::{Captured, is_one, link_name, read};
