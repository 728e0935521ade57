//! Channels that are to be reserved: asked for first, named afterwards, released when they end.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::channel::{ChannelSpec, Reserve, Until};
use towpath_vm::talk::{Answer, Fault, Question, ToDaemon, ToTask};
use towpath_wire::{LinkId, Rate, TaskId};

use super::net::Net;
use crate::egress::{LinkEgress, NotReserved, Reservation};
use crate::event::NodeEvent;

fn spec(within_ms: u64) -> ChannelSpec {
    let every = Duration::from_millis(1);
    let within = Duration::from_millis(within_ms);
    let reserve = Some(Reserve { bytes: 1000, every, burst: 2, within, until: Until::Left });
    ChannelSpec { reserve, ..ChannelSpec::default() }
}

fn open(net: &mut Net, task: TaskId, number: u32, to: TaskId) {
    net.says(0, task, ToDaemon::OpenChannel { number, to, spec: spec(5) });
    net.run(100);
}

/// What the first host asks of its link, and what it gives back, since the last look.
fn asked(net: &mut Net) -> (Vec<Reservation>, Vec<LinkId>) {
    let (mut asked, mut released) = (Vec::new(), Vec::new());
    for event in core::mem::take(&mut net.seats[0].events) {
        match event {
            NodeEvent::Reserve(wish) => asked.push(wish),
            NodeEvent::Release { link, .. } => released.push(link),
            other => net.seats[0].events.push(other),
        }
    }
    (asked, released)
}

fn answer(net: &mut Net, wish: &Reservation, outcome: Result<(), NotReserved>) {
    let of = wish.of;
    net.call(0, |node, now, memory| node.reserved(now, of, outcome, memory));
    net.run(100);
}

fn is_reserved(net: &mut Net, host: usize, task: TaskId, number: u32) -> bool {
    match net.ask(host, task, Question::Channel(number)) {
        Ok(Answer::Channel(status)) => status.reserved,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_hears_of_a_channel_before_it_is_reserved_and_its_end_releases_it() {
    let mut net = Net::new(2);
    let (one, two) = (net.enrol(0), net.enrol(1));
    open(&mut net, one, 0, two);
    let (wishes, released) = asked(&mut net);
    let [wish] = &wishes[..] else { panic!("{wishes:?}") };
    assert_eq!((net.told(0, one), net.told(1, two), released), (vec![], vec![], vec![]));
    // 1000 bytes, their headers and the frame: within one datagram of the path, or in two.
    let wire = wish.rate.as_bps() / 8000;
    assert!((1146..=1300).contains(&wire), "{wire} bytes a millisecond");
    // The first one carries the OPEN, too.
    let burst = 2 * wire + towpath_wire::frame::OPEN_LEN_MAX as u64;
    assert_eq!((wish.burst.as_bytes(), wish.within), (burst, Duration::from_millis(5)));
    answer(&mut net, wish, Ok(()));
    assert_eq!(net.told(0, one), [ToTask::ChannelOpen { number: 0, outcome: Ok(()) }]);
    let told = net.told(1, two);
    let [ToTask::ChannelOffered { number, spec: said, .. }] = told[..] else { panic!("{told:?}") };
    assert_eq!(said, spec(5));
    assert!(is_reserved(&mut net, 0, one, 0));
    assert!(!is_reserved(&mut net, 1, two, number), "what its opener sends is");
    let shown = [(0, one), (1, two)].map(|(host, task)| {
        let now = net.now;
        let info = net.node(host).info(now, task).expect("it is there");
        (info.channels, info.reserved_bps)
    });
    assert_eq!(shown, [(1, 8_000_000), (1, 0)], "1000 bytes a millisecond");
    net.says(0, one, ToDaemon::CloseChannel { number: 0 });
    net.run(100);
    assert_eq!(asked(&mut net).1, [wish.link]);
}

#[test]
fn who_is_refused_hears_why_and_keeps_nothing() {
    let mut net = Net::new(2);
    let (one, two) = (net.enrol(0), net.enrol(1));
    let mut link = LinkEgress::new(LinkId(0), Some(Rate::from_mbps(13))).unwrap();
    for (number, fits) in [(0, true), (2, false)] {
        open(&mut net, one, number, two);
        let (wishes, _) = asked(&mut net);
        let outcome = link.admit(towpath_wire::Instant::ZERO, &wishes[0]);
        assert_eq!(outcome.is_ok(), fits, "twice 9.2 Mbit/s or more on 13: {outcome:?}");
        answer(&mut net, &wishes[0], outcome);
        let told = net.told(0, one);
        let [ToTask::ChannelOpen { outcome, .. }] = &told[..] else { panic!("{told:?}") };
        match outcome {
            Ok(()) => assert!(fits),
            Err(Fault::NotReserved(why)) => {
                assert!(why.contains("on a link of 13.0 Mbit/s, of which"), "{why}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(asked(&mut net).1, [], "nothing was given");
    assert_eq!(net.told(1, two).len(), 1, "one offer");
    net.left(0, one);
    net.run(1000);
    assert_eq!(asked(&mut net).1.len(), 1);
    for host in 0..2 {
        let remains = net.node(host).remains();
        assert!(remains.iter().all(|what| !what.contains("channels")), "{host}: {remains:?}");
    }
}

/// Closed, or its task gone, or the connection over, before the link has answered.
#[test]
fn what_is_over_before_its_answer_is_released_and_its_answer_changes_nothing() {
    for how in 0..3 {
        let mut net = Net::new(3);
        let (one, two) = (net.enrol(0), net.enrol(1));
        open(&mut net, one, 0, two);
        let (wishes, _) = asked(&mut net);
        match how {
            0 => {
                net.says(0, one, ToDaemon::CloseChannel { number: 0 });
            }
            1 => net.left(0, one),
            _ => {
                net.cut(0, 1);
                net.run(20_000);
            }
        }
        assert_eq!(asked(&mut net).1, [wishes[0].link], "{how}");
        answer(&mut net, &wishes[0], Ok(()));
        let (again, released) = asked(&mut net);
        assert_eq!((again.len(), released.len()), (0, 0), "{how}");
        assert_eq!(net.told(1, two), [], "{how}");
    }
}

#[test]
fn on_one_host_there_is_nothing_to_reserve() {
    let mut net = Net::new(1);
    let (one, two) = (net.enrol(0), net.enrol(0));
    open(&mut net, one, 0, two);
    assert_eq!(asked(&mut net).0, []);
    assert_eq!(net.told(0, one), [ToTask::ChannelOpen { number: 0, outcome: Ok(()) }]);
    assert!(!is_reserved(&mut net, 0, one, 0));
}
