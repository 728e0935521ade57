//! Memory files: made and sealed by the daemon, mapped by tasks after a check.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;

use super::layout::{ArenaShape, HALF_LEN, HALF_STAMP, STAMP, TASK_STAMP};
use super::memory::Memory;

/// A memory file as two descriptors: for its one writer, and for those who read it. Pages cost
/// memory from their first use on; the file is gone with its last descriptor and mapping.
#[derive(Debug)]
pub struct Segment {
    /// Readable and writable; for its owner alone.
    pub owner: OwnedFd,
    /// Read-only.
    pub peers: OwnedFd,
}

impl Segment {
    /// A task's own: its card and an arena of at least `arena` bytes (rounded up to 256 KiB, at
    /// most 64 GiB).
    ///
    /// # Errors
    /// Whatever the kernel says, as where there are no descriptors left.
    pub fn task(arena: usize) -> io::Result<Self> {
        make("towpath-task", ArenaShape::holding(arena).segment_len(), TASK_STAMP)
    }

    /// What one task of a pair writes for the other.
    ///
    /// # Errors
    /// As for [`Segment::task`].
    pub fn half() -> io::Result<Self> {
        make("towpath-half", HALF_LEN, HALF_STAMP)
    }
}

fn make(name: &str, len: usize, stamp: u64) -> io::Result<Segment> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let owner = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        made => made?,
    };
    ftruncate(&owner, len as u64)?;
    let owner = File::from(owner);
    owner.write_all_at(&stamp.to_le_bytes(), STAMP as u64)?;
    fcntl_add_seals(&owner, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    let path = format!("/proc/self/fd/{}", owner.as_raw_fd());
    let flags = OFlags::CLOEXEC.bits().cast_signed();
    let peers = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(Segment { owner: owner.into(), peers: peers.into() })
}

/// Why a descriptor is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Its writer could make it shorter under our eyes.
    #[error("shared memory ({what}) is not sealed against shrinking")]
    Unsealed {
        /// Which segment.
        what: &'static str,
    },
    /// No segment of this kind has this length.
    #[error("shared memory ({what}) of {len} bytes has no length of such a segment")]
    Length {
        /// Which segment.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
    },
    /// Another kind of segment, or of another version of Towpath.
    #[error("shared memory ({what}) bears the stamp {stamp:#018x}, expected {expected:#018x}")]
    Stamp {
        /// Which segment.
        what: &'static str,
        /// What stands there.
        stamp: u64,
        /// What should.
        expected: u64,
    },
}

/// What to map, and how.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    what: &'static str,
    stamp: u64,
    writable: bool,
}

/// Maps a segment. The descriptor is not needed afterwards.
fn open(
    file: OwnedFd,
    wanted: Wanted,
    fits: impl Fn(usize) -> bool,
) -> Result<Arc<Memory>, OpenError> {
    let Wanted { what, stamp: expected, writable } = wanted;
    let file = File::from(file);
    let system = |source: Errno| OpenError::System { what, source: source.into() };
    let seals = fcntl_get_seals(&file).map_err(system)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(OpenError::Unsealed { what });
    }
    let len = fstat(&file).map_err(system)?.st_size.cast_unsigned();
    let length = usize::try_from(len).ok().filter(|len| fits(*len));
    let length = length.ok_or(OpenError::Length { what, len })?;
    let memory = Memory::map(file.as_fd(), length, writable).map_err(system)?;
    let stamp = memory.word(STAMP).load(Relaxed);
    if stamp != expected {
        return Err(OpenError::Stamp { what, stamp, expected });
    }
    Ok(Arc::new(memory))
}

/// Maps a half.
pub(super) fn open_half(file: OwnedFd, writable: bool) -> Result<Arc<Memory>, OpenError> {
    let what = if writable { "own half of a pair" } else { "peer's half of a pair" };
    open(file, Wanted { what, stamp: HALF_STAMP, writable }, |len| len == HALF_LEN)
}

/// Maps a task segment.
pub(super) fn open_task(
    file: OwnedFd,
    writable: bool,
) -> Result<(Arc<Memory>, ArenaShape), OpenError> {
    let what = if writable { "own task segment" } else { "peer's task segment" };
    let wanted = Wanted { what, stamp: TASK_STAMP, writable };
    let memory = open(file, wanted, |len| ArenaShape::of_segment(len).is_some())?;
    let shape = ArenaShape::of_segment(memory.len()).expect("checked while opening");
    Ok((memory, shape))
}
