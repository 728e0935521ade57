//! Writes captures: pcapng, as Wireshark and tcpdump read it.

use std::io::{self, Write};

use pcap_parser::Linktype;

/// Most bytes kept of a packet.
pub(crate) const SNAP: u32 = 65_535;

/// A capture that is written (draft-ietf-opsawg-pcapng): one section, little-endian, times in
/// nanoseconds.
pub(crate) struct Writer<W> {
    out: W,
    link: Linktype,
    bytes: u64,
    bytes_max: u64,
    /// Packets that did not fit.
    pub(crate) left_out: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of at most `bytes_max` bytes of interfaces of these names.
    pub(crate) fn new(out: W, link: Linktype, names: &[&str], bytes_max: u64) -> io::Result<Self> {
        let mut writer = Self { out, link, bytes: 0, bytes_max: u64::MAX, left_out: 0 };
        let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        writer.block(0x0a0d_0d0a, &body)?;
        for name in names {
            let mut body = (writer.link.0 as u16).to_le_bytes().to_vec();
            body.extend([0, 0]);
            body.extend(SNAP.to_le_bytes());
            option(&mut body, 2, name.as_bytes());
            // Times are multiples of 10⁻⁹ s.
            option(&mut body, 9, &[9]);
            option(&mut body, 0, &[]);
            writer.block(1, &body)?;
        }
        writer.bytes_max = bytes_max;
        Ok(writer)
    }

    /// Adds a packet of an interface, by its number, with what is to be said of it.
    pub(crate) fn packet(
        &mut self,
        interface: u32,
        unix_ns: u64,
        comment: Option<&str>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let kept = &bytes[..bytes.len().min(SNAP as usize)];
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((unix_ns >> 32) as u32).to_le_bytes());
        body.extend((unix_ns as u32).to_le_bytes());
        body.extend((kept.len() as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        padded(&mut body, kept);
        if let Some(comment) = comment {
            option(&mut body, 1, comment.as_bytes());
            option(&mut body, 0, &[]);
        }
        self.block(6, &body)
    }

    /// What is in buffers goes to the file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = 12 + body.len() as u32;
        if self.bytes + u64::from(length) > self.bytes_max {
            self.left_out += 1;
            return Ok(());
        }
        self.bytes += u64::from(length);
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&length.to_le_bytes())
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

/// Blocks are made of words of four bytes.
fn padded(body: &mut Vec<u8>, value: &[u8]) {
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Captured, read, udp};

    #[test]
    fn what_is_written_is_read_again() {
        let frame = crate::capture::tests::frame(&[1, 2, 3]);
        let mut file = Vec::new();
        let mut writer =
            Writer::new(&mut file, Linktype::ETHERNET, &["there", "back"], 1000).unwrap();
        let ns = 1_700_000_000_123_456_789;
        writer.packet(0, ns, None, &frame).unwrap();
        writer.packet(1, ns + 5, Some("lost"), &frame[..21]).unwrap();
        writer.packet(1, ns + 6, None, &[0; 800]).unwrap();
        assert_eq!(writer.left_out, 1);
        writer.flush().unwrap();
        let mut seen = Vec::new();
        read(&file[..], |packet: &Captured<'_>| {
            seen.push((packet.ns, packet.size as usize, packet.kept.to_vec()));
            assert_eq!(packet.link, Linktype::ETHERNET);
            Ok(())
        })
        .unwrap();
        let [(first_ns, _, first), (second_ns, size, second)] = &seen[..] else {
            panic!("{seen:?}")
        };
        assert_eq!((*first_ns, *second_ns), (Some(ns), Some(ns + 5)));
        assert_eq!((*size, &second[..]), (21, &frame[..21]));
        assert_eq!(udp(Linktype::ETHERNET, first).unwrap().payload, [1, 2, 3]);
    }
}
