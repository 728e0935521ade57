//! The answer for one video: a row per scheme, as a table and as JSON.

use serde_json::{Value, json};
use towpath_media::plan::{Conventions, Given, Question, Refusal, Solution, Video};
use towpath_media::schedule::Scheme;
use towpath_media::trace::{ExactRate, Trace};

use super::figures::Figures;
use super::model::{asked, delay_text, grid_rate, hint, nearest, note, short};
use super::source::noted;
use crate::plot::{Column, Table};
use crate::words::{RATE, SIZE, TIME};

/// What a scheme needs, with rate, buffer and delay as they are printed.
pub(super) struct Solved {
    pub(super) solution: Solution,
    pub(super) figures: Figures,
}

/// What a scheme answers.
pub(super) struct Row {
    pub(super) scheme: Scheme,
    pub(super) answer: Result<Solved, Refusal>,
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

    /// Schemes whose schedules fail their own check: mistakes of ours.
    pub(super) fn wrong(&self) -> impl Iterator<Item = (Scheme, Refusal)> {
        let wrong = |row: &Row| Some((row.scheme, row.refusal()?));
        self.rows.iter().filter_map(wrong).filter(|(_, why)| matches!(why, Refusal::Wrong(_)))
    }

    /// What was asked, in a line; where it is all three, also the least that would do.
    pub(super) fn asked(&self) -> String {
        asked(&self.question, &self.video.trace)
    }

    /// What would do, where no scheme does what was asked.
    pub(super) fn hint(&self) -> Option<String> {
        let trace = &self.video.trace;
        let best = |row: &Row| matches!(row.scheme, Scheme::WindowPcbr | Scheme::Smooth);
        let options = if self.rows.iter().any(best) {
            nearest(trace, &self.question)
        } else {
            let option =
                |row: &Row| Some(format!("{} for {}", hint(row.refusal()?, trace)?, row.scheme));
            self.rows.iter().filter_map(option).collect()
        };
        (!options.is_empty()).then(|| options.join(", or "))
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&COLUMNS);
        let trace = &self.video.trace;
        for row in &self.rows {
            let name = (row.scheme.to_string(), row.scheme.to_string());
            let cells = match &row.answer {
                Ok(solved) => cells(&self.video, &self.question, solved),
                Err(refusal) => {
                    let mut cells = vec![("-".to_string(), String::new()); 7];
                    cells.push((short(*refusal, trace), short(*refusal, trace)));
                    cells
                }
            };
            table.push([vec![name], cells].concat());
        }
        table
    }

    pub(super) fn json(&self, file: &str) -> Value {
        let (video, trace) = (&self.video, &self.video.trace);
        let Given { rate, buffer, delay } = self.question.wish.given();
        let rows = self.rows.iter().map(|row| row_json(trace, &self.question, row));
        let rows: Vec<_> = rows.collect();
        json!({
            "schema": 1,
            "file": file,
            "what": video.what(),
            "groups": trace.groups(),
            "bytes": trace.total(),
            "largest_bytes": trace.largest(),
            "duration_s": trace.seconds(trace.duration()),
            "mean_bps": trace.mean().bps(trace.ticks_per_second()),
            "frame_rate": video.frame_rate.map(|r| json!({ "num": r.num(), "den": r.den() })),
            "ticks_per_second": trace.ticks_per_second(),
            "notes": video.notes.iter().map(|note| noted(*note)).collect::<Vec<_>>(),
            "asked": {
                "delay": delay.map(|ticks| delay_json(trace, ticks)),
                "buffer_bytes": buffer,
                "rate": rate.map(|rate| rate_json(trace, rate)),
                "thesis": self.question.conventions == Conventions::Thesis,
            },
            "schemes": rows,
        })
    }
}

fn cells(video: &Video, question: &Question, solved: &Solved) -> Vec<(String, String)> {
    let trace = &video.trace;
    let Solved { solution, figures } = solved;
    let (schedule, checked) = (&solution.schedule, &solution.checked);
    let note = note(solution, question, video);
    let costs = &solution.costs;
    let over = |ratio: Option<f64>| match ratio {
        Some(ratio) => (format!("{ratio:.2}"), format!("{ratio:.6}")),
        None => ("-".to_string(), String::new()),
    };
    let seconds = |ticks| format!("{:.9}", trace.seconds(ticks));
    let bps = schedule.peak.bps(trace.ticks_per_second());
    let above = costs.delay.map(|ticks| (delay_text(trace, ticks), seconds(ticks)));
    vec![
        (RATE.text(figures.rate_bps.into()), format!("{bps:.3}")),
        (SIZE.text(figures.buffer.into()), solution.plan.buffer.to_string()),
        (TIME.text(figures.delay_ns.into()), seconds(schedule.delay)),
        (checked.changes.to_string(), checked.changes.to_string()),
        over(costs.rate),
        over(costs.buffer),
        above.unwrap_or(("-".into(), String::new())),
        (note.clone(), note),
    ]
}

fn row_json(trace: &Trace, question: &Question, row: &Row) -> Value {
    match &row.answer {
        Ok(Solved { solution, figures }) => json!({
            "scheme": row.scheme.name(),
            "feasible": true,
            "peak": rate_json(trace, solution.schedule.peak),
            "grid": grid_rate(solution, question).map(|rate| rate_json(trace, rate)),
            "low": solution.low().map(|low| rate_json(trace, low)),
            "interval": solution.plan.interval,
            "buffer_bytes": solution.plan.buffer,
            "delay": delay_json(trace, solution.schedule.delay),
            "changes": solution.checked.changes,
            "rate_over_least": solution.costs.rate,
            "buffer_over_least": solution.costs.buffer,
            "delay_above_least_s": solution.costs.delay.map(|ticks| trace.seconds(ticks)),
            "printed": {
                "rate_bps": figures.rate_bps,
                "buffer_bytes": figures.buffer,
                "delay_ns": figures.delay_ns,
            },
        }),
        Err(refusal) => json!({
            "scheme": row.scheme.name(),
            "feasible": false,
            "why": refusal.to_string(),
            "hint": hint(*refusal, trace),
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
