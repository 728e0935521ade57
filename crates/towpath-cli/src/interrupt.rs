//! Ctrl-C and its like: asked about by who computes, waited for by who reads.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit status after an interrupt: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that the first interrupt sets; the second one ends the process.
pub(crate) fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // In this order: the first signal must not find the flag set by itself.
        let status = INTERRUPTED.into();
        signal_hook::flag::register_conditional_shutdown(signal, status, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

/// A flag that can be waited for together with input.
#[derive(Debug)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    /// Can be read from once an interrupt came, for ever: nobody empties it.
    came: UnixStream,
}

impl Interrupt {
    /// As [`flag`].
    pub(crate) fn new() -> std::io::Result<Self> {
        Self::told(flag()?)
    }

    /// Further interrupts do nothing: whoever was told cleans up.
    pub(crate) fn lasting() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Self::told(flag)
    }

    /// Of a flag that the signals set.
    fn told(flag: Arc<AtomicBool>) -> std::io::Result<Self> {
        let (came, tell) = UnixStream::pair()?;
        for signal in SIGNALS {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(Self { flag, came })
    }

    /// Whether one came.
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}
