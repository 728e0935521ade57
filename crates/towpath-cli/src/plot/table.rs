//! A table that is printed as text, written as CSV, or put on a page.

use std::fmt::Write as _;

use super::svg::escape;

/// A column: its heading, and its name in CSV with the unit last (`peak_bps`).
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    /// Empty: not in CSV.
    pub(crate) csv: &'static str,
    /// Figures stand right, words left.
    pub(crate) figures: bool,
}

impl Column {
    pub(crate) const fn words(heading: &'static str, csv: &'static str) -> Self {
        Self { heading, csv, figures: false }
    }

    pub(crate) const fn figures(heading: &'static str, csv: &'static str) -> Self {
        Self { heading, csv, figures: true }
    }
}

/// Rows of cells. Each cell has a text for people and one for programs.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, String)>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: per cell its text for people and its text for programs.
    pub(crate) fn push(&mut self, cells: Vec<(String, String)>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell per column");
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn has_headings(&self) -> bool {
        self.columns.iter().any(|c| !c.heading.is_empty())
    }

    /// Columns aligned by spaces.
    pub(crate) fn text(&self) -> String {
        let count = |s: &str| s.chars().count();
        let width = |c: usize| {
            let cells = self.rows.iter().map(|r| count(&r[c].0));
            cells.max().unwrap_or(0).max(count(self.columns[c].heading))
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let mut line = |cells: Vec<&str>| {
            let mut text = String::new();
            for ((cell, column), width) in cells.into_iter().zip(&self.columns).zip(&widths) {
                // Writing to a string cannot fail.
                let _ = if column.figures {
                    write!(text, "{cell:>width$}  ")
                } else {
                    write!(text, "{cell:<width$}  ")
                };
            }
            out.push_str(text.trim_end());
            out.push('\n');
        };
        if self.has_headings() {
            line(self.columns.iter().map(|c| c.heading).collect());
        }
        for row in &self.rows {
            line(row.iter().map(|c| c.0.as_str()).collect());
        }
        out
    }

    /// RFC 4180, with lines that end as Unix has them.
    pub(crate) fn csv(&self) -> String {
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

    pub(crate) fn html(&self) -> String {
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
    fn one_table_three_forms() {
        let text = "SCHEME        PEAK\na, <b>  1.5 Mbit/s  *\nµ        900 bit/s\n";
        assert_eq!(table().text(), text);
        assert_eq!(table().csv(), "scheme,peak_bps\n\"a, \"\"b\"\"\",1500000\nu,900\n");
        let html = table().html();
        assert!(html.contains("<td>a, &lt;b&gt;</td><td class=\"n\">1.5 Mbit/s</td>"), "{html}");
    }
}
