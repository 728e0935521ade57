//! The replicated log on a disk: one file of a directory, written and synced by a thread of its
//! own, so that no engine ever waits for a disk. What the file holds is in
//! [`towpath_vm::consensus::journal`].
//!
//! What was synced is told by number; where it is enough that a killed daemon loses nothing
//! ([`Sync::Within`]), it is told once the kernel has it, and brought to the disk soon after. Where
//! the disk is full, the thread cuts off what it wrote in part and tries again until there is room;
//! nothing is told meanwhile. Where a sync fails, nobody can know what the disk holds: the journal
//! ends for good, and is read anew by the next start.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use towpath_vm::consensus::journal::{Head, Journal, JournalError, Recovered, recover};
use towpath_vm::consensus::{ReplicaId, Stored, Write};

use crate::log;
use crate::private::{Dir, PrivateError};

/// Name of the file.
const NAME: &str = "log";
/// Name of the one that is to take its place.
const NEW: &str = "log.new";
/// Longest file that is read: a snapshot and as much again of entries.
pub const JOURNAL_MAX: u64 = 256 << 20;
/// After a write failed, how long until it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Writes that wait for the disk at once; a replica has far fewer under way before it gives up.
const QUEUE_MAX: usize = 65_536;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refuses.
    #[error("the replicated log in {path} cannot be read or written: {why}")]
    System {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// Others can reach the directory.
    #[error(transparent)]
    Exposed(#[from] PrivateError),
    /// It is longer than any that was written.
    #[error("the replicated log in {path} has {len} bytes, limit {JOURNAL_MAX}")]
    Long {
        /// Which file.
        path: PathBuf,
        /// How long.
        len: u64,
    },
    /// It is not whole.
    #[error(
        "the replicated log in {path} cannot be used: {why}\n\
         hint: put back a copy of it; without one, move the file away: where other hosts keep the \
         log they have it all, else groups and mailboxes begin anew"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: JournalError,
    },
}

/// What a journal was opened with.
#[derive(Debug)]
pub struct Opened {
    /// The journal.
    pub journal: JournalFile,
    /// Which life of the log.
    pub generation: u64,
    /// Whose it is.
    pub id: ReplicaId,
    /// How often a replica was started from it, with this time.
    pub boot: u32,
    /// What to start from.
    pub stored: Stored,
    /// Bytes that were cut off: written before the last end, and not synced.
    pub torn: u64,
}

/// How a journal is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes what comes.
    Well,
    /// It cannot write, and tries again.
    Retries,
    /// It has ended.
    Failed,
}

/// Tells the engine that more has been synced: called on the journal's thread, briefly.
pub type Wake = Box<dyn Fn() + Send>;

/// What the journal in `dir` holds, for who only looks at it; `None` where there is none.
pub(crate) fn read(dir: &Path) -> Result<Option<(u64, Stored)>, OpenError> {
    let read = contents(dir, OFlags::RDONLY)?;
    Ok(read.map(|(_, Recovered { head, stored, .. })| (head.generation, stored)))
}

fn contents(dir: &Path, flags: OFlags) -> Result<Option<(File, Recovered)>, OpenError> {
    let path = dir.join(NAME);
    let system = |why| OpenError::System { path: path.clone(), why };
    let mut file = match Dir::make(dir)?.file(NAME, flags) {
        Err(PrivateError::System { why, .. }) if why.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        opened => opened?,
    };
    let len = file.metadata().map_err(system)?.len();
    if len > JOURNAL_MAX {
        return Err(OpenError::Long { path, len });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(system)?;
    let told = path.display().to_string();
    let recovered = recover(&bytes).map_err(|why| OpenError::Damaged { path, why })?;
    if recovered.torn > 0 {
        log!(
            "the last {} of {len} bytes of the replicated log in {told} are no whole entries, and \
             are passed over: what was decided just before the end may be missing here",
            recovered.torn
        );
    }
    Ok(Some((file, recovered)))
}

/// When a write is told as synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Once the disk has it.
    Promised,
    /// Once the kernel has it; the disk has it within this time. A machine that loses its power
    /// loses what was written in that time.
    Within(Duration),
}

