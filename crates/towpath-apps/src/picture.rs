//! Pictures of fields of values: in a terminal, and as SVG.

use std::fmt::Write as _;

/// Values in rows, the first row on top.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

/// From dark to light: perceptually even (the ends and four stops of "viridis").
const STOPS: [[f64; 3]; 6] = [
    [68.0, 1.0, 84.0],
    [65.0, 68.0, 135.0],
    [42.0, 120.0, 142.0],
    [34.0, 168.0, 132.0],
    [122.0, 209.0, 81.0],
    [253.0, 231.0, 37.0],
];
const LETTERS: &[u8] = b" .:-=+*#%@";
/// Pixels of a picture's longer side at most.
const SIDE_MAX: usize = 256;

fn colour(part: f64) -> [u8; 3] {
    let at = part.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at as usize).min(STOPS.len() - 2);
    let rest = at - low as f64;
    std::array::from_fn(|c| {
        (STOPS[low][c] + rest * (STOPS[low + 1][c] - STOPS[low][c])).round() as u8
    })
}

impl Field {
    pub(crate) fn new(columns: usize, values: Vec<f64>) -> Self {
        assert!(columns > 0 && values.len().is_multiple_of(columns), "whole rows");
        Self { columns, values }
    }

    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    /// Values as parts of their range; what is not finite is 0.
    fn parts(&self, columns: usize, rows: usize) -> Vec<f64> {
        let finite = self.values.iter().copied().filter(|v| v.is_finite());
        let (low, high) = finite.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let scale = if high > low { 1.0 / (high - low) } else { 0.0 };
        let mut parts = Vec::with_capacity(columns * rows);
        for row in 0..rows {
            for column in 0..columns {
                let (x, y) = (column * self.columns / columns, row * self.rows() / rows);
                let value = self.values[y * self.columns + x];
                parts.push(if value.is_finite() { (value - low) * scale } else { 0.0 });
            }
        }
        parts
    }

    /// Lines of letters, dark to light; letters are twice as high as wide.
    pub(crate) fn text(&self, columns: usize) -> String {
        let columns = columns.clamp(1, 200);
        let rows = (self.rows() * columns / self.columns / 2).clamp(1, 100);
        let parts = self.parts(columns, rows);
        let letter = |part: &f64| {
            char::from(LETTERS[((part * LETTERS.len() as f64) as usize).min(LETTERS.len() - 1)])
        };
        let mut out = String::new();
        for row in parts.chunks(columns) {
            let line: String = row.iter().map(letter).collect();
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    /// Rectangles of runs of one colour.
    pub(crate) fn svg(&self, title: &str) -> String {
        let longer = self.columns.max(self.rows());
        let of = |n: usize| (n * longer.min(SIDE_MAX) / longer).max(1);
        let (columns, rows) = (of(self.columns), of(self.rows()));
        let parts = self.parts(columns, rows);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {columns} {rows}\" \
             shape-rendering=\"crispEdges\" role=\"img\"><title>{title}</title>\n"
        );
        for (y, row) in parts.chunks(columns).enumerate() {
            let mut x = 0;
            // 33 shades: neighbours of almost the same value become one rectangle.
            let shade = |part: f64| (part * 32.0).round() as u32;
            while x < columns {
                let own = shade(row[x]);
                let run = row[x..].iter().take_while(|p| shade(**p) == own).count();
                let [r, g, b] = colour(f64::from(own) / 32.0);
                let _ = write!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{run}\" height=\"1\" \
                     fill=\"#{r:02x}{g:02x}{b:02x}\"/>"
                );
                x += run;
            }
        }
        out + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_goes_from_dark_to_light() {
        let field = Field::new(4, vec![0.0, 1.0, 2.0, f64::NAN, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(field.text(4), " -*\n");
        let svg = field.svg("slope");
        assert!(svg.contains("<title>slope</title>") && svg.contains("#440154"));
        assert!(svg.contains("#fde725"));
    }
}
