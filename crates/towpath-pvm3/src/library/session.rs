//! The state of a task, and how it enters and leaves the virtual machine.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::handlers::Handlers;
use super::notify::Notices;
use super::options::{FRAGMENT_DEFAULT, Options};
use super::output::Output;
use super::receive::MatchFunction;
use super::spawn::CONTEXT_VAR;
use super::system::System;
use super::trace::{Traced, Tracing};
use super::waiting::Sleepers;
use crate::buffers::Buffers;
use crate::code::{Code, Outcome};
use crate::vm::{Identity, Members, Vm};

/// How a process gets into its virtual machine.
pub(crate) type Connect = fn() -> Result<Box<dyn Vm>, Code>;

/// State of a task.
pub(super) struct Session {
    pub(super) vm: Option<Box<dyn Vm>>,
    /// Who it is, while `vm` is there.
    pub(super) identity: Option<Identity>,
    pub(super) buffers: Buffers,
    pub(super) context: i32,
    pub(super) options: Options,
    pub(super) handlers: Handlers,
    /// A match function of the program's own.
    pub(super) matches: Option<MatchFunction>,
    pub(super) notices: Notices,
    pub(super) output: Output,
    /// Frozen groups.
    pub(super) frozen: BTreeMap<String, Members>,
    /// Place of this task's entry among those that a reset spares.
    pub(super) no_reset: Option<i32>,
    /// Roles that it plays, with the place of its entry in their mailboxes.
    pub(super) roles: BTreeMap<&'static str, i32>,
    pub(super) system: System,
    pub(super) tracing: Tracing,
    pub(super) sleepers: Sleepers,
    /// The virtual machine was entered since handlers had their turn.
    pub(super) entered: bool,
    /// They have it now.
    pub(super) handling: bool,
}

/// A task of a virtual machine, or one that can become one.
///
/// Calls may come from any thread. Each step of a call has the state to itself; what the program
/// gave to be called (handlers, match functions) runs without it, and may call again. A thread
/// that waits, for a message, a barrier or an entry, does so without the state, and signal
/// handlers may call meanwhile; in the middle of a step they get [`Code::NotImpl`], as in PVM.
pub(crate) struct Library {
    session: Mutex<Session>,
    connect: Connect,
    /// [`super::trace::Traced`], to be looked at without the state.
    pub(super) traced: AtomicU8,
    /// The program has handlers, to be looked at without the state.
    pub(super) has_handlers: AtomicBool,
}

thread_local! {
    /// This thread has the state, or waits for it: a signal handler must not. Looked at where
    /// there are other threads; one that is alone has it whenever it is not free.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Sets [`HOLDS`] as long as it lasts.
struct Holding {
    before: Option<bool>,
}

impl Holding {
    fn begin() -> Self {
        let before = (!is_alone()).then(|| HOLDS.replace(true));
        // A signal handler of this thread sees this before whatever follows.
        compiler_fence(SeqCst);
        Self { before }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        if let Some(before) = self.before {
            HOLDS.set(before);
        }
    }
}

/// The state, for one thread.
struct Held<'a> {
    session: MutexGuard<'a, Session>,
    // Dropped behind it.
    _holding: Holding,
}

impl Deref for Held<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

unsafe extern "C" {
    /// Of the C library (2.32 and later): not 0 while the process has one thread.
    #[link_name = "__libc_single_threaded"]
    static SINGLE_THREADED: u8;
}

/// Whether this is the only thread.
fn is_alone() -> bool {
    // SAFETY: a byte of the C library that only changes when a thread is made, by this thread
    // if it is the only one.
    unsafe { (&raw const SINGLE_THREADED).read_volatile() != 0 }
}

impl Library {
    /// A process that is not in a virtual machine yet.
    pub(crate) const fn new(connect: Connect) -> Self {
        let session = Session {
            vm: None,
            identity: None,
            buffers: Buffers::new(),
            context: 0,
            options: Options::new(),
            handlers: Handlers::new(),
            matches: None,
            notices: Notices::new(),
            output: Output::new(),
            frozen: BTreeMap::new(),
            no_reset: None,
            roles: BTreeMap::new(),
            system: System::new(),
            tracing: Tracing::new(),
            sleepers: Sleepers::new(),
            entered: false,
            handling: false,
        };
        let has_handlers = AtomicBool::new(false);
        let traced = AtomicU8::new(Traced::NotKnown as u8);
        Self { session: Mutex::new(session), connect, traced, has_handlers }
    }

