//! A page of HTML that needs nothing else: pictures and tables are in it.

use std::fmt::Write as _;

use super::chart::Chart;
use super::svg::escape;
use super::table::Table;

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:72rem}
h1{font-size:1.5rem;line-height:1.2}h2{font-size:1.2rem;margin-top:2rem;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.9rem;white-space:nowrap}
th,td{padding:.25rem .75rem;border-bottom:1px solid #8886;text-align:left}
.n{text-align:right;font-variant-numeric:tabular-nums}
.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.picture svg{width:100%;max-width:40rem;height:auto}
.charts svg{width:100%;height:auto;border:1px solid #8886;border-radius:6px}
pre{overflow-x:auto;font-size:.85rem}
";

/// A page: a title, and sections.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

/// A heading with text, tables and charts, in the order in which they are added.
#[derive(Clone, Debug)]
pub struct Section {
    body: String,
}

impl Page {
    /// `lead` says in a sentence or two what the page is.
    pub fn new(title: &str, lead: &str) -> Self {
        let body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(title), escape(lead));
        Self { title: escape(title), body }
    }

    /// Adds a section.
    pub fn push(&mut self, section: &Section) {
        self.body.push_str("<section>\n");
        self.body.push_str(&section.body);
        self.body.push_str("</section>\n");
    }

    /// The whole page.
    pub fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            self.title, self.body
        )
    }
}

impl Section {
    /// Nothing but its heading.
    pub fn new(heading: &str) -> Self {
        Self { body: format!("<h2>{}</h2>\n", escape(heading)) }
    }

    /// With a paragraph of plain text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// Lines as they are, in letters of one width.
    #[must_use]
    pub fn lines(mut self, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(escape).collect();
        let _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
        self
    }

    /// With a table.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Self {
        self.body.push_str(&table.html());
        self
    }

    /// With a picture that the program drew as SVG.
    #[must_use]
    pub fn picture(mut self, svg: &str) -> Self {
        let _ = writeln!(self.body, "<div class=\"picture\">{svg}</div>");
        self
    }

    /// With charts, side by side where there is room.
    #[must_use]
    pub fn charts<'a>(mut self, charts: impl IntoIterator<Item = &'a Chart>) -> Self {
        self.body.push_str("<div class=\"charts\">\n");
        for chart in charts {
            self.body.push_str(&chart.svg());
        }
        self.body.push_str("</div>\n");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Column, Unit};
    use super::*;

    #[test]
    fn a_page_holds_everything_and_asks_for_nothing() {
        let mut page = Page::new("Plan of <x>", "lead");
        let chart = Chart::new("c", Axis::new("x", Unit::Count), Axis::new("y", Unit::Count));
        let table = Table::new(&[Column::words("A", "a")]);
        let section = Section::new("film & co").text("t").lines("a\n  b").table(&table);
        page.push(&section.charts([&chart]));
        let html = page.html();
        for part in ["<title>Plan of &lt;x&gt;</title>", "film &amp; co", "<svg", "<th>A</th>"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(html.contains("a\n  b</pre>"), "{html}");
        let links = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http") && !links.contains("src="), "{links}");
    }
}
