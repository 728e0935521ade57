//! Waiting without the state.
//!
//! Who waits sleeps on the task's descriptor, and on a bell of its own: what it waits for may be
//! taken in, or put there, by another thread or by a call of a signal handler. After each step
//! that leaves more than there was, the bells of those ring who have not seen it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::session::{Library, Session};
use crate::code::Code;
use crate::vm::{Answer, Nap, Question, Vm};

/// How long to wait for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    Until(Instant),
    Forever,
}

/// What who is about to wait has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// As which task.
    me: i32,
    /// How much had come ([`Session::came`]).
    came: u64,
}

/// Whether somebody sleeps at a bell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeper {
    Nobody,
    /// Who has seen what had come by then ([`Session::came`]).
    Seen(u64),
    /// Whose bell has rung.
    Woken,
}

/// Bells, and who sleeps there. A place that was left by `longjmp` is not used again.
pub(super) struct Sleepers {
    places: Vec<(File, Sleeper)>,
}

impl Sleepers {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// Whether somebody sleeps who has not been woken.
    pub(super) fn any(&self) -> bool {
        self.places.iter().any(|(_, sleeper)| matches!(sleeper, Sleeper::Seen(_)))
    }

    /// Takes a place: its number, and the descriptor of its bell.
    fn lie_down(&mut self, seen: u64) -> Result<(usize, i32), Code> {
        let free = self.places.iter().position(|(_, sleeper)| *sleeper == Sleeper::Nobody);
        let place = free.unwrap_or(self.places.len());
        if free.is_none() {
            self.places.push((bell().ok_or(Code::OutOfRes)?, Sleeper::Nobody));
        }
        let (bell, sleeper) = &mut self.places[place];
        *sleeper = Sleeper::Seen(seen);
        Ok((place, bell.as_raw_fd()))
    }

    /// Leaves a place.
    fn get_up(&mut self, place: usize) {
        // None: the process became another by `fork` meanwhile.
        let Some((bell, sleeper)) = self.places.get_mut(place) else { return };
        if *sleeper == Sleeper::Woken {
            // It has rung: there is something to read.
            let _ = bell.read(&mut [0; 8]);
        }
        *sleeper = Sleeper::Nobody;
    }

    /// Wakes those who have not seen what has `came`; all of them: `None`.
    pub(super) fn wake(&mut self, came: Option<u64>) {
        for (bell, sleeper) in &mut self.places {
            if matches!(*sleeper, Sleeper::Seen(seen) if came != Some(seen)) {
                *sleeper = Sleeper::Woken;
                // A bell that was never read takes 2⁶⁴ writes.
                let _ = bell.write(&1_u64.to_ne_bytes());
            }
        }
    }
}

fn bell() -> Option<File> {
    // SAFETY: makes a descriptor.
    let bell = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    // SAFETY: it was just made, and is nobody else's.
    let bell = (bell >= 0).then(|| unsafe { OwnedFd::from_raw_fd(bell) })?;
    Some(crate::vm::aside(bell).into())
}

impl Session {
    /// How much came so far: from the machine, and from the library itself.
    fn came(&self, vm: &dyn Vm) -> u64 {
        vm.came() + self.notices.told_so_far()
    }

    /// What has come so far, for [`Library::wait`].
    pub(super) fn seen(&self, vm: &dyn Vm) -> Result<Seen, Code> {
        Ok(Seen { me: self.tid()?, came: self.came(vm) })
    }

    /// At the end of a step: those who sleep are to find what it left, and what comes.
    pub(super) fn let_others_see(&mut self, vm: &mut dyn Vm) {
        if !self.sleepers.any() {
            return;
        }
        if !vm.is_armed() {
            // A connection that is lost is found by those who wake.
            let _ = vm.arm();
        }
        let came = self.came(vm);
        self.sleepers.wake(Some(came));
    }
}

