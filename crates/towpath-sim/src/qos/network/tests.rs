use core::time::Duration;

use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId};
use towpath_qos::spec::{SigmaRho, TSpec};
use towpath_wire::{ByteSize, Instant, Rate};

use super::*;
use crate::qos::cpu::Sharing;

/// Hosts in a row of switches: host `i` has a port of its own, all traffic goes over the trunks.
struct Bench {
    net: Network,
    ports: Vec<u32>,
}

fn port(net: &mut Network, name: &str, mbps: u64, discipline: Discipline) -> u32 {
    let config = PortConfig { rate: Rate::from_mbps(mbps), ..PortConfig::default() };
    let spec = PortSpec { name: name.into(), discipline, config, latency_ns: 1000 };
    net.add_port(spec).expect("valid")
}

/// Ports of these rates in a row, each with queues 0 to 3 of 100 packets, priority by number.
fn row(rates: &[u64], discipline: Discipline) -> Bench {
    let mut net = Network::new(1);
    for name in ["a", "b", "c"] {
        net.add_host(name, HostSpec::default()).expect("valid");
    }
    let mut ports = Vec::new();
    for (i, mbps) in rates.iter().enumerate() {
        let p = port(&mut net, &i.to_string(), *mbps, discipline);
        for q in 0..4 {
            let config = QueueConfig {
                priority: q as u8,
                rate: Rate::from_mbps(mbps / 4),
                packets_max: 100,
                ..QueueConfig::default()
            };
            net.add_queue(p, QueueId(q), &config).expect("valid");
        }
        ports.push(p);
    }
    Bench { net, ports }
}

impl Bench {
    fn flow(&mut self, queue: u32, ports: &[usize], source: Source, pacing: Pacing) -> u32 {
        let hop = |i: &usize| Hop::new(self.ports[*i], QueueId(queue));
        let hops = ports.iter().map(hop).collect();
        let spec = FlowSpec {
            name: "f".into(),
            from: 0,
            to: 2,
            hops,
            source,
            pacing,
            shaper: None,
            bound_ns: Some(1_000_000),
            series: (0, 10),
        };
        self.net.add_flow(spec).expect("valid")
    }

    fn run_ms(&mut self, ms: u64) {
        self.net.run_until(Instant::ZERO + Duration::from_millis(ms));
    }
}

fn saturating() -> Source {
    Source::new(Pattern::Greedy(Gate::Open), Sizes::Fixed(1250))
}

fn trace(items: &[(u64, u32)]) -> Source {
    Source::new(Pattern::Trace { items: items.to_vec(), every_ns: None }, Sizes::Fixed(1))
}

#[test]
fn delay_is_transmission_and_latency_of_every_hop_and_the_wait_before_it() {
    let mut b = row(&[100, 10], Discipline::Fcfs);
    // 1250 B: 100 µs at 100 Mbit/s, 1 ms at 10 Mbit/s, 1 µs latency each.
    let f = b.flow(0, &[0, 1], trace(&[(0, 1250), (0, 1250)]), Pacing::Open);
    b.run_ms(10);
    let s = b.net.flow(f).expect("flow");
    let delays: Vec<u64> = s.series.iter().map(|p| p.delay_ns).collect();
    assert_eq!(delays, [1_102_000, 2_102_000]);
    assert_eq!((s.gap.max(), s.beyond, s.jitter_ns()), (1_000_000, 2, 1_000_000));
    assert_eq!(s.first_miss.expect("beyond 1 ms").delay_ns, 1_102_000);
    assert_eq!(b.net.packet_hops(), 4);
}

#[test]
fn a_busy_port_sends_exactly_its_rate() {
    // 1 B at 999 999 937 bit/s is no whole number of nanoseconds.
    let mut net = Network::new(1);
    let host = net.add_host("a", HostSpec::default()).expect("valid");
    let config = PortConfig { rate: Rate::from_bps(999_999_937), ..PortConfig::default() };
    let spec = PortSpec { name: "p".into(), discipline: Discipline::Fcfs, config, latency_ns: 0 };
    let p = net.add_port(spec).expect("valid");
    net.add_queue(p, QueueId(0), &QueueConfig::default()).expect("valid");
    let spec = FlowSpec {
        name: "f".into(),
        from: host,
        to: host,
        hops: vec![Hop::new(p, QueueId(0))],
        source: Source { packets_max: 10_000, ..saturating() },
        pacing: Pacing::Blocking,
        shaper: None,
        bound_ns: None,
        series: (0, 0),
    };
    let f = net.add_flow(spec).expect("valid");
    net.run_until(Instant::from_nanos(10_000_000_000));
    let s = net.flow(f).expect("flow");
    let exact = (10_000u128 * 1250 * 8 * 1_000_000_000).div_ceil(999_999_937) as u64;
    assert_eq!((s.delivered, s.last_ns), (10_000, exact));
}

