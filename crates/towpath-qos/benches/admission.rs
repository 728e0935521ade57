//! Admission on a loaded tree of 100 hosts: decisions, refusals, a set, a recomputation; and the
//! regulators per packet. Prints medians and percentiles of wall time.
//!
//! `cargo bench -p towpath-qos --bench admission`

use std::time::{Duration, Instant as Clock};

use towpath_qos::admission::{Admission, Request, Wish};
use towpath_qos::spec::wire::Demand;
use towpath_qos::spec::{
    Averaged, Bucket, Buckets, DBind, PeakMean, Regulator, SigmaRho, Spaced, TSpec, TokenBucket,
};
use towpath_qos::topology::{DisciplineName, NodeId, Topology, tree};
use towpath_wire::{ByteSize, Instant, Rate};

const HOSTS: u32 = 100;

/// `SplitMix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }
}

/// Random ends, two buckets, random bounds: 10 to 200 kbit/s, 1 to 20 packets of 250 to 1500 B.
fn request(random: &mut Random, scale: u64) -> Request {
    let from = random.next(HOSTS.into()) as u32;
    let to = (from + 1 + random.next(u64::from(HOSTS) - 1) as u32) % HOSTS;
    let packet = 250 + random.next(1250);
    let rate_bps = (10_000 + random.next(190_000)) * scale;
    let slow = Bucket { burst_bits: packet * 8 * (2 + random.next(19)), rate_bps };
    let fast = Bucket { burst_bits: packet * 8, rate_bps: rate_bps * (2 + random.next(18)) };
    let bytes = ByteSize::from_bytes(packet);
    Request {
        owner: 1,
        from: NodeId(from),
        to: NodeId(to),
        demand: Demand::of_wire(Buckets::least(&[fast, slow]), bytes, bytes),
        wish: Wish::Bounded {
            delay: Duration::from_micros(20_000 + random.next(480_000)),
            jitter: None,
        },
        lease: Instant::NEVER,
    }
}

/// The same ends and bounds, packets that are counted: one every 10 to 200 ms, or up to 8 of them
/// in an interval.
fn of_packets(random: &mut Random, scale: u64) -> Request {
    let (us, bytes) = (Duration::from_micros, ByteSize::from_bytes);
    let packet = bytes(250 + random.next(1250));
    let xmin = (10_000 + random.next(190_000)) / scale;
    let spec = if random.next(2) == 0 {
        TSpec::Spaced(Spaced::new(us(xmin.max(1)), packet).expect("valid"))
    } else {
        let (least, n) = (xmin / 20 + 1, 2 + random.next(7));
        let xave = xmin.max(least);
        TSpec::Averaged(Averaged::new(us(least), us(xave), us(xave * n), packet).expect("valid"))
    };
    Request { demand: Demand::of_spec(&spec, packet), ..request(random, 1) }
}

fn percentiles(what: &str, mut times: Vec<Duration>) {
    if times.is_empty() {
        println!("{what}: none");
        return;
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 1000].as_nanos() as f64 / 1e3;
    println!(
        "{what}: n {}, p50 {:.2} us, p90 {:.2} us, p99 {:.2} us, max {:.2} us",
        times.len(),
        at(500),
        at(900),
        at(990),
        at(1000)
    );
}

fn network(rate_bps: u64) -> Admission {
    // Processors that are not what limits: this measures the network's tests beside theirs.
    let text = tree::two_level(HOSTS, 10, rate_bps, DisciplineName::Edf).replace(
        "packet_ns = 500, byte_ps = 50",
        "packet_ns = 10, byte_ps = 1, budget_ns = 10_000_000",
    );
    Admission::new(Topology::parse(&text).expect("valid"))
}

type Make = fn(&mut Random, u64) -> Request;

