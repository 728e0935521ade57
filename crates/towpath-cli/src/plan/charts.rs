//! The pictures of a plan, each after one of the source's figures.

use towpath_media::Stop;
use towpath_media::plan::{BufferRow, DelayRow, RateRow, Video, Wish, plan_until};
use towpath_media::schedule::{Point, Schedule, Scheme};
use towpath_media::trace::{ExactRate, Trace};

use super::curves::Curves;
use super::model::slot;
use super::rows::Answer;
use crate::plot::{Axis, Chart, Shape, Unit};
use crate::units::size_text;

/// Frame times of start-up delay in the pictures that show how a scheme works, as the source has.
const WORKING_DELAY: u64 = 2;
/// Frame times that they show after it.
const WORKING: u64 = 12;
/// Frames that are averaged in the picture of frame sizes, as the source does.
const AVERAGED: usize = 10;

/// A chart, and the name of its file.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) chart: Chart,
}

type Points = Vec<(f64, f64)>;

/// All that have something to show.
pub(super) fn charts(answer: &Answer, curves: &Curves, stop: Stop<'_>) -> Vec<Named> {
    let trace = &answer.video.trace;
    let mut all = vec![
        ("frame-sizes", Some(sizes(&answer.video))),
        ("corridor", corridor(answer)),
        ("cbr", one(answer, Scheme::Cbr)),
    ];
    for (name, scheme) in [
        ("pcbr-working", Scheme::Pcbr),
        ("pdcbr-working", Scheme::Pdcbr),
        ("window-pcbr-working", Scheme::WindowPcbr),
    ] {
        all.push((name, working(answer, scheme, stop)));
    }
    all.push(("rates", rates(answer)));
    all.push(("rate-by-delay", rate_by_delay(trace, &curves.by_delay)));
    all.push(("buffer-by-delay", buffer_by_delay(trace, &curves.by_delay)));
    all.push(("rate-within-buffer", rate_within(trace, curves)));
    all.push(("delay-by-rate", delay_by_rate(trace, curves)));
    let named = |(name, chart): (_, Option<Chart>)| Some(Named { name, chart: chart? });
    all.into_iter().filter_map(named).collect()
}

fn time() -> Axis {
    Axis::new("time after the first bit", Unit::Seconds)
}

fn bytes() -> Axis {
    Axis::new("bytes", Unit::Bytes)
}

fn schedule(answer: &Answer, scheme: Scheme) -> Option<&Schedule> {
    let row = answer.rows.iter().find(|row| row.scheme == scheme)?;
    row.answer.as_ref().ok().map(|solved| &solved.solution.schedule)
}

/// Bytes taken out of the buffer, over time after the first bit; `more` bytes higher.
fn consumption(trace: &Trace, delay: u64, more: u64, until: u64) -> Points {
    let at = |time: u64| trace.seconds(delay + time);
    let first = (0.0, more.min(trace.total()) as f64);
    let groups = trace.times().iter().zip(&trace.sums()[1..]).take_while(|(t, _)| **t <= until);
    let steps = groups.map(|(time, sum)| (at(*time), (sum + more).min(trace.total()) as f64));
    std::iter::once(first).chain(steps).collect()
}

/// A delivery curve until so many ticks after the first bit.
fn delivery(schedule: &Schedule, until: u64) -> Points {
    let hz = schedule.ticks_per_second as f64;
    delivery_points(schedule, until).iter().map(|p| (p.ticks / hz, p.bytes)).collect()
}

/// Its corners.
fn delivery_points(schedule: &Schedule, until: u64) -> Vec<Point> {
    let until = until as f64;
    let mut points = Vec::new();
    let mut last = Point { ticks: 0.0, bytes: 0.0 };
    for point in schedule.points() {
        if point.ticks > until {
            let share = (until - last.ticks) / (point.ticks - last.ticks);
            let bytes = last.bytes + share * (point.bytes - last.bytes);
            points.push(Point { ticks: until, bytes });
            break;
        }
        points.push(point);
        last = point;
    }
    points
}

