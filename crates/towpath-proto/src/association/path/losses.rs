//! Which packets are lost: those that others have overtaken for too long (RFC 9002 §6.1).

use alloc::boxed::Box;
use core::time::Duration;

use towpath_wire::Instant;

use super::apart::Apart;
use super::{Outcome, Path, SILENT};
use crate::association::flight::Sent;
use crate::association::reordering::Reordering;
use crate::rtt::GRANULARITY;

/// How long a packet may be overtaken.
#[derive(Debug, Default)]
pub(super) struct Overtaking {
    pub(super) reordering: Reordering,
    /// Once the path carries reserved data.
    pub(super) apart: Option<Box<Apart>>,
}

/// What one look finds to be lost.
pub(super) struct Losses {
    /// That which was sent last.
    pub(super) newest: Option<Sent>,
    pub(super) bytes: u64,
    /// Behind the last one that was found.
    pub(super) from: u64,
    /// All packets of so long a time were lost as lets one think of the path's end.
    pub(super) silent: bool,
    first_of_run: Instant,
    timeout: Duration,
}

impl Losses {
    pub(super) const fn new(now: Instant, timeout: Duration) -> Self {
        Self { newest: None, bytes: 0, from: 0, silent: false, first_of_run: now, timeout }
    }
}

impl Path {
    /// We did not run until now.
    pub(in crate::association) fn slept(&mut self, now: Instant) {
        self.rtt.slept(now);
        if let Some(apart) = &mut self.overtaking.apart {
            apart.slept(now);
        }
    }

    pub(super) fn detect_overtaken(
        &mut self,
        now: Instant,
        top: u64,
        losses: &mut Losses,
        out: &mut Outcome,
    ) {
        let (overtaken, delay) = (
            self.overtaking.reordering.overtaken_max(),
            self.overtaking.reordering.delay(&self.rtt),
        );
        while let Some((number, s)) = self.flight.outstanding(losses.from, top) {
            // Later packets were sent later and overtaken by fewer: none of them is lost.
            if top - number < overtaken && s.at + delay > now {
                self.loss_at = Some(s.at + delay.max(GRANULARITY));
                break;
            }
            self.lose(now, (number, s), losses, out);
        }
    }

    /// A packet is lost, one of several.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        (number, s): (u64, Sent),
        losses: &mut Losses,
        out: &mut Outcome,
    ) {
        let counts = self.give_up(now, number, out);
        if losses.newest.is_none() || self.flight.any_settled(losses.from..number) {
            losses.first_of_run = s.at;
        }
        if counts {
            losses.silent |= s.at.since(losses.first_of_run) > losses.timeout * SILENT;
            losses.newest = Some(losses.newest.filter(|n| n.at > s.at).unwrap_or(s));
            losses.bytes += u64::from(s.bytes);
        }
        losses.from = number + 1;
    }
}
