//! A process that is killed at any moment: what it had sent comes whole and in order, and nothing
//! it held is lost to the others.

#[path = "it/neighbours/mod.rs"]
mod neighbours;

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};

use neighbours::{End, Place, head, pair_fds, payload};
use rustix::io::{FdFlags, fcntl_setfd};
use towpath_io::shared::{Home, Inbound, Kind, PairFds, PushError, SHORT_MAX, Waiter};

/// Messages that a sender sends unless it is killed.
const MESSAGES: u32 = 10_000;
/// Names the descriptors that a child inherits.
const VARIABLE: &str = "TOWPATH_TEST_SHARED";
const ARENA: usize = 4 << 20;

/// Lengths of all kinds of messages, long ones rarely.
fn len(seq: u32) -> usize {
    match seq % 16 {
        15 => 40_000 + seq as usize,
        14 => SHORT_MAX + 1,
        13 => SHORT_MAX,
        small => small as usize * 12,
    }
}

/// Starts one of the ignored tests below as a process of its own.
fn start(what: &str, place: &Place, fds: &PairFds) -> Child {
    let PairFds { own_half, peer_half, peer_segment, peer_bell } = fds;
    let (home, bell) = (place.segment.owner.as_fd(), place.bell.as_fd());
    let pair = [own_half, peer_half, peer_segment, peer_bell].map(AsFd::as_fd);
    let numbers = [home, bell].into_iter().chain(pair).map(|fd| {
        fcntl_setfd(fd, FdFlags::empty()).expect("a descriptor");
        fd.as_raw_fd().to_string()
    });
    let numbers = numbers.collect::<Vec<_>>().join(",");
    let program = std::env::current_exe().expect("own path");
    let mut command = Command::new(program);
    command.args(["--exact", what, "--ignored", "--nocapture"]).env(VARIABLE, numbers);
    command.stdout(Stdio::null()).spawn().expect("starts")
}

/// What a child inherits; `None` for whoever runs the ignored tests by hand.
fn inherited() -> Option<End> {
    let numbers = std::env::var(VARIABLE).ok()?;
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
    Some(End { home, waiter: Waiter::new(bell.into()).expect("waits"), out, inbound, card })
}

/// Sends as long as it lives.
#[test]
#[ignore = "a process that the tests below start"]
fn sender() {
    let Some(mut end) = inherited() else { return };
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
#[test]
#[ignore = "a process that the tests below start"]
fn receiver() {
    let Some(mut end) = inherited() else { return };
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

/// Takes the next message if it is there and whole, and looks whether it is the one that must
/// come.
fn take_whole(inbound: &mut Inbound, seq: u32) -> bool {
    let Some(arrival) = inbound.peek().expect("intact") else { return false };
    assert_eq!(arrival.head, head(seq, len(seq)), "the next message, and no part of one");
    if !inbound.next_is_whole() {
        return false;
    }
    let mut got = vec![0; arrival.len];
    if arrival.kind == Kind::Short {
        inbound.take_short(&mut got);
    } else {
        let view = inbound.take_block();
        got.copy_from_slice(view.bytes().expect("whole"));
    }
    assert!(got == payload(seq, len(seq)), "message {seq} is as it was sent");
    true
}

#[test]
fn a_killed_sender_has_sent_a_whole_prefix() {
    let mut cut = 0;
    for round in 0..40_u32 {
        // Spread over everything that a sender does, early and late.
        let last = round * round * 6 + round % 7;
        let (near, far) = (Place::new(ARENA), Place::new(ARENA));
        let ([own, other], _) = pair_fds(&near, &far);
        let mut end = End::new(&near, own);
        let mut child = start("sender", &far, &other);
        let mut seq = 0;
        while seq < last {
            end.sleep(|_, inbound| inbound.ready() && inbound.peek().is_ok());
            while seq < last && take_whole(&mut end.inbound, seq) {
                seq += 1;
            }
            end.inbound.ready();
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        while take_whole(&mut end.inbound, seq) {
            seq += 1;
        }
        assert!((last..=MESSAGES).contains(&seq));
        cut += u32::from(seq < MESSAGES);
    }
    assert_eq!(cut, 40, "every sender was killed before its end");
}

#[test]
fn a_killed_receiver_keeps_no_block() {
    for round in 0..20_u32 {
        let last = round * round * 10 + 1;
        let (near, far) = (Place::new(ARENA), Place::new(ARENA));
        let ([own, other], _) = pair_fds(&near, &far);
        let mut end = End::new(&near, own);
        let mut child = start("receiver", &far, &other);
        for seq in 0..last {
            let (head, data) = (head(seq, len(seq)), payload(seq, len(seq)));
            end.out.want(true);
            end.sleep(|out, _| match data.len() {
                0..=SHORT_MAX => out.push(&head, &data).is_ok(),
                _ => out.push_copy(&head, &data).is_ok(),
            });
            end.out.want(false);
            end.out.wake();
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        let End { home, mut out, .. } = end;
        let untaken = out.untaken().expect("intact");
        drop(out);
        let first = last - untaken.len() as u32;
        for (seq, (head_of, data)) in (first..).zip(untaken) {
            assert_eq!(head_of, head(seq, len(seq)));
            assert!(data == payload(seq, len(seq)), "message {seq} can be sent another way");
        }
        assert_eq!(home.arena().used(), 0);
    }
}
