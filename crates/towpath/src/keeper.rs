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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use towpath_node::Node;

use crate::log;

/// After a file could not be written, how long until it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A file that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The table of hosts.
    Table,
    /// The list of tokens.
    Tokens,
}

impl Kept {
    const ALL: [Self; 2] = [Self::Table, Self::Tokens];

    /// Name of the file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Tokens => "tokens",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Table => "the table of hosts",
            Self::Tokens => "the list of tokens",
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
        }
    }
}

/// Told once whether a file has been written.
pub(crate) type Told = Box<dyn FnOnce(bool) + Send>;

/// What a file is to hold from now on.
struct Order {
    kept: Kept,
    bytes: Vec<u8>,
    told: Option<Told>,
}

/// Which files cannot be written, by their places in [`Kept::ALL`].
#[derive(Debug, Default)]
struct Failing([AtomicBool; Kept::ALL.len()]);

/// Keeps the files of a founder, on a thread of its own.
pub(crate) struct Keeper {
    dir: PathBuf,
    /// The place in the log of the table that was handed over last.
    at: u64,
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    failing: Arc<Failing>,
}

impl Keeper {
    /// One for the founder in `dir`.
    pub(crate) fn start(dir: &Path) -> io::Result<Self> {
        let (orders, receive) = channel();
        let failing = Arc::new(Failing::default());
        let (own, dir) = (Arc::clone(&failing), dir.to_path_buf());
        let there = dir.clone();
        let work = move || keep(&there, &receive, &own);
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(work)?;
        Ok(Self { dir, at: 0, orders: Some(orders), thread: Some(thread), failing })
    }

    /// Has the table kept, where it has changed.
    pub(crate) fn look_at(&mut self, node: &Node) {
        if node.log_index() == self.at {
            return;
        }
        if let Some(saved) = node.saved() {
            self.at = node.log_index();
            self.keep(Kept::Table, saved.encode(), None);
        }
    }

    /// Has this kept in the place of what a file held.
    pub(crate) fn keep(&self, kept: Kept, bytes: Vec<u8>, told: Option<Told>) {
        if let Some(orders) = &self.orders {
            // The thread ends only when told to.
            let _ = orders.send(Order { kept, bytes, told });
        }
    }

    /// What cannot be written, and what that means.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &'static str> {
        let all = Kept::ALL.iter().zip(&self.failing.0);
        all.filter(|(_, failing)| failing.load(Ordering::Relaxed)).map(|(kept, _)| kept.trouble())
    }

    /// Waits for what was handed over last to be kept; with `forget`, there is no table any more.
    pub(crate) fn end(&mut self, forget: bool) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if forget {
            crate::table::remove(&self.dir);
        }
    }
}

fn keep(dir: &Path, orders: &Receiver<Order>, failing: &Failing) {
    let mut left: [Option<Vec<u8>>; Kept::ALL.len()] = Default::default();
    loop {
        let wait = if left.iter().any(Option::is_some) { AGAIN } else { Duration::MAX };
        let mut waiting = Vec::new();
        let last = match orders.recv_timeout(wait) {
            Ok(first) => {
                for order in std::iter::once(first).chain(orders.try_iter()) {
                    left[order.kept as usize] = Some(order.bytes);
                    waiting.extend(order.told.map(|told| (order.kept, told)));
                }
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        for kept in Kept::ALL {
            let bytes = &mut left[kept as usize];
            if bytes.as_ref().is_some_and(|b| try_to_keep(dir, kept, b, &failing.0[kept as usize]))
            {
                *bytes = None;
            }
        }
        for (kept, told) in waiting {
            told(left[kept as usize].is_none());
        }
        if last {
            return;
        }
    }
}

/// True where it is written now.
fn try_to_keep(dir: &Path, kept: Kept, bytes: &[u8], failing: &AtomicBool) -> bool {
    let result = match kept {
        Kept::Table => crate::table::write(dir, bytes),
        Kept::Tokens => replace(dir, kept.name(), bytes),
    };
    let before = failing.swap(result.is_err(), Ordering::Relaxed);
    match &result {
        Ok(()) if before => log!("{} is kept again", kept.what()),
        Err(why) if !before => log!("{}: {why}", kept.trouble()),
        _ => {}
    }
    result.is_ok()
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
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_tried_again_and_does_no_harm() {
        for kept in Kept::ALL {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            let read = || fs::read(dir.join(kept.name())).unwrap();
            let mut keeper = Keeper::start(dir).unwrap();
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
        let mut keeper = Keeper::start(dir.path()).unwrap();
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
