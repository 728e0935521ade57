//! Results on their way out: to the sink first, then into the job log.

use std::io;

use super::Farm;
use crate::farm::joblog::Line;
use crate::farm::order::Done;
use crate::farm::run::{FarmError, ItemDone};

impl Farm<'_> {
    /// Tells the job log of a result whose output was written.
    pub(super) fn log(&mut self, done: &Done, output_bytes: u64) -> Result<(), FarmError> {
        let now = self.now();
        let Some(log) = &mut self.log else { return Ok(()) };
        let seq = u64::from(done.item) + 1;
        let command = self.options.template.command_line(self.options.items.at(done.item), seq);
        let (host, exit, ended) = (self.hosts.name(done.host), &done.exit, done.ended);
        log.push(now, &Line { seq, host, ended, exit, output_bytes, command: &command });
        if log.is_full() {
            self.flush_sink()?;
            self.flush_log()?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, done: Done) -> Result<(), FarmError> {
        let text = self.options.items.at(done.item).text();
        let about = (u64::from(done.item) + 1, text.as_ref());
        let host = self.hosts.name(done.host);
        let told = ItemDone::new(about, host, &done.exit, (&self.store, &done.capture));
        let bytes = told.output_bytes();
        let mut written = Ok(());
        if !self.stop.sink_broken {
            written = self.sink.item(&told);
            self.is_out(&written);
        }
        let logged = if self.stop.sink_broken { Ok(()) } else { self.log(&done, bytes) };
        self.store.release(done.capture);
        written?;
        logged
    }

    /// Whether output can be written: what the job log is to tell of has been.
    pub(super) fn is_out(&mut self, written: &io::Result<()>) {
        self.stop.sink_broken = written.is_err();
        if let (Err(_), Some(log)) = (written, &mut self.log) {
            log.discard();
        }
    }

    pub(super) fn flush_sink(&mut self) -> Result<(), FarmError> {
        if self.stop.sink_broken {
            return Ok(());
        }
        let flushed = self.sink.flush();
        self.is_out(&flushed);
        if let Some(log) = self.log.as_mut().filter(|_| flushed.is_ok()) {
            log.settle();
        }
        Ok(flushed?)
    }

    /// Writes the lines of items whose output is out.
    pub(super) fn flush_log(&mut self) -> Result<(), FarmError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.flush()?;
        if !self.stop.sink_broken {
            self.sink.logged(log.written())?;
        }
        Ok(())
    }
}