    /// Fails where this very thread has the state: a signal handler calls in the middle of a step,
    /// or has left one by `longjmp`.
    fn lock(&self) -> Result<Held<'_>, Code> {
        let alone = is_alone();
        if !alone && HOLDS.get() {
            return Err(Code::NotImpl);
        }
        match self.try_hold() {
            Some(held) => Ok(held),
            None if alone => Err(Code::NotImpl),
            None => {
                let holding = Holding::begin();
                let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Held { session, _holding: holding })
            }
        }
    }

    /// This very thread is in the midst of a step: this is a call of a signal handler, or one after
    /// a `longjmp`.
    pub(crate) fn is_amid(&self) -> bool {
        if is_alone() {
            matches!(self.session.try_lock(), Err(TryLockError::WouldBlock))
        } else {
            HOLDS.get()
        }
    }

    /// Takes the state if it is free.
    fn try_hold(&self) -> Option<Held<'_>> {
        let holding = Holding::begin();
        let session = match self.session.try_lock() {
            Ok(session) => session,
            // A panic in the middle of a call is our mistake; the call has failed, others may not.
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Held { session, _holding: holding })
    }

    /// With the state to itself, which must not be this thread's already: else it unwinds with
    /// the code.
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Session) -> R) -> R {
        match self.try_with(step) {
            Ok(result) => result,
            Err(code) => std::panic::resume_unwind(Box::new(code)),
        }
    }

    /// With the state to itself, if this thread does not have it already.
    pub(super) fn try_with<R>(&self, step: impl FnOnce(&mut Session) -> R) -> Result<R, Code> {
        Ok(step(&mut *self.lock()?))
    }

    /// With the state and the virtual machine, which is entered first if need be.
    pub(super) fn enrolled<R>(
        &self,
        step: impl FnOnce(&mut Session, &mut dyn Vm) -> Result<R, Code>,
    ) -> Result<R, Code> {
        let mut session = self.lock()?;
        if session.enrol(self.connect)? {
            self.note_tracing(&session);
        }
        session.entered = true;
        session.with_machine(step)
    }

    /// With the state and the virtual machine, which is not entered for this: outside of one it
    /// fails.
    pub(super) fn inside<R>(
        &self,
        step: impl FnOnce(&mut Session, &mut dyn Vm) -> Result<R, Code>,
    ) -> Result<R, Code> {
        self.lock()?.with_machine(step)
    }

    /// As [`Self::inside`], in a call that began as the task `me`: it fails where another thread
    /// or a handler has left the virtual machine meanwhile.
    pub(super) fn inside_as<R>(
        &self,
        me: i32,
        step: impl FnOnce(&mut Session, &mut dyn Vm) -> Result<R, Code>,
    ) -> Result<R, Code> {
        self.inside(|session, vm| {
            session.entered = true;
            if session.tid()? == me { step(session, vm) } else { Err(Code::SysErr) }
        })
    }

    /// `pvm_mytid`.
    pub(crate) fn my_tid(&self) -> Outcome {
        self.enrolled(|session, _| session.tid())
    }

    /// The task's number, or −1 outside a virtual machine.
    pub(crate) fn tid_now(&self) -> i32 {
        let tid = |session: &mut Session| session.identity.as_ref().map(|identity| identity.tid);
        self.try_with(tid).ok().flatten().unwrap_or(-1)
    }

    /// The task's number (−1 outside a virtual machine) and its context. Fails in the middle of a
    /// step.
    pub(crate) fn shown(&self) -> Result<(i32, i32), Code> {
        self.try_with(|session| (session.tid().unwrap_or(-1), session.context))
    }

    /// `pvm_parent`.
    pub(crate) fn parent(&self) -> Outcome {
        self.enrolled(|session, _| {
            let identity = session.identity.as_ref().ok_or(Code::SysErr)?;
            match identity.parent {
                Some(parent) => Ok(parent),
                None if identity.siblings.is_empty() => Err(Code::NoParent),
                None => Err(Code::ParentNotSet),
            }
        })
    }

    /// `pvm_siblings`.
    pub(crate) fn siblings(&self) -> Result<Vec<i32>, Code> {
        self.my_tid()?;
        self.wait_for_siblings()?;
        self.enrolled(|session, _| {
            let identity = session.identity.as_ref().ok_or(Code::SysErr)?;
            match identity.siblings.as_slice() {
                [] => Ok(vec![identity.tid]),
                many => Ok(many.to_vec()),
            }
        })
    }

    /// `pvm_getfds`: one descriptor, readable when something came.
    pub(crate) fn descriptor(&self) -> Outcome {
        self.enrolled(|_, vm| Ok(vm.descriptor()))
    }

    /// The program may wait for the descriptor now: whoever sends has to wake it.
    pub(crate) fn arm(&self) {
        // A connection that is lost is found by the next call.
        let _ = self.inside(|_, vm| vm.arm());
    }

    /// `pvm_exit`. What waits to be received is dropped; output of children is waited for.
    pub(crate) fn exit(&self) -> Outcome {
        if !self.try_with(|session| session.vm.is_some())? {
            return Ok(0);
        }
        self.wait_for_output()?;
        self.with(|session| {
            while let id @ 1.. = session.buffers.next_waiting(0) {
                session.buffers.free(id)?;
            }
            session.buffers.free(session.buffers.receive())?;
            if let Some(mut vm) = session.vm.take() {
                session.end_tracing(&mut *vm);
                vm.leave();
            }
            session.forget();
            self.note_tracing(session);
            self.has_handlers.store(false, Relaxed);
            Ok(0)
        })
    }

    /// The process is about to be copied by `fork`. The child has none of the memory that tasks
    /// share: messages move out of it. Where another thread is inside a call, they stay.
    pub(crate) fn before_fork(&self) {
        if let Some(mut session) = self.try_hold() {
            session.buffers.keep();
        }
    }

    /// The process was copied by `fork`: the child is no task yet. Its copy of the connection is
    /// left alone, for the parent uses it. Where another thread was inside a call at the time,
    /// the state is never free again in the child: it may `exec`, but its calls fail.
    pub(crate) fn forked(&self) {
        let Some(mut session) = self.try_hold() else {
            HOLDS.set(true);
            return;
        };
        std::mem::forget(session.vm.take());
        // The bells are the parent's too.
        session.sleepers = Sleepers::new();
        self.has_handlers.store(false, Relaxed);
        session.forget();
        self.note_tracing(&session);
    }
}

