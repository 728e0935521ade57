//! What the reference promises, over an exchange in which a closure decides what is lost.

use std::time::Duration;

use proptest::prelude::*;
use towpath_proto::{HeapMemory, Memory, Rng};
use towpath_wire::{ByteSize, Instant};

use super::packet::{Data, MapPacket, parse_data, parse_map};
use super::*;

const CONFIG: SegmentConfig = SegmentConfig {
    packet_bytes: 100,
    retries: 5,
    map_timeout: Duration::from_millis(200),
    gap_timeout: Duration::from_millis(100),
};

/// A way of 1 ms in each direction.
struct Pair {
    now: Instant,
    sender: SegmentSender,
    receiver: SegmentReceiver,
    memory: HeapMemory,
    arrived: Vec<(u32, Vec<u8>)>,
    ended: Vec<SegmentEvent>,
    maps: Vec<MapPacket>,
}

fn content(n: u32, len: u32) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + n * 7) as u8).collect()
}

impl Pair {
    fn new(config: SegmentConfig) -> Self {
        Self {
            now: Instant::ZERO,
            sender: SegmentSender::new(config),
            receiver: SegmentReceiver::new(config, 0),
            memory: HeapMemory::new(ByteSize::from_mib(8)),
            arrived: Vec::new(),
            ended: Vec::new(),
            maps: Vec::new(),
        }
    }

    /// Sends a message to its end; `lose` is asked of each data packet and each map.
    fn send(
        &mut self,
        len: u32,
        lose_data: &mut dyn FnMut(&Data<'_>) -> bool,
        lose_map: &mut dyn FnMut(&MapPacket) -> bool,
    ) {
        let block = self.memory.put(&content(self.ended.len() as u32, len)).unwrap();
        self.sender.send(block, len).unwrap();
        let mut out = vec![0; DATA_HEADER + 100];
        for _ in 0..100_000 {
            let mut burst = Vec::new();
            while let Some(n) = self.sender.poll_transmit(self.now, &mut out, &self.memory) {
                let data = parse_data(&CONFIG, &out[..n]).unwrap();
                if !lose_data(&data) {
                    burst.push(out[..n].to_vec());
                }
            }
            self.now += Duration::from_millis(1);
            for datagram in &burst {
                self.receiver.handle_datagram(self.now, datagram, &mut self.memory);
            }
            self.receiver.handle_timeout(self.now);
            while let Some(n) = self.receiver.poll_transmit(&mut out) {
                let map = parse_map(&out[..n]).unwrap();
                self.maps.push(map);
                if !lose_map(&map) {
                    self.sender.handle_datagram(&out[..n]);
                }
            }
            while let Some(r) = self.receiver.poll_event() {
                self.arrived.push((r.message, self.memory.take(r.block)));
            }
            self.now += Duration::from_millis(1);
            self.sender.handle_timeout(self.now);
            if let Some(event) = self.sender.poll_event() {
                self.memory.release(event.block);
                self.ended.push(event);
                return;
            }
        }
        panic!("no end");
    }
}

#[test]
fn a_clean_way_takes_each_packet_once_and_a_map_per_segment() {
    let mut pair = Pair::new(CONFIG);
    // 64 packets, 64 packets, 2 packets.
    pair.send(12_950, &mut |_| false, &mut |_| false);
    assert_eq!(pair.arrived, [(0, content(0, 12_950))]);
    let stats = pair.sender.stats();
    assert_eq!((stats.packets, stats.repeated, stats.whole, stats.maps), (130, 0, 0, 3));
    assert_eq!(pair.maps.iter().map(|m| m.map).collect::<Vec<_>>(), [u64::MAX, u64::MAX, 0b11]);
}

#[test]
fn what_the_map_says_is_missing_goes_again_and_nothing_else() {
    let mut pair = Pair::new(CONFIG);
    let mut once = vec![3, 17];
    let mut lose = |d: &Data<'_>| {
        let at = once.iter().position(|p| *p == d.packet);
        at.map(|i| once.remove(i)).is_some()
    };
    pair.send(3000, &mut lose, &mut |_| false);
    let stats = pair.sender.stats();
    assert_eq!((stats.packets, stats.repeated, stats.whole), (32, 2, 0));
    assert_eq!(pair.maps[0].map, (1 << 30) - 1 - (1 << 3) - (1 << 17));
    assert_eq!(pair.arrived, [(0, content(0, 3000))]);
}

