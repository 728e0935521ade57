//! A thread that must wake on time.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long a thread of this priority may run without sleeping before the kernel ends its
/// process: a loop that never sleeps would take a processor away from everybody, for ever.
const RUN_MAX_US: u64 = 2_000_000;

/// Gives the calling thread the kernel's real-time priority `priority` (1 to 99), or says why not.
/// Its process is ended where it then runs for two seconds without a pause.
pub fn first_in_first_out(priority: i32) -> io::Result<()> {
    let old = getrlimit(Resource::Rttime);
    let limit = old.current.map_or(RUN_MAX_US, |current| current.min(RUN_MAX_US));
    setrlimit(Resource::Rttime, Rlimit { current: Some(limit), maximum: old.maximum })?;
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` is a valid structure for the time of the call; 0 is the calling thread.
    let rc = unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameter,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread the priority of any other again.
pub fn ordinary() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` is a valid structure for the time of the call; 0 is the calling thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameter);
    }
}

/// Timers of the calling thread fire when they are due, and not up to 50 µs later with others.
pub fn exact_timers() {
    // SAFETY: takes integers alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calling thread's policy, and the slack of its timers in nanoseconds.
    fn own() -> (i32, i32) {
        // SAFETY: both only read what the kernel knows of the calling thread.
        unsafe { (libc::sched_getscheduler(0), libc::prctl(libc::PR_GET_TIMERSLACK)) }
    }

    #[test]
    fn a_thread_is_first_where_it_may_be_and_ordinary_again() {
        std::thread::spawn(|| {
            let may = first_in_first_out(7);
            let is_first = own().0 == libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
            assert_eq!(is_first, may.is_ok(), "{may:?}");
            let limit = getrlimit(Resource::Rttime).current;
            assert!(limit.is_some_and(|us| us <= RUN_MAX_US), "{limit:?}");
            ordinary();
            let policy = own().0 & !libc::SCHED_RESET_ON_FORK;
            assert_eq!(policy, libc::SCHED_OTHER);
            assert!(own().1 > 1);
            exact_timers();
            assert_eq!(own().1, 1);
            // No such priority.
            assert!(first_in_first_out(1000).is_err());
        })
        .join()
        .unwrap();
    }
}
