//! Packets of a capture file.

use std::io::{Cursor, Read};

use anyhow::{anyhow, bail};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// Bytes read at once; a block larger than this is refused.
const BUFFER: usize = 1 << 20;

/// Whether a file with this beginning is a capture.
pub(crate) fn is_one(head: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    MAGIC.iter().any(|magic| head == magic)
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'a> {
    /// Its time in nanoseconds, where it has one.
    pub(crate) ns: Option<u64>,
    /// What its bytes begin with.
    pub(crate) link: Linktype,
    /// Its length on the captured link.
    pub(crate) size: u32,
    /// What was kept of it.
    pub(crate) kept: &'a [u8],
}

/// What counts time on an interface: units per second.
type Units = u128;

/// The least that a section of pcapng begins with; a classic header is 24 bytes.
const HEAD: usize = 28;

/// The header as a whole, however little each read brings: what makes the parser reads but once,
/// and takes what it then has for all of the header.
fn head(source: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD as u64).read_to_end(&mut head)?;
    if let [0x0a, 0x0d, 0x0d, 0x0a, a, b, c, d, order, ..] = head[..] {
        let length = [a, b, c, d];
        let little = order == 0x4d;
        let length = if little { u32::from_le_bytes(length) } else { u32::from_be_bytes(length) };
        let rest = (length as usize).min(BUFFER).saturating_sub(HEAD);
        source.take(rest as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// Hands every packet on, in the order of the file.
pub(crate) fn read(
    mut source: impl Read + Send,
    mut take: impl FnMut(&Captured<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let head = head(&mut source)?;
    let source = Cursor::new(head).chain(source);
    let mut reader =
        create_reader(BUFFER, source).map_err(|e| anyhow!("no capture: {}", name(&e)))?;
    let mut state = State::default();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                if let Some(packet) = state.packet(&block)? {
                    state.packets += 1;
                    take(&packet)?;
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() {
                    bail!("the capture is cut off after {} packets", state.packets);
                }
                reader.refill().map_err(|e| anyhow!("{}", name(&e)))?;
            }
            Err(e) => {
                bail!("damaged after {} packets: {}", state.packets, name(&e));
            }
        }
    }
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

/// What is captured on links of a type, in words.
pub(crate) fn link_name(link: Linktype) -> String {
    match link {
        Linktype::ETHERNET => "Ethernet frames without check sequence".to_string(),
        Linktype::LINUX_SLL | Linktype::LINUX_SLL2 => "Linux cooked frames".to_string(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => "IP packets".to_string(),
        Linktype::NULL | Linktype::LOOP => "loopback frames".to_string(),
        other => format!("frames of link type {}", other.0),
    }
}

#[derive(Default)]
struct State {
    /// Those of the section; one for classic captures.
    interfaces: Vec<(Units, Linktype)>,
    packets: usize,
}

impl State {
    fn packet<'a>(&mut self, block: &PcapBlockOwned<'a>) -> anyhow::Result<Option<Captured<'a>>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces.push((units, header.network));
            }
            PcapBlockOwned::Legacy(packet) => {
                let (units, link) = self.interface(0)?;
                let time = u128::from(packet.ts_sec) * units + u128::from(packet.ts_usec);
                let ns = Some(self.nanoseconds(time, units)?);
                let (size, kept) = (packet.origlen, packet.data);
                return Ok(Some(Captured { ns, link, size, kept }));
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
                self.interfaces.push((units, interface.linktype));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let (units, link) = self.interface(packet.if_id)?;
                let time = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let ns = Some(self.nanoseconds(time, units)?);
                let kept = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                return Ok(Some(Captured { ns, link, size: packet.origlen, kept }));
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let (_, link) = self.interface(0)?;
                let kept = packet.data.get(..packet.origlen as usize).unwrap_or(packet.data);
                return Ok(Some(Captured { ns: None, link, size: packet.origlen, kept }));
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(None)
    }

    fn interface(&self, number: u32) -> anyhow::Result<(Units, Linktype)> {
        let known = self.interfaces.get(number as usize).copied();
        known
            .ok_or_else(|| anyhow!("packet {} names interface {number}, unknown", self.packets + 1))
    }

    fn nanoseconds(&self, time: u128, units: Units) -> anyhow::Result<u64> {
        u64::try_from(time * 1_000_000_000 / units)
            .map_err(|_| anyhow!("packet {} has a time beyond 584 years", self.packets + 1))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A classic capture of Ethernet frames: (µs, size on the wire, what was kept).
    pub(crate) fn classic(packets: &[(u64, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(0xa1b2_c3d4_u32.to_le_bytes());
        out.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(65_535_u32.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        for &(us, size, kept) in packets {
            let (seconds, part) = ((us / 1_000_000) as u32, (us % 1_000_000) as u32);
            for word in [seconds, part, kept.len() as u32, size] {
                out.extend(word.to_le_bytes());
            }
            out.extend(kept);
        }
        out
    }

    /// pcapng: one interface with a clock of 2⁻¹⁰ s, one packet after three of its ticks.
    pub(crate) fn next_generation() -> Vec<u8> {
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
    fn damage_is_told_and_never_a_panic() {
        let nothing = |_: &Captured<'_>| Ok(());
        let whole = [classic(&[(0, 60, &[1; 4]), (9, 61, &[2; 4])]), next_generation()];
        for bytes in whole {
            assert!(is_one(&bytes[..4]));
            for length in 0..bytes.len() {
                let _ = read(&bytes[..length], nothing);
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    let _ = read(&damaged[..], nothing);
                }
            }
        }
        let bytes = classic(&[(0, 60, &[1; 4]), (9, 61, &[2; 4])]);
        let err = read(&bytes[..bytes.len() - 1], nothing).unwrap_err().to_string();
        assert!(err.contains("after 1 packets"), "{err}");
    }

    /// Brings one byte a read.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let most = out.len().min(1);
            self.0.read(&mut out[..most])
        }
    }

    #[test]
    fn a_header_may_come_byte_by_byte() {
        for bytes in [classic(&[(0, 60, &[1; 4]), (9, 61, &[2; 4])]), next_generation()] {
            let mut packets = 0;
            let count = |_: &Captured<'_>| {
                packets += 1;
                Ok(())
            };
            read(Trickle(&bytes), count).unwrap();
            assert_eq!(packets, 2);
        }
    }

    #[test]
    fn packets_come_with_time_size_and_what_was_kept() {
        let bytes = classic(&[(1_500_000, 60, &[1, 2, 3])]);
        let mut seen = Vec::new();
        let mut note = |p: &Captured<'_>| {
            seen.push((p.ns, p.link, p.size, p.kept.to_vec()));
            Ok(())
        };
        read(&bytes[..], &mut note).unwrap();
        assert_eq!(seen, [(Some(1_500_000_000), Linktype::ETHERNET, 60, vec![1, 2, 3])]);
    }
}
