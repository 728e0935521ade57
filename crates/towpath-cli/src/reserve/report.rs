//! Answers as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use towpath_qos::admission::file::{Asked, Want};
use towpath_qos::admission::{CpuLoad, Phase, Promise, Refusal};
use towpath_qos::spec::{TSpec, TSpecForm};
use towpath_qos::topology::{NodeId, Topology};
use towpath_report::text::harmless;

use super::decide::{Answer, Decided};
use super::refusal;
use crate::plot::{Column, Table};
use crate::words::{bits_text, bps_text, ns_text, percent};

/// Requests up to which promises are told hop by hop without being asked for.
const HOPS_SHOWN: usize = 8;

fn name_of(topology: &Topology, id: NodeId) -> String {
    topology.node(id).map_or(String::new(), |n| n.name.clone())
}

fn wanted(want: Want) -> (&'static str, String) {
    let ns = |d: std::time::Duration| ns_text(towpath_wire::units::nanos(d));
    match want {
        Want::Bounded { delay, jitter: None } => ("bounded", ns(delay)),
        Want::Bounded { delay, jitter: Some(jitter) } => {
            ("bounded", format!("{} ± {}", ns(delay), ns(jitter)))
        }
        Want::Statistical { delay, late_ppm } => {
            let late = format!("{:.4}", f64::from(late_ppm) / 1e4);
            let late = late.trim_end_matches('0').trim_end_matches('.');
            ("statistical", format!("{}, {late} % late", ns(delay)))
        }
        Want::Share { priority } => ("share", format!("priority {priority}")),
        Want::BestEffort => ("best effort", String::new()),
    }
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Admitted(_) => "admitted",
        Answer::Refused(_) => "refused",
        Answer::WithSet(..) => "not reserved",
        Answer::BestEffort => "not counted",
    }
}

/// Everything a person asks for.
pub(super) fn text(topology: &Topology, decided: &Decided, hops: bool) -> String {
    let mut out = requests(topology, decided).text();
    for (asked, answer) in decided.asked.iter().zip(&decided.answers) {
        match answer {
            Answer::Refused(refusal) => out.push_str(&refused(asked, refusal)),
            Answer::WithSet(other, _) => {
                let other = &decided.asked[*other].name;
                let _ = write!(
                    out,
                    "\n{}: not reserved, since {other} of its set is refused\n",
                    asked.name
                );
            }
            Answer::Admitted(_) if hops || decided.asked.len() <= HOPS_SHOWN => {
                let promise = decided.promise(answer);
                out.push_str(&promise.map_or_else(String::new, |p| promised(asked, &p)));
            }
            Answer::Admitted(_) | Answer::BestEffort => {}
        }
    }
    let ports = ports(topology, decided);
    if !ports.is_empty() {
        out.push('\n');
        out.push_str(&ports.text());
    }
    let cpus = cpus(topology, decided);
    if !cpus.is_empty() {
        out.push('\n');
        out.push_str(&cpus.text());
    }
    let _ = writeln!(out, "\n{}", summary(decided));
    out
}

/// How many there are of each answer; together they are all.
fn summary(decided: &Decided) -> String {
    let count = |is: fn(&Answer) -> bool| decided.answers.iter().filter(|a| is(a)).count();
    let refused = count(|a| matches!(a, Answer::Refused(_)));
    let mut out = format!(
        "{} requests: {} admitted, {refused} refused",
        decided.asked.len(),
        decided.admitted()
    );
    for (n, what) in [
        (count(|a| matches!(a, Answer::WithSet(..))), "not reserved with their sets"),
        (count(|a| matches!(a, Answer::BestEffort)), "best effort, which are not counted"),
    ] {
        if n > 0 {
            let _ = write!(out, ", {n} {what}");
        }
    }
    out
}

