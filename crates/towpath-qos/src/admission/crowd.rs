//! Statistical channels of a port: their average is reserved, being late has a probability.
//!
//! The model is rate-envelope multiplexing of independent sources: source j's rate lies between 0
//! and its peak `p_j` with mean `r_j`, so that by Hoeffding 1963
//! `P(Σ rates > c) ≤ exp(−2(c − Σ r_j)²/Σ p_j²)`, where c is what hard promises leave. It is a
//! model's figure and no proof: sources in step with each other break it.
//!
//! Probabilities are kept as powers of two, rounded towards the stricter.

/// Probabilities down to 2⁻³².
const STEPS: usize = 33;

/// ln 2 in parts of 2²⁰, rounded up.
const LN2: u128 = 726_818;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    mean_bps: u128,
    peaks_squared: u128,
    strict: [u32; STEPS],
}

/// One statistical channel at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) mean_bps: u64,
    pub(super) peak_bps: u64,
    /// Late at most with probability 2⁻ˢᵗʳⁱᶜᵗ.
    pub(super) strict: u8,
}

/// The power of two that is at most `late_ppm` parts per million, shared among `hops`.
pub(super) fn strictness(late_ppm: u32, hops: usize) -> u8 {
    let parts = u64::from(late_ppm.clamp(1, 1_000_000));
    let inverse = (1_000_000 * hops.max(1) as u64).div_ceil(parts);
    // ⌈log₂⌉, at most 32.
    (inverse.next_power_of_two().trailing_zeros()).min(STEPS as u32 - 1) as u8
}

impl Crowd {
    pub(super) const fn new() -> Self {
        Self { mean_bps: 0, peaks_squared: 0, strict: [0; STEPS] }
    }

    /// What hard promises must leave for the members' averages.
    pub(super) const fn mean_bps(&self) -> u128 {
        self.mean_bps
    }

    /// Whether the members, and `new`, keep their probabilities when hard promises leave
    /// `left_bps`. A crowd without members always does.
    pub(super) fn fits(&self, new: Option<Member>, left_bps: u64) -> bool {
        let old = self.strict.iter().rposition(|&n| n > 0);
        let strict = old.max(new.map(|member| usize::from(member.strict)));
        let Some(strict) = strict else { return true };
        let (mean, peak) = new.map_or((0, 0), |m| (u128::from(m.mean_bps), u128::from(m.peak_bps)));
        let Some(room) = u128::from(left_bps).checked_sub(self.mean_bps + mean) else {
            return false;
        };
        // 2·room² ≥ ln(1/ε)·Σp², the right side in parts of 2²⁰.
        let spread = (self.peaks_squared + peak * peak).div_ceil(1 << 20) * strict as u128 * LN2;
        2 * room * room >= spread
    }

    pub(super) const fn add(&mut self, member: Member) {
        self.mean_bps += member.mean_bps as u128;
        self.peaks_squared += member.peak_bps as u128 * member.peak_bps as u128;
        self.strict[member.strict as usize] += 1;
    }

    pub(super) const fn remove(&mut self, member: Member) {
        self.mean_bps -= member.mean_bps as u128;
        self.peaks_squared -= member.peak_bps as u128 * member.peak_bps as u128;
        self.strict[member.strict as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_round_towards_the_stricter() {
        assert_eq!(strictness(500_000, 1), 1);
        assert_eq!(strictness(499_999, 1), 2);
        assert_eq!(strictness(1, 1), 20);
        assert_eq!(strictness(1, 4), 22);
        assert_eq!(strictness(0, 1), 20, "zero is as strict as can be said");
    }

    /// 100 sources of mean 1 and peak 4 at ε = 2⁻¹⁰: room² ≥ 10·ln 2·1600/2, room ≥ 74.5.
    #[test]
    fn hoeffding_by_hand() {
        let member = Member { mean_bps: 1_000_000, peak_bps: 4_000_000, strict: 10 };
        let mut crowd = Crowd::new();
        for _ in 0..99 {
            crowd.add(member);
        }
        assert!(crowd.fits(Some(member), 174_500_000));
        assert!(!crowd.fits(Some(member), 174_400_000));
        // The peak allocation would be 400: that is the gain.
        let mut again = crowd.clone();
        again.add(member);
        again.remove(member);
        assert_eq!(again, crowd);
    }
}
