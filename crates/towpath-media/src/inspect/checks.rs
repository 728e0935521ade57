//! The checks of ETSI TR 101 290 (V1.2.1 §5.2), priority 1 and 2.

use alloc::vec::Vec;

use super::report::CheckReport;
use crate::read::{CLOCK_HZ, FaultKind};

/// Offsets kept per check.
const OFFSETS_MAX: usize = 16;
const MS: u64 = CLOCK_HZ / 1000;

/// A check, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    SyncLoss,
    SyncByte,
    Pat,
    Continuity,
    Pmt,
    Pid,
    Transport,
    Crc,
    ClockRepetition40,
    ClockRepetition100,
    ClockDiscontinuity,
    ClockAccuracy,
    Pts,
    Cat,
}

/// Number, name, limit.
const CHECKS: [(&str, &str, &str); 14] = [
    ("1.1", "TS_sync_loss", "two bad sync bytes in a row; regained after five good ones"),
    ("1.2", "Sync_byte_error", "sync byte is not 0x47"),
    ("1.3", "PAT_error", "PAT every 0.5 s, nothing else on PID 0, not scrambled"),
    ("1.4", "Continuity_count_error", "packets in order, none lost, none more than twice"),
    ("1.5", "PMT_error", "each PMT every 0.5 s, not scrambled"),
    ("1.6", "PID_error", "each PID of a PMT at least every 5 s"),
    ("2.1", "Transport_error", "transport_error_indicator"),
    ("2.2", "CRC_error", "CRC-32 of each table"),
    ("2.3a", "PCR_repetition_error (40 ms)", "PCR at least every 40 ms (DVB)"),
    ("2.3a", "PCR_repetition_error (100 ms)", "PCR at least every 100 ms (ISO/IEC 13818-1)"),
    ("2.3b", "PCR_discontinuity_indicator_error", "step of 0 to 100 ms unless announced"),
    ("2.4", "PCR_accuracy_error", "±500 ns, where the rate is constant"),
    ("2.5", "PTS_error", "PTS at least every 700 ms"),
    ("2.6", "CAT_error", "a CAT if anything is scrambled, nothing else on PID 1"),
];

/// How long something may be away, 27 MHz ticks.
pub(super) const PAT_MAX: u64 = 500 * MS;
pub(super) const PMT_MAX: u64 = 500 * MS;
pub(super) const PID_MAX: u64 = 5000 * MS;
pub(super) const PTS_MAX: u64 = 700 * MS;
pub(super) const CLOCK_MAX_DVB: u64 = 40 * MS;
pub(super) const CLOCK_MAX: u64 = 100 * MS;

/// Counts of all checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    counts: [u64; CHECKS.len()],
    offsets: [Vec<u64>; CHECKS.len()],
}

impl Checks {
    pub(super) fn fail(&mut self, check: Check, offset: u64) {
        let at = check as usize;
        self.counts[at] += 1;
        if self.offsets[at].len() < OFFSETS_MAX {
            self.offsets[at].push(offset);
        }
    }

    /// What a reader's fault means here.
    pub(super) fn fault(&mut self, kind: FaultKind, offset: u64) {
        match kind {
            FaultKind::SyncLoss => {
                self.fail(Check::SyncLoss, offset);
                self.fail(Check::SyncByte, offset);
            }
            FaultKind::SyncByte => self.fail(Check::SyncByte, offset),
            FaultKind::Continuity | FaultKind::Repeated => self.fail(Check::Continuity, offset),
            FaultKind::TransportError => self.fail(Check::Transport, offset),
            FaultKind::SectionCrc => self.fail(Check::Crc, offset),
            FaultKind::ClockJump => self.fail(Check::ClockDiscontinuity, offset),
            _ => {}
        }
    }

    /// `constant_rate`: of the file's clocks, `None` where it has none; accuracy only means
    /// something at a constant rate.
    pub(super) fn report(self, constant_rate: Option<bool>) -> Vec<CheckReport> {
        let rows = CHECKS.iter().zip(self.counts).zip(self.offsets).enumerate();
        rows.map(|(i, ((&(number, name, limit), count), first_offsets))| {
            let needs_time = [
                Check::Pat,
                Check::Pmt,
                Check::Pid,
                Check::ClockRepetition40,
                Check::ClockRepetition100,
                Check::ClockDiscontinuity,
                Check::Pts,
            ];
            let checked = if i == Check::ClockAccuracy as usize {
                constant_rate == Some(true)
            } else {
                constant_rate.is_some() || !needs_time.iter().any(|&check| check as usize == i)
            };
            // A deviation at changing rates is no error.
            let void = i == Check::ClockAccuracy as usize && !checked;
            let (count, first_offsets) =
                if void { (0, Vec::new()) } else { (count, first_offsets) };
            CheckReport { number, name, limit, count, first_offsets, checked }
        })
        .collect()
    }
}

/// Something that must come again before a time is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    last: u64,
}

impl Watch {
    /// Watched from a time on.
    pub(super) const fn from(at: u64) -> Self {
        Self { last: at }
    }

    /// It came, or the file ended; true if that was too late.
    pub(super) fn came(&mut self, at: u64, max: u64) -> bool {
        let late = at.saturating_sub(self.last) > max;
        self.last = at;
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_reader_are_errors_of_their_checks() {
        use FaultKind::*;
        for (kind, failed) in [
            (SyncLoss, &[Check::SyncLoss, Check::SyncByte][..]),
            (SyncByte, &[Check::SyncByte]),
            (Continuity, &[Check::Continuity]),
            (Repeated, &[Check::Continuity]),
            (TransportError, &[Check::Transport]),
            (SectionCrc, &[Check::Crc]),
            (ClockJump, &[Check::ClockDiscontinuity]),
            (Garbage, &[]),
            (Truncated, &[]),
        ] {
            let mut checks = Checks::default();
            checks.fault(kind, 77);
            for (at, row) in checks.report(Some(true)).iter().enumerate() {
                let hit = failed.iter().any(|check| *check as usize == at);
                let expected: &[u64] = if hit { &[77] } else { &[] };
                assert_eq!(row.first_offsets, expected, "{kind:?} {}", row.name);
                assert_eq!(row.count, u64::from(hit));
            }
        }
    }

    #[test]
    fn what_needs_time_is_checked_where_there_is_a_clock() {
        let report = |constant_rate| {
            let mut checks = Checks::default();
            (0..20).for_each(|offset| checks.fail(Check::ClockAccuracy, offset));
            let rows = checks.report(constant_rate);
            let unchecked = rows.iter().filter(|row| !row.checked).map(|row| row.number);
            let accuracy = &rows[Check::ClockAccuracy as usize];
            let told = (accuracy.count, accuracy.first_offsets.len());
            (unchecked.collect::<Vec<_>>(), told)
        };
        let timed = ["1.3", "1.5", "1.6", "2.3a", "2.3a", "2.3b", "2.4", "2.5"];
        assert_eq!(report(None), (timed.to_vec(), (0, 0)));
        assert_eq!(report(Some(false)), (["2.4"].to_vec(), (0, 0)));
        assert_eq!(report(Some(true)), (Vec::new(), (20, OFFSETS_MAX)));
    }

    #[test]
    fn what_must_come_again_may_come_at_the_last_moment() {
        let mut watch = Watch::from(100);
        assert!(!watch.came(100 + PAT_MAX, PAT_MAX));
        assert!(watch.came(101 + 2 * PAT_MAX, PAT_MAX));
        assert!(!watch.came(102 + 2 * PAT_MAX, PAT_MAX), "it counts from there on");
    }
}