/// The context that the task's spawner was in, where there is one.
fn given_context() -> Option<i32> {
    let text = std::env::var(CONTEXT_VAR).ok()?;
    Some(super::spawn::parse_int(&text))
}

/// The state and its machine, which goes back when this is dropped: by a panic too.
struct Apart<'a> {
    session: &'a mut Session,
    vm: Option<Box<dyn Vm>>,
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        self.session.vm = self.vm.take();
    }
}

impl Session {
    /// The machine is taken out so that both can be used; a step never looks for it.
    pub(super) fn with_machine<R>(
        &mut self,
        step: impl FnOnce(&mut Self, &mut dyn Vm) -> Result<R, Code>,
    ) -> Result<R, Code> {
        let vm = self.vm.take().ok_or(Code::SysErr)?;
        let mut apart = Apart { session: self, vm: Some(vm) };
        let vm = apart.vm.as_deref_mut().ok_or(Code::SysErr)?;
        let outcome = step(apart.session, vm);
        apart.session.let_others_see(vm);
        outcome
    }

    /// `false`: the process was in it already.
    fn enrol(&mut self, connect: Connect) -> Result<bool, Code> {
        if self.vm.is_some() {
            return Ok(false);
        }
        let mut vm = connect()?;
        let identity = vm.identity();
        // As in PVM: a child begins in the context of the variable each time that it enrols; any
        // other process goes on in the one that it was in.
        if let Some(given) = given_context().or((identity.context != 0).then_some(identity.context))
        {
            self.context = given;
        }
        self.options.fragment = FRAGMENT_DEFAULT;
        self.system.awaits_siblings = identity.parent.is_some() && super::system::told_later();
        self.identity = Some(identity);
        self.begin_tracing(&mut *vm);
        self.vm = Some(vm);
        Ok(true)
    }

    /// What belonged to the task that this process was.
    fn forget(&mut self) {
        self.identity = None;
        self.sleepers.wake(None);
        self.handlers = Handlers::new();
        self.handling = false;
        self.notices = Notices::new();
        self.output = Output::new();
        self.frozen.clear();
        self.no_reset = None;
        self.roles.clear();
        self.system = System::new();
    }

    pub(super) fn tid(&self) -> Outcome {
        self.identity.as_ref().map(|identity| identity.tid).ok_or(Code::SysErr)
    }
}
