//! `metrics`: what this machine's daemons measure, in Prometheus' text format or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Error, anyhow, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use towpath::protocol::{Reply, Request};
use towpath::{Client, VmDir};
use towpath_report::text::causes;
use towpath_vm::HostState;
use towpath_vm::metrics::table::{GROUPS, PURPOSES, group};
use towpath_vm::metrics::{Group, Kind, Label, Metric, Row, Series, Store, Unit};
use towpath_wire::histogram::Histogram;
use towpath_wire::{HostId, TaskId};

use crate::control::{self, ANSWER, among_hosts, find_host, host_table};
use crate::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath metrics                   all there is, once, in Prometheus' text format
  towpath metrics --json            the same as one JSON object for each daemon
  towpath metrics --every 1s --json | jq -c '.series[] | select(.group == \"link\")'
  towpath metrics --host h2         of this host, wherever it is
  towpath metrics --all             of every host, by this machine's daemons

Of the host: endpoint, virtual machine, daemon. Of each link, each association with another host
(label peer), each task, each channel of a task. A label is a host, task, link or channel by its
number: no names, no arguments. docs/observation.md lists all metrics.

For Prometheus' node exporter (textfile collector), each minute:
  towpath metrics >/var/lib/node_exporter/towpath.$$ && \\
    mv /var/lib/node_exporter/towpath.$$ /var/lib/node_exporter/towpath.prom

With --every a daemon tells what changed since the last time; a reader that does not keep up is told
less often, and `lost` counts what was left out: moments, no numbers. A daemon has at most eight
such readers; who asks once is answered beside them. What a host of another machine measures is
asked of its daemon by this machine's: both have room for 64 of that. A daemon that ends, or does
not answer, is said so of, and left out from then on.

Exit status: 0 printed, 255 could not, or no daemon is left.")]
pub(crate) struct MetricsArgs {
    /// Only this host, on whatever machine: h2, 2, or its name
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// All hosts of the virtual machine, not this machine's alone
    #[arg(long, conflicts_with = "host")]
    all: bool,
    /// Print again and again, until interrupted: at least 100ms apart
    #[arg(long, value_name = "DURATION", value_parser = units::duration_between("100ms", "24h"))]
    every: Option<Duration>,
    /// Print JSON objects, one a line
    #[arg(long)]
    json: bool,
}

/// Hosts that are asked once at the same time.
const AT_ONCE: usize = 32;

/// A daemon that tells what it measures, and what it told.
struct Told {
    host: HostId,
    client: Client,
    store: Store,
}

impl Told {
    /// Asks the daemon of `client`, which is `here`, for what `host` measures.
    fn ask(mut client: Client, host: HostId, every: Option<Duration>) -> anyhow::Result<Self> {
        let every_ms = every.map(|every| u32::try_from(every.as_millis()).unwrap_or(u32::MAX));
        client.sender.send(&Request::Observe { host: Some(host), every_ms })?;
        Ok(Self { host, client, store: Store::default() })
    }

    /// Waits for the end of the next round.
    fn round(&mut self, timeout: Duration) -> anyhow::Result<()> {
        loop {
            let told = self.client.receiver.next(Some(timeout));
            match told.with_context(|| self.host.to_string())? {
                Some(Reply::Metrics(delta)) => {
                    let told = self.store.apply(&delta);
                    if told.with_context(|| format!("what {} tells", self.host))?.ends {
                        return Ok(());
                    }
                }
                Some(Reply::Failed(why)) => bail!("{}: {why}", self.host),
                Some(_) => bail!("the daemon answers something else than was asked"),
                None => bail!("the daemon of {} has not answered within {timeout:?}", self.host),
            }
        }
    }
}

/// Hosts whose daemons run here, by id.
fn here(vm: &VmDir) -> anyhow::Result<(BTreeMap<HostId, PathBuf>, Vec<Error>)> {
    let (mut here, mut failed) = (BTreeMap::new(), Vec::new());
    for socket in control::sockets(vm)? {
        match Client::connect(&socket).and_then(|mut client| client.info()) {
            Ok(info) => here.extend(info.me.map(|me| (me, socket))),
            Err(e) => failed.push(e.into()),
        }
    }
    Ok((here, failed))
}

/// A host, and the socket of the daemon that is to ask it.
type Way = (HostId, PathBuf);