fn requests(topology: &Topology, decided: &Decided) -> Table {
    let mut table = Table::new(&[
        Column::words("REQUEST", ""),
        Column::words("FROM", ""),
        Column::words("TO", ""),
        Column::words("CLASS", ""),
        Column::words("SERVICE", ""),
        Column::figures("RATE", ""),
        Column::words("ASKED", ""),
        Column::words("ANSWER", ""),
        Column::figures("BOUND", ""),
        Column::figures("JITTER", ""),
    ]);
    for (asked, answer) in decided.asked.iter().zip(&decided.answers) {
        let (service, wish) = wanted(asked.want);
        let promise = decided.promise(answer);
        let bound = |ns: fn(&Promise) -> Option<u64>| {
            promise.as_ref().and_then(ns).map_or("-".to_string(), ns_text)
        };
        let cells = [
            asked.name.clone(),
            name_of(topology, asked.from),
            name_of(topology, asked.to),
            asked.class.as_ref().map_or("-".into(), |(name, _)| name.clone()),
            service.to_string(),
            bps_text(asked.demand.buckets.sustained_bps()),
            wish,
            kind(answer).to_string(),
            bound(|p| p.delay_ns),
            bound(|p| p.jitter_ns),
        ];
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    table
}

fn refused(asked: &Asked, refusal: &Refusal) -> String {
    let mut out = format!("\n{}: refused by {}\n", asked.name, refusal::phase(refusal.phase));
    if refusal.phase != Phase::Request {
        let _ = writeln!(out, "  bottleneck  {}", refusal::resource(&refusal.resource));
    }
    let _ = writeln!(out, "  short       {}", refusal::shortage(&refusal.shortage));
    let _ = writeln!(out, "  passes      {}", refusal::nearest(refusal));
    let instead = refusal::instead(asked, refusal);
    if let Some(line) = instead.as_ref().and_then(crate::tspec::toml_line) {
        let _ = writeln!(out, "  with        {line}");
    }
    out
}

fn promised(asked: &Asked, promise: &Promise) -> String {
    let mut table = Table::new(&[
        Column::words("  HOP", ""),
        Column::figures("DELAY", ""),
        Column::figures("FIXED", ""),
        Column::figures("JITTER IN", ""),
        Column::figures("BURST IN", ""),
        Column::figures("MEMORY", ""),
        Column::figures("RATE", ""),
        Column::words("LEVEL", ""),
    ]);
    let mut row = |cells: [String; 8]| {
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    };
    let cpu = |what: &str, ns: u64| {
        let mut cells = [const { String::new() }; 8];
        cells[0] = format!("  {what}");
        cells[1] = ns_text(ns);
        cells
    };
    if promise.source_cpu_ns > 0 {
        row(cpu("sender's processor", promise.source_cpu_ns));
    }
    for hop in &promise.hops {
        row([
            format!("  {}", hop.port),
            ns_text(hop.delay_ns),
            ns_text(hop.fixed_ns),
            ns_text(hop.jitter_in_ns),
            bits_text(hop.burst_bits.into()),
            bits_text(hop.buffer_bits.into()),
            bps_text(hop.rate_bps),
            hop.level.map_or(String::new(), |l| l.to_string()),
        ]);
    }
    if promise.destination_cpu_ns > 0 {
        row(cpu("receiver's processor", promise.destination_cpu_ns));
    }
    let bound = match (promise.delay_ns, asked.want) {
        (None, _) => "no bound on delay".to_string(),
        (Some(ns), Want::Statistical { .. }) => format!("dropped when later than {}", ns_text(ns)),
        (Some(ns), _) => format!("no packet later than {}", ns_text(ns)),
    };
    format!("\n{}: {bound}\n{}", asked.name, table.text())
}

/// Ports with anything reserved, fullest first.
fn ports(topology: &Topology, decided: &Decided) -> Table {
    let mut table = Table::new(&[
        Column::words("PORT", ""),
        Column::words("SCHEDULER", ""),
        Column::figures("CHANNELS", ""),
        Column::figures("RESERVED", ""),
        Column::figures("OF", ""),
        Column::figures("SHARE", ""),
        Column::figures("MEMORY", ""),
        Column::figures("OF", ""),
    ]);
    let mut loads = decided.ports.clone();
    loads.sort_by(|a, b| {
        let share = |l: &super::decide::PortLoad| decided.share(topology, l.port);
        share(b).total_cmp(&share(a)).then(a.port.cmp(&b.port))
    });
    for load in loads {
        let Some(port) = topology.port(load.port) else { continue };
        let cells = [
            topology.port_name(load.port).to_string(),
            port.scheduler.to_string(),
            load.channels.to_string(),
            bps_text(load.rate_bps),
            bps_text(port.rate_bps),
            percent(load.rate_bps as f64 / port.rate_bps as f64),
            bits_text(load.buffer_bits.into()),
            bits_text(port.queue_bits.into()),
        ];
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    table
}

/// Processors with anything reserved, in the order of the hosts.
fn cpus(topology: &Topology, decided: &Decided) -> Table {
    let mut table = Table::new(&[
        Column::words("PROCESSOR OF", ""),
        Column::figures("RESERVED", ""),
        Column::figures("OF", ""),
        Column::figures("SHARE", ""),
        Column::figures("BURSTS", ""),
        Column::figures("OF", ""),
    ]);
    let part = |ppm: u64| percent(ppm as f64 / 1e6);
    for (node, load) in &decided.cpus {
        let cells = [
            name_of(topology, *node),
            part(load.reserved_ppm),
            part(load.limit_ppm),
            percent(load.reserved_ppm as f64 / load.limit_ppm as f64),
            ns_text(load.burst_ns),
            ns_text(load.burst_limit_ns),
        ];
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    table
}

fn refusal_json(refusal: &Refusal) -> Value {
    let mut value = serde_json::to_value(refusal).unwrap_or_default();
    value["text"] = json!(format!(
        "{}: {}",
        refusal::resource(&refusal.resource),
        refusal::shortage(&refusal.shortage)
    ));
    value
}

/// Schedules of the answers, each once, in the order in which requests name them.
#[derive(Default)]
struct Schedules {
    numbers: BTreeMap<*const TSpec, usize>,
    forms: Vec<TSpecForm>,
}

impl Schedules {
    /// A specification; a schedule, which may have thousands of points and be that of thousands of
    /// channels, by its number.
    fn spec_json(&mut self, spec: &Arc<TSpec>) -> Value {
        if !matches!(**spec, TSpec::Schedule(_)) {
            return json!(TSpecForm::from(&**spec));
        }
        let number = *self.numbers.entry(Arc::as_ptr(spec)).or_insert_with(|| {
            self.forms.push(TSpecForm::from(&**spec));
            self.forms.len() - 1
        });
        json!({ "kind": "schedule", "schedule": number })
    }
}

/// A request with its answer.
fn request_json(
    topology: &Topology,
    decided: &Decided,
    (asked, answer): (&Asked, &Answer),
    schedules: &mut Schedules,
) -> Value {
    let (service, _) = wanted(asked.want);
    let mut value = json!({
        "name": asked.name, "from": name_of(topology, asked.from),
        "to": name_of(topology, asked.to), "set": asked.set, "service": service,
        "class": asked.class.as_ref().map(|c| &c.0),
        "dscp": asked.class.as_ref().map(|c| c.1.dscp),
        "user_priority": asked.class.as_ref().map(|c| c.1.priority),
        "tspec": schedules.spec_json(&asked.spec),
        "wire_rate_bps": asked.demand.buckets.sustained_bps(),
        "wire_packet_bytes": asked.demand.packet_bits / 8,
        "answer": kind(answer),
    });
    match answer {
        Answer::Admitted(_) => value["promise"] = json!(decided.promise(answer)),
        Answer::Refused(refusal) => {
            value["refusal"] = refusal_json(refusal);
            value["refusal"]["nearest_tspec"] = json!(refusal::instead(asked, refusal));
        }
        Answer::WithSet(other, refusal) => {
            value["because_of"] = json!(decided.asked[*other].name);
            value["refusal"] = refusal_json(refusal);
        }
        Answer::BestEffort => {}
    }
    value
}

/// Everything a program asks for, one request after the other: never all of them in memory.
pub(super) fn write_json(
    out: &mut impl Write,
    topology: &Topology,
    decided: &Decided,
) -> io::Result<()> {
    let mut schedules = Schedules::default();
    let port = |load: &super::decide::PortLoad| {
        json!({
            "port": topology.port_name(load.port).to_string(), "channels": load.channels,
            "reserved_bps": load.rate_bps,
            "rate_bps": topology.port(load.port).map_or(0, |p| p.rate_bps),
            "memory_bytes": load.buffer_bits.div_ceil(8),
        })
    };
    let cpu = |(node, load): &(NodeId, CpuLoad)| {
        json!({
            "host": name_of(topology, *node),
            "reserved_ppm": load.reserved_ppm, "limit_ppm": load.limit_ppm,
            "burst_ns": load.burst_ns, "burst_limit_ns": load.burst_limit_ns,
        })
    };
    out.write_all(b"{\"version\":1,\"requests\":[")?;
    for (k, one) in decided.asked.iter().zip(&decided.answers).enumerate() {
        if k > 0 {
            out.write_all(b",")?;
        }
        let request = request_json(topology, decided, one, &mut schedules).to_string();
        out.write_all(harmless(&request).as_bytes())?;
    }
    let rest = [
        ("schedules", json!(schedules.forms)),
        ("ports", decided.ports.iter().map(port).collect()),
        ("processors", decided.cpus.iter().map(cpu).collect()),
        ("admitted", json!(decided.admitted())),
        ("refused", json!(decided.refused())),
    ];
    out.write_all(b"]")?;
    for (key, value) in rest {
        write!(out, ",\"{key}\":{}", harmless(&value.to_string()))?;
    }
    out.write_all(b"}\n")
}
