//! `tspec measure`: the tightest specification of each kind for a trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use towpath_media::trace::FrameRate;
use towpath_qos::admission::file as request;
use towpath_qos::spec::measure::{Knobs, Measured, measure};
use towpath_qos::spec::wire::{Demand, Framing};
use towpath_qos::spec::{Regulator, TSpec, TSpecForm, Verdict};
use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Instant};

use super::curve;
use super::samples::{self, Reading, Sample, Samples};
use crate::files::{print, shown, write_file};
use crate::plot::{Column, Table};
use crate::units;
use crate::words::{TIME, bits_text, bps_text, ns_text, ns_text_down};

/// Interval I of (Xmin, Xave, I, Smax), unless it is given.
const INTERVAL: Duration = Duration::from_secs(1);
/// Long-term rate above the mean, unless it is given: 5 %.
const HEADROOM_PPM: u32 = 1_050_000;

#[derive(Debug, Args)]
pub(crate) struct TspecArgs {
    #[command(subcommand)]
    command: TspecCommand,
}

#[derive(Debug, Subcommand)]
enum TspecCommand {
    /// Measure the tightest specification of each kind from a trace or a capture
    Measure(MeasureArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath tspec measure sent.pcap --svg curve.svg       a capture (pcap or pcapng)
  towpath tspec measure sent.csv --headroom 20          columns time_s,size_bytes
  towpath tspec measure film.csv --fps 25 --packet 1392B   a frame trace, cut into packets
  towpath tspec measure film.sched                      a schedule of `towpath plan --schedule`
  tcpdump -w - udp port 5004 | towpath tspec measure - --json

A file of times and sizes has a header that names a time (time_s, time_ms, time_us or time_ns) and
a size (size_bytes or size_bits), or just two columns of seconds and bytes; commas, semicolons,
blanks and tabs part columns. With --fps, two columns without a header are a frame trace. A
schedule is cut into packets of --packet (1392 B unless given), each sent when the schedule comes
to its first byte. Sizes count as they stand; `towpath reserve` adds what the wire needs.

A file of requests may name such a file as a channel's traffic:

  measured = { file = \"film.sched\", kind = \"token_bucket\", packet_bytes = 1392, fps = 25 }

Each specification is the tightest of its kind: every packet conforms, and one bit, or one
nanosecond, less would make one early. A line under the table is ready for a file of requests.
Where there is none of a kind, the table says why.

Exit status: 0; 255 the file cannot be read or holds fewer than two packets.")]
struct MeasureArgs {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Interval I of (Xmin, Xave, I, Smax)
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = units::duration_between("1ns", "1000000h"))]
    interval: Duration,
    /// Percent by which the long-term rate is above the mean
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent_ppm)]
    headroom: u32,
    /// Frames per second of a frame trace
    #[arg(long, value_name = "N", value_parser = units::frame_rate)]
    fps: Option<FrameRate>,
    /// Cut each frame into packets of at most so many bytes, sent at once
    #[arg(long, value_name = "SIZE", value_parser = packet_size)]
    packet: Option<u64>,
    /// Draw the arrival curves
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn percent_ppm(text: &str) -> Result<u32, String> {
    let percent: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| "no number")?;
    if !(0.0..=1000.0).contains(&percent) {
        return Err("must be 0 to 1000 percent".to_string());
    }
    Ok(1_000_000 + (percent * 10_000.0).round() as u32)
}

fn packet_size(text: &str) -> Result<u64, String> {
    match units::size(text)?.as_bytes() {
        0 => Err("must not be zero".to_string()),
        bytes => Ok(bytes),
    }
}

/// A kind of specification with what was measured of it.
struct Row<'a> {
    name: &'static str,
    spec: Option<&'a TSpec>,
    parameters: String,
}

