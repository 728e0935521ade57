//! How the classes of other architectures map onto ours: one table, and a function per model.
//!
//! | model, class | specification | service | DSCP | 802.1p |
//! |---|---|---|---|---|
//! | RSVP guaranteed (RFC 2212) | token bucket (r, b, p, m, M) | bounded | EF 46 | 5 |
//! | RSVP controlled load (RFC 2211) | token bucket | statistical | AF41 34 | 4 |
//! | Tenet deterministic | (Xmin, Xave, I, Smax) | bounded (Dmax, Jmax) | EF 46 | 5 |
//! | Tenet statistical | (Xmin, Xave, I, Smax) | statistical (Zmin, Wmin) | AF41 34 | 4 |
//! | ATM CBR | PCR, CDVT | bounded | EF 46 | 5 |
//! | ATM VBR-rt | PCR, SCR, MBS | bounded | CS5 40 | 5 |
//! | ATM VBR-nrt | PCR, SCR, MBS | statistical | AF31 26 | 3 |
//! | ATM ABR | MCR | share | AF11 10 | 2 |
//! | ATM UBR | none | best effort | 0 | 0 |
//! | 802.1p 7, 6 | control | share | CS7 56, CS6 48 | 7, 6 |
//! | 802.1p 5, 4 | voice, video | bounded | EF 46, AF41 34 | 5, 4 |
//! | 802.1p 3, 2 | critical, excellent effort | share | AF31 26, AF21 18 | 3, 2 |
//! | 802.1p 0 | best effort | best effort | 0 | 0 |
//! | 802.1p 1 | background | best effort | CS1 8 | 1 |
//!
//! Code points: RFC 2474, 2597, 3246; their traffic: RFC 4594. 802.1p types: IEEE 802.1Q annex I
//! (1 is below 0). ATM's parameters are table 3.1 of the study (Shen 1996); a cell is 53 bytes.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_wire::{ByteSize, Rate};

use super::averaged::Averaged;
use super::limits::{self, SpecError};
use super::sigma_rho::SigmaRho;
use super::token_bucket::TokenBucket;
use super::tspec::TSpec;

/// What kind of promise a class asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// A proven bound on delay.
    Bounded,
    /// A rate on average, and a probability of being late.
    Statistical,
    /// A rate, without a bound on delay.
    Share,
    /// Nothing: not admitted, not counted.
    BestEffort,
}

/// A class of another architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// RSVP guaranteed service.
    RsvpGuaranteed,
    /// RSVP controlled load.
    RsvpControlledLoad,
    /// Tenet deterministic channel.
    TenetDeterministic,
    /// Tenet statistical channel.
    TenetStatistical,
    /// ATM constant bit rate.
    AtmCbr,
    /// ATM variable bit rate, real time.
    AtmVbrRt,
    /// ATM variable bit rate, not real time.
    AtmVbrNrt,
    /// ATM available bit rate.
    AtmAbr,
    /// ATM unspecified bit rate.
    AtmUbr,
    /// An 802.1p user priority, 0 to 7.
    Ieee8021p(u8),
}

/// What a class is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The promise it asks for.
    pub promise: Promise,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// 802.1p user priority, 0 to 7.
    pub priority: u8,
}

impl Class {
    /// The class's row of the table; `None` for a user priority above 7.
    pub const fn marks(self) -> Option<Marks> {
        use Promise::{BestEffort, Bounded, Share, Statistical};
        let (promise, dscp, priority) = match self {
            Self::RsvpGuaranteed | Self::TenetDeterministic | Self::AtmCbr | Self::Ieee8021p(5) => {
                (Bounded, 46, 5)
            }
            Self::AtmVbrRt => (Bounded, 40, 5),
            Self::RsvpControlledLoad | Self::TenetStatistical => (Statistical, 34, 4),
            Self::AtmVbrNrt => (Statistical, 26, 3),
            Self::AtmAbr => (Share, 10, 2),
            Self::Ieee8021p(7) => (Share, 56, 7),
            Self::Ieee8021p(6) => (Share, 48, 6),
            Self::Ieee8021p(4) => (Bounded, 34, 4),
            Self::Ieee8021p(3) => (Share, 26, 3),
            Self::Ieee8021p(2) => (Share, 18, 2),
            Self::Ieee8021p(1) => (BestEffort, 8, 1),
            Self::AtmUbr | Self::Ieee8021p(0) => (BestEffort, 0, 0),
            Self::Ieee8021p(_) => return None,
        };
        Some(Marks { promise, dscp, priority })
    }
}

