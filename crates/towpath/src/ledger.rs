//! What is decided (hosts, groups, mailboxes), written down as it goes by whoever decides alone,
//! and by each of those that keep the log together, so that a next life has it: a
//! [journal](crate::journal) in a folder of its directory. Nothing follows from a decision before
//! the kernel has it, so that a killed daemon loses none; the disk has it a second later.
//!
//! Where it cannot be written, the host goes on without: a full disk is no reason that nobody
//! joins. What was decided then is lost with this life, and that is said.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use towpath_io::RealCrypto;
use towpath_node::{Node, Saved, SavedError};
use towpath_proto::Memory;
use towpath_vm::consensus::ReplicaId;
use towpath_vm::consensus::journal::Head;
use towpath_wire::Instant;

use crate::journal::{self, Health, JournalFile, OpenError, Sync, Wake};
use crate::log;

/// Name of the folder.
const NAME: &str = "control";
/// When the disk has what was decided.
const SYNC: Sync = Sync::Within(Duration::from_secs(1));

/// A disk that takes nothing for so long is not waited for.
const STALLS: Duration = Duration::from_secs(2);
/// The same where others decide without this host meanwhile, and one of them leads by then
/// (`disk_ticks` of [`towpath_vm::consensus::Config`]).
const STALLS_BESIDE_OTHERS: Duration = Duration::from_secs(4);

/// Wakes the engine.
type Bell = Arc<OnceLock<Box<dyn Fn() + Send + std::marker::Sync>>>;

/// The journal of a host that keeps the log.
pub(crate) struct Ledger {
    journal: JournalFile,
    bell: Bell,
    /// The last write that it was given, and the last that it has written.
    handed: u64,
    synced: u64,
    /// Since when it has written nothing, though there is something.
    waits_since: Option<Instant>,
    /// How long is too long, and whether it is.
    patience: Duration,
    stalls: bool,
    is_too_long: bool,
    /// Which life of the log it is told to be of, and of whom.
    named: Option<(u64, ReplicaId)>,
    /// The last write before that life.
    since: u64,
    /// Told to end, it does once so much has.
    pub(crate) ends_at: Option<u64>,
}

/// Where it is, in the directory of a host.
fn folder(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn draws() -> [u64; 2] {
    let draws = RealCrypto::generate_secret();
    [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|byte| draws[at + byte])))
}

/// What a journal wakes the engine with.
fn wake(bell: &Bell) -> Wake {
    let bell = Arc::clone(bell);
    Box::new(move || {
        if let Some(ring) = bell.get() {
            ring();
        }
    })
}

impl Ledger {
    const fn new(journal: JournalFile, bell: Bell) -> Self {
        Self {
            journal,
            bell,
            handed: 0,
            synced: 0,
            waits_since: None,
            patience: STALLS,
            stalls: false,
            is_too_long: false,
            named: None,
            since: 0,
            ends_at: None,
        }
    }

    /// One of a host that has come to keep the log: what an earlier life left is replaced by the
    /// first write.
    pub(crate) fn begin(dir: &Path) -> Result<Self, OpenError> {
        let [draw, salt] = draws();
        let (bell, head) = (Bell::default(), Head { generation: draw, id: ReplicaId(1), salt });
        let journal = JournalFile::begin(&folder(dir), head, draw, (SYNC, wake(&bell)))?;
        Ok(Self::new(journal, bell))
    }

    /// That of the founder in `dir`, which has kept `saved`: what its life before decided is put
    /// there.
    pub(crate) fn open(dir: &Path, saved: Option<&mut Saved>) -> Result<Self, OpenError> {
        let [draw, salt] = draws();
        if saved.is_none() {
            // Of a virtual machine that is over.
            remove(dir);
        }
        let dir = folder(dir);
        let bell = Bell::default();
        let told = || (SYNC, wake(&bell));
        let opened = JournalFile::open(&dir, draw, told())?;
        let Some(opened) = opened else {
            let head = Head { generation: draw, id: ReplicaId(1), salt };
            let journal = JournalFile::create(&dir, head, draw, told())?;
            return Ok(Self::new(journal, bell));
        };
        match saved.map(|saved| saved.remember(opened.generation, &opened.stored)) {
            Some(Ok(true)) | None => {}
            Some(Ok(false)) => {
                log!("groups and mailboxes begin anew: what is in {} is older", dir.display());
            }
            Some(Err(why)) => {
                log!("groups and mailboxes begin anew: what is in {}: {why}", dir.display());
            }
        }
        Ok(Self::new(opened.journal, bell))
    }

