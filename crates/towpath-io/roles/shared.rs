//! The two ends of a pair, each in a process that is killed: for `tests/shared_killed.rs`.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use towpath_io::shared::{Home, Kind, PairFds, PushError, SHORT_MAX, Waiter};

use crate::neighbours::{End, head, payload};

/// Messages that a sender sends unless it is killed.
pub(crate) const MESSAGES: u32 = 10_000;
/// Names the descriptors that a child inherits.
pub(crate) const VARIABLE: &str = "TOWPATH_TEST_SHARED";

/// Lengths of all kinds of messages, long ones rarely.
pub(crate) fn len(seq: u32) -> usize {
    match seq % 16 {
        15 => 40_000 + seq as usize,
        14 => SHORT_MAX + 1,
        13 => SHORT_MAX,
        small => small as usize * 12,
    }
}

/// What this process inherits.
fn inherited() -> End {
    let numbers = std::env::var(VARIABLE).expect("started by the test");
    let fd = |number: &str| -> OwnedFd {
        let number: RawFd = number.parse().expect("a number");
        // SAFETY: this process was started with exactly these descriptors, and takes each once.
        unsafe { OwnedFd::from_raw_fd(number) }
    };
    let fds: Vec<OwnedFd> = numbers.split(',').map(fd).collect();
    let [home, bell, own_half, peer_half, peer_segment, peer_bell] =
        fds.try_into().expect("six descriptors");
    let home = Home::open(home).expect("own segment");
    let fds = PairFds { own_half, peer_half, peer_segment, peer_bell };
    let (out, inbound, card) = home.pair(fds).expect("a pair");
    End { home, waiter: Waiter::new(bell.into()).expect("waits"), out, inbound, card }
}

/// Sends as long as it lives.
pub(crate) fn sender() {
    let mut end = inherited();
    for seq in 0..MESSAGES {
        let (head, data) = (head(seq, len(seq)), payload(seq, len(seq)));
        end.out.want(true);
        end.sleep(|out, _| {
            let sent = match data.len() {
                0..=SHORT_MAX => out.push(&head, &data),
                _ => out.push_copy(&head, &data),
            };
            assert!(matches!(sent, Ok(()) | Err(PushError::Full | PushError::Arena(_))));
            sent.is_ok()
        });
        end.out.want(false);
        end.out.wake();
    }
}

/// Receives as long as it lives, and keeps some of it.
pub(crate) fn receiver() {
    let mut end = inherited();
    let mut kept = Vec::new();
    for seq in 0..MESSAGES {
        end.sleep(|_, inbound| inbound.ready());
        match end.inbound.peek().expect("intact").expect("ready").kind {
            Kind::Short => end.inbound.take_short(&mut vec![0; len(seq)]),
            Kind::Block => kept.push(end.inbound.take_block()),
        }
        if kept.len() > 20 {
            kept.clear();
        }
        end.inbound.ready();
    }
}
