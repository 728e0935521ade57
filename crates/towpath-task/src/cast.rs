//! The parts of a multicast that do not go by the daemons: through shared memory, as one block that
//! all receivers of this host read, and by streams, to each receiver of another host.

use std::collections::BTreeSet;

use towpath_io::shared::Frozen;
use towpath_wire::{HostId, TaskId};

use crate::deadline::Deadline;
use crate::direct::gather;
use crate::error::{RecvError, SendError};
use crate::message::Envelope;
use crate::parts::directs::Route;
use crate::rings::Ring;
use crate::task::Task;

/// Direct routes are asked for to the receivers of multicasts that have so many here, or so many
/// elsewhere, at most.
const ASKED_MAX: usize = 16;

/// What the two ways to tasks of other hosts take, in nanoseconds, as measured between namespaces
/// (`bench multicast --hosts 3 --netns`): the daemons wake up at both ends, and once more for each
/// host of a chain; each stream takes a system call of its own.
const DAEMONS_NS: u64 = 40_000;
const DAEMONS_HOST_NS: u64 = 100_000;
const STREAM_NS: u64 = 6_000;
/// Bytes a second that a chain of daemons, and a stream, move where no link is slower.
const DAEMONS_RATE: u64 = 120_000_000;
const STREAM_RATE: u64 = 2_000_000_000;
/// Of so many multicasts that are sooner by the daemons, one goes by streams all the same: how fast
/// those are shows only when they are used.
const TRIAL: u32 = 64;

const fn time_ns(bytes: usize, rate: u64) -> u64 {
    (bytes as u64).saturating_mul(1_000_000_000) / if rate == 0 { 1 } else { rate }
}

/// Whether `len` bytes are sooner with all receivers by a stream to each, than by the daemons of
/// their `hosts`, which take them over each link once. `rates`: what each stream's way takes, as
/// far as the kernel knows; a way that nobody has filled is taken for a fast one.
fn streams_pay(len: usize, rates: impl Iterator<Item = Option<u64>>, hosts: usize) -> bool {
    let (mut streams, mut slowest) = (0_u64, STREAM_RATE);
    for rate in rates {
        let rate = rate.map_or(STREAM_RATE, |rate| rate.min(STREAM_RATE));
        streams = streams.saturating_add(STREAM_NS + time_ns(len, rate));
        slowest = slowest.min(rate);
    }
    let daemons = DAEMONS_NS + DAEMONS_HOST_NS * hosts as u64;
    streams <= daemons + time_ns(len, slowest.min(DAEMONS_RATE))
}

