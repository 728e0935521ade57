//! Paced hosts and reserved channels, through real daemons.
#![allow(clippy::format_push_string, reason = "a test's topology, written once")]

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

/// Three hosts around a switch, and what becomes of promises of the whole way.
#[test]
fn what_every_port_on_the_way_has_is_promised_and_what_one_has_not_is_refused_by_its_name() {
    let vm = Vm::paced(3, Rate::from_mbps(100));
    let mut topology = String::from(
        "[[switch]]\nname = \"s\"\nscheduler = \"priority\"\nbudgets_ns = [3_000_000]\n",
    );
    for host in ["h1", "h2", "h3"] {
        topology += &format!("[[host]]\nname = \"{host}\"\n");
        topology += &format!("[[link]]\nends = [\"{host}\", \"s\"]\nrate_bps = 100_000_000\n");
    }
    let (mut a, mut b, mut c) = (vm.task(1), vm.task(2), vm.task(3));
    // 1000 bytes each 230 us: 39.9 Mbit/s with all headers.
    let every = Duration::from_micros(230);
    let reserve = Reserve { every, burst: 2, until: Until::Arrived, ..RESERVE };
    let refused = a.open_channel(c.id(), &spec(reserve)).unwrap_err().to_string();
    assert!(refused.contains("knows no topology"), "{refused}");
    let mut leader = vm.client(1);
    let set = |topology| Request::SetNetwork { topology };
    assert_eq!(leader.ask(&set(topology.clone()), LONG).unwrap(), Reply::Done);
    let other = vm.client(2).ask(&set(topology), LONG).unwrap_err().to_string();
    assert!(other.contains("only the daemon that leads"), "{other}");
    // Until every host has said that it has nothing.
    let begun = Instant::now();
    let first = loop {
        match a.open_channel(c.id(), &spec(reserve)) {
            Ok(channel) => break channel,
            Err(e) => assert!(begun.elapsed() < LONG && e.to_string().contains("not known"), "{e}"),
        }
    };
    let (theirs, _) = c.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    let second = b.open_channel(c.id(), &spec(reserve)).unwrap();
    c.accept_channel(Some(LONG)).unwrap().expect("it was offered");
    let refused = a.open_channel(c.id(), &spec(reserve)).unwrap_err().to_string();
    assert!(refused.contains("port s:2: 39.9 Mbit/s asked with all headers"), "{refused}");
    let bound = a.channel_status(first).unwrap().promised.expect("it is promised");
    assert!(bound <= reserve.within, "{bound:?}");
    for n in 0..50 {
        a.send_on(first, &pattern(n, 1000)).unwrap();
        assert_eq!(c.recv_on(theirs, Some(LONG)).unwrap().unwrap(), pattern(n, 1000));
    }
    let ask = Request::Promises { after: None };
    let told = leader.ask(&ask, LONG).unwrap();
    let Reply::Promises { topology: Some(_), promises, more: false } = told else {
        panic!("{told:?}")
    };
    let of: Vec<_> = promises.iter().map(|p| (p.promise.task, p.hops.len(), p.delay)).collect();
    assert_eq!(of, [(a.id(), 2, bound), (b.id(), 2, bound)]);
    b.close_channel(second).unwrap();
    let begun = Instant::now();
    while a.open_channel(c.id(), &spec(reserve)).is_err() {
        assert!(begun.elapsed() < LONG, "there is room once that is over");
    }
    drop(b);
    drop(a);
    let begun = Instant::now();
    loop {
        let told = leader.ask(&ask, LONG).unwrap();
        if matches!(told, Reply::Promises { ref promises, .. } if promises.is_empty()) {
            break;
        }
        assert!(begun.elapsed() < LONG, "{told:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_link_that_sends_faster_than_the_topology_has_it_promises_nothing_behind_it() {
    let vm = Vm::paced(2, Rate::from_mbps(100));
    let topology = "[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n\
                    [[link]]\nends = [\"h1\", \"h2\"]\nrate_bps = 50_000_000\n";
    let mut leader = vm.client(1);
    let set = Request::SetNetwork { topology: topology.into() };
    assert_eq!(leader.ask(&set, LONG).unwrap(), Reply::Done);
    let (mut a, b) = (vm.task(1), vm.task(2));
    let reserve = Reserve { until: Until::Arrived, ..RESERVE };
    let begun = Instant::now();
    let refused = loop {
        let refused = a.open_channel(b.id(), &spec(reserve)).unwrap_err().to_string();
        if !refused.contains("not known") {
            break refused;
        }
        assert!(begun.elapsed() < LONG, "{refused}");
    };
    assert!(refused.contains("is paced at 100.0 Mbit/s"), "{refused}");
    assert!(refused.contains("--link-rate of 50.0 Mbit/s or less"), "{refused}");
}
