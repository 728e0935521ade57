//! Packets of a capture file: pcap and pcapng.

use std::io::Read;

use anyhow::{anyhow, bail};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use super::samples::{SAMPLES_MAX, Sample, Samples};

/// Bytes read at once; a block larger than this is refused.
const BUFFER: usize = 1 << 20;

/// Whether a file with this beginning is a capture.
pub(super) fn is_one(head: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    MAGIC.iter().any(|magic| head == magic)
}

/// What counts time on an interface: units per second.
type Units = u128;

/// Reads all packets; sizes are those on the captured link, not what was kept of them.
pub(super) fn read(source: impl Read + Send) -> anyhow::Result<Samples> {
    let mut reader =
        create_reader(BUFFER, source).map_err(|e| anyhow!("no capture: {}", name(&e)))?;
    let mut state = State::default();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                state.take(&block)?;
                reader.consume(offset);
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() {
                    bail!("the capture is cut off after {} packets", state.items.len());
                }
                reader.refill().map_err(|e| anyhow!("{}", name(&e)))?;
            }
            Err(e) => {
                bail!("damaged after {} packets: {}", state.items.len(), name(&e));
            }
        }
    }
    state.finish()
}

/// What is wrong, without the bytes that the error carries.
fn name(e: &PcapError<&[u8]>) -> &'static str {
    match e {
        PcapError::HeaderNotRecognized => "its header is not known",
        PcapError::ReadError => "cannot read",
        PcapError::BufferTooSmall => "a block is longer than 1 MiB, the limit",
        PcapError::UnexpectedEof | PcapError::Eof | PcapError::Incomplete(_) => "it is cut off",
        _ => "a block is no block",
    }
}

#[derive(Default)]
struct State {
    /// Per interface: units per second; one for classic captures.
    interfaces: Vec<Units>,
    link: Option<Linktype>,
    first_ns: Option<u64>,
    items: Vec<Sample>,
    /// Packets whose time is before an earlier one's.
    late: usize,
    /// Packets without a time.
    timeless: usize,
}

impl State {
    fn take(&mut self, block: &PcapBlockOwned<'_>) -> anyhow::Result<()> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces.push(units);
                self.link = Some(header.network);
            }
            PcapBlockOwned::Legacy(packet) => {
                let units = self.interfaces.first().copied().unwrap_or(1_000_000);
                let time = u128::from(packet.ts_sec) * units + u128::from(packet.ts_usec);
                self.push(time, units, packet.origlen)?;
            }
            // Interfaces are numbered anew in each section.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let resolution = interface.if_tsresol;
                let units = match resolution {
                    0..=19 => 10u128.pow(resolution.into()),
                    0x80..=0xbf => 1 << (resolution & 0x7f),
                    _ => bail!("an interface counts time in units of code {resolution}, unknown"),
                };
                self.interfaces.push(units);
                self.link.get_or_insert(interface.linktype);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(&units) = self.interfaces.get(packet.if_id as usize) else {
                    bail!(
                        "packet {} names interface {}, unknown",
                        self.items.len() + 1,
                        packet.if_id
                    );
                };
                let time = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                self.push(time, units, packet.origlen)?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => self.timeless += 1,
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    fn push(&mut self, time: u128, units: Units, bytes: u32) -> anyhow::Result<()> {
        let ns = time * 1_000_000_000 / units;
        let Ok(ns) = u64::try_from(ns) else {
            bail!("packet {} has a time beyond 584 years", self.items.len() + 1);
        };
        if self.items.len() == SAMPLES_MAX {
            bail!("more than {SAMPLES_MAX} packets, the limit");
        }
        let first = *self.first_ns.get_or_insert(ns);
        let before = self.items.last().map_or(0, |s| s.at_ns);
        // Captures of several queues interleave a little: a packet is no earlier than the last.
        let at_ns = ns.saturating_sub(first);
        self.late += usize::from(at_ns < before || ns < first);
        self.items.push(Sample { at_ns: at_ns.max(before), bytes: bytes.into() });
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Samples> {
        if self.items.is_empty() && self.timeless > 0 {
            bail!("its {} packets have no times", self.timeless);
        }
        let link = match self.link {
            Some(Linktype::ETHERNET) => "Ethernet frames without check sequence".to_string(),
            Some(Linktype::LINUX_SLL | Linktype::LINUX_SLL2) => "Linux cooked frames".to_string(),
            Some(Linktype::RAW | Linktype::IPV4 | Linktype::IPV6) => "IP packets".to_string(),
            Some(Linktype::NULL | Linktype::LOOP) => "loopback frames".to_string(),
            other => format!("frames of link type {}", other.map_or(-1, |l| l.0)),
        };
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
pub(super) mod tests {
    use super::*;

    /// A classic capture of Ethernet frames: (µs, size on the wire), 4 bytes kept of each.
    pub(crate) fn classic(packets: &[(u64, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(0xa1b2_c3d4_u32.to_le_bytes());
        out.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(65_535_u32.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        for &(us, size) in packets {
            for word in [(us / 1_000_000) as u32, (us % 1_000_000) as u32, 4, size] {
                out.extend(word.to_le_bytes());
            }
            out.extend([0; 4]);
        }
        out
    }

    fn pairs(bytes: &[u8]) -> Vec<(u64, u64)> {
        read(bytes).unwrap().items.iter().map(|s| (s.at_ns, s.bytes)).collect()
    }

    /// pcapng: one interface with a clock of 2⁻¹⁰ s, one packet after three of its ticks.
    fn next_generation() -> Vec<u8> {
        let mut out = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let length = (12 + body.len()) as u32;
            out.extend(kind.to_le_bytes());
            out.extend(length.to_le_bytes());
            out.extend(body);
            out.extend(length.to_le_bytes());
        };
        block(
            0x0a0d_0d0a,
            &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
        );
        block(1, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0x8a, 0, 0, 0, 0, 0, 0, 0]);
        for ticks in [1024_u32, 1027] {
            let mut body = vec![0; 8];
            for word in [ticks, 0, 60] {
                body.extend(word.to_le_bytes());
            }
            block(6, &body);
        }
        out
    }

    #[test]
    fn both_kinds_of_capture_are_read() {
        let bytes = classic(&[(5_999_999, 60), (6_000_001, 1514), (6_000_000, 64)]);
        assert!(is_one(&bytes[..4]));
        assert_eq!(pairs(&bytes), [(0, 60), (2_000, 1514), (2_000, 64)]);
        let samples = read(&bytes[..]).unwrap();
        assert!(samples.notes.iter().any(|n| n.starts_with("1 packets out of order")));
        assert!(is_one(&next_generation()[..4]));
        assert_eq!(pairs(&next_generation()), [(0, 60), (2_929_687, 60)]);
    }

    #[test]
    fn damage_is_told_and_never_a_panic() {
        let whole = [classic(&[(0, 60), (9, 61)]), next_generation()];
        for bytes in whole {
            for length in 0..bytes.len() {
                let _ = read(&bytes[..length]);
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    let _ = read(&damaged[..]);
                }
            }
        }
        let bytes = classic(&[(0, 60), (9, 61)]);
        let err = read(&bytes[..bytes.len() - 1]).unwrap_err().to_string();
        assert!(err.contains("after 1 packets"), "{err}");
    }
}