impl Task {
    /// Sends to those of `to` that have a ring, the ones with room first; who is left must get
    /// it by the daemons, as when this task takes in no more before a ring has room. `block`: where
    /// the parts stand already. True: some have got it.
    pub(crate) fn cast_by_rings(
        &mut self,
        to: &mut Vec<TaskId>,
        envelope: Envelope,
        parts: &[&[u8]],
        block: Option<Frozen>,
    ) -> Result<bool, SendError> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        self.ask_rings(to, len);
        let mut near: Vec<TaskId> = Vec::new();
        to.retain(|task| {
            let ring = self.route(*task) == Route::Ring;
            if ring {
                near.push(*task);
            }
            !ring
        });
        if near.is_empty() {
            return Ok(false);
        }
        near.sort_by_key(|task| !self.rings.get(*task).is_some_and(Ring::has_room));
        let block = block.or_else(|| {
            let mut block = if near.len() > 1 { self.block(len) } else { None }?;
            gather(parts, block.bytes_mut());
            Some(block.freeze_to(len))
        });
        let mut some = false;
        for task in near {
            let sent = match &block {
                Some(block) => {
                    self.push_frozen(task, envelope, block.clone()).map(|rest| rest.is_none())
                }
                None => self.by_ring(task, envelope, parts),
            };
            match sent {
                Ok(true) => some = true,
                Err(SendError::NoTask(_)) => {}
                Ok(false) | Err(SendError::Full(_)) => to.push(task),
                Err(e) => return Err(e),
            }
        }
        Ok(some)
    }

    /// Asks for rings to those of `to` on this host that have none, as for single messages; not
    /// where they are many. The questions go out with the message, which these get by the daemons.
    fn ask_rings(&mut self, to: &[TaskId], len: usize) {
        let own = self.host();
        let is_near = |task: &TaskId| task.host() == own;
        if to.iter().filter(|task| is_near(task)).count() > ASKED_MAX {
            return;
        }
        for task in to.iter().copied().filter(is_near) {
            if self.route(task) != Route::Ring {
                self.ask_direct(task, len);
            }
        }
    }

    /// Sends to those of `to` that have a stream with room, where that takes less time than the
    /// daemons would; who is left must get it by those. True: some have got it.
    pub(crate) fn cast_by_streams(
        &mut self,
        to: &mut Vec<TaskId>,
        envelope: Envelope,
        parts: &[&[u8]],
    ) -> Result<bool, SendError> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let far = self.streams_for(to, len)?;
        if far.is_empty() {
            return Ok(false);
        }
        to.retain(|task| !far.contains(task));
        let mut some = false;
        for task in &far {
            let mut header = self.header(*task, envelope, parts);
            let sent = self.push_stream(&mut header, parts);
            match sent {
                Ok(true) => some = true,
                Err(SendError::NoTask(_)) => {}
                Ok(false) | Err(SendError::Full(_)) if self.has_begun(&header) => {
                    // Its receiver must not see the rest before the beginning.
                    self.end_stream(*task);
                    self.finish_later(&[header], parts);
                    some = true;
                }
                Ok(false) | Err(SendError::Full(_)) => to.push(*task),
                Err(e) => return Err(e),
            }
        }
        if !far.iter().all(|task| self.has_written(*task)) {
            // The kernel goes on by itself only with what it has. Who has no room to wait goes on:
            // it is all in the streams, and later calls write it.
            let written = self.wait_for(Deadline::NEVER, &mut |task| {
                far.iter().all(|peer| task.has_written(*peer)).then_some(())
            });
            match written {
                Ok(_) | Err(RecvError::Full(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(some)
    }

    /// Those of `to` that are to get `len` bytes by a stream.
    fn streams_for(&mut self, to: &[TaskId], len: usize) -> Result<Vec<TaskId>, SendError> {
        let own = self.host();
        let far: Vec<TaskId> = to.iter().copied().filter(|task| task.host() != own).collect();
        if self.directs.refused_by_us || far.is_empty() {
            return Ok(Vec::new());
        }
        if far.len() <= ASKED_MAX {
            for task in &far {
                self.consider_direct(*task, len)?;
            }
        }
        let (mut ready, mut rates) = (Vec::new(), Vec::new());
        for task in far {
            if !self.is_behind(task)
                && let Some(stream) = self.routes.open(task)
                && stream.has_room_for(len)
            {
                rates.push(stream.rate());
                ready.push(task);
            }
        }
        let hosts: BTreeSet<HostId> = ready.iter().map(|task| task.host()).collect();
        if !streams_pay(len, rates.into_iter(), hosts.len()) {
            self.sending.kept_from_streams += 1;
            if !self.sending.kept_from_streams.is_multiple_of(TRIAL) {
                ready.clear();
            }
        }
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_for_slow_links_and_many_receivers() {
        let by_streams = |len, rate, receivers, hosts| {
            streams_pay(len, std::iter::repeat_n(rate, receivers), hosts)
        };
        for fast in [None, Some(1_200_000_000)] {
            for receivers in 1..=5 {
                assert!(by_streams(64, fast, receivers, receivers));
                assert!(by_streams(64 << 10, fast, receivers, receivers), "{receivers} receivers");
            }
        }
        // 1 Gbit/s: two streams take the link twice, the chain once.
        let slow = Some(117_000_000);
        assert!(by_streams(64 << 10, slow, 1, 1));
        assert!(!by_streams(64 << 10, slow, 2, 2));
        assert!(by_streams(64, slow, 5, 5), "short messages do not fill it");
        // One host gets it once.
        assert!(!by_streams(64 << 10, None, 20, 1));
    }

    #[test]
    fn streams_pay_up_to_the_time_that_the_daemons_take() {
        assert_eq!((time_ns(3000, 1_000_000), time_ns(1, 0)), (3_000_000, 1_000_000_000));
        let pay =
            |len, rates: &[Option<u64>], hosts| streams_pay(len, rates.iter().copied(), hosts);
        // What each stream costs, against what the daemons do and each of their hosts.
        for (receivers, hosts, pays) in
            [(23, 1, true), (24, 1, false), (40, 2, true), (41, 2, false), (0, 0, true)]
        {
            assert_eq!(pay(0, &vec![None; receivers], hosts), pays, "{receivers} on {hosts}");
        }
        // The slowest way bounds both: six milliseconds by any of them.
        let slow = Some(10_000_000);
        assert!(pay(60_000, &[slow], 1) && pay(60_000, &[None, slow], 2));
        assert!(!pay(60_000, &[slow, slow], 2));
        // No stream is taken for faster than a fast one.
        assert!(!pay(2_000_000, &[Some(u64::MAX); 20], 1));
        assert!(pay(2_000_000, &[Some(u64::MAX); 16], 1));
    }
}
