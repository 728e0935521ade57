//! Makes the namespaces and the path, runs every case, reports.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use towpath_sim::link::LinkSpec;

use super::super::args::Pins;
use super::super::content::Content;
use super::super::far::{ANY, Far};
use super::super::talk::Serve;
use super::super::{floor, netns};
use super::args::RelayArgs;
use super::cases::{Bed, Case, Times};
use super::path::{ETHERNET, Path};
use super::report::{Report, Transfer};

/// For finding out what the tap itself can do: no path, only its thread.
const CEILING: LinkSpec = LinkSpec {
    rate_bps: 100_000_000_000,
    delay_us: 0,
    queue_bytes: 64 << 20,
    framing_bytes: ETHERNET,
    ..LinkSpec::PLAIN
};
const CEILING_TIME: Duration = Duration::from_secs(2);

pub(in super::super) fn run(args: &RelayArgs) -> anyhow::Result<ExitCode> {
    args.check()?;
    if !args.inside {
        return Err(netns::enter().context("cannot make a network namespace"));
    }
    let report = measure(args)?;
    if args.json {
        putln!("{}", report.json())?;
    } else {
        put!("{}", report.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Two peers in the second namespace, the path between it and this one.
fn bed() -> anyhow::Result<Bed> {
    let mut path = None;
    let near = Far::launch(netns::second(), Pins(None), ANY, |pid| {
        path = Some(Path::start(netns::join_by_tun(pid)?, CEILING)?);
        Ok(netns::PEER)
    })?;
    let beside = netns::beside(near.process().context("the peer is a child")?);
    let tcp = Far::launch(beside, Pins(None), netns::PEER, |_| Ok(netns::PEER))?;
    // A piece that is lost several times holds up all that follows: much credit, for the longest.
    let window = towpath_proto::Config::default().window_max;
    Ok(Bed { path: path.context("the tap runs")?, far: [near, tcp], window })
}

fn measure(args: &RelayArgs) -> anyhow::Result<Report> {
    let mut bed = bed()?;
    let (remote, _) = bed.far[0].serve(Serve::UdpSink)?;
    let ceiling = floor::udp_source(bed.far[0].near, remote, CEILING_TIME)?;
    bed.far[0].done()?;
    let cases = if args.only_bytes { Vec::new() } else { cases(args) };
    let transfer = args.bytes;
    let bar = ProgressBar::new(cases.len() as u64 + u64::from(transfer.is_some()));
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}: {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let times = Times { settle: args.settle, measured: args.seconds };
    let mut shares = Vec::new();
    for case in cases {
        bar.set_message(case.name());
        bed.path.become_link(args.spec())?;
        let share = bed.run(&case, times).with_context(|| case.name())?;
        shares.push((case, share));
        bar.inc(1);
    }
    let mut done = None;
    if let Some(bytes) = transfer {
        bar.set_message("checked messages");
        bed.path.become_link(args.spec())?;
        let content = Content { seed: 1, bytes: bytes.as_bytes(), next: 0 };
        let sent = bed.transfer(content)?;
        let path = bed.path.read()?;
        done = Some(Transfer { bytes: bytes.as_bytes(), sent, path });
    }
    bar.finish_and_clear();
    Ok(Report { spec: args.spec(), times, ceiling, shares, transfer: done })
}

fn cases(args: &RelayArgs) -> Vec<Case> {
    let mut cases: Vec<Case> = args.tcp().map(|c| Case::Tcp(c.into())).collect();
    cases.push(Case::Ours);
    for control in args.tcp() {
        cases.push(Case::Both(control.into(), true));
        cases.push(Case::Both(control.into(), false));
    }
    cases
}
