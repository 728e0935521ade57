//! Files of a library: what they are, how long, and where in them a time is.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use towpath_media::read::{ClockReference, Format, Reader, Sink, detect};

/// Bytes looked at to find a reference.
const PROBE: usize = 1 << 20;
/// Values of a reference are below this.
const WRAP: u64 = (1 << 33) * 300;
/// The longest that a title can be said to be: its clock wraps after 26 hours.
const LONGEST: u64 = 24 * 3600 * 27_000_000;
/// Names longer than this are refused.
const NAME_MAX: usize = 1024;

/// Why a title cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TitleError {
    /// Not a name within the library.
    #[error("`{0}` is no name within the library")]
    Name(String),
    /// Not there, or not for us.
    #[error("cannot open it")]
    Open(#[source] io::Error),
    /// Cannot be read.
    #[error("cannot read it")]
    Read(#[source] io::Error),
    /// Not a file.
    #[error("not a file")]
    NoFile,
    /// Something else.
    #[error("not an MPEG transport stream")]
    Format,
}

/// A directory whose files can be asked for.
#[derive(Debug)]
pub struct Library {
    dir: OwnedFd,
}

/// A file that can be sent.
#[derive(Debug)]
pub struct Title {
    /// It.
    pub file: File,
    /// Its packets: of 188, 192 or 204 bytes.
    pub format: Format,
    /// Bytes.
    pub size: u64,
    /// How long it plays, where its clock tells.
    pub duration: Option<Duration>,
    /// PID and value of its first reference.
    first: Option<(u16, u64)>,
}

impl Library {
    /// Of a directory.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { dir: rustix::fs::open(dir, flags, Mode::empty())? })
    }

    /// Opens a title by its path within the library. The kernel itself refuses whatever leads out
    /// of the directory, and any link.
    pub fn title(&self, name: &str) -> Result<Title, TitleError> {
        let path = Path::new(name);
        let normal = path.components().all(|c| matches!(c, Component::Normal(_)));
        if name.is_empty() || name.len() > NAME_MAX || !normal || name.contains('\0') {
            return Err(TitleError::Name(name.chars().take(80).collect()));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let within =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let fd = openat2(&self.dir, path, flags, Mode::empty(), within);
        title(File::from(fd.map_err(|e| TitleError::Open(e.into()))?))
    }
}

/// Looks into a file.
pub fn title(file: File) -> Result<Title, TitleError> {
    let metadata = file.metadata().map_err(TitleError::Read)?;
    if !metadata.is_file() {
        return Err(TitleError::NoFile);
    }
    let size = metadata.len();
    let mut head = vec![0; PROBE.min(usize::try_from(size).unwrap_or(PROBE))];
    let n = read_at(&file, &mut head, 0)?;
    head.truncate(n);
    let format = detect(&head).filter(|format| format.packet_stride().is_some());
    let format = format.ok_or(TitleError::Format)?;
    let first = references(&head, format, None).first().map(|r| (r.pid, r.raw_ticks));
    let mut title = Title { file, format, size, duration: None, first };
    title.duration = title.last()?.map(|ticks| Duration::from_nanos(ticks * 1000 / 27));
    Ok(title)
}

impl Title {
    fn stride(&self) -> u64 {
        self.format.packet_stride().unwrap_or(188) as u64
    }

    /// Ticks from the first reference to the last one.
    fn last(&self) -> Result<Option<u64>, TitleError> {
        let Some((pid, first)) = self.first else { return Ok(None) };
        let from = self.size.saturating_sub(PROBE as u64) / self.stride() * self.stride();
        let tail = self.block(from)?;
        let last = references(&tail, self.format, Some(pid)).last().map(|r| r.raw_ticks);
        let ticks = last.map(|last| (last + WRAP - first) % WRAP);
        Ok(ticks.filter(|ticks| *ticks <= LONGEST))
    }

    fn block(&self, at: u64) -> Result<Vec<u8>, TitleError> {
        let mut block = vec![0; PROBE];
        let n = read_at(&self.file, &mut block, at)?;
        block.truncate(n);
        Ok(block)
    }

    /// The byte from which to send for a play-out that begins at `time`: that of the last
    /// reference before it, found by halving. Where the clock breaks, about as far into the file
    /// as the time is into its length.
    pub fn seek(&self, time: Duration) -> Result<u64, TitleError> {
        let (Some((pid, first)), Some(length)) = (self.first, self.duration) else { return Ok(0) };
        let aim = (time.as_nanos() * 27 / 1000) as u64;
        if aim == 0 {
            return Ok(0);
        }
        // Whole packets, so that the middle is always beyond the lower end.
        let (mut low, mut high, mut best) = (0, self.size / self.stride() * self.stride(), 0);
        while high > low + self.stride() {
            let middle = u64::midpoint(low, high) / self.stride() * self.stride();
            let block = self.block(middle)?;
            let within = references(&block, self.format, Some(pid));
            let ticks = |r: &ClockReference| (r.raw_ticks + WRAP - first) % WRAP;
            let inside = |t: u64| t <= (length.as_nanos() * 27 / 1000) as u64 + 27_000_000;
            match within.first() {
                Some(r) if !inside(ticks(r)) => {
                    let share = time.as_secs_f64() / length.as_secs_f64().max(1e-3);
                    let at = (self.size as f64 * share.min(1.0)) as u64;
                    return Ok(at / self.stride() * self.stride());
                }
                Some(r) if ticks(r) <= aim => {
                    let last = within.iter().take_while(|r| ticks(r) <= aim).last().unwrap_or(r);
                    best = middle + last.offset / self.stride() * self.stride();
                    if within.len() > 1 && ticks(&within[within.len() - 1]) > aim {
                        break;
                    }
                    low = middle.max(best);
                }
                _ => high = middle,
            }
        }
        Ok(best)
    }
}

fn read_at(file: &File, block: &mut [u8], at: u64) -> Result<usize, TitleError> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read_at(&mut block[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(TitleError::Read(e)),
        }
    }
    Ok(filled)
}

