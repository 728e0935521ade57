//! Coming in while there are descriptors, and being turned away in words when there are none.
//!
//! A listener with somebody in its queue is ready, over and over, whether or not there is a
//! descriptor for who comes. So one is kept spare: with it who comes can be taken in, told why, and
//! closed. Where even that is gone, the listeners are not watched for a moment.

use std::fs::File;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use towpath_wire::Instant;

use super::core::Engine;

/// How long listeners are left alone when not even one descriptor can be had.
pub(super) const REST: Duration = Duration::from_millis(100);

/// Who is at a door.
pub(super) enum Knock {
    /// Nobody any more.
    Nobody,
    /// Somebody.
    Room(UnixStream),
    /// Somebody for whom there is no descriptor but the spare one: to be turned away.
    NoRoom(UnixStream, io::Error),
    /// Perhaps somebody, but there is not even a spare descriptor.
    Shut,
}

/// The spare descriptor, and until when listeners are not watched.
pub(super) struct Doors {
    spare: Option<File>,
    pub(super) shut_until: Option<Instant>,
}

impl Doors {
    pub(super) fn new() -> Self {
        let mut doors = Self { spare: None, shut_until: None };
        doors.refill();
        doors
    }

    /// Takes in who comes next. Whoever is turned away is to be closed before [`Doors::refill`].
    pub(super) fn accept(&mut self, listener: &UnixListener) -> Knock {
        let why = match listener.accept() {
            Ok((stream, _)) => return Knock::Room(stream),
            Err(why) if lacks_descriptors(&why) => why,
            Err(_) => return Knock::Nobody,
        };
        if self.spare.take().is_none() {
            return Knock::Shut;
        }
        match listener.accept() {
            Ok((stream, _)) => Knock::NoRoom(stream, why),
            Err(why) if lacks_descriptors(&why) => Knock::Shut,
            Err(_) => {
                self.refill();
                Knock::Nobody
            }
        }
    }

    /// Has a spare descriptor again, if there is one.
    pub(super) fn refill(&mut self) {
        if self.spare.is_none() {
            self.spare = File::open("/dev/null").ok();
        }
    }
}

fn lacks_descriptors(why: &io::Error) -> bool {
    let lacks = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    lacks.iter().any(|errno| why.raw_os_error() == Some(errno.raw_os_error()))
}

impl Engine {
    /// Leaves the listeners alone for a moment.
    pub(super) fn shut_doors(&mut self) {
        let _ = self.poll.remove(&self.listener);
        let _ = self.poll.remove(&self.conversations.listener);
        self.doors.shut_until = Some(self.clock.now() + REST);
    }

    /// Watches them again, when it is time.
    pub(super) fn open_doors(&mut self, now: Instant) -> io::Result<()> {
        if self.doors.shut_until.take_if(|until| *until <= now).is_some() {
            self.doors.refill();
            self.watch_doors()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// With descriptors of its own, which other tests use, this plays that there is none.
    #[test]
    fn only_a_lack_of_descriptors_is_one() {
        let lacks = |errno: rustix::io::Errno| lacks_descriptors(&errno.into());
        assert!(lacks(rustix::io::Errno::MFILE) && lacks(rustix::io::Errno::NFILE));
        assert!(!lacks(rustix::io::Errno::AGAIN) && !lacks(rustix::io::Errno::CONNABORTED));
    }

    #[test]
    fn who_comes_is_taken_in_until_nobody_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut doors = Doors::new();
        let mut theirs = UnixStream::connect(&path).unwrap();
        assert!(matches!(doors.accept(&listener), Knock::Room(_)));
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        assert!(matches!(doors.accept(&listener), Knock::Nobody));
    }
}
