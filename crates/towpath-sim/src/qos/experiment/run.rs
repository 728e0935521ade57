//! Runs an experiment.

use core::time::Duration;

use towpath_wire::Instant;

use super::build::Plan;
use super::report::{ChannelReport, Comparison, HostReport, PortReport, Report, Smooth};
use super::scenario::{Admission, Quantity, Scenario, ScenarioError};
use crate::qos::histogram::Summary;
use crate::qos::network::{FlowStats, Network, Point};
use crate::qos::signal::{self, Request, SignalLink, SignalNetwork, SignalReport, Verdict};

/// Admits the channels, runs those admitted, and puts the results beside the source's.
pub fn run(scenario: &Scenario) -> Result<Report, ScenarioError> {
    scenario.check()?;
    let plan = Plan::new(scenario)?;
    let signalling = set_up(&plan)?;
    let verdict = |i: usize| signalling.as_ref().map(|s| s.outcomes[i].verdict);
    let (mut net, flows) =
        plan.network(|i| !matches!(verdict(i), Some(Verdict::Refused { .. } | Verdict::Pending)))?;
    net.run_until(Instant::ZERO + Duration::from_millis(scenario.duration_ms));
    let none = FlowStats::default();
    let stats = |i: usize| flows[i].and_then(|f| net.flow(f)).unwrap_or(&none);
    let channels = (0..scenario.channels.len())
        .map(|i| channel_report(&plan, i, stats(i), verdict(i)))
        .collect();
    let references = scenario.references.iter().filter_map(|r| {
        let i = scenario.channels.iter().position(|c| c.name == r.channel)?;
        let theirs: Vec<u64> = r.values_us.iter().map(|us| us.saturating_mul(1000)).collect();
        let (ours, value): (_, fn(&Point) -> u64) = match r.quantity {
            Quantity::Delay => (&stats(i).delay, |p| p.delay_ns),
            Quantity::Gap => (&stats(i).gap, |p| p.gap_ns),
        };
        let smooth = r.interruption_us.map(|us| {
            let ours: Vec<u64> = stats(i).series.iter().take(theirs.len()).map(value).collect();
            Smooth::new(us.saturating_mul(1000), &theirs, &ours)
        });
        Some(Comparison {
            label: r.label.clone(),
            channel: r.channel.clone(),
            quantity: r.quantity,
            theirs: Summary::of(&theirs),
            ours: ours.summary(),
            theirs_us: r.values_us.clone(),
            smooth,
        })
    });
    let references = references.collect();
    Ok(Report {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        duration_ms: scenario.duration_ms,
        channels,
        ports: ports(&plan, &net),
        hosts: hosts(&plan, &net),
        references,
        packet_hops: net.packet_hops(),
        trace: format!("{:016x}", net.trace()),
        signalling,
    })
}

/// Sets the reservations up before anything is sent, all asked for at once.
fn set_up(plan: &Plan<'_>) -> Result<Option<SignalReport>, ScenarioError> {
    let scenario = plan.scenario;
    let links = plan.egresses.iter().map(|e| SignalLink {
        name: e.name.clone(),
        capacity_bps: e.rate_bps,
        rsvp: scenario
            .switches
            .get(e.node.wrapping_sub(scenario.hosts.len()))
            .is_none_or(|s| s.rsvp),
    });
    let network = SignalNetwork { links: links.collect() };
    let request = |i: usize| Request {
        at_us: scenario.channels[i].start_us,
        route: plan.routes[i].2.clone(),
        rate_bps: plan.reserved_bps(i),
        leave_us: None,
        die_us: None,
    };
    let requests: Vec<Request> = (0..scenario.channels.len()).map(request).collect();
    let until_us = scenario.duration_ms * 1000;
    let set_up = match scenario.admission {
        Admission::None => return Ok(None),
        Admission::TwoPhase => signal::master::run,
        Admission::Rsvp => signal::rsvp::run,
    };
    Ok(Some(set_up(&network, &scenario.signalling, &requests, until_us, scenario.seed)?))
}

fn channel_report(
    plan: &Plan<'_>,
    i: usize,
    s: &FlowStats,
    verdict: Option<Verdict>,
) -> ChannelReport {
    let c = &plan.scenario.channels[i];
    let wire_bps = s.rate_bps();
    let wire = u128::from(c.packet_bytes + plan.scenario.overhead_bytes);
    ChannelReport {
        name: c.name.clone(),
        verdict,
        reserved_bps: plan.reserved_bps(i),
        released: s.released,
        delivered: s.delivered,
        lost_queue: s.lost_queue,
        lost_host: s.lost_host,
        payload_bps: (u128::from(wire_bps) * u128::from(c.packet_bytes) / wire) as u64,
        wire_bps,
        delay: s.delay.summary(),
        gap: s.gap.summary(),
        shaping: s.shaping.summary(),
        jitter_ns: s.jitter_ns(),
        bound_ns: None,
        beyond: s.beyond,
        first_miss: s.first_miss,
        series: s.series.clone(),
    }
}

fn ports(plan: &Plan<'_>, net: &Network) -> Vec<PortReport> {
    let ms = u128::from(plan.scenario.duration_ms);
    let report = |(i, e): (usize, &super::build::Egress)| {
        let stats = net.port(i as u32).copied().unwrap_or_default();
        let could = u128::from(e.rate_bps) * ms;
        PortReport {
            name: e.name.clone(),
            rate_bps: e.rate_bps,
            busy_ppm: (u128::from(stats.bytes) * 8_000_000_000 / could.max(1)) as u64,
            stats,
        }
    };
    plan.egresses.iter().enumerate().map(report).collect()
}

fn hosts(plan: &Plan<'_>, net: &Network) -> Vec<HostReport> {
    let ns = u128::from(plan.scenario.duration_ms) * 1_000_000;
    let report = |(i, h): (usize, &super::scenario::HostNode)| HostReport {
        name: h.name.clone(),
        busy_ppm: (u128::from(net.host_busy_ns(i as u32).unwrap_or(0)) * 1_000_000 / ns) as u64,
    };
    plan.scenario.hosts.iter().enumerate().map(report).collect()
}
