//! One end of a pair, opened as a daemon would hand it out, and the handing out.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath_io::shared::{
    Bell, Head, Home, Inbound, Kind, Outbound, PairFds, PeerCard, SHORT_MAX, Segment, Spin, View,
    Waiter,
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
}

fn head(len: usize) -> Head {
    Head { tag: 1, context: 0, seq: 0, format: 0, total: len as u64, offset: 0 }
}

impl End {
    pub(crate) fn open(fds: Fds) -> Self {
        let home = Home::open(fds.home).expect("own segment");
        let (out, inbound, card) = home.pair(fds.pair).expect("a pair");
        let waiter = Waiter::new(Bell::from(fds.bell)).expect("waits");
        Self { home, out, inbound, card, waiter, view: None }
    }

    pub(crate) fn send(&mut self, data: &[u8]) {
        if data.len() > SHORT_MAX {
            self.out.push_copy(&head(data.len()), data).expect("room");
        } else {
            self.out.push(&head(data.len()), data).expect("room");
            self.out.wake();
        }
    }

    /// Waits for an arrival.
    fn wait(&mut self, spin: bool) {
        while !self.inbound.ready() {
            let card = self.home.card();
            let spin = if spin { Spin::advised(card, [&self.card]) } else { Spin::NONE };
            self.waiter.wait(card, spin, None, || self.inbound.ready()).expect("waits");
        }
    }

    pub(crate) fn receive(&mut self, to: &mut [u8], spin: bool) {
        self.wait(spin);
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
        self.wait(true);
        self.inbound.peek().expect("intact");
        let view = self.inbound.take_block();
        if touch {
            let bytes = view.bytes().expect("whole");
            assert_eq!((bytes[0], bytes[view.len() - 1]), (1, 2));
        }
        self.view = Some(view);
    }
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
