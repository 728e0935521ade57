//! Changing and ending reservations: modify, renew, delete after draining, expiry, measurement.

use alloc::boxed::Box;
use core::time::Duration;

use towpath_wire::{ByteSize, Instant, Rate};

use super::ledger::{Admission, Channel, bounds, place_of};
use super::load::time_up;
use super::plan::{Ask, Totals};
use super::port::{Slot, SlotKind};
use super::refusal::ChangeError;
use super::request::{Admitted, Request, ReservationId, Wish};

impl Admission {
    /// Changes a reservation without a gap: at every moment either the old or the new promise
    /// holds, and the id stays.
    ///
    /// - Nowhere more traffic, and a wish that the old promise meets: always granted. The old
    ///   reservation is held until what was sent under it is gone, then shrunk.
    /// - Otherwise the new request is decided with its own old resources free where its budgets
    ///   can stay, or beside the old reservation, which then drains, where they cannot.
    pub fn modify(
        &mut self,
        now: Instant,
        id: ReservationId,
        request: &Request,
    ) -> Result<Admitted, ChangeError> {
        let (place, channel) = self.owned(id, request.owner)?;
        let ask = Ask::of(request);
        let (old, totals, lease) = (channel.ask, channel.totals, channel.lease);
        if (old.from, old.to) != (ask.from, ask.to) {
            return Err(ChangeError::Ends);
        }
        let kept = meets(&old.wish, &ask.wish, &totals);
        let drained = now + Duration::from_nanos(totals.delay_ns);
        if kept && ask.load.is_within(&old.load) && ask.counted_bits >= old.counted_bits {
            self.with(place, |channel| channel.shrinks = Some((drained, ask)));
            self.timers.insert((drained, place));
        } else if !(kept && self.grow(place, &ask)) {
            // Beside the old one, which goes on until its last packet is through.
            let decided = self.decide(&ask)?;
            let old = self.channels[place as usize].1.clone().expect("owned");
            let until = now + Duration::from_nanos(old.totals.delay_ns);
            let slots: Box<[Slot]> = self.scratch.as_slice().into();
            self.network.add(&ask, &decided, &slots);
            self.with(place, |channel| {
                (channel.ask, channel.totals, channel.slots) = (ask, decided, slots);
                channel.shrinks = None;
            });
            self.network.remove(&old.ask, &old.totals, &old.slots);
            let ghost = Channel { lease: Instant::NEVER, drains: Some(until), ..old };
            let ghost = place_of(self.insert(ghost));
            self.timers.insert((until, ghost));
        }
        self.timers.remove(&(lease, place));
        self.with(place, |channel| channel.lease = request.lease);
        if request.lease < Instant::NEVER {
            self.timers.insert((request.lease, place));
        }
        let (_, channel) = self.find(id).ok_or(ChangeError::Unknown(id.0))?;
        let (delay_ns, jitter_ns) = bounds(&ask, &channel.totals);
        Ok(Admitted { id, delay_ns, jitter_ns })
    }

    /// More traffic within the old budgets, if that fits when the old reservation is free.
    fn grow(&mut self, place: u32, ask: &Ask) -> bool {
        let channel = self.channels[place as usize].1.clone().expect("owned");
        if !channel.ask.load.is_within(&ask.load) || !matches!(ask.wish, Wish::Bounded { .. }) {
            return false;
        }
        self.replace(place, &channel, ask)
    }

    /// Replaces a reservation's load, budgets as they are; as it was if that does not fit.
    fn replace(&mut self, place: u32, channel: &Channel, ask: &Ask) -> bool {
        self.network.remove(&channel.ask, &channel.totals, &channel.slots);
        let fits = self.refit(channel, ask);
        let (ask, totals, slots) =
            fits.unwrap_or_else(|| (channel.ask, channel.totals, channel.slots.clone()));
        let replaced = slots != channel.slots || ask != channel.ask;
        self.network.add(&ask, &totals, &slots);
        self.with(place, |channel| {
            (channel.ask, channel.totals, channel.slots) = (ask, totals, slots);
            channel.shrinks = None;
        });
        replaced
    }

    fn refit(&mut self, channel: &Channel, ask: &Ask) -> Option<(Ask, Totals, Box<[Slot]>)> {
        if !matches!(ask.wish, Wish::Bounded { .. }) {
            let totals = self.decide(ask).ok()?;
            return Some((*ask, totals, self.scratch.as_slice().into()));
        }
        let mut slots = channel.slots.to_vec();
        let totals = self.network.refit(ask, &channel.totals, &mut slots)?;
        Some((*ask, totals, slots.into()))
    }

