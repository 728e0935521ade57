//! Real traces against an independent computation (conventions and figures: see
//! docs/video-schedules.md). The traces belong to others and are not shipped: the folder that
//! holds them is named by `TOWPATH_TRACES`.

use std::path::{Path, PathBuf};

use towpath_media::Stop;
use towpath_media::plan::{Wish, at_fixed_buffer, at_fixed_rate, plan};
use towpath_media::schedule::{Scheme, cbr, pcbr, pdcbr, window};
use towpath_media::trace::{BareUnit, ExactRate, FrameRate, Trace, parse};
use towpath_skip::skip;

/// What an independent computation printed: data/reference.txt.
struct Row {
    name: &'static str,
    fps: u32,
    figures: Vec<Option<f64>>,
}

fn rows() -> Vec<Row> {
    let lines = include_str!("../../data/reference.txt").lines();
    let row = |line: &'static str| {
        let mut fields = line.split_ascii_whitespace().filter(|&field| field != "|");
        let name = fields.next().expect("a name");
        let fps = fields.next().expect("a frame rate").parse().expect("a number");
        let figures: Vec<_> = fields.map(|field| field.parse().ok()).collect();
        assert_eq!(figures.len(), 15, "{line}");
        Row { name, fps, figures }
    };
    lines.filter(|line| !line.starts_with('#')).map(row).collect()
}

const BUFFER: u64 = 4_000_000;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TOWPATH_TRACES").map(PathBuf::from);
    if folder.is_none() {
        skip("TOWPATH_TRACES names no folder of frame traces");
    }
    folder
}

fn load(file: &Path, fps: u32) -> Trace {
    let bytes = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let listing = parse(&bytes, BareUnit::Bytes).expect("a trace file");
    Trace::uniform(listing.sizes, FrameRate::new(fps, 1).expect("fps")).expect("a trace")
}

fn kbps(trace: &Trace, rate: ExactRate) -> f64 {
    rate.bps(trace.ticks_per_second()) / 1e3
}

fn compare(trace: &Trace, row: &Row) {
    let slot = trace.slot().expect("even");
    let delay = 11 * slot;
    let cbr = cbr::least_rate(trace, delay).expect("rate");
    let grid = pcbr::grid_rate(trace, delay).expect("rate");
    let pair = pdcbr::least_buffer(trace, delay, Stop::NEVER).expect("a pair");
    let least = window::least_buffer(trace, pair.rates.high(), delay).expect("buffer");
    let within = at_fixed_buffer(trace, BUFFER, delay, Stop::NEVER).expect("row");
    let at_rate = at_fixed_rate(trace, 110, BUFFER, Stop::NEVER).expect("row");
    // Slots before the first frame's own.
    let slots = |ticks: u64| (ticks.div_ceil(slot).saturating_sub(1)) as f64;
    let found = [
        (Some(kbps(trace, cbr)), 1.0),
        (Some(cbr::buffer(trace, cbr, delay) as f64 / 1e6), 0.01),
        (Some(cbr::buffer_uncapped(trace, cbr, delay) as f64 / 1e6), 0.01),
        (Some(kbps(trace, grid)), 1.0),
        (Some(pcbr::buffer(trace, grid, delay) as f64 / 1e3), 1.0),
        (Some(kbps(trace, pair.rates.high())), 1.0),
        (Some(kbps(trace, pair.rates.low())), 1.0),
        (Some(pair.buffer as f64 / 1e3), 1.0),
        (Some(least as f64 / 1e3), 1.0),
        (within.pcbr.map(|(rate, _)| kbps(trace, rate)), 1.0),
        (within.pdcbr.map(|(choice, _)| kbps(trace, choice.rates.high())), 1.0),
        (Some(kbps(trace, within.optimum)), 1.0),
        (at_rate.pcbr.map(slots), 0.0),
        (at_rate.pdcbr.map(|choice| slots(choice.delay)), 0.0),
        (at_rate.optimum.map(slots), 0.0),
    ];
    for (index, ((found, unit), figure)) in found.into_iter().zip(&row.figures).enumerate() {
        let same = match (found, figure) {
            (Some(found), Some(figure)) => (found - figure).abs() <= unit * 0.5 + 1e-6,
            (found, figure) => found.is_none() && figure.is_none(),
        };
        assert!(same, "{}, figure {index}: {found:?} for {figure:?}", row.name);
    }
}

#[test]
#[ignore = "nightly: traces of others, named by TOWPATH_TRACES"]
fn the_published_rows_are_reproduced() {
    let Some(folder) = folder() else { return };
    for row in rows() {
        let trace = load(&folder.join(row.name).with_extension("csv"), row.fps);
        compare(&trace, &row);
    }
}

#[test]
fn the_shipped_trace_s_row_is_reproduced() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mix-mpeg1.csv");
    let row = rows().into_iter().find(|row| row.name == "mix-mpeg1").expect("row");
    compare(&load(&file, row.fps), &row);
}

/// Every scheme's plan is followed exactly: nothing starves, nothing overflows.
fn carry_out(trace: &Trace, buffer: u64, slots: u64) {
    let delay = slots * trace.slot().expect("even");
    for scheme in Scheme::ALL {
        let wish = match scheme {
            Scheme::Cbr | Scheme::Pcbr | Scheme::Pdcbr | Scheme::Ideal => Wish::Delay(delay),
            _ => Wish::BufferDelay(buffer, delay),
        };
        let Ok(plan) = plan(trace, scheme, wish) else { continue };
        let schedule = plan.schedule(trace).expect("schedule");
        let checked = schedule.check(trace).unwrap_or_else(|e| panic!("{scheme}: {e}"));
        assert!(checked.peak <= plan.rate && checked.buffer <= plan.buffer, "{scheme}");
        if matches!(scheme, Scheme::WindowPcbr | Scheme::Smooth) {
            assert_eq!(checked.peak, window::least_rate(trace, buffer, delay).expect("rate"));
        }
    }
}

#[test]
fn every_scheme_carries_the_shipped_trace() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mix-mpeg1.csv");
    let trace = load(&file, 30);
    for slots in [1, 2, 11, 300, 900] {
        for buffer in [65_536, 1_000_000, 1 << 40] {
            carry_out(&trace, buffer, slots);
        }
    }
    for every in [2, 3, 7] {
        carry_out(&trace.grouped(every), 200_000, 3);
    }
}

#[test]
#[ignore = "nightly: traces of others, named by TOWPATH_TRACES"]
fn every_scheme_carries_every_trace() {
    let Some(folder) = folder() else { return };
    for row in rows() {
        let trace = load(&folder.join(row.name).with_extension("csv"), row.fps);
        for buffer in [131_072, 4_000_000] {
            carry_out(&trace, buffer, 11);
        }
    }
}
