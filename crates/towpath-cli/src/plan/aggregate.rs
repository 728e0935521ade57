//! Several streams on one link.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use towpath_media::plan::{Aggregate, Stream, aggregate};
use towpath_media::schedule::{Schedule, Scheme};

use super::rows::Answer;
use crate::plot::{Axis, Chart, Shape, Unit};
use crate::units::time_text;
use crate::words::bps_text;

/// Changes of rate, of all streams together, that are added up.
const CHANGES_MAX: usize = 20_000_000;

/// What streams need together.
pub(super) struct Sum {
    streams: u32,
    scheme: Scheme,
    stagger_s: f64,
    total: Aggregate,
    pub(super) chart: Chart,
}

/// `streams` streams, of the planned videos in turn, that start evenly spread over the longest of
/// them; by the first scheme that was asked for, `smooth` where all were.
pub(super) fn of(answers: &[Answer], streams: u32) -> anyhow::Result<Sum> {
    let preferred = |answer: &Answer| {
        let smooth = answer.rows.iter().find(|row| row.scheme == Scheme::Smooth);
        smooth.or(answer.rows.first()).map(|row| row.scheme)
    };
    let scheme = answers.first().and_then(preferred).context("no scheme")?;
    let mut schedules: Vec<&Schedule> = Vec::new();
    let mut longest = 0;
    for answer in answers {
        let row = answer.rows.iter().find(|row| row.scheme == scheme);
        if let Some(Ok(solved)) = row.map(|row| &row.answer) {
            schedules.push(&solved.solution.schedule);
            longest = longest.max(answer.video.trace.duration());
        }
    }
    let left_out = answers.len() - schedules.len();
    if left_out > 0 {
        bail!("{left_out} of the videos cannot be delivered by {scheme} as asked");
    }
    let changes: usize = schedules.iter().map(|s| s.segments.len()).sum();
    let changes = changes / schedules.len().max(1) * streams as usize;
    if changes > CHANGES_MAX {
        bail!(
            "{changes} changes of rate, more than the limit of {CHANGES_MAX}\nhint: fewer \
             streams, or --scheme smooth"
        );
    }
    let stagger = longest / u64::from(streams);
    let hz = schedules.first().map_or(1, |s| s.ticks_per_second);
    let stream = |k: u32| Stream {
        schedule: schedules[k as usize % schedules.len()],
        start: u64::from(k) * stagger,
    };
    let total = aggregate(&(0..streams).map(stream).collect::<Vec<_>>())?;
    let points = total.steps.iter().map(|s| (s.tick as f64 / hz as f64, s.rate_bps)).collect();
    let end = total.steps.last().map_or(0.0, |s| s.tick as f64 / hz as f64);
    let level = |bps: f64| vec![(0.0, bps), (end, bps)];
    let (x, y) = (Axis::new("time", Unit::Seconds), Axis::new("rate", Unit::BitsPerSecond));
    let stagger_s = stagger as f64 / hz as f64;
    let chart = Chart::new(format!("{streams} streams by {scheme} on one link"), x, y)
        .caption(format!("A stream starts every {}.", time_text(stagger_s)))
        .with("all streams", Shape::Step, points)
        .with("sum of peaks", Shape::Line, level(total.sum_of_peaks_bps))
        .with("mean", Shape::Line, level(total.mean_bps));
    Ok(Sum { streams, scheme, stagger_s, total, chart })
}

impl Sum {
    pub(super) fn text(&self) -> String {
        let (total, streams) = (&self.total, self.streams);
        let mut text = format!(
            "{streams} streams by {}, one started every {}\n",
            self.scheme,
            time_text(self.stagger_s)
        );
        for (what, bps) in [
            ("peak of all together", total.peak_bps),
            ("sum of their peaks", total.sum_of_peaks_bps),
            ("mean of all together", total.mean_bps),
        ] {
            // A float so near below a whole number is one.
            let bps = (bps * (1.0 - 1e-12)).ceil() as u64;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {what:<22}{:>14}", bps_text(bps));
        }
        let _ = writeln!(text, "  {:<22}{:>13.2}x", "gain by sharing", total.gain());
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "schema": 1,
            "aggregate": self.streams,
            "scheme": self.scheme.name(),
            "stagger_s": self.stagger_s,
            "peak_bps": self.total.peak_bps,
            "sum_of_peaks_bps": self.total.sum_of_peaks_bps,
            "mean_bps": self.total.mean_bps,
            "gain": self.total.gain(),
        })
    }
}
