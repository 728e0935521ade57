//! The source's three questions over a range: rate and buffer against delay (its Figures 4.3 and
//! 4.9 to 4.14), rate against delay with a fixed buffer (4.15), delay against rate (4.16).

use towpath_media::Stop;
use towpath_media::plan::{
    BufferRow, DelayRow, RateRow, against_delay, at_fixed_buffer, at_fixed_rate,
};
use towpath_media::schedule::pdcbr::DualRate;
use towpath_media::trace::{ExactRate, Trace};

use super::model::slot;
use super::rows::Answer;
use crate::interrupt::Interrupt;
use crate::plot::{Column, Table};

/// Start-up delays of the curves, in slots. The source has 1 to 300 for films, 1 to 30 else.
const SLOTS: [u64; 27] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 25, 30, 40, 50, 60, 80, 100, 130, 160, 200,
    250, 300,
];
/// Buffer of the last two questions where none is given (4 MB, as the source has it mostly).
const BUFFER: u64 = 4_000_000;
/// Rates of the last question: the mean times 1.00 to 1.24.
const PERCENTS: std::ops::RangeInclusive<u64> = 100..=124;

/// The answers, in the order of delays or rates.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    /// Least rate and its buffer at each delay.
    pub(super) by_delay: Vec<DelayRow>,
    /// Least rate within `buffer` at each delay.
    pub(super) within_buffer: Vec<BufferRow>,
    /// Least delay within `buffer` at each rate.
    pub(super) by_rate: Vec<RateRow>,
    /// The fixed buffer in bytes.
    pub(super) buffer: u64,
}

impl Curves {
    /// How many points are computed: `told` is called so many times.
    pub(super) const POINTS: usize =
        2 * SLOTS.len() + (*PERCENTS.end() - *PERCENTS.start() + 1) as usize;

    /// Computes all curves, and tells of each point; after an interrupt, what there is so far.
    /// Points at which nothing is feasible are left out.
    pub(super) fn new(answer: &Answer, stop: &Interrupt, told: &dyn Fn()) -> Self {
        let (trace, question) = (&answer.video.trace, &answer.question);
        let buffer = question.curve_buffer.unwrap_or(BUFFER).max(trace.largest());
        let until = Stop::when(stop.flag());
        let go_on = |_: &u64| {
            told();
            !stop.is_set()
        };
        let delays = || SLOTS.iter().map(|slots| slots * slot(trace)).take_while(go_on);
        let rates = PERCENTS.take_while(go_on);
        Self {
            by_delay: delays()
                .filter_map(|delay| against_delay(trace, delay, question.conventions, until).ok())
                .collect(),
            within_buffer: delays()
                .filter_map(|delay| at_fixed_buffer(trace, buffer, delay, until).ok())
                .collect(),
            by_rate: rates
                .filter_map(|percent| at_fixed_rate(trace, percent, buffer, until).ok())
                .collect(),
            buffer,
        }
    }

    /// As CSV files: a name and a table each.
    pub(super) fn tables(&self, trace: &Trace) -> [(&'static str, Table); 3] {
        [
            ("by-delay", self.by_delay(trace)),
            ("within-buffer", self.within_buffer(trace)),
            ("by-rate", self.by_rate(trace)),
        ]
    }

    fn by_delay(&self, trace: &Trace) -> Table {
        let mut table = table(&[
            "delay_s",
            "delay_slots",
            "cbr_bps",
            "cbr_buffer_bytes",
            "pcbr_bps",
            "pcbr_buffer_bytes",
            "pdcbr_high_bps",
            "pdcbr_low_bps",
            "pdcbr_buffer_bytes",
            "least_buffer_bytes",
        ]);
        for row in &self.by_delay {
            let dual = row.pdcbr.map(|choice| choice.rates);
            push(
                &mut table,
                &[
                    delay(trace, row.delay).to_vec(),
                    vec![bps(trace, Some(row.cbr.rate)), row.cbr.buffer.to_string()],
                    vec![bps(trace, Some(row.pcbr.rate)), row.pcbr.buffer.to_string()],
                    vec![bps(trace, dual.map(DualRate::high)), bps(trace, dual.map(DualRate::low))],
                    vec![
                        row.pdcbr.map_or(String::new(), |choice| choice.buffer.to_string()),
                        row.optimum.buffer.to_string(),
                    ],
                ],
            );
        }
        table
    }

    fn within_buffer(&self, trace: &Trace) -> Table {
        let mut table = table(&[
            "delay_s",
            "delay_slots",
            "buffer_bytes",
            "pcbr_bps",
            "pcbr_prefetched_bytes",
            "pdcbr_high_bps",
            "pdcbr_low_bps",
            "pdcbr_prefetched_bytes",
            "least_bps",
        ]);
        let bytes = |bytes: Option<u64>| bytes.map_or(String::new(), |b| b.to_string());
        for row in &self.within_buffer {
            let dual = row.pdcbr.map(|(choice, _)| choice.rates);
            push(
                &mut table,
                &[
                    delay(trace, row.delay).to_vec(),
                    vec![self.buffer.to_string()],
                    vec![bps(trace, row.pcbr.map(|p| p.0)), bytes(row.pcbr.map(|p| p.1))],
                    vec![bps(trace, dual.map(DualRate::high)), bps(trace, dual.map(DualRate::low))],
                    vec![bytes(row.pdcbr.map(|p| p.1)), bps(trace, Some(row.optimum))],
                ],
            );
        }
        table
    }

    fn by_rate(&self, trace: &Trace) -> Table {
        let mut table = table(&[
            "bps",
            "buffer_bytes",
            "pcbr_delay_s",
            "pdcbr_delay_s",
            "pdcbr_low_bps",
            "least_delay_s",
        ]);
        let seconds = |ticks: Option<u64>| {
            ticks.map_or(String::new(), |ticks| format!("{:.9}", trace.seconds(ticks)))
        };
        for row in &self.by_rate {
            push(
                &mut table,
                &[
                    vec![bps(trace, Some(row.rate)), self.buffer.to_string()],
                    vec![seconds(row.pcbr), seconds(row.pdcbr.map(|choice| choice.delay))],
                    vec![bps(trace, row.pdcbr.map(|choice| choice.rates.low()))],
                    vec![seconds(row.optimum)],
                ],
            );
        }
        table
    }
}

/// A table that is only ever written as CSV.
fn table(columns: &[&'static str]) -> Table {
    Table::new(&columns.iter().map(|name| Column::figures("", name)).collect::<Vec<_>>())
}

fn push<const N: usize>(table: &mut Table, cells: &[Vec<String>; N]) {
    table.push(cells.concat().into_iter().map(|text| (String::new(), text)).collect());
}

fn delay(trace: &Trace, ticks: u64) -> [String; 2] {
    let slots = ticks as f64 / slot(trace) as f64;
    [format!("{:.9}", trace.seconds(ticks)), format!("{slots:.4}")]
}

fn bps(trace: &Trace, rate: Option<ExactRate>) -> String {
    rate.map_or(String::new(), |rate| format!("{:.3}", rate.bps(trace.ticks_per_second())))
}
