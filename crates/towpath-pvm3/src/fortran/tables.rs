//! Tables that Fortran programs get a row at a time: the first call takes the table, the call
//! after the last row takes it anew. A count of −1 begins again.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::abi::{call, library};
use crate::code::Code;
use crate::vm::{HostRow, Mailbox, TaskRow};

/// A table and the row that comes next.
pub(super) struct Rows<T> {
    all: Vec<T>,
    next: usize,
    /// What a program sees beside the rows.
    extra: c_int,
}

static HOSTS: Mutex<Rows<HostRow>> = Mutex::new(Rows::new());
static TASKS: Mutex<Rows<TaskRow>> = Mutex::new(Rows::new());
static MAILBOXES: Mutex<Rows<Mailbox>> = Mutex::new(Rows::new());

impl<T: Clone> Rows<T> {
    const fn new() -> Self {
        Self { all: Vec::new(), next: 0, extra: 0 }
    }

    /// The next row, the number of rows, and the extra.
    fn next(
        &mut self,
        name: &str,
        anew: bool,
        take: impl FnOnce() -> Result<(Vec<T>, c_int), Code>,
    ) -> Result<(Option<T>, c_int, c_int), c_int> {
        if anew {
            self.all.clear();
        }
        if self.all.is_empty() {
            let mut taken = None;
            let code = call(name, || {
                taken = Some(take()?);
                Ok(0)
            });
            let Some((rows, extra)) = taken else { return Err(code) };
            *self = Self { all: rows, next: 0, extra };
        }
        let (row, count) = (self.all.get(self.next).cloned(), self.all.len() as c_int);
        self.next += 1;
        if self.next >= self.all.len() {
            self.all.clear();
        }
        Ok((row, count, self.extra))
    }
}

/// # Safety
/// Null, or an int of the program.
unsafe fn begins_anew(count: *const c_int) -> bool {
    // SAFETY: the caller's promise.
    let count = unsafe { count.as_ref() };
    count == Some(&-1)
}

/// The next task.
///
/// # Safety
/// `count`: null, or an int of the program.
pub(super) unsafe fn next_task(which: c_int, count: *mut c_int) -> Result<Option<TaskRow>, c_int> {
    // SAFETY: the caller's promise.
    let anew = unsafe { begins_anew(count) };
    let mut rows = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    let (row, all, _) = rows.next("pvm_tasks", anew, || Ok((library().tasks(which)?, 0)))?;
    if row.is_some() && !count.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *count = all };
    }
    Ok(row)
}

/// The next host, the number of hosts and of data formats.
///
/// # Safety
/// `count`: null, or an int of the program.
pub(super) unsafe fn next_host(
    count: *const c_int,
) -> Result<(Option<HostRow>, c_int, c_int), c_int> {
    // SAFETY: the caller's promise.
    let anew = unsafe { begins_anew(count) };
    let mut rows = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.next("pvm_config", anew, || {
        let hosts = library().config()?;
        let mut dsigs: Vec<i32> = hosts.iter().map(|host| host.dsig).collect();
        dsigs.sort_unstable();
        dsigs.dedup();
        Ok((hosts, dsigs.len() as c_int))
    })
}

/// The next mailbox.
///
/// # Safety
/// `count`: null, or an int of the program.
pub(super) unsafe fn next_mailbox(
    pattern: &str,
    count: *const c_int,
) -> Result<Option<Mailbox>, c_int> {
    // SAFETY: the caller's promise.
    let anew = unsafe { begins_anew(count) };
    let mut rows = MAILBOXES.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || Ok((library().mailboxes(pattern)?, 0));
    rows.next("pvm_getmboxinfo", anew, take).map(|(row, _, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_one_by_one_and_begin_again() {
        let mut rows = Rows::new();
        let mut next = |anew| rows.next("test", anew, || Ok((vec!['a', 'b'], 7)));
        assert_eq!(next(false), Ok((Some('a'), 2, 7)));
        assert_eq!(next(false), Ok((Some('b'), 2, 7)));
        assert_eq!(next(false), Ok((Some('a'), 2, 7)));
        assert_eq!(next(true), Ok((Some('a'), 2, 7)));
    }
}
