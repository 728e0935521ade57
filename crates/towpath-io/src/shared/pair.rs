//! Two tasks of one host that talk to each other: what one of them holds.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::sched_getcpu;

use super::arena::Arena;
use super::bell::Bell;
use super::card::{OwnCard, Showing, epoch_of, must_be_woken, showing};
use super::inbound::Inbound;
use super::layout::ArenaShape;
use super::memory::Memory;
use super::outbound::Outbound;
use super::returns::{Reclaimer, Returner};
use super::ring::{Consumer, Producer, is_wanting};
use super::segment::{OpenError, open_half, open_task};

/// The descriptors a pair needs at one of its ends.
#[derive(Debug)]
pub struct PairFds {
    /// Own half, writable.
    pub own_half: OwnedFd,
    /// The peer's half, read-only.
    pub peer_half: OwnedFd,
    /// The peer's task segment, read-only.
    pub peer_segment: OwnedFd,
    /// The peer's bell.
    pub peer_bell: OwnedFd,
}

/// What both directions and all views of a pair share.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Arc<Memory>,
    /// The peer's task segment.
    pub(super) segment: Arc<Memory>,
    pub(super) shape: ArenaShape,
    bell: Bell,
    /// The bell was rung and the peer has not been seen to run since.
    rung: AtomicBool,
    /// The bell cannot be rung any more.
    lost: AtomicBool,
    returner: Returner,
}

impl Link {
    /// Rings if the peer sleeps; true if so.
    #[inline]
    pub(super) fn wake(&self) -> bool {
        let sleeps = must_be_woken(&self.segment);
        if sleeps {
            self.ring();
        }
        sleeps
    }

    /// Whether the peer was last seen on the processor that this task runs on: it cannot do
    /// anything meanwhile.
    pub(super) fn is_here(&self) -> bool {
        showing(&self.segment).processor == sched_getcpu() as u32
    }

    #[cold]
    fn ring(&self) {
        self.rung.store(true, Ordering::Relaxed);
        if self.bell.ring().is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the peer could not be woken: somebody closed our descriptors.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Gives a block back.
    pub(super) fn give_back(&self, ticket: u16) {
        self.returner.give(ticket);
        if is_wanting(&self.peer) {
            self.wake();
        }
    }
}

/// A neighbour as its card shows it.
#[derive(Clone, Debug)]
pub struct PeerCard(Arc<Link>);

impl PeerCard {
    /// What it says now.
    #[inline]
    pub fn showing(&self) -> Showing {
        showing(&self.0.segment)
    }

    /// What the peer last set with [`OwnCard::set_epoch`](super::OwnCard::set_epoch).
    pub fn epoch(&self, which: usize) -> u64 {
        epoch_of(&self.0.segment, which)
    }

    /// Rings its bell if it sleeps; true if so. To be called after what it is to see.
    pub fn wake(&self) -> bool {
        self.0.wake()
    }

    /// Whether it runs, and on another processor than the task with this card, as far as the two
    /// cards say.
    #[inline]
    pub fn is_beside(&self, own: &OwnCard) -> bool {
        let showing = self.showing();
        !showing.sleeping && showing.processor != own.showing().processor
    }

    /// Whether it was woken by us and has not been seen to run since.
    pub(super) fn is_waking(&self) -> bool {
        self.0.rung.load(Ordering::Relaxed)
    }

    /// It was seen to run.
    pub(super) fn is_awake(&self) {
        self.0.rung.store(false, Ordering::Relaxed);
    }
}

/// Maps what a pair needs; `arena` is where its messages stand.
pub(super) fn open(
    arena: &Arena,
    fds: PairFds,
) -> Result<(Outbound, Inbound, PeerCard), OpenError> {
    let PairFds { own_half, peer_half, peer_segment, peer_bell } = fds;
    let (own, peer) = (open_half(own_half, true)?, open_half(peer_half, false)?);
    let (segment, shape) = open_task(peer_segment, false)?;
    let producer = Producer::new(Arc::clone(&own), Arc::clone(&peer));
    let consumer = Consumer::new(Arc::clone(&own), Arc::clone(&peer), shape);
    let reclaimer = Reclaimer::new(Arc::clone(&peer));
    let returner = Returner::new(Arc::clone(&own));
    let (rung, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    let bell = Bell::from(peer_bell);
    let link = Arc::new(Link { peer, segment, shape, bell, rung, lost, returner });
    let outbound = Outbound::new(Arc::clone(&link), arena.clone(), producer, reclaimer);
    Ok((outbound, Inbound::new(Arc::clone(&link), consumer), PeerCard(link)))
}
