//! The pictures of a report.

use towpath_media::inspect::{Report, Series, size_bin_floor};

use super::text::{codec, frame_type};
use crate::plot::{Axis, Chart, Shape, Unit};

/// Ticks per second of the clock that series are counted in.
const CLOCK_HZ: f64 = 27e6;

/// All charts that have something to show, each with a name for its file.
pub(super) fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let all = [
        ("rate", rate(report)),
        ("frame-sizes", frame_sizes(report)),
        ("pcr-interval", clock_intervals(report)),
        ("pcr-accuracy", clock_accuracy(report)),
        ("transport-buffers", transport_buffers(report)),
        ("elementary-buffers", elementary_buffers(report)),
    ];
    all.into_iter().filter_map(|(name, chart)| Some((name, chart?))).collect()
}

fn time() -> Axis {
    Axis::new("time", Unit::Seconds)
}

/// Each bin from its beginning, the last one to its end.
fn steps(series: &Series, value: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let width_s = series.bin_ticks as f64 / CLOCK_HZ;
    let at = |k: usize| k as f64 * width_s;
    let mut points: Vec<_> =
        series.bins.iter().enumerate().map(|(k, v)| (at(k), value(*v))).collect();
    if let Some(last) = points.last().copied() {
        points.push((at(points.len()), last.1));
    }
    points
}

fn rate(report: &Report) -> Option<Chart> {
    let bps = |series: &Series| {
        let width_s = series.bin_ticks as f64 / CLOCK_HZ;
        steps(series, |bytes| bytes as f64 * 8.0 / width_s)
    };
    let mut chart = Chart::new("Rate over time", time(), Axis::new("rate", Unit::BitsPerSecond));
    if !report.rate_series.bins.is_empty() {
        chart = chart.with("whole file", Shape::Step, bps(&report.rate_series));
    }
    for s in report.streams.iter().filter(|s| !s.rate_series.bins.is_empty()) {
        let name = format!("stream {}: {}", s.info.index, codec(s.info.codec));
        chart = chart.with(name, Shape::Step, bps(&s.rate_series));
    }
    let width_s = report.rate_series.bin_ticks as f64 / CLOCK_HZ;
    let caption = format!(
        "Mean over {} at a time. The file by its clock, streams by the decoding instants of \
         their frames.",
        crate::units::time_text(width_s)
    );
    (!chart.series.is_empty()).then(|| chart.caption(caption))
}

fn frame_sizes(report: &Report) -> Option<Chart> {
    let video = report.streams.iter().find(|s| s.info.has_pictures() && s.frames > 0)?;
    let size = Axis::new("frame size", Unit::Bytes).log();
    let title = format!("Frame sizes of stream {}", video.info.index);
    let mut chart = Chart::new(title, size, Axis::new("frames", Unit::Count));
    for kind in &video.sizes {
        let first = kind.histogram.iter().position(|n| *n > 0).unwrap_or(0);
        let last = kind.histogram.iter().rposition(|n| *n > 0).map_or(0, |k| k + 1);
        let floor = |k: usize| size_bin_floor(k).max(1) as f64;
        let mut points = vec![(floor(first), 0.0)];
        points.extend((first..last).map(|k| (floor(k), kind.histogram[k] as f64)));
        points.push((floor(last), 0.0));
        chart = chart.with(frame_type(kind.kind), Shape::Step, points);
    }
    let caption = "Frames per bin of size. The higher and narrower a hill, the steadier the rate.";
    Some(chart.caption(caption))
}

fn clock_intervals(report: &Report) -> Option<Chart> {
    let (x, y) = (Axis::new("interval", Unit::Seconds), Axis::new("intervals", Unit::Count));
    let mut chart = Chart::new("Time between clock references", x, y);
    for clock in report.clocks.iter().filter(|c| c.interval.count > 0) {
        let bins = &clock.interval.histogram_ms;
        let used = bins.iter().rposition(|n| *n > 0).map_or(0, |k| k + 1);
        // An empty one more, so that the last bar has its full width.
        let value = |ms: usize| bins[..used].get(ms).map_or(0.0, |n| *n as f64);
        let points = (0..=used).map(|ms| ((ms as f64 + 0.5) / 1e3, value(ms))).collect();
        chart = chart.with(format!("PID {}", clock.pid), Shape::Bars, points);
    }
    let caption = "The standard allows 100 ms (ISO/IEC 13818-1), DVB practice 40 ms.";
    (!chart.series.is_empty()).then(|| chart.caption(caption))
}

fn clock_accuracy(report: &Report) -> Option<Chart> {
    let y = Axis::new("error", Unit::Seconds);
    let mut chart = Chart::new("Clock reference accuracy", time(), y);
    for clock in report.clocks.iter().filter(|c| c.accuracy.judged > 0) {
        let points = steps(&clock.accuracy.series, |ns| ns as f64 / 1e9);
        chart = chart.with(format!("PID {}", clock.pid), Shape::Step, points);
    }
    let end = chart.series.iter().filter_map(|s| s.points.last()).map(|p| p.0).fold(0.0, f64::max);
    let caption = "Largest deviation of a reference from the straight line between its \
                   neighbours, where the rate around it is constant. The limit is 500 ns (ETSI TR \
                   101 290, 2.4).";
    (!chart.series.is_empty()).then(|| {
        chart.with("limit", Shape::Line, vec![(0.0, 500e-9), (end, 500e-9)]).caption(caption)
    })
}

/// The transport buffers of streams; those of tables are in the report only.
fn transport_buffers(report: &Report) -> Option<Chart> {
    let y = Axis::new("fill", Unit::Bytes);
    let mut chart = Chart::new("Transport buffers of the model decoder", time(), y);
    let (mut end, mut limit) = (0.0, 0);
    for buffer in &report.buffers {
        let is_stream = report.streams.iter().any(|s| s.info.id == buffer.pid);
        if is_stream && !buffer.transport_series.bins.is_empty() {
            let points = steps(&buffer.transport_series, |bytes| bytes as f64);
            end = points.last().map_or(end, |last| f64::max(end, last.0));
            limit = buffer.transport.size_bytes;
            chart = chart.with(format!("PID {}", buffer.pid), Shape::Step, points);
        }
    }
    let limit = limit as f64;
    let caption = "Fullest in each stretch of time: TB of the T-STD, ISO/IEC 13818-1 §2.4.2. Above \
                   the line it overflows.";
    (!chart.series.is_empty())
        .then(|| chart.with("size", Shape::Line, vec![(0.0, limit), (end, limit)]).caption(caption))
}

fn elementary_buffers(report: &Report) -> Option<Chart> {
    let y = Axis::new("fill", Unit::Bytes);
    let mut chart = Chart::new("Last buffers of the model decoder", time(), y);
    for buffer in &report.buffers {
        let Some(fill) = buffer.elementary.as_ref().or(buffer.main.as_ref()) else { continue };
        if buffer.elementary_series.bins.is_empty() {
            continue;
        }
        let points = steps(&buffer.elementary_series, |bytes| bytes as f64);
        let (end, limit) = (points.last().map_or(0.0, |p| p.0), fill.size_bytes as f64);
        chart = chart.with(format!("PID {}", buffer.pid), Shape::Step, points).with(
            format!("size for {}", buffer.pid),
            Shape::Line,
            vec![(0.0, limit), (end, limit)],
        );
    }
    let caption = "Fullest in each stretch of time: EB of pictures, whose size is what their \
                   headers tell, and B of sound, of the T-STD, ISO/IEC 13818-1 §2.4.2.";
    (!chart.series.is_empty()).then(|| chart.caption(caption))
}
