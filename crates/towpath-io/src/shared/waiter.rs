//! Waiting for everything at once: rings in shared memory, the bell, and descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::thread::sched_getcpu;

use super::bell::{Bell, aside};
use super::card::OwnCard;
use super::pair::PeerCard;

/// How long a running peer is waited for without sleeping: about what waking a sleeper costs.
const SPIN_RUNNING: Duration = Duration::from_micros(20);
/// How long a peer is waited for that was just woken on another processor.
const SPIN_WAKING: Duration = Duration::from_micros(50);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 64;
/// Key of the bell.
const BELL: u64 = u64::MAX;

/// How long to look for arrivals before sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    time: Duration,
    /// One of the awaited wants this task's processor.
    is_wanted_here: bool,
}

impl Spin {
    /// Not at all.
    pub const NONE: Self = Self { time: Duration::ZERO, is_wanted_here: false };

    /// Whether one of the awaited waits for this task to leave its processor.
    pub const fn is_wanted_here(self) -> bool {
        self.is_wanted_here
    }

    /// What the cards of the awaited peers advise. It pays to look while one of them runs on
    /// another processor, or is about to because this task woke it. It costs when two want the
    /// same processor, ours or another: one of them waits for the other to leave.
    pub fn advised<'a>(own: &OwnCard, awaited: impl IntoIterator<Item = &'a PeerCard>) -> Self {
        let here = sched_getcpu() as u32;
        own.run_on(here);
        let (mut longest, mut taken) = (Duration::ZERO, bit(here));
        for peer in awaited {
            let showing = peer.showing();
            if showing.sleeping {
                if peer.is_waking() && showing.processor != here {
                    longest = SPIN_WAKING;
                }
                continue;
            }
            peer.is_awake();
            if taken & bit(showing.processor) != 0 {
                let is_wanted_here = showing.processor == here;
                return Self { is_wanted_here, ..Self::NONE };
            }
            taken |= bit(showing.processor);
            longest = longest.max(SPIN_RUNNING);
        }
        Self { time: longest, ..Self::NONE }
    }
}

/// A processor in a set of them; processors beyond 128 are in none.
fn bit(processor: u32) -> u128 {
    1_u128.checked_shl(processor).unwrap_or(0)
}

/// Halvings after which spinning is given up.
const FAILURES_MAX: u8 = 4;
/// Waits after which it is tried again.
const TRIAL: u8 = 16;

/// How much of the advised time is used: half as much after each time that it was in vain, none
/// in the end but for a trial now and then. A peer that computes shows as running as well.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    failures: u8,
    skipped: u8,
}

impl Patience {
    fn of(&mut self, advised: Duration) -> Duration {
        if advised.is_zero() || self.failures < FAILURES_MAX {
            return advised / (1 << self.failures);
        }
        self.skipped = (self.skipped + 1) % TRIAL;
        if self.skipped == 0 { advised } else { Duration::ZERO }
    }

    fn judge(&mut self, success: bool) {
        self.failures = if success { 0 } else { FAILURES_MAX.min(self.failures + 1) };
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// What was asked for is there.
    Ready,
    /// Descriptors have something: [`Waiter::events`].
    Descriptors,
    /// The bell rang, perhaps for something that was seen before.
    Bell,
    /// The deadline is past.
    TimedOut,
    /// A signal came.
    Interrupted,
}

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Something to read, or its end.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
}

/// What a watched descriptor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key it is watched under.
    pub key: u64,
    /// Something to read, an end or an error.
    pub readable: bool,
    /// Room to write, or an error.
    pub writable: bool,
    /// Nothing more will come, or an error.
    pub ended: bool,
}

impl Event {
    fn of(event: &epoll::Event) -> Self {
        let (flags, key) = (event.flags, event.data.u64());
        let broken = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        let ended = flags.intersects(epoll::EventFlags::RDHUP | broken);
        let readable = ended || flags.contains(epoll::EventFlags::IN);
        let writable = flags.intersects(epoll::EventFlags::OUT | broken);
        Self { key, readable, writable, ended }
    }
}

/// A task's one place to wait.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
    bell: Bell,
    patience: Patience,
    events: Vec<Event>,
}

