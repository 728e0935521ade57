//! Drawing a chart as SVG.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Series, Shape};
use super::reduce::{Dot, reduce};
use super::scale::Scale;

/// Narrow enough that its letters can be read on a telephone.
const WIDTH: f64 = 520.0;
const PLOT_HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
/// What the title of the upright axis takes of the left.
const TITLE: f64 = 24.0;
/// Height of a line of text.
const LINE: f64 = 16.0;
/// Mean width of a letter at the size used.
const LETTER: f64 = 6.7;
/// Okabe and Ito's colours, told apart by those who see few; then the same ones dashed.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];
const DASHES: [&str; 3] = ["", "6 3", "2 2"];
/// How wide a dot is: those of later series lie on top, and leave an edge of what is below.
const DOTS: [f64; 4] = [5.0, 3.4, 2.2, 1.4];

/// Where the parts stand.
struct Frame {
    /// Left edge of the plot, behind labels and title of its axis.
    left: f64,
    /// Upper edge of the plot.
    top: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + self.x.position(value) * (WIDTH - self.left - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.position(value)) * PLOT_HEIGHT
    }

    fn bottom(&self) -> f64 {
        self.top + PLOT_HEIGHT
    }
}

pub(crate) fn render(chart: &Chart) -> String {
    let legend = legend_places(&chart.series);
    let legend_lines = legend.last().map_or(0.0, |place| place.1 + 1.0);
    let caption = wrap(&chart.caption, ((WIDTH - 2.0 * RIGHT) / LETTER) as usize);
    let title = wrap(&chart.title, ((WIDTH - 2.0 * RIGHT) / LETTER / 1.2) as usize);
    let title_bottom = 6.0 + title.len() as f64 * (LINE + 2.0);
    let shown = |pick: fn(&(f64, f64)) -> f64| {
        let (x, y) = (&chart.x, &chart.y);
        let points = chart.series.iter().flat_map(|s| s.points.iter());
        points.filter(move |p| x.shows(p.0) && y.shows(p.1)).map(pick)
    };
    let y = Scale::new(&chart.y, shown(|p| p.1), true);
    let letters = y.ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0);
    let frame = Frame {
        left: f64::max(LEFT, TITLE + letters as f64 * LETTER + 6.0),
        top: title_bottom + legend_lines * LINE + 10.0,
        x: Scale::new(&chart.x, shown(|p| p.0), false),
        y,
    };
    let caption_top = frame.bottom() + 52.0;
    let height = caption_top + caption.len() as f64 * LINE;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>{}</title>\n\
         <desc>{}</desc>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>",
        escape(&chart.title),
        escape(&chart.caption)
    );
    for (k, line) in title.iter().enumerate() {
        let y = LINE + k as f64 * (LINE + 2.0);
        let _ = writeln!(
            out,
            "<text x=\"{RIGHT}\" y=\"{y}\" font-size=\"14\" font-weight=\"600\">{}</text>",
            escape(line)
        );
    }
    axes(&mut out, chart, &frame);
    for (k, (series, place)) in chart.series.iter().zip(&legend).enumerate() {
        draw(&mut out, chart, series, k, &frame);
        let (x, y) = (place.0, title_bottom + place.1 * LINE + 8.0);
        key(&mut out, series, k, x, y);
    }
    for (k, line) in caption.iter().enumerate() {
        let y = caption_top + k as f64 * LINE;
        let _ =
            writeln!(out, "<text x=\"{RIGHT}\" y=\"{y}\" fill=\"#555\">{}</text>", escape(line));
    }
    out.push_str("</svg>\n");
    out
}

/// Grid, tick labels and axis labels.
fn axes(out: &mut String, chart: &Chart, frame: &Frame) {
    let (left, right, bottom) = (frame.left, WIDTH - RIGHT, frame.bottom());
    let mut grid = String::new();
    for (value, label) in &frame.y.ticks {
        let y = frame.y(*value);
        let _ = write!(grid, "M{left} {y:.1}H{right}");
        let (x, y) = (left - 6.0, y + 4.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>");
    }
    for (value, label) in &frame.x.ticks {
        let x = frame.x(*value);
        let _ = write!(grid, "M{x:.1} {:.1}V{bottom:.1}", frame.top);
        let y = bottom + LINE;
        let _ =
            writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>");
    }
    let _ = writeln!(out, "<path d=\"{grid}\" stroke=\"#ddd\" fill=\"none\"/>");
    let _ = writeln!(
        out,
        "<path d=\"M{left} {:.1}V{bottom:.1}H{right}\" stroke=\"#222\" fill=\"none\"/>",
        frame.top
    );
    let middle = f64::midpoint(left, right);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        bottom + 2.0 * LINE,
        named(&chart.x, &frame.x)
    );
    let middle = f64::midpoint(frame.top, bottom);
    let _ = writeln!(
        out,
        "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        named(&chart.y, &frame.y)
    );
}

