//! What every discipline must do, whatever else it promises.

use std::prelude::rust_2024::*;

use core::time::Duration;

use proptest::prelude::*;
use towpath_qos::scheduler::{
    ConfigError, Discipline, Packet, QueueConfig, QueueId, Refused, Service,
};
use towpath_wire::{ByteSize, Instant, Rate};

use super::link::{Arrival, L, arrival, build, cases, port, run, share};

fn queue() -> impl Strategy<Value = QueueConfig> {
    let services = [Service::Deterministic, Service::Statistical, Service::BestEffort];
    (1u64..200, 1u16..5, 0u8..4, 0u64..6000, 1u64..2000, 0usize..3, any::<bool>()).prop_map(
        move |(rate, weight, priority, burst, delay_us, service, may_borrow)| QueueConfig {
            rate: share(rate),
            weight,
            priority,
            burst: ByteSize::from_bytes(burst),
            delay: Duration::from_micros(delay_us),
            service: services[service],
            may_borrow,
            ..QueueConfig::default()
        },
    )
}

/// Arrivals of up to five queues, in bursts and with gaps.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0u64..4000, 0u32..5, 1u32..=L, 0i64..20_000), 1..150).prop_map(|all| {
        let mut at = 0;
        all.into_iter()
            .map(|(gap, queue, bytes, slack)| {
                at += if gap < 2000 { 0 } else { gap };
                Arrival { slack, ..arrival(at, queue, bytes) }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(cases(64))]

    /// Each packet once, in order within its queue, the same every time, and no idle link where
    /// work conservation is promised. (`run` checks `next_ready`.)
    #[test]
    fn every_packet_once_in_order(
        queues in prop::collection::vec(queue(), 5),
        arrivals in arrivals(),
    ) {
        for discipline in Discipline::ALL {
            let facts = discipline.facts();
            let mut scheduler = build(*discipline, &queues);
            let outcome = run(&mut *scheduler, &arrivals, u64::MAX);
            let mut seen: Vec<usize> = outcome.sent.iter().map(|s| s.index).collect();
            for queue in 0..5 {
                let of: Vec<_> =
                    outcome.sent.iter().filter(|s| s.queue == queue).map(|s| s.index).collect();
                prop_assert!(of.is_sorted(), "{}: order in queue {queue}", facts.name);
                prop_assert_eq!(scheduler.queue_backlog(QueueId(queue)).unwrap().packets, 0);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..arrivals.len()).collect::<Vec<_>>(), "{}", facts.name);
            for s in &outcome.sent {
                let a = arrivals[s.index];
                prop_assert_eq!((s.queue, s.bytes), (a.queue, a.bytes));
                prop_assert!(s.start >= s.arrived);
            }
            if facts.work_conserving {
                prop_assert_eq!(outcome.idle_with_backlog, 0, "{}", facts.name);
            }
            let again = run(&mut *build(*discipline, &queues), &arrivals, u64::MAX);
            prop_assert_eq!(&again, &outcome, "{}", facts.name);
        }
    }

    /// The same with classes in a tree three deep, with ceilings where there are any.
    #[test]
    fn trees_lose_nothing(
        mut queues in prop::collection::vec(queue(), 7),
        ceilings in prop::collection::vec(prop::option::of(100u64..800), 7),
        arrivals in arrivals(),
    ) {
        for (queue, ceiling) in queues.iter_mut().zip(&ceilings) {
            queue.ceiling = ceiling.map(share);
        }
        for (queue, parent) in [(6, 5), (0, 5), (1, 6), (2, 6)] {
            queues[queue].parent = Some(QueueId(parent));
        }
        let forms = [Discipline::CbqFormal, Discipline::CbqAncestorsOnly,
            Discipline::CbqTopLevel, Discipline::Hfsc];
        for discipline in forms {
            let mut scheduler = build(discipline, &[]);
            for queue in [5, 6, 0, 1, 2, 3, 4] {
                scheduler.add_queue(QueueId(queue), &queues[queue as usize]).expect("class");
            }
            let outcome = run(&mut *scheduler, &arrivals, u64::MAX);
            prop_assert_eq!(outcome.sent.len(), arrivals.len());
            for queue in 0..5 {
                let of = outcome.sent.iter().filter(|s| s.queue == queue).map(|s| s.index);
                prop_assert!(of.is_sorted(), "{:?}: order in queue {queue}", discipline);
            }
            let limited = ceilings.iter().any(Option::is_some);
            if discipline == Discipline::Hfsc && !limited {
                prop_assert_eq!(outcome.idle_with_backlog, 0);
            }
            for queue in [0, 1, 2, 6, 5] {
                prop_assert_eq!(scheduler.remove_queue(QueueId(queue)), Ok(()));
            }
        }
    }

    /// Queues change, come and go under load: nothing is lost or passes what was before it in its
    /// queue, nothing panics.
    #[test]
    fn changes_lose_nothing(
        queues in prop::collection::vec(queue(), 5),
        others in prop::collection::vec(queue(), 5),
        steps in prop::collection::vec((0u8..6, 0u32..5, 1u32..=L, 0u64..5000), 1..120),
    ) {
        for discipline in Discipline::ALL {
            let name = discipline.facts().name;
            let mut scheduler = build(*discipline, &queues);
            let mut waiting = [0u32; 5];
            let mut there = [true; 5];
            let mut now = 0;
            let mut next = [0u64; 5];
            let mut left_in_order = |packet: Packet| {
                let next = &mut next[packet.queue.0 as usize];
                packet.tag >= core::mem::replace(next, packet.tag + 1)
            };
            for (tag, (op, queue, bytes, gap)) in (0..).zip(&steps) {
                let (id, at) = (QueueId(*queue), *queue as usize);
                now += gap;
                let instant = Instant::from_nanos(now);
                match op {
                    0..=2 => {
                        let taken = scheduler.enqueue(instant, Packet::new(id, *bytes, tag));
                        prop_assert_eq!(taken.is_ok(), there[at], "{}", name);
                        waiting[at] += u32::from(taken.is_ok());
                    }
                    3 => if let Some(packet) = scheduler.dequeue(instant) {
                        waiting[packet.queue.0 as usize] -= 1;
                        prop_assert!(left_in_order(packet), "{}", name);
                    },
                    4 => {
                        let done = scheduler.reconfigure(id, &others[at]);
                        let busy = matches!(done, Err(ConfigError::Busy { .. }));
                        prop_assert!(busy && waiting[at] > 0 || done.is_ok() == there[at]);
                    }
                    _ if there[at] => {
                        let done = scheduler.remove_queue(id);
                        prop_assert_eq!(done.is_ok(), waiting[at] == 0, "{}", name);
                        there[at] = done.is_err();
                    }
                    _ => {
                        prop_assert!(scheduler.add_queue(id, &queues[at]).is_ok());
                        there[at] = true;
                    }
                }
                for (queue, waits) in waiting.iter().enumerate() {
                    let backlog = scheduler.queue_backlog(QueueId(queue as u32));
                    prop_assert_eq!(backlog.map_or(0, |b| b.packets), *waits, "{}", name);
                }
            }
            let mut left: u32 = scheduler.backlog().packets;
            while let Some(ready) = scheduler.next_ready() {
                now = now.max(ready.as_nanos());
                let packet = scheduler.dequeue(Instant::from_nanos(now));
                left -= u32::from(packet.is_some());
                prop_assert!(packet.is_none_or(&mut left_in_order), "{}", name);
            }
            prop_assert_eq!(left, 0, "{}", name);
        }
    }

    /// Absurd figures are refused or work; none panics.
    #[test]
    fn absurd_configurations(
        rate in any::<u64>(), burst in any::<u64>(), delay in any::<u64>(),
        weight in any::<u16>(), priority in any::<u8>(), packets_max in any::<u32>(),
        bytes_max in any::<u32>(), share in any::<u64>(), parent in prop::option::of(0u32..3),
        times in prop::collection::vec((any::<u64>(), any::<u32>(), any::<i64>()), 1..20),
    ) {
        for discipline in Discipline::ALL {
            let mut scheduler = build(*discipline, &[QueueConfig::default()]);
            let config = QueueConfig {
                rate: Rate::from_bps(rate),
                weight, priority, packets_max, bytes_max,
                burst: ByteSize::from_bytes(burst),
                delay: Duration::from_nanos(delay),
                share: Some(Rate::from_bps(share)),
                ceiling: Some(Rate::from_bps(share)),
                parent: parent.map(QueueId),
                ..QueueConfig::default()
            };
            let name = discipline.facts().name;
            let there = scheduler.add_queue(QueueId(1), &config).is_ok();
            prop_assert_eq!(scheduler.room(QueueId(1)).is_some(), there, "{}", name);
            // Refused, the queue stays as it was.
            let room = scheduler.room(QueueId(0));
            let changed = scheduler.reconfigure(QueueId(0), &config).is_ok();
            prop_assert!(changed || scheduler.room(QueueId(0)) == room, "{}", name);
            let mut waiting = [0_u32; 3];
            for (at, bytes, slack_ns) in &times {
                let at = Instant::from_nanos(*at);
                for queue in 0..3 {
                    let packet = Packet { slack_ns: *slack_ns,
                        ..Packet::new(QueueId(queue), bytes % (L + 2), 0) };
                    let taken = scheduler.enqueue(at, packet).is_ok();
                    prop_assert!(!taken || (1..=L).contains(&packet.bytes), "{}", name);
                    prop_assert!(!taken || queue == 0 || (queue == 1 && there), "{}", name);
                    waiting[queue as usize] += u32::from(taken);
                }
                if let Some(packet) = scheduler.dequeue(at) {
                    let waits = &mut waiting[packet.queue.0 as usize];
                    prop_assert!(*waits > 0, "{}: a packet that was not taken", name);
                    *waits -= 1;
                }
                let left: u32 = waiting.iter().sum();
                prop_assert_eq!(scheduler.backlog().packets, left, "{}", name);
                prop_assert!(left > 0 || scheduler.next_ready().is_none(), "{}", name);
            }
        }
    }
}