/// Wire bytes of an ATM cell.
pub const CELL: u64 = 53;

/// ATM's traffic parameters, as cells; see table 3.1 of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtmCells {
    /// Peak cell rate in cells/s.
    pub peak: u64,
    /// Cell delay variation tolerance: how much earlier than its slot a cell may come.
    pub tolerance: Duration,
    /// Sustainable cell rate in cells/s with the maximum burst size in cells, for VBR.
    pub sustained: Option<(u64, u64)>,
}

/// The specification of an ATM connection.
///
/// The generic cell rate algorithm (ITU-T I.371) with increment T = 1/PCR and limit CDVT is a
/// token bucket of rate PCR and depth `(1 + CDVT/T)` cells; the sustained one has rate SCR and
/// depth `1 + (MBS − 1)·(1 − SCR/PCR)` cells on top of the tolerance, rounded up.
pub fn atm(cells: AtmCells) -> Result<TSpec, SpecError> {
    let bits = |n: u64| Rate::from_bps(n.saturating_mul(CELL * 8));
    let cells_max = limits::RATE_BPS_MAX / (CELL * 8);
    limits::at_most("peak_cells_per_s", cells.peak, cells_max)?;
    let peak_bps = bits(cells.peak).as_bps();
    let tolerance_ns = towpath_wire::units::nanos(cells.tolerance).min(limits::INTERVAL_NS_MAX);
    let early = (u128::from(cells.peak) * u128::from(tolerance_ns)).div_ceil(limits::NANO);
    let depth = |cells: u128| {
        ByteSize::from_bytes(u64::try_from(cells * u128::from(CELL)).unwrap_or(u64::MAX))
    };
    let Some((rate, burst)) = cells.sustained else {
        return Ok(TSpec::SigmaRho(SigmaRho::new(depth(1 + early), Rate::from_bps(peak_bps))?));
    };
    limits::at_most("sustained_cells_per_s", rate, cells_max)?;
    limits::at_most("burst_cells", burst, limits::SIZE_BITS_MAX / (CELL * 8))?;
    limits::at_least(("peak_cells_per_s", cells.peak), ("sustained_cells_per_s", rate))?;
    let over = u128::from(burst - 1) * u128::from(cells.peak - rate);
    let burst = 1 + early + over.div_ceil(u128::from(cells.peak));
    let largest = depth(1 + early);
    Ok(TSpec::TokenBucket(TokenBucket::new(
        bits(rate),
        depth(burst),
        bits(cells.peak),
        ByteSize::from_bytes(CELL),
        largest,
    )?))
}

/// The Tenet suite's wishes: delay bound, timeliness, jitter bound and loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenetWish {
    /// Dmax.
    pub delay: Duration,
    /// Jmax; `None`: any.
    pub jitter: Option<Duration>,
    /// Zmin: least probability of being in time, in parts per million; 10⁶ is deterministic.
    pub in_time_ppm: u32,
    /// Wmin: least probability of not being lost, in parts per million.
    pub kept_ppm: u32,
}

impl TenetWish {
    /// Deterministic only if nothing may be late or lost.
    pub const fn class(&self) -> Class {
        if self.in_time_ppm >= 1_000_000 && self.kept_ppm >= 1_000_000 {
            Class::TenetDeterministic
        } else {
            Class::TenetStatistical
        }
    }

    /// What may be late or lost together, in parts per million: at most the sum of both.
    pub const fn late_ppm(&self) -> u32 {
        let late = 1_000_000_u32.saturating_sub(self.in_time_ppm);
        let either = late.saturating_add(1_000_000_u32.saturating_sub(self.kept_ppm));
        if either > 1_000_000 { 1_000_000 } else { either }
    }
}

/// The Tenet suite's traffic: (Xmin, Xave, I, Smax).
pub fn tenet(
    xmin: Duration,
    xave: Duration,
    interval: Duration,
    smax: ByteSize,
) -> Result<TSpec, SpecError> {
    Ok(TSpec::Averaged(Averaged::new(xmin, xave, interval, smax)?))
}

