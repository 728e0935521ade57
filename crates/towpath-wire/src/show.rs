//! Datagrams and frames in words, one line each: what a decoded capture consists of.
//!
//! ```
//! use towpath_wire::packet::{DATA_HEADER, Data, TAG};
//! use towpath_wire::{PathId, show::Shown};
//!
//! let mut datagram = [0; DATA_HEADER + 3 + TAG];
//! Data { epoch: 0, path: PathId(0), receiver: 7, number: 42 }.emit(&mut datagram);
//! datagram[DATA_HEADER] = 1;
//! let line = Shown { datagram: &datagram, clear: true }.to_string();
//! assert_eq!(line, "data to 0x7 path 0 #42: PING; PAD x 2");
//! ```

use core::fmt::{self, Display, Formatter};

use crate::coding::{Coded, Parity};
use crate::frame::{Ack, ChannelOpen, Direction, Frame, Frames, Reliability};
use crate::packet::{Admission, DATA_HEADER, Data, Packet, TAG};

/// Ranges of packet numbers that an acknowledgement is shown with at most.
const RANGES_SHOWN: usize = 8;

/// A datagram in words. Whatever its bytes are, something is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// UDP payload.
    pub datagram: &'a [u8],
    /// What stands behind a data packet's header is not encrypted (a trusted link, or the
    /// simulator's stand-in): show its frames. The seal itself is not checked.
    pub clear: bool,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let packet = match Packet::parse(self.datagram) {
            Ok(packet) => packet,
            Err(e) => return write!(f, "no packet of ours: {e}"),
        };
        write!(f, "{packet}")?;
        let Packet::Data(_) = packet else { return Ok(()) };
        let content = &self.datagram[DATA_HEADER..self.datagram.len() - TAG];
        if self.clear {
            return write_frames(f, content);
        }
        write!(f, ": {} B sealed", content.len())
    }
}

/// Frames in turn, with as many words for a run of padding as for one.
fn write_frames(f: &mut Formatter<'_>, content: &[u8]) -> fmt::Result {
    let mut between = ": ";
    let mut pads = 0;
    for frame in Frames::new(content) {
        if frame == Ok(Frame::Pad) {
            pads += 1;
            continue;
        }
        write_pads(f, &mut between, &mut pads)?;
        match frame {
            Ok(frame) => write!(f, "{between}{frame}")?,
            Err(e) => write!(f, "{between}malformed: {e}")?,
        }
        between = "; ";
    }
    write_pads(f, &mut between, &mut pads)
}

fn write_pads(f: &mut Formatter<'_>, between: &mut &str, pads: &mut usize) -> fmt::Result {
    if *pads > 0 {
        write!(f, "{between}PAD x {pads}")?;
        (*between, *pads) = ("; ", 0);
    }
    Ok(())
}

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => data.fmt(f),
            Self::Initiation(i) => {
                write!(f, "initiation from {:#x} ", i.sender)?;
                write!(f, "versions {}..={} ", i.versions.min, i.versions.max)?;
                match i.admission {
                    Admission::Member => f.write_str("as a member")?,
                    Admission::Token { expiry_unix_s, .. } => {
                        write!(f, "with a token until {expiry_unix_s} s")?;
                    }
                }
                let proof = i.mac2 != [0; TAG];
                f.write_str(if proof { ", with proof of address" } else { "" })
            }
            Self::Response(r) => {
                write!(f, "response to {:#x} from {:#x} ", r.receiver, r.sender)?;
                write!(f, "version {}", r.version)
            }
            Self::Cookie(c) => write!(f, "cookie to {:#x}", c.receiver),
            Self::Versions(v) => {
                let (min, max) = (v.versions.min, v.versions.max);
                write!(f, "versions {min}..={max} to {:#x}", v.receiver)
            }
        }
    }
}

impl Display for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "data to {:#x} path {} ", self.receiver, self.path.0)?;
        if self.epoch != 0 {
            write!(f, "epoch {} ", self.epoch)?;
        }
        write!(f, "#{}", self.number)
    }
}