/// Figure 4.1: between consumption and consumption plus buffer, the smoothest delivery.
fn corridor(answer: &Answer) -> Option<Chart> {
    let smooth = schedule(answer, Scheme::Smooth).or(schedule(answer, Scheme::WindowPcbr))?;
    let trace = &answer.video.trace;
    let (delay, buffer) = (smooth.delay, smooth.buffer);
    let title = format!("Delivery by {} within the corridor", smooth.scheme);
    let caption = format!(
        "A delivery curve must stay between what the decoder has consumed and that plus the \
         buffer of {} (Figure 4.1 of the source).",
        size_text(buffer as f64)
    );
    let chart = Chart::new(title, time(), bytes())
        .caption(caption)
        .with("consumed", Shape::Step, consumption(trace, delay, 0, u64::MAX))
        .with("consumed + buffer", Shape::Step, consumption(trace, delay, buffer, u64::MAX))
        .with("delivered", Shape::Line, delivery(smooth, u64::MAX));
    Some(chart)
}

/// Figure 4.2: a whole delivery.
fn one(answer: &Answer, scheme: Scheme) -> Option<Chart> {
    let schedule = schedule(answer, scheme)?;
    let trace = &answer.video.trace;
    let caption = "The line is the least steep one from the first bit that never crosses the \
                   consumption (Figure 4.2 of the source).";
    let chart = Chart::new(format!("Delivery by {scheme}"), time(), bytes())
        .caption(caption)
        .with("consumed", Shape::Step, consumption(trace, schedule.delay, 0, u64::MAX))
        .with("delivered", Shape::Line, delivery(schedule, u64::MAX));
    Some(chart)
}

/// Figures 4.7 and 4.8: how the schemes work that go by clock references.
fn working(answer: &Answer, scheme: Scheme, stop: Stop<'_>) -> Option<Chart> {
    answer.rows.iter().find(|row| row.scheme == scheme)?;
    let trace = &answer.video.trace;
    let slot = slot(trace);
    let (delay, until) = (WORKING_DELAY * slot, WORKING * slot);
    let wish = match scheme {
        // With the buffer of pcbr, so that both can be compared.
        Scheme::WindowPcbr => {
            let buffer = plan_until(trace, Scheme::Pcbr, Wish::Delay(delay), stop).ok()?.buffer;
            Wish::BufferDelay(buffer, delay)
        }
        _ => Wish::Delay(delay),
    };
    let schedule = plan_until(trace, scheme, wish, stop).ok()?.schedule_until(trace, stop).ok()?;
    let (figure, what) = match scheme {
        Scheme::Pcbr => (" (Figure 4.7 of the source)", "at one that is early, sending pauses"),
        Scheme::Pdcbr => (
            " (Figure 4.8 of the source)",
            "after one that is early the low rate is used, after one that is late the high one",
        ),
        _ => ("", "sending pauses while the buffer, that of pcbr, is full"),
    };
    let caption = format!(
        "The first {WORKING} frame times after a start-up delay of {WORKING_DELAY}{figure}. Dots: \
         clock references as they are sent; {what}."
    );
    let end = delay + until;
    let chart = Chart::new(format!("How {scheme} works"), time(), bytes())
        .caption(caption)
        .with("consumed", Shape::Step, consumption(trace, delay, 0, until))
        .with("delivered", Shape::Line, delivery(&schedule, end))
        .with("clock references", Shape::Dots, references(trace, &schedule, end));
    Some(chart)
}

/// When the first byte of each group is sent, until so many ticks after the first bit.
fn references(trace: &Trace, schedule: &Schedule, until: u64) -> Points {
    let corners: Vec<Point> = delivery_points(schedule, until);
    let mut points = Points::new();
    for sum in &trace.sums()[..trace.groups()] {
        let bytes = *sum as f64;
        // The stretch that carries it: from the corner at or below it to the next one above.
        let after = corners.iter().rposition(|corner| corner.bytes <= bytes);
        let Some((from, to)) = after.and_then(|k| Some((corners[k], *corners.get(k + 1)?))) else {
            break;
        };
        let share = (bytes - from.bytes) / (to.bytes - from.bytes);
        let ticks = from.ticks + share * (to.ticks - from.ticks);
        points.push((ticks / schedule.ticks_per_second as f64, bytes));
    }
    points
}