    fn with(&mut self, place: u32, change: impl FnOnce(&mut Channel)) {
        if let Some(channel) = &mut self.channels[place as usize].1 {
            change(channel);
        }
    }

    /// Renews a lease.
    pub fn renew(
        &mut self,
        id: ReservationId,
        owner: u64,
        lease: Instant,
    ) -> Result<(), ChangeError> {
        let (place, channel) = self.owned(id, owner)?;
        let old = channel.lease;
        self.timers.remove(&(old, place));
        self.with(place, |channel| channel.lease = lease);
        if lease < Instant::NEVER {
            self.timers.insert((lease, place));
        }
        Ok(())
    }

    /// Ends a reservation after draining: what still waits at the sender (`backlog`) leaves at
    /// the sustained rate, and its last packet is under way for at most the bound. Gives the time
    /// at which the resources return.
    pub fn delete(
        &mut self,
        now: Instant,
        id: ReservationId,
        owner: u64,
        backlog: ByteSize,
    ) -> Result<Instant, ChangeError> {
        let (place, _) = self.owned(id, owner)?;
        Ok(self.drain(now, place, backlog))
    }

    fn drain(&mut self, now: Instant, place: u32, backlog: ByteSize) -> Instant {
        let mut until = now;
        self.with(place, |channel| {
            let bits = backlog.as_bytes().saturating_mul(8);
            let sending = time_up(bits, channel.ask.load.rate_bps());
            let wait = sending.saturating_add(channel.totals.delay_ns);
            until = now + Duration::from_nanos(wait);
            channel.drains = Some(until);
        });
        self.timers.insert((until, place));
        until
    }

    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Ends leases that have run out, returns what has drained, shrinks what was granted less.
    /// Early and repeated calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, place)) = self.timers.first()
            && at <= now
        {
            self.timers.remove(&(at, place));
            let Some(channel) = &self.channels[place as usize].1 else { continue };
            if channel.drains.is_some_and(|until| until <= now) {
                self.release(place);
                continue;
            }
            if channel.drains.is_none() && channel.lease <= now {
                self.drain(now, place, ByteSize::ZERO);
                continue;
            }
            if let Some((when, ask)) = channel.shrinks
                && when <= now
            {
                let channel = channel.clone();
                // What quantisation would make larger stays as it is: less was granted anyway.
                self.replace(place, &channel, &ask);
                self.with(place, |channel| channel.shrinks = None);
            }
        }
    }

    /// Adaptive admission: counts a statistical channel at a quarter above its measured average,
    /// and at most its declared one, which leaves room for more of them. Gives the rate that is
    /// counted. Other channels are as they were promised, whatever is measured; so are the tests
    /// of hard promises.
    pub fn observe(&mut self, id: ReservationId, measured: Rate) -> Result<Rate, ChangeError> {
        let (place, channel) = self.find(id).ok_or(ChangeError::Unknown(id.0))?;
        let declared = channel.ask.load.rate_bps();
        let bps = measured.as_bps();
        let counted = bps.saturating_add(bps / 4 + 1).min(declared);
        let mut changed = channel.clone();
        for slot in &mut *changed.slots {
            let SlotKind::Statistical(member) = &mut slot.kind else {
                return Ok(Rate::from_bps(declared));
            };
            member.mean_bps = counted;
        }
        let old = self.channels[place as usize].1.replace(changed.clone());
        if let Some(old) = old {
            self.network.remove(&old.ask, &old.totals, &old.slots);
        }
        self.network.add(&changed.ask, &changed.totals, &changed.slots);
        Ok(Rate::from_bps(counted))
    }
}

/// Whether a promise that was made for one wish is enough for another.
fn meets(old: &Wish, new: &Wish, totals: &Totals) -> bool {
    let ns = |d: Duration| towpath_wire::units::nanos(d);
    match (old, new) {
        (Wish::Bounded { .. }, Wish::Bounded { delay, jitter }) => {
            totals.delay_ns <= ns(*delay) && jitter.is_none_or(|j| totals.jitter_ns <= ns(j))
        }
        (Wish::Statistical { late_ppm: old, .. }, Wish::Statistical { delay, late_ppm }) => {
            old <= late_ppm && totals.delay_ns <= ns(*delay)
        }
        (Wish::Share { priority: old }, Wish::Share { priority }) => old == priority,
        _ => false,
    }
}
