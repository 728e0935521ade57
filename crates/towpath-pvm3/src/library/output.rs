//! What children print: to a file of the program (`pvm_catchout`), or as messages to the task
//! (`pvm_setopt(PvmOutputTid, ...)` with its own number).
//!
//! ```text
//! file     [tTID] BEGIN | [tTID] line | [tTID] EOF        (PvmShowTids 0: the lines alone)
//! message  tid | -2 | parent      tid | -1 | parent      tid | length | bytes      tid | 0
//! ```

use std::collections::BTreeMap;

use super::session::{Library, Session};
use super::waiting::Wait;
use crate::code::{Code, Outcome};
use crate::complaint::complain;
use crate::message::{Element, Encoding, Message};
use crate::strided::Strided;
use crate::tid;

/// Where lines go.
pub(crate) type Sink = Box<dyn FnMut(&[u8]) + Send>;

/// A child that was spawned, and then one whose output begins.
const SPAWNED: i32 = -2;
const BEGIN: i32 = -1;
/// A child whose output has ended.
const END: i32 = 0;
/// Longest line that is kept until its end comes, in bytes; a longer one is cut.
const LINE_MAX: usize = 64 << 10;
const OPTION_OUTPUT_TID: i32 = 4;

/// Output of children.
pub(super) struct Output {
    sink: Option<Sink>,
    /// Children whose output goes on, with the beginning of a line.
    lines: BTreeMap<i32, Vec<u8>>,
}

impl Output {
    pub(super) const fn new() -> Self {
        Self { sink: None, lines: BTreeMap::new() }
    }

    fn line(&mut self, shown: bool, tid: i32, text: &[u8]) {
        let Some(sink) = &mut self.sink else { return };
        let mut line = if shown { format!("[t{tid:x}] ").into_bytes() } else { Vec::new() };
        line.extend_from_slice(text);
        line.push(b'\n');
        sink(&line);
    }
}

impl Library {
    /// `pvm_catchout`: `None` ends it.
    pub(crate) fn catch_output(&self, sink: Option<Sink>) -> Outcome {
        let me = if sink.is_some() { self.my_tid()? } else { 0 };
        self.set_option(OPTION_OUTPUT_TID, me)?;
        self.with(|session| {
            if sink.is_none() && session.output.sink.is_some() {
                // What they print from now on goes nowhere.
                session.output.lines.clear();
            }
            session.output.sink = sink;
        });
        Ok(0)
    }

    /// Waits until the output of all children that are caught has ended.
    pub(super) fn wait_for_output(&self) -> Result<(), Code> {
        let caught = |session: &mut Session| {
            let on = session.tid() == Ok(session.options.child.output_tid);
            on && session.output.sink.is_some() && !session.output.lines.is_empty()
        };
        if self.with(caught) {
            let me = self.tid_now();
            let still = "child task(s) still running.  waiting...";
            complain(format_args!("libpvm [t{me:x}]: {still}\n"));
        }
        while self.with(caught) {
            let seen = self.seen()?;
            self.take_all_in()?;
            if self.with(caught) {
                self.wait(Wait::Forever, seen)?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// A child begins whose output comes here.
    pub(super) fn begin_output(&mut self, tid: i32) {
        if self.options.child.output_tid == 0 || self.output.lines.contains_key(&tid) {
            return;
        }
        self.output.lines.insert(tid, Vec::new());
        if self.output.sink.is_none() {
            let me = self.tid().unwrap_or(-1);
            self.tell_output(&[tid, SPAWNED, me], &[]);
            self.tell_output(&[tid, BEGIN, me], &[]);
        } else if self.options.show_tids != 0 {
            self.output.line(true, tid, b"BEGIN");
        }
    }

    /// Output of a child; none: it has ended.
    pub(super) fn print(&mut self, tid: i32, bytes: &[u8]) {
        self.begin_output(tid);
        if !self.output.lines.contains_key(&tid) {
            return;
        }
        let shown = self.options.show_tids != 0;
        if self.output.sink.is_none() {
            if bytes.is_empty() {
                self.output.lines.remove(&tid);
                self.tell_output(&[tid, END], &[]);
            } else {
                self.tell_output(&[tid, bytes.len() as i32], bytes);
            }
            return;
        }
        if bytes.is_empty() {
            let rest = self.output.lines.remove(&tid).unwrap_or_default();
            if !rest.is_empty() {
                self.output.line(shown, tid, &rest);
            }
            if shown {
                self.output.line(true, tid, b"EOF");
            }
            return;
        }
        let mut line = self.output.lines.insert(tid, Vec::new()).unwrap_or_default();
        for &byte in bytes {
            if byte == b'\n' || line.len() >= LINE_MAX {
                self.output.line(shown, tid, &line);
                line.clear();
            }
            if byte != b'\n' {
                line.push(byte);
            }
        }
        self.output.lines.insert(tid, line);
    }

    /// A message about output, in the context and with the tag that the program wants.
    fn tell_output(&mut self, ints: &[i32], bytes: &[u8]) {
        let settings = self.options.child;
        let mut message = Message::new(Encoding::DEFAULT, Vec::new());
        for &int in ints {
            // A message of a few bytes has room.
            let _ = message.pack_int(int);
        }
        if !bytes.is_empty() {
            let _ = message.pack(Element::Byte, Strided::bytes(bytes));
        }
        message.info.context = settings.output_context;
        message.info.tag = settings.output_tag;
        message.info.source = tid::DAEMON;
        message.info.destination = self.tid().unwrap_or(-1);
        self.notices.push_told(message);
    }
}
