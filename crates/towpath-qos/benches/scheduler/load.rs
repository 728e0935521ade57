//! What every subject is measured with.

/// Packets waiting in each queue.
pub(crate) const DEPTH: u32 = 2;
/// Largest packet.
pub(crate) const LARGEST: u32 = 1538;

/// One thing to measure: sends `packets`, each replaced by one in the same queue.
pub(crate) trait Subject {
    fn send(&mut self, packets: u32);
}

/// Sizes and queues in a fixed random order.
pub(crate) struct Sequence(pub(crate) u64);

impl Sequence {
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        // xorshift64*, Vigna 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    #[inline]
    pub(crate) fn size(&mut self) -> u32 {
        64 + (self.next() % 1437) as u32
    }
}

/// The order in which queues are backlogged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Random,
    ById,
}

impl Arrival {
    pub(crate) fn order(self, queues: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..queues).collect();
        if self == Self::Random {
            let mut random = Sequence(11);
            for last in (1..order.len()).rev() {
                order.swap(last, random.next() as usize % (last + 1));
            }
        }
        order
    }
}

/// Weight of a queue: 1..=16.
pub(crate) fn weight(id: u32) -> u32 {
    1 + (u64::from(id) * 7 % 16) as u32
}

/// Priority of a queue.
pub(crate) fn priority(id: u32) -> u8 {
    (id % 8) as u8
}
