//! Ctrl-C and its like: asked about by who computes, waited for by who reads.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Exit status after an interrupt: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// How long a computation may go on after an interrupt.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What interrupts do at the moment. Handlers are set once in the life of a process: each that is
/// added stays, and would end the process for an interrupt that another was meant for.
struct State {
    flag: Arc<AtomicBool>,
    /// Nobody asks for the flag: an interrupt does what it does by itself.
    idle: Arc<AtomicBool>,
}

static STATE: OnceLock<std::io::Result<State>> = OnceLock::new();

fn state() -> std::io::Result<&'static State> {
    let state = STATE.get_or_init(|| {
        let (flag, idle) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        for signal in SIGNALS {
            // In this order: the first signal must not find the flag set by itself.
            let status = INTERRUPTED.into();
            signal_hook::flag::register_conditional_default(signal, idle.clone())?;
            signal_hook::flag::register_conditional_shutdown(signal, status, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(State { flag, idle })
    });
    state.as_ref().map_err(|e| e.kind().into())
}

/// A flag that the first interrupt sets, as long as this is there; the second one ends the
/// process. Afterwards interrupts do what they do by themselves. One at a time.
#[derive(Debug)]
pub struct Flag(Arc<AtomicBool>);

/// Takes interrupts from now on; none has come yet.
pub fn flag() -> std::io::Result<Flag> {
    let state = state()?;
    state.flag.store(false, Ordering::Relaxed);
    state.idle.store(false, Ordering::Relaxed);
    Ok(Flag(state.flag.clone()))
}

/// Two flags: the first interrupt sets the first one, the second one the other; a third ends the
/// process. For who does not use [`flag`], for good.
pub fn twice() -> std::io::Result<[Arc<AtomicBool>; 2]> {
    let flags: [Arc<AtomicBool>; 2] = Default::default();
    let told = flags.clone();
    let mut signals = Signals::new(SIGNALS)?;
    let take = move || {
        for (n, _) in signals.forever().enumerate() {
            match told.get(n) {
                Some(flag) => flag.store(true, Ordering::Relaxed),
                None => std::process::exit(INTERRUPTED.into()),
            }
        }
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(take)?;
    Ok(flags)
}

impl Deref for Flag {
    type Target = AtomicBool;

    fn deref(&self) -> &AtomicBool {
        &self.0
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        if let Some(Ok(state)) = STATE.get() {
            state.idle.store(true, Ordering::Relaxed);
        }
    }
}

/// A flag that can be waited for together with input.
#[derive(Debug)]
pub struct Interrupt {
    flag: Flag,
    /// Can be read from once an interrupt came, for ever: nobody empties it.
    came: UnixStream,
    /// Its other end can be read from once this is gone.
    _here: Option<UnixStream>,
}

impl Interrupt {
    /// As [`flag`], for who only computes and reads: what does not heed the first interrupt within
    /// `PATIENCE` is ended with the process. It must not leave anything half done by that.
    pub fn new() -> std::io::Result<Self> {
        let interrupt = Self::told(flag()?)?;
        let came = interrupt.came.try_clone()?;
        let (here, gone) = UnixStream::pair()?;
        let watch = move || {
            let fds = &mut [PollFd::new(&came, PollFlags::IN), PollFd::new(&gone, PollFlags::IN)];
            while poll(fds, None) == Err(Errno::INTR) {}
            let mut end = [PollFd::new(&gone, PollFlags::IN)];
            let ended = loop {
                match poll(&mut end, Some(&PATIENCE)) {
                    Err(Errno::INTR) => {}
                    other => break other,
                }
            };
            if ended == Ok(0) {
                std::process::exit(INTERRUPTED.into());
            }
        };
        std::thread::Builder::new().name("interrupt".into()).spawn(watch)?;
        Ok(Self { _here: Some(here), ..interrupt })
    }

    /// As [`flag`], for who looks often and then tells what there is, however long that takes.
    pub fn heeded() -> std::io::Result<Self> {
        Self::told(flag()?)
    }

    /// Further interrupts do nothing: whoever was told cleans up.
    pub fn lasting() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Self::told(Flag(flag))
    }

    /// Of a flag that the signals set.
    fn told(flag: Flag) -> std::io::Result<Self> {
        let (came, tell) = UnixStream::pair()?;
        for signal in SIGNALS {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(Self { flag, came, _here: None })
    }

    /// For computations that ask by themselves.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Whether one came.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}
