//! What a founder brings to its disk while it runs: the table of hosts and the list of tokens,
//! each in one file of its directory.
//!
//! A file is written beside the old one, brought to the disk, and put in its place at once, by a
//! thread of its own: the engine never waits for a disk. What could not be written is tried again
//! until it can be, or until something newer takes its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use towpath_node::Node;

use crate::ledger::Ledger;
use crate::log;

/// After a file could not be written, how long until it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A file that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The virtual machine's key, of a host that was let in.
    Key,
    /// The table of hosts.
    Table,
    /// The list of tokens.
    Tokens,
}

impl Kept {
    /// In the order in which they are put there; they go in the other one, so that no table is
    /// there without the key that belongs to it.
    const ALL: [Self; 3] = [Self::Key, Self::Table, Self::Tokens];

    /// Name of the file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Tokens => "tokens",
            Self::Key => crate::config::VM_KEY,
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Table => "the table of hosts",
            Self::Tokens => "the list of tokens",
            Self::Key => "the key of the virtual machine",
        }
    }

    /// What is wrong while it cannot be written.
    const fn trouble(self) -> &'static str {
        match self {
            Self::Table => {
                "the table of hosts cannot be written: should this daemon be killed now, it may \
                 not know all hosts again"
            }
            Self::Tokens => {
                "the list of tokens cannot be written: should this daemon be killed now, tokens \
                 that were revoked or used up may be good again"
            }
            Self::Key => {
                "the key of the virtual machine cannot be written: should this daemon be killed \
                 now, it does not come back by itself"
            }
        }
    }
}

/// Told once whether a file has been written.
pub(crate) type Told = Box<dyn FnOnce(bool) + Send>;

/// What a file is to hold.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Put(Vec<u8>),
    /// It is not to be there.
    Remove,
}

/// What is to be done, by the files' places in [`Kept::ALL`]: of each file only what it is to hold
/// in the end, however long a disk takes meanwhile.
#[derive(Default)]
struct Orders {
    bytes: [Option<Order>; Kept::ALL.len()],
    told: Vec<(Kept, Told)>,
    /// Nothing comes any more.
    over: bool,
}

/// The orders, and a bell. The lock is held for no longer than a move.
#[derive(Default)]
struct Desk(Mutex<Orders>, Condvar);

impl Desk {
    fn change(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.1.notify_one();
    }

