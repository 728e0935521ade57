//! One end of a pair, opened as a daemon would hand it out, and the handing out.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath_io::shared::{
    Bell, Head, Home, Inbound, Kind, Outbound, PairFds, PeerCard, SHORT_MAX, Segment, Spin, View,
    Waiter, Woken,
};

/// What one end gets: its own segment and bell, and the pair's.
pub(crate) struct Fds {
    home: OwnedFd,
    bell: OwnedFd,
    pair: PairFds,
}

pub(crate) struct End {
    home: Home,
    out: Outbound,
    inbound: Inbound,
    card: PeerCard,
    waiter: Waiter,
    view: Option<View>,
    /// Views that are kept while others come.
    kept: VecDeque<View>,
    /// Rings in which nothing ever comes.
    others: Vec<Inbound>,
    /// Sleeping receives, and how often they slept.
    asleep: (u32, u32),
}

/// How to wait and what to do with a long payload.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    spin: bool,
    keep: usize,
    /// Other rings looked at as often.
    others: usize,
}

impl Way {
    pub(crate) const SPIN: Self = Self { spin: true, keep: 0, others: 0 };
    pub(crate) const KEEP: Self = Self { keep: 8, ..Self::SPIN };
    pub(crate) const SLEEP: Self = Self { spin: false, ..Self::SPIN };

    pub(crate) fn among(others: usize) -> Self {
        Self { others, ..Self::SPIN }
    }
}

fn head(len: usize) -> Head {
    Head { tag: 1, context: 0, seq: 0, format: 0, total: len as u64, offset: 0 }
}

impl End {
    pub(crate) fn open(fds: Fds) -> Self {
        let home = Home::open(fds.home).expect("own segment");
        let (out, inbound, card) = home.pair(fds.pair).expect("a pair");
        let waiter = Waiter::new(Bell::from(fds.bell)).expect("waits");
        let others = (0..256).map(|_| idle(&home)).collect();
        let (view, kept) = (None, VecDeque::new());
        Self { home, out, inbound, card, waiter, view, kept, others, asleep: (0, 0) }
    }

    pub(crate) fn send(&mut self, data: &[u8]) {
        if data.len() > SHORT_MAX {
            self.out.push_copy(&head(data.len()), data).expect("room");
        } else {
            self.out.push(&head(data.len()), data).expect("room");
        }
        self.out.wake();
    }

    /// Waits for an arrival.
    fn wait(&mut self, way: Way) {
        let Self { home, inbound, card, waiter, others, asleep, .. } = self;
        let others = &mut others[..way.others];
        let mut ready = || {
            let mut all = others.iter_mut();
            assert!(!all.any(Inbound::ready), "nothing comes there");
            inbound.ready()
        };
        asleep.0 += u32::from(!way.spin);
        while !ready() {
            let own = home.card();
            let spin = if way.spin { Spin::advised(own, [&*card]) } else { Spin::NONE };
            let woken = waiter.wait(own, spin, None, &mut ready).expect("waits");
            asleep.1 += u32::from(!way.spin && woken == Woken::Bell);
        }
    }

    /// How often a receive that sleeps did sleep.
    pub(crate) fn sleeps(&self) -> f64 {
        f64::from(self.asleep.1) / f64::from(self.asleep.0)
    }

    pub(crate) fn receive(&mut self, to: &mut [u8], way: Way) {
        self.wait(way);
        let arrival = self.inbound.peek().expect("intact").expect("ready");
        assert_eq!(arrival.len, to.len());
        if arrival.kind == Kind::Short {
            self.inbound.take_short(to);
            return;
        }
        let view = self.inbound.take_block();
        let mut done = 0;
        while done < to.len() {
            done += view.read(done, &mut to[done..]);
        }
        self.kept.push_back(view);
        self.kept.drain(..self.kept.len().saturating_sub(way.keep));
    }

    /// Sends a block of `size` bytes that was not copied; `touch` writes its first and last.
    pub(crate) fn loan(&mut self, size: usize, touch: bool) {
        let mut block = self.home.arena().alloc(size).expect("a block");
        if touch {
            let bytes = block.bytes_mut();
            (bytes[0], bytes[size - 1]) = (1, 2);
        }
        self.out.push_block(&head(size), block.freeze()).expect("room");
        self.out.wake();
        // What came before is given back once its answer is on the way.
        self.view = None;
    }

    pub(crate) fn borrow(&mut self, touch: bool) {
        self.wait(Way::SPIN);
        self.inbound.peek().expect("intact");
        let view = self.inbound.take_block();
        if touch {
            let bytes = view.bytes().expect("whole");
            assert_eq!((bytes[0], bytes[view.len() - 1]), (1, 2));
        }
        self.view = Some(view);
    }
}

/// A ring in which nothing ever comes.
fn idle(home: &Home) -> Inbound {
    let [own, peer] = [0, 1].map(|_| Segment::half().expect("a half"));
    let fds = PairFds {
        own_half: own.owner,
        peer_half: peer.peers,
        peer_segment: Segment::task(1).expect("a segment").peers,
        peer_bell: OwnedFd::from(File::open("/dev/null").expect("never rung")),
    };
    home.pair(fds).expect("a pair").1
}

/// The floors' page, and what two ends get.
pub(crate) fn make() -> (OwnedFd, Fds, Fds) {
    let bare = File::from(memfd_create("bare", MemfdFlags::CLOEXEC).expect("a memory file"));
    bare.set_len(4096).expect("a page");
    let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().expect("a descriptor");
    let homes = [0, 1].map(|_| Segment::task(64 << 20).expect("a segment"));
    let halves = [0, 1].map(|_| Segment::half().expect("a half"));
    let bells = [0, 1].map(|_| Bell::new().expect("a bell"));
    let fds = |i: usize| Fds {
        home: copy(&homes[i].owner),
        bell: copy(&bells[i]),
        pair: PairFds {
            own_half: copy(&halves[i].owner),
            peer_half: copy(&halves[1 - i].peers),
            peer_segment: copy(&homes[1 - i].peers),
            peer_bell: copy(&bells[1 - i]),
        },
    };
    (bare.into(), fds(0), fds(1))
}

/// Lets a child process inherit descriptors; says which, as [`inherit`] wants it.
pub(crate) fn pass(bare: &OwnedFd, fds: &Fds) -> String {
    let PairFds { own_half, peer_half, peer_segment, peer_bell } = &fds.pair;
    let all = [bare, &fds.home, &fds.bell, own_half, peer_half, peer_segment, peer_bell];
    let number = |fd: &&OwnedFd| {
        fcntl_setfd(fd, FdFlags::empty()).expect("a descriptor");
        fd.as_raw_fd().to_string()
    };
    all.iter().map(number).collect::<Vec<_>>().join(",")
}

pub(crate) fn inherit(numbers: &str) -> (OwnedFd, Fds) {
    let fd = |number: &str| -> OwnedFd {
        let number: RawFd = number.parse().expect("a number");
        // SAFETY: this process was started with exactly these descriptors, and takes each once.
        unsafe { OwnedFd::from_raw_fd(number) }
    };
    let all: Vec<OwnedFd> = numbers.split(',').map(fd).collect();
    let [bare, home, bell, own_half, peer_half, peer_segment, peer_bell] =
        all.try_into().expect("seven descriptors");
    let pair = PairFds { own_half, peer_half, peer_segment, peer_bell };
    (bare, Fds { home, bell, pair })
}

pub(crate) fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).expect("such a processor");
}
