//! A disk, as the owner of a host has it.

use towpath_vm::consensus::{Record, Stored, Write};

use super::net::Net;

pub(super) struct Disk {
    pub(super) stored: Stored,
    /// Of the last write that it took.
    pub(super) number: u64,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { stored: Stored::empty(), number: 0 }
    }

    pub(super) fn put(&mut self, write: Write) {
        assert!(write.number > self.number, "in order");
        self.number = write.number;
        for record in write.records {
            match record {
                Record::Snapshot(snapshot) => {
                    assert!(write.replaces);
                    self.stored = Stored { snapshot: (*snapshot).clone(), ..Stored::empty() };
                }
                Record::Entry(entry) => {
                    let before = entry.index - self.stored.snapshot.index - 1;
                    assert!(before <= self.stored.entries.len() as u64, "without gaps");
                    self.stored.entries.truncate(before as usize);
                    self.stored.entries.push(entry);
                }
                Record::Vote { .. } => {}
            }
        }
    }

    /// Takes what there is, without a word of it.
    pub(super) fn take(&mut self, net: &mut Net, host: usize) {
        while let Some(write) = net.node(host).to_write() {
            self.put(write);
        }
    }

    pub(super) fn tell(&self, net: &mut Net, host: usize) {
        net.call(host, |node, now, memory| node.wrote(now, Some(self.number), memory));
    }

    /// A quick one of host 0, for so long.
    pub(super) fn run(&mut self, net: &mut Net, ms: u64) {
        for _ in 0..ms.div_ceil(5) {
            self.take(net, 0);
            self.tell(net, 0);
            net.run(5);
        }
    }
}
