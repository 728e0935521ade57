//! Packet hops a second of the network simulator: the drawn sub-networks of the proof runs, and a
//! row of ports with a thousand channels under each discipline.
//!
//! `cargo bench -p towpath-sim --bench qos`, or with one argument: milliseconds of simulated time
//! of a single run, for counting instructions or allocations under a tool.

use core::time::Duration;
use std::time::Instant as Clock;

use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId};
use towpath_sim::qos::network::{
    FlowSpec, Hop, HostSpec, Network, Pacing, Pattern, PortSpec, Sizes, Source,
};
use towpath_sim::qos::proof::prove;
use towpath_wire::{Instant, Rate};

const CHANNELS: u32 = 1000;
const HOPS: u32 = 4;

/// A thousand Poisson channels over four ports of 10 Gbit/s, 80 % full.
fn row(discipline: Discipline) -> Network {
    let mut net = Network::new(1);
    let host = net.add_host("h", HostSpec::default()).expect("valid");
    let rate = Rate::from_mbps(10_000);
    let mut ports = Vec::new();
    for hop in 0..HOPS {
        let config = PortConfig { rate, packets_max: 1 << 20, ..PortConfig::default() };
        let name = format!("port {hop}");
        let spec = PortSpec { name, discipline, config, latency_ns: 1000 };
        let port = net.add_port(spec).expect("valid");
        for q in 0..CHANNELS {
            let config = QueueConfig {
                rate: Rate::from_mbps(10),
                priority: (q % 8) as u8,
                ..QueueConfig::default()
            };
            net.add_queue(port, QueueId(q), &config).expect("valid");
        }
        ports.push(port);
    }
    for q in 0..CHANNELS {
        // 1000 B every millisecond are 8 Mbit/s.
        let pattern = Pattern::Poisson { mean_ns: 1_000_000 };
        let spec = FlowSpec {
            name: q.to_string(),
            from: host,
            to: host,
            hops: ports.iter().map(|port| Hop::new(*port, QueueId(q))).collect(),
            source: Source::new(pattern, Sizes::Fixed(1000)),
            pacing: Pacing::Open,
            shaper: None,
            bound_ns: None,
            series: (0, 0),
        };
        net.add_flow(spec).expect("valid");
    }
    net
}

fn simulate(discipline: Discipline, ms: u64) -> (u64, Duration) {
    let mut net = row(discipline);
    let began = Clock::now();
    net.run_until(Instant::ZERO + Duration::from_millis(ms));
    (net.packet_hops(), began.elapsed())
}

fn main() {
    let number = std::env::args().find_map(|a| a.parse::<u64>().ok());
    if let Some(ms) = number {
        println!("{} packet hops", simulate(Discipline::Edf, ms).0);
        return;
    }
    for discipline in Discipline::ALL {
        let mut rates: Vec<u64> = (0..5)
            .map(|_| {
                let (hops, took) = simulate(*discipline, 200);
                hops * 1_000_000_000 / u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1)
            })
            .collect();
        rates.sort_unstable();
        println!("{:16} {:5.2} M packet hops/s", discipline.facts().name, rates[2] as f64 / 1e6);
    }
    let began = Clock::now();
    let hops: u64 =
        (0..40).filter_map(|seed| prove(seed, 25_000).ok()).map(|p| p.packet_hops).sum();
    let rate = hops as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{:16} {rate:5.2} M packet hops/s, drawing and admission included", "proof runs");
}
