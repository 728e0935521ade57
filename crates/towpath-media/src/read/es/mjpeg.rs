//! JPEG images one after the other (ISO/IEC 10918-1 Annex B).

use super::access::Access;
use crate::read::event::{FrameType, VideoInfo};

const START_OF_IMAGE: u8 = 0xD8;
const END_OF_IMAGE: u8 = 0xD9;

/// Where in a marker the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In entropy-coded data, or between segments.
    Data,
    /// After 0xFF.
    Prefix,
    /// After a marker that has a segment; the first length byte follows.
    Length,
    /// After that byte.
    LengthLow(u8),
    /// In a segment with so many bytes left.
    Segment(u16),
}

/// Finds images: each begins at its SOI marker. Segments are skipped by their length, so that a
/// thumbnail inside of one is no image.
#[derive(Debug)]
pub(super) struct Mjpeg {
    state: State,
    position: u64,
    images: bool,
    /// In an image whose end has not come.
    open: bool,
    marker: u8,
    header: [u8; 5],
    header_len: usize,
    video: Option<VideoInfo>,
}

impl Mjpeg {
    pub(super) fn new() -> Self {
        Self {
            state: State::Data,
            position: 0,
            images: false,
            open: false,
            marker: 0,
            header: [0; 5],
            header_len: 0,
            video: None,
        }
    }

    /// Whether what is there ends inside of an image.
    pub(super) const fn is_cut(&self) -> bool {
        self.open
    }

    /// Takes a piece; `tell` is called where frames ended or a header told something new.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        access: &mut Access,
        mut tell: impl FnMut(&mut Access, Option<VideoInfo>),
    ) {
        let mut at = 0;
        while at < piece.len() {
            match self.state {
                State::Data => match prefix(&piece[at..]) {
                    Some(n) => {
                        at += n + 1;
                        self.state = State::Prefix;
                    }
                    None => break,
                },
                State::Prefix => {
                    let start = self.position + at as u64;
                    self.marker(piece[at], start, access);
                    tell(access, None);
                    at += 1;
                }
                State::Length => {
                    self.state = State::LengthLow(piece[at]);
                    at += 1;
                }
                State::LengthLow(high) => {
                    let length = u16::from_be_bytes([high, piece[at]]);
                    self.state = State::Segment(length.saturating_sub(2));
                    at += 1;
                }
                State::Segment(left) => {
                    let take = usize::from(left).min(piece.len() - at);
                    if self.segment(&piece[at..at + take]) {
                        tell(access, self.video);
                    }
                    at += take;
                    let left = left - take as u16;
                    self.state = if left == 0 { State::Data } else { State::Segment(left) };
                }
            }
        }
        self.position += piece.len() as u64;
    }

    /// `at` is the byte of the stream that holds the marker, after its 0xFF.
    fn marker(&mut self, marker: u8, at: u64, access: &mut Access) {
        self.marker = marker;
        self.header_len = 0;
        self.open &= marker != END_OF_IMAGE;
        self.state = match marker {
            START_OF_IMAGE => {
                if self.images {
                    access.end(at - 1);
                }
                self.images = true;
                self.open = true;
                access.begin(at - 1);
                access.kind(FrameType::I);
                access.key();
                State::Data
            }
            0xFF => State::Prefix,
            // Stuffing, reserved markers, restarts and the end of image have no segment.
            0x00..=0xBF | 0xD0..=0xD9 => State::Data,
            _ => State::Length,
        };
    }

    /// Bytes of a segment: the frame header (SOF0 to SOF3) tells the size of the picture. True if
    /// that is new.
    fn segment(&mut self, bytes: &[u8]) -> bool {
        if !(0xC0..=0xC3).contains(&self.marker) || self.header_len == self.header.len() {
            return false;
        }
        for &byte in bytes.iter().take(self.header.len() - self.header_len) {
            self.header[self.header_len] = byte;
            self.header_len += 1;
        }
        if self.header_len < self.header.len() {
            return false;
        }
        let [_, h1, h0, w1, w0] = self.header;
        let video = Some(VideoInfo {
            width: u16::from_be_bytes([w1, w0]).into(),
            height: u16::from_be_bytes([h1, h0]).into(),
            ..VideoInfo::default()
        });
        core::mem::replace(&mut self.video, video) != video
    }
}

