//! Tables that calls give to the program. As in PVM, each lasts until the next call that gives
//! one of its kind.

use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use crate::library::flags_of;
use crate::vm::{HostRow, Mailbox, TaskRow};

/// `struct pvmhostinfo`.
#[repr(C)]
pub(crate) struct HostInfo {
    pub(crate) tid: c_int,
    pub(crate) name: *const c_char,
    pub(crate) arch: *const c_char,
    pub(crate) speed: c_int,
    pub(crate) dsig: c_int,
}

/// `struct pvmtaskinfo`.
#[repr(C)]
pub(crate) struct TaskInfo {
    pub(crate) tid: c_int,
    pub(crate) parent: c_int,
    pub(crate) host: c_int,
    pub(crate) flag: c_int,
    pub(crate) program: *const c_char,
    pub(crate) pid: c_int,
}

/// `struct pvmmboxinfo`.
#[repr(C)]
pub(crate) struct MailboxInfo {
    pub(crate) name: *const c_char,
    pub(crate) entries: c_int,
    pub(crate) indices: *const c_int,
    pub(crate) owners: *const c_int,
    pub(crate) flags: *const c_int,
}

/// Rows with what they point to. Invariant: neither is changed while the program has it.
struct Table<T> {
    rows: Vec<T>,
    texts: Vec<CString>,
    numbers: Vec<Vec<c_int>>,
}

// SAFETY: the pointers are into the same table, on the heap; any thread may hold it.
unsafe impl<T> Send for Table<T> {}

impl<T> Table<T> {
    const fn new() -> Self {
        Self { rows: Vec::new(), texts: Vec::new(), numbers: Vec::new() }
    }

    fn text(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        let at = text.as_ptr();
        self.texts.push(text);
        at
    }

    fn ints(&mut self, ints: Vec<c_int>) -> *const c_int {
        let at = ints.as_ptr();
        self.numbers.push(ints);
        at
    }
}

/// The table of a kind that was given last.
pub(super) struct Given<T>(Mutex<Table<T>>);

impl<T> Given<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Table::new()))
    }

    /// Gives another; the one before is gone.
    fn give(&self, table: Table<T>) -> (*const T, c_int) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *given = table;
        // An empty table is not null: programs compare with null to see a failure.
        (given.rows.as_ptr(), given.rows.len() as c_int)
    }
}

impl Given<HostInfo> {
    pub(super) fn hosts(&self, hosts: &[HostRow]) -> (*const HostInfo, c_int) {
        let mut table = Table::new();
        for host in hosts {
            let (name, arch) = (table.text(&host.name), table.text(&host.arch));
            let (tid, speed, dsig) = (host.tid, host.speed, host.dsig);
            table.rows.push(HostInfo { tid, name, arch, speed, dsig });
        }
        self.give(table)
    }
}

impl Given<TaskInfo> {
    pub(super) fn tasks(&self, tasks: &[TaskRow]) -> (*const TaskInfo, c_int) {
        let mut table = Table::new();
        for task in tasks {
            let program = table.text(&task.program);
            let (tid, parent, host, pid) = (task.tid, task.parent, task.host, task.pid);
            // PVM's flag of a task that is connected to its daemon.
            table.rows.push(TaskInfo { tid, parent, host, flag: 4, program, pid });
        }
        self.give(table)
    }
}

impl Given<MailboxInfo> {
    pub(super) fn mailboxes(&self, boxes: &[Mailbox]) -> (*const MailboxInfo, c_int) {
        let mut table = Table::new();
        for (name, entries) in boxes {
            let name = table.text(name);
            let indices = table.ints(entries.iter().map(|entry| entry.0).collect());
            let owners = table.ints(entries.iter().map(|entry| entry.1).collect());
            let flags = table.ints(entries.iter().map(|entry| flags_of(entry.2)).collect());
            let entries = entries.len() as c_int;
            table.rows.push(MailboxInfo { name, entries, indices, owners, flags });
        }
        self.give(table)
    }
}

impl Given<c_int> {
    pub(super) fn list(&self, ints: Vec<c_int>) -> (*const c_int, c_int) {
        self.give(Table { rows: ints, ..Table::new() })
    }
}
