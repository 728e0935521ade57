//! `panel`: parameters and results that tasks show while they compute.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use towpath::task::panel::{
    Form, OverWhy, PanelError, Parameter, Point, Series, Told, View, panels,
};
use towpath::{Task, VmDir};
use towpath_report::text::visible;

use crate::control::enrol;
use crate::files::write_file;
use crate::interrupt::{self, INTERRUPTED};
use crate::plot::{Axis, Chart, Page, Section, Shape, Unit};
use crate::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath panel                              which panels are shown now, and by whom
  towpath panel rod                          its parameters and what they may be, its series
  towpath panel rod heater=800 running=on    give parameters other values
  towpath panel rod --follow                 print what its series have kept, then every change and
                                             every result as it comes
  towpath panel rod --follow --json | jq .   the same for programs, an object a line
  towpath panel rod --html page.html         the curves that it keeps, as a page

A task shows a panel (`towpath::task::panel::Panel`, `towpath_panel_new` in C) under a name that is
known in the whole virtual machine. It takes changes where its program says, and is not held up by
who follows: results for which there is no room are left out and counted (`lost`).

Exit status: 0 told and changed, 1 the panel refused a change or tells no more, 130 interrupted,
255 could not.")]
pub(crate) struct PanelArgs {
    /// Which panel; none: list them
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Other values for its parameters
    #[arg(value_name = "PARAMETER=VALUE")]
    set: Vec<String>,
    /// Print what comes until the panel ends
    #[arg(long)]
    follow: bool,
    /// Stop following after so many results
    #[arg(long, value_name = "N", requires = "follow")]
    points: Option<u64>,
    /// Write a page with the curves: those that are kept, and those that come while it follows
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How long the panel may take to answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    timeout: Duration,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
}

/// Points of each series on a page at most: the last ones.
const DRAWN_MAX: usize = 100_000;
/// Between two looks for an interrupt.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn panel(vm: &VmDir, args: &PanelArgs) -> anyhow::Result<ExitCode> {
    if let Some(words) = args.set.iter().find(|words| !words.contains('=')) {
        bail!("`{words}` is no change\nhint: PARAMETER=VALUE");
    }
    let mut task = enrol(vm)?;
    let Some(name) = &args.name else { return list(&mut task, args.json) };
    // Opening and setting end like everything else; following has something to write.
    let mut view = View::open_within(&mut task, name, args.timeout)?;
    let mut kept = Kept::new(view.series());
    let mut status = 0;
    for words in &args.set {
        if !set(&mut task, &mut view, words, args)? {
            status = 1;
        }
    }
    if !args.follow && (args.set.is_empty() || args.html.is_some()) {
        collect(&mut task, &mut view, &mut kept, args.timeout)?;
    }
    if args.set.is_empty() && !args.follow {
        show(&view, &kept, args.json)?;
    }
    let followed = if args.follow {
        let interrupt = interrupt::flag()?;
        let stops = || interrupt.load(Ordering::Relaxed);
        follow(&mut task, &mut view, &mut kept, args, &stops)
    } else {
        Ok(0)
    };
    // Also of a panel whose task was lost: what it told is here.
    if let Some(file) = &args.html {
        write_file(file, page(&view, &kept).html())?;
    }
    // What was refused before is not forgotten.
    status = status.max(followed?);
    // Its end makes room at the panel, whether that answers or not.
    task.leave()?;
    Ok(status.into())
}