/// References of a PID, or of the first that has one.
fn references(bytes: &[u8], format: Format, pid: Option<u16>) -> Vec<ClockReference> {
    struct Found(Option<u16>, Vec<ClockReference>);
    impl Sink for Found {
        fn clock(&mut self, clock: &ClockReference) {
            if *self.0.get_or_insert(clock.pid) == clock.pid {
                self.1.push(*clock);
            }
        }
    }
    let mut found = Found(pid, Vec::new());
    let mut reader = Reader::with_format(format);
    let _ = reader.push(bytes, &mut found);
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIP: &[u8] = include_bytes!("../../../towpath-media/data/mpeg2.ts");

    #[test]
    fn a_title_knows_its_length_and_where_a_time_is() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::write(dir.path().join("a.ts"), CLIP).expect("write");
        let library = Library::open(dir.path()).expect("library");
        let title = library.title("a.ts").expect("title");
        let length = title.duration.expect("a clock");
        assert!((1.8..2.1).contains(&length.as_secs_f64()), "{length:?}");
        assert_eq!(title.seek(Duration::ZERO).expect("seek"), 0);
        let mut before = 0;
        for tenths in 1..20 {
            let time = Duration::from_millis(tenths * 100);
            let at = title.seek(time).expect("seek");
            let found = references(&CLIP[at as usize..], Format::Ts188, None);
            let (_, first) = title.first.expect("a clock");
            let ticks = (found[0].raw_ticks - first) as f64 / 27e6;
            assert!((0.0..0.2).contains(&(time.as_secs_f64() - ticks)), "{time:?}: {ticks}");
            assert!(at >= before && found[0].offset < 188);
            before = at;
        }
    }

    #[test]
    fn nothing_leads_out_of_the_library() {
        let dir = tempfile::tempdir().expect("directory");
        let inside = dir.path().join("lib");
        std::fs::create_dir_all(inside.join("sub")).expect("directory");
        std::fs::write(dir.path().join("secret.ts"), CLIP).expect("write");
        std::fs::write(inside.join("sub/a.ts"), CLIP).expect("write");
        std::fs::write(inside.join("text.ts"), b"hello").expect("write");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, inside.join(name)).expect("link");
        };
        link("../secret.ts", "out.ts");
        link("sub/a.ts", "in.ts");
        link("..", "up");
        let library = Library::open(&inside).expect("library");
        assert!(library.title("sub/a.ts").is_ok());
        for name in
            ["../secret.ts", "/etc/passwd", "sub/../../secret.ts", "", ".", "a\0b", "up/secret.ts"]
        {
            assert!(library.title(name).is_err(), "{name}");
        }
        assert!(matches!(library.title("out.ts"), Err(TitleError::Open(_))));
        assert!(matches!(library.title("in.ts"), Err(TitleError::Open(_))));
        assert!(matches!(library.title("text.ts"), Err(TitleError::Format)));
        assert!(matches!(library.title("sub"), Err(TitleError::NoFile)));
        assert!(matches!(library.title("gone.ts"), Err(TitleError::Open(_))));
    }
}
