//! A task's arena as its daemon sees it: where payloads stand that the task lends the daemon.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::layout::ArenaShape;
use super::memory::Memory;
use super::segment::{OpenError, open_task};

/// A task's segment, mapped read-only.
#[derive(Debug)]
pub struct Lender {
    memory: Arc<Memory>,
    shape: ArenaShape,
}

impl Lender {
    /// Maps the segment, of which `peers` is the read-only descriptor.
    pub fn open(peers: OwnedFd) -> Result<Self, OpenError> {
        let (memory, shape) = open_task(peers, false)?;
        Ok(Self { memory, shape })
    }

    /// `len` bytes of the arena from page `page` on; `None` where it does not have them. They are
    /// lent until the task is told that they were taken; a task that writes there before changes
    /// what is seen, and nothing else.
    pub fn bytes(&self, page: u32, len: u32) -> Option<&[u8]> {
        let (page, len) = self.shape.block(page.into(), len.into())?;
        // SAFETY: the range lies in the arena; its owner's library writes it again only once the
        // block was given back, for which it waits. What a program does there on purpose is its
        // own payload: whoever gets these bytes copies them once and believes nothing of them.
        Some(unsafe { self.memory.bytes(self.shape.page(page), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{Home, Segment};

    #[test]
    fn what_a_task_lends_is_seen_and_nothing_beyond_its_arena() {
        let Segment { owner, peers } = Segment::task(1 << 20).unwrap();
        let (home, lender) = (Home::open(owner).unwrap(), Lender::open(peers).unwrap());
        let mut block = home.arena().alloc(5000).unwrap();
        block.write(0, &[7; 5000]);
        let block = block.freeze();
        let page = block.page() as u32;
        assert_eq!(lender.bytes(page, 5000), Some(&[7; 5000][..]));
        let pages = (home.arena().limit() / 4096) as u32;
        assert!(lender.bytes(pages - 1, 4096).is_some());
        assert_eq!(lender.bytes(pages - 1, 4097), None);
        assert_eq!(lender.bytes(pages, 0), None);
        assert_eq!(lender.bytes(u32::MAX, u32::MAX), None);
        drop(home);
        assert_eq!(lender.bytes(page, 5000), Some(&[7; 5000][..]), "it outlives its task");
    }
}
