//! The answer for one video: a row per scheme, as a table and as JSON.

use serde_json::{Value, json};
use towpath_media::plan::Conventions;
use towpath_media::schedule::Scheme;
use towpath_media::trace::{ExactRate, Trace};

use super::model::{Question, Refusal, Solution, nearest};
use super::source::Video;
use crate::plot::{Column, Table};
use crate::units::{rate_text, size_text, time_text};

/// What a scheme answers.
pub(super) struct Row {
    pub(super) scheme: Scheme,
    pub(super) answer: Result<Solution, Refusal>,
}

impl Row {
    fn refusal(&self) -> Option<Refusal> {
        self.answer.as_ref().err().copied()
    }
}

/// Everything about one video.
pub(super) struct Answer {
    pub(super) video: Video,
    pub(super) question: Question,
    pub(super) rows: Vec<Row>,
}

const COLUMNS: [Column; 9] = [
    Column::words("SCHEME", "scheme"),
    Column::figures("PEAK RATE", "peak_bps"),
    Column::figures("BUFFER", "buffer_bytes"),
    Column::figures("DELAY", "delay_s"),
    Column::figures("CHANGES", "changes"),
    Column::figures("× LEAST RATE", "rate_over_least"),
    Column::figures("× LEAST BUFFER", "buffer_over_least"),
    Column::figures("+ LEAST DELAY", "delay_above_least_s"),
    Column::words("", "note"),
];

impl Answer {
    /// Whether any scheme does what was asked.
    pub(super) fn feasible(&self) -> bool {
        self.rows.iter().any(|row| row.answer.is_ok())
    }

    /// What was asked, in a line; where it is all three, also the least that would do.
    pub(super) fn asked(&self) -> String {
        self.question.text(&self.video.trace)
    }

    /// What would do, where no scheme does what was asked.
    pub(super) fn hint(&self) -> Option<String> {
        let trace = &self.video.trace;
        let best = |row: &Row| matches!(row.scheme, Scheme::WindowPcbr | Scheme::Smooth);
        let options = if self.rows.iter().any(best) {
            nearest(trace, &self.question)
        } else {
            let hint =
                |row: &Row| Some(format!("{} for {}", row.refusal()?.hint(trace)?, row.scheme));
            self.rows.iter().filter_map(hint).collect()
        };
        (!options.is_empty()).then(|| options.join(", or "))
    }

    /// What is planned for, in a line.
    pub(super) fn summary(&self) -> String {
        let trace = &self.video.trace;
        let fps = self.video.frame_rate.map_or(String::new(), |rate| {
            let text = format!("{:.3}", rate.per_second());
            format!(" at {} per second", text.trim_end_matches('0').trim_end_matches('.'))
        });
        format!(
            "{} {}{fps}, {}, {}, mean {}, largest {}",
            trace.groups(),
            self.video.what,
            size_text(trace.total() as f64),
            time_text(trace.seconds(trace.duration())),
            rate_text(trace.mean().bps(trace.ticks_per_second())),
            size_text(trace.largest() as f64),
        )
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&COLUMNS);
        let trace = &self.video.trace;
        for row in &self.rows {
            let name = (row.scheme.to_string(), row.scheme.to_string());
            let cells = match &row.answer {
                Ok(solution) => cells(trace, solution),
                Err(refusal) => {
                    let mut cells = vec![("-".to_string(), String::new()); 7];
                    cells.push((refusal.short(trace), refusal.short(trace)));
                    cells
                }
            };
            table.push([vec![name], cells].concat());
        }
        table
    }

    pub(super) fn json(&self, file: &str) -> Value {
        let (video, trace) = (&self.video, &self.video.trace);
        let (rate, buffer, delay) = self.question.fixed();
        json!({
            "schema": 1,
            "file": file,
            "what": video.what,
            "groups": trace.groups(),
            "bytes": trace.total(),
            "largest_bytes": trace.largest(),
            "duration_s": trace.seconds(trace.duration()),
            "mean_bps": trace.mean().bps(trace.ticks_per_second()),
            "frame_rate": video.frame_rate.map(|r| json!({ "num": r.num(), "den": r.den() })),
            "ticks_per_second": trace.ticks_per_second(),
            "notes": video.notes,
            "asked": {
                "delay": delay.map(|ticks| delay_json(trace, ticks)),
                "buffer_bytes": buffer,
                "rate": rate.map(|rate| rate_json(trace, rate)),
                "thesis": self.question.conventions == Conventions::Thesis,
            },
            "schemes": self.rows.iter().map(|row| row_json(trace, row)).collect::<Vec<_>>(),
        })
    }
}

fn cells(trace: &Trace, solution: &Solution) -> Vec<(String, String)> {
    let schedule = &solution.schedule;
    let hz = trace.ticks_per_second();
    let costs = &solution.costs;
    let over = |ratio: Option<f64>| match ratio {
        Some(ratio) => (format!("{ratio:.2}"), format!("{ratio:.6}")),
        None => ("-".to_string(), String::new()),
    };
    let delay_s = trace.seconds(schedule.delay);
    let above = costs.delay.map(|ticks| trace.seconds(ticks));
    let bps = schedule.peak.bps(hz);
    vec![
        (rate_text(bps), format!("{bps:.3}")),
        (size_text(solution.buffer as f64), solution.buffer.to_string()),
        (time_text(delay_s), format!("{delay_s:.9}")),
        (solution.changes.to_string(), solution.changes.to_string()),
        over(costs.rate),
        over(costs.buffer),
        above.map_or(("-".into(), String::new()), |s| (time_text(s), format!("{s:.9}"))),
        (solution.note(trace), solution.note(trace)),
    ]
}

fn row_json(trace: &Trace, row: &Row) -> Value {
    match &row.answer {
        Ok(solution) => json!({
            "scheme": row.scheme.name(),
            "feasible": true,
            "peak": rate_json(trace, solution.schedule.peak),
            "low": solution.low.map(|low| rate_json(trace, low)),
            "interval": solution.interval,
            "buffer_bytes": solution.buffer,
            "delay": delay_json(trace, solution.schedule.delay),
            "changes": solution.changes,
            "rate_over_least": solution.costs.rate,
            "buffer_over_least": solution.costs.buffer,
            "delay_above_least_s": solution.costs.delay.map(|ticks| trace.seconds(ticks)),
        }),
        Err(refusal) => json!({
            "scheme": row.scheme.name(),
            "feasible": false,
            "why": refusal.error.to_string(),
            "hint": refusal.hint(trace),
        }),
    }
}

/// A rate as the fraction it is, and rounded.
fn rate_json(trace: &Trace, rate: ExactRate) -> Value {
    let hz = trace.ticks_per_second();
    json!({ "bytes": rate.bytes(), "ticks": rate.ticks(), "bps": rate.bps(hz) })
}

/// A delay in ticks, seconds, and slots: from the first bit to the first frame, and, one less, as
/// equation 4.2 of the source counts them.
fn delay_json(trace: &Trace, ticks: u64) -> Value {
    let delay = trace.start_up(ticks);
    json!({
        "ticks": ticks,
        "s": delay.seconds,
        "slots": delay.thesis_slots,
        "slots_reference": delay.reference_slots,
    })
}
