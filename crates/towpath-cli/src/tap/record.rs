//! The capture that a tap writes.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use pcap_parser::Linktype;
use towpath_bench::tap::{Direction, Kind, Outcome, Watch, Why};

use crate::capture::Writer;
use crate::files::shown;

/// A file that the tap's thread writes and this one ends.
#[derive(Clone)]
pub(super) struct Recorder(Arc<Mutex<State>>);

struct State {
    writer: Writer<BufWriter<File>>,
    /// The first fault ends the writing.
    fault: Option<std::io::Error>,
}

impl Recorder {
    pub(super) fn new(path: &Path, kind: Kind, bytes_max: u64) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", shown(path));
        let link = if kind == Kind::Tun { Linktype::RAW } else { Linktype::ETHERNET };
        let out = BufWriter::new(File::create(path).with_context(cannot)?);
        let names = Direction::BOTH.map(Direction::name);
        let writer = Writer::new(out, link, &names, bytes_max).with_context(cannot)?;
        Ok(Self(Arc::new(Mutex::new(State { writer, fault: None }))))
    }

    /// Ends the file: how many frames did not fit.
    pub(super) fn end(&self) -> anyhow::Result<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = state.fault.take() {
            return Err(fault).context("the capture is not whole");
        }
        state.writer.flush().context("the capture is not whole")?;
        Ok(state.writer.left_out)
    }
}

impl Watch for Recorder {
    fn frame(&mut self, unix_ns: u64, direction: Direction, outcome: Outcome, frame: &[u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.fault.is_some() {
            return;
        }
        let comment = match outcome {
            Outcome::Passed => None,
            Outcome::Dropped(Why::Lost) => Some("lost by chance"),
            Outcome::Dropped(Why::Overflowed) => Some("the queue was full"),
            Outcome::Dropped(Why::Cut) => Some("the link was dead"),
            Outcome::Dropped(Why::Oversized) => Some("longer than the link takes"),
            Outcome::Dropped(Why::Crowded) => Some("the tap held too much"),
        };
        let written = state.writer.packet(direction as u32, unix_ns, comment, frame);
        state.fault = written.err();
    }
}
