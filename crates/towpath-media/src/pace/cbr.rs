//! One rate from start to end.

use super::{Head, Policy};
use crate::trace::ExactRate;

/// Constant rate: references do not matter.
#[derive(Clone, Copy, Debug)]
pub struct Cbr {
    rate: ExactRate,
}

impl Cbr {
    /// At a rate above zero; `None` at zero.
    pub fn new(rate: ExactRate) -> Option<Self> {
        (!rate.is_zero()).then_some(Self { rate })
    }
}

impl Policy for Cbr {
    fn units(&self) -> u128 {
        u128::from(self.rate.bytes())
    }

    fn begin(&mut self, _head: &mut Head, _reference: u64, _bytes: u64) {}

    fn send(&mut self, head: &mut Head, bytes: u64) {
        head.send(bytes, u128::from(self.rate.ticks()));
    }
}
