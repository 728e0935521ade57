//! One rate, held up at a reference that is early (first source, §4.4).

use super::{Head, Policy};
use crate::trace::ExactRate;

/// Whenever `|PCR_i| > C_i`, nothing is sent until the counter reaches the reference.
#[derive(Clone, Copy, Debug)]
pub struct Pcbr {
    rate: ExactRate,
}

impl Pcbr {
    /// At a rate above zero; `None` at zero.
    pub fn new(rate: ExactRate) -> Option<Self> {
        (!rate.is_zero()).then_some(Self { rate })
    }
}

impl Policy for Pcbr {
    fn units(&self) -> u128 {
        u128::from(self.rate.bytes())
    }

    fn begin(&mut self, head: &mut Head, reference: u64, _bytes: u64) {
        head.wait(reference);
    }

    fn send(&mut self, head: &mut Head, bytes: u64) {
        head.send(bytes, u128::from(self.rate.ticks()));
    }
}
