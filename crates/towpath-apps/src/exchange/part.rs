//! Some of the ranks, as an exchange of their own.

use super::{Exchange, Messages, Result};

/// Tags of parts lie so far above those of the whole.
const TAG_PART: i32 = 1 << 26;

/// The members of a part number themselves by their place in the list. A rank is in one part at a
/// time.
pub(crate) struct Part<'a> {
    whole: &'a mut dyn Exchange,
    members: Vec<usize>,
    place: usize,
}

impl<'a> Part<'a> {
    /// None: the own rank is not among them.
    pub(crate) fn new(whole: &'a mut dyn Exchange, members: Vec<usize>) -> Option<Self> {
        let place = members.iter().position(|member| *member == whole.rank())?;
        Some(Self { whole, members, place })
    }

    fn named(&self, got: (usize, Vec<u8>)) -> (usize, Vec<u8>) {
        let place = self.members.iter().position(|member| *member == got.0);
        (place.expect("only members use the tags of their part"), got.1)
    }
}

impl Messages for Part<'_> {}

impl Exchange for Part<'_> {
    fn rank(&self) -> usize {
        self.place
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        self.whole.send(self.members[to], TAG_PART + tag, bytes)
    }

    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
        let got = self.whole.recv(from.map(|from| self.members[from]), TAG_PART + tag)?;
        Ok(self.named(got))
    }

    fn check(&mut self) -> Result<()> {
        self.whole.check()
    }

    fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>> {
        let from = from.map(|from| self.members[from]);
        let got = self.whole.try_recv(from, TAG_PART + tag)?;
        Ok(got.map(|got| self.named(got)))
    }
}
