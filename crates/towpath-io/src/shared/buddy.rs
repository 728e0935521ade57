//! Which pages of an arena are used: powers of two of pages, kept in the owner's private memory.
//!
//! A block that is given back goes first on the list of its size and is the next one handed out:
//! its bytes are still in the caches. Neighbours are joined only when a size has run out.

/// Marks the end of a list, and no page.
const NONE: u32 = u32::MAX;
/// Sizes: up to 2^24 pages (64 GiB).
const ORDERS: usize = 25;

/// What a page is the start of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Of nothing: it lies inside a block.
    Inside,
    Free,
    Used,
}

/// A page's entry.
#[derive(Clone, Copy, Debug)]
struct Page {
    start: Start,
    /// The block's size is 2^order pages.
    order: u8,
    /// Of a free block: the next of its list. Of a used one: how many hold it.
    link: u32,
}

/// The allocator. Invariants: blocks are disjoint and aligned to their size; a free block is on
/// the list of its order exactly once.
#[derive(Debug)]
pub(super) struct Buddy {
    pages: Vec<Page>,
    free: [u32; ORDERS],
    /// Blocks given back since neighbours were last joined.
    unjoined: u32,
    /// Pages in use.
    used: usize,
}

/// The order of the smallest block of at least `pages` pages.
pub(super) fn order_for(pages: usize) -> u8 {
    pages.max(1).next_power_of_two().trailing_zeros() as u8
}

impl Buddy {
    pub(super) fn new(pages: usize) -> Self {
        assert!(pages < 1 << ORDERS, "{pages} pages are within the largest arena");
        let page = Page { start: Start::Inside, order: 0, link: NONE };
        let (pages, free) = (vec![page; pages], [NONE; ORDERS]);
        let mut buddy = Self { pages, free, unjoined: 0, used: 0 };
        buddy.cover(0, buddy.pages.len());
        buddy
    }

    /// Makes free blocks of `[from, to)`, as large as they can be, the lowest first on its list.
    fn cover(&mut self, from: usize, to: usize) {
        let mut end = to;
        while end > from {
            let aligned = end.trailing_zeros();
            let fitting = (end - from).ilog2();
            let order = aligned.min(fitting);
            end -= 1 << order;
            self.push(end, order as u8);
        }
    }

    fn push(&mut self, page: usize, order: u8) {
        let link = self.free[usize::from(order)];
        self.pages[page] = Page { start: Start::Free, order, link };
        self.free[usize::from(order)] = page as u32;
    }

    fn pop(&mut self, order: u8) -> Option<usize> {
        let page = self.free[usize::from(order)];
        let entry = self.pages.get(page as usize)?;
        self.free[usize::from(order)] = entry.link;
        Some(page as usize)
    }

    /// Pages in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// A block of 2^order pages, held once.
    pub(super) fn alloc(&mut self, order: u8) -> Option<usize> {
        let page = match self.take(order) {
            None if self.unjoined > 0 => {
                self.join();
                self.take(order)
            }
            taken => taken,
        }?;
        self.pages[page] = Page { start: Start::Used, order, link: 1 };
        self.used += 1 << order;
        Some(page)
    }

    /// Takes the smallest block that is large enough and gives back what is too much.
    fn take(&mut self, order: u8) -> Option<usize> {
        let from = (order..ORDERS as u8).find(|o| self.free[usize::from(*o)] != NONE)?;
        let page = self.pop(from).expect("the list is not empty");
        for half in (order..from).rev() {
            self.push(page + (1 << half), half);
        }
        Some(page)
    }

    /// One more holds the block.
    pub(super) fn hold(&mut self, page: usize) {
        let entry = self.used_entry(page);
        entry.link = entry.link.checked_add(1).expect("fewer than 2^32 hold a block");
    }

    /// One fewer holds the block; the last gives it back. True for the last.
    pub(super) fn release(&mut self, page: usize) -> bool {
        let entry = self.used_entry(page);
        entry.link -= 1;
        if entry.link > 0 {
            return false;
        }
        let order = entry.order;
        self.used -= 1 << order;
        self.unjoined += 1;
        self.push(page, order);
        true
    }

    fn used_entry(&mut self, page: usize) -> &mut Page {
        let entry = &mut self.pages[page];
        assert!(entry.start == Start::Used, "page {page} starts a block in use");
        entry
    }

    /// Joins all neighbours that are free.
    fn join(&mut self) {
        self.unjoined = 0;
        self.free = [NONE; ORDERS];
        // From the end, so that the lowest blocks come first on their lists.
        let mut to = self.pages.len();
        while let Some(end) = to.checked_sub(1) {
            let start = self.start_of(end);
            if self.pages[start].start == Start::Used {
                to = start;
                continue;
            }
            let from = self.first_of_free_run(start);
            self.pages[from..to].fill(Page { start: Start::Inside, order: 0, link: NONE });
            self.cover(from, to);
            to = from;
        }
    }