fn list(task: &mut Task, json: bool) -> anyhow::Result<ExitCode> {
    let mut all = panels(task)?;
    all.sort();
    for (name, owner) in &all {
        if json {
            putln!("{}", json!({ "panel": name, "task": owner.to_string() }))?;
        } else {
            putln!("{:<24} {owner}", visible(name))?;
        }
    }
    if all.is_empty() && !json {
        eprintln!("no panel is shown\nhint: `towpath panel --help` says what they are");
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives a parameter another value; false: the panel refused it, which was said.
fn set(task: &mut Task, view: &mut View, words: &str, args: &PanelArgs) -> anyhow::Result<bool> {
    let Some((name, text)) = words.split_once('=') else { return Ok(false) };
    let outcome = view.read(name, text).and_then(|value| {
        view.set_within(task, name, value, args.timeout)?;
        Ok(value)
    });
    let name = visible(name);
    match outcome {
        Ok(value) if args.json => putln!("{}", json!({ "set": name, "value": value }))?,
        Ok(_) => putln!("{name} = {}", visible(text))?,
        Err(PanelError::Value(why)) => {
            eprintln!("{}", visible(&why.to_string()));
            return Ok(false);
        }
        Err(PanelError::Denied(why)) => {
            eprintln!("{}", visible(&why));
            return Ok(false);
        }
        Err(why @ PanelError::NoParameter { .. }) => {
            eprintln!("{why}");
            return Ok(false);
        }
        Err(other) => return Err(other.into()),
    }
    Ok(true)
}

/// Points of a panel's series, the last ones of each.
struct Kept {
    points: Vec<VecDeque<Point>>,
    lost: Vec<u64>,
}

impl Kept {
    fn new(series: &[Series]) -> Self {
        let points = series.iter().map(|_| VecDeque::new()).collect();
        Self { points, lost: vec![0; series.len()] }
    }

    fn add(&mut self, point: Point, is_drawn: bool) {
        let number = usize::from(point.series);
        self.lost[number] = self.lost[number].saturating_add(point.lost);
        let points = &mut self.points[number];
        while points.len() >= if is_drawn { DRAWN_MAX } else { 1 } {
            points.pop_front();
        }
        points.push_back(point);
    }
}

fn is_drawn(series: &Series) -> bool {
    matches!(series.form(), Form::Curves(_))
}

/// Takes what the panel keeps.
fn collect(
    task: &mut Task,
    view: &mut View,
    kept: &mut Kept,
    patience: Duration,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !view.has_kept() {
        let left = patience.saturating_sub(begun.elapsed());
        match view.next(task, Some(left))? {
            Some(Told::Point(point)) => {
                let drawn = is_drawn(&view.series()[usize::from(point.series)]);
                kept.add(point, drawn);
            }
            Some(Told::Over(_)) | None => break,
            Some(_) if left.is_zero() => break,
            Some(_) => {}
        }
    }
    Ok(())
}

fn parameter_json(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name(),
        "value": parameter.value(),
        "text": parameter.text_of(parameter.value()),
        "unit": parameter.unit_text(),
        "wanted": parameter.wanted(),
    })
}

fn series_json(series: &Series) -> Value {
    let (form, curves) = match series.form() {
        Form::Curves(curves) => ("curves", json!(curves)),
        Form::Field { rows, columns } => ("field", json!([rows, columns])),
        _ => ("other", Value::Null),
    };
    json!({
        "name": series.name(),
        "unit": series.unit_text(),
        "over": series.over_text(),
        form: curves,
    })
}

fn point_json(series: &Series, point: &Point) -> Value {
    json!({
        "series": series.name(),
        "at": point.at,
        "values": point.values,
        "lost": point.lost,
    })
}

