//! What a node measures, series by series.

use alloc::vec::Vec;

use towpath_vm::channel::{ChannelSpec, Class};
use towpath_vm::metrics::table::{CHANNEL_DELAY, HOST_CHANNEL_DELAY, TRIP, whole_of};
use towpath_vm::metrics::{PURPOSES, Row, Series, Store, Subscription};
use towpath_vm::talk::ToDaemon;
use towpath_wire::Instant;
use towpath_wire::histogram::Histogram;
use towpath_wire::talk::ChannelFront;

use super::net::Net;
use crate::Node;

fn all(node: &Node) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    while let Some(row) = node.metrics_after(rows.last().map(|row| row.series)) {
        rows.push(row);
    }
    rows
}

/// A distribution of a group: of what has this sub.
fn distribution(node: &Node, group: u8, sub: u32) -> Histogram {
    let rows = all(node);
    let is = |row: &&Row| (row.series.group, row.series.sub) == (group, sub);
    whole_of(rows.iter().filter(is))
}

fn value(rows: &[Row], group: u8, key: u64, name: &str) -> u64 {
    let row = rows.iter().find(|row| (row.series.group, row.series.key) == (group, key));
    let mut named = row.expect("there is such a series").named();
    named.find(|(metric, _)| metric.name == name).expect("a metric").1
}

#[test]
fn every_association_task_and_channel_has_its_series() {
    let mut net = Net::new(3);
    let (a, b, c) = (net.enrol(0), net.enrol(0), net.enrol(1));
    assert!(net.send(0, a, b, 0, 36) && net.send(0, a, c, 0, 136));
    let spec = ChannelSpec {
        class: Class::Ordered,
        priority: 4,
        deadline: None,
        window: 8192,
        reserve: None,
        code: None,
    };
    for (number, to) in [(0, b), (2, c)] {
        net.says(0, a, ToDaemon::OpenChannel { number, to, spec });
    }
    net.run(100);
    let rows = all(net.node(0));
    let series: Vec<_> = rows.iter().map(|row| row.series).collect();
    assert!(series.is_sorted(), "{series:?}");
    let groups: Vec<u8> = series.iter().map(|s| s.group).collect();
    // Its endpoint, itself, two other hosts, two tasks, two ends of one channel and one of another.
    assert_eq!(groups[..9], [1, 2, 5, 5, 6, 6, 7, 7, 7]);
    // Then distributions, and of each other host its five channels.
    let of = |group: u8| series.iter().filter(|s| s.group == group).count();
    assert_eq!((of(8), of(9), of(11)), (0, 0, 10), "turns are the daemon's");
    assert!(of(10) >= 2 && of(12) >= 2, "{groups:?}");
    // Last a path to either host.
    assert_eq!(of(14), 2, "{groups:?}");
    let path = series.iter().find(|s| s.group == 14 && s.key == net.id(2).to_raw() && s.sub == 0);
    assert!(path.is_some() && value(&rows, 14, net.id(1).to_raw(), "carries") == 1, "{series:?}");
    let peer = net.id(1).to_raw();
    assert!(value(&rows, 5, peer, "packets_sent") > 0 && value(&rows, 5, peer, "rtt_us") > 0);
    assert_eq!(value(&rows, 2, 0, "tasks_enrolled"), 2);
    assert_eq!(value(&rows, 2, 0, "pieces_taken"), 2);
    assert_eq!(value(&rows, 6, a.to_raw(), "peers"), 2);
    assert_eq!(value(&rows, 6, a.to_raw(), "channels"), 2);
    assert_eq!(value(&rows, 6, b.to_raw(), "channels"), 1);
    let channel = series.iter().find(|s| s.group == 7 && s.key == a.to_raw() && s.sub == 2);
    assert!(channel.is_some(), "{series:?}");
    // The sums are over all that there were.
    let sent = [1, 2].map(|host| value(&rows, 5, net.id(host).to_raw(), "packets_sent"));
    assert_eq!(value(&rows, 1, 0, "packets_sent"), sent.iter().sum());
    assert!(net.node(0).counters().contains(&("pieces_taken", 2)));
}

#[test]
fn delays_are_counted_for_each_channel_where_messages_went() {
    let mut net = Net::new(2);
    let (a, c) = (net.enrol(0), net.enrol(1));
    let spec = ChannelSpec { window: 8192, ..ChannelSpec::default() };
    net.says(0, a, ToDaemon::OpenChannel { number: 0, to: c, spec });
    net.run(100);
    let lane = |net: &mut Net, name: &str| {
        let sub = PURPOSES.iter().position(|p| *p == name).expect("there is one") as u32;
        distribution(net.node(0), HOST_CHANNEL_DELAY.number, sub)
    };
    assert_eq!(lane(&mut net, "small").count(), 0);
    for seq in 0..10 {
        assert!(net.send(0, a, c, seq, 100));
        let front = ChannelFront { number: 0, left: None };
        net.call(0, |node, now, memory| node.task_channel(now, a, front, b"hello", memory));
        net.run(50);
    }
    // A datagram takes a millisecond; acknowledgements of the last may wait for their timer.
    let takes = |seen: &Histogram| (seen.count(), seen.quantile(500));
    let (count, median) = takes(&lane(&mut net, "small"));
    assert!(count == 10 && (900..=3000).contains(&median), "{count}, median {median} us");
    let (count, median) = takes(&distribution(net.node(0), CHANNEL_DELAY.number, 0));
    assert!(count == 10 && (900..=3000).contains(&median), "{count}, median {median} us");
    let trips = distribution(net.node(0), TRIP.number, 0);
    assert!((1900..=2600).contains(&trips.quantile(100)), "{} us", trips.quantile(100));
    assert_eq!(lane(&mut net, "bulk").count(), 0, "nothing went there");
}

#[test]
fn a_subscriber_hears_of_tasks_that_come_and_go() {
    struct Of<'a>(&'a Node);
    impl towpath_vm::metrics::Source for Of<'_> {
        fn after(&mut self, last: Option<Series>) -> Option<Row> {
            self.0.metrics_after(last)
        }
    }
    let mut net = Net::new(2);
    let a = net.enrol(0);
    let mut subscription = Subscription::new(Instant::ZERO, core::time::Duration::ZERO);
    let mut store = Store::default();
    for there in [true, false] {
        let now = net.now;
        let delta = subscription.turn(now, 0, &mut Of(net.node(0))).expect("it is time");
        assert!(store.apply(&delta).expect("it can be read").ends);
        assert_eq!(store.rows().collect::<Vec<_>>(), all(net.node(0)));
        assert_eq!(store.rows().any(|row| row.series.key == a.to_raw()), there);
        net.call(0, |node, now, memory| node.task_left(now, a, memory));
        net.run(20_000);
    }
}
