//! The variables of PVM's library that programs name. Their sizes are part of the interface:
//! programs hold copies of them (copy relocations), which the library must write to as well.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicI32;

use crate::code::{TEXT, TEXTS};
use crate::library::Trace;
use crate::trace_names::{DATA, DATUM, EVENT, EVENTS};

/// A variable that programs may read and write at any time, as they may in PVM.
#[repr(transparent)]
pub(crate) struct Variable<T>(UnsafeCell<T>);

// SAFETY: what PVM asks of programs: they do not touch its variables while it may.
unsafe impl<T> Sync for Variable<T> {}

impl<T: Copy> Variable<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Sets it.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// A row of texts.
type Texts<const N: usize> = Variable<[*const c_char; N]>;

/// `struct Pvmtevdid`: a kind of data in traces.
#[derive(Clone, Copy)]
#[repr(C)]
struct Datum {
    name: *const c_char,
    description: *const c_char,
}

/// `struct Pvmtevinfo`: an event.
#[derive(Clone, Copy)]
#[repr(C)]
struct Event {
    name: *const c_char,
    described: c_int,
    mark: [i64; 2],
    total: [i64; 2],
    count: c_int,
}

const fn texts() -> [*const c_char; TEXTS] {
    let mut list = [std::ptr::null(); TEXTS];
    let mut index = 0;
    while index < TEXTS {
        list[index] = TEXT[index].as_ptr();
        index += 1;
    }
    list
}

const fn data() -> [Datum; DATA] {
    let mut list = [Datum { name: std::ptr::null(), description: std::ptr::null() }; DATA];
    let mut index = 0;
    while index < DATA {
        let (name, description) = DATUM[index];
        list[index] = Datum { name: name.as_ptr(), description: description.as_ptr() };
        index += 1;
    }
    list
}

const fn events() -> [Event; EVENTS] {
    let name = std::ptr::null();
    let mut list = [Event { name, described: 0, mark: [0; 2], total: [0; 2], count: 0 }; EVENTS];
    let mut index = 0;
    while index < EVENTS {
        list[index].name = EVENT[index].as_ptr();
        index += 1;
    }
    list
}

/// Texts of the codes.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // PVM's name.
static pvm_errlist: Texts<TEXTS> = Variable::new(texts());

/// How many there are.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static pvm_nerr: c_int = TEXTS as c_int;

/// The code of the last call that failed.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvm_errno: AtomicI32 = AtomicI32::new(0);

/// The task's context.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmmyctx: AtomicI32 = AtomicI32::new(0);

/// The task, or −1.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmmytid: AtomicI32 = AtomicI32::new(-1);

/// `PvmDebugMask`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmdebmask: AtomicI32 = AtomicI32::new(0);

/// `PvmAutoErr`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmautoerr: AtomicI32 = AtomicI32::new(1);

/// Whether a call of the program itself is under way; PVM's group library asks.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static pvmtoplvl: AtomicI32 = AtomicI32::new(1);

/// Trace settings of the task.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmtrc: Variable<Trace> = Variable::new(Trace::new());

/// Trace settings that children begin with.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pvmctrc: Variable<Trace> = Variable::new(Trace::new());

/// Kinds of data in traces.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static pvmtevdidlist: Variable<[Datum; DATA]> = Variable::new(data());

/// Events.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static pvmtevinfo: Variable<[Event; EVENTS]> = Variable::new(events());

/// Task number of PVM's group server: there is none.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static gstid: AtomicI32 = AtomicI32::new(-1);

/// How long to wait for the group server: no limit.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static pvmgs_tmout: Variable<*const u8> = Variable::new(std::ptr::null());

const _: () = {
    assert!(size_of::<Trace>() == 0x44);
    assert!(size_of::<[Datum; DATA]>() == 0x7b0);
    assert!(size_of::<[Event; EVENTS]>() == 0x17d8);
    assert!(size_of::<[*const c_char; TEXTS]>() == 0x128);
};
