//! Frames of sound: a header tells where the next one is.

use super::access::Access;
use super::audio_headers::{FrameHeader, ac3, adts, mpeg};
use crate::read::event::AudioInfo;

/// Longest header.
const HEAD_MAX: usize = 7;

/// How a header is read.
#[derive(Clone, Copy, Debug)]
enum Syntax {
    Mpeg,
    Adts,
    Ac3,
}

/// Where in a frame the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Collecting what should be a header.
    Head,
    /// So many bytes are left of the frame.
    Body(u32),
}

/// Finds frames. The first one, and the first after something that is none, counts when another
/// header follows it; from then on each is told as its last byte comes.
#[derive(Debug)]
pub(super) struct Audio {
    syntax: Syntax,
    state: State,
    /// Bytes of the stream so far.
    position: u64,
    head: [u8; HEAD_MAX],
    head_len: usize,
    /// A whole frame waits for the header behind it.
    waiting: bool,
    /// Headers were where they should be.
    sure: bool,
    /// What follows may belong to the frame.
    leads: bool,
    info: Option<AudioInfo>,
}

impl Audio {
    pub(super) const fn mpeg() -> Self {
        Self::new(Syntax::Mpeg)
    }

    pub(super) const fn adts() -> Self {
        Self::new(Syntax::Adts)
    }

    pub(super) const fn ac3() -> Self {
        Self::new(Syntax::Ac3)
    }

    const fn new(syntax: Syntax) -> Self {
        Self {
            syntax,
            state: State::Head,
            position: 0,
            head: [0; HEAD_MAX],
            head_len: 0,
            waiting: false,
            sure: false,
            leads: false,
            info: None,
        }
    }

    /// Whether what is there ends with a whole frame.
    pub(super) const fn is_whole(&self) -> bool {
        self.waiting && self.head_len == 0
    }

    /// Takes a piece; `tell` is called where a frame ended or a header told something new.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        access: &mut Access,
        mut tell: impl FnMut(&mut Access, Option<AudioInfo>),
    ) {
        let mut at = 0;
        while at < piece.len() {
            match self.state {
                State::Head => {
                    self.head[self.head_len] = piece[at];
                    self.head_len += 1;
                    self.position += 1;
                    at += 1;
                    if self.head_len == self.wanted() {
                        let news = self.header(access);
                        tell(access, news);
                    }
                }
                State::Body(left) => {
                    let take = (left as usize).min(piece.len() - at);
                    self.position += take as u64;
                    at += take;
                    self.body(left - take as u32, access);
                    tell(access, None);
                }
            }
        }
    }

    const fn wanted(&self) -> usize {
        match self.syntax {
            Syntax::Mpeg => 4,
            Syntax::Adts | Syntax::Ac3 => HEAD_MAX,
        }
    }

    fn parse(&self) -> Option<FrameHeader> {
        match self.syntax {
            Syntax::Mpeg => mpeg(*self.head.first_chunk()?),
            Syntax::Adts => adts(self.head),
            Syntax::Ac3 => ac3(self.head),
        }
    }

    /// The head is full: a header, or the search goes on at its second byte.
    fn header(&mut self, access: &mut Access) -> Option<AudioInfo> {
        let start = self.position - self.head_len as u64;
        let found = self.parse().filter(|header| header.bytes as usize > self.head_len);
        let Some(FrameHeader { bytes, info, dependent, leads }) = found else {
            (self.sure, self.waiting) = (false, false);
            self.head.copy_within(1.., 0);
            self.head_len -= 1;
            return None;
        };
        let goes_on = dependent && self.waiting;
        if self.waiting && !goes_on {
            access.end(start);
            self.sure = true;
        }
        if !goes_on {
            access.discard(start);
            access.begin(start);
            access.key();
        }
        self.waiting = false;
        self.leads = leads;
        self.state = State::Body(bytes - self.head_len as u32);
        self.head_len = 0;
        let news = !dependent && self.info.replace(info) != Some(info);
        news.then_some(info)
    }

    /// So many bytes of the frame are left.
    fn body(&mut self, left: u32, access: &mut Access) {
        self.state = State::Body(left);
        if left > 0 {
            return;
        }
        self.state = State::Head;
        if self.sure && !self.leads {
            access.end(self.position);
        } else {
            self.waiting = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Layer 2, 32 kbit/s, 48 kHz: 96 bytes.
    fn frame() -> Vec<u8> {
        let mut bytes = std::vec![0xFF, 0xFD, 0x14, 0xC0];
        bytes.resize(96, 0x55);
        bytes
    }

    /// Start, size, damage of each frame, and how often something new was told.
    fn run(bytes: &[u8], cut: usize) -> (Vec<(u64, u64, bool)>, usize) {
        let (mut audio, mut access) = (Audio::mpeg(), Access::new(0));
        let (mut frames, mut news) = (Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            audio.push(piece, &mut access, |access, info| {
                news += usize::from(info.is_some());
                frames.extend(access.take_ended().map(|f| (f.start, f.size, f.damaged)));
            });
        }
        if audio.is_whole() {
            access.end(bytes.len() as u64);
            frames.extend(access.take_ended().map(|f| (f.start, f.size, f.damaged)));
        }
        (frames, news)
    }

    #[test]
    fn frames_begin_where_headers_follow_each_other() {
        let frames = [frame(), frame(), frame()].concat();
        let expected = [(0, 96, false), (96, 96, false), (192, 96, false)];
        assert_eq!(run(&frames, 1000), (expected.to_vec(), 1));
        // The rest of a frame before, with a word in it that looks like a header.
        let rest = [&[7, 7, 0xFF, 0xFD, 0x14, 0xC0][..], &[9; 92]].concat();
        let (found, _) = run(&[&rest[..], &frames].concat(), 1000);
        assert_eq!(found.len(), 4, "what looks like a frame and is followed by one is one");
        let rest = [&[7, 7, 0xFF, 0xFD, 0x14, 0xC0][..], &[9; 30]].concat();
        let (found, _) = run(&[&rest[..], &frames].concat(), 1000);
        // It swallows the first one's beginning; the rest is found again.
        assert_eq!(found, [(132, 96, false), (228, 96, false)]);
        // A half frame at the end is none.
        let (found, _) = run(&frames[..240], 7);
        assert_eq!(found, expected[..2]);
    }

    #[test]
    fn enhanced_ac3_keeps_what_depends_on_a_frame() {
        let piece = |kind: u8, words: u8| {
            let mut bytes = std::vec![0x0B, 0x77, kind << 6, words - 1, 0x34, 16 << 3, 0];
            bytes.resize(usize::from(words) * 2, 0);
            bytes
        };
        let bytes = [piece(0, 20), piece(1, 10), piece(0, 20), piece(1, 10), piece(0, 20)].concat();
        let (mut audio, mut access) = (Audio::ac3(), Access::new(0));
        let mut sizes = Vec::new();
        audio.push(&bytes, &mut access, |access, _| {
            sizes.extend(access.take_ended().map(|f| f.size));
        });
        assert_eq!(sizes, [60, 60]);
        assert!(audio.is_whole());
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            cut in 1_usize..200,
            bytes in prop::collection::vec(
                prop_oneof![Just(0xFF), Just(0xFD), Just(0x14), any::<u8>()],
                0..300,
            ),
            lost in 0_usize..288,
        ) {
            let mut whole = [frame(), frame(), frame()].concat();
            whole.remove(lost);
            prop_assert_eq!(run(&whole, cut), run(&whole, 1000));
            prop_assert_eq!(run(&bytes, cut), run(&bytes, 1000));
        }
    }
}