    /// How the engine is woken where more has been written.
    pub(crate) fn ring(&self, ring: impl Fn() + Send + std::marker::Sync + 'static) {
        let _ = self.bell.set(Box::new(ring));
    }

    /// Carries out what was written, and has what was decided written.
    pub(crate) fn look_at(&mut self, now: Instant, node: &mut Node, memory: &mut dyn Memory) {
        let synced = self.journal.synced();
        if synced > self.synced {
            // It takes something.
            self.waits_since = (synced < self.handed).then_some(now);
            self.synced = synced;
        }
        self.patience = if node.is_one_of_several() { STALLS_BESIDE_OTHERS } else { STALLS };
        self.stalls = self.waits_since.is_some_and(|since| now >= since + self.patience);
        self.is_too_long = node.is_too_long_to_write();
        self.hand_over(now, node);
        node.wrote(now, self.is_well().then_some(synced), memory);
    }

    /// Has what was decided written.
    pub(crate) fn hand_over(&mut self, now: Instant, node: &mut Node) {
        if let Some((life, id)) = node.log_name().filter(|name| self.named != Some(*name)) {
            self.named = Some((life, id));
            self.since = self.handed;
            self.journal.name(self.handed, life, id);
        }
        while self.is_well()
            && self.journal.has_room()
            && let Some(write) = node.to_write()
        {
            self.handed = write.number;
            self.waits_since.get_or_insert(now);
            let taken = self.journal.write(write);
            debug_assert!(taken, "nobody else writes");
        }
    }

    /// Whether this life's state is in the place of the one before, as far as it can be: the table
    /// of this life is not to be on the disk before.
    pub(crate) fn has_begun(&self) -> bool {
        self.synced > self.since || !self.is_well()
    }

    /// Whether all that it had been handed when this was first asked is written, or will not be.
    pub(crate) fn has_written(&mut self) -> bool {
        let handed = *self.ends_at.get_or_insert(self.handed);
        self.synced >= handed || !self.is_well()
    }

    /// Whether what is handed over is written soon.
    pub(crate) fn is_well(&self) -> bool {
        self.journal.health() == Health::Well && !self.stalls
    }

    /// When a disk has been too slow to wait for, while it is waited for.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waits_since.map(|since| since + self.patience).filter(|_| !self.stalls)
    }

    /// What is wrong, where something is, and what helps.
    pub(crate) fn trouble(&self, alone: bool) -> Option<String> {
        let what = self.what_is_wrong()?;
        let killed = if alone {
            "should it be killed now, groups and mailboxes may be gone, or as they were before"
        } else {
            "should most of those that may lead be killed at once, they begin again with what \
             another one has written"
        };
        let (what, hint) = what;
        Some(format!("{what}: {killed}\nhint: {hint}"))
    }

    fn what_is_wrong(&self) -> Option<(&'static str, &'static str)> {
        if self.is_too_long {
            return Some((
                "groups and mailboxes have more bytes than are written down",
                "delete mailbox entries, and start this daemon again",
            ));
        }
        match self.journal.health() {
            Health::Well if !self.stalls => None,
            Health::Failed => Some((
                "what this host decides is not written any more, since its disk has failed",
                "see to the disk, and start this daemon again",
            )),
            Health::Well | Health::Retries => Some((
                "what this host decides cannot be written",
                "make room on its disk; it goes on trying",
            )),
        }
    }
}

/// Has what was written in `dir`, if anything was, looked at with the table beside it.
pub(crate) fn look_at(dir: &Path, saved: &mut Saved) -> Result<(), LookError> {
    let dir = folder(dir);
    if !dir.exists() {
        return Ok(());
    }
    if let Some((life, stored)) = journal::read(&dir)? {
        saved.remember(life, &stored)?;
    }
    Ok(())
}

/// Why what was written cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is of no use.
    #[error("what was decided cannot be used: {0}")]
    Saved(#[from] SavedError),
}

/// Forgets what was written.
pub(crate) fn remove(dir: &Path) {
    // In vain only where there is none.
    let _ = std::fs::remove_dir_all(folder(dir));
}