/// Figure 4.11: sizes of frames, averaged.
fn sizes(video: &Video) -> Chart {
    let trace = &video.trace;
    let sizes: Vec<u64> = (0..trace.groups()).map(|k| trace.size(k)).collect();
    let mut points: Points = Points::new();
    for (k, few) in sizes.chunks(AVERAGED).enumerate() {
        let mean = few.iter().sum::<u64>() as f64 / few.len() as f64;
        points.push(((k * AVERAGED) as f64, mean));
    }
    let end = sizes.len() as f64;
    points.push((end, points.last().map_or(0.0, |last| last.1)));
    let mean = trace.total() as f64 / end;
    let unit = video.unit;
    let x = Axis::new(unit.to_string(), Unit::Count);
    let y = Axis::new(format!("mean {unit} size"), Unit::Bytes);
    let caption = format!("Means of {AVERAGED} {unit}s (Figure 4.11 of the source).");
    Chart::new(format!("Sizes of {unit}s"), x, y)
        .caption(caption)
        .with(format!("mean of {AVERAGED}"), Shape::Step, points)
        .with("mean of all", Shape::Line, vec![(0.0, mean), (end, mean)])
}

/// Sending rate over time of the schemes with few changes.
fn rates(answer: &Answer) -> Option<Chart> {
    let y = Axis::new("sending rate", Unit::BitsPerSecond);
    let mut chart = Chart::new("Sending rate over time", time(), y);
    for scheme in [Scheme::Cbr, Scheme::Smooth, Scheme::Cba, Scheme::Mcba, Scheme::Pcrtt] {
        let Some(schedule) = schedule(answer, scheme) else { continue };
        chart = chart.with(scheme.name(), Shape::Step, sending(schedule));
    }
    let caption = "Each step is a change that the sender, or the reservation, has to make.";
    (!chart.series.is_empty()).then(|| chart.caption(caption))
}

/// Rate over time; zero in pauses and at the end.
fn sending(schedule: &Schedule) -> Points {
    let hz = schedule.ticks_per_second as f64;
    let corners: Vec<_> = schedule.points().collect();
    let mut points = Vec::new();
    let mut done = 0.0;
    for (stretch, segment) in corners.chunks(2).zip(&schedule.segments) {
        let [from, to] = stretch else { continue };
        if from.ticks > done {
            points.push((done / hz, 0.0));
        }
        points.push((from.ticks / hz, segment.rate.bps(schedule.ticks_per_second)));
        done = to.ticks;
    }
    points.push((done / hz, 0.0));
    points
}

/// Start-up delays from a slot to some hundred: as much room for the short ones as for the long.
fn startup() -> Axis {
    Axis::new("start-up delay", Unit::Seconds).log()
}

/// A point for each row that has a value.
fn series<R>(rows: &[R], x: impl Fn(&R) -> f64, y: impl Fn(&R) -> Option<f64>) -> Points {
    rows.iter().filter_map(|row| Some((x(row), y(row)?))).collect()
}

/// Adds the series that have points.
fn with_all<const N: usize>(mut chart: Chart, all: [(&str, Points); N]) -> Option<Chart> {
    for (name, points) in all.into_iter().filter(|(_, points)| !points.is_empty()) {
        chart = chart.with(name, Shape::Line, points);
    }
    (!chart.series.is_empty()).then_some(chart)
}

/// Right-hand side of Figures 4.3, 4.9, 4.10, 4.12 to 4.14.
fn rate_by_delay(trace: &Trace, rows: &[DelayRow]) -> Option<Chart> {
    let y = Axis::new("rate", Unit::BitsPerSecond).log();
    let bps = |rate: ExactRate| Some(rate.bps(trace.ticks_per_second()));
    let of = |value: &dyn Fn(&DelayRow) -> Option<ExactRate>| {
        series(rows, |row| trace.seconds(row.delay), |row| value(row).and_then(bps))
    };
    let chart = Chart::new("Least rate against start-up delay", startup(), y).caption(
        "However large the buffer (Figures 4.3, 4.9 to 4.14 of the source, right). pdcbr with the \
         pair of rates that needs least buffer.",
    );
    with_all(
        chart,
        [
            ("pcbr", of(&|row| Some(row.pcbr.rate))),
            ("pdcbr, high", of(&|row| Some(row.pdcbr?.rates.high()))),
            ("pdcbr, low", of(&|row| Some(row.pdcbr?.rates.low()))),
            ("cbr, window-pcbr, smooth (the least)", of(&|row| Some(row.cbr.rate))),
        ],
    )
}

