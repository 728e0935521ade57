//! A disk that forgets what it was not told to keep, and holds the very bytes of the journal.

use std::collections::VecDeque;

use towpath_proto::Rng;
use towpath_vm::consensus::Write;
use towpath_vm::consensus::journal::{Head, Journal, JournalError, Recovered, recover};

/// What a power cut leaves or takes as a whole.
const SECTOR: usize = 512;

/// How a machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The process is killed: what it had written is kept.
    Killed,
    /// The power is cut: of what was not synced, any part is left.
    PowerCut,
}

/// Invariant: `synced` is what the disk holds for certain, `written` what follows it.
#[derive(Debug)]
pub(super) struct Disk {
    head: Head,
    journal: Journal,
    synced: Vec<u8>,
    written: Vec<u8>,
    /// The file that is to take the place of all this.
    replacement: Option<Vec<u8>>,
    queue: VecDeque<Write>,
    /// The write that is done when the sync under way is.
    under_way: Option<u64>,
    boot: (u32, u64),
}

impl Disk {
    /// An empty one, on which a replica is started for the first time.
    pub(super) fn new(head: Head, life: u64) -> Self {
        let (journal, synced) = Journal::begin(&head, 1, life);
        Self {
            head,
            journal,
            synced,
            written: Vec::new(),
            replacement: None,
            queue: VecDeque::new(),
            under_way: None,
            boot: (1, life),
        }
    }

    /// Takes a write, to be synced in its turn.
    pub(super) fn push(&mut self, write: Write) {
        self.queue.push_back(write);
    }

    /// Writes what waits, up to the next file, and begins to sync it. True if there is something.
    pub(super) fn begin(&mut self, salt: u64) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        while let Some(write) = self.queue.front() {
            if write.replaces {
                if self.under_way.is_none() {
                    let head = Head { salt, ..self.head };
                    let (mut journal, mut bytes) = Journal::begin(&head, self.boot.0, self.boot.1);
                    journal.write(write, &mut bytes);
                    (self.journal, self.replacement) = (journal, Some(bytes));
                    self.under_way = Some(write.number);
                    self.queue.pop_front();
                }
                break;
            }
            self.journal.write(write, &mut self.written);
            self.under_way = Some(write.number);
            self.queue.pop_front();
        }
        self.under_way.is_some()
    }

    /// The sync under way is done: which write that was.
    pub(super) fn done(&mut self) -> Option<u64> {
        let number = self.under_way.take()?;
        match self.replacement.take() {
            Some(bytes) => (self.synced, self.written) = (bytes, Vec::new()),
            None => self.synced.append(&mut self.written),
        }
        self.journal.mark(&mut self.written);
        Some(number)
    }

    /// The machine ends; what is left is what the disk holds from now on.
    pub(super) fn end(&mut self, how: End, rng: &mut Rng) {
        self.queue.clear();
        self.under_way = None;
        // A file takes another's place at once, or not.
        if let Some(bytes) = self.replacement.take()
            && rng.below(2) == 0
        {
            (self.synced, self.written) = (bytes, Vec::new());
        }
        let mut written = std::mem::take(&mut self.written);
        if how == End::PowerCut {
            tear(&mut written, self.synced.len(), rng);
        }
        self.synced.append(&mut written);
    }

    /// A replica is started on it: what it goes on from, and its boot number.
    pub(super) fn start(&mut self, life: u64) -> Result<Recovered, JournalError> {
        let mut found = recover(&self.synced)?;
        self.synced.truncate(found.journal.len() as usize);
        found.boot += 1;
        self.boot = (found.boot, life);
        found.journal.boot(found.boot, life, &mut self.synced);
        self.journal = found.journal.clone();
        self.head = found.head;
        Ok(found)
    }

    pub(super) const fn life(&self) -> (u32, u64) {
        self.boot
    }
}

/// Leaves some sectors of what was written and not synced, from byte `from` of the file on.
fn tear(written: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    let most = rng.below(written.len() as u64 + 1) as usize;
    match rng.below(4) {
        0 => written.clear(),
        1 => written.truncate(most),
        // In any order, and what did not come is zero, or is what was there before.
        2 => {
            written.truncate(most);
            let mut at = 0;
            while at < written.len() {
                let end = (at + SECTOR - (from + at) % SECTOR).min(written.len());
                if rng.below(2) == 0 {
                    let old = rng.u64().to_le_bytes();
                    let zero = rng.below(2) == 0;
                    for (n, byte) in written[at..end].iter_mut().enumerate() {
                        *byte = if zero { 0 } else { old[n % 8] };
                    }
                }
                at = end;
            }
        }
        _ => {}
    }
}
