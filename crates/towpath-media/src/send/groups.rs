//! What lies between two clock references, and how long it takes.

use alloc::collections::VecDeque;

use crate::pace::PCR_WRAP;
use crate::read::{CLOCK_HZ, PACKET, Packet};

/// A longer step from a reference to the next breaks the clock: ten times what the standard
/// allows (ISO/IEC 13818-1 §2.7.2).
const STEP_MAX: u64 = CLOCK_HZ;
/// Most bytes in a tick of 27 MHz: 1.08 Gbit/s.
const BYTES_PER_TICK: u64 = 5;
/// So many references of another PID, and none of ours: the clock is that one's.
const OTHERS_MAX: u32 = 20;

/// Bytes from a reference to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) bytes: u64,
    /// How long they take, 27 MHz.
    pub(super) span: u64,
    /// The first packet tells a reference.
    pub(super) clock: bool,
}

/// Cuts packets into groups.
///
/// Invariant: groups whose time is not known yet (`unrated`) are the newest, and there are none
/// once a rate is known.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pid: Option<u16>,
    /// References of other PIDs since the last of ours.
    others: u32,
    last: Option<u64>,
    /// Our PID announced that its next reference is of another clock.
    announced: bool,
    /// The group that is not closed yet: bytes, and whether a reference opened it.
    open: u64,
    open_clock: bool,
    /// Ticks given since the last reference to groups that had to be closed without one.
    forced: u64,
    /// Ticks and bytes of the last group between two good references.
    rate: Option<(u64, u64)>,
    closed: VecDeque<Group>,
    unrated: usize,
    /// Ticks of all groups that are closed and rated.
    ticks: u64,
    pub(super) references: u64,
    pub(super) breaks: u64,
    pub(super) forced_ends: u64,
}

impl Groups {
    pub(super) fn packet(&mut self, packet: Packet<'_>) {
        if !packet.error() && packet.has_adaptation() {
            let adaptation = packet.adaptation();
            let pid = packet.pid();
            self.announced |= adaptation.discontinuity && self.pid == Some(pid);
            if let Some(raw) = adaptation.clock
                && self.is_ours(pid)
            {
                self.reference(raw);
            }
        }
        self.open += PACKET as u64;
    }

    fn is_ours(&mut self, pid: u16) -> bool {
        if self.pid.is_none_or(|ours| ours == pid) {
            (self.pid, self.others) = (Some(pid), 0);
            return true;
        }
        self.others += 1;
        if self.others < OTHERS_MAX {
            return false;
        }
        (self.pid, self.others, self.announced) = (Some(pid), 0, true);
        true
    }

    fn reference(&mut self, raw: u64) {
        self.references += 1;
        let announced = core::mem::take(&mut self.announced);
        let step = self.last.map(|last| (raw + PCR_WRAP - last) % PCR_WRAP);
        // What comes faster than any stream has no rate: it waits for a reference that tells of
        // more, else a file of such would be sent as fast as it can be read.
        if !announced && step.is_some_and(|step| self.open > step.saturating_mul(BYTES_PER_TICK)) {
            return;
        }
        let good = step.filter(|step| !announced && *step <= STEP_MAX);
        self.breaks += u64::from(step.is_some() && good.is_none());
        if let Some(span) = good {
            // What was given to groups closed by force is not there any more.
            let left = span.saturating_sub(self.forced);
            if left > 0 && self.open > 0 {
                self.know((left, self.open));
            }
            self.close(Some(left));
        } else {
            self.close(None);
        }
        (self.last, self.forced, self.open_clock) = (Some(raw), 0, true);
    }

    /// The rate of a group: earlier ones waited for the first.
    fn know(&mut self, rate: (u64, u64)) {
        self.rate = Some(rate);
        let first = self.closed.len() - core::mem::take(&mut self.unrated);
        for group in self.closed.range_mut(first..) {
            group.span = at(rate, group.bytes);
            self.ticks += group.span;
        }
    }

    fn close(&mut self, span: Option<u64>) {
        let (bytes, clock) = (core::mem::take(&mut self.open), self.open_clock);
        self.open_clock = false;
        if bytes == 0 {
            return;
        }
        let span = span.or_else(|| self.rate.map(|rate| at(rate, bytes)));
        self.unrated += usize::from(span.is_none());
        self.ticks += span.unwrap_or(0);
        self.closed.push_back(Group { bytes, span: span.unwrap_or(0), clock });
    }

    /// The next bytes are from elsewhere: their clock has nothing to do with this one's.
    pub(super) fn splice(&mut self) {
        self.announced |= self.last.is_some();
    }

    /// Closes what there is without a reference, since no more can wait. False where no rate is
    /// known by which it could be sent.
    pub(super) fn force(&mut self, fallback: Option<(u64, u64)>) -> bool {
        let Some(rate) = self.rate.or(fallback) else { return false };
        self.know(rate);
        let span = at(rate, self.open);
        self.forced_ends += u64::from(self.open > 0);
        self.forced += span;
        self.close(Some(span));
        true
    }

    /// The next group, if its time is known.
    pub(super) fn next(&mut self) -> Option<Group> {
        if self.unrated == self.closed.len() {
            return None;
        }
        let group = self.closed.pop_front()?;
        self.ticks -= group.span;
        Some(group)
    }

    /// Groups that could be had now.
    pub(super) fn ready(&self) -> usize {
        self.closed.len() - self.unrated
    }

    /// Their time.
    pub(super) const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Forgets what waits, not the clock's rate.
    pub(super) fn clear(&mut self) {
        let rate = self.rate;
        let (references, breaks, forced_ends) = (self.references, self.breaks, self.forced_ends);
        *self = Self { rate, references, breaks, forced_ends, ..Self::default() };
    }
}

/// Ticks that `bytes` take at a rate of ticks per bytes.
fn at((ticks, per): (u64, u64), bytes: u64) -> u64 {
    let ticks = u128::from(ticks) * u128::from(bytes) / u128::from(per.max(1));
    u64::try_from(ticks).unwrap_or(u64::MAX >> 1)
}