impl Library {
    /// Waits until something came that is not in `seen`, without the state; `true`: the time is
    /// over. It may come back early. It fails where the task is none any more.
    pub(super) fn wait(&self, wait: Wait, seen: Seen) -> Result<bool, Code> {
        let until = match wait {
            Wait::No => return Ok(true),
            Wait::Until(until) => Some(until),
            Wait::Forever => None,
        };
        let Seen { me, came } = seen;
        let bed = self.inside_as(me, |session, vm| {
            if session.came(vm) != came {
                return Ok(None);
            }
            let Some(nap) = vm.settle()? else { return Ok(None) };
            if session.came(vm) != came {
                return Ok(None);
            }
            Ok(Some((nap, session.sleepers.lie_down(came)?)))
        })?;
        if let Some((Nap { descriptor, until: sooner }, (place, bell))) = bed {
            sleep([descriptor, bell], [until, sooner].into_iter().flatten().min());
            self.with(|session| session.sleepers.get_up(place));
            self.inside_as(me, |_, vm| vm.wait(Some(Duration::ZERO)))?;
        }
        Ok(until.is_some_and(|until| Instant::now() >= until))
    }

    /// What has come so far, for [`Self::wait`].
    pub(super) fn seen(&self) -> Result<Seen, Code> {
        self.inside(|session, vm| session.seen(vm))
    }

    /// Asks what may take long, and waits without the state; messages that have handlers meet
    /// them.
    pub(super) fn ask(&self, question: Question<'_>) -> Result<Answer, Code> {
        let (me, number) = self.enrolled(|session, vm| Ok((session.tid()?, vm.ask(question)?)))?;
        loop {
            let (answer, seen) = self.inside_as(me, |session, vm| {
                session.take_events(vm);
                // Before the look: what comes between the two is not slept over.
                let seen = session.seen(vm)?;
                Ok((vm.answer(number), seen))
            })?;
            if let Some(answer) = answer {
                return answer;
            }
            self.handle();
            self.wait(Wait::Forever, seen)?;
        }
    }
}

/// Waits for one of two descriptors, without anything of ours.
fn sleep(descriptors: [i32; 2], until: Option<Instant>) {
    let millis = |until: Instant| {
        let left = until.saturating_duration_since(Instant::now());
        i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    };
    let mut what = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: entries that are ours. What it gives does not matter: the caller looks.
    unsafe { libc::poll(what.as_mut_ptr(), 2, until.map_or(-1, millis)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(bell: i32) -> bool {
        let mut what = [libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 }];
        // SAFETY: an entry of ours.
        unsafe { libc::poll(what.as_mut_ptr(), 1, 0) == 1 }
    }

    #[test]
    fn who_sleeps_is_woken_by_what_he_has_not_seen() {
        let mut sleepers = Sleepers::new();
        assert!(!sleepers.any());
        let (first, bell) = sleepers.lie_down(5).unwrap();
        let (second, other) = sleepers.lie_down(6).unwrap();
        assert!(first != second && bell != other && sleepers.any());
        sleepers.wake(Some(5));
        assert_eq!((rings(bell), rings(other)), (false, true));
        sleepers.wake(Some(6));
        assert_eq!((rings(bell), sleepers.any()), (true, false), "all are woken");
        sleepers.get_up(first);
        sleepers.get_up(second);
        assert_eq!((rings(bell), rings(other)), (false, false), "what rang is read");
        // Places are used again, with bells that are silent.
        assert_eq!(sleepers.lie_down(7).unwrap(), (first, bell));
        sleepers.get_up(first);
        assert!(!sleepers.any());
        assert_eq!(sleepers.lie_down(7).unwrap(), (first, bell));
        assert_eq!(sleepers.lie_down(7).unwrap(), (second, other));
        sleepers.wake(None);
        assert!(rings(bell) && rings(other) && !sleepers.any());
        sleepers.get_up(9);
    }

    #[test]
    fn a_sleep_ends_with_its_time_or_with_a_bell() {
        let mut sleepers = Sleepers::new();
        let (_, bell) = sleepers.lie_down(0).unwrap();
        let began = Instant::now();
        sleep([bell, bell], Some(began + Duration::from_millis(20)));
        assert!(began.elapsed() >= Duration::from_millis(20));
        std::thread::scope(|scope| {
            let asleep = scope.spawn(|| sleep([bell, bell], None));
            for _ in 0..1000 {
                assert!(!asleep.is_finished(), "without an end it goes on");
                std::thread::yield_now();
            }
            sleepers.wake(None);
            asleep.join().unwrap();
        });
    }
}
