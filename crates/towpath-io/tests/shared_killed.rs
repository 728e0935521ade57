//! A process that is killed at any moment: what it had sent comes whole and in order, and nothing
//! it held is lost to the others.

#[path = "../../towpath-cli/tests/it/support/built.rs"]
mod built;
#[path = "../src/tests/neighbours.rs"]
mod neighbours;
#[path = "../roles/shared.rs"]
#[allow(dead_code, reason = "the processes' own part")]
mod role;

use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};

use neighbours::{End, Place, head, pair_fds, payload};
use role::{MESSAGES, VARIABLE, len};
use rustix::io::{FdFlags, fcntl_setfd};
use towpath_io::shared::{Inbound, Kind, PairFds, SHORT_MAX};

const ARENA: usize = 4 << 20;

/// Starts a role as a process of its own.
fn start(what: &str, place: &Place, fds: &PairFds) -> Child {
    let PairFds { own_half, peer_half, peer_segment, peer_bell } = fds;
    let (home, bell) = (place.segment.owner.as_fd(), place.bell.as_fd());
    let pair = [own_half, peer_half, peer_segment, peer_bell].map(AsFd::as_fd);
    let numbers = [home, bell].into_iter().chain(pair).map(|fd| {
        fcntl_setfd(fd, FdFlags::empty()).expect("a descriptor");
        fd.as_raw_fd().to_string()
    });
    let numbers = numbers.collect::<Vec<_>>().join(",");
    let examples = ["-p", "towpath-io", "--example", "shared-roles"];
    let mut command = Command::new(built::built(&["examples/shared-roles"], &examples));
    command.arg(what).env(VARIABLE, numbers);
    command.stdout(Stdio::null()).spawn().expect("starts")
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
