//! DRR and SCFQ: ports where what one channel waits depends on how many others there are.
//!
//! A constant of the port makes that a promise: most quanta in a round, or most channels. The
//! bound is computed with the constant, and admission keeps to it, so that no later channel
//! changes an earlier one's bound. The unreserved traffic has one of them.

use super::rate_based::RateHop;
use super::refusal::Shortage;

/// What is taken of a port's quanta (DRR) or sessions (SCFQ).
/// Invariant: `used ≤ most − 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// In quanta of the port's largest piece, else in channels.
    weighted: bool,
    most: u32,
    used: u32,
}

impl Turns {
    pub(super) const fn weights(most: u32) -> Self {
        Self { weighted: true, most, used: 0 }
    }

    pub(super) const fn channels(most: u32) -> Self {
        Self { weighted: false, most, used: 0 }
    }

    const fn free(&self) -> u32 {
        self.most - 1 - self.used
    }

    /// What a channel takes: DRR's least weight with `weight/most·C ≥ rate`, a session else.
    pub(super) fn need(&self, rate_bps: u64, port_bps: u64) -> u32 {
        if self.weighted { weight_of(rate_bps, self.most, port_bps) } else { 1 }
    }

    /// The largest rate that the free quanta give; all of the port's if it has sessions.
    pub(super) fn free_bps(&self, port_bps: u64) -> u64 {
        if !self.weighted {
            return port_bps;
        }
        let free = u128::from(self.free()) * u128::from(port_bps) / u128::from(self.most);
        u64::try_from(free).unwrap_or(u64::MAX)
    }

    pub(super) fn check(&self, rate_bps: u64, port_bps: u64) -> Result<(), Shortage> {
        if self.need(rate_bps, port_bps) <= self.free() {
            return Ok(());
        }
        Err(if self.weighted {
            Shortage::RateBps { asked: rate_bps, free: self.free_bps(port_bps) }
        } else {
            Shortage::Channels { limit: u64::from(self.most) - 1 }
        })
    }

    /// The weight with which DRR is to be told.
    pub(super) fn weight(&self, rate_bps: u64, port_bps: u64) -> Option<u32> {
        self.weighted.then(|| self.need(rate_bps, port_bps))
    }

    pub(super) fn hop(&self, packet_bits: u64, rate_bps: u64) -> RateHop {
        if self.weighted {
            return RateHop { blocking_bits: packet_bits, rate_bps, weights_max: self.most };
        }
        // One piece of each other session.
        let blocking_bits = packet_bits.saturating_mul(u64::from(self.most) - 1);
        RateHop { blocking_bits, rate_bps, weights_max: 0 }
    }

    pub(super) const fn add(&mut self, need: u32) {
        self.used += need;
    }

    pub(super) const fn remove(&mut self, need: u32) {
        self.used -= need;
    }

    pub(super) const fn holds(&self) -> bool {
        self.used < self.most
    }
}

/// The least weight that gives a rate when a round has `most` quanta; at least 1.
pub(super) fn weight_of(rate_bps: u64, most: u32, port_bps: u64) -> u32 {
    let weight = (u128::from(rate_bps) * u128::from(most)).div_ceil(u128::from(port_bps.max(1)));
    u32::try_from(weight).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 quanta at 1000 bit/s: 100 bit/s each, one of them unreserved.
    #[test]
    fn quanta_by_hand() {
        let mut turns = Turns::weights(10);
        assert_eq!([0, 1, 100, 101, 900].map(|bps| turns.need(bps, 1000)), [1, 1, 1, 2, 9]);
        turns.add(7);
        assert_eq!(turns.free_bps(1000), 200);
        assert_eq!(turns.check(200, 1000), Ok(()));
        assert_eq!(turns.check(201, 1000), Err(Shortage::RateBps { asked: 201, free: 200 }));
        let mut sessions = Turns::channels(3);
        sessions.add(sessions.need(1 << 40, 1000));
        assert_eq!(sessions.check(1, 1000), Ok(()));
        sessions.add(1);
        assert_eq!(sessions.check(1, 1000), Err(Shortage::Channels { limit: 2 }));
        sessions.remove(1);
        assert!(sessions.holds() && sessions.check(1, 1000).is_ok());
    }
}