    /// What came since the last time; waits for it, for `most` at most where that is said.
    fn next(&self, most: Option<Duration>) -> Orders {
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = |o: &mut Orders| !o.over && o.bytes.iter().all(Option::is_none);
        let mut orders = match most {
            None => self.1.wait_while(orders, nothing).unwrap_or_else(PoisonError::into_inner),
            Some(most) => {
                let waited = self.1.wait_timeout_while(orders, most, nothing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let over = orders.over;
        Orders { over, ..std::mem::take(&mut *orders) }
    }
}

/// Which files cannot be written, by their places in [`Kept::ALL`].
#[derive(Debug, Default)]
struct Failing([AtomicBool; Kept::ALL.len()]);

/// Keeps the files of a founder, on a thread of its own.
pub(crate) struct Keeper {
    dir: PathBuf,
    /// The place in the log of the table that was handed over last.
    at: u64,
    /// And of the one that is on the disk.
    kept_at: Arc<AtomicU64>,
    /// One could not be written, and nobody hears when it is after all: it is handed over again.
    missed: Arc<AtomicBool>,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    failing: Arc<Failing>,
    /// What is decided, where this host keeps that.
    pub(crate) ledger: Option<Ledger>,
    /// What was decided is being removed: until it is, nothing new is written there.
    clears: Arc<AtomicBool>,
}

impl Keeper {
    /// One for the founder in `dir`.
    pub(crate) fn start(dir: &Path, ledger: Option<Ledger>) -> io::Result<Self> {
        let (desk, failing) = (Arc::new(Desk::default()), Arc::new(Failing::default()));
        let (own, orders, dir) = (Arc::clone(&failing), Arc::clone(&desk), dir.to_path_buf());
        let there = dir.clone();
        let work = move || keep(&there, &orders, &own);
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(work)?;
        let (kept_at, missed, clears) = (Arc::default(), Arc::default(), Arc::default());
        let thread = Some(thread);
        Ok(Self { dir, at: 0, kept_at, missed, desk, thread, failing, ledger, clears })
    }

    /// This host does not keep what is decided any more: it is removed, on a thread that may wait
    /// for a disk.
    pub(crate) fn clear_ledger(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        self.clears.store(true, Ordering::Release);
        let (dir, clears) = (self.dir.clone(), Arc::clone(&self.clears));
        let work = move || {
            drop(ledger);
            crate::ledger::remove(&dir);
            clears.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("clearing".into()).spawn(work).is_err() {
            self.clears.store(false, Ordering::Release);
        }
    }

    /// Whether a new journal may begin.
    pub(crate) fn has_cleared(&self) -> bool {
        !self.clears.load(Ordering::Acquire)
    }

    /// Has the table kept, where it has changed.
    pub(crate) fn look_at(&mut self, node: &mut Node) {
        node.kept(self.kept_at.load(Ordering::Acquire));
        let waits = self.ledger.as_ref().is_some_and(|ledger| !ledger.has_begun());
        let fails = self.failing.0[Kept::Table as usize].load(Ordering::Acquire);
        let again = !fails && self.missed.swap(false, Ordering::AcqRel);
        if waits || node.log_index() == self.at && !again {
            return;
        }
        if let Some(saved) = node.saved() {
            self.at = node.log_index();
            let (at, kept_at) = (self.at, Arc::clone(&self.kept_at));
            let missed = Arc::clone(&self.missed);
            let told: Told = Box::new(move |is_kept| {
                if is_kept {
                    kept_at.fetch_max(at, Ordering::Release);
                } else {
                    missed.store(true, Ordering::Release);
                }
            });
            self.keep(Kept::Table, saved.encode(), Some(told));
        }
    }

    /// Has this kept in the place of what a file held.
    pub(crate) fn keep(&self, kept: Kept, bytes: Vec<u8>, told: Option<Told>) {
        self.desk.change(|orders| {
            orders.bytes[kept as usize] = Some(Order::Put(bytes));
            orders.told.extend(told.map(|told| (kept, told)));
        });
    }

    /// Has nothing kept any more, until something is again.
    pub(crate) fn forget(&mut self) {
        self.at = 0;
        self.desk.change(|orders| orders.bytes = [const { Some(Order::Remove) }; Kept::ALL.len()]);
    }

    /// What cannot be written, and what that means.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &'static str> {
        let all = Kept::ALL.iter().zip(&self.failing.0);
        all.filter(|(_, failing)| failing.load(Ordering::Relaxed)).map(|(kept, _)| kept.trouble())
    }

    /// Waits for what was handed over last to be kept; with `forget`, there is no table any more.
    pub(crate) fn end(&mut self, forget: bool) {
        self.desk.change(|orders| orders.over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if forget {
            self.ledger = None;
            crate::table::remove(&self.dir);
        }
    }
}

fn keep(dir: &Path, desk: &Desk, failing: &Failing) {
    let mut left: [Option<Order>; Kept::ALL.len()] = Default::default();
    loop {
        let orders = desk.next(left.iter().any(Option::is_some).then_some(AGAIN));
        for (left, new) in left.iter_mut().zip(orders.bytes) {
            *left = new.or_else(|| left.take());
        }
        let removes = |left: &[Option<Order>], kept: &Kept| {
            matches!(left[*kept as usize], Some(Order::Remove))
        };
        let (go, put): (Vec<Kept>, Vec<Kept>) =
            Kept::ALL.into_iter().partition(|kept| removes(&left, kept));
        for kept in put.into_iter().chain(go.into_iter().rev()) {
            // No table without the key that belongs to it.
            let (key, table) = (&left[Kept::Key as usize], &left[Kept::Table as usize]);
            if kept == Kept::Table && matches!(key, Some(Order::Put(_)))
                || kept == Kept::Key && *table == Some(Order::Remove)
            {
                continue;
            }
            let failing = &failing.0[kept as usize];
            left[kept as usize] =
                left[kept as usize].take().filter(|order| !try_to_keep(dir, kept, order, failing));
        }
        for (kept, told) in orders.told {
            told(left[kept as usize].is_none());
        }
        if orders.over {
            return;
        }
    }
}

/// True where it is written now.
fn try_to_keep(dir: &Path, kept: Kept, order: &Order, failing: &AtomicBool) -> bool {
    let result = match (kept, order) {
        (Kept::Table, Order::Put(bytes)) => crate::table::write(dir, bytes),
        (Kept::Tokens | Kept::Key, Order::Put(bytes)) => replace(dir, kept.name(), bytes),
        (Kept::Table, Order::Remove) => crate::table::remove_table(dir),
        (Kept::Tokens | Kept::Key, Order::Remove) => remove(&dir.join(kept.name())),
    };
    let before = failing.swap(result.is_err(), Ordering::AcqRel);
    match &result {
        Ok(()) if before => log!("{} is kept again", kept.what()),
        Err(why) if !before => log!("{}: {why}", kept.trouble()),
        _ => {}
    }
    result.is_ok()
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Puts a file in the place of the one that is there, on the disk, too.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&new, dir.join(name))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn of_what_a_slow_disk_has_not_taken_only_the_last_is_held() {
        let desk = Desk::default();
        let order = |text: &str| {
            desk.change(|orders| {
                orders.bytes[Kept::Table as usize] = Some(Order::Put(text.into()));
            });
        };
        (0..1000).for_each(|n| order(&n.to_string()));
        let next = desk.next(None);
        assert_eq!(next.bytes, [None, Some(Order::Put(b"999".to_vec())), None]);
        assert!(!next.over && desk.next(Some(Duration::ZERO)).bytes == [None, None, None]);
        desk.change(|orders| orders.over = true);
        assert!(desk.next(None).over, "nobody waits for what does not come");
    }

    #[test]
    fn what_cannot_be_written_is_told_tried_again_and_does_no_harm() {
        for kept in Kept::ALL {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let read = || fs::read(dir.join(kept.name())).unwrap();
            let mut keeper = Keeper::start(dir, None).unwrap();
            let (tell, told) = channel();
            let say = |text: &str| {
                let tell = tell.clone();
                let told: Told = Box::new(move |is| tell.send(is).unwrap());
                keeper.keep(kept, text.into(), Some(told));
            };
            say("before");
            assert!(told.recv().unwrap() && keeper.troubles().next().is_none());
            // As on a full disk: nothing new can be made there.
            let blocked = dir.join(format!("{}.new", kept.name()));
            fs::create_dir(&blocked).unwrap();
            say("first");
            assert!(!told.recv().unwrap());
            assert!(keeper.troubles().eq([kept.trouble()]));
            assert!(read().ends_with(b"before"), "the last whole one is there");
            fs::remove_dir(&blocked).unwrap();
            say("second");
            assert!(told.recv().unwrap() && keeper.troubles().next().is_none());
            assert!(read().ends_with(b"second"));
            keeper.end(false);
        }
    }

    #[test]
    fn what_is_left_at_the_end_is_tried_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("tokens.new");
        fs::create_dir(&blocked).unwrap();
        let mut keeper = Keeper::start(dir.path(), None).unwrap();
        let (tell, told) = channel();
        let say: Told = Box::new(move |is| tell.send(is).unwrap());
        keeper.keep(Kept::Tokens, b"revoked".to_vec(), Some(say));
        assert!(!told.recv().unwrap());
        fs::remove_dir(&blocked).unwrap();
        // Nobody says anything new.
        keeper.end(false);
        assert_eq!(fs::read(dir.path().join("tokens")).unwrap(), b"revoked");
    }
}
