//! Random sub-networks and requests.

use core::fmt::Write;
use core::time::Duration;

use towpath_proto::Rng;
use towpath_qos::admission::{Request, Wish};
use towpath_qos::spec::wire::Demand;
use towpath_qos::spec::{
    Averaged, DBind, PeakMean, SigmaRho, Spaced, SpecError, TSpec, TokenBucket,
};
use towpath_qos::topology::{NodeId, Topology};
use towpath_wire::{ByteSize, Instant, Rate};

/// Schedulers with a bound, as a topology file names them.
pub const BOUNDED: [&str; 11] = [
    "edf",
    "priority",
    "rcsp",
    "jitter-edd",
    "hfsc",
    "wfq",
    "wf2q",
    "virtual-clock",
    "fcfs",
    "drr",
    "scfq",
];

/// A request with the source that will send for it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What admission is asked.
    pub request: Request,
    /// The same traffic, for the regulator.
    pub spec: TSpec,
    /// Least and largest packet, wire bytes.
    pub packets: (u32, u32),
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// A topology file: up to 6 switches in a random tree, now and then with a ring closed, up to 16
/// hosts. One scheduler everywhere, or one of its own per node. Ports of round robin and
/// self-clocked queuing have a number of sessions of their own: few, which are soon taken and
/// make for short bounds, to many.
pub fn topology(rng: &mut Rng) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |args: core::fmt::Arguments<'_>| {
        let _ = text.write_fmt(args);
    };
    let common = pick(rng, &BOUNDED);
    let mixed = rng.below(3) == 0;
    let scheduler = |rng: &mut Rng| if mixed { pick(rng, &BOUNDED) } else { common };
    let switches = 1 + rng.below(6);
    let hosts = 3 + rng.below(14);
    let with_cpu = rng.below(3) == 0;
    for h in 0..hosts {
        let name = scheduler(rng);
        line(format_args!("[[host]]\nname = \"h{h}\"\nscheduler = \"{name}\"\n"));
        let sessions = sessions(rng, name);
        if with_cpu {
            // Costs that are whole nanoseconds for packets of whole 8 bytes.
            let (packet_ns, byte_ps) = (500 + rng.below(20_000), 125 * rng.below(5));
            let blocking_ns = 1000 * (20 + rng.below(80));
            let budget_ns = blocking_ns + 1_000_000;
            line(format_args!(
                "cpu = {{ packet_ns = {packet_ns}, byte_ps = {byte_ps}, \
                 blocking_ns = {blocking_ns}, budget_ns = {budget_ns} }}\n"
            ));
        }
        line(format_args!("[[host.interface]]\nname = \"p{h}\"\n{sessions}"));
    }
    // A link's number is its ports' name.
    let links = hosts + switches;
    for s in 0..switches {
        let (name, latency_ns) = (scheduler(rng), rng.below(20_000));
        line(format_args!(
            "[[switch]]\nname = \"s{s}\"\nscheduler = \"{name}\"\nlatency_ns = {latency_ns}\n"
        ));
        for p in 0..links {
            let sessions = sessions(rng, name);
            line(format_args!("[[switch.port]]\nname = \"p{p}\"\n{sessions}"));
        }
    }
    let mut number = 0;
    let mut link = |a: String, b: String, rate: u64, delay: u64| {
        line(format_args!(
            "[[link]]\nends = [\"{a}:p{number}\", \"{b}:p{number}\"]\n\
             rate_bps = {rate}\ndelay_ns = {delay}\n"
        ));
        number += 1;
    };
    let rates = [10_000_000, 100_000_000, 100_000_000, 1_000_000_000, 97_531_113];
    for h in 0..hosts {
        let s = rng.below(switches);
        link(format!("h{h}"), format!("s{s}"), pick(rng, &rates), rng.below(5_000));
    }
    let trunks = [100_000_000, 1_000_000_000, 1_000_000_000];
    for s in 1..switches {
        let to = rng.below(s);
        link(format!("s{s}"), format!("s{to}"), pick(rng, &trunks), rng.below(50_000));
    }
    if switches > 3 && rng.below(3) == 0 {
        link("s0".into(), format!("s{}", switches - 1), pick(rng, &trunks), rng.below(50_000));
    }
    text
}