fn named(axis: &Axis, scale: &Scale) -> String {
    let unit = if scale.unit.is_empty() { String::new() } else { format!(" ({})", scale.unit) };
    escape(&format!("{}{unit}", axis.label))
}

fn stroke(k: usize) -> String {
    let dash = DASHES[k / COLOURS.len() % DASHES.len()];
    let dash =
        if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    format!("stroke=\"{}\" stroke-width=\"1.6\" fill=\"none\"{dash}", colour(k))
}

const fn colour(k: usize) -> &'static str {
    COLOURS[k % COLOURS.len()]
}

fn draw(out: &mut String, chart: &Chart, series: &Series, k: usize, frame: &Frame) {
    let shows = |p: &(f64, f64)| chart.x.shows(p.0) && chart.y.shows(p.1);
    let place = |p: &(f64, f64)| shows(p).then(|| (frame.x(p.0), frame.y(p.1)));
    let dots: Vec<Dot> = series.points.iter().map(place).collect();
    // A dot is four wide: half of that apart, two look like one.
    let cell = if series.shape == Shape::Dots { 2.0 } else { 1.0 };
    let dots = reduce(&dots, series.shape, cell);
    match series.shape {
        Shape::Line | Shape::Step => {
            let path = path(&dots, series.shape);
            let _ = writeln!(out, "<path d=\"{path}\" {} stroke-linejoin=\"round\"/>", stroke(k));
        }
        Shape::Dots => {
            let mut path = String::new();
            for (x, y) in dots.iter().flatten() {
                let _ = write!(path, "M{x:.1} {y:.1}h0");
            }
            let colour = colour(k);
            let _ = writeln!(
                out,
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{}\" \
                 stroke-linecap=\"round\"/>",
                DOTS[k.min(DOTS.len() - 1)]
            );
        }
        Shape::Bars => bars(out, &dots, k, frame),
    }
}

/// Bars are as wide as the least distance of two points allows.
fn bars(out: &mut String, dots: &[Dot], k: usize, frame: &Frame) {
    let xs: Vec<f64> = dots.iter().flatten().map(|d| d.0).collect();
    let least = xs.windows(2).map(|w| w[1] - w[0]).fold(24.0, f64::min);
    let (width, base) = ((least * 0.8).max(0.5), frame.y(frame.y.base()));
    let mut path = String::new();
    for (x, y) in dots.iter().flatten() {
        let left = (x - width / 2.0).max(frame.left);
        let right = (x + width / 2.0).min(WIDTH - RIGHT);
        let _ = write!(path, "M{left:.1} {base:.1}V{y:.1}H{right:.1}V{base:.1}");
    }
    let _ = writeln!(out, "<path d=\"{path}\" fill=\"{}\" fill-opacity=\".75\"/>", colour(k));
}

fn path(dots: &[Dot], shape: Shape) -> String {
    let mut path = String::new();
    let mut pen = false;
    for dot in dots {
        let Some((x, y)) = dot else {
            pen = false;
            continue;
        };
        let _ = match (pen, shape) {
            (false, _) => write!(path, "M{x:.1} {y:.1}"),
            (true, Shape::Step) => write!(path, "H{x:.1}V{y:.1}"),
            (true, _) => write!(path, "L{x:.1} {y:.1}"),
        };
        pen = true;
    }
    path
}

/// An entry of the legend.
fn key(out: &mut String, series: &Series, k: usize, x: f64, y: f64) {
    let (end, text) = (x + 18.0, x + 23.0);
    let mark = match series.shape {
        Shape::Line | Shape::Step => format!("<path d=\"M{x} {y}H{end}\" {}/>", stroke(k)),
        Shape::Dots | Shape::Bars => format!(
            "<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"8\" fill=\"{}\"/>",
            x + 5.0,
            y - 4.0,
            colour(k)
        ),
    };
    let _ =
        writeln!(out, "{mark}<text x=\"{text}\" y=\"{}\">{}</text>", y + 4.0, escape(&series.name));
}

/// Where each entry of the legend begins: x, and its line.
fn legend_places(series: &[Series]) -> Vec<(f64, f64)> {
    let (mut x, mut line) = (RIGHT, 0.0);
    let mut places = Vec::new();
    for s in series {
        let width = 36.0 + s.name.chars().count() as f64 * LETTER;
        if x > RIGHT && x + width > WIDTH {
            (x, line) = (RIGHT, line + 1.0);
        }
        places.push((x, line));
        x += width;
    }
    places
}