impl Waiter {
    /// Waits for this bell and for what is added.
    ///
    /// # Errors
    /// Whatever the kernel says, as where there are no descriptors left.
    pub fn new(bell: Bell) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), edges)?;
        let patience = Patience::default();
        Ok(Self { epoll: aside(epoll), bell, patience, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// The own bell.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Watches a descriptor, which is reported again and again while it has something.
    ///
    /// # Errors
    /// Whatever the kernel says, as of one that is watched already.
    pub fn watch(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        assert_ne!(key, BELL, "the last key is the bell's");
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Looks for a moment (under 10 µs), without a system call; true once `ready` says so. For a
    /// task that is about to wait for a neighbour that runs [beside it](PeerCard::is_beside),
    /// before it looks at anything that costs more. Not while such waits have been in vain.
    #[inline]
    pub fn glance(&mut self, ready: impl FnMut() -> bool) -> bool {
        if self.patience.failures >= FAILURES_MAX {
            return false;
        }
        let came = looked(ready);
        if came {
            self.patience.judge(true);
        }
        came
    }

    /// Waits until `ready` says so, a descriptor has something, the bell rings or the deadline
    /// has come. `ready` looks at every ring from which something is wanted, and at nothing that
    /// the bell does not announce.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn wait(
        &mut self,
        card: &OwnCard,
        spin: Spin,
        deadline: Option<Instant>,
        ready: impl FnMut() -> bool,
    ) -> io::Result<Woken> {
        if !self.settle(card, spin, ready) {
            return Ok(Woken::Ready);
        }
        self.sleep(card, deadline)
    }

    /// Sleeps after [`Waiter::settle`] until a descriptor has something, the bell rings or the
    /// deadline has come.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn sleep(&mut self, card: &OwnCard, deadline: Option<Instant>) -> io::Result<Woken> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let woken = self.take_events(left);
        card.run_on(sched_getcpu() as u32);
        woken
    }

    /// What [`Waiter::wait`] does before it sleeps: false once `ready` says so; true: the card says
    /// that the task sleeps, and its descriptor may be waited for.
    pub fn settle(&mut self, card: &OwnCard, spin: Spin, mut ready: impl FnMut() -> bool) -> bool {
        self.events.clear();
        if ready() {
            return false;
        }
        let longest = self.patience.of(spin.time);
        if !longest.is_zero() {
            let success = spun(longest, &mut ready);
            self.patience.judge(success);
            if success {
                return false;
            }
        }
        card.sleep();
        if ready() {
            card.run_on(sched_getcpu() as u32);
            return false;
        }
        true
    }

    /// Sees what the descriptors have, without waiting ([`Woken::TimedOut`] where nothing). For a
    /// task that never waits because its rings are never empty.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn look(&mut self) -> io::Result<Woken> {
        self.events.clear();
        self.take_events(Some(Duration::ZERO))
    }

    fn take_events(&mut self, left: Option<Duration>) -> io::Result<Woken> {
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut buffer = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut buffer, left.as_ref()) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => return Ok(Woken::Interrupted),
            Err(e) => return Err(e.into()),
        };
        let others = events.iter().filter(|event| event.data.u64() != BELL);
        self.events.extend(others.map(Event::of));
        Ok(match (events.len(), self.events.len()) {
            (0, _) => Woken::TimedOut,
            (_, 0) => Woken::Bell,
            _ => Woken::Descriptors,
        })
    }

    /// What the descriptors have that ended the last wait.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl AsFd for Waiter {
    /// The `epoll` descriptor, for waiting elsewhere: call [`OwnCard::sleep`] first, then look.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN | epoll::EventFlags::RDHUP, interest.readable);
    flags.set(epoll::EventFlags::OUT, interest.writable);
    flags
}

/// Looks for as long as it may.
#[inline]
fn spun(longest: Duration, ready: &mut impl FnMut() -> bool) -> bool {
    if looked(&mut *ready) {
        return true;
    }
    let start = Instant::now();
    while start.elapsed() < longest {
        if looked(&mut *ready) {
            return true;
        }
    }
    false
}

#[inline]
fn looked(mut ready: impl FnMut() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        ready()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_halves_ends_and_is_tried_again() {
        let advised = Duration::from_micros(16);
        let mut patience = Patience::default();
        for micros in [16, 8, 4, 2] {
            assert_eq!(patience.of(advised), Duration::from_micros(micros));
            patience.judge(false);
        }
        for _ in 0..2 {
            let zeros = (1..TRIAL).filter(|_| patience.of(advised).is_zero()).count();
            assert_eq!(zeros, usize::from(TRIAL) - 1);
            assert_eq!(patience.of(advised), advised);
            patience.judge(false);
        }
        patience.judge(true);
        assert_eq!(patience.of(advised), advised);
        assert_eq!(patience.of(Duration::ZERO), Duration::ZERO);
    }
}
