//! The start-up delay in the three ways in which it is told.

use super::Trace;

/// A start-up delay. Everything here counts it in ticks from the first bit to the consumption of
/// the first group; slots exist only where groups are evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartUp {
    /// From the first bit to the first group, in ticks.
    pub ticks: u64,
    /// The same in seconds.
    pub seconds: f64,
    /// The first source's `P` (its figures imply `P · F` from the first bit to the first frame).
    pub thesis_slots: Option<f64>,
    /// The `P` of eq. 4.2 as printed, where frame `n` leaves `(P + n) · F` after the first bit: one
    /// less.
    pub reference_slots: Option<f64>,
}

impl Trace {
    /// `ticks` of start-up delay in every convention.
    pub fn start_up(&self, ticks: u64) -> StartUp {
        let thesis_slots = self.slot().map(|slot| ticks as f64 / slot as f64);
        let reference_slots = thesis_slots.map(|slots| slots - 1.0);
        StartUp { ticks, seconds: self.seconds(ticks), thesis_slots, reference_slots }
    }

    /// Ticks of the first source's delay of `slots`: `P · F`. `None` without even spacing, or where
    /// it does not fit.
    pub fn thesis_slots(&self, slots: u64) -> Option<u64> {
        self.slot()?.checked_mul(slots)
    }

    /// Ticks of a delay of `slots` before the first frame's own: `(P + 1) · F`. `None` without even
    /// spacing, or where it does not fit.
    pub fn reference_slots(&self, slots: u64) -> Option<u64> {
        self.thesis_slots(slots.checked_add(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::FrameRate;

    #[test]
    fn a_slot_lies_between_the_two_conventions() {
        let trace = Trace::uniform([5, 5], FrameRate::TWENTY_FIVE).expect("trace");
        assert_eq!(trace.reference_slots(10), trace.thesis_slots(11));
        let told = trace.start_up(trace.reference_slots(0).expect("even"));
        assert_eq!((told.thesis_slots, told.reference_slots), (Some(1.0), Some(0.0)));
        assert!((told.seconds - 0.04).abs() < 1e-12);
        assert_eq!(trace.reference_slots(u64::MAX), None);
    }
}
