//! Capture files: pcap and pcapng, packet by packet, and the UDP datagrams in them.

mod layers;
mod read;

pub(crate) use layers::{Udp, udp};
pub(crate) use read::{Captured, is_one, link_name, read};

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::layers::tests::frame;
    pub(crate) use super::read::tests::{classic, next_generation};
}
