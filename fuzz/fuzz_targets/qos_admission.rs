//! Any sequence of requests and changes: every answer comes, and everything summed anew holds.
#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use towpath_fuzz::qos::SCHEDULERS;
use towpath_qos::admission::{Admission, Request, ReservationId, Wish};
use towpath_qos::spec::wire::Demand;
use towpath_qos::spec::{Bucket, Buckets};
use towpath_qos::topology::{NodeId, Topology};
use towpath_wire::{ByteSize, Instant, Rate};

#[derive(Arbitrary, Debug)]
struct Wanted {
    ends: (u8, u8),
    fast: (u64, u64),
    slow: (u64, u32),
    packet: u16,
    wish: u8,
    delay: u64,
    lease: Option<u64>,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Admit(Wanted),
    Together(Vec<Wanted>),
    Modify(u8, Wanted),
    Delete(u8, u64),
    Renew(u8, u64),
    Observe(u8, u64),
    Wait(u64),
}

fn request(wanted: &Wanted) -> Request {
    let bucket = |(burst_bits, rate_bps)| Bucket { burst_bits, rate_bps };
    let slow = bucket((wanted.slow.0, wanted.slow.1.into()));
    let bytes = ByteSize::from_bytes(wanted.packet.into());
    let delay = Duration::from_nanos(wanted.delay);
    Request {
        owner: 1,
        from: NodeId(u32::from(wanted.ends.0 % 4)),
        to: NodeId(u32::from(wanted.ends.1 % 4)),
        demand: Demand::of_wire(Buckets::least(&[bucket(wanted.fast), slow]), bytes, bytes),
        wish: match wanted.wish % 4 {
            0 => Wish::Share { priority: wanted.wish },
            1 => Wish::Statistical { delay, late_ppm: u32::from(wanted.wish) * 1000 },
            2 => Wish::Bounded { delay, jitter: Some(delay / 2) },
            _ => Wish::Bounded { delay, jitter: None },
        },
        lease: wanted.lease.map_or(Instant::NEVER, Instant::from_nanos),
    }
}

fuzz_target!(|input: (u8, u8, Vec<Op>)| {
    let (hosts, switch, ops) = input;
    let name = |i: u8| SCHEDULERS[usize::from(i) % SCHEDULERS.len()];
    let mut text = format!("[[switch]]\nname = \"s\"\nscheduler = \"{}\"\n", name(switch));
    for h in 0..3 {
        text += &format!("[[host]]\nname = \"h{h}\"\nscheduler = \"{}\"\n", name(hosts));
        text += "cpu = { packet_ns = 500, byte_ps = 50 }\n";
        text += &format!("[[link]]\nends = [\"h{h}\", \"s\"]\nrate_bps = 100_000_000\n");
    }
    let mut admission = Admission::new(Topology::parse(&text).expect("valid"));
    let mut ids: Vec<ReservationId> = Vec::new();
    let mut now = Instant::ZERO;
    let at = |ids: &[ReservationId], i: u8| ids.get(usize::from(i) % ids.len().max(1)).copied();
    for op in ops {
        match op {
            Op::Admit(wanted) => ids.extend(admission.admit(&request(&wanted)).map(|a| a.id)),
            Op::Together(set) => {
                let set: Vec<Request> = set.iter().map(request).collect();
                let before = admission.len();
                match admission.admit_all(&set) {
                    Ok(all) => ids.extend(all.iter().map(|answer| answer.id)),
                    Err(_) => assert_eq!(admission.len(), before),
                }
            }
            Op::Modify(i, wanted) => {
                if let Some(id) = at(&ids, i) {
                    let _ = admission.modify(now, id, &request(&wanted));
                }
            }
            Op::Delete(i, backlog) => {
                if let Some(id) = at(&ids, i) {
                    let _ = admission.delete(now, id, 1, ByteSize::from_bytes(backlog));
                }
            }
            Op::Renew(i, until) => {
                if let Some(id) = at(&ids, i) {
                    let _ = admission.renew(id, 1, Instant::from_nanos(until));
                }
            }
            Op::Observe(i, bps) => {
                if let Some(id) = at(&ids, i) {
                    let _ = admission.observe(id, Rate::from_bps(bps));
                }
            }
            Op::Wait(ns) => {
                now += Duration::from_nanos(ns);
                admission.handle_timeout(now);
            }
        }
        admission.recompute().expect("every promise holds");
    }
});
