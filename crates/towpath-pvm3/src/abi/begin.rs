//! What a child of PVM's daemon finds in its environment, and one of ours could not be given: the
//! number of its own process, which nobody knows before it is there.

use std::ffi::{CString, c_int};

use towpath_task::place::TASK_VAR;

/// PVM's variable with the number of the process that was started.
const PROCESS_VAR: &str = "PVMEPID";

/// Variable of those that `towpath run` starts, as a shell starts them with PVM: they have none.
const JOB_VAR: &str = "TOWPATH_JOB";

/// Called by the loader before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // What such a process starts itself keeps the number, as with PVM: only the one that the
    // daemon started leads a group of its own.
    // SAFETY: both only read numbers of this process.
    let (pid, group): (c_int, c_int) = unsafe { (libc::getpid(), libc::getpgrp()) };
    let has = |name: &str| std::env::var_os(name).is_some();
    if pid != group || !has(TASK_VAR) || has(JOB_VAR) {
        return;
    }
    let (Ok(name), Ok(value)) = (CString::new(PROCESS_VAR), CString::new(pid.to_string())) else {
        return;
    };
    // SAFETY: strings that are alive during the call. Programs are linked with this library, so it
    // begins before any thread; one that loads it later must not read its environment meanwhile.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}
