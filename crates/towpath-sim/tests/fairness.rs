//! Associations on one bottleneck: how the default congestion controller shares it with CUBIC and
//! with itself, and how much of it it uses alone, with and without losses.

use std::fmt::Write;

use towpath_sim::transfer::{TransferReport, TransferScenario, run};

/// Bytes of a full datagram that are not message: header, tag, frame, then UDP to Ethernet.
const OVERHEAD: f64 = 1538.0 / (1538.0 - 66.0 - 16.0 - 16.0 - 24.0);

/// A bottleneck and who shares it.
#[derive(Clone, Copy, Debug)]
struct Cell {
    mbps: u64,
    rtt_ms: f64,
    /// Queue in products of rate and round trip.
    buffer: f64,
    loss_ppm: u32,
    /// Controller and start in milliseconds of each flow.
    flows: &'static [(&'static str, u64)],
    seconds: u64,
}

impl Cell {
    fn run(&self, seed: u64) -> TransferReport {
        let Self { mbps, rtt_ms, buffer, loss_ppm, flows, seconds } = self;
        let delay_us = rtt_ms * 500.0;
        let queue = (*mbps as f64 * 125.0 * rtt_ms * buffer).max(3000.0) as u64;
        let mut text = format!(
            "kind = 'transfer'\nseed = {seed}\nseconds_max = {seconds}\n\
             [link.there]\nrate_bps = {mbps}000000\ndelay_us = {delay_us}\n\
             queue_bytes = {queue}\nloss_ppm = {loss_ppm}\n\
             [link.back]\nrate_bps = {mbps}000000\ndelay_us = {delay_us}\n"
        );
        for (n, (congestion, start_ms)) in flows.iter().enumerate() {
            let _ = write!(
                text,
                "[[flow]]\nname = '{n}'\nforward = ['there']\nbackward = ['back']\n\
                 congestion = '{congestion}'\nstart_ms = {start_ms}\nwindow_bytes = 16777216\n"
            );
        }
        let report = run(&TransferScenario::parse(&text).unwrap(), None).unwrap();
        assert_eq!(report.broken, [""; 0], "{self:?}");
        report
    }

    /// What each flow gets in the later half of the run, as a share of what the link carries.
    fn shares(&self, seed: u64) -> Vec<f64> {
        let whole = self.mbps as f64 * 1e6 / OVERHEAD * (1.0 - f64::from(self.loss_ppm) / 1e6);
        self.run(seed).flows.iter().map(|f| f.later_half_bps / whole).collect()
    }
}

#[test]
#[ignore = "exploring"]
fn explore() {
    let get = |n: &str, d: f64| std::env::var(n).ok().map_or(d, |v| v.parse().unwrap());
    let name = |n: f64| ["tolerant", "cubic", "aimd"][n as usize];
    let mut flows = vec![(name(get("A", 0.0)), get("AT", 0.0) as u64)];
    if get("B", 9.0) < 9.0 {
        flows.push((name(get("B", 0.0)), get("BT", 0.0) as u64));
    }
    let cell = Cell {
        mbps: get("MBPS", 100.0) as u64,
        rtt_ms: get("RTT", 20.0),
        buffer: get("BUFFER", 1.0),
        loss_ppm: get("LOSS", 0.0) as u32,
        flows: flows.leak(),
        seconds: get("SECONDS", 20.0) as u64,
    };
    for seed in 1..=get("SEEDS", 1.0) as u64 {
        let r = cell.run(seed);
        println!("{:.3?}", cell.shares(seed));
        if get("TRACE", 0.0) > 0.0 {
            let mut last = vec![0; r.flows.len()];
            for i in 0..r.flows[0].samples.len() {
                for (n, f) in r.flows.iter().enumerate() {
                    let s = f.samples[i];
                    print!(
                        "{} {n}: {:.2} Mbit/s rtt {} lost {} queue {}  ",
                        s.at_ms,
                        (s.delivered_bytes - last[n]) as f64 * 8.0 / 1e5,
                        s.rtt_us,
                        s.lost,
                        s.queue_bytes
                    );
                    last[n] = s.delivered_bytes;
                }
                println!();
            }
        }
    }
}

#[test]
#[ignore = "minutes: every cell"]
fn table() {
    for mbps in [100, 1000] {
        for rtt_ms in [1.0, 20.0] {
            for buffer in [0.5, 1.0, 2.0] {
                for (what, flows) in [
                    ("tolerant, cubic together", &[("tolerant", 0), ("cubic", 0)]),
                    ("tolerant first", &[("tolerant", 0), ("cubic", 3000)]),
                    ("cubic first", &[("tolerant", 3000), ("cubic", 0)]),
                    ("two tolerant", &[("tolerant", 0), ("tolerant", 2000)]),
                    ("two cubic", &[("cubic", 0), ("cubic", 2000)]),
                ] {
                    let seconds = if mbps > 100 { 20 } else { 40 };
                    let cell = Cell { mbps, rtt_ms, buffer, loss_ppm: 0, flows, seconds };
                    let mut worst: Vec<f64> = Vec::new();
                    for seed in 1..=3 {
                        let shares = cell.shares(seed);
                        let least = |s: &[f64]| s.iter().copied().fold(1.0, f64::min);
                        if worst.is_empty() || least(&shares) < least(&worst) {
                            worst = shares;
                        }
                    }
                    println!("{mbps} Mbit/s {rtt_ms} ms buffer {buffer} {what}: {worst:.3?}");
                }
            }
        }
    }
}