    /// The first page of the block that `page` lies in.
    fn start_of(&self, page: usize) -> usize {
        let orders = 0..ORDERS as u32;
        let starts = orders.map(|order| page >> order << order);
        let is_start = |at: &usize| self.pages[*at].start != Start::Inside;
        starts.clone().find(is_start).expect("every page lies in a block")
    }

    /// The first page of the free blocks in front of the free block at `start`, itself included.
    fn first_of_free_run(&self, start: usize) -> usize {
        let mut from = start;
        while let Some(before) = from.checked_sub(1) {
            let block = self.start_of(before);
            if self.pages[block].start != Start::Free {
                break;
            }
            from = block;
        }
        from
    }

    #[cfg(test)]
    fn check(&self) {
        let (mut at, mut free, mut used) = (0, 0, 0);
        while at < self.pages.len() {
            let page = self.pages[at];
            let size = 1 << page.order;
            assert!(at.is_multiple_of(size), "the block at {at} is aligned");
            assert_ne!(page.start, Start::Inside, "blocks follow each other at {at}");
            let inside = &self.pages[at + 1..at + size];
            assert!(inside.iter().all(|p| p.start == Start::Inside), "no block within {at}");
            free += usize::from(page.start == Start::Free);
            used += if page.start == Start::Used { size } else { 0 };
            at += size;
        }
        assert_eq!((at, used), (self.pages.len(), self.used));
        let mut listed = 0;
        for order in 0..ORDERS {
            let mut page = self.free[order];
            while page != NONE {
                let entry = self.pages[page as usize];
                assert_eq!((entry.start, usize::from(entry.order)), (Start::Free, order));
                (page, listed) = (entry.link, listed + 1);
            }
        }
        assert_eq!(listed, free, "every free block is on one list");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_given_back_last_comes_first() {
        let mut buddy = Buddy::new(64);
        let [a, b] = [buddy.alloc(3).unwrap(), buddy.alloc(3).unwrap()];
        buddy.release(a);
        buddy.release(b);
        assert_eq!((buddy.alloc(3), buddy.alloc(3)), (Some(b), Some(a)));
    }

    #[test]
    fn small_blocks_become_a_large_one_again() {
        let mut buddy = Buddy::new(64);
        let pages: Vec<_> = (0..64).map(|_| buddy.alloc(0).unwrap()).collect();
        assert_eq!((buddy.alloc(0), buddy.used()), (None, 64));
        assert!(pages.into_iter().all(|page| buddy.release(page)));
        assert_eq!((buddy.alloc(6), buddy.used()), (Some(0), 64));
        buddy.check();
    }

    #[test]
    fn a_block_stays_while_one_holds_it() {
        let mut buddy = Buddy::new(1);
        let page = buddy.alloc(0).unwrap();
        buddy.hold(page);
        assert!(!buddy.release(page));
        assert_eq!(buddy.alloc(0), None);
        assert!(buddy.release(page));
        assert_eq!(buddy.alloc(0), Some(page));
    }

    #[test]
    fn an_odd_number_of_pages_is_used_to_the_last() {
        let mut buddy = Buddy::new(7);
        buddy.check();
        assert_eq!((buddy.alloc(2), buddy.alloc(1), buddy.alloc(0)), (Some(0), Some(4), Some(6)));
        assert_eq!(order_for(0), 0);
        assert_eq!((order_for(1), order_for(2), order_for(3), order_for(256)), (0, 1, 2, 8));
    }

    fn step() -> impl Strategy<Value = (bool, u8, prop::sample::Index)> {
        (any::<bool>(), 0_u8..6, any::<prop::sample::Index>())
    }

    proptest! {
        /// Blocks never overlap; a refusal is right: joined as far as possible, no free block of
        /// the size is left.
        #[test]
        fn blocks_are_disjoint_and_refusals_right(
            pages in 1_usize..80,
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut buddy = Buddy::new(pages);
            let mut held: Vec<(usize, u8)> = Vec::new();
            let mut taken = vec![false; pages];
            for (give, order, which) in steps {
                if give && !held.is_empty() {
                    let (page, order) = held.swap_remove(which.index(held.len()));
                    prop_assert!(buddy.release(page));
                    taken[page..page + (1 << order)].fill(false);
                } else if let Some(page) = buddy.alloc(order) {
                    let block = &mut taken[page..page + (1 << order)];
                    prop_assert!(block.iter().all(|t| !*t));
                    block.fill(true);
                    held.push((page, order));
                } else {
                    let size = 1 << order;
                    let mut places = taken.chunks_exact(size);
                    prop_assert!(places.all(|place| place.contains(&true)));
                }
                buddy.check();
            }
        }
    }
}