#[test]
fn when_no_map_comes_the_whole_segment_goes_again() {
    let mut pair = Pair::new(CONFIG);
    let mut first = true;
    pair.send(3000, &mut |_| false, &mut |_| core::mem::take(&mut first));
    let stats = pair.sender.stats();
    assert_eq!((stats.packets, stats.repeated, stats.whole), (60, 30, 1));
    assert_eq!(pair.receiver.duplicates(), 30);
    assert_eq!(pair.arrived.len(), 1, "exactly once");
    assert!(pair.now >= Instant::ZERO + CONFIG.map_timeout);
}

#[test]
fn the_receiver_sends_its_map_unasked_when_the_last_packet_was_lost() {
    let mut pair = Pair::new(CONFIG);
    let mut first = true;
    let mut lose = |d: &Data<'_>| d.asks && core::mem::take(&mut first);
    pair.send(3000, &mut lose, &mut |_| false);
    let stats = pair.sender.stats();
    assert_eq!((stats.packets, stats.repeated, stats.whole), (31, 1, 0));
    assert_eq!(pair.maps[0].map, (1 << 29) - 1);
    // Before the sender's own time was up.
    assert!(pair.now < Instant::ZERO + CONFIG.map_timeout, "{}", pair.now);
}

#[test]
fn after_so_many_retries_it_gives_up_and_the_owner_is_told() {
    let mut pair = Pair::new(CONFIG);
    pair.send(10_000, &mut |d| d.packet == 70, &mut |_| false);
    let expected = GaveUp { message: 0, segment: 1, retries: 5 };
    assert_eq!(pair.ended[0].outcome, Err(expected));
    let text = "segment 1 of message 0 did not arrive whole in 5 repetitions";
    assert_eq!(expected.to_string(), text);
    // 64, then 36, then packet 70 five times.
    assert_eq!(pair.sender.stats().packets, 64 + 36 + 5);
    assert!(pair.arrived.is_empty());
}

#[test]
fn a_second_message_waits_for_the_first() {
    let mut pair = Pair::new(CONFIG);
    let block = pair.memory.put(&[1; 10]).unwrap();
    assert_eq!(pair.sender.send(block, 10), Ok(0));
    assert_eq!(pair.sender.send(block, 10), Err(Busy { message: 0 }));
}

#[test]
fn foreign_bytes_change_nothing() {
    let mut pair = Pair::new(CONFIG);
    let mut rng = Rng::new(4, 4);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.below(3) as u8).collect();
        pair.sender.handle_datagram(&bytes);
        // Message 0 is expected: a packet of message 1 or more is not.
        if let Some(message) = bytes.get_mut(4) {
            *message = 1 + rng.below(255) as u8;
        }
        pair.receiver.handle_datagram(Instant::ZERO, &bytes, &mut pair.memory);
    }
    assert_eq!(pair.memory.used(), 0);
    pair.send(500, &mut |_| false, &mut |_| false);
    assert_eq!(pair.arrived, [(0, content(0, 500))]);
}

proptest! {
    #[test]
    fn each_message_arrives_exactly_once_and_in_order_or_the_sender_says_so(
        seed: u64,
        loss_ppm in 0..400_000u32,
        lens in proptest::collection::vec(0..20_000u32, 1..5),
    ) {
        let mut pair = Pair::new(SegmentConfig { retries: 30, ..CONFIG });
        let (mut data, mut maps) = (Rng::new(seed, 1), Rng::new(seed, 2));
        for len in &lens {
            let lose_data = &mut |_: &Data<'_>| data.chance_ppm(loss_ppm);
            pair.send(*len, lose_data, &mut |_| maps.chance_ppm(loss_ppm));
        }
        let expected: Vec<(u32, Vec<u8>)> =
            lens.iter().zip(0..).map(|(len, n)| (n, content(n, *len))).collect();
        prop_assert!(pair.ended.iter().all(|e| e.outcome.is_ok()), "{:?}", pair.ended);
        prop_assert_eq!(pair.arrived, expected);
        prop_assert_eq!(pair.memory.used(), 0);
    }
}
