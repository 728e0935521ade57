//! A high rate while late, a low one while early (first source, §4.5).

use super::{Head, Policy};
use crate::schedule::pdcbr::DualRate;

/// At each reference: low rate if it is still to come, else high. The first group goes at the high
/// rate.
#[derive(Clone, Copy, Debug)]
pub struct Pdcbr {
    rates: DualRate,
    low: bool,
    started: bool,
}

impl Pdcbr {
    /// At a pair of rates.
    pub const fn new(rates: DualRate) -> Self {
        Self { rates, low: false, started: false }
    }
}

impl Policy for Pdcbr {
    fn units(&self) -> u128 {
        self.rates.units()
    }

    fn begin(&mut self, head: &mut Head, reference: u64, _bytes: u64) {
        self.low = self.started && head.is_before(reference);
        self.started = true;
    }

    fn send(&mut self, head: &mut Head, bytes: u64) {
        head.send(bytes, self.rates.per_byte()[usize::from(self.low)]);
    }
}
