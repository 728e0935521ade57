//! Seeds of what reserves: specifications, networks and requests in files, schedulers, admission.

use std::fs;
use std::io;
use std::path::Path;

use towpath_fuzz::qos::SCHEDULERS;
use towpath_qos::scheduler::Discipline;

use super::variant;

/// A model's numbers, then packets of 1000 bytes every 5 ms.
pub(super) fn specifications() -> Vec<(&'static str, Vec<u8>)> {
    let named: [(&str, &[u64]); 6] = [
        ("spaced", &[10_000_000, 1500]),
        ("averaged", &[1_000_000, 10_000_000, 1_000_000_000, 1500]),
        ("sigma_rho", &[9000, 1_000_000]),
        ("token_bucket", &[1_000_000, 9000, 10_000_000, 64, 1500]),
        ("dbind", &[]),
        ("peak_mean", &[10_000_000, 1_000_000, 9000, 1500]),
    ];
    let seed = |(index, (name, numbers)): (usize, &(&'static str, &[u64]))| {
        let mut bytes = variant(index as u64, 7).to_vec();
        if *name == "dbind" {
            for pair in [[9_000_000_u64, 50_000], [3_000_000, 300_000]] {
                bytes.push(1);
                bytes.extend(pair.iter().flat_map(|n| n.to_le_bytes()));
            }
            bytes.push(0);
            bytes.extend(1500_u64.to_le_bytes());
        }
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        for packet in 0..20_u64 {
            bytes.push(1);
            bytes.extend((packet * 5_000_000).to_le_bytes());
            bytes.extend(1000_u64.to_le_bytes());
        }
        bytes.push(0);
        (*name, bytes)
    };
    named.iter().enumerate().map(seed).collect()
}

/// A scenario's file, and one with every key.
pub(super) fn topologies() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/topology");
    let every = r#"
[[host]]
name = "a"
cpu = { packet_ns = 2000, byte_ps = 500, limit_ppm = 900000, blocking_ns = 1, budget_ns = 9 }
interface = [{ name = "x", rate_bps = 10, scheduler = "drr", sessions_max = 9 }]
[[host]]
name = "b"
scheduler = "wf2q_plus"
[[switch]]
name = "s"
latency_ns = 7
fabric_bps = 100
memory_bytes = 1000
scheduler = "rcsp"
port = [{ name = "y", budgets_ns = [1, 5], queue_bytes = 500, packet_bytes = 64 }]
[[link]]
ends = ["a:x", "s:y"]
rate_bps = 1_000
delay_ns = 3
[[link]]
ends = ["b", "s"]
rate_bps = 2_000
"#;
    Ok(vec![
        ("two_switches", fs::read(scenario.join("two-switches.toml"))?),
        ("every_key", every.as_bytes().to_vec()),
    ])
}

/// A scenario's requests, of every kind, and the shortest file.
pub(super) fn requests() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/topology");
    let short = "[framing]\ncounts = \"wire\"\n[[request]]\nname = \"x\"\nfrom = \"h1\"\n\
                 to = \"h4\"\ncount = 2\nlate_ppm = 9\ndelay_ns = 9_000_000\n\
                 measured = { file = \"0123456789\" }\n";
    Ok(vec![
        ("every_kind", fs::read(scenario.join("requests.toml"))?),
        ("short", short.as_bytes().to_vec()),
    ])
}

/// Under each discipline: two queues in one, and one beside them, packets into them, a change while
/// they wait, a pause, all sent, one removed.
pub(super) fn calls() -> Vec<(&'static str, Vec<u8>)> {
    let wanted = |rate: u32, parent: Option<u8>| {
        let mut bytes = rate.to_le_bytes().to_vec();
        bytes.extend([3, 1]);
        bytes.extend(1538_u16.to_le_bytes());
        bytes.extend(2000_u32.to_le_bytes());
        bytes.extend([20, 0]);
        bytes.extend(parent.map_or(vec![0], |id| vec![1, id]));
        bytes.extend([0, 0, 1, 0]);
        bytes
    };
    let script = |discipline: u8| {
        let mut bytes = vec![discipline, 1];
        let mut then = |call: u64, fields: &[u8]| {
            bytes.push(1);
            bytes.extend(variant(call, 6));
            bytes.extend(fields);
        };
        for (id, parent) in [(0, None), (1, Some(0)), (2, Some(0)), (3, None)] {
            then(0, &[&[id][..], &wanted(100_000_000, parent)].concat());
        }
        for n in 0..24_u16 {
            let packet = [&[1 + (n % 3) as u8][..], &(100 + n * 50).to_le_bytes(), &[0; 4]];
            then(3, &packet.concat());
        }
        then(4, &[]);
        then(1, &[&[2][..], &wanted(1_000_000, Some(0))].concat());
        then(5, &100_000_u32.to_le_bytes());
        for _ in 0..24 {
            then(4, &[]);
        }
        then(2, &[3]);
        bytes.push(0);
        bytes
    };
    let named = |(discipline, at): (&Discipline, u8)| (discipline.facts().name, script(at));
    Discipline::ALL.iter().zip(0..).map(named).collect()
}

/// Under each scheduler, the same at hosts and switch: channels of every kind, one modified, one
/// deleted, time for it to drain.
pub(super) fn admissions() -> Vec<(&'static str, Vec<u8>)> {
    let wanted = |wish: u8, rate: u32| {
        let mut bytes = vec![0, 1];
        for n in [8000, u64::from(rate) * 8, 24_000] {
            bytes.extend(n.to_le_bytes());
        }
        bytes.extend(rate.to_le_bytes());
        bytes.extend(1000_u16.to_le_bytes());
        bytes.push(wish);
        bytes.extend(80_000_000_u64.to_le_bytes());
        bytes.push(0);
        bytes
    };
    let script = |scheduler: u8| {
        let mut bytes = vec![scheduler, scheduler];
        let mut then = |op: u64, fields: &[u8]| {
            bytes.push(1);
            bytes.extend(variant(op, 7));
            bytes.extend(fields);
        };
        for (wish, rate) in [(3, 2_000_000), (2, 5_000_000), (1, 1_000_000), (0, 9_000_000)] {
            then(0, &wanted(wish, rate));
        }
        then(0, &wanted(3, 200_000_000));
        then(2, &[&[0][..], &wanted(3, 1_000_000)].concat());
        then(2, &[&[1][..], &wanted(3, 7_000_000)].concat());
        then(3, &[1, 0, 0, 0, 0, 0, 0, 0, 0]);
        then(6, &1_000_000_000_u64.to_le_bytes());
        bytes.push(0);
        bytes
    };
    SCHEDULERS.iter().zip(0..).map(|(&name, scheduler)| (name, script(scheduler))).collect()
}
