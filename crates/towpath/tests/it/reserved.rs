//! Paced hosts and reserved channels, through real daemons.

use std::time::{Duration, Instant};

use towpath::protocol::{Reply, Request};
use towpath::task::{Channel, ChannelSpec, OpenError, Reserve, Task, Until};
use towpath_node::explain::DirectState;
use towpath_wire::Rate;

use crate::support::{ANY, LONG, Vm, pattern};

/// 2000 messages of 1000 bytes a second: 18.4 Mbit/s or more with all headers.
const RESERVE: Reserve = Reserve {
    bytes: 1000,
    every: Duration::from_micros(500),
    burst: 4,
    within: Duration::from_millis(20),
    until: Until::Left,
};

fn spec(reserve: Reserve) -> ChannelSpec {
    ChannelSpec { reserve: Some(reserve), ..ChannelSpec::default() }
}

fn open(a: &mut Task, b: &mut Task) -> Result<(Channel, Channel), OpenError> {
    let ours = a.open_channel(b.id(), &spec(RESERVE))?;
    let (theirs, said) = b.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    assert_eq!(said, spec(RESERVE));
    Ok((ours, theirs))
}

#[test]
fn what_a_link_has_left_is_reserved_and_what_it_has_not_is_refused() {
    let vm = Vm::paced(2, Rate::from_mbps(50));
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    let (first, theirs) = open(&mut a, &mut b).unwrap();
    assert!(a.channel_status(first).unwrap().reserved);
    assert!(!b.channel_status(theirs).unwrap().reserved, "what its opener sends is");
    let _second = open(&mut a, &mut b).unwrap();
    let refused = a.open_channel(b.id(), &spec(RESERVE)).unwrap_err().to_string();
    assert!(refused.contains("on a link of 50.0 Mbit/s, of which"), "{refused}");
    let soon = Reserve { within: Duration::from_micros(100), bytes: 10, ..RESERVE };
    let refused = a.open_channel(b.id(), &spec(soon)).unwrap_err().to_string();
    assert!(refused.contains("within 100µs on a link of 50.0 Mbit/s"), "{refused}");
    a.close_channel(first).unwrap();
    let again = a.open_channel(b.id(), &spec(RESERVE)).unwrap();
    for n in 0..100 {
        a.send_on(again, &pattern(n, 1000)).unwrap();
    }
    let (there, _) = b.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    for n in 0..100 {
        assert_eq!(b.recv_on(there, Some(LONG)).unwrap().unwrap(), pattern(n, 1000));
    }
    assert!(vm.counter(1, "paced_reserved_bytes") >= 100_000);
    assert_eq!(vm.counter(2, "paced_reserved_bytes"), 0);
}

#[test]
fn a_host_without_a_rate_promises_nothing_and_one_host_has_nothing_to_reserve() {
    let vm = Vm::up(2);
    let (mut a, mut b, mut c) = (vm.task(1), vm.task(2), vm.task(1));
    let refused = a.open_channel(b.id(), &spec(RESERVE)).unwrap_err().to_string();
    assert!(refused.contains("hint: start this host with --link-rate"), "{refused}");
    assert_eq!(b.accept_channel(Some(Duration::from_millis(50))).unwrap(), None);
    let (near, _) = open(&mut a, &mut c).unwrap();
    assert!(!a.channel_status(near).unwrap().reserved);
}

/// A channel whose reservation takes most of the link sends no faster than that, and what has no
/// reservation has the rest, no faster than the link.
#[test]
fn a_paced_host_sends_no_faster_than_it_was_told() {
    let vm = Vm::paced(2, Rate::from_mbps(40));
    let (mut a, mut b) = (vm.task(1), vm.task(2));
    // By the daemons: a direct stream is none of theirs.
    let long = pattern(1, 1 << 20);
    let channel = a.open_channel(b.id(), &ChannelSpec { window: 4 << 20, ..Default::default() });
    let channel = channel.unwrap();
    let (theirs, _) = b.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    let begun = Instant::now();
    for _ in 0..3 {
        a.send_on(channel, &long[..1_000_000]).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(b.recv_on(theirs, Some(LONG)).unwrap().unwrap().len(), 1_000_000);
    }
    let took = begun.elapsed().as_secs_f64();
    println!("{:.1} Mbit/s of messages", 24.0 / took);
    // 24 Mbit of messages; the last of them may be on its way when the first have come.
    assert!(24.0 / took <= 40.0, "{:.1} Mbit/s", 24.0 / took);
    assert!(vm.counter(1, "paced_other_bytes") >= 3_000_000);
    // No stream goes past the pace, however much two tasks send each other.
    for n in 0..30 {
        a.send(b.id(), 7, &long[..60_000]).unwrap();
        assert_eq!(b.recv(&ANY).unwrap().bytes().len(), 60_000, "{n}");
    }
    let explain = Request::Explain { from: a.id(), to: b.id() };
    let told = vm.client(1).ask(&explain, LONG).unwrap();
    let Reply::Explained { way, .. } = told else { panic!("{told:?}") };
    assert_eq!(way.direct, DirectState::Paced);
    assert!(vm.counter(1, "paced_other_bytes") >= 4_800_000);
}