/// A number to seven digits: enough for people.
fn short(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// A point in a line: all values of curves, the least, mean and greatest of a field.
fn point_text(series: &Series, point: &Point) -> String {
    let over = visible(series.over_text());
    let lost = if point.lost == 0 { String::new() } else { format!("  ({} lost)", point.lost) };
    let values = if let Form::Curves(curves) = series.form() {
        let each = curves.iter().zip(&point.values);
        each.map(|(name, value)| format!("{} {}", visible(name), short(*value))).collect()
    } else {
        let values = || point.values.iter().copied();
        let mean = values().sum::<f64>() / values().count().max(1) as f64;
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        let [least, mean, most] = [least, mean, most].map(short);
        vec![format!("least {least}"), format!("mean {mean}"), format!("greatest {most}")]
    };
    let (name, unit) = (visible(series.name()), visible(series.unit_text()));
    format!("{name}  {over} {}: {} {unit}{lost}", point.at, values.join(", ")).trim_end().into()
}

fn show(view: &View, kept: &Kept, json: bool) -> anyhow::Result<()> {
    let last = |number: usize| kept.points[number].back();
    if json {
        let series = view.series().iter().enumerate().map(|(number, series)| {
            let mut told = series_json(series);
            told["last"] = last(number).map_or(Value::Null, |point| point_json(series, point));
            told
        });
        let told = json!({
            "panel": view.name(),
            "task": view.panel().to_string(),
            "parameters": view.parameters().iter().map(parameter_json).collect::<Vec<_>>(),
            "series": series.collect::<Vec<_>>(),
        });
        putln!("{told}")?;
        return Ok(());
    }
    putln!("panel {} of task {}", visible(view.name()), view.panel())?;
    for parameter in view.parameters() {
        let value = format!("{} {}", parameter.text_of(parameter.value()), parameter.unit_text());
        putln!(
            "  {:<20} {:<16} {}",
            visible(parameter.name()),
            visible(value.trim_end()),
            visible(&parameter.wanted())
        )?;
    }
    for (number, series) in view.series().iter().enumerate() {
        match last(number) {
            Some(point) => putln!("  {}", point_text(series, point))?,
            None => putln!("  {:<20} nothing kept; --follow", visible(series.name()))?,
        }
    }
    Ok(())
}

/// Prints what comes; the status to end with.
fn follow(
    task: &mut Task,
    view: &mut View,
    kept: &mut Kept,
    args: &PanelArgs,
    stops: &dyn Fn() -> bool,
) -> anyhow::Result<u8> {
    let mut left = args.points.unwrap_or(u64::MAX);
    while left > 0 {
        if stops() {
            return Ok(INTERRUPTED);
        }
        match view.next(task, Some(LOOK))? {
            Some(Told::Over(OverWhy::CutOff)) => {
                eprintln!("this command took too little for too long, and is told no more");
                return Ok(1);
            }
            Some(Told::Over(_)) => break,
            Some(Told::Point(point)) => {
                left -= 1;
                let series = &view.series()[usize::from(point.series)];
                if args.json {
                    putln!("{}", point_json(series, &point))?;
                } else {
                    putln!("{}", point_text(series, &point))?;
                }
                if args.html.is_some() {
                    let drawn = is_drawn(series);
                    kept.add(point, drawn);
                }
            }
            Some(Told::Changed { parameter, value, by }) => {
                let about = &view.parameters()[usize::from(parameter)];
                let by = by.map_or_else(|| "the program".to_owned(), |task| task.to_string());
                if args.json {
                    let name = about.name();
                    putln!("{}", json!({ "changed": name, "value": value, "by": by }))?;
                } else {
                    let (name, value) = (visible(about.name()), about.text_of(value));
                    putln!("{name} = {}  (by {by})", visible(&value))?;
                }
            }
            _ => {}
        }
    }
    Ok(0)
}

fn page(view: &View, kept: &Kept) -> Page {
    let lead = format!("Shown by task {}", view.panel());
    let mut page = Page::new(&format!("Panel {}", view.name()), &lead);
    let parameters: Vec<String> = view
        .parameters()
        .iter()
        .map(|p| format!("{} = {} {}", p.name(), p.text_of(p.value()), p.unit_text()))
        .collect();
    page.push(&Section::new("Parameters").lines(&parameters.join("\n")));
    for (number, series) in view.series().iter().enumerate() {
        let Form::Curves(curves) = series.form() else { continue };
        let label = |name: &str, unit: &str| match unit {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        };
        let x = Axis::new(series.over_text(), Unit::Count).tight();
        let y = Axis::new(label(series.name(), series.unit_text()), Unit::Count).tight();
        let mut chart = Chart::new(series.name(), x, y);
        for (curve, name) in curves.iter().enumerate() {
            let points = kept.points[number].iter().map(|p| (p.at, p.values[curve])).collect();
            chart = chart.with(name.as_str(), Shape::Line, points);
        }
        let mut section = Section::new(series.name()).charts([&chart]);
        if kept.lost[number] > 0 {
            section = section.text(&format!("{} points were not told.", kept.lost[number]));
        }
        page.push(&section);
    }
    page
}
