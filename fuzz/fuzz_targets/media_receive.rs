//! Any datagrams: a receiver keeps to its ring, gives whole packets, and counts every datagram; a
//! playout of the same ends.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use towpath_media::receive::{Arrivals, Playout, PlayoutConfig, ReceiveConfig, Receiver};
use towpath_media::send::DATAGRAM;
use towpath_wire::Instant;

fuzz_target!(|bytes: &[u8]| {
    let receive = ReceiveConfig { capacity: 64 * 188, ..ReceiveConfig::default() };
    let mut receiver = Receiver::new(receive);
    let delay = Duration::from_millis(100);
    let mut playout = Playout::new(PlayoutConfig { receive, delay });
    let mut arrivals = Arrivals::default();
    let (mut now, mut rest, mut came) = (Instant::ZERO, bytes, 0);
    let (mut out, mut taken) = ([0; DATAGRAM], 0);
    while let [ms, len, more, tail @ ..] = rest {
        now += Duration::from_millis(u64::from(*ms));
        let len = (usize::from(*len) | usize::from(*more & 7) << 8).min(tail.len());
        let (datagram, tail) = tail.split_at(len);
        receiver.handle_timeout(now);
        receiver.handle_datagram(now, datagram);
        playout.handle_datagram(now, datagram);
        arrivals.take(now.as_nanos().cast_signed(), datagram);
        came += 1;
        assert!(receiver.level() <= 64 * 188 && receiver.level() % 188 == 0);
        if more & 0x80 != 0 {
            taken += receiver.take(now, &mut out);
        }
        while playout.poll_transmit(now, &mut out).is_some() {}
        rest = tail;
    }
    receiver.finish();
    loop {
        let n = receiver.take(now, &mut out);
        taken += n;
        if n == 0 {
            break;
        }
    }
    let counters = receiver.counters();
    assert_eq!(counters.datagrams + counters.garbage, came);
    assert_eq!(counters.bytes, taken as u64);
    let _ = arrivals.report();
});