#[test]
fn a_full_queue_drops_where_pacing_is_open_and_blocks_where_it_is_not() {
    let spec = SigmaRho::new(ByteSize::from_bytes(1250), Rate::from_mbps(20)).expect("valid");
    let source = Source::greedy(TSpec::SigmaRho(spec), 1250, 0);
    let mut counts = Vec::new();
    for pacing in [Pacing::Open, Pacing::Blocking, Pacing::Window { packets: 4, ack_us: 0 }] {
        let mut b = row(&[10], Discipline::Fcfs);
        let f = b.flow(0, &[0], source.clone(), pacing);
        b.run_ms(1000);
        let s = b.net.flow(f).expect("flow");
        counts.push((s.released, s.delivered, s.lost(), s.delay.max() / 1_000_000));
    }
    // 10 Mbit/s carry 1000 packets a second; the source offers 2000.
    assert_eq!(counts[0].1, 999);
    assert!(counts[0].2 > 850, "{counts:?}");
    assert_eq!((counts[1].1, counts[1].2, counts[1].3), (999, 0, 102));
    assert_eq!((counts[2].1, counts[2].2, counts[2].3), (999, 0, 4));
}

#[test]
fn a_low_priority_starves_behind_a_sender_at_wire_speed() {
    // Both senders reach the trunk over links of their own.
    let mut b = row(&[100, 100, 100], Discipline::StaticPriority);
    let high = b.flow(0, &[0, 2], saturating(), Pacing::Blocking);
    let low = b.flow(3, &[1, 2], saturating(), Pacing::Blocking);
    b.run_ms(100);
    let rate = |f| b.net.flow(f).expect("flow").delivered;
    assert!(rate(high) > 990 && rate(low) < 10, "{} {}", rate(high), rate(low));
}

#[test]
fn a_receiver_without_its_processor_is_late_whatever_the_network_does() {
    let mut delays = Vec::new();
    for sharing in
        [Sharing::Dedicated, Sharing::TimeShared { run_us: [500, 500], away_us: [9_000, 9_000] }]
    {
        let mut b = row(&[100], Discipline::Fcfs);
        let spec = HostSpec { sharing, receive_ns: 20_000, ..HostSpec::default() };
        let to = b.net.add_host("late", spec).expect("valid");
        let pattern = Pattern::Periodic { interval_ns: 1_000_000, jitter_ns: 0 };
        let spec = FlowSpec {
            name: "f".into(),
            from: 0,
            to,
            hops: vec![Hop::new(b.ports[0], QueueId(0))],
            source: Source::new(pattern, Sizes::Fixed(1250)),
            pacing: Pacing::Open,
            shaper: None,
            bound_ns: None,
            series: (0, 0),
        };
        let f = b.net.add_flow(spec).expect("valid");
        b.run_ms(1000);
        delays.push(b.net.flow(f).expect("flow").delay.summary());
    }
    assert_eq!(delays[0].max_ns, 121_000);
    assert!(delays[1].p50_ns > 2_000_000 && delays[1].max_ns > 8_000_000, "{:?}", delays[1]);
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    let run = |seed| {
        let mut b = row(&[100, 100], Discipline::Drr);
        b.net = Network::new(seed);
        let host = b.net.add_host("h", HostSpec::default()).expect("valid");
        let p = port(&mut b.net, "p", 100, Discipline::Drr);
        b.net.add_queue(p, QueueId(0), &QueueConfig::default()).expect("valid");
        let spec = FlowSpec {
            name: "f".into(),
            from: host,
            to: host,
            hops: vec![Hop::new(p, QueueId(0))],
            source: Source::new(Pattern::Poisson { mean_ns: 150_000 }, Sizes::Between(64, 1500)),
            pacing: Pacing::Open,
            shaper: None,
            bound_ns: None,
            series: (0, 0),
        };
        b.net.add_flow(spec).expect("valid");
        b.run_ms(500);
        b.net.trace()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn what_cannot_be_run_is_refused_with_its_name_and_limit() {
    let mut net = Network::new(1);
    let none = HostSpec { cpus: 0, ..HostSpec::default() };
    let error = net.add_host("h", none).expect_err("no processor").to_string();
    assert_eq!(error, "host h: cpus is 0, must be 1 to 64");
    let mut b = row(&[100], Discipline::Fcfs);
    let spec = |source| FlowSpec {
        name: "f".into(),
        from: 0,
        to: 9,
        hops: vec![Hop::new(0, QueueId(0))],
        source,
        pacing: Pacing::Open,
        shaper: None,
        bound_ns: None,
        series: (0, 0),
    };
    let error = b.net.add_flow(spec(saturating())).expect_err("unknown").to_string();
    assert_eq!(error, "host 9 is unknown, there are 3");
    let endless = FlowSpec { to: 0, ..spec(saturating()) };
    assert!(b.net.add_flow(endless).expect_err("endless").to_string().contains("pacing"));
    let still = Source::new(Pattern::Periodic { interval_ns: 0, jitter_ns: 0 }, Sizes::Fixed(9));
    let error = b.net.add_flow(FlowSpec { to: 0, ..spec(still) }).expect_err("no period");
    assert_eq!(error.to_string(), "flow f: interval_ns is 0, must be above 0");
}