/// Whom to ask, and by which daemon: hosts of other machines by one of this machine's.
fn wanted(vm: &VmDir, args: &MetricsArgs) -> anyhow::Result<(Vec<Way>, Vec<Error>)> {
    let (here, mut failed) = here(vm)?;
    let Some(by) = here.values().next() else {
        return Err(failed.pop().unwrap_or_else(absent));
    };
    let hosts: Vec<HostId> = if let Some(wanted) = &args.host {
        let mut client = Client::connect(by)?;
        [among_hosts(&mut client, |all| find_host(all, wanted))?.id].into()
    } else if args.all {
        let all = host_table(&mut Client::connect(by)?)?;
        all.iter().filter(|h| h.state == HostState::Up).map(|h| h.id).collect()
    } else {
        here.keys().copied().collect()
    };
    let by = |host: HostId| (host, here.get(&host).unwrap_or(by).clone());
    Ok((hosts.into_iter().map(by).collect(), failed))
}

/// Those of them that can be asked.
fn ask(some: &[Way], every: Option<Duration>, failed: &mut Vec<Error>) -> Vec<Told> {
    let ask = |(host, by): &Way| Told::ask(Client::connect(by)?, *host, every);
    let one = |asked: &Way| ask(asked).map_err(|e| failed.push(e)).ok();
    some.iter().filter_map(one).collect()
}

/// The next round of all that answer, who are no more after it where one round is all.
fn round(daemons: &mut Vec<Told>, timeout: Duration, failed: &mut Vec<Error>) {
    daemons.retain_mut(|daemon| {
        let told = daemon.round(timeout);
        told.map_err(|e| failed.push(e)).is_ok()
    });
}

pub(crate) fn metrics(vm: &VmDir, args: &MetricsArgs) -> anyhow::Result<ExitCode> {
    let (wanted, mut failed) = wanted(vm, args)?;
    let mut daemons = Vec::new();
    if args.every.is_none() {
        // No more at once than daemons take.
        for some in wanted.chunks(AT_ONCE) {
            let mut asked = ask(some, None, &mut failed);
            round(&mut asked, ANSWER, &mut failed);
            daemons.extend(asked);
        }
    } else {
        daemons = ask(&wanted, args.every, &mut failed);
    }
    if args.host.is_none() {
        for stopped in control::stopped(vm)? {
            eprintln!("warning: {stopped}");
        }
    }
    let mut timeout = ANSWER;
    loop {
        if args.every.is_some() {
            round(&mut daemons, timeout, &mut failed);
        }
        let mut failed = failed.drain(..);
        if daemons.is_empty() {
            return Err(failed.next_back().unwrap_or_else(absent));
        }
        for e in failed {
            eprintln!("warning: {}", causes(e.chain()));
        }
        let mut out = std::io::stdout().lock();
        if args.json {
            for daemon in &daemons {
                writeln!(out, "{}", as_json(daemon.host, &daemon.store))?;
            }
        } else {
            let all: Vec<_> = daemons.iter().map(|d| (d.host, &d.store)).collect();
            out.write_all(as_text(&all).as_bytes())?;
            if args.every.is_some() {
                writeln!(out)?;
            }
        }
        out.flush()?;
        let Some(every) = args.every else { return Ok(ExitCode::SUCCESS) };
        timeout = ANSWER + every;
    }
}

/// Why there is nothing to print though every daemon answers.
fn absent() -> anyhow::Error {
    anyhow!("no daemon here has joined yet\nhint: `towpath logs` shows what it tries")
}

/// What a series is about: name and value of each label of its group.
fn labels(series: &Series) -> Vec<(&'static str, String)> {
    let of = group(series.group).map_or(&[][..], |group| group.labels);
    let label = |(i, label): (usize, &Label)| {
        let raw = if i == 0 { series.key } else { series.sub.into() };
        let id = |id: Option<String>| id.unwrap_or_else(|| raw.to_string());
        match label {
            Label::Peer => ("peer", id(HostId::try_from(raw).ok().map(|host| host.to_string()))),
            Label::Task => ("task", id(TaskId::try_from(raw).ok().map(|task| task.to_string()))),
            Label::Link => ("link", raw.to_string()),
            Label::Channel => ("channel", raw.to_string()),
            Label::Path => ("path", raw.to_string()),
            Label::Purpose => {
                let name = usize::try_from(raw).ok().and_then(|raw| PURPOSES.get(raw));
                ("purpose", name.map_or_else(|| raw.to_string(), ToString::to_string))
            }
        }
    };
    of.iter().enumerate().map(label).collect()
}

