//! What an application says: lines, tables, pictures; on the terminal, and as a page.

use std::path::Path;

use towpath_report::files::{make_dir, write_file};
use towpath_report::plot::{Chart, Page, Section, Table};

use crate::picture::Field;

/// Columns of a picture in the terminal.
const COLUMNS: usize = 72;

/// A page in the making, and the same for a terminal.
pub(crate) struct Report {
    text: String,
    page: Page,
    /// Further files, by name.
    files: Vec<(String, Vec<u8>)>,
}

impl Report {
    pub(crate) fn new(title: &str, lead: &str) -> Self {
        let text = format!("{title}\n{lead}\n");
        Self { text, page: Page::new(title, lead), files: Vec::new() }
    }

    /// What programs read: printed as it is, without a title.
    #[cfg(feature = "database")]
    pub(crate) fn verbatim(text: String) -> Self {
        Self { text, page: Page::new("Answer", ""), files: Vec::new() }
    }

    /// A paragraph.
    pub(crate) fn say(&mut self, heading: &str, words: &str) {
        self.text.push_str(&format!("\n{heading}\n{words}\n"));
        self.page.push(&Section::new(heading).lines(words));
    }

    pub(crate) fn table(&mut self, heading: &str, table: &Table) {
        self.text.push_str(&format!("\n{heading}\n{}", table.text()));
        self.page.push(&Section::new(heading).table(table));
    }

    pub(crate) fn field(&mut self, heading: &str, field: &Field) {
        self.text.push_str(&format!("\n{heading}\n{}", field.text(COLUMNS)));
        self.page.push(&Section::new(heading).picture(&field.svg(heading)));
    }

    /// Charts are for the page alone.
    pub(crate) fn chart(&mut self, heading: &str, chart: &Chart) {
        self.page.push(&Section::new(heading).charts([chart]));
    }

    /// A file beside the page.
    pub(crate) fn file(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.files.push((name.to_owned(), content.into()));
    }

    /// Prints it; with `out` writes page and files there.
    pub(crate) fn show(&self, out: Option<&Path>) -> anyhow::Result<()> {
        towpath_report::files::print(&self.text)?;
        let Some(out) = out else { return Ok(()) };
        make_dir(out)?;
        write_file(&out.join("index.html"), self.page.html())?;
        for (name, content) in &self.files {
            write_file(&out.join(name), content)?;
        }
        towpath_report::files::tell(&format!("written: {}", out.join("index.html").display()));
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