pub(crate) fn run(args: &TspecArgs) -> anyhow::Result<ExitCode> {
    let TspecCommand::Measure(args) = &args.command;
    let reading = Reading { frame_rate: args.fps, packet_bytes: args.packet };
    let samples = samples::read(&args.file, reading)?;
    for note in &samples.notes {
        eprintln!("note: {note}");
    }
    let packets = packets(&samples.items);
    let knobs = Knobs { interval: args.interval, rate_ppm: args.headroom };
    let measured = measure(&packets, knobs)
        .map_err(|e| anyhow!("{e}"))
        .with_context(|| format!("in {}", shown(&args.file)))?;
    let rows = rows(&measured, &packets, args.interval);
    for row in &rows {
        let early = row.spec.and_then(|spec| first_early(spec, &packets));
        assert_eq!(early, None, "{}: every packet of the trace conforms", row.name);
    }
    if let Some(path) = &args.svg {
        let title = format!("Arrival curves of {}", shown(&args.file));
        let specs: Vec<_> = rows.iter().filter_map(|r| Some((r.name, r.spec?))).collect();
        write_file(path, curve::chart(&title, &samples.items, &specs).svg())?;
    }
    print(&if args.json {
        format!("{}\n", as_json(args, &samples, &measured, &rows))
    } else {
        as_text(args, &samples, &measured, &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The first packet that does not conform.
fn first_early(spec: &TSpec, packets: &[(Instant, ByteSize)]) -> Option<usize> {
    let mut regulator = Regulator::new(spec);
    packets.iter().position(|&(at, size)| regulator.offer(at, size) != Verdict::Conforms)
}

/// The specification of the traffic that a file of requests names, and what it is on the wire:
/// that is measured from the wire bytes of each packet, so that no worst ratio has a part in it.
pub(crate) fn specification(
    path: &Path,
    of: &request::Measured,
    framing: Option<&Framing>,
) -> anyhow::Result<(TSpec, Demand)> {
    let frame_rate = of.fps.as_deref().map(units::frame_rate).transpose();
    let frame_rate = frame_rate.map_err(|e| anyhow!("fps: {e}"))?;
    if of.packet_bytes == Some(0) {
        bail!("packet_bytes is zero");
    }
    let samples = samples::read(path, Reading { frame_rate, packet_bytes: of.packet_bytes })?;
    let spec = of_kind(path, of, &samples.items)?;
    let sizes = || samples.items.iter().map(|s| ByteSize::from_bytes(s.bytes));
    let largest = sizes().max().unwrap_or(ByteSize::ZERO);
    let Some(framing) = framing else {
        let least = sizes().min().unwrap_or(ByteSize::ZERO);
        let packets = spec.packets(spec.packet_max().as_bytes().saturating_mul(8));
        let demand = Demand::of_wire(spec.buckets(), least, largest);
        return Ok((spec, Demand { packets, ..demand }));
    };
    let on_wire = |s: &Sample| {
        let bytes = framing.wire_bytes(ByteSize::from_bytes(s.bytes)).as_bytes();
        Sample { at_ns: s.at_ns, bytes }
    };
    let wire: Vec<Sample> = samples.items.iter().map(on_wire).collect();
    // Frames of one message, in the mean: never more of them in so many bits than there are.
    let frame = |size: ByteSize| {
        let frames = size.as_bytes().div_ceil(framing.payload().as_bytes()).max(1);
        framing.wire_bytes(size).as_bytes() / frames
    };
    let counted = ByteSize::from_bytes(sizes().map(frame).min().unwrap_or(0));
    let on_wire = of_kind(path, of, &wire)?;
    let bits = |size: ByteSize| size.as_bytes().saturating_mul(8);
    let packet_min_bits = bits(framing.wire_bytes(ByteSize::ZERO));
    let packets = on_wire.packets(bits(on_wire.packet_max()));
    let message = bits(framing.wire_bytes(largest));
    let beside = if matches!(spec, TSpec::PeakMean(_)) { message } else { 0 };
    let kept_bits = [message, beside];
    let demand = Demand::of_wire(on_wire.buckets(), counted, framing.packet_bytes(largest));
    Ok((spec, Demand { packet_min_bits, packets, kept_bits, ..demand }))
}

/// The tightest specification of the kind that is asked for.
fn of_kind(path: &Path, of: &request::Measured, samples: &[Sample]) -> anyhow::Result<TSpec> {
    if of.kind == "schedule" {
        return as_schedule(samples);
    }
    let packets = packets(samples);
    let measured = measure(&packets, Knobs { interval: INTERVAL, rate_ppm: HEADROOM_PPM })
        .with_context(|| format!("in {}", shown(path)))?;
    let rows = rows(&measured, &packets, INTERVAL);
    let kinds: Vec<&str> = rows.iter().map(|row| row.name).chain(["schedule"]).collect();
    let Some(row) = rows.iter().find(|row| row.name == of.kind) else {
        bail!("unknown kind {:?}\nhint: kinds are {}", of.kind, kinds.join(", "));
    };
    let spec = row.spec.cloned();
    spec.ok_or_else(|| {
        let hint = "d_bind, sigma_rho and schedule take any";
        let (kind, path, why) = (&of.kind, shown(path), &row.parameters);
        anyhow!("no {kind} fits {path}: {why}\nhint: {hint}")
    })
}

/// Each packet a jump of the plan.
fn as_schedule(samples: &[Sample]) -> anyhow::Result<TSpec> {
    let largest = samples.iter().map(|s| s.bytes).max().unwrap_or(0);
    let mut sent = 0_u64;
    let mut points = Vec::with_capacity(2 * samples.len());
    for s in samples {
        points.push((s.at_ns, sent));
        sent = sent.saturating_add(s.bytes);
        points.push((s.at_ns, sent));
    }
    points.dedup();
    let form = TSpecForm::Schedule { points, max_bytes: largest };
    TSpec::try_from(form).map_err(|e| anyhow!("{e}\nhint: kind = \"d_bind\" takes any length"))
}

fn packets(samples: &[Sample]) -> Vec<(Instant, ByteSize)> {
    let packet = |s: &Sample| (Instant::from_nanos(s.at_ns), ByteSize::from_bytes(s.bytes));
    samples.iter().map(packet).collect()
}

/// Why there is no (Xmin, Xave, I, Smax), or, with `interval` zero, none of the other kinds.
fn why_none(packets: &[(Instant, ByteSize)], interval: Duration) -> String {
    let gaps = packets.windows(2).map(|w| w[1].0.as_nanos() - w[0].0.as_nanos());
    let xmin_ns = gaps.min().unwrap_or(0);
    if xmin_ns == 0 || interval.is_zero() {
        return "packets come at one instant".to_string();
    }
    let interval_ns = nanos(interval);
    let (mut first, mut most) = (0, 0);
    for (last, packet) in packets.iter().enumerate() {
        while packet.0.as_nanos() - packets[first].0.as_nanos() >= interval_ns {
            first += 1;
        }
        most = most.max((last - first + 1) as u64);
    }
    let within = format!("{most} packets within {}", TIME.text(interval_ns.into()));
    let xave_ns = interval_ns / most;
    if xave_ns < xmin_ns {
        let (xave, xmin) = (ns_text_down(xave_ns), ns_text_down(xmin_ns));
        return format!("{within} make Xave {xave}, below Xmin {xmin}");
    }
    format!("{within} are more packets, or the interval is longer, than a specification may have")
}

fn rows<'a>(m: &'a Measured, packets: &[(Instant, ByteSize)], interval: Duration) -> Vec<Row<'a>> {
    let row = |name, spec: Option<&'a TSpec>| {
        let interval = if name == "averaged" { interval } else { Duration::ZERO };
        let parameters = spec.map_or_else(|| why_none(packets, interval), parameters);
        Row { name, spec, parameters }
    };
    vec![
        row("spaced", m.spaced.as_ref()),
        row("averaged", m.averaged.as_ref()),
        row("sigma_rho", Some(&m.sigma_rho)),
        row("token_bucket", m.token_bucket.as_ref()),
        row("d_bind", Some(&m.dbind)),
        row("peak_mean", m.peak_mean.as_ref()),
    ]
}

/// In the letters of the literature.
pub(crate) fn parameters(spec: &TSpec) -> String {
    let size = |bytes: u64| bits_text(u128::from(bytes) * 8);
    match TSpecForm::from(spec) {
        TSpecForm::Spaced { xmin_ns, smax_bytes } => {
            format!("Xmin {}, Smax {}", ns_text_down(xmin_ns), size(smax_bytes))
        }
        TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes } => format!(
            "Xmin {}, Xave {}, I {}, Smax {}",
            ns_text_down(xmin_ns),
            ns_text_down(xave_ns),
            ns_text(interval_ns),
            size(smax_bytes)
        ),
        TSpecForm::SigmaRho { sigma_bytes, rho_bps } => {
            format!("σ {}, ρ {}", size(sigma_bytes), bps_text(rho_bps))
        }
        TSpecForm::TokenBucket { rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes } => {
            format!(
                "r {}, b {}, p {}, m {}, M {}",
                bps_text(rate_bps),
                size(burst_bytes),
                bps_text(peak_bps),
                size(min_bytes),
                size(max_bytes)
            )
        }
        TSpecForm::DBind { pairs, max_bytes } => {
            let pair = |(r, i): &(u64, u64)| format!("{} in {}", bps_text(*r), ns_text(*i));
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            format!("{}, M {}", pairs.join(", "), size(max_bytes))
        }
        TSpecForm::PeakMean { peak_bps, mean_bps, burst_bytes, max_bytes } => format!(
            "peak {}, mean {}, burst {}, M {}",
            bps_text(peak_bps),
            bps_text(mean_bps),
            size(burst_bytes),
            size(max_bytes)
        ),
        TSpecForm::Schedule { points, max_bytes } => {
            format!("{} points, M {}", points.len(), size(max_bytes))
        }
    }
}

