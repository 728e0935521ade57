//! Where results go beside the terminal: one block of options, for every command that has tables
//! and charts.

use std::borrow::Borrow;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::files::{FilesError, make_dir, write_file};
use crate::plot::{Chart, Page, Table};

/// What is written beside the text, and whether that is JSON.
#[derive(Debug, Args)]
pub(crate) struct Outputs {
    /// Write tables and curves as CSV
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Draw charts
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write a page with all tables and charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object, or one per file
    #[arg(long)]
    pub(crate) json: bool,
}

impl Outputs {
    /// Makes the directories: what cannot be written is better known before the work.
    pub(crate) fn prepare(&self) -> Result<(), FilesError> {
        [&self.csv, &self.svg].into_iter().flatten().try_for_each(|dir| make_dir(dir))
    }

    /// The page's file.
    pub(crate) fn page_file(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    /// Whether charts are wanted, in files or on a page.
    pub(crate) fn want_charts(&self) -> bool {
        self.svg.is_some() || self.html.is_some()
    }

    /// Whether tables are wanted as files.
    pub(crate) fn want_tables(&self) -> bool {
        self.csv.is_some()
    }

    /// Writes tables by the names of their files, where they are wanted.
    pub(crate) fn tables<T: Borrow<Table>>(
        &self,
        tables: impl FnOnce() -> Vec<(String, T)>,
    ) -> Result<(), FilesError> {
        let Some(dir) = &self.csv else { return Ok(()) };
        let write = |(name, table): (String, T)| {
            write_file(&dir.join(format!("{name}.csv")), table.borrow().csv())
        };
        tables().into_iter().try_for_each(write)
    }

    /// Writes charts by the names of their files, where they are wanted.
    pub(crate) fn charts<C: Borrow<Chart>>(
        &self,
        charts: impl FnOnce() -> Vec<(String, C)>,
    ) -> Result<(), FilesError> {
        let Some(dir) = &self.svg else { return Ok(()) };
        let write = |(name, chart): (String, C)| {
            write_file(&dir.join(format!("{name}.svg")), chart.borrow().svg())
        };
        charts().into_iter().try_for_each(write)
    }

    /// Writes the page, where it is wanted.
    pub(crate) fn page(&self, page: &Page) -> Result<(), FilesError> {
        let Some(path) = &self.html else { return Ok(()) };
        write_file(path, page.html())
    }
}

/// Whether an error only says that the output was closed, as `head` does.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let broken = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(broken)
        || error.downcast_ref().is_some_and(FilesError::is_closed)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::plot::{Column, Section};

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        outputs: Outputs,
    }

    #[test]
    fn a_closed_output_is_known_below_a_context() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let told = |e: anyhow::Error| is_closed(&e) && is_closed(&e.context("in a file"));
        assert!(told(broken().into()) && told(FilesError::Output(broken()).into()));
        assert!(!told(FilesError::Write("f".into(), broken()).into()));
    }

    #[test]
    fn only_what_is_asked_for_is_made_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let table = || vec![("rates".to_string(), Table::new(&[Column::words("A", "a")]))];
        let mut page = Page::new("title", "lead");
        page.push(&Section::new("section"));
        let write = |words: &[String]| {
            let words = std::iter::once("x".to_string()).chain(words.iter().cloned());
            let outputs = Only::try_parse_from(words).unwrap().outputs;
            outputs.prepare().unwrap();
            outputs.tables(table).unwrap();
            let charts = || -> Vec<(String, Chart)> { panic!("no chart is asked for") };
            outputs.charts(charts).unwrap();
            outputs.page(&page).unwrap();
            (outputs.want_tables(), outputs.want_charts(), outputs.json)
        };
        assert_eq!(write(&[]), (false, false, false));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let words = [format!("--csv={}", at("new/dir").display()), "--json".into()];
        assert_eq!(write(&words), (true, false, true));
        assert_eq!(std::fs::read_to_string(at("new/dir/rates.csv")).unwrap(), "a\n");
        assert_eq!(write(&[format!("--html={}", at("p.html").display())]), (false, true, false));
        assert!(std::fs::read_to_string(at("p.html")).unwrap().contains("section"));
    }
}
