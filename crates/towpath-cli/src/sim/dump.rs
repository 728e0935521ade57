//! Every datagram of a run in words: a line each.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use towpath_sim::network::{Sent, Tap};
use towpath_wire::show::Shown;

use crate::files::shown;

/// Lines at most; the rest is counted.
const LINES_MAX: u64 = 1_000_000;

/// A dump under way.
pub(super) struct Dump {
    state: Rc<RefCell<State>>,
}

struct State {
    out: BufWriter<File>,
    lines: u64,
    result: io::Result<()>,
}

impl Dump {
    /// Begins a file.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", shown(path)))?;
        let mut out = BufWriter::new(file);
        let result = writeln!(out, "# seconds, hosts, UDP payload, what it says");
        Ok(Self { state: Rc::new(RefCell::new(State { out, lines: 0, result })) })
    }

    /// What looks on at the network. `way` tells from where to where in words; `clear`: nothing
    /// is encrypted, as with the simulator's stand-in for cryptography.
    pub(super) fn tap(&self, way: impl Fn(&Sent<'_>) -> String + 'static, clear: bool) -> Tap {
        let state = self.state.clone();
        Box::new(move |sent| state.borrow_mut().take(sent, &way(sent), clear))
    }

    /// Ends the file.
    pub(super) fn finish(self, path: &Path) -> anyhow::Result<()> {
        let mut state = self.state.borrow_mut();
        let more = state.lines.saturating_sub(LINES_MAX);
        let mut result = std::mem::replace(&mut state.result, Ok(()));
        if more > 0 && result.is_ok() {
            result = writeln!(state.out, "# {more} more left out, {LINES_MAX} is the limit");
        }
        result
            .and_then(|()| state.out.flush())
            .with_context(|| format!("cannot write {}", shown(path)))
    }
}

impl State {
    fn take(&mut self, sent: &Sent<'_>, way: &str, clear: bool) {
        self.lines += 1;
        if self.lines > LINES_MAX || self.result.is_err() {
            return;
        }
        let mark = match sent.copies {
            0 => " LOST",
            1 => "",
            _ => " TWICE",
        };
        let ns = sent.at.as_nanos();
        let (seconds, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let len = sent.datagram.len();
        let shown = Shown { datagram: sent.datagram, clear };
        self.result = writeln!(self.out, "{seconds}.{part:09} {way} {len} B{mark} {shown}");
    }
}