fn load(channels: usize, rate_bps: u64, request: Make) -> Admission {
    let mut random = Random(7);
    let mut admission = network(rate_bps);
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    let begin = Clock::now();
    for _ in 0..channels * 2 {
        if admission.len() >= channels {
            break;
        }
        let request = request(&mut random, 1);
        let start = Clock::now();
        let answer = admission.admit(&request);
        let took = start.elapsed();
        let list = if answer.is_ok() { &mut accepted } else { &mut refused };
        list.push(took);
    }
    println!("\n{} channels reserved in {:?}", admission.len(), begin.elapsed());
    let mut points: Vec<usize> = admission.points().map(|(_, points)| points).collect();
    points.sort_unstable();
    println!(
        "points per port: median {}, most {}",
        points[points.len() / 2],
        points[points.len() - 1]
    );
    let tail = accepted.split_off(accepted.len() * 9 / 10);
    percentiles("  admit, last tenth", tail);
    percentiles("  refuse while loading", refused);
    let (mut accepted, mut refused, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..2000 {
        // Ordinary requests, and every fourth one far too large.
        let request = request(&mut random, if i % 4 == 3 { 100_000 } else { 1 });
        let start = Clock::now();
        let answer = admission.admit(&request);
        let took = start.elapsed();
        if let Ok(admitted) = answer {
            accepted.push(took);
            let start = Clock::now();
            let at = admission.delete(Instant::ZERO, admitted.id, 1, ByteSize::ZERO);
            admission.handle_timeout(at.expect("owned"));
            deleted.push(start.elapsed());
            continue;
        }
        // A refusal changes nothing: the median of five, so that what interrupts this process
        // does not count.
        let mut again = [took; 5];
        for took in &mut again[1..] {
            let start = Clock::now();
            let _ = std::hint::black_box(admission.admit(&request));
            *took = start.elapsed();
        }
        again.sort_unstable();
        refused.push(again[2]);
    }
    percentiles("  admit one more", accepted);
    percentiles("  refuse, with the nearest", refused);
    percentiles("  delete and drain", deleted);
    sets(&mut admission, &mut random, request);
    let mut times = [Duration::ZERO; 3];
    for took in &mut times {
        let start = Clock::now();
        admission.recompute().expect("consistent");
        *took = start.elapsed();
    }
    times.sort_unstable();
    println!("  recomputation: median {:?} of 3", times[1]);
    admission
}

/// Sets of 1000 of ordinary requests, each taken away again.
fn sets(admission: &mut Admission, random: &mut Random, request: Make) {
    let mut reserved = 0;
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let set: Vec<Request> = (0..1000).map(|_| request(random, 1)).collect();
            let start = Clock::now();
            let answer = admission.admit_all(&set);
            let took = start.elapsed();
            for admitted in answer.iter().flatten() {
                reserved += 1;
                let at = admission.delete(Instant::ZERO, admitted.id, 1, ByteSize::ZERO);
                admission.handle_timeout(at.expect("owned"));
            }
            took
        })
        .collect();
    times.sort_unstable();
    println!(
        "  sets of 1000: {} of 15 reserved; least {:?}, median {:?}, most {:?}",
        reserved / 1000,
        times[0],
        times[7],
        times[14]
    );
}

/// One specification of each kind that a regulator treats in its own way.
fn specifications() -> [(&'static str, TSpec); 6] {
    let (us, bps, bytes) = (Duration::from_micros, Rate::from_bps, ByteSize::from_bytes);
    [
        ("spaced", TSpec::Spaced(Spaced::new(us(7), bytes(1500)).expect("valid"))),
        (
            "averaged",
            TSpec::Averaged(Averaged::new(us(3), us(11), us(1000), bytes(1500)).expect("valid")),
        ),
        (
            "sigma_rho",
            TSpec::SigmaRho(SigmaRho::new(bytes(9000), bps(1_000_000_000)).expect("valid")),
        ),
        (
            "token_bucket",
            TSpec::TokenBucket(
                TokenBucket::new(
                    bps(300_000_000),
                    bytes(9000),
                    bps(999_999_999),
                    bytes(64),
                    bytes(1500),
                )
                .expect("valid"),
            ),
        ),
        (
            "dbind (3)",
            TSpec::DBind(
                DBind::hull(
                    &[
                        (bps(900_000_000), us(50)),
                        (bps(500_000_000), us(100)),
                        (bps(300_000_000), us(300)),
                    ],
                    bytes(1500),
                )
                .expect("valid"),
            ),
        ),
        (
            "peak_mean",
            TSpec::PeakMean(
                PeakMean::new(bps(900_000_000), bps(100_000_000), bytes(60_000), bytes(1500))
                    .expect("valid"),
            ),
        ),
    ]
}

fn regulators() {
    let size = ByteSize::from_bytes(1000);
    println!("\nregulator, ns per packet (median of 101 runs of 20 000)");
    for (name, spec) in specifications() {
        let mut offers = Vec::new();
        let mut paces = Vec::new();
        for _ in 0..101 {
            let mut regulator = Regulator::new(&spec);
            let start = Clock::now();
            for i in 0..20_000_u64 {
                std::hint::black_box(regulator.offer(Instant::from_nanos(i * 9001), size));
            }
            offers.push(start.elapsed().as_nanos() as f64 / 2e4);
            let mut regulator = Regulator::new(&spec);
            let mut now = Instant::ZERO;
            let start = Clock::now();
            for _ in 0..20_000_u64 {
                now = regulator.reserve(now, size).expect("small enough");
            }
            std::hint::black_box(now);
            paces.push(start.elapsed().as_nanos() as f64 / 2e4);
        }
        offers.sort_by(f64::total_cmp);
        paces.sort_by(f64::total_cmp);
        println!("  {name}: check {:.1}, pace {:.1}", offers[50], paces[50]);
    }
}

fn main() {
    regulators();
    load(1000, 1_000_000_000, request);
    load(100_000, 1_000_000_000, request);
    // More is asked for than fits: most decisions are refusals.
    load(100_000, 250_000_000, request);
    println!("\npackets that are counted");
    load(1000, 1_000_000_000, of_packets);
    // As full as it gets: the demand itself decides.
    load(1000, 20_000_000, of_packets);
}
