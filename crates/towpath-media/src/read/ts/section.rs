//! Tables out of packets (§2.4.4): sections of any length, several in a packet, one over many.

use alloc::vec::Vec;

/// Longest section of a private table.
const SECTION_MAX: usize = 4096;
/// Longest section of a table whose length the standard holds below 1024.
const SHORT_SECTION_MAX: usize = 1024;
/// Tables with short sections: association, access, map and description.
const SHORT_TABLES: [u8; 4] = [0, 1, 2, 3];
/// What fills a packet behind the last section.
const STUFFING: u8 = 0xFF;
/// Bytes before which the length is not known.
const HEAD: usize = 3;

/// Puts the sections of one PID together. Holds at most [`SECTION_MAX`] bytes.
#[derive(Debug, Default)]
pub(super) struct SectionReader {
    section: Vec<u8>,
    /// In a section; otherwise bytes are dropped until a packet tells where one starts.
    active: bool,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A whole section with its CRC.
    Section(&'a [u8]),
    /// The length is beyond its limit, or a pointer beyond its packet.
    Bad,
}

impl SectionReader {
    /// Packets were lost.
    pub(super) fn lost(&mut self) {
        self.active = false;
        self.section.clear();
    }

    /// The payload of a packet; `starts` if its header says that a section starts in it.
    pub(super) fn push(&mut self, payload: &[u8], starts: bool, mut found: impl FnMut(Found<'_>)) {
        if !starts {
            self.continue_with(payload, &mut found);
            return;
        }
        let Some((&pointer, rest)) = payload.split_first() else { return };
        let Some((before, after)) = rest.split_at_checked(pointer.into()) else {
            self.lost();
            return found(Found::Bad);
        };
        self.continue_with(before, &mut found);
        if self.active && !self.section.is_empty() {
            found(Found::Bad);
        }
        self.section.clear();
        self.active = true;
        self.continue_with(after, &mut found);
    }

    fn continue_with(&mut self, mut bytes: &[u8], found: &mut impl FnMut(Found<'_>)) {
        while self.active && !bytes.is_empty() {
            if self.section.is_empty() && bytes[0] == STUFFING {
                self.active = false;
                return;
            }
            let wanted = match self.wanted() {
                Some(wanted) if wanted <= self.limit() => wanted,
                Some(_) => {
                    self.lost();
                    return found(Found::Bad);
                }
                None => HEAD,
            };
            let take = bytes.len().min(wanted - self.section.len());
            self.section.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.wanted() == Some(self.section.len()) {
                found(Found::Section(&self.section));
                self.section.clear();
            }
        }
    }

    fn wanted(&self) -> Option<usize> {
        let head = self.section.get(..HEAD)?;
        Some(HEAD + usize::from(u16::from_be_bytes([head[1] & 0x0F, head[2]])))
    }

    fn limit(&self) -> usize {
        let short = self.section.first().is_some_and(|id| SHORT_TABLES.contains(id));
        if short { SHORT_SECTION_MAX } else { SECTION_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn sections(packets: &[(&[u8], bool)]) -> (Vec<Vec<u8>>, usize) {
        let mut reader = SectionReader::default();
        let (mut whole, mut bad) = (Vec::new(), 0);
        for &(payload, starts) in packets {
            reader.push(payload, starts, |found| match found {
                Found::Section(s) => whole.push(s.to_vec()),
                Found::Bad => bad += 1,
            });
        }
        (whole, bad)
    }

    #[test]
    fn two_in_one_packet_and_one_over_two() {
        let first = [0, 0x40, 0, 1, 2, 5, 0xF0, 2, 8, 9, 6, 0xF0];
        let second = [1, 7, 0xFF, 0xFF];
        let (whole, bad) = sections(&[(&first, true), (&second, false)]);
        // The pointer is 0; table 0x40 has one byte (length 1), 5 has two, 6 is cut by the packet.
        assert_eq!(whole[0], [0x40, 0, 1, 2]);
        assert_eq!(whole[1], [5, 0xF0, 2, 8, 9]);
        assert_eq!(whole[2], [6, 0xF0, 1, 7]);
        assert_eq!((whole.len(), bad), (3, 0));
    }

    #[test]
    fn lengths_are_not_believed() {
        assert_eq!(sections(&[(&[0, 2, 0x0F, 0xFF, 0], true)]), (vec![], 1));
        assert_eq!(sections(&[(&[9, 2, 0, 1], true)]), (vec![], 1));
        let starts_anew: [(&[u8], bool); 2] = [(&[0, 2, 0, 9, 1], true), (&[0, 2, 0, 1, 1], true)];
        assert_eq!(sections(&starts_anew), (vec![vec![2, 0, 1, 1]], 1));
    }
}
