//! What a job prints, kept in files within a bound: the last so many bytes of one stream.
//!
//! ```text
//! DIR/00000000000000000000    the bytes from that place of the stream on
//! DIR/00000000000008388608
//! ```
//! Each file but the last is an eighth of the bound long; the first of them are removed as others
//! come. Whoever reads knows by its place in the stream what it has missed. One writes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::private::{Dir, PrivateError, peek};

/// Bytes kept before they are written.
const BUFFER: usize = 64 * 1024;
/// So many files make up the bound.
const PARTS: u64 = 8;
/// The least bound.
pub const KEPT_MIN: u64 = 64 * 1024;

/// A stream that is being written.
#[derive(Debug)]
pub struct Spool {
    dir: Dir,
    path: PathBuf,
    part: u64,
    /// Where each file begins, and its length.
    files: VecDeque<(u64, u64)>,
    file: Option<File>,
    buf: Vec<u8>,
}

fn name(at: u64) -> String {
    format!("{at:020}")
}

/// The files of a stream, in order: where each begins, and its length.
fn files(path: &Path) -> io::Result<VecDeque<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let Some(at) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            // It may be removed meanwhile.
            found.extend(entry.metadata().ok().map(|meta| (at, meta.len())));
        }
    }
    found.sort_unstable();
    Ok(found.into())
}

impl Spool {
    /// Goes on with what is kept at `path`, or begins; at most `bound` bytes are kept.
    pub fn open(path: &Path, bound: u64) -> Result<Self, PrivateError> {
        let dir = Dir::make(path)?;
        let files = files(path).map_err(|why| PrivateError::System {
            what: "cannot read",
            path: path.into(),
            why,
        })?;
        let part = bound.max(KEPT_MIN) / PARTS;
        Ok(Self { dir, path: path.into(), part, files, file: None, buf: Vec::new() })
    }

    /// Where the stream ends, with what waits to be written.
    pub fn end(&self) -> u64 {
        self.files.back().map_or(0, |(at, len)| at + len) + self.buf.len() as u64
    }

    /// Cuts off what is beyond a place in the stream.
    pub fn cut(&mut self, end: u64) -> io::Result<()> {
        (self.file, self.buf) = (None, Vec::new());
        while let Some((at, _)) = self.files.pop_back_if(|(at, len)| *at + *len > end) {
            let path = self.path.join(name(at));
            if at >= end {
                fs::remove_file(path)?;
                continue;
            }
            let file = self.dir.secret(&name(at), OFlags::WRONLY).map_err(io::Error::other)?;
            file.set_len(end - at)?;
            self.files.push_back((at, end - at));
        }
        if self.end() < end || self.files.is_empty() {
            // What was before is gone: others know places in the stream.
            self.files = [(end, 0)].into();
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let (at, len) = match self.files.back() {
            Some(&(at, len)) if len >= self.part => (at + len, 0),
            Some(&file) => file,
            None => (0, 0),
        };
        if self.files.back() != Some(&(at, len)) {
            self.file = None;
            self.files.push_back((at, len));
            while self.files.len() > PARTS as usize
                && let Some((first, _)) = self.files.pop_front()
            {
                let _ = fs::remove_file(self.path.join(name(first)));
            }
        }
        if self.file.is_none() {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
            let opened = self.dir.secret(&name(at), flags);
            self.file = Some(opened.map_err(|why| match why {
                PrivateError::System { why, .. } => why,
                exposed @ PrivateError::Exposed { .. } => io::Error::other(exposed),
            })?);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes some of these; gives how many.
    fn write_out(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = self.part;
        let full = |files: &VecDeque<(u64, u64)>| match files.back() {
            Some(&(_, len)) if len < part => part - len,
            _ => part,
        };
        let room = usize::try_from(full(&self.files)).unwrap_or(usize::MAX);
        let written = self.file()?.write(&bytes[..bytes.len().min(room)])?;
        if let Some((_, len)) = self.files.back_mut() {
            *len += written as u64;
        }
        Ok(written)
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buf.extend_from_slice(bytes);
        if self.buf.len() >= BUFFER {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let buf = std::mem::take(&mut self.buf);
        let mut rest = &buf[..];
        while !rest.is_empty() {
            match self.write_out(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.buf = buf;
        self.buf.clear();
        Ok(())
    }
}

/// A stream that is being read, from its beginning on.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    at: u64,
    /// No more is read than up to there.
    pub end: u64,
    file: Option<(u64, File)>,
}

/// What comes next of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes.
    Bytes(usize),
    /// So many bytes were not kept.
    Missed(u64),
    /// Nothing at present.
    Nothing,
}

impl Kept {
    /// What is kept at `path`, whose directory is ours.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, at: 0, end: u64::MAX, file: None }
    }

    /// Reads on, up to the length of `buf`.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<Piece> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Piece::Nothing);
        }
        let room = buf.len().min(left);
        let buf = &mut buf[..room];
        // One that was removed may have more in it than the stream has.
        self.file.take_if(|(_, file)| file.metadata().is_ok_and(|meta| meta.nlink() == 0));
        if let Some((_, file)) = &mut self.file {
            let read = file.read(buf)?;
            if read > 0 {
                self.at += read as u64;
                return Ok(Piece::Bytes(read));
            }
        }
        let files = match files(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Piece::Nothing),
            files => files?,
        };
        let Some(&(first, _)) = files.front() else { return Ok(Piece::Nothing) };
        if self.at < first {
            let missed = first - self.at;
            (self.at, self.file) = (first, None);
            return Ok(Piece::Missed(missed));
        }
        let holds = |&&(at, len): &&(u64, u64)| at <= self.at && self.at < at + len;
        let Some(&(at, _)) = files.iter().find(holds) else { return Ok(Piece::Nothing) };
        if self.file.as_ref().is_none_or(|(open, _)| *open != at) {
            let Some(mut file) = peek(&self.path.join(name(at))) else { return Ok(Piece::Nothing) };
            file.seek(SeekFrom::Start(self.at - at))?;
            self.file = Some((at, file));
            return self.read(buf);
        }
        Ok(Piece::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(kept: &mut Kept) -> (Vec<u8>, u64) {
        let (mut bytes, mut missed, mut buf) = (Vec::new(), 0, vec![0; 5000]);
        loop {
            match kept.read(&mut buf).unwrap() {
                Piece::Bytes(n) => bytes.extend_from_slice(&buf[..n]),
                Piece::Missed(n) => missed += n,
                Piece::Nothing => return (bytes, missed),
            }
        }
    }

    #[test]
    fn nothing_is_kept_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        assert_eq!(Kept::new(path.clone()).read(&mut [0; 8]).unwrap(), Piece::Nothing);
        let mut spool = Spool::open(&path, 0).unwrap();
        spool.flush().unwrap();
        assert_eq!(Kept::new(path).read(&mut [0; 8]).unwrap(), Piece::Nothing);
    }

    #[test]
    fn what_is_beyond_a_place_is_cut_off_and_not_shown_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for end in [0, 1, 8191, 8192, 8193, 20_000, 30_000] {
            let _ = fs::remove_dir_all(&path);
            let mut spool = Spool::open(&path, 0).unwrap();
            let written: Vec<u8> = (0..30_000_u32).map(|i| (i % 251) as u8).collect();
            spool.write_all(&written).unwrap();
            assert_eq!(spool.end(), 30_000);
            spool.flush().unwrap();
            let mut kept = Kept::new(path.clone());
            kept.end = end;
            let (mut seen, _) = all(&mut kept);
            assert_eq!(seen, &written[..end as usize]);
            let mut spool = Spool::open(&path, 0).unwrap();
            spool.cut(end).unwrap();
            assert_eq!(spool.end(), end);
            spool.write_all(b"and on").unwrap();
            spool.flush().unwrap();
            kept.end = u64::MAX;
            seen.extend(all(&mut kept).0);
            assert_eq!(seen, [&written[..end as usize], b"and on"].concat(), "{end}");
            assert_eq!(all(&mut Kept::new(path.clone())), (seen, 0));
        }
    }

