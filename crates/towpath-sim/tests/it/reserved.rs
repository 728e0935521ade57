//! A channel with a reservation on a paced link, beside all that others send: what it keeps, and
//! what it cannot take.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::network::{BOTH, CLEAN, LINK, Network, ms};
use towpath_node::egress::{LinkEgress, Reservation, TRAIN_TIME};
use towpath_proto::Config;
use towpath_proto::association::Opening;
use towpath_qos::spec::wire::Ip;
use towpath_sim::link::LinkSpec;
use towpath_wire::{ByteSize, ChannelId, Instant, Rate, TaskId};

const RATE: Rate = Rate::from_mbps(50);
/// Of the reserved channel, in wire bytes: 2000 messages of 500 bytes a second need 9.7 Mbit/s.
const RESERVED: Rate = Rate::from_mbps(10);
const DELAY: Duration = Duration::from_millis(2);
const LEN: u32 = 500;

fn reserve(net: &mut Network, channel: ChannelId) {
    let id = net.hosts[0].id();
    let wish = Reservation {
        link: LINK,
        of: (id, channel),
        task: TaskId::MIN,
        ip: Ip::V4,
        rate: RESERVED,
        burst: ByteSize::from_bytes(3000),
        packet: ByteSize::from_bytes(1538),
        within: DELAY,
        port: None,
    };
    net.hosts[0].egress.admit(net.now, &wish).expect("room");
    assert!(net.hosts[0].endpoint.reserve_channel(id, channel, Some(LINK)));
}

/// Longest time of a message on the reserved channel, and bytes of both that arrived, over two
/// seconds in which `count` messages are sent on it every millisecond.
fn beside_bulk(loss_ppm: u32, count: u64) -> (Duration, [u64; 2]) {
    // As fast as the pace, and a queue for what two trains need.
    let spec = LinkSpec { rate_bps: 50_000_000, queue_bytes: 20_000, loss_ppm, ..CLEAN };
    let mut net = Network::connected(&Config::default(), spec);
    net.hosts[0].egress = LinkEgress::new(LINK, Some(RATE)).expect("a rate");
    let bulk = net.hosts[0].open(BOTH).expect("room");
    let reserved = net.hosts[0].open(Opening { label: 9, ..BOTH }).expect("room");
    reserve(&mut net, reserved);
    let id = net.hosts[0].id();
    let (mut sent, mut seen, mut longest) = (BTreeMap::<u64, Instant>::new(), 0, Duration::ZERO);
    let (mut next, mut bulk_next, mut bytes) = (0, 0, [0; 2]);
    for _ in 0..2000 {
        while net.hosts[0].endpoint.waiting(id, bulk) < 8 {
            net.hosts[0].send(bulk, bulk_next, 64 << 10).expect("room");
            bulk_next += 1;
        }
        for _ in 0..count {
            if net.hosts[0].send(reserved, next, LEN).is_ok() {
                sent.insert(next, net.now);
                next += 1;
            }
        }
        net.drain(0);
        for _ in 0..10 {
            net.run_for(Duration::from_micros(100));
            for arrived in &net.hosts[1].arrived[seen..] {
                bytes[usize::from(arrived.channel == reserved)] += u64::from(arrived.len);
                if arrived.channel == reserved {
                    longest = longest.max(net.now.since(sent[&arrived.number]));
                }
            }
            seen = net.hosts[1].arrived.len();
        }
    }
    (longest, bytes)
}

#[test]
fn what_is_reserved_is_in_time_beside_all_that_others_send() {
    let (longest, [bulk, reserved]) = beside_bulk(0, 2);
    // Its delay, half a millisecond on the way, a train that had begun, and the step of the test.
    let bound = DELAY + Duration::from_micros(500) + TRAIN_TIME + Duration::from_micros(340);
    println!("{longest:?} of {bound:?}; {reserved} bytes reserved, {bulk} of the others");
    assert!(longest <= bound, "{longest:?}, promised {bound:?}");
    assert!(reserved >= 1990 * 2 * 500, "{reserved} bytes of 2 000 000");
    // 40 Mbit/s are left: 10 MB in two seconds, less headers and acknowledgements of its own.
    assert!(bulk >= 8_500_000, "{bulk} bytes of the others");
}

#[test]
fn who_sends_more_than_it_reserved_takes_nothing_from_the_others() {
    let (_, [bulk, reserved]) = beside_bulk(0, 10);
    println!("{reserved} bytes reserved, {bulk} of the others");
    // 10 Mbit/s of wire bytes are 2.5 MB in two seconds; messages have at most 1400 of 1538.
    assert!((2_000_000..=2_400_000).contains(&reserved), "{reserved} bytes of 10 Mbit/s");
    assert!(bulk >= 8_500_000, "{bulk} bytes of the others");
}

#[test]
fn losses_are_repaired_within_the_reservation_and_it_goes_on_after_a_cut() {
    let (_, [_, reserved]) = beside_bulk(10_000, 2);
    assert!(reserved >= 1900 * 2 * 500, "{reserved} bytes of 2 000 000 with a hundredth lost");
    let mut net = Network::connected(&Config::default(), CLEAN);
    net.hosts[0].egress = LinkEgress::new(LINK, Some(RATE)).expect("a rate");
    let channel = net.hosts[0].open(BOTH).expect("room");
    reserve(&mut net, channel);
    net.links[0].set_spec(LinkSpec { loss_ppm: 1_000_000, ..CLEAN });
    (0..20).for_each(|n| _ = net.hosts[0].send(channel, n, LEN));
    net.drain(0);
    net.run_for(ms(700));
    net.links[0].set_spec(CLEAN);
    net.run_for(ms(3000));
    assert!(net.hosts[1].has_all(channel, 20, LEN), "{} arrived", net.hosts[1].arrived.len());
}