fn as_json(host: HostId, store: &Store) -> Value {
    let about = |series: &Series| -> (&str, Map<String, Value>) {
        let labels = labels(series).into_iter().map(|(name, v)| (name.to_string(), json!(v)));
        (group(series.group).map_or("", |g| g.name), labels.collect())
    };
    let one = |row: Row| {
        let values: Map<_, _> = row.named().map(|(m, v)| (m.name.to_string(), json!(v))).collect();
        let (name, labels) = about(&row.series);
        json!({ "group": name, "labels": labels, "values": values })
    };
    // What is beyond the last bucket has no end.
    let end = |top: u64| if top == u64::MAX { Value::Null } else { json!(top) };
    let distribution = |(series, of): (Series, Histogram)| {
        let (name, labels) = about(&series);
        let buckets: Vec<_> = of.filled().map(|(top, n)| json!([end(top), n])).collect();
        let [p50, p90, p99] = [500, 900, 990].map(|n| end(of.quantile(n)));
        json!({
            "group": name, "labels": labels, "count": of.count(), "sum": of.sum(),
            "p50": p50, "p90": p90, "p99": p99, "buckets": buckets,
        })
    };
    let is_plain = |row: &Row| row.named().next().is_some();
    let plain = store.rows().filter(is_plain).map(one);
    let series: Vec<_> = plain.chain(store.distributions().map(distribution)).collect();
    let (lost, untold) = (store.lost(), store.untold());
    json!({ "host": host.to_string(), "lost": lost, "untold": untold, "series": series })
}

/// Prometheus' name of a metric: in base units, counters marked.
fn full_name(group: &Group, metric: &Metric) -> String {
    let of = if group.labels.is_empty() { String::new() } else { format!("{}_", group.name) };
    let base = match metric.name.strip_suffix("us").filter(|_| metric.unit == Unit::Micros) {
        Some(base) => format!("{base}seconds"),
        None => metric.name.to_string(),
    };
    let end = if metric.kind == Kind::Counter { "_total" } else { "" };
    format!("towpath_{of}{base}{end}")
}

const fn kind_of(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Distribution => "histogram",
    }
}

fn label_text(host: HostId, series: &Series) -> String {
    let mut names = format!("host=\"{host}\"");
    for (label, value) in labels(series) {
        let _ = write!(names, ",{label}=\"{value}\"");
    }
    names
}

/// A value in Prometheus' base unit.
fn in_base(metric: &Metric, value: u64) -> String {
    match metric.unit {
        Unit::Micros => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
        Unit::Count | Unit::Bytes => value.to_string(),
    }
}

/// A histogram: the same buckets each time, one for each fourfold, from 4 to 2^24, and the rest.
fn write_buckets(text: &mut String, name: &str, metric: &Metric, names: &str, of: &Histogram) {
    for end in (2..=24).step_by(2).map(|bits| 1u64 << bits) {
        // A time is cut to whole microseconds: 3 is less than 4.
        let top = if metric.unit == Unit::Micros { end } else { end - 1 };
        let (le, count) = (in_base(metric, top), of.up_to(end - 1));
        let _ = writeln!(text, "{name}_bucket{{{names},le=\"{le}\"}} {count}");
    }
    let (sum, count) = (in_base(metric, of.sum()), of.count());
    let _ = writeln!(
        text,
        "{name}_bucket{{{names},le=\"+Inf\"}} {count}\n\
         {name}_sum{{{names}}} {sum}\n{name}_count{{{names}}} {count}"
    );
}