#[derive(Default)]
struct Queue {
    writes: Vec<Write>,
    /// Behind which write the log is of another life, or another's, and of which and whose.
    name: Option<(u64, u64, ReplicaId)>,
    synced: u64,
    over: bool,
}

#[derive(Default)]
struct Desk {
    queue: Mutex<Queue>,
    bell: Condvar,
    health: AtomicU8,
}

impl Desk {
    fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let result = change(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.notify_one();
        result
    }

    /// What came since the last time; waits for it, for `most` at most where that is said. `None`
    /// at the end.
    fn next(&self, most: Option<Duration>) -> Option<Vec<Write>> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = |q: &mut Queue| !q.over && q.writes.is_empty();
        let mut queue = match most {
            None => self.bell.wait_while(queue, nothing).unwrap_or_else(PoisonError::into_inner),
            Some(most) => {
                let waited = self.bell.wait_timeout_while(queue, most, nothing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let writes = std::mem::take(&mut queue.writes);
        if writes.is_empty() && queue.over { None } else { Some(writes) }
    }

    fn name(&self) -> Option<(u64, u64, ReplicaId)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).name
    }

    /// Waits before a further try. False at the end.
    fn pause(&self) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.wait_timeout_while(queue, AGAIN, |q| !q.over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.over
    }
}

/// A journal that is open. Dropped, it writes what waits, if it can at once.
pub struct JournalFile {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for JournalFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalFile").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl JournalFile {
    /// Begins a journal in `dir`, which has none, for a replica that is new.
    pub fn create(
        dir: &Path,
        head: Head,
        life: u64,
        (sync, wake): (Sync, Wake),
    ) -> Result<Self, OpenError> {
        let system = |why| OpenError::System { path: dir.join(NAME), why };
        Dir::make(dir)?;
        if dir.join(NAME).exists() {
            return Err(system(io::ErrorKind::AlreadyExists.into()));
        }
        let (journal, bytes) = Journal::begin(&head, 1, life);
        let begun = Files { dir: dir.into(), head, boot: (1, life) }.replace(&bytes);
        let file = Some(begun.map_err(system)?);
        Ok(Self::start(file, journal, (dir, head, (1, life)), (sync, wake)))
    }

    /// Begins a journal in `dir` with the first write, which replaces whatever is there: until then
    /// that stays as it is.
    pub fn begin(dir: &Path, head: Head, life: u64, told: (Sync, Wake)) -> Result<Self, OpenError> {
        Dir::make(dir)?;
        let (journal, _) = Journal::begin(&head, 1, life);
        Ok(Self::start(None, journal, (dir, head, (1, life)), told))
    }

    /// Opens the journal in `dir` for a further start; `None` where there is none. `life` is a
    /// number drawn for this start.
    pub fn open(
        dir: &Path,
        life: u64,
        (sync, wake): (Sync, Wake),
    ) -> Result<Option<Opened>, OpenError> {
        let Some((mut file, recovered)) = contents(dir, OFlags::RDWR)? else { return Ok(None) };
        let Recovered { head, boot, stored, mut journal, torn } = recovered;
        let system = |why| OpenError::System { path: dir.join(NAME), why };
        let boot = boot + 1;
        let mut begin = || {
            file.set_len(journal.len())?;
            // The boot record says that all before it is on the disk: after a kill it may not be.
            file.sync_all()?;
            file.seek(SeekFrom::Start(journal.len()))?;
            let mut out = Vec::new();
            journal.boot(boot, life, &mut out);
            file.write_all(&out)?;
            file.sync_all()
        };
        begin().map_err(system)?;
        // What was to take its place never did.
        let _ = fs::remove_file(dir.join(NEW));
        let journal = Self::start(Some(file), journal, (dir, head, (boot, life)), (sync, wake));
        let Head { generation, id, .. } = head;
        Ok(Some(Opened { journal, generation, id, boot, stored, torn }))
    }

