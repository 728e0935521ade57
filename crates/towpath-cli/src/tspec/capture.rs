//! Packets of a capture file as samples of traffic.

use std::io::Read;

use anyhow::bail;
use pcap_parser::Linktype;

use super::samples::{SAMPLES_MAX, Sample, Samples};
use crate::capture::{self, Captured, link_name};

/// Reads all packets; sizes are those on the captured link, not what was kept of them.
pub(super) fn read(source: impl Read + Send) -> anyhow::Result<Samples> {
    let mut state = State::default();
    capture::read(source, |packet| state.take(packet))?;
    state.finish()
}

#[derive(Default)]
struct State {
    link: Option<Linktype>,
    first_ns: Option<u64>,
    items: Vec<Sample>,
    /// Packets whose time is before an earlier one's.
    late: usize,
    /// Packets without a time.
    timeless: usize,
}

impl State {
    fn take(&mut self, packet: &Captured<'_>) -> anyhow::Result<()> {
        self.link.get_or_insert(packet.link);
        let Some(ns) = packet.ns else {
            self.timeless += 1;
            return Ok(());
        };
        if self.items.len() == SAMPLES_MAX {
            bail!("more than {SAMPLES_MAX} packets, the limit");
        }
        let first = *self.first_ns.get_or_insert(ns);
        let before = self.items.last().map_or(0, |s| s.at_ns);
        // Captures of several queues interleave a little: a packet is no earlier than the last.
        let at_ns = ns.saturating_sub(first);
        self.late += usize::from(at_ns < before || ns < first);
        self.items.push(Sample { at_ns: at_ns.max(before), bytes: packet.size.into() });
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Samples> {
        if self.items.is_empty() && self.timeless > 0 {
            bail!("its {} packets have no times", self.timeless);
        }
        let link = self.link.map_or("nothing".to_string(), link_name);
        let mut notes = vec![format!("sizes are those of {link}; wire overhead comes on top")];
        if self.late > 0 {
            notes.push(format!("{} packets out of order, taken as sent with the last", self.late));
        }
        if self.timeless > 0 {
            notes.push(format!("{} packets without a time left out", self.timeless));
        }
        Ok(Samples { items: self.items, what: format!("a capture of {link}"), notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{classic, next_generation};

    fn pairs(bytes: &[u8]) -> Vec<(u64, u64)> {
        read(bytes).unwrap().items.iter().map(|s| (s.at_ns, s.bytes)).collect()
    }

    #[test]
    fn both_kinds_of_capture_are_read() {
        let packets = [(5_999_999, 60), (6_000_001, 1514), (6_000_000, 64)];
        let bytes = classic(&packets.map(|(us, size)| (us, size, &[0; 4][..])));
        assert_eq!(pairs(&bytes), [(0, 60), (2_000, 1514), (2_000, 64)]);
        let samples = read(&bytes[..]).unwrap();
        assert!(samples.notes.iter().any(|n| n.starts_with("1 packets out of order")));
        assert_eq!(pairs(&next_generation()), [(0, 60), (2_929_687, 60)]);
    }
}
