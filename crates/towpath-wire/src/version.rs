//! How two hosts agree on a wire version.
//!
//! The initiator offers a range in clear. The responder picks the highest version both know and
//! repeats it inside the sealed response; the offer is bound into the handshake, so that nobody
//! between can talk the two down. Without a common version the responder answers in clear with
//! its own range, which the initiator only uses to word the error once the handshake timed out.

use core::fmt;

/// Versions that this build speaks.
pub const WIRE_VERSIONS: VersionRange = VersionRange { min: 1, max: 1 };

/// An inclusive range of wire versions. Invariant after [`VersionRange::new`]: 1 ≤ min ≤ max.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Oldest version spoken.
    pub min: u8,
    /// Newest version spoken.
    pub max: u8,
}

impl VersionRange {
    /// A range; `None` when it is empty or starts at 0.
    pub const fn new(min: u8, max: u8) -> Option<Self> {
        if min == 0 || min > max { None } else { Some(Self { min, max }) }
    }

    /// The newest version in both ranges.
    pub fn agree(self, other: Self) -> Option<u8> {
        let best = self.max.min(other.max);
        (best >= self.min && best >= other.min).then_some(best)
    }

    /// True when `version` lies inside.
    pub const fn contains(self, version: u8) -> bool {
        self.min <= version && version <= self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agreement_is_the_newest_common_version(a: u8, b: u8, c: u8, d: u8) {
            let (Some(x), Some(y)) = (VersionRange::new(a, b), VersionRange::new(c, d)) else {
                return Ok(());
            };
            let brute = (1..=255u8).rev().find(|v| x.contains(*v) && y.contains(*v));
            prop_assert_eq!(x.agree(y), brute);
            prop_assert_eq!(y.agree(x), brute);
        }
    }
}