    fn start(
        file: Option<File>,
        journal: Journal,
        (dir, head, boot): (&Path, Head, (u32, u64)),
        (sync, wake): (Sync, Wake),
    ) -> Self {
        let desk = Arc::new(Desk::default());
        let files = Files { dir: dir.into(), head, boot };
        let mut writer = Writer { file, journal, files, sync, unsynced: None };
        let own = Arc::clone(&desk);
        let work = move || writer.run(&own, &wake);
        let thread = std::thread::Builder::new().name("journal".into()).spawn(work);
        let thread = thread.inspect_err(|why| {
            log!("the replicated log has no thread to write it: {why}");
            desk.health.store(Health::Failed as u8, Ordering::Relaxed);
        });
        Self { desk, thread: thread.ok() }
    }

    /// Has this written after all that came before. False where too much waits already: nothing is
    /// kept then, and nothing is told.
    #[must_use]
    pub fn write(&self, write: Write) -> bool {
        self.desk.change(|queue| {
            let fits = queue.writes.len() < QUEUE_MAX;
            if fits {
                queue.writes.push(write);
            }
            fits
        })
    }

    /// From the first write behind this one on that replaces all, this is the log of that life, of
    /// that replica.
    pub fn name(&self, after: u64, generation: u64, id: ReplicaId) {
        let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.name = Some((after, generation, id));
    }

    /// Whether one more write may wait.
    pub fn has_room(&self) -> bool {
        let queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.writes.len() < QUEUE_MAX
    }