/// As in a file of requests.
pub(crate) fn toml_line(form: &TSpecForm) -> Option<String> {
    let value = toml::Value::try_from(form).ok()?;
    Some(format!("tspec = {value}"))
}

fn as_text(args: &MeasureArgs, samples: &Samples, measured: &Measured, rows: &[Row<'_>]) -> String {
    let items = &samples.items;
    let length_ns = items.last().map_or(0, |s| s.at_ns);
    let bytes: u64 = items.iter().map(|s| s.bytes).sum();
    let mut out = format!(
        "{}: {} packets of {}, {} in {}, mean {}\n\n",
        shown(&args.file),
        items.len(),
        samples.what,
        bits_text(u128::from(bytes) * 8),
        ns_text(length_ns),
        bps_text(measured.mean.as_bps())
    );
    let mut table = Table::new(&[
        Column::words("KIND", ""),
        Column::figures("AT ONCE", ""),
        Column::figures("IN 10 ms", ""),
        Column::figures("SUSTAINED", ""),
        Column::words("PARAMETERS", ""),
    ]);
    for row in rows {
        let of = |window| row.spec.map_or("-".into(), |s| bits_text(s.bits_in(window)));
        let sustained = row.spec.map_or("-".into(), |s| bps_text(s.sustained().as_bps()));
        let cells = [row.name.into(), of(0), of(10_000_000), sustained, row.parameters.clone()];
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    out.push_str(&table.text());
    out.push('\n');
    for line in rows.iter().filter_map(|r| toml_line(&TSpecForm::from(r.spec?))) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn as_json(args: &MeasureArgs, samples: &Samples, measured: &Measured, rows: &[Row<'_>]) -> Value {
    let spec = |row: &Row<'_>| {
        json!({
            "name": row.name,
            "tspec": row.spec.map(TSpecForm::from),
            "sustained_bps": row.spec.map(|s| s.sustained().as_bps()),
            "at_once_bytes": row.spec.map(|s| (s.bits_in(0).div_ceil(8)) as u64),
        })
    };
    json!({
        "version": 1, "file": shown(&args.file), "what": samples.what, "notes": samples.notes,
        "packets": samples.items.len(),
        "bytes": samples.items.iter().map(|s| s.bytes).sum::<u64>(),
        "length_ns": samples.items.last().map_or(0, |s| s.at_ns),
        "mean_bps": measured.mean.as_bps(),
        "specs": rows.iter().map(spec).collect::<Vec<_>>(),
    })
}
