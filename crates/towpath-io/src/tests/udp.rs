//! The UDP link over loopback, both families: trains arrive as they were cut, in order, with
//! their ECN bits, with the kernel's help and without.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::udp::{Notice, SendBatch, TooLong};
use towpath_io::{Clock, LinkDriver, RealCrypto, UdpLink};
use towpath_proto::crypto::HeaderKey;
use towpath_proto::{Config, Endpoint, HeapMemory, Rng, Transmit};
use towpath_skip::skip;
use towpath_wire::packet::{DATA_HEADER, Data, TAG};
use towpath_wire::{ByteSize, Instant, LinkId, PathId};

const LINK: LinkId = LinkId(3);

fn bind(ip: impl Into<IpAddr>) -> UdpLink {
    UdpLink::bind(LINK, SocketAddr::new(ip.into(), 0)).expect("a socket on loopback")
}

/// A train of `len` bytes cut every `segment`, told apart by `seed`.
fn train(batch: &mut SendBatch, remote: SocketAddr, segment: usize, len: usize, seed: u8) {
    let buffer = batch.buffer().expect("room for a train");
    for (i, byte) in buffer[..len].iter_mut().enumerate() {
        *byte = (i / segment) as u8 ^ seed;
    }
    batch.push(Transmit {
        link: LINK,
        remote,
        segment,
        len,
        tos: seed & 3,
        not_before: Instant::ZERO,
    });
}

/// Waits for a datagram.
fn readable(link: &UdpLink) -> bool {
    let fd = link.as_fd();
    let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).expect("polls") > 0
}

/// Receives `count` datagrams: length, first byte, ECN bits.
fn arrivals(link: &mut UdpLink, from: SocketAddr, count: usize) -> Vec<(usize, u8, u8)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        assert!(readable(link), "{} of {count} datagrams came", seen.len());
        let each = |rx: towpath_proto::RxMeta, data: &mut [u8]| {
            assert_eq!((rx.link, rx.remote), (LINK, from));
            assert!(data.iter().all(|b| *b == data[0]), "a datagram is of one piece");
            seen.push((data.len(), data[0], rx.ecn));
        };
        link.receive(each).expect("receives");
    }
    seen
}

fn expected(segment: usize, len: usize, seed: u8) -> Vec<(usize, u8, u8)> {
    let count = len.div_ceil(segment);
    let length = |i| if i + 1 < count { segment } else { len - i * segment };
    (0..count).map(|i| (length(i), i as u8 ^ seed, seed & 3)).collect()
}

