//! The 27 MHz counter that is loaded with the first clock reference (first source, §4.3.3).

/// Values of a program clock reference: 33 bits at 90 kHz, 300 steps each (ISO/IEC 13818-1
/// §2.4.3.5).
pub const PCR_WRAP: u64 = (1 << 33) * 300;

/// Turns references into ticks since the first one, over wraps and jumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    last: Option<u64>,
    ticks: u64,
    jumps: u64,
}

impl Counter {
    /// Ticks from the first reference to this one. A reference that goes back, or ahead by half
    /// the range (13 hours), is a jump: it counts as if no time had passed.
    pub fn ticks(&mut self, reference: u64) -> u64 {
        let reference = reference % PCR_WRAP;
        if let Some(last) = self.last {
            let ahead = (reference + PCR_WRAP - last) % PCR_WRAP;
            if ahead < PCR_WRAP / 2 {
                self.ticks += ahead;
            } else {
                self.jumps += 1;
            }
        }
        self.last = Some(reference);
        self.ticks
    }

    /// Jumps met so far.
    pub const fn jumps(&self) -> u64 {
        self.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_over_the_wrap_and_stands_still_at_a_jump() {
        let mut counter = Counter::default();
        let values = [PCR_WRAP - 5, PCR_WRAP - 1, 3, 3, 10, 4, 6];
        assert_eq!(values.map(|value| counter.ticks(value)), [0, 4, 8, 8, 15, 15, 17]);
        assert_eq!(counter.jumps(), 1);
    }

    #[test]
    fn half_the_range_ahead_is_a_jump_and_less_is_not() {
        for (step, jumps) in [(PCR_WRAP / 2 - 1, 0), (PCR_WRAP / 2, 1), (PCR_WRAP / 2 + 1, 1)] {
            let mut counter = Counter::default();
            counter.ticks(7);
            let ticks = counter.ticks(7 + step);
            assert_eq!((ticks, counter.jumps()), (if jumps == 0 { step } else { 0 }, jumps));
        }
    }
}