impl Display for Frame<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pad => f.write_str("PAD"),
            Self::Ping => f.write_str("PING"),
            Self::Ack(ack) => ack.fmt(f),
            Self::Marks { path, marked } => write!(f, "MARKS path {} {marked} marked", path.0),
            Self::AckRate { path, every, delay_us } => {
                write!(f, "ACK_RATE path {} every {every} within {delay_us} us", path.0)
            }
            Self::Open(open) => open.fmt(f),
            Self::Data(p) => {
                let end = p.offset + p.bytes.len() as u32;
                write!(f, "DATA channel {} message {} ", p.channel.0, p.message)?;
                write!(f, "bytes {}..{end} of {}", p.offset, p.message_len)
            }
            Self::Limit { channel, limit } => write!(f, "LIMIT channel {} {limit} B", channel.0),
            Self::CloseChannel { channel, messages, reason } => {
                write!(f, "CLOSE_CHANNEL {} after {messages} messages, ", channel.0)?;
                write!(f, "reason {reason}")
            }
            Self::Close { reason, text } => {
                write!(f, "CLOSE reason {reason} \"{}\"", text.escape_ascii())
            }
            Self::PathChallenge(token) => write!(f, "PATH_CHALLENGE {token:#x}"),
            Self::PathResponse(token) => write!(f, "PATH_RESPONSE {token:#x}"),
            Self::Skip { channel, message, charge } => {
                write!(f, "SKIP channel {} message {message}, charge {charge} B", channel.0)
            }
            Self::PathAdd { path, link, remote } => {
                write!(f, "PATH_ADD path {} link {} at {remote}", path.0, link.0)
            }
            Self::PathRetire { path, reason } => {
                write!(f, "PATH_RETIRE path {}, reason {reason}", path.0)
            }
            Self::Note(bytes) => write!(f, "NOTE {} B", bytes.len()),
            Self::Coded(c) => {
                let Coded { group, index, members, frames } = c;
                write!(f, "CODED group {group} {index}/{members}, {} B", frames.len())
            }
            Self::Parity(p) => {
                let Parity { group, members, index, symbol } = p;
                write!(f, "PARITY {index} of group {group}, {members} members, {} B", symbol.len())
            }
            Self::Rebuilt(r) => write!(f, "REBUILT path {} #{}", r.path.0, r.number),
            Self::Extension(kind) => write!(f, "extension {kind}"),
        }
    }
}

impl Display for ChannelOpen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let who = match self.direction {
            Direction::Both => "both ways",
            Direction::Opener => "opener sends",
            Direction::Acceptor => "acceptor sends",
        };
        let class = match self.reliability {
            Reliability::ReliableOrdered => "reliable ordered",
            Reliability::ReliableUnordered => "reliable unordered",
            Reliability::Timely => "timely",
            Reliability::Unreliable => "unreliable",
        };
        write!(f, "OPEN channel {} {who}, {class}, ", self.channel.0)?;
        write!(f, "priority {}, label {:#x}, limit {} B", self.priority, self.label, self.limit)?;
        if let Some(t) = &self.tspec {
            write!(f, ", {} with a peak of {}", t.rate, t.peak)?;
        }
        if self.one_to_many {
            f.write_str(", one to many")?;
        }
        if self.duplex {
            f.write_str(", duplex")?;
        }
        match self.reservation {
            Some(id) => write!(f, ", reservation {id}"),
            None => Ok(()),
        }
    }
}

