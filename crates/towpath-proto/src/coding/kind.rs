//! What a channel asks for, and what an association may use for it.

use core::fmt;
use core::str::FromStr;

use super::kernel::{Kernel, PLAIN};

/// Members of a group at most.
pub const MEMBERS_MAX: usize = 16;
/// Parities of a group at most.
pub const PARITIES_MAX: usize = 4;

/// Probability, as one in so many, with which a group may lose more than its parity makes good
/// where the number of parities follows the losses.
const REST: f64 = 1000.0;
/// A path that lost less than this of late, in parts per million, lost nothing.
const LOSS_MIN_PPM: u32 = 200;

/// How the packets of a channel are coded. Invariants: `members ≤ 16`, `parities ≤ 4`; both are 0
/// where nothing is coded, else neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coding {
    members: u8,
    parities: u8,
    adaptive: bool,
}

/// Why packets cannot be coded like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// Too many packets to a group, or none.
    #[error("{0} packets to a group, must be 1 to {MEMBERS_MAX}")]
    Members(u8),
    /// Words that say nothing of the kind.
    #[error("not `off`, `3+1` (packets and parities of a group) or `3+1,adaptive`")]
    Words,
    /// Too many parities, or none.
    #[error("{0} parities to a group, must be 1 to {PARITIES_MAX}")]
    Parities(u8),
}

impl Coding {
    /// No coding.
    pub const OFF: Self = Self { members: 0, parities: 0, adaptive: false };

    /// `parities` to each `members` packets: of so many together, as many may be lost. What goes
    /// beside the data is `parities / members` of it.
    pub const fn new(members: u8, parities: u8) -> Result<Self, CodingError> {
        if members == 0 || members as usize > MEMBERS_MAX {
            return Err(CodingError::Members(members));
        }
        if parities == 0 || parities as usize > PARITIES_MAX {
            return Err(CodingError::Parities(parities));
        }
        Ok(Self { members, parities, adaptive: false })
    }

    /// The same, with no more parities than what was lost of late calls for, down to none.
    #[must_use]
    pub const fn adaptive(self) -> Self {
        Self { adaptive: true, ..self }
    }

    /// Packets of a group.
    pub const fn members(self) -> usize {
        self.members as usize
    }

    /// Parities of a group at most.
    pub const fn parities(self) -> usize {
        self.parities as usize
    }

    /// Whether anything is coded.
    pub const fn is_on(self) -> bool {
        self.members > 0
    }

    /// As many parities as are called for where the worst path has lost `loss_ppm` of its packets
    /// of late, in parts per million; [`Coding::OFF`] for none.
    #[must_use]
    pub fn at_loss(self, loss_ppm: u32) -> Self {
        if !self.adaptive || !self.is_on() {
            return self;
        }
        if loss_ppm < LOSS_MIN_PPM {
            return Self::OFF;
        }
        let enough = |m: &u8| exceeds(self.members, *m, f64::from(loss_ppm) / 1e6) <= 1.0 / REST;
        let parities = (1..self.parities).find(enough).unwrap_or(self.parities);
        Self { parities, ..self }
    }
}

impl FromStr for Coding {
    type Err = CodingError;

    /// `off`, `3+1`, or `3+1,adaptive`.
    fn from_str(text: &str) -> Result<Self, CodingError> {
        if text == "off" {
            return Ok(Self::OFF);
        }
        let (counts, adaptive) = match text.split_once(',') {
            Some((counts, "adaptive")) => (counts, true),
            Some(_) => return Err(CodingError::Words),
            None => (text, false),
        };
        let (members, parities) = counts.split_once('+').ok_or(CodingError::Words)?;
        let number = |text: &str| text.parse::<u8>().map_err(|_| CodingError::Words);
        let coding = Self::new(number(members)?, number(parities)?)?;
        Ok(if adaptive { coding.adaptive() } else { coding })
    }
}

impl fmt::Display for Coding {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on() {
            return f.write_str("off");
        }
        let Self { members, parities, adaptive } = self;
        write!(f, "{members}+{parities}{}", if *adaptive { ",adaptive" } else { "" })
    }
}

/// The probability that of `members + parities` packets more than `parities` are lost, each with
/// probability `loss`.
fn exceeds(members: u8, parities: u8, loss: f64) -> f64 {
    let (n, loss) = (members + parities, loss.min(1.0));
    let power = |base: f64, times: u8| (0..times).fold(1.0, |p, _| p * base);
    let mut ways = 1.0;
    let mut within = power(1.0 - loss, n);
    for lost in 1..=parities {
        ways *= f64::from(n - lost + 1) / f64::from(lost);
        within += ways * power(loss, lost) * power(1.0 - loss, n - lost);
    }
    1.0 - within
}

/// What an association uses for coding.
#[derive(Clone, Copy, Debug)]
pub struct CodingConfig {
    /// How channels are coded that do not say.
    pub usual: Coding,
    /// Bytes of symbols that are kept of what a peer has coded; 0: nothing is rebuilt.
    pub memory: u32,
    /// The inner loop. An [`Endpoint`](crate::Endpoint) takes its
    /// [`Crypto`](crate::Crypto::coding)'s.
    pub kernel: &'static dyn Kernel,
}

impl Default for CodingConfig {
    fn default() -> Self {
        Self { usual: Coding::OFF, memory: 2 << 20, kernel: &PLAIN }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn what_cannot_be_coded_is_refused_with_its_limit() {
        let text = |m, n| Coding::new(m, n).unwrap_err().to_string();
        assert_eq!(text(17, 1), "17 packets to a group, must be 1 to 16");
        assert_eq!(text(0, 1), "0 packets to a group, must be 1 to 16");
        assert_eq!(text(3, 5), "5 parities to a group, must be 1 to 4");
        assert_eq!(text(3, 0), "0 parities to a group, must be 1 to 4");
    }

    #[test]
    fn words_come_back_as_they_are_read() {
        for text in ["off", "3+1", "16+4", "6+2,adaptive"] {
            assert_eq!(text.parse::<Coding>().unwrap().to_string(), text);
        }
        for text in ["", "3", "3+", "+1", "3+1,", "3+1,slow", "-3+1", "300+1"] {
            assert_eq!(text.parse::<Coding>(), Err(CodingError::Words), "{text}");
        }
        assert_eq!("17+1".parse::<Coding>(), Err(CodingError::Members(17)));
        assert_eq!("3+5".parse::<Coding>(), Err(CodingError::Parities(5)));
    }

    #[test]
    fn parity_follows_losses_up_to_what_was_stated() {
        let coding = Coding::new(6, 3).unwrap();
        assert_eq!(coding.at_loss(0), coding, "it was stated");
        let parities = |ppm| coding.adaptive().at_loss(ppm).parities();
        assert_eq!([0, 199, 200, 5_000, 10_000].map(parities), [0, 0, 1, 1, 2]);
        assert_eq!([50_000, 300_000, 1_000_000, u32::MAX].map(parities), [3, 3, 3, 3]);
        assert!(!coding.adaptive().at_loss(0).is_on());
        // One in a thousand, by hand: 7 packets, each lost with 0.005: 21 · 0.005² and less.
        assert!((exceeds(6, 1, 0.005) - 5.2e-4).abs() < 2e-5, "{}", exceeds(6, 1, 0.005));
    }
}
