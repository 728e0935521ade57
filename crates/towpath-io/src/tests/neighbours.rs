//! Tasks of one host that exchange through shared memory, wired as a daemon would wire them.

#![allow(dead_code)] // each test file uses a part of it

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use towpath_io::shared::{
    Bell, Head, Home, Inbound, Kind, Outbound, PairFds, PeerCard, Segment, Spin, Waiter, Woken,
};

/// What a daemon keeps of a task.
pub(crate) struct Place {
    pub(crate) segment: Segment,
    pub(crate) bell: Bell,
}

impl Place {
    pub(crate) fn new(arena: usize) -> Self {
        Self { segment: Segment::task(arena).expect("a segment"), bell: Bell::new().expect("one") }
    }

    pub(crate) fn home(&self) -> Home {
        Home::open(copy(&self.segment.owner)).expect("own segment")
    }

    pub(crate) fn waiter(&self) -> Waiter {
        Waiter::new(copy(&self.bell).into()).expect("a waiter")
    }
}

pub(crate) fn copy(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// The descriptors of a pair's ends, and its halves for tests that spoil them.
pub(crate) fn pair_fds(near: &Place, far: &Place) -> ([PairFds; 2], [File; 2]) {
    let halves = [0, 1].map(|_| Segment::half().expect("a half"));
    let fds = |i: usize, peer: &Place| PairFds {
        own_half: copy(&halves[i].owner),
        peer_half: copy(&halves[1 - i].peers),
        peer_segment: copy(&peer.segment.peers),
        peer_bell: copy(&peer.bell),
    };
    let ends = [fds(0, far), fds(1, near)];
    (ends, halves.map(|half| File::from(half.owner)))
}

/// One end of a pair with all its task has.
pub(crate) struct End {
    pub(crate) home: Home,
    pub(crate) waiter: Waiter,
    pub(crate) out: Outbound,
    pub(crate) inbound: Inbound,
    pub(crate) card: PeerCard,
}

impl End {
    pub(crate) fn new(place: &Place, fds: PairFds) -> Self {
        let home = place.home();
        let (out, inbound, card) = home.pair(fds).expect("a pair");
        Self { home, waiter: place.waiter(), out, inbound, card }
    }

    /// Sleeps until `ready` says so, which it does once: it may send. Panics after long.
    pub(crate) fn sleep(&mut self, mut ready: impl FnMut(&mut Outbound, &mut Inbound) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        let Self { home, waiter, out, inbound, .. } = self;
        let mut woken = Woken::Bell;
        while woken != Woken::Ready {
            assert_ne!(woken, Woken::TimedOut, "nobody wakes this end");
            let ready = || ready(out, inbound);
            woken = waiter.wait(home.card(), Spin::NONE, Some(deadline), ready).expect("waits");
        }
    }

    /// Waits for the next message; its head and payload.
    pub(crate) fn receive(&mut self) -> (Head, Vec<u8>) {
        self.sleep(|_, inbound| inbound.ready());
        take(&mut self.inbound).expect("ready")
    }
}

/// Two ends of a pair, arenas of `arena` bytes.
pub(crate) fn ends(arena: usize) -> (End, End) {
    let (near, far) = (Place::new(arena), Place::new(arena));
    let ([a, b], _) = pair_fds(&near, &far);
    (End::new(&near, a), End::new(&far, b))
}

/// Takes the next message, if there is one; waits for one that is being filled.
pub(crate) fn take(inbound: &mut Inbound) -> Option<(Head, Vec<u8>)> {
    let arrival = inbound.peek().expect("intact")?;
    let mut payload = vec![0; arrival.len];
    if arrival.kind == Kind::Short {
        inbound.take_short(&mut payload);
    } else {
        let view = inbound.take_block();
        let mut done = 0;
        while done < payload.len() {
            done += view.read(done, &mut payload[done..]);
        }
    }
    Some((arrival.head, payload))
}

/// A whole message's head.
pub(crate) fn head(seq: u32, len: usize) -> Head {
    Head { tag: 3, context: 0, seq, format: 1, total: len as u64, offset: 0 }
}

/// Bytes that depend on `seed` at every place.
pub(crate) fn payload(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(31) ^ i >> 8).wrapping_add(seed * 7) as u8).collect()
}
