//! Files that are read block by block, what stands for standard input, and results on their way
//! out.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, OFlags, access};

use crate::text::{harmless, visible};

use crate::interrupt::Interrupt;

/// Prints to standard output, like `print!`, but with a result.
#[macro_export]
macro_rules! put {
    ($($words:tt)*) => { $crate::files::print(&format!($($words)*)) };
}

/// Prints a line to standard output, like `println!`, but with a result.
#[macro_export]
macro_rules! putln {
    ($($words:tt)*) => { $crate::files::print(&format!("{}\n", format_args!($($words)*))) };
}

/// Bytes per read: large enough that system calls do not count, small enough for the cache.
pub const BLOCK: usize = 1 << 20;

/// Exit status when whoever read the output closed it: 128 + SIGPIPE.
pub const OUTPUT_CLOSED: u8 = 141;

/// Why something cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// An input is not there, or not for us.
    #[error("cannot open it")]
    Open(#[source] io::Error),
    /// An input has no bytes of its own.
    #[error("a directory\nhint: name the files in it")]
    Directory,
    /// An input ends in a fault.
    #[error("cannot read on")]
    Read(#[source] io::Error),
    /// Standard output.
    #[error("cannot write output")]
    Output(#[source] io::Error),
    /// A directory for results.
    #[error("cannot make directory {0}")]
    Make(String, #[source] io::Error),
    /// A directory for results is not for us.
    #[error("cannot write into directory {0}")]
    Into(String, #[source] io::Error),
    /// A result would take the place of what is read.
    #[error("{0} is one of the files to read\nhint: give the result another name")]
    Among(String),
    /// A result.
    #[error("cannot write {0}")]
    Write(String, #[source] io::Error),
}

impl FilesError {
    /// Whether it only says that the output was closed, as `head` does.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// A file, or standard input for `-`. An interrupt ends it: no more comes than what is there.
pub struct Input<'a> {
    source: File,
    /// Reading may have to wait, as it has to at a pipe.
    waits: bool,
    /// Bytes that may still be read.
    left: u64,
    interrupt: &'a Interrupt,
}

impl<'a> Input<'a> {
    /// Opens `path`; at most `limit` bytes of it will be read.
    pub fn open(path: &Path, limit: u64, interrupt: &'a Interrupt) -> Result<Self, FilesError> {
        let opened = if path.as_os_str() == "-" {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            // A pipe that nobody writes to yet would not be opened until somebody does.
            let at_once = OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(at_once).open(path)
        };
        let source = opened.map_err(FilesError::Open)?;
        let kind = source.metadata().map(|m| m.file_type());
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            return Err(FilesError::Directory);
        }
        let waits = !kind.is_ok_and(|kind| kind.is_file());
        Ok(Self { source, waits, left: limit, interrupt })
    }

    /// Fills `block` as far as the file goes, or what came of it before an interrupt; gives how
    /// far.
    pub fn fill(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let wanted = block.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut filled = 0;
        while filled < wanted && self.is_ready()? {
            match self.source.read(&mut block[filled..wanted]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        self.left -= filled as u64;
        Ok(filled)
    }

    /// Whether the limit ended it, and not the file. A pipe is not waited for: it may go on.
    pub fn is_cut(&mut self) -> Result<bool, FilesError> {
        if self.left > 0 || self.waits {
            return Ok(self.left == 0);
        }
        self.left = 1;
        Ok(self.fill(&mut [0]).map_err(FilesError::Read)? > 0)
    }

    /// Waits until there is something to read; false after an interrupt.
    fn is_ready(&self) -> io::Result<bool> {
        while self.waits && !self.interrupt.is_set() {
            let ready = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut either = [ready(self.source.as_fd()), ready(self.interrupt.as_fd())];
            match poll(&mut either, None) {
                Ok(_) if either[0].revents().is_empty() => {}
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(!self.interrupt.is_set())
    }
}

/// Whether a file that begins so is text, as a frame trace is.
pub fn is_text(beginning: &[u8]) -> bool {
    const PROBE: usize = 4096;
    // A mark that some editors put before the first byte.
    let text = beginning.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(beginning);
    let probe = &text[..text.len().min(PROBE)];
    !probe.is_empty() && probe.iter().all(|b| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// What a file is called in reports: on one line, whatever is in its name.
pub fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "standard input".to_string();
    }
    visible(&path.display().to_string()).into_owned()
}

/// Prints to standard output, as [`harmless`] has it. Whoever read it may be gone:
/// [`FilesError::is_closed`] tells.
pub fn print(text: &str) -> Result<(), FilesError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush());
    written.map_err(FilesError::Output)
}

/// Prints a line to standard error, as [`harmless`] has it. Nothing is to be done where nobody
/// reads it.
pub fn tell(text: &str) {
    let line = format!("{}\n", harmless(text));
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Prints what is too long to be in memory at once.
pub fn print_through(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), FilesError> {
    let mut out = BufWriter::with_capacity(BLOCK, io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(FilesError::Output)
}

/// Makes a directory for results.
pub fn make_dir(dir: &Path) -> Result<(), FilesError> {
    std::fs::create_dir_all(dir).map_err(|e| FilesError::Make(shown(dir), e))?;
    can_write_into(dir)
}

/// Tells at once, and not after a long computation, that nothing can be written into a directory.
fn can_write_into(dir: &Path) -> Result<(), FilesError> {
    access(dir, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|e| FilesError::Into(shown(dir), e.into()))
}

/// A result must not take the place of what is read, and there must be a place for it.
pub fn not_among(out: Option<&Path>, inputs: &[PathBuf]) -> Result<(), FilesError> {
    let Some(out) = out else { return Ok(()) };
    if let Some(dir) = out.parent().filter(|_| !out.exists()) {
        can_write_into(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?;
    }
    let real = |path: &Path| path.canonicalize().ok().filter(|real| real.is_file());
    if real(out).is_some_and(|target| inputs.iter().any(|i| real(i).as_ref() == Some(&target))) {
        return Err(FilesError::Among(shown(out)));
    }
    Ok(())
}

/// Writes a result, whole or not at all.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), FilesError> {
    let content = content.as_ref();
    // What is no file (a terminal, /dev/stdout, a pipe) is written to as it is.
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    let write = || -> io::Result<()> {
        if special {
            return std::fs::write(path, content);
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        // Under a name that nobody can have put a link under before.
        let mut part = tempfile::Builder::new();
        let part = part.prefix(".towpath-").permissions(Permissions::from_mode(0o666));
        let mut part = part.tempfile_in(dir.unwrap_or(Path::new(".")))?;
        part.write_all(content)?;
        part.persist(path)?;
        Ok(())
    };
    write().map_err(|e| FilesError::Write(shown(path), e))
}

/// A name for files about `path`, different for each of `taken`: its stem, a number if need be.
pub fn stem(path: &Path, taken: &mut Vec<String>) -> String {
    let stem = if path.as_os_str() == "-" { None } else { path.file_stem() };
    let stem = stem.map_or("stdin".into(), |s| s.to_string_lossy().into_owned());
    let numbered = |k: usize| if k == 0 { stem.clone() } else { format!("{stem}-{}", k + 1) };
    // One more candidate than names taken: one of them is free.
    let name =
        (0..=taken.len()).map(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.push(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_or_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, [7; 1000]).unwrap();
        let interrupt = Interrupt::new().unwrap();
        let mut block = [0; 300];
        let mut sizes = |limit| {
            let mut input = Input::open(&path, limit, &interrupt).unwrap();
            let mut sizes = Vec::new();
            loop {
                sizes.push(input.fill(&mut block).unwrap());
                if sizes.last() == Some(&0) {
                    return sizes;
                }
            }
        };
        assert_eq!(sizes(u64::MAX), [300, 300, 300, 100, 0]);
        assert_eq!(sizes(301), [300, 1, 0]);
        assert_eq!(shown(Path::new("a\nb\x1b[2J")), "a\\nb\\u001b[2J");
        let err = Input::open(dir.path(), 1, &interrupt).err().unwrap();
        assert!(err.to_string().contains("directory"), "{err}");
    }

    #[test]
    fn only_a_closed_output_is_one() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(FilesError::Output(broken()).is_closed());
        assert!(!FilesError::Output(io::ErrorKind::StorageFull.into()).is_closed());
        assert!(!FilesError::Write("f".into(), broken()).is_closed());
    }

    #[test]
    fn files_of_the_same_name_get_different_stems() {
        let mut taken = Vec::new();
        let stems: Vec<String> =
            ["a/x.ts", "b/x.csv", "-", "x"].map(|p| stem(Path::new(p), &mut taken)).to_vec();
        assert_eq!(stems, ["x", "x-2", "stdin", "x-3"]);
    }
}
