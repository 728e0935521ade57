//! Are these losses more than the path loses anyway?

/// Packets sent and lost, in datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) sent: f64,
    pub(super) lost: f64,
}

impl Tally {
    pub(super) const NONE: Self = Self { sent: 0.0, lost: 0.0 };

    pub(super) const fn take(&mut self, sent: f64, lost: f64) {
        self.sent += sent;
        self.lost += lost;
    }

    pub(super) const fn scale(&mut self, by: f64) {
        self.sent *= by;
        self.lost *= by;
    }
}

/// Compares two shares of loss: where the queue is low, losses are the path's own; where it is
/// high, more than that is congestion.
///
/// Invariant: `0 ≤ lost ≤ sent` in both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ambient {
    low: Tally,
    /// Since the last cut; what is four rounds old has faded away.
    high: Tally,
}

impl Ambient {
    /// After so many datagrams at a low queue, those before count half.
    const KEEP: f64 = 4000.0;
    /// So many datagrams are taken for granted, and, in slow start, one of them lost, until
    /// `KNOWN` datagrams tell more.
    const PRIOR: f64 = 50.0;
    const KNOWN: f64 = 200.0;
    /// More than this is never ascribed to the path.
    const MAX: f64 = 0.25;
    /// Of what is sent at a low queue, and at least so many: hosts that wake late lose some of it
    /// to their own bursts.
    const DOUBTFUL: f64 = 0.08;
    const DOUBTFUL_LOST: f64 = 8.0;
    /// Standard deviations: many, since every loss is a chance to be wrong.
    const SIGNIFICANT: f64 = 4.0;
    /// Of what was seen at a high queue, after each round.
    const FADE: f64 = 0.75;

    pub(super) const fn new() -> Self {
        Self { low: Tally::NONE, high: Tally::NONE }
    }

    pub(super) fn take_low(&mut self, sent: f64, lost: f64) {
        self.low.take(sent, lost);
        if self.low.sent > 2.0 * Self::KEEP {
            self.low.scale(0.5);
        }
    }

    pub(super) const fn take_high(&mut self, sent: f64, lost: f64) {
        self.high.take(sent, lost);
    }

    /// Packets that had counted as lost were not.
    pub(super) fn take_back(&mut self, lost: f64) {
        let from_high = lost.min(self.high.lost);
        self.high.lost -= from_high;
        self.low.lost = (self.low.lost - (lost - from_high)).max(0.0);
    }

    pub(super) fn end_round(&mut self) {
        self.high.scale(Self::FADE);
    }

    /// Datagrams lost at a high queue that have not faded away.
    pub(super) const fn lost_high(&self) -> f64 {
        self.high.lost
    }

    /// What follows is judged by itself.
    pub(super) const fn forget_high(&mut self) {
        self.high = Tally::NONE;
    }

    pub(super) const fn forget_low(&mut self) {
        self.low = Tally::NONE;
    }

    /// More was lost at a high queue than chance explains. While the path is not known to lose
    /// anything, one packet is enough, unless the path is new to us.
    pub(super) fn exceeded(&self, is_new: bool) -> bool {
        let assumed = if is_new { (1.0 - self.low.sent / Self::KNOWN).max(0.0) } else { 0.0 };
        self.exceeds(&self.low, assumed)
    }

    /// So much is lost at a low queue that it should be known whether sending less helps.
    pub(super) fn is_doubtful(&self) -> bool {
        self.low.lost > Self::DOUBTFUL_LOST && self.low.lost > Self::DOUBTFUL * self.low.sent
    }

    /// The same where the path loses so many anyway.
    pub(super) fn exceeded_beside(&self, own: &Tally) -> bool {
        self.exceeds(own, 0.0)
    }

    fn exceeds(&self, low: &Tally, assumed: f64) -> bool {
        let high = &self.high;
        let share = ((low.lost + assumed) / (low.sent + Self::PRIOR)).min(Self::MAX);
        let excess = high.lost - share * high.sent;
        // Both shares are estimates: variances of a binomial share and of the share itself.
        let spread = high.sent * (1.0 + high.sent / (low.sent + Self::PRIOR));
        let variance = share * (1.0 - share) * spread;
        excess > 0.0 && excess * excess > Self::SIGNIFICANT * Self::SIGNIFICANT * variance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn on_a_clean_path_one_packet_is_enough() {
        let mut ambient = Ambient::new();
        ambient.take_low(1000.0, 0.0);
        ambient.take_high(500.0, 0.0);
        assert!(!ambient.exceeded(false));
        ambient.take_high(1.0, 1.0);
        assert!(ambient.exceeded(false));
        ambient.take_back(1.0);
        assert!(!ambient.exceeded(false), "it was only late");
    }

    #[test]
    fn what_was_taken_for_the_paths_own_can_be_forgotten() {
        let mut ambient = Ambient::new();
        ambient.take_low(1000.0, 200.0);
        ambient.take_high(100.0, 20.0);
        assert!(!ambient.exceeded(false) && ambient.is_doubtful());
        ambient.forget_low();
        assert!(ambient.exceeded(false) && !ambient.is_doubtful());
    }

    #[test]
    fn of_a_new_path_one_in_fifty_is_expected() {
        let mut ambient = Ambient::new();
        // 0.2 of 10 expected; deviation sqrt(0.02 · 0.98 · 10 · 1.2) = 0.48; four of them: 1.9.
        ambient.take_high(10.0, 2.0);
        assert!(!ambient.exceeded(true));
        ambient.take_high(0.0, 1.0);
        assert!(ambient.exceeded(true));
    }

    #[test]
    fn hand_computed_threshold_at_five_percent() {
        let mut ambient = Ambient::new();
        // 197.5 of 3950 + 50: 5 %. Of 1000, 50 expected; deviation
        // sqrt(0.05 · 0.95 · 1000 · 1.25) = 7.7; four of them: 30.8.
        ambient.take_low(3950.0, 200.0);
        ambient.take_high(1000.0, 80.0);
        assert!(!ambient.exceeded(false));
        ambient.take_high(0.0, 1.0);
        assert!(ambient.exceeded(false));
    }

    #[test]
    fn equal_shares_are_hardly_ever_told_apart_and_more_than_twice_as_much_is() {
        let mut rng = Rng::new(1, 1);
        for ppm in [1_000, 10_000, 50_000, 200_000] {
            let mut ambient = Ambient::new();
            let mut draw = |n: u32, ppm| (0..n).filter(|_| rng.chance_ppm(ppm)).count() as f64;
            let (mut wrong, mut right) = (0, 0);
            for _ in 0..200 {
                ambient.take_low(4000.0, draw(4000, ppm));
                ambient.forget_high();
                ambient.take_high(1000.0, draw(1000, ppm));
                wrong += u32::from(ambient.exceeded(false));
                ambient.take_high(9000.0, draw(9000, 3 * ppm));
                right += u32::from(ambient.exceeded(false));
            }
            assert!(wrong <= 4, "{ppm} ppm: {wrong} of 200");
            // Of one in a thousand, 10000 datagrams are too few to tell.
            assert!(right >= 190 || ppm < 10_000, "{ppm} ppm: {right} of 200");
        }
    }
}
