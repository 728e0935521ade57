//! The disk of a simulated host: what its node wants written down is there at once, and what the
//! owner keeps of it is there when the host starts again.

use towpath_node::{Node, Saved};
use towpath_vm::consensus::{Record, Stored, Write};
use towpath_wire::Instant;

use crate::world::SimHost;

/// What a host has written of the log.
#[derive(Debug)]
pub struct Disk {
    stored: Stored,
    /// The last write that it took.
    number: u64,
    /// What its node started again from: there until that is somebody and keeps something else.
    kept: Option<Saved>,
}

impl Default for Disk {
    fn default() -> Self {
        Self { stored: Stored::empty(), number: 0, kept: None }
    }
}

impl SimHost {
    /// What its node wants written is, and it goes on with that.
    pub(crate) fn write_down(&mut self, now: Instant) {
        let Self { disk: Some(disk), node: Some(node), memory, .. } = self else { return };
        while let Some(number) = disk.write(node) {
            node.wrote(now, Some(number), memory);
        }
        if node.keeps() {
            node.kept(u64::MAX);
        }
    }
}

impl Disk {
    /// One on which there is what a life before kept, if it kept anything.
    pub fn of(kept: Option<Saved>) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Writes what there is to write; which write was the last, if there was any.
    pub fn write(&mut self, node: &mut Node) -> Option<u64> {
        let before = self.number;
        while let Some(write) = node.to_write() {
            self.put(write);
        }
        (self.number > before).then_some(self.number)
    }

    fn put(&mut self, write: Write) {
        self.number = write.number;
        for record in write.records {
            match record {
                Record::Snapshot(snapshot) => {
                    self.stored = Stored { snapshot: (*snapshot).clone(), ..Stored::empty() };
                }
                Record::Entry(entry) => {
                    let before = entry.index - self.stored.snapshot.index - 1;
                    self.stored.entries.truncate(before as usize);
                    self.stored.entries.push(entry);
                }
                Record::Vote { .. } => {}
            }
        }
    }

    /// What a host that dies now leaves for its next life, if it keeps the log.
    ///
    /// # Panics
    /// What it has written cannot be read.
    pub fn left_by(&self, node: &Node) -> Option<Saved> {
        if node.me().is_none() {
            return self.kept.clone();
        }
        let mut saved = node.saved().filter(|_| node.keeps())?;
        if !self.stored.snapshot.state.is_empty() {
            // One that leads alone writes down what it decides, too, in a log of no name.
            let life = node.log_name().map_or(0, |(life, _)| life);
            saved.remember(life, &self.stored).expect("it is whole");
        }
        Some(if node.is_founder() { saved } else { saved.let_in() })
    }
}