/// The setting of a port that counts its sessions, a line or nothing.
fn sessions(rng: &mut Rng, scheduler: &str) -> String {
    match scheduler {
        "drr" | "scfq" => format!("sessions_max = {}\n", logarithmic(rng, 4, 64)),
        _ => String::new(),
    }
}

/// A number between `least` and `most`, each order of magnitude as likely as any other.
fn logarithmic(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let octaves = u64::from((most / least.max(1)).max(1).ilog2()) + 1;
    let base = least << rng.below(octaves);
    (base + rng.below(base)).clamp(least, most)
}

/// A random request between two hosts of the topology.
pub fn wanted(rng: &mut Rng, topology: &Topology, number: u64) -> Result<Wanted, SpecError> {
    let hosts = topology.hosts().count() as u64;
    let from = NodeId(rng.below(hosts) as u32);
    let other = 1 + rng.below(hosts - 1);
    let to = NodeId(((u64::from(from.0) + other) % hosts) as u32);
    let route = topology.route(from, to);
    let narrowest = route.filter_map(|p| topology.port(p)).map(|p| p.rate_bps).min();
    let narrowest = narrowest.unwrap_or(10_000_000);
    // Whole 8 bytes: a processor's cost is then whole nanoseconds.
    let largest = 8 * (8 + rng.below(185));
    let least = if rng.below(2) == 0 { largest } else { 8 * (8 + rng.below(largest / 8 - 7)) };
    let spec = specification(rng, narrowest, least, largest)?;
    let wish = Wish::Bounded {
        delay: Duration::from_micros(logarithmic(rng, 300, 400_000)),
        jitter: (rng.below(4) == 0).then(|| Duration::from_micros(logarithmic(rng, 300, 400_000))),
    };
    let size = ByteSize::from_bytes;
    let packets = spec.packets(largest * 8);
    let demand = Demand::of_wire(spec.buckets(), size(least), size(largest));
    let demand = Demand { packets, ..demand };
    let lease = Instant::NEVER;
    let request = Request { owner: number, from, to, demand, wish, lease };
    Ok(Wanted { request, spec, packets: (least as u32, largest as u32) })
}

fn specification(
    rng: &mut Rng,
    narrowest: u64,
    least: u64,
    largest: u64,
) -> Result<TSpec, SpecError> {
    let size = ByteSize::from_bytes;
    let rate = logarithmic(rng, narrowest / 1000, narrowest / 4);
    let burst = largest * (1 + rng.below(12));
    let peak = rate.saturating_add(rng.below(narrowest)).max(rate);
    let xmin = Duration::from_nanos((largest * 8_000_000_000).div_ceil(rate));
    let bps = Rate::from_bps;
    Ok(match rng.below(6) {
        0 => TSpec::SigmaRho(SigmaRho::new(size(burst), bps(rate))?),
        1 => TSpec::TokenBucket(TokenBucket::new(
            bps(rate),
            size(burst),
            bps(peak),
            size(least),
            size(largest),
        )?),
        2 => TSpec::Spaced(Spaced::new(xmin, size(largest))?),
        3 => {
            let n = 1 + rng.below(8) as u32;
            let peak_gap = Duration::from_nanos(1 + rng.below(xmin.as_nanos() as u64));
            TSpec::Averaged(Averaged::new(peak_gap, xmin, xmin * n, size(largest))?)
        }
        4 => {
            let pairs: Vec<_> =
                (0..4u32).map(|k| (bps((rate << 2) >> k), xmin * (2 << (2 * k)))).collect();
            match DBind::hull(&pairs, size(largest)) {
                Ok(spec) => TSpec::DBind(spec),
                // Not every draw is a curve.
                Err(_) => TSpec::SigmaRho(SigmaRho::new(size(burst), bps(rate))?),
            }
        }
        _ => TSpec::PeakMean(PeakMean::new(bps(peak), bps(rate), size(burst), size(largest))?),
    })
}
