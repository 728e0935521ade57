//! How long planning takes: medians in milliseconds, for each trace and several delays.
//!
//! `cargo bench -p towpath-media --bench schedules [NAME...]`: a self-similar trace of 90 000
//! frames made here, and every `.csv` in the folder that `TOWPATH_TRACES` names (25 frames per
//! second assumed). Every figure includes the exact arithmetic; nothing is kept between runs.

use std::hint::black_box;
use std::time::Instant;

use towpath_media::Stop;
use towpath_media::plan::{Wish, plan};
use towpath_media::schedule::{ScheduleError, Scheme, cba, cbr, pcbr, pdcbr, smooth, window};
use towpath_media::trace::{BareUnit, FrameRate, Trace, parse};

/// Delays in slots from the first bit to the first frame.
const SLOTS: [u64; 3] = [2, 11, 301];
const RUNS: usize = 5;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let mut traces = vec![("synthetic".to_owned(), synthetic(90_000))];
    if let Some(folder) = std::env::var_os("TOWPATH_TRACES") {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "csv"))
            .collect();
        files.sort();
        for file in files {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let bytes = std::fs::read(&file).expect("a file");
            let listing = parse(&bytes, BareUnit::Bytes).expect("a trace");
            traces.push((name, Trace::uniform(listing.sizes, FrameRate::TWENTY_FIVE).expect("it")));
        }
    } else {
        eprintln!("TOWPATH_TRACES is not set: only the synthetic trace");
    }
    println!(
        "{:20} {:>6} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8}",
        "ms",
        "frames",
        "slots",
        "cbr",
        "pcbr",
        "window",
        "smooth",
        "pdcbr1",
        "380",
        "cba",
        "mcba",
        "table"
    );
    for (name, trace) in &traces {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            for slots in SLOTS {
                row(name, trace, slots);
            }
        }
    }
}

fn row(name: &str, trace: &Trace, slots: u64) {
    let delay = slots * trace.slot().expect("even");
    let buffer = 1_000_000.max(trace.largest());
    let rate = pcbr::least_rate(trace, delay).expect("rate");
    let rates = pdcbr::DualRate::new(rate, 10, 20).expect("rates");
    let figures = [
        median(|| cbr::least_rate(trace, delay).map(|rate| cbr::buffer(trace, rate, delay))),
        median(|| pcbr::least_rate(trace, delay).map(|rate| pcbr::buffer(trace, rate, delay))),
        median(|| window::least_rate(trace, buffer, delay)),
        median(|| smooth::schedule(trace, buffer, delay)),
        median(|| pdcbr::least_delay(trace, rates).map(|wait| pdcbr::buffer(trace, rates, wait))),
        median(|| pdcbr::least_buffer(trace, delay, Stop::NEVER)),
        median(|| cba::schedule(trace, buffer, delay)),
        median(|| cba::mcba(trace, buffer, delay)),
        median(|| table(trace, buffer, delay)),
    ];
    print!("{name:20} {:>6} {slots:>5}", trace.groups());
    for figure in figures {
        print!(" {figure:>7.2}");
    }
    println!();
}

/// Everything that a table of all schemes shows.
fn table(trace: &Trace, buffer: u64, delay: u64) -> Result<usize, ScheduleError> {
    let mut changes = 0;
    for scheme in Scheme::ALL {
        let wish = match scheme {
            Scheme::Cbr | Scheme::Pcbr | Scheme::Pdcbr | Scheme::Ideal => Wish::Delay(delay),
            _ => Wish::BufferDelay(buffer, delay),
        };
        let Ok(plan) = plan(trace, scheme, wish) else { continue };
        changes += plan.schedule(trace)?.check(trace).expect("feasible").changes;
    }
    Ok(changes)
}

fn median<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// Self-similar frame sizes: scenes of many lengths laid over each other, groups of 12 pictures.
fn synthetic(frames: usize) -> Trace {
    let mut state = 7u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut level = vec![0.0f64; frames];
    for octave in 0..14 {
        let length = 1usize << octave;
        for scene in level.chunks_mut(length) {
            let shift = random() - 0.5;
            for frame in scene {
                *frame += shift;
            }
        }
    }
    let sizes = level.iter().enumerate().map(|(index, level)| {
        let weight = [5.0, 0.6, 0.6, 1.6, 0.6, 0.6, 1.6, 0.6, 0.6, 1.6, 0.6, 0.6][index % 12];
        (2_000.0 * weight * level.exp() * (0.8 + 0.4 * random())) as u64 + 40
    });
    Trace::uniform(sizes.collect::<Vec<_>>(), FrameRate::TWENTY_FIVE).expect("a trace")
}
