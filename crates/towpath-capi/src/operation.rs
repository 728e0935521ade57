//! Any operation of a team by one function: parts of whatever lengths, and without waiting.

use std::ffi::c_int;

use towpath_task::collective::{Lengths, Operation, Output, Payload};
use towpath_task::{Pending, Team};

use crate::code::{Code, Failure};
use crate::given::{self, CPart, Out, needed, put, timeout};
use crate::handle::{Done, Handle, Inner, both};
use crate::team::{COperator, operator};

/// `towpath_operation` of the header.
#[repr(C)]
pub(crate) struct COperation {
    what: u32,
    root: u32,
    parts: *const CPart,
    count: usize,
    any_lengths: u32,
    reserved: u32,
    by: *const COperator,
}

/// Kinds of operations, as in the header.
mod what {
    pub(super) const BARRIER: u32 = 1;
    pub(super) const BROADCAST: u32 = 2;
    pub(super) const REDUCE: u32 = 3;
    pub(super) const ALL_REDUCE: u32 = 4;
    pub(super) const GATHER: u32 = 5;
    pub(super) const ALL_GATHER: u32 = 6;
    pub(super) const SCATTER: u32 = 7;
    pub(super) const ALL_TO_ALL: u32 = 8;
    pub(super) const SCAN: u32 = 9;
    pub(super) const EXCLUSIVE_SCAN: u32 = 10;
}

/// What an operation that needs one part was given.
fn only(parts: Vec<Payload>) -> Result<Payload, Failure> {
    let count = parts.len();
    let one = <[Payload; 1]>::try_from(parts);
    let [part] = one.map_err(|_| Failure::argument(format!("{count} parts where one is given")))?;
    Ok(part)
}

impl COperation {
    /// # Safety
    /// Its pointers are as the header demands.
    unsafe fn read(&self) -> Result<Operation, Failure> {
        if self.reserved != 0 {
            return Err(Failure::argument("towpath_operation: reserved is not 0"));
        }
        // SAFETY: the caller's promise.
        let parts = unsafe { given::parts(self.parts, self.count) }?;
        let parts: Vec<Payload> = parts.into_iter().map(|part| part.to_vec().into()).collect();
        // SAFETY: the caller's promise: null or an operator.
        let by = || unsafe { operator(self.by.as_ref()) };
        let root = self.root;
        let lengths = if self.any_lengths == 0 { Lengths::Equal } else { Lengths::Any };
        Ok(match self.what {
            what::BARRIER if parts.is_empty() => Operation::Barrier,
            what::BARRIER => return Err(Failure::argument("a barrier takes no parts")),
            what::BROADCAST => {
                let data = if parts.is_empty() { None } else { Some(only(parts)?) };
                Operation::Broadcast { root, data }
            }
            what::REDUCE => Operation::Reduce { root, data: only(parts)?, operator: by()? },
            what::ALL_REDUCE => Operation::AllReduce { data: only(parts)?, operator: by()? },
            what::GATHER => Operation::Gather { root, data: only(parts)?, lengths },
            what::ALL_GATHER => Operation::AllGather { data: only(parts)?, lengths },
            what::SCATTER => {
                Operation::Scatter { root, parts: (!parts.is_empty()).then_some(parts) }
            }
            what::ALL_TO_ALL => Operation::AllToAll { parts, lengths },
            what::SCAN => Operation::Scan { data: only(parts)?, operator: by()? },
            what::EXCLUSIVE_SCAN => {
                Operation::ExclusiveScan { data: only(parts)?, operator: by()? }
            }
            other => {
                return Err(Failure::argument(format!("operation {other}: there are 1 to 10")));
            }
        })
    }
}

/// # Safety
/// `operation` is as the header demands.
unsafe fn read(operation: Option<&COperation>) -> Result<Operation, Failure> {
    let given = operation.ok_or_else(|| Failure::argument("the operation is null"))?;
    // SAFETY: the caller's promise.
    unsafe { given.read() }
}

fn hand(output: Output, out: Out<'_, *mut Output>) {
    if let Some(out) = out {
        out.write(Box::into_raw(Box::new(output)));
    }
}

/// A result that is not there yet, for a place that may be null.
fn none_yet(mut out: Out<'_, *mut Output>) -> Out<'_, *mut Output> {
    if let Some(out) = &mut out {
        out.write(std::ptr::null_mut());
    }
    out
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_perform(
    handle: Option<&Handle>,
    team: *mut Team,
    operation: Option<&COperation>,
    out: Out<'_, *mut Output>,
) -> c_int {
    let out = none_yet(out);
    let call = |inner: &mut Inner, team: &mut Team| {
        // SAFETY: the header's demands of operations.
        let operation = unsafe { read(operation) }?;
        hand(team.perform(&mut inner.task, operation)?, out);
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_start(
    handle: Option<&Handle>,
    team: *mut Team,
    operation: Option<&COperation>,
    out: Out<'_, *mut Pending>,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let out = needed(out, "the place for what was started")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header's demands of operations.
        let operation = unsafe { read(operation) }?;
        let pending = team.start(&mut inner.task, operation)?;
        out.write(Box::into_raw(Box::new(pending)));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_test(
    handle: Option<&Handle>,
    team: *mut Team,
    pending: Option<&Pending>,
    timeout_ns: i64,
) -> c_int {
    let call = |inner: &mut Inner, team: &mut Team| {
        let pending = pending.ok_or_else(|| Failure::argument("what was started is null"))?;
        let time = timeout(timeout_ns).unwrap_or(std::time::Duration::MAX);
        let is_over = team.wait(&mut inner.task, pending, time)?;
        Ok(if is_over { Done::Yes } else { Done::No })
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_finish(
    handle: Option<&Handle>,
    team: *mut Team,
    pending: *mut Pending,
    out: Out<'_, *mut Output>,
) -> c_int {
    let out = none_yet(out);
    if pending.is_null() {
        return Code::Argument as c_int;
    }
    // SAFETY: the header says that it comes from `towpath_start` and is gone with this call.
    let pending = unsafe { Box::from_raw(pending) };
    let call = |inner: &mut Inner, team: &mut Team| {
        hand(team.finish(&mut inner.task, *pending)?, out);
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of teams.
    unsafe { both(handle, team, "team", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_pending_free(pending: *mut Pending) {
    if !pending.is_null() {
        // SAFETY: the header says that it comes from `towpath_start` and is not used any more.
        drop(unsafe { Box::from_raw(pending) });
    }
}

/// The parts of a result.
fn parts(output: Option<&Output>) -> &[Payload] {
    match output {
        None | Some(Output::None) => &[],
        Some(Output::One(part)) => std::slice::from_ref(part),
        Some(Output::Many(parts)) => parts,
    }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_output_count(output: Option<&Output>) -> usize {
    parts(output).len()
}

#[unsafe(no_mangle)]
extern "C" fn towpath_output_part(
    output: Option<&Output>,
    number: usize,
    out: Out<'_, CPart>,
) -> c_int {
    let Some(part) = parts(output).get(number) else { return Code::Argument as c_int };
    put(out, CPart::of(part));
    Code::Ok as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_output_free(output: *mut Output) {
    if !output.is_null() {
        // SAFETY: the header says that it comes from the above and is not used any more.
        drop(unsafe { Box::from_raw(output) });
    }
}
