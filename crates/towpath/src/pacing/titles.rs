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

    const PID: u16 = 0x100;
    /// Packets from one reference to the next.
    const EVERY: u64 = 10;

    /// Packets of nothing but a clock, `stride` bytes each, that shows `ticks` of each reference.
    fn film(packets: u64, stride: usize, ticks: impl Fn(u64) -> u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..packets {
            bytes.extend(vec![0; stride - 188]);
            let mut packet = vec![0x47, (PID >> 8) as u8, PID as u8, 0x10 | (number % 16) as u8];
            if number % EVERY == 0 {
                let ticks = ticks(number / EVERY) % WRAP;
                let field = (ticks / 300) << 15 | 0x3F << 9 | (ticks % 300);
                packet[3] |= 0x20;
                packet.extend([7, 0x10]);
                packet.extend(&field.to_be_bytes()[2..]);
            }
            packet.resize(188, 0xFF);
            bytes.extend(packet);
        }
        bytes
    }

    fn title_of(bytes: &[u8]) -> Title {
        let file = tempfile::tempfile().expect("file");
        file.write_all_at(bytes, 0).expect("write");
        title(file).expect("title")
    }

    #[test]
    fn a_time_in_a_long_film_is_found_to_the_reference_whatever_its_packets_are() {
        // A reference each 20 ms; the clock wraps in the middle.
        const STEP: u64 = 540_000;
        for (stride, format) in [(188, Format::Ts188), (192, Format::Ts192)] {
            let packets = 17_003;
            let from = WRAP - 700 * STEP;
            let title = title_of(&film(packets, stride, |n| from + n * STEP));
            assert_eq!((title.format, title.size), (format, packets * stride as u64));
            let last = (packets - 1) / EVERY;
            assert_eq!(title.duration, Some(Duration::from_millis(20 * last)));
            for n in (0..=last).step_by(97).chain([1, 2, 699, 700, 701, last - 1, last]) {
                for beyond in [0, 19] {
                    let time = Duration::from_millis(20 * n + beyond);
                    let at = n * EVERY * stride as u64;
                    assert_eq!(title.seek(time).expect("seek"), at, "reference {n}");
                }
            }
            // Later than it plays: from its last one.
            let beyond = title.seek(Duration::from_hours(1)).expect("seek");
            assert_eq!(beyond, last * EVERY * stride as u64);
        }
    }

    #[test]
    fn where_the_clock_breaks_a_time_is_looked_for_by_its_share() {
        // In its second half the clock begins anew, a day later; its end says an hour all the same.
        let hour = 3600 * 27_000_000;
        let ticks = |n: u64| match n {
            0..800 => n * 540_000,
            800..1600 => 20 * hour + n * 540_000,
            _ => hour,
        };
        let title = title_of(&film(17_001, 188, ticks));
        assert_eq!(title.duration, Some(Duration::from_hours(1)));
        let at = title.seek(Duration::from_mins(30)).expect("seek");
        let share = at as f64 / title.size as f64;
        assert!(at.is_multiple_of(188) && (0.499..0.501).contains(&share), "{at}: {share}");
    }

    #[test]
    fn a_film_without_a_clock_begins_at_its_beginning() {
        let mut bytes = film(100, 188, |n| n * 540_000);
        for packet in bytes.chunks_mut(188) {
            packet[3] &= !0x20;
        }
        let title = title_of(&bytes);
        assert_eq!((title.duration, title.first), (None, None));
        assert_eq!(title.seek(Duration::from_secs(5)).expect("seek"), 0);
        // One that would be longer than a day has a clock that says nothing of its length.
        let day = title_of(&film(21, 188, |n| n * (12 * 3600 + 1) * 27_000_000));
        assert_eq!(day.duration, None);
        let less = title_of(&film(21, 188, |n| n * 12 * 3600 * 27_000_000));
        assert_eq!(less.duration, Some(Duration::from_hours(24)));
    }

    #[test]
    fn a_name_may_be_as_long_as_a_path_and_no_longer() {
        let dir = tempfile::tempdir().expect("directory");
        let library = Library::open(dir.path()).expect("library");
        let name = |len: usize| "a/".repeat(len / 2);
        assert!(matches!(library.title(&name(NAME_MAX)), Err(TitleError::Open(_))));
        let refused = library.title(&name(NAME_MAX + 2));
        assert!(matches!(&refused, Err(TitleError::Name(said)) if said.len() == 80), "{refused:?}");
    }
}
