//! A refusal in words: the bottleneck, by how much, what would pass.

use towpath_qos::admission::file::Asked;
use towpath_qos::admission::{Nearest, Phase, Refusal, Resource, Shortage};
use towpath_qos::spec::TSpecForm;

use crate::words::{bits_text, bps_text, ns_text};

/// `port s1:trunk`.
pub(super) fn resource(resource: &Resource) -> String {
    match resource {
        Resource::Cpu(host) => format!("processor of {host}"),
        Resource::Port(port) => format!("port {port}"),
        Resource::Fabric(switch) => format!("fabric of {switch}"),
        Resource::Memory(place) => format!("queue memory of {place}"),
        Resource::Route(route) => format!("route {route}"),
        Resource::Table => "the table of reservations".to_string(),
    }
}

/// Who refused.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Request => "the request itself",
        Phase::Source => "its source",
        Phase::Destination => "its destination",
        Phase::Route => "the route",
    }
}

/// What is asked, what there is, and the difference.
pub(super) fn shortage(shortage: &Shortage) -> String {
    let ppm = |value: u64| format!("{:.2} %", value as f64 / 1e4);
    let of = |what: &str, asked: u64, free: u64, text: &dyn Fn(u64) -> String| {
        let short = asked.saturating_sub(free);
        format!("{what}: {} asked, {} free, short by {}", text(asked), text(free), text(short))
    };
    match *shortage {
        Shortage::RateBps { asked, free } => of("rate on the wire", asked, free, &bps_text),
        Shortage::MemoryBits { asked, free } => {
            of("memory", asked, free, &|bits| bits_text(bits.into()))
        }
        Shortage::CpuPpm { asked, free } => of("processor time", asked, free, &ppm),
        Shortage::CpuBurstNs { asked, free } => {
            of("a burst's processor time", asked, free, &ns_text)
        }
        Shortage::DelayNs { asked, least } => least_of("delay", asked, least),
        Shortage::JitterNs { asked, least } => least_of("jitter", asked, least),
        Shortage::DueBits { window_ns, asked, limit } => format!(
            "bursts: {} due within {} with it, {} can be sent, short by {}",
            bits_text(asked.into()),
            ns_text(window_ns),
            bits_text(limit.into()),
            bits_text(asked.saturating_sub(limit).into())
        ),
        Shortage::PacketBits { asked, limit } => format!(
            "packets of {}, where {} go in one piece at most",
            bits_text(asked.into()),
            bits_text(limit.into())
        ),
        Shortage::Late { asked, free } => format!(
            "late too often: {} on average, {} left by hard promises",
            bps_text(asked),
            bps_text(free)
        ),
        Shortage::Unreachable { asked, fixed } => format!(
            "delay: {} asked, propagation and processors alone take {}",
            ns_text(asked),
            ns_text(fixed)
        ),
        ref other => other.to_string(),
    }
}

fn least_of(what: &str, asked: u64, least: u64) -> String {
    format!(
        "{what}: {} asked, {} is the least that can be promised, {} more",
        ns_text(asked),
        ns_text(least),
        ns_text(least.saturating_sub(asked))
    )
}

/// The traffic that is named instead, as it would be asked for.
pub(super) fn instead(asked: &Asked, refusal: &Refusal) -> Option<TSpecForm> {
    let (Nearest::Scaled { parts, .. } | Nearest::ScaledDelayNs { parts, .. }) = refusal.nearest?
    else {
        return None;
    };
    Some(asked.share(parts)?.0)
}

/// The nearest request that passes.
pub(super) fn nearest(refusal: &Refusal) -> String {
    // Rounded down: what is read here must pass as well.
    let share = |parts: u32| {
        let tenths = u64::from(parts) * 1000 / 1024;
        format!("{}.{} %", tenths / 10, tenths % 10)
    };
    match refusal.nearest {
        None if refusal.nothing_passes => "nothing of the kind passes".to_string(),
        None => "none was found; a smaller one may pass".to_string(),
        Some(Nearest::DelayNs(ns)) => format!("the same traffic with delay_ns = {ns}"),
        Some(Nearest::JitterNs(ns)) => format!("the same traffic with jitter_ns = {ns}"),
        Some(Nearest::Scaled { parts, rate_bps }) => format!(
            "the same bound with all rates and bursts at {} ({} on the wire)",
            share(parts),
            bps_text(rate_bps)
        ),
        Some(Nearest::ScaledDelayNs { parts, rate_bps, delay_ns }) => format!(
            "all rates and bursts at {} ({} on the wire) with delay_ns = {delay_ns}",
            share(parts),
            bps_text(rate_bps)
        ),
    }
}