fn a_batch_arrives(ip: impl Into<IpAddr>, segmentation: bool) {
    let (mut near, mut far) = (bind(ip), bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
    if !segmentation {
        near.disable_segmentation();
    }
    let from = near.local_addr().unwrap();
    let remote = SocketAddr::new(from.ip(), far.local_addr().unwrap().port());
    let mut batch = SendBatch::new();
    let trains = [
        (1232, 40 * 1232, 0),
        (1400, 1400, 1),
        (100, 6350, 2),
        (1232, 3000, 3),
        (9000, 9000, 4),
        (1000, 1, 5),
        (50_000, 50_000, 6),
        (600, 1201, 7),
    ];
    for (segment, len, seed) in trains {
        train(&mut batch, remote, segment, len, seed);
    }
    assert!(batch.buffer().is_none(), "as many trains are a batch");
    assert!(near.flush(&mut batch), "the socket takes a batch");
    let wanted: Vec<_> = trains.iter().flat_map(|&(s, l, seed)| expected(s, l, seed)).collect();
    assert_eq!(arrivals(&mut far, from, wanted.len()), wanted);
    let (sent, came) = (*near.counters(), *far.counters());
    assert_eq!(sent.datagrams_sent, wanted.len() as u64);
    assert_eq!(sent.bytes_sent, came.bytes_received);
    assert_eq!(came.datagrams_received, wanted.len() as u64);
    if segmentation {
        assert_eq!(sent.send_calls, 1, "one call for all trains");
        assert!(came.receive_calls <= 4, "{} receive calls", came.receive_calls);
    }
}

#[test]
fn a_batch_of_trains_goes_out_in_one_call_over_ipv4() {
    a_batch_arrives(Ipv4Addr::LOCALHOST, true);
}

#[test]
fn a_batch_of_trains_goes_out_in_one_call_over_ipv6() {
    if UdpLink::bind(LINK, (Ipv6Addr::LOCALHOST, 0).into()).is_err() {
        return skip("this machine has no ::1");
    }
    a_batch_arrives(Ipv6Addr::LOCALHOST, true);
}

#[test]
fn trains_go_out_singly_where_the_kernel_does_not_cut_them() {
    a_batch_arrives(Ipv4Addr::LOCALHOST, false);
}

#[test]
fn what_the_kernel_refuses_is_dropped_counted_and_told_once() {
    let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let (from, remote) = (near.local_addr().unwrap(), far.local_addr().unwrap());
    // Nobody can be reached at port 0.
    let nowhere = SocketAddr::new(remote.ip(), 0);
    let mut batch = SendBatch::new();
    for round in 0..2 {
        train(&mut batch, nowhere, 10, 10, 1);
        train(&mut batch, remote, 10, 10, 2);
        assert!(near.flush(&mut batch), "the rest goes out");
        assert_eq!(arrivals(&mut far, from, 1), [(10, 2, 2)]);
        assert_eq!(near.counters().send_errors, round + 1);
        let told = near.notice();
        assert_eq!(told.is_some(), round == 0, "{told:?}");
        assert!(told.is_none_or(|n| matches!(n, Notice::Refused { .. })));
    }
}

/// What a train leaves in message memory arrives with it, whether the kernel cuts it or not.
#[test]
fn pieces_in_message_memory_are_gathered_in_their_places() {
    for segmentation in [true, false] {
        let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
        if !segmentation {
            near.disable_segmentation();
        }
        let (from, remote) = (near.local_addr().unwrap(), far.local_addr().unwrap());
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        let message: Vec<u8> = (0..10_000u32).map(|i| (i / 7) as u8).collect();
        let block = memory.store(message.clone()).expect("room");
        let key = HeaderKey::new(&[1; 32]);
        let mut batch = SendBatch::new();
        let (mut train, mut offset) = (batch.train(&memory, 8).expect("room"), 0);
        for (number, len) in [(0, 1000), (1, 1000), (2, 400), (3, 700)] {
            let mut packet = train.packet(1200, false);
            packet.body(block, offset, len);
            offset += len as u32;
            packet.pad();
            packet.seal(&key, Data { epoch: 0, path: PathId(0), receiver: 9, number });
        }
        let (segment, len) = (train.segment(), train.used());
        assert_eq!((segment, len), (1200, 4800));
        batch.push(Transmit {
            link: LINK,
            remote,
            segment,
            len,
            tos: 0,
            not_before: Instant::ZERO,
        });
        assert!(near.flush_from(&mut batch, Some(&memory)));
        let mut got = Vec::new();
        while got.len() < 4 {
            assert!(readable(&far), "{} of 4 datagrams came", got.len());
            far.receive(|rx, data| {
                assert_eq!(rx.remote, from);
                got.push(data.to_vec());
            })
            .expect("receives");
        }
        let mut offset = 0;
        for (datagram, len) in got.iter().zip([1000, 1000, 400, 700]) {
            let body = &datagram[DATA_HEADER..DATA_HEADER + len];
            assert!(body == &message[offset..offset + len], "bytes from {offset} on");
            assert!(datagram[DATA_HEADER + len..1200 - TAG].iter().all(|b| *b == 0));
            offset += len;
        }
    }
}

/// Set in the process that runs inside a network namespace of its own.
const INSIDE: &str = "TOWPATH_TEST_NARROW_LOOPBACK";

/// Loopback usually takes datagrams of any length, so this test runs itself again in a network
/// namespace whose loopback takes 1400 bytes.
#[test]
fn a_datagram_beyond_the_way_s_limit_is_refused_not_cut_into_fragments() {
    if std::env::var_os(INSIDE).is_none() {
        let this = std::env::current_exe().expect("the test's own path");
        let name =
            "tests::udp::a_datagram_beyond_the_way_s_limit_is_refused_not_cut_into_fragments";
        let script = "ip link set lo up mtu 1400 || exit 77; exec \"$0\" --exact \"$1\"";
        let ran = std::process::Command::new("unshare")
            .args(["-r", "-n", "sh", "-c", script])
            .arg(this)
            .arg(name)
            .env(INSIDE, "1")
            .output();
        match ran {
            Ok(out)
                if String::from_utf8_lossy(&out.stdout).contains("test result: ok. 1 passed") => {}
            Ok(out) if out.status.code() == Some(101) => {
                panic!("inside: {}", String::from_utf8_lossy(&out.stdout));
            }
            _ => skip("no network namespace can be made here"),
        }
        return;
    }
    let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let (from, remote) = (near.local_addr().unwrap(), far.local_addr().unwrap());
    let mut batch = SendBatch::new();
    train(&mut batch, remote, 1472, 1472, 0);
    train(&mut batch, remote, 1472, 10 * 1472, 0);
    train(&mut batch, remote, 1232, 4 * 1232, 1);
    assert!(near.flush(&mut batch));
    assert_eq!(near.counters().too_long, 2);
    assert_eq!(near.too_long(), Some(TooLong { remote, bytes: 1472 }));
    assert_eq!((near.too_long(), near.notice()), (None, None));
    assert!(near.segmentation(), "shorter trains are still cut by the kernel");
    assert_eq!(arrivals(&mut far, from, 4), expected(1232, 4 * 1232, 1));
}

#[test]
fn an_idle_link_is_never_looked_at_before_sleeping() {
    let mut driver = LinkDriver::new(bind(Ipv4Addr::LOCALHOST));
    let crypto = RealCrypto::new(RealCrypto::generate_secret());
    let mut machine = Endpoint::new(Config::default(), Box::new(crypto), Rng::new(1, 0));
    let mut memory = HeapMemory::new(ByteSize::from_kib(1));
    let clock = Clock::start();
    for _ in 0..100 {
        assert!(!driver.spin(&clock, &mut machine, &mut memory).expect("receives"));
        assert!(driver.gather(&clock).is_zero());
    }
    assert_eq!(driver.counters().receive_calls, 0);
}

#[test]
fn a_datagram_tells_how_long_it_waited() {
    let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let remote = far.local_addr().unwrap();
    let mut batch = SendBatch::new();
    train(&mut batch, remote, 100, 300, 0);
    let before = std::time::Instant::now();
    assert!(near.flush(&mut batch));
    let sent = std::time::Instant::now();
    // Time passes: others talk.
    let (mut one, mut other) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let (from, to) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    for _ in 0..200 {
        train(&mut batch, to, 100, 100, 0);
        assert!(one.flush(&mut batch));
        arrivals(&mut other, from, 1);
    }
    let passed = sent.elapsed();
    let mut late = Vec::new();
    far.receive(|rx, _| late.push(rx.late)).expect("receives");
    let most = before.elapsed();
    assert_eq!(late.len(), 3);
    for late in late {
        assert!(passed <= late && late <= most, "{passed:?} <= {late:?} <= {most:?}");
    }
}

#[test]
fn an_address_that_cannot_be_had_says_why() {
    let link = bind(Ipv4Addr::LOCALHOST);
    let taken = link.local_addr().unwrap();
    let said = UdpLink::bind(LINK, taken).err().expect("it is taken").to_string();
    assert!(said.starts_with(&format!("cannot receive at {taken}: ")), "{said}");
    assert!(said.contains("the port is in use"), "{said}");
    // Of documentation (RFC 5737): nobody has it.
    let other = UdpLink::bind(LINK, ([192, 0, 2, 1], 0).into()).err().expect("not ours");
    assert!(other.to_string().contains("this machine does not have that address"), "{other}");
}

#[test]
fn a_train_that_the_kernel_refuses_is_counted_told_once_and_dropped() {
    let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    assert!(near.segmentation() && near.receive_buffer().unwrap() > 100_000);
    assert_eq!((near.id(), near.train_max()), (LINK, 64));
    let (from, remote) = (near.local_addr().unwrap(), far.local_addr().unwrap());
    let nowhere = SocketAddr::new(remote.ip(), 0);
    let mut batch = SendBatch::new();
    for _ in 0..2 {
        train(&mut batch, nowhere, 100, 100, 1);
        train(&mut batch, remote, 200, 200, 2);
        assert!(near.flush(&mut batch) && batch.is_empty());
        assert_eq!(arrivals(&mut far, from, 1), expected(200, 200, 2));
    }
    let counters = *near.counters();
    assert_eq!((counters.send_errors, counters.too_long, counters.datagrams_sent), (2, 0, 2));
    let told = near.notice();
    assert!(matches!(told, Some(Notice::Refused { remote, .. }) if remote == nowhere), "{told:?}");
    assert_eq!((near.notice(), near.too_long()), (None, None));
    near.disable_segmentation();
    assert!(!near.segmentation());
}

#[test]
fn one_train_at_a_time_is_received_where_it_is_asked_for() {
    let (mut near, mut far) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let remote = far.local_addr().unwrap();
    assert!(!far.receive_one(|_, _| panic!("nothing came")).unwrap());
    let mut batch = SendBatch::new();
    for seed in [1, 2] {
        train(&mut batch, remote, 50, 120, seed);
    }
    assert!(near.flush(&mut batch));
    let mut seen = Vec::new();
    while seen.len() < 6 {
        assert!(readable(&far));
        far.receive_one(|rx, data| seen.push((data.len(), data[0], rx.ecn))).unwrap();
    }
    assert_eq!(seen, [expected(50, 120, 1), expected(50, 120, 2)].concat());
    assert!(towpath_io::udp::route_mtu(remote).unwrap() >= 65_535, "of the loopback device");
}
