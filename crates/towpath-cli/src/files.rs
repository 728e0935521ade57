//! Files that are read block by block, what stands for standard input, and results on their way
//! out.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Bytes per read: large enough that system calls do not count, small enough for the cache.
pub(crate) const BLOCK: usize = 1 << 20;

/// Exit status when whoever read the output closed it: 128 + SIGPIPE.
pub(crate) const OUTPUT_CLOSED: u8 = 141;

/// Exit status after an interrupt: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// A file, or standard input for `-`.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    /// Bytes that may still be read.
    left: u64,
}

impl Input {
    /// Opens `path`; at most `limit` bytes of it will be read.
    pub(crate) fn open(path: &Path, limit: u64) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { source: Box::new(io::stdin()), left: limit });
        }
        let file = File::open(path).with_context(|| format!("cannot open {}", shown(path)))?;
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            bail!("{} is a directory\nhint: name the files in it", shown(path));
        }
        Ok(Self { source: Box::new(file), left: limit })
    }

    /// Fills `block` as far as the file goes; gives how far.
    pub(crate) fn fill(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let wanted = block.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut filled = 0;
        while filled < wanted {
            match self.source.read(&mut block[filled..wanted]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.left -= filled as u64;
        Ok(filled)
    }
}

/// What a file is called in reports: on one line, whatever is in its name.
pub(crate) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "standard input".to_string();
    }
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    path.display().to_string().chars().map(plain).collect()
}

/// Prints to standard output. Whoever read it may be gone: [`is_closed`] tells.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write output")
}

/// Whether an error only says that the output was closed, as `head` does.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Makes a directory for results.
pub(crate) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make directory {}", shown(dir)))
}

/// A result must not take the place of what is read.
pub(crate) fn not_among(out: Option<&Path>, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let Some(out) = out else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().ok().filter(|real| real.is_file());
    if real(out).is_some_and(|target| inputs.iter().any(|i| real(i).as_ref() == Some(&target))) {
        bail!("{} is one of the files to read\nhint: give the result another name", shown(out));
    }
    Ok(())
}

/// Writes a result, whole or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    // What is no file (a terminal, /dev/stdout, a pipe) is written to as it is.
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    let write = || {
        if special {
            return std::fs::write(path, text);
        }
        std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path))
    };
    write().with_context(|| format!("cannot write {}", shown(path)))
}

/// A name for files about `path`, different for each of `taken`: its stem, a number if need be.
pub(crate) fn stem(path: &Path, taken: &mut Vec<String>) -> String {
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
        let mut block = [0; 300];
        let mut sizes = |limit| {
            let mut input = Input::open(&path, limit).unwrap();
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
        assert_eq!(shown(Path::new("a\nb\x1b[2J")), "a\\nb\\u{1b}[2J");
        let err = Input::open(dir.path(), 1).err().unwrap();
        assert!(err.to_string().contains("directory"), "{err}");
    }

    #[test]
    fn files_of_the_same_name_get_different_stems() {
        let mut taken = Vec::new();
        let stems: Vec<String> =
            ["a/x.ts", "b/x.csv", "-", "x"].map(|p| stem(Path::new(p), &mut taken)).to_vec();
        assert_eq!(stems, ["x", "x-2", "stdin", "x-3"]);
    }
}