/// Lines of at most `width` letters, cut at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// Text for SVG and HTML. Characters that XML does not allow become a replacement character.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::scale::Unit;
    use super::*;

    fn chart() -> Chart {
        let (x, y) = (Axis::new("time", Unit::Seconds), Axis::new("rate", Unit::BitsPerSecond));
        Chart::new("Rate of <a & b>", x, y).caption("What it shows.")
    }

    #[test]
    fn names_are_escaped_and_units_shown() {
        let svg = chart().with("x \"y\" \u{1}", Shape::Line, vec![(0.0, 1e6), (9.0, 2e6)]).svg();
        assert!(svg.contains("<title>Rate of &lt;a &amp; b&gt;</title>"), "{svg}");
        assert!(svg.contains("x &quot;y&quot; \u{fffd}</text>"), "{svg}");
        assert!(svg.contains("rate (Mbit/s)</text>") && svg.contains("time (s)</text>"), "{svg}");
    }

    #[test]
    fn a_step_goes_along_then_up_and_a_line_straight() {
        // x from 0 to 10 s is 444 wide from 62; y from 0 to 2 is 230 high.
        let points = vec![(0.0, 0.0), (5.0, 2.0), (f64::NAN, 1.0), (10.0, 2.0)];
        let step = chart().with("s", Shape::Step, points.clone()).svg();
        assert!(step.contains("d=\"M62.0 280.0H284.0V50.0M506.0 50.0\""), "{step}");
        let line = chart().with("l", Shape::Line, points).svg();
        assert!(line.contains("d=\"M62.0 280.0L284.0 50.0M506.0 50.0\""), "{line}");
    }

    /// On a logarithmic axis labels are as long as `0.0001`.
    #[test]
    fn labels_do_not_run_through_the_title_of_their_axis() {
        let (x, y) = (Axis::new("packet", Unit::Count), Axis::new("delay", Unit::Seconds).log());
        let svg = Chart::new("t", x, y).with("d", Shape::Dots, vec![(0.0, 1e-7), (9.0, 2.0)]).svg();
        let (at, label) = svg
            .lines()
            .filter(|line| line.contains("text-anchor=\"end\""))
            .filter_map(|line| {
                let number = line.split("x=\"").nth(1)?.split('"').next()?.parse::<f64>().ok()?;
                Some((number, line.split('>').nth(1)?.split('<').next()?.to_string()))
            })
            .max_by_key(|(_, label)| label.len())
            .unwrap();
        assert!(label.len() > 6, "{label}");
        // The title stands at 14, its letters are 12 high.
        assert!(at - label.len() as f64 * LETTER >= 20.0, "{at} {label}");
    }

    #[test]
    fn dots_of_one_series_do_not_hide_those_of_another() {
        let points = vec![(1.0, 1.0), (2.0, 2.0)];
        let two = chart().with("a", Shape::Dots, points.clone()).with("b", Shape::Dots, points);
        let svg = two.svg();
        let widths: Vec<f64> = svg
            .split("stroke-width=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert!(widths.windows(2).all(|pair| pair[0] > pair[1] + 1.0), "{widths:?}");
        assert_eq!(widths.len(), 2);
    }

    #[test]
    fn bars_stand_on_zero() {
        let svg = chart().with("b", Shape::Bars, vec![(0.0, 1.0), (1.0, 2.0)]).svg();
        assert!(svg.contains("M62.0 280.0V165.0H71.6V280.0"), "{svg}");
    }

    #[test]
    fn however_many_points_the_picture_is_small() {
        let noise = |k: u32| f64::from(k.wrapping_mul(2_654_435_761) >> 16);
        for shape in [Shape::Line, Shape::Step, Shape::Dots] {
            let points = (0..200_000).map(|k| (f64::from(k), noise(k))).collect();
            let size = chart().with("n", shape, points).svg().len();
            let limit = if shape == Shape::Dots { 400_000 } else { 40_000 };
            assert!(size < limit, "{shape:?}: {size}");
        }
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        let log = Chart::new("t", Axis::new("x", Unit::Bytes).log(), Axis::new("y", Unit::Count));
        let svg = log.with("none", Shape::Line, vec![(0.0, 1.0), (f64::NAN, f64::NAN)]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_long_legend_takes_more_lines_and_none_is_cut() {
        let mut many = chart();
        for k in 0..12 {
            many = many.with(format!("series number {k}"), Shape::Line, vec![(0.0, f64::from(k))]);
        }
        let places = legend_places(&many.series);
        assert!(places.iter().all(|p| p.0 + 36.0 + 16.0 * LETTER < WIDTH), "{places:?}");
        assert!(many.svg().contains("stroke-dasharray"));
    }
}
