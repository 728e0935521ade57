//! A table that is printed as text, written as CSV, or put on a page.

use std::fmt::Write as _;

use super::svg::escape;

/// A column: its heading, and its name in CSV with the unit last (`peak_bps`).
#[derive(Clone, Debug)]
pub struct Column {
    /// For people.
    pub heading: &'static str,
    /// Empty: not in CSV.
    pub csv: &'static str,
    /// Figures stand right, words left.
    pub figures: bool,
}

impl Column {
    /// A column of words.
    pub const fn words(heading: &'static str, csv: &'static str) -> Self {
        Self { heading, csv, figures: false }
    }

    /// A column of figures.
    pub const fn figures(heading: &'static str, csv: &'static str) -> Self {
        Self { heading, csv, figures: true }
    }
}

/// Rows of cells. Each cell has a text for people and one for programs.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, String)>>,
}

impl Table {
    /// Without rows yet.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: per cell its text for people and its text for programs.
    pub fn push(&mut self, cells: Vec<(String, String)>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell per column");
        self.rows.push(cells);
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn has_headings(&self) -> bool {
        self.columns.iter().any(|c| !c.heading.is_empty())
    }

    /// Columns aligned by spaces.
    pub fn text(&self) -> String {
        self.text_within(usize::MAX)
    }

    /// The same on lines of so many characters, if words can be wrapped that far.
    pub fn text_within(&self, width_max: usize) -> String {
        let widths = self.widths(width_max);
        let mut out = String::new();
        if self.has_headings() {
            let headings: Vec<&str> = self.columns.iter().map(|c| c.heading).collect();
            self.line(&headings, &widths, &mut out);
        }
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let wrapped: Vec<Vec<&str>> = cells
                .map(|((cell, c), w)| if c.figures { vec![&cell.0[..]] } else { wrap(&cell.0, *w) })
                .collect();
            for k in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
                let cells: Vec<&str> =
                    wrapped.iter().map(|lines| lines.get(k).copied().unwrap_or("")).collect();
                self.line(&cells, &widths, &mut out);
            }
        }
        out
    }

    /// Of each column what it needs; where that is too much the widest ones of words get less, down
    /// to their longest word.
    fn widths(&self, width_max: usize) -> Vec<usize> {
        let over_cells = |c: usize, width: &dyn Fn(&str) -> usize| {
            let cells = self.rows.iter().map(|r| width(&r[c].0));
            cells.max().unwrap_or(0).max(count(self.columns[c].heading))
        };
        let word = |text: &str| text.split(' ').map(count).max().unwrap_or(0);
        let columns = 0..self.columns.len();
        let mut widths: Vec<usize> = columns.clone().map(|c| over_cells(c, &count)).collect();
        let least: Vec<usize> = columns
            .clone()
            .map(|c| if self.columns[c].figures { widths[c] } else { over_cells(c, &word) })
            .collect();
        while widths.iter().sum::<usize>() + 2 * widths.len() > width_max.saturating_add(2) {
            let wide = columns.clone().filter(|c| widths[*c] > least[*c]);
            let Some(widest) = wide.max_by_key(|c| widths[*c]) else { break };
            widths[widest] -= 1;
        }
        widths
    }

    fn line(&self, cells: &[&str], widths: &[usize], out: &mut String) {
        let mut text = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            // Writing to a string cannot fail.
            let _ = if column.figures {
                write!(text, "{cell:>width$}  ")
            } else {
                write!(text, "{cell:<width$}  ")
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }

    /// RFC 4180, with lines that end as Unix has them.
    pub fn csv(&self) -> String {
        let kept: Vec<usize> =
            (0..self.columns.len()).filter(|c| !self.columns[*c].csv.is_empty()).collect();
        let line = |cell: &dyn Fn(usize) -> String| {
            kept.iter().map(|c| cell(*c)).collect::<Vec<_>>().join(",") + "\n"
        };
        let mut out = line(&|c| self.columns[c].csv.to_string());
        for row in &self.rows {
            out.push_str(&line(&|c| quoted(&row[c].1)));
        }
        out
    }

    /// As a table of a page.
    pub fn html(&self) -> String {
        let class = |c: &Column| if c.figures { " class=\"n\"" } else { "" };
        let mut out = String::from("<div class=\"wide\"><table>\n");
        if self.has_headings() {
            out.push_str("<thead><tr>");
            for c in &self.columns {
                let _ = write!(out, "<th{}>{}</th>", class(c), escape(c.heading));
            }
            out.push_str("</tr></thead>\n");
        }
        out.push_str("<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (cell, c) in row.iter().zip(&self.columns) {
                let _ = write!(out, "<td{}>{}</td>", class(c), escape(&cell.0));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most so many characters, broken at spaces; a longer word has a line of its own.
fn wrap(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while count(rest) > width {
        let ends = rest.match_indices(' ').map(|(at, _)| at);
        let fitting = ends.clone().take_while(|at| count(&rest[..*at]) <= width).last();
        let Some(end) = fitting.or_else(|| ends.clone().next()) else { break };
        lines.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    lines.push(rest);
    lines
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new(&[
            Column::words("SCHEME", "scheme"),
            Column::figures("PEAK", "peak_bps"),
            Column::words("", ""),
        ]);
        t.push(vec![
            ("a, <b>".into(), "a, \"b\"".into()),
            ("1.5 Mbit/s".into(), "1500000".into()),
            ("*".into(), String::new()),
        ]);
        t.push(vec![
            ("µ".into(), "u".into()),
            ("900 bit/s".into(), "900".into()),
            (String::new(), String::new()),
        ]);
        t
    }

    #[test]
    fn words_are_wrapped_where_lines_would_be_too_long() {
        let mut t = Table::new(&[
            Column::words("WHAT", ""),
            Column::figures("N", ""),
            Column::words("WHERE", ""),
        ]);
        let cells = ["sync byte is not the one it should be", "7", "188 376 564"];
        t.push(cells.map(|c| (c.to_string(), String::new())).to_vec());
        let text = "WHAT               N  WHERE\nsync byte is not   7  188 376 564\n\
                    the one it should\nbe\n";
        assert_eq!(t.text_within(33), text);
        assert_eq!(t.text_within(80).lines().count(), 2);
        assert_eq!(wrap("a longestword b", 4), ["a", "longestword", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn one_table_three_forms() {
        let text = "SCHEME        PEAK\na, <b>  1.5 Mbit/s  *\nµ        900 bit/s\n";
        assert_eq!(table().text(), text);
        assert_eq!(table().csv(), "scheme,peak_bps\n\"a, \"\"b\"\"\",1500000\nu,900\n");
        let html = table().html();
        assert!(html.contains("<td>a, &lt;b&gt;</td><td class=\"n\">1.5 Mbit/s</td>"), "{html}");
    }
}