    #[test]
    fn a_stream_of_which_nothing_is_left_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut spool = Spool::open(&path, 0).unwrap();
        spool.write_all(&[1; 5000]).unwrap();
        spool.flush().unwrap();
        let mut kept = Kept::new(path.clone());
        assert_eq!(all(&mut kept).0.len(), 5000);
        // More than is kept, and then it does not count.
        spool.write_all(&vec![2; 500_000]).unwrap();
        spool.flush().unwrap();
        for _ in 0..2 {
            spool = Spool::open(&path, 0).unwrap();
            spool.cut(5000).unwrap();
            assert_eq!(spool.end(), 5000);
        }
        spool.write_all(b"on").unwrap();
        spool.flush().unwrap();
        assert_eq!(all(&mut kept), (b"on".to_vec(), 0));
        assert_eq!(all(&mut Kept::new(path)), (b"on".to_vec(), 5000));
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut spool = Spool::open(&path, 0).unwrap();
        // Somebody puts something else there.
        fs::create_dir(path.join(name(0))).unwrap();
        spool.write_all(b"x").unwrap();
        assert!(spool.flush().is_err());
    }

    proptest! {
        /// However it is written, by whom, and read: what is read is the end of it, whole, and what
        /// is missed is the rest.
        #[test]
        fn the_last_bytes_are_kept_and_the_rest_is_counted(
            pieces in prop::collection::vec((1_usize..40_000, any::<bool>(), any::<bool>()), 1..40),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out");
            let bound = 128 * 1024;
            let mut spool = Spool::open(&path, bound).unwrap();
            let (mut written, mut early) = (Vec::new(), Kept::new(path.clone()));
            let (mut seen, mut missed) = (Vec::new(), 0);
            for (len, again, reads) in pieces {
                let piece: Vec<u8> = (0..len).map(|i| ((written.len() + i) % 251) as u8).collect();
                spool.write_all(&piece).unwrap();
                written.extend(piece);
                if again {
                    spool.flush().unwrap();
                    spool = Spool::open(&path, bound).unwrap();
                }
                if reads {
                    let (bytes, lost) = all(&mut early);
                    seen.extend(bytes);
                    missed += lost;
                }
            }
            spool.flush().unwrap();
            let kept: u64 = files(&path).unwrap().iter().map(|(_, len)| len).sum();
            prop_assert!(kept <= bound);
            let (late, lost) = all(&mut Kept::new(path));
            prop_assert_eq!(late.len() as u64 + lost, written.len() as u64);
            prop_assert!(late.len() as u64 >= (written.len() as u64).min(bound / 8 * 7));
            prop_assert_eq!(&late[..], &written[written.len() - late.len()..]);
            let (bytes, lost) = all(&mut early);
            seen.extend(bytes);
            prop_assert_eq!(seen.len() as u64 + missed + lost, written.len() as u64);
            prop_assert!(seen.ends_with(&late[late.len().saturating_sub(5000)..]) || lost > 0);
        }
    }
}
