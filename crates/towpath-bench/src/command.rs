//! The measuring process: finds or starts its peer, measures every row in every round.

use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use towpath_io::udp::TRAIN_BYTES;

use super::args::{BenchArgs, BenchCommand, LinkArgs};
use super::far::Far;
use super::report::Report;
use super::row::{Sample, What};
use super::side::DATAGRAM;
use super::talk::Serve;
use super::{floor, machine, netns, ours, peer, relay, tasks, udp_train};

/// Measures what the command line asks for. The process is the command itself: it starts further
/// ones of its own program.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        BenchCommand::Link(args) => link(args),
        BenchCommand::Relay(args) => relay::run(args),
        BenchCommand::Echo(args) => tasks::echo(args),
        BenchCommand::Barrier(args) => tasks::barrier(args),
        BenchCommand::Multicast(args) => tasks::multicast(args),
        BenchCommand::Exchange(args) => tasks::exchange(args),
        BenchCommand::Spawn(args) => tasks::spawn(args),
        BenchCommand::Member(args) => tasks::member(args),
    }
}

fn link(args: &LinkArgs) -> anyhow::Result<ExitCode> {
    if args.netns {
        return Err(netns::enter().context("cannot make a network namespace"));
    }
    if let Some(addr) = args.listen {
        peer::listen(addr, args.pins().0.map(|p| p.1), args.child)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((processor, _)) = args.pins().0 {
        machine::pin(processor)?;
    }
    let mut far = match args.connect {
        Some(addr) => Far::reach(addr, None)?,
        None => Far::start(args.inside, args.pins())?,
    };
    let report = measure(args, &mut far)?;
    if args.json {
        putln!("{}", report.json())?;
    } else {
        put!("{}", report.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `mtu`: of the route.
fn rows(args: &LinkArgs, iperf: bool, mtu: Option<u32>) -> Vec<What> {
    let polls = if args.poll { &[false, true][..] } else { &[false] };
    let mut rows = vec![What::UdpSingles, What::UdpTrains { datagram: DATAGRAM as u16 }];
    // What an association finds the way to take.
    let longest = TRAIN_BYTES as u16;
    rows.extend((mtu >= Some(65_535)).then_some(What::UdpTrains { datagram: longest }));
    rows.push(What::TcpStream);
    rows.extend(iperf.then_some(What::Iperf));
    rows.extend(polls.iter().map(|&poll| What::UdpEcho { poll }));
    rows.extend(polls.iter().map(|&poll| What::TcpEcho { poll }));
    let largest = args.message.iter().copied().max().unwrap_or(1 << 20);
    for trusted in [false, true] {
        if (trusted && args.encrypted) || (!trusted && args.trusted) {
            continue;
        }
        rows.extend(args.message.iter().map(|&len| What::Bulk { trusted, len }));
        rows.extend(polls.iter().map(|&poll| What::Trips { trusted, poll }));
        rows.push(What::Loaded { trusted, len: largest });
    }
    if let Some(words) = &args.only {
        rows.retain(|row| row.name().contains(words));
    }
    rows
}

fn measure(args: &LinkArgs, far: &mut Far) -> anyhow::Result<Report> {
    let version = Command::new("iperf3").arg("--version").stdin(Stdio::null()).output();
    let iperf = version.is_ok_and(|out| out.status.success());
    let mtu = towpath_io::udp::route_mtu(SocketAddr::new(far.ip, 9)).ok();
    let rows = rows(args, iperf, mtu);
    if rows.is_empty() {
        bail!("no row has {:?} in its name", args.only.as_deref().unwrap_or_default());
    }
    let bar = ProgressBar::new(u64::from(args.runs) * rows.len() as u64);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}, {eta} left: {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut samples = vec![Vec::new(); rows.len()];
    for round in 1..=args.runs {
        for (row, samples) in rows.iter().zip(&mut samples) {
            bar.set_message(format!("round {round} of {}, {}", args.runs, row.name()));
            let sample = one(*row, far, args.seconds);
            samples.push(sample.with_context(|| format!("measuring {:?}", row.name()))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let route = match (args.inside, args.connect) {
        (true, _) => "veth between two network namespaces",
        (_, Some(_)) => "to a listener",
        _ => "loopback",
    };
    Ok(Report {
        route: format!("{route}, {} to {}", far.near.ip(), far.ip),
        mtu,
        pins: args.pins(),
        seconds: args.seconds.as_secs_f64(),
        iperf,
        rows: rows.into_iter().zip(samples).collect(),
    })
}

fn one(row: What, far: &mut Far, time: Duration) -> anyhow::Result<Sample> {
    let near = far.near;
    let association = |trusted, poll, len| {
        let window = ours::window(len);
        Serve::Association { trusted, poll, window, content: None }
    };
    let serve = match row {
        What::UdpSingles => Serve::UdpSink,
        What::UdpTrains { .. } => Serve::UdpTrains,
        What::UdpEcho { poll } => Serve::UdpEcho { poll },
        What::TcpStream => Serve::TcpSink,
        What::TcpEcho { poll } => Serve::TcpEcho { poll },
        What::Iperf => Serve::Iperf,
        What::Bulk { trusted, len } | What::Loaded { trusted, len } => {
            association(trusted, false, len)
        }
        What::Trips { trusted, poll } => association(trusted, poll, floor::SHORT as u32),
    };
    let (remote, ready) = far.serve(serve)?;
    let peer = ours::Peer { remote, key: ready.key.unwrap_or_default() };
    let flow = match row {
        What::UdpSingles => floor::udp_source(near, remote, time)?,
        What::UdpTrains { datagram } => udp_train::source(near, remote, datagram, time)?,
        What::TcpStream => floor::tcp_source(remote, time)?,
        What::Bulk { len, .. } => ours::bulk(near, &peer, serve, len, time)?,
        What::Iperf => {
            let sample = iperf(remote, time);
            far.done()?;
            return sample;
        }
        _ => {
            let cpu = machine::cpu_s();
            let ns = match row {
                What::UdpEcho { poll } => floor::udp_trips(near, remote, poll, time)?,
                What::TcpEcho { poll } => floor::tcp_trips(remote, poll, time)?,
                What::Loaded { len, .. } => ours::trips(near, &peer, serve, Some(len), time)?,
                _ => ours::trips(near, &peer, serve, None, time)?,
            };
            // The first tenth of the time is not among the round trips.
            let cpu_s = 0.9 * (machine::cpu_s() - cpu);
            far.done()?;
            return Sample::trips(ns, cpu_s);
        }
    };
    Ok(Sample::flow(&flow, &far.done()?))
}

/// What iperf3 itself measured with one TCP stream.
fn iperf(remote: SocketAddr, time: Duration) -> anyhow::Result<Sample> {
    let (ip, port) = (remote.ip().to_string(), remote.port().to_string());
    let seconds = time.as_secs_f64().ceil().max(1.0).to_string();
    for _ in 0..50 {
        let out = Command::new("iperf3")
            .args(["--json", "--client", &ip, "--port", &port, "--time", &seconds])
            .stdin(Stdio::null())
            .output()?;
        if !out.status.success() {
            // Its server may not listen yet.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let said: serde_json::Value = serde_json::from_slice(&out.stdout)?;
        let bps = said.pointer("/end/sum_received/bits_per_second");
        let bps = bps.and_then(serde_json::Value::as_f64).context("iperf3 tells no rate")?;
        return Ok(Sample { bytes_per_s: Some(bps / 8.0), ..Sample::default() });
    }
    bail!("iperf3 does not reach its server at {remote}")
}