impl Display for Ack<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ACK path {}", self.path.0)?;
        let mut ranges = 0;
        // The range being read: its highest and its lowest number.
        let mut open: Option<(u64, u64)> = None;
        for (word, base) in self.words().zip((0u64..).step_by(64)) {
            for bit in 0..64 {
                let number = self.largest.checked_sub(base + bit);
                let set = word >> bit & 1 == 1;
                match (open, number.filter(|_| set)) {
                    (Some((high, _)), Some(number)) => open = Some((high, number)),
                    (None, Some(number)) => open = Some((number, number)),
                    (Some(range), None) => {
                        write_range(f, range, &mut ranges)?;
                        open = None;
                    }
                    (None, None) => {}
                }
            }
        }
        if let Some(range) = open {
            write_range(f, range, &mut ranges)?;
        }
        if ranges > RANGES_SHOWN {
            write!(f, " and {} ranges more", ranges - RANGES_SHOWN)?;
        }
        write!(f, " after {} us", self.delay_us)
    }
}

fn write_range(f: &mut Formatter<'_>, range: (u64, u64), count: &mut usize) -> fmt::Result {
    *count += 1;
    match range {
        _ if *count > RANGES_SHOWN => Ok(()),
        (high, low) if high == low => write!(f, " #{high}"),
        (high, low) => write!(f, " #{low}..#{high}"),
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::bytes::Writer;
    use crate::frame;
    use crate::id::{ChannelId, PathId};

    fn packet(content: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; DATA_HEADER];
        Data { epoch: 0, path: PathId(3), receiver: 16, number: 9 }.emit(&mut datagram);
        datagram.extend_from_slice(content);
        datagram.extend_from_slice(&[0; TAG]);
        datagram
    }

    fn shown(len: usize, emit: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut content = vec![0; len];
        emit(&mut Writer::new(&mut content));
        Shown { datagram: &packet(&content), clear: true }.to_string()
    }

    #[test]
    fn an_acknowledgement_shows_ranges_of_numbers() {
        // 100, 99, not 98, 97, and 36 as the last bit of the word before 35, 34.
        let words = [0b1011 | 1 << 63, 1 << 63 | 0b1];
        let line = shown(frame::ack_len(2), |w| frame::emit_ack(w, PathId(3), 250, 100, &words));
        let expected = "data to 0x10 path 3 #9: ACK path 3 #99..#100 #97 #36..#37 after 250 us";
        assert_eq!(line, expected);
    }

    #[test]
    fn numbers_below_zero_do_not_exist_and_long_lists_are_cut() {
        let all = [u64::MAX];
        let line = shown(frame::ack_len(1), |w| frame::emit_ack(w, PathId(0), 0, 2, &all));
        assert!(line.ends_with("ACK path 0 #0..#2 after 0 us"), "{line}");
        let every_second = [0x5555_5555_5555_5555];
        let line =
            shown(frame::ack_len(1), |w| frame::emit_ack(w, PathId(0), 0, 99, &every_second));
        assert!(line.contains("#85 and 24 ranges more"), "{line}");
    }

    #[test]
    fn pieces_padding_and_damage() {
        let line = shown(24 + 5 + 3, |w| {
            frame::emit_data_header(w, ChannelId(4), 7, 100, 20, 5);
        });
        let expected = "data to 0x10 path 3 #9: DATA channel 4 message 7 bytes 20..25 of 100; \
                        PAD x 3";
        assert_eq!(line, expected);
        let line = Shown { datagram: &packet(&[1, 99]), clear: true }.to_string();
        assert!(line.contains("PING; malformed: "), "{line}");
        let line = Shown { datagram: &packet(&[1, 99]), clear: false }.to_string();
        assert!(line.ends_with("#9: 2 B sealed"), "{line}");
        assert!(Shown { datagram: &[77], clear: true }.to_string().starts_with("no packet"));
    }

    proptest! {
        #[test]
        fn anything_can_be_shown_on_one_line(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            kind in 0..6u8,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let line = Shown { datagram: &bytes, clear: true }.to_string();
            prop_assert!(!line.is_empty() && !line.contains('\n'), "{}", line);
        }

        #[test]
        fn any_content_can_be_shown_on_one_line(
            content in proptest::collection::vec(0..9u8, 0..300),
        ) {
            let line = Shown { datagram: &packet(&content), clear: true }.to_string();
            prop_assert!(line.chars().all(|c| !c.is_control()), "{}", line);
        }
    }
}