/// The text format, version 0.0.4: all samples of a metric stand together.
fn as_text(daemons: &[(HostId, &Store)]) -> String {
    let mut text = String::new();
    let all: Vec<(HostId, Row)> =
        daemons.iter().flat_map(|(host, store)| store.rows().map(|row| (*host, row))).collect();
    for group in &GROUPS {
        let rows: Vec<_> = all.iter().filter(|(_, row)| row.series.group == group.number).collect();
        for (i, metric) in group.metrics.iter().enumerate().filter(|_| !rows.is_empty()) {
            let name = full_name(group, metric);
            let kind = kind_of(metric);
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            if metric.kind == Kind::Distribution {
                for (host, store) in daemons {
                    let of = store.distributions().filter(|(s, _)| s.group == group.number);
                    for (series, of) in of {
                        write_buckets(&mut text, &name, metric, &label_text(*host, &series), &of);
                    }
                }
                continue;
            }
            for (host, row) in &rows {
                let names = label_text(*host, &row.series);
                let value = row.values[i];
                let _ = writeln!(text, "{name}{{{names}}} {}", in_base(metric, value));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use towpath_vm::metrics::delta::{Composer, Head};
    use towpath_vm::metrics::table::HOST_CHANNEL_DELAY;
    use towpath_vm::metrics::{Association, Channel, Endpoint, part_of};

    use super::*;

    fn store() -> (HostId, Store) {
        let [me, peer] = [1, 2].map(|slot| HostId::new(slot, slot.into()).unwrap());
        let association =
            Association { rtt_us: 1_000_250, packets_sent: 7, ..Association::default() };
        let channel = Channel { reserved: 1, ..Channel::default() };
        let task = me.task(3).unwrap();
        let mut rows = vec![
            Endpoint { probes: 4, ..Endpoint::default() }.row(0, 0),
            association.row(peer.to_raw(), 0),
            channel.row(task.to_raw(), 12),
        ];
        let mut of = Histogram::new();
        for us in [3, 15, 900_000, 70_000_000] {
            of.record(us);
        }
        let series = Series::new(HOST_CHANNEL_DELAY.number, peer.to_raw(), 3);
        let mut last = None;
        while let Some(row) = part_of(series, &of, last) {
            last = Some(row.series.part);
            rows.push(row);
        }
        let mut composer = Composer::default();
        for row in rows {
            composer.step(row.series, None, &row.values);
        }
        let mut store = Store::default();
        store.apply(&composer.finish(&Head { lost: 2, ..Head::default() })).unwrap();
        (me, store)
    }

    const AT: &str = "host=\"h1.1\",peer=\"h2.2\",purpose=\"small\"";

    fn bucket(le: &str, count: u64) -> String {
        format!("towpath_host_channel_delay_seconds_bucket{{{AT},le=\"{le}\"}} {count}")
    }

    #[test]
    fn text_has_names_units_and_labels_as_prometheus_wants_them() {
        let (me, store) = store();
        let text = as_text(&[(me, &store)]);
        for line in [
            "# TYPE towpath_probes_total counter",
            "towpath_probes_total{host=\"h1.1\"} 4",
            "# TYPE towpath_association_rtt_seconds gauge",
            "towpath_association_rtt_seconds{host=\"h1.1\",peer=\"h2.2\"} 1.000250",
            "towpath_association_packets_sent_total{host=\"h1.1\",peer=\"h2.2\"} 7",
            "towpath_channel_reserved{host=\"h1.1\",task=\"h1.1:t3\",channel=\"12\"} 1",
            "# TYPE towpath_host_channel_delay_seconds histogram",
            &bucket("0.000004", 1),
            &bucket("0.000016", 2),
            &bucket("0.262144", 2),
            &bucket("1.048576", 3),
            &bucket("+Inf", 4),
            &format!("towpath_host_channel_delay_seconds_sum{{{AT}}} 70.900018"),
            &format!("towpath_host_channel_delay_seconds_count{{{AT}}} 4"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("towpath_task_"), "a group without series has no metrics");
        // Once each, with their samples behind them.
        let mut families: Vec<_> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
        let count = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), count);
    }

    /// The tables of docs/observation.md.
    fn page() -> String {
        let mut page = String::new();
        for group in &GROUPS {
            let labels: Vec<_> =
                group.labels.iter().map(|l| format!("{l:?}").to_lowercase()).collect();
            let labels = if labels.is_empty() { "of the host".into() } else { labels.join(", ") };
            let _ = writeln!(page, "## {} ({labels})\n\n| name | | |\n|---|---|---|", group.name);
            for metric in group.metrics {
                let kind = kind_of(metric);
                let _ = writeln!(page, "| `{}` | {kind} | {} |", metric.name, metric.help);
            }
            page.push('\n');
        }
        page.trim_end().to_string() + "\n"
    }

    #[test]
    fn the_page_has_every_metric() {
        let page = page();
        let written = include_str!("../../../docs/observation.md");
        assert!(written.ends_with(&page), "docs/observation.md is to end with:\n{page}");
    }

    #[test]
    fn json_has_every_series_and_what_was_left_out() {
        let (me, store) = store();
        let all = as_json(me, &store);
        assert_eq!(
            (&all["host"], &all["lost"], &all["untold"]),
            (&json!("h1.1"), &json!(2), &json!(0))
        );
        assert_eq!(all["series"][0]["group"], "endpoint");
        assert_eq!(all["series"][1]["labels"], json!({ "peer": "h2.2" }));
        assert_eq!(all["series"][1]["values"]["rtt_us"], 1_000_250);
        assert_eq!(all["series"][2]["labels"], json!({ "task": "h1.1:t3", "channel": "12" }));
        let delay = &all["series"][3];
        assert_eq!(delay["labels"], json!({ "peer": "h2.2", "purpose": "small" }));
        assert_eq!(
            (&delay["count"], &delay["p50"], &delay["p99"]),
            (&json!(4), &json!(15), &json!(null))
        );
        assert_eq!(delay["buckets"][0], json!([3, 1]));
    }
}
