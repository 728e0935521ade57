//! Time of the analyses: a star of hosts around one switch at 10 Gbit/s, and a line of servers with
//! cross traffic. Prints the median of several runs.
//!
//! Peers, measured once on the machine the project was planned on (two shared vCPUs, 2026-11):
//! xTFA 15 ms, 0.21 s, 1.51 s and 5.67 s for the same star with 10, 100, 1000 and 3000 flows;
//! panco's polynomial program 8 to 32 ms per flow on networks of 1 to 7 servers.

use std::hint::black_box;
use std::time::{Duration, Instant};

use towpath_bound::{Analysis, Envelope, Flow, Method, Multiplexing, Network, Rational, Server};

const HOSTS: usize = 5;
/// Bit/s.
const LINK: i64 = 10_000_000_000;
/// An Ethernet frame on the wire, in bits.
const FRAME: i64 = 12_304;

/// Numbers below a limit (Marsaglia's xorshift).
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

/// A port out of every host and a port to every host; flows from everyone to everyone in turn.
fn star(flows: usize) -> Network {
    let frame = Rational::integer(FRAME);
    let port = |name: String| {
        Server::new(&name, Rational::integer(LINK), Rational::ZERO, Multiplexing::Fifo)
            .with_line(Rational::integer(LINK), frame.clone())
            .store_and_forward(&frame)
    };
    let ports = (0..HOSTS).map(|host| port(format!("h{host} out")));
    let ports = ports.chain((0..HOSTS).map(|host| port(format!("switch to h{host}"))));
    let mut below = random();
    let flows = (0..flows).map(|flow| {
        let from = flow % HOSTS;
        let to = (from + 1 + flow / HOSTS % (HOSTS - 1)) % HOSTS;
        // Half of a port's rate over all flows, in parts from a half to one and a half: no two
        // flows have the same.
        let share = LINK.unsigned_abs() / 2 / (flows / HOSTS + 1) as u64;
        let rate = i64::try_from(share / 2 + below(share)).unwrap_or(0);
        let envelope = Envelope::token_bucket(Rational::integer(rate), frame.clone());
        Flow::new(&format!("f{flow}"), envelope, vec![from, HOSTS + to])
    });
    Network::new(ports.collect(), flows.collect()).expect("half loaded")
}

/// One flow along all servers, one more entering at each and staying to the end.
fn sink_tree(servers: usize) -> Network {
    let (rate, latency) = (Rational::integer(100), Rational::new(3036, 25).unwrap_or_default());
    let order = Multiplexing::Fifo;
    let parts =
        (0..servers).map(|s| Server::new(&format!("s{s}"), rate.clone(), latency.clone(), order));
    let flows = (0..servers).map(|from| {
        let envelope =
            Envelope::token_bucket(Rational::whole(80 / servers as u64), Rational::integer(12_144));
        Flow::new(&format!("f{from}"), envelope, (from..servers).collect())
    });
    Network::new(parts.collect(), flows.collect()).expect("loaded to 80 percent")
}

/// Servers in a row, each flow over a random part of them: paths part and meet again.
fn mesh(servers: usize, flows: usize) -> Network {
    let mut below = random();
    let link = Rational::integer(LINK);
    let latency = Rational::new(FRAME.into(), LINK.into()).unwrap_or_default();
    let order = Multiplexing::Fifo;
    let parts = (0..servers).map(|server| {
        Server::new(&format!("s{server}"), link.clone(), latency.clone(), order)
            .with_line(link.clone(), Rational::integer(FRAME))
    });
    let flows = (0..flows).map(|flow| {
        let mut path: Vec<usize> = (0..servers).filter(|_| below(2) == 0).collect();
        if path.is_empty() {
            path.push(0);
        }
        let rate = Rational::whole(LINK.unsigned_abs() / 2 / flows as u64 - below(1000));
        let envelope = Envelope::token_bucket(rate, Rational::whole(1 + below(200_000)));
        Flow::new(&format!("f{flow}"), envelope, path)
    });
    Network::new(parts.collect(), flows.collect()).expect("half loaded")
}

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

fn main() {
    println!("star of {HOSTS} hosts, all flows: total flow with line shaping and separated flow");
    for flows in [10, 100, 1000, 3000] {
        let network = star(flows);
        let time = median(7, || {
            let analysis = Analysis::new(&network).expect("stable");
            black_box(analysis.fast_of_all());
        });
        println!("  {flows:5} flows {time:10.1?}");
    }
    println!("star of {HOSTS} hosts, all flows: the least of all methods that apply");
    for flows in [10, 100, 1000] {
        let network = star(flows);
        let time = median(3, || {
            let analysis = Analysis::new(&network).expect("stable");
            black_box(analysis.least_of_all());
        });
        println!("  {flows:5} flows {time:10.1?}");
    }
    println!("sink tree, longest flow: linear program with its proof");
    for servers in [2, 4, 8, 12, 16] {
        let analysis = Analysis::new(&sink_tree(servers)).expect("stable");
        let bound = analysis.bound(0, Method::FifoProgram);
        let time = median(3, || {
            black_box(analysis.bound(0, Method::FifoProgram));
        });
        let delay = bound.delay.map(|delay| delay.to_f64());
        println!("  {servers:5} servers {time:10.1?} delay {delay:?} {:?}", bound.program);
    }
    println!("mesh, linear programs of all flows");
    for (servers, flows) in [(4, 8), (6, 12), (8, 16)] {
        let analysis = Analysis::new(&mesh(servers, flows)).expect("stable");
        let mut largest = None;
        let time = median(3, || {
            for flow in 0..flows {
                let bound = analysis.bound(flow, Method::FifoProgram);
                let rows = |size: &Option<towpath_bound::ProgramSize>| size.map(|s| s.rows);
                if rows(&bound.program) > rows(&largest) {
                    largest = bound.program;
                }
            }
        });
        let each = time / u32::try_from(flows).unwrap_or(1);
        println!("  {servers} servers {flows:3} flows {each:10.1?} each, largest {largest:?}");
    }
}
