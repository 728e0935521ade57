//! What a founder that leads alone decides (hosts, groups, mailboxes), written down as it goes, so
//! that its next life has it: a [journal](crate::journal) in a folder of its directory. Nothing
//! follows from a decision before the kernel has it, so that a killed daemon loses none; the disk
//! has it a second later.
//!
//! Where it cannot be written, the founder goes on without: a full disk is no reason that nobody
//! joins. What was decided then is lost with this life, and that is said.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use towpath_io::RealCrypto;
use towpath_node::{Node, Saved};
use towpath_proto::Memory;
use towpath_vm::consensus::ReplicaId;
use towpath_vm::consensus::journal::Head;
use towpath_wire::Instant;

use crate::journal::{Health, JournalFile, OpenError, Sync, Wake};
use crate::log;

/// Name of the folder.
const NAME: &str = "control";
/// When the disk has what was decided.
const SYNC: Sync = Sync::Within(Duration::from_secs(1));

/// A disk that takes nothing for so long is not waited for.
const STALLS: Duration = Duration::from_secs(2);

/// Wakes the engine.
type Bell = Arc<OnceLock<Box<dyn Fn() + Send + std::marker::Sync>>>;

/// The journal of a founder.
pub(crate) struct Ledger {
    journal: JournalFile,
    bell: Bell,
    /// The last write that it was given.
    handed: u64,
    /// Since when one of them is not written.
    waits_since: Option<Instant>,
}

/// Where it is, in the directory of a host.
fn folder(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

impl Ledger {
    /// That of the founder in `dir`, which has kept `saved`: what its life before decided is put
    /// there.
    pub(crate) fn open(dir: &Path, saved: Option<&mut Saved>) -> Result<Self, OpenError> {
        let draws = RealCrypto::generate_secret();
        let draw = |at| u64::from_le_bytes(core::array::from_fn(|byte| draws[at + byte]));
        let (draw, salt) = (draw(0), draw(8));
        if saved.is_none() {
            // Of a virtual machine that is over.
            remove(dir);
        }
        let dir = folder(dir);
        let bell = Bell::default();
        let wake = || {
            let bell = Arc::clone(&bell);
            let wake: Wake = Box::new(move || {
                if let Some(ring) = bell.get() {
                    ring();
                }
            });
            (SYNC, wake)
        };
        let opened = JournalFile::open(&dir, draw, wake())?;
        let Some(opened) = opened else {
            let head = Head { generation: draw, id: ReplicaId(1), salt };
            let journal = JournalFile::create(&dir, head, draw, wake())?;
            return Ok(Self { journal, bell, handed: 0, waits_since: None });
        };
        match saved.map(|saved| saved.remember(&opened.stored)) {
            Some(Ok(true)) | None => {}
            Some(Ok(false)) => {
                log!("groups and mailboxes begin anew: what is in {} is older", dir.display());
            }
            Some(Err(why)) => {
                log!("groups and mailboxes begin anew: what is in {}: {why}", dir.display());
            }
        }
        Ok(Self { journal: opened.journal, bell, handed: 0, waits_since: None })
    }

    /// How the engine is woken where more has been written.
    pub(crate) fn ring(&self, ring: impl Fn() + Send + std::marker::Sync + 'static) {
        let _ = self.bell.set(Box::new(ring));
    }

    /// Has what was decided written, and what was written carried out.
    pub(crate) fn look_at(&mut self, now: Instant, node: &mut Node, memory: &mut dyn Memory) {
        let mut synced = self.journal.synced();
        if synced >= self.handed {
            self.waits_since = None;
        }
        while self.is_well(now)
            && let Some(write) = node.to_write()
        {
            let number = write.number;
            if !self.journal.write(write) {
                break;
            }
            self.handed = number;
            self.waits_since.get_or_insert(now);
            synced = self.journal.synced();
        }
        node.wrote(now, self.is_well(now).then_some(synced), memory);
    }

    /// Whether this life's state is in the place of the one before, as far as it can be: the table
    /// of this life is not to be on the disk before.
    pub(crate) fn has_begun(&self, now: Instant) -> bool {
        self.journal.synced() > 0 || self.handed > 0 && !self.is_well(now)
    }

    /// Whether what is handed over is written soon.
    fn is_well(&self, now: Instant) -> bool {
        let stalls = self.due().is_some_and(|at| at <= now);
        self.journal.health() == Health::Well && !stalls
    }

    /// When a disk has been too slow to wait for.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waits_since.map(|since| since + STALLS)
    }

    /// What is wrong, where something is.
    pub(crate) fn trouble(&self, now: Instant) -> Option<&'static str> {
        (!self.is_well(now)).then_some(
            "what this host decides cannot be written: should it be killed now, groups and \
             mailboxes come back as they were before",
        )
    }
}

/// Forgets what was written.
pub(crate) fn remove(dir: &Path) {
    // In vain only where there is none.
    let _ = std::fs::remove_dir_all(folder(dir));
}
