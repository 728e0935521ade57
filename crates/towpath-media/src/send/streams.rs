//! Many streams behind one timer.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use towpath_wire::Instant;

use super::sender::{Due, Sender};

/// Names a stream; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    slot: u32,
    life: u32,
}

impl StreamId {
    /// Its place: below the most streams that there were at once.
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

#[derive(Debug)]
struct Slot {
    life: u32,
    sender: Option<Sender>,
    /// When the heap has it; later entries are stale.
    listed: Option<Instant>,
}

/// Streams in the order in which they are due.
///
/// Invariant: a stream whose datagram is due at `t` is in `heap` with an instant not after `t`.
/// Memory: a heap entry per stream, and one more for each change by its owner until it is due.
#[derive(Debug, Default)]
pub struct Streams {
    slots: Vec<Slot>,
    free: Vec<u32>,
    heap: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    live: usize,
}

impl Streams {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a stream.
    pub fn add(&mut self, sender: Sender) -> StreamId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { life: 0, sender: None, listed: None });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.sender = Some(sender);
        self.live += 1;
        let id = StreamId { slot, life: entry.life };
        self.changed(id);
        id
    }

    /// Gives a stream back; `None` where there is none of that name any more.
    pub fn remove(&mut self, id: StreamId) -> Option<Sender> {
        let entry = self.slots.get_mut(id.slot()).filter(|slot| slot.life == id.life)?;
        let sender = entry.sender.take()?;
        entry.life = entry.life.wrapping_add(1);
        entry.listed = None;
        self.free.push(id.slot);
        self.live -= 1;
        Some(sender)
    }

    /// A stream, to be looked at.
    pub fn get(&self, id: StreamId) -> Option<&Sender> {
        self.slots.get(id.slot()).filter(|slot| slot.life == id.life)?.sender.as_ref()
    }

    /// A stream, to be changed; then it is looked at anew when it is due.
    pub fn with<T>(&mut self, id: StreamId, change: impl FnOnce(&mut Sender) -> T) -> Option<T> {
        let slot = self.slots.get_mut(id.slot()).filter(|slot| slot.life == id.life)?;
        let value = change(slot.sender.as_mut()?);
        self.changed(id);
        Some(value)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn changed(&mut self, id: StreamId) {
        let slot = &mut self.slots[id.slot()];
        let due = slot.sender.as_ref().and_then(Sender::poll_timeout);
        if let Some(due) = due
            && slot.listed.is_none_or(|listed| due < listed)
        {
            slot.listed = Some(due);
            self.heap.push(Reverse((due, id.slot, id.life)));
        }
    }

    /// When the next datagram of any stream may be due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// The datagram that has been due longest, written to `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<(StreamId, Due)> {
        while let Some(&Reverse((due, slot, life))) = self.heap.peek()
            && due <= now
        {
            self.heap.pop();
            let entry = &mut self.slots[slot as usize];
            if entry.life != life || entry.listed != Some(due) {
                continue;
            }
            entry.listed = None;
            let Some(sender) = &mut entry.sender else { continue };
            let sent = sender.poll_transmit(now, out);
            let id = StreamId { slot, life };
            self.changed(id);
            if let Some(due) = sent {
                return Some((id, due));
            }
            // What it planned is not due yet: it is in the heap again, later than now, or has
            // nothing to send.
        }
        None
    }
}

/// In which tick streams are woken: each datagram at its own instant as long as they are few.
///
/// Below 300 streams of 4 Mbit/s a wake-up for each datagram costs less than a tick saves; above,
/// wake-ups would take the processor, and all that are due in a tick go out at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(Duration);

impl Tick {
    /// Each at its instant.
    pub const EXACT: Self = Self(Duration::ZERO);
    const FINE: Self = Self(Duration::from_micros(250));
    const COARSE: Self = Self(Duration::from_micros(500));

    /// For so many datagrams a second.
    pub const fn for_load(datagrams_per_s: u64) -> Self {
        // 380 a second are one stream of 4 Mbit/s.
        match datagrams_per_s {
            0..=114_000 => Self::EXACT,
            114_001..=190_000 => Self::FINE,
            _ => Self::COARSE,
        }
    }

    /// When to wake for what is due at `due`.
    pub fn wake(self, due: Instant) -> Instant {
        let tick = self.0.as_nanos() as u64;
        if tick == 0 { due } else { Instant::from_nanos(due.as_nanos().next_multiple_of(tick)) }
    }

    /// Its length.
    pub const fn length(self) -> Duration {
        self.0
    }
}