/// Left-hand side of the same.
fn buffer_by_delay(trace: &Trace, rows: &[DelayRow]) -> Option<Chart> {
    let y = Axis::new("buffer", Unit::Bytes).log();
    let of = |value: &dyn Fn(&DelayRow) -> Option<u64>| {
        series(rows, |row| trace.seconds(row.delay), |row| value(row).map(|bytes| bytes as f64))
    };
    let chart = Chart::new("Buffer against start-up delay", startup(), y).caption(
        "The buffer that goes with the rates beside (Figures 4.3, 4.9 to 4.14 of the source, \
         left). The least is at the rate of cbr; pcbr, at a higher one, can do with less.",
    );
    with_all(
        chart,
        [
            ("cbr", of(&|row| Some(row.cbr.buffer))),
            ("pdcbr", of(&|row| Some(row.pdcbr?.buffer))),
            ("pcbr", of(&|row| Some(row.pcbr.buffer))),
            ("window-pcbr, smooth (at the rate of cbr)", of(&|row| Some(row.optimum.buffer))),
        ],
    )
}

/// Figure 4.15.
fn rate_within(trace: &Trace, curves: &Curves) -> Option<Chart> {
    let y = Axis::new("rate", Unit::BitsPerSecond).log();
    let rows = &curves.within_buffer;
    let bps = |rate: ExactRate| Some(rate.bps(trace.ticks_per_second()));
    let size = size_text(curves.buffer as f64);
    let x = |row: &BufferRow| trace.seconds(row.delay);
    let of = |value: &dyn Fn(&BufferRow) -> Option<ExactRate>| {
        series(rows, x, |row| value(row).and_then(bps))
    };
    let title = format!("Least rate with a buffer of {size}");
    let chart = Chart::new(title, startup(), y).caption(
        "Figure 4.15 of the source. pcbr and pdcbr on its grid of 1 % of the mean rate, pdcbr no \
         higher than pcbr; where they have no point, nothing fits.",
    );
    with_all(
        chart,
        [
            ("pcbr", of(&|row| Some(row.pcbr?.0))),
            ("pdcbr, high", of(&|row| Some(row.pdcbr?.0.rates.high()))),
            ("pdcbr, low", of(&|row| Some(row.pdcbr?.0.rates.low()))),
            ("window-pcbr, smooth (the least)", of(&|row| Some(row.optimum))),
        ],
    )
}

/// Figure 4.16.
fn delay_by_rate(trace: &Trace, curves: &Curves) -> Option<Chart> {
    let x = Axis::new("rate", Unit::BitsPerSecond).tight();
    let size = size_text(curves.buffer as f64);
    let title = format!("Least start-up delay with a buffer of {size}");
    let of = |value: &dyn Fn(&RateRow) -> Option<u64>| {
        let bps = |row: &RateRow| row.rate.bps(trace.ticks_per_second());
        series(&curves.by_rate, bps, |row| value(row).map(|ticks| trace.seconds(ticks)))
    };
    let caption = "At 1.00 to 1.24 times the mean rate (Figure 4.16 of the source). No point: \
                   the buffer does not suffice.";
    let y = Axis::new("start-up delay", Unit::Seconds);
    let chart = Chart::new(title, x, y).caption(caption);
    with_all(
        chart,
        [
            ("pcbr", of(&|row| row.pcbr)),
            ("pdcbr", of(&|row| Some(row.pdcbr?.delay))),
            ("window-pcbr, smooth (the least)", of(&|row| row.optimum)),
        ],
    )
}