#[test]
fn limits_are_kept_and_named() {
    for discipline in Discipline::ALL {
        let name = discipline.facts().name;
        let small = QueueConfig { packets_max: 2, bytes_max: 2 * L, ..QueueConfig::default() };
        let tight = QueueConfig { packets_max: 9, bytes_max: L, ..QueueConfig::default() };
        let mut s = build(*discipline, &[small, tight]);
        let mut put =
            |queue, bytes| s.enqueue(Instant::ZERO, Packet::new(QueueId(queue), bytes, 0));
        let queue = QueueId(0);
        assert_eq!(put(0, 100), Ok(()), "{name}");
        assert_eq!(put(0, 100), Ok(()));
        assert_eq!(put(0, 100), Err(Refused::Full { queue, limit: 2 }));
        assert_eq!(put(1, L), Ok(()));
        assert_eq!(put(1, 1), Err(Refused::FullBytes { queue: QueueId(1), limit: L }));
        assert_eq!(put(7, 1), Err(Refused::Unknown { queue: QueueId(7) }));
        assert_eq!(put(u32::MAX, 1), Err(Refused::Unknown { queue: QueueId(u32::MAX) }));
        assert_eq!(s.room(queue), Some(0));
        assert_eq!(
            s.remove_queue(queue),
            Err(ConfigError::Busy { queue, packets: 2, children: 0 })
        );
        assert_eq!(s.add_queue(queue, &small), Err(ConfigError::Exists { queue }));
        let greedy = QueueConfig { packets_max: 1 << 20, ..QueueConfig::default() };
        let requested = (1 << 20) + 11;
        let limit = port().packets_max;
        assert_eq!(s.add_queue(QueueId(2), &greedy), Err(ConfigError::Memory { requested, limit }));
        let far = s.add_queue(QueueId(64), &small).unwrap_err();
        assert_eq!(far.to_string(), "queue id is 64, where 0..=63 is allowed");
    }
    let mut fcfs = build(Discipline::Fcfs, &[QueueConfig::default()]);
    for bytes in [0, L + 1, u32::MAX] {
        let refused = fcfs.enqueue(Instant::ZERO, Packet::new(QueueId(0), bytes, 0));
        assert_eq!(refused, Err(Refused::Size { bytes, limit: L }));
    }
}

#[test]
fn names_are_unique_and_found() {
    for discipline in Discipline::ALL {
        assert_eq!(Discipline::by_name(discipline.facts().name), Some(*discipline));
    }
    for (other, is) in [
        ("static_priority", Discipline::StaticPriority),
        ("static-priority", Discipline::StaticPriority),
        ("jitter_edf", Discipline::JitterEdd),
        ("wf2q_plus", Discipline::Wf2q),
        ("virtual_clock", Discipline::VirtualClock),
    ] {
        assert_eq!(Discipline::by_name(other), Some(is), "{other}");
    }
    assert_eq!(Discipline::by_name("lifo"), None);
}