    /// All writes up to this one are on the disk.
    pub fn synced(&self) -> u64 {
        self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner).synced
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        match self.desk.health.load(Ordering::Relaxed) {
            0 => Health::Well,
            1 => Health::Retries,
            _ => Health::Failed,
        }
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        self.desk.change(|queue| queue.over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the file is, and what each file begins with.
struct Files {
    dir: PathBuf,
    head: Head,
    boot: (u32, u64),
}

impl Files {
    /// Puts a file with these bytes in the place of the one that is there, on the disk, too.
    fn replace(&self, bytes: &[u8]) -> io::Result<File> {
        crate::keeper::replace(&self.dir, NAME, bytes)?;
        let mut file = File::options().read(true).write(true).open(self.dir.join(NAME))?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}

/// Why a batch is not on the disk.
enum Fault {
    /// Nothing of it is: it may be tried again.
    Written(io::Error),
    /// Nobody knows.
    Synced(io::Error),
}

struct Writer {
    /// `None` before the first write, which begins a new one.
    file: Option<File>,
    journal: Journal,
    files: Files,
    sync: Sync,
    /// Since when there is something that the disk may not have.
    unsynced: Option<Instant>,
}

impl Writer {
    fn run(&mut self, desk: &Desk, wake: &Wake) {
        while let Some(writes) = desk.next(self.sync_in()) {
            if self.sync_in().is_some_and(|rest| rest.is_zero()) && !self.sync_late(desk) {
                return;
            }
            let mut rest = &writes[..];
            while !rest.is_empty() {
                let (batch, later) = rest.split_at(batch(rest));
                let first = batch.first().map_or(0, |write| write.number);
                if let Some((_, generation, id)) = desk.name().filter(|name| first > name.0) {
                    (self.files.head.generation, self.files.head.id) = (generation, id);
                }
                if !self.keep(desk, batch) {
                    return;
                }
                rest = later;
                let synced = batch.last().map_or(0, |write| write.number);
                desk.change(|queue| queue.synced = synced);
                wake();
            }
        }
        self.sync_late(desk);
    }

    /// How long until what was told as synced is to be on the disk, if that is not so yet.
    fn sync_in(&self) -> Option<Duration> {
        match (self.sync, self.unsynced) {
            (Sync::Within(time), Some(since)) => Some(time.saturating_sub(since.elapsed())),
            _ => None,
        }
    }

    /// Brings what was written to the disk. False where nobody can know whether it is there.
    fn sync_late(&mut self, desk: &Desk) -> bool {
        if self.unsynced.take().is_none() {
            return true;
        }
        match self.sync_all() {
            Ok(()) => true,
            Err(Fault::Synced(why) | Fault::Written(why)) => {
                told(desk, Health::Failed, &why);
                desk.health.store(Health::Failed as u8, Ordering::Relaxed);
                false
            }
        }
    }

    /// Writes a batch until it is on the disk. False where it never will be.
    fn keep(&mut self, desk: &Desk, batch: &[Write]) -> bool {
        loop {
            let health = match self.try_to_keep(batch) {
                Ok(()) => Health::Well,
                Err(Fault::Written(why)) => {
                    told(desk, Health::Retries, &why);
                    Health::Retries
                }
                Err(Fault::Synced(why)) => {
                    told(desk, Health::Failed, &why);
                    Health::Failed
                }
            };
            desk.health.store(health as u8, Ordering::Relaxed);
            match health {
                Health::Well => return true,
                Health::Retries if desk.pause() => {}
                Health::Retries | Health::Failed => return false,
            }
        }
    }

    fn try_to_keep(&mut self, batch: &[Write]) -> Result<(), Fault> {
        let (journal, bytes) = match batch {
            [write] if write.replaces => {
                // Another salt, so that no record of the old file passes for one of the new.
                let head = Head { salt: self.files.head.salt ^ write.number, ..self.files.head };
                let (mut journal, mut bytes) =
                    Journal::begin(&head, self.files.boot.0, self.files.boot.1);
                journal.write(write, &mut bytes);
                self.file = Some(self.files.replace(&bytes).map_err(Fault::Written)?);
                (journal, Vec::new())
            }
            _ => {
                let (mut journal, mut bytes) = (self.journal.clone(), Vec::new());
                for write in batch {
                    journal.write(write, &mut bytes);
                }
                (journal, bytes)
            }
        };
        if !bytes.is_empty() {
            self.append(&bytes)?;
            if self.sync != Sync::Promised {
                self.journal = journal;
                self.unsynced.get_or_insert_with(Instant::now);
                return Ok(());
            }
        }
        self.journal = journal;
        self.sync_all()
    }

    /// All that was written is on the disk, and a mark says so to who reads it.
    fn sync_all(&mut self) -> Result<(), Fault> {
        self.file()?.sync_data().map_err(Fault::Synced)?;
        let (mut journal, mut mark) = (self.journal.clone(), Vec::new());
        journal.mark(&mut mark);
        // Nothing is promised about a mark: where there is no room, there is none.
        if self.append(&mark).is_ok() {
            self.journal = journal;
        }
        Ok(())
    }

    /// Writes after all that is there, or leaves that as it was.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let at = self.journal.len();
        let back = |file: &mut File| {
            file.set_len(at)?;
            file.seek(SeekFrom::Start(at)).map(|_| ())
        };
        let file = self.file()?;
        file.write_all(bytes).map_err(|why| match back(file) {
            Ok(()) => Fault::Written(why),
            Err(why) => Fault::Synced(why),
        })
    }

    fn file(&mut self) -> Result<&mut File, Fault> {
        // Only who writes something before all that there is comes here without one.
        self.file.as_mut().ok_or_else(|| Fault::Written(io::ErrorKind::NotFound.into()))
    }
}

/// How many of the first writes go to the disk at once: those up to the next new file, or that.
fn batch(writes: &[Write]) -> usize {
    writes.iter().position(|write| write.replaces).map_or(writes.len(), |at| at.max(1))
}

/// Says it once.
fn told(desk: &Desk, health: Health, why: &io::Error) {
    if desk.health.load(Ordering::Relaxed) != health as u8 {
        let then = if health == Health::Retries { "it is tried again" } else { "it ends" };
        log!("the replicated log cannot be written: {why}; {then}");
    }
}

#[cfg(test)]
mod tests;