/// RSVP's sender specification (RFC 2210 §3.1): sizes in bytes, rates in bytes per second as it
/// carries them.
pub fn rsvp((rate, burst, peak): (u64, u64, u64), min: u64, max: u64) -> Result<TSpec, SpecError> {
    let bps = |bytes: u64| Rate::from_bps(bytes.saturating_mul(8));
    let size = ByteSize::from_bytes;
    for (what, value) in [("rate_bytes_per_s", rate), ("peak_bytes_per_s", peak)] {
        limits::at_most(what, value, limits::RATE_BPS_MAX / 8)?;
    }
    limits::at_least(("peak_bytes_per_s", peak), ("rate_bytes_per_s", rate))?;
    Ok(TSpec::TokenBucket(TokenBucket::new(
        bps(rate),
        size(burst),
        bps(peak),
        size(min),
        size(max),
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_cbr_connection_is_one_bucket() {
        let spec =
            atm(AtmCells { peak: 1000, tolerance: Duration::from_millis(2), sustained: None });
        // Two cell times of tolerance: three cells may come at once.
        let expected = SigmaRho::new(ByteSize::from_bytes(159), Rate::from_bps(424_000));
        assert_eq!(spec, Ok(TSpec::SigmaRho(expected.expect("valid"))));
    }

    #[test]
    fn a_vbr_burst_of_mbs_cells_at_the_peak_rate_conforms_and_no_more() {
        use super::super::{Regulator, Verdict};
        use towpath_wire::Instant;
        let cells = AtmCells { peak: 1000, tolerance: Duration::ZERO, sustained: Some((250, 9)) };
        let spec = atm(cells).expect("valid");
        let mut regulator = Regulator::new(&spec);
        let mut cell = |k: u64| {
            regulator.offer(Instant::from_nanos(k * 1_000_000), ByteSize::from_bytes(CELL))
        };
        for k in 0..9 {
            assert_eq!(cell(k), Verdict::Conforms, "{k}");
        }
        assert!(matches!(cell(9), Verdict::Early(_)));
        let less = AtmCells { sustained: Some((2000, 9)), ..cells };
        assert!(matches!(atm(less), Err(SpecError::Contradiction { .. })));
    }

    /// What is wrong is told in the units and names of the model that was written.
    #[test]
    fn faults_are_told_in_the_models_own_terms() {
        let cells = |peak, sustained| AtmCells { peak, tolerance: Duration::ZERO, sustained };
        let said = |spec: Result<TSpec, SpecError>| spec.expect_err("faulty").to_string();
        assert_eq!(said(atm(cells(0, None))), "peak_cells_per_s is zero");
        assert_eq!(
            said(atm(cells(1000, Some((2000, 9))))),
            "peak_cells_per_s is 1000, must be at least sustained_cells_per_s = 2000"
        );
        assert_eq!(said(atm(cells(1000, Some((500, 0))))), "burst_cells is zero");
        assert_eq!(
            said(rsvp((1000, 100, 999), 1, 100)),
            "peak_bytes_per_s is 999, must be at least rate_bytes_per_s = 1000"
        );
        assert_eq!(
            said(rsvp((1000, 100, 1000), 1, 101)),
            "burst_bytes is 100, must be at least max_bytes = 101"
        );
    }

    #[test]
    fn every_user_priority_has_marks_and_8_has_none() {
        for priority in 0..8 {
            let marks = Class::Ieee8021p(priority).marks().expect("a row");
            assert_eq!(marks.priority, priority);
            assert!(marks.dscp < 64);
        }
        assert_eq!(Class::Ieee8021p(8).marks(), None);
    }

    #[test]
    fn tenet_is_deterministic_only_without_loss() {
        let wish = TenetWish {
            delay: Duration::from_millis(10),
            jitter: None,
            in_time_ppm: 1_000_000,
            kept_ppm: 1_000_000,
        };
        assert_eq!(wish.class(), Class::TenetDeterministic);
        let lossy = TenetWish { kept_ppm: 999_000, ..wish };
        assert_eq!((lossy.class(), lossy.late_ppm()), (Class::TenetStatistical, 1000));
        assert_eq!(TenetWish { kept_ppm: 0, in_time_ppm: 0, ..wish }.late_ppm(), 1_000_000);
    }
}