/// Index of the first 0xFF. Blocks without one are passed without a branch per byte.
fn prefix(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let clean = |block: &[u8]| block.iter().fold(0_u8, |hit, &b| hit | u8::from(b == 0xFF)) == 0;
    let skipped = bytes.chunks_exact(BLOCK).take_while(|block| clean(block)).count() * BLOCK;
    bytes[skipped..].iter().position(|&b| b == 0xFF).map(|i| skipped + i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// An image of this size, whose first segment hides a thumbnail.
    fn image(width: u16, height: u16, kind: u8) -> Vec<u8> {
        let mut bytes = std::vec![0xFF, 0xD8, 0xFF, 0xE0, 0, 8, 0xFF, 0xD8, 0xFF, 0xD9, 1, 2];
        bytes.extend([0xFF, kind, 0, 11, 8]);
        bytes.extend(height.to_be_bytes());
        bytes.extend(width.to_be_bytes());
        bytes.extend([1, 1, 0x11, 0]);
        // A scan with stuffing and a restart, which have no segments.
        bytes.extend([0xFF, 0xDA, 0, 3, 7, 0x12, 0xFF, 0x00, 0x34, 0xFF, 0xD0, 0x56]);
        bytes.extend([0xFF, 0xFF, 0xD9]);
        bytes
    }

    /// Start and size of the images, the sizes of pictures told, and whether the end is missing.
    type Found = (Vec<(u64, u64)>, Vec<(u32, u32)>, bool);

    fn run(bytes: &[u8], cut: usize) -> Found {
        let (mut images, mut access) = (Mjpeg::new(), Access::new(0));
        let (mut frames, mut sizes) = (Vec::new(), Vec::new());
        let mut note = |access: &mut Access| {
            for frame in access.take_ended() {
                assert!(frame.key && frame.kind == FrameType::I);
                frames.push((frame.start, frame.size));
            }
        };
        for piece in bytes.chunks(cut) {
            images.push(piece, &mut access, |access, video| {
                sizes.extend(video.map(|video| (video.width, video.height)));
                note(access);
            });
        }
        access.end(bytes.len() as u64);
        note(&mut access);
        (frames, sizes, images.is_cut())
    }

    #[test]
    fn images_begin_at_their_markers_whatever_the_pieces() {
        let (one, other) = (image(320, 240, 0xC0), image(321, 256, 0xC2));
        let bytes = [&one[..], &one, &other, &image(9, 9, 0xC4)].concat();
        let len = one.len() as u64;
        let frames: Vec<_> = (0..4).map(|n| (n * len, len)).collect();
        // A size is told when it is new; what is no frame header tells none.
        let sizes = std::vec![(320, 240), (321, 256)];
        for cut in 1..bytes.len() {
            assert_eq!(run(&bytes, cut), (frames.clone(), sizes.clone(), false), "pieces of {cut}");
        }
        for cut in [1, 7, 1000] {
            assert!(run(&bytes[..bytes.len() - 1], cut).2, "its end is missing");
        }
        assert!(!run(&[], 1).2);
    }

    #[test]
    fn long_data_without_markers_is_passed() {
        let mut bytes = image(320, 240, 0xC1);
        let at = bytes.len() - 3;
        let data: Vec<u8> = (0..1000_u32).map(|n| (n % 255) as u8).collect();
        bytes.splice(at..at, data);
        let len = bytes.len() as u64;
        for cut in [1, 31, 32, 33, 64, 5000] {
            assert_eq!(
                run(&bytes, cut),
                (std::vec![(0, len)], std::vec![(320, 240)], false),
                "{cut}"
            );
        }
        assert_eq!((prefix(&[]), prefix(&[0; 70]), prefix(&[0xFF])), (None, None, Some(0)));
        for at in 0..100 {
            let mut bytes = [0xFE; 100];
            bytes[at] = 0xFF;
            assert_eq!(prefix(&bytes), Some(at));
        }
    }

    #[test]
    fn a_marker_is_found_wherever_it_stands() {
        for len in 0..100 {
            let mut bytes = std::vec![0x7F; len];
            assert_eq!(prefix(&bytes), None);
            for at in (0..len).rev() {
                bytes[at] = 0xFF;
                assert_eq!(prefix(&bytes), Some(at), "{at} of {len}");
            }
        }
    }
}
