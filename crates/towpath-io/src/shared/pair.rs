//! Two tasks of one host that talk to each other: what one of them holds.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::arena::Arena;
use super::bell::Bell;
use super::card::{Showing, must_be_woken, showing};
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
    /// Views are dropped anywhere.
    returner: Mutex<Returner>,
}

impl Link {
    /// Rings if the peer sleeps; true if so.
    pub(super) fn wake(&self) -> bool {
        let sleeps = must_be_woken(&self.segment);
        if sleeps {
            self.rung.store(true, Ordering::Relaxed);
            self.bell.ring();
        }
        sleeps
    }

    /// Gives a block back.
    pub(super) fn give_back(&self, ticket: u16) {
        self.returner.lock().unwrap_or_else(PoisonError::into_inner).give(ticket);
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
    pub fn showing(&self) -> Showing {
        showing(&self.0.segment)
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
    let returner = Mutex::new(Returner::new(Arc::clone(&own)));
    let (bell, rung) = (Bell::from(peer_bell), AtomicBool::new(false));
    let link = Arc::new(Link { peer, segment, shape, bell, rung, returner });
    let outbound = Outbound::new(Arc::clone(&link), arena.clone(), producer, reclaimer);
    Ok((outbound, Inbound::new(Arc::clone(&link), consumer), PeerCard(link)))
}
