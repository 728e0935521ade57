//! Where the tasks' output goes: as it is, line by line with the task's name, or into files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use towpath::private::create_result;
use towpath_vm::Stream;

/// Longest line kept for its end; a longer one is shown in pieces.
const LINE_MAX: usize = 64 * 1024;

/// What to do with output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// As it comes.
    Raw,
    /// Line by line, `[rank host]` before each.
    Tagged,
}

/// The output of all tasks.
pub(super) struct Show {
    manner: Manner,
    /// Standard output carries something else.
    all_to_stderr: bool,
    tags: Vec<String>,
    /// The beginning of a line, by task and stream.
    lines: Vec<[Vec<u8>; 2]>,
    files: Option<(PathBuf, Vec<[File; 2]>)>,
    out: Box<dyn Write>,
    err: Box<dyn Write>,
}

impl Show {
    pub(super) fn new(manner: Manner, tags: Vec<String>, all_to_stderr: bool) -> Self {
        let out = Box::new(BufWriter::new(io::stdout()));
        let err = Box::new(BufWriter::new(io::stderr()));
        let lines = tags.iter().map(|_| [Vec::new(), Vec::new()]).collect();
        Self { manner, all_to_stderr, tags, lines, files: None, out, err }
    }

    /// Sends everything into `dir`: `RANK.out` and `RANK.err`.
    pub(super) fn into_files(mut self, dir: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| cannot_write(dir))?;
        let both = |rank: usize| open(dir, &rank.to_string());
        let files: anyhow::Result<Vec<[File; 2]>> = (0..self.tags.len()).map(both).collect();
        self.files = Some((dir.to_path_buf(), files?));
        Ok(self)
    }

    /// One task more; `number` names its files.
    pub(super) fn add(&mut self, tag: String, number: &str) -> anyhow::Result<()> {
        if let Some((dir, files)) = &mut self.files {
            files.push(open(dir, number)?);
        }
        self.tags.push(tag);
        self.lines.push([Vec::new(), Vec::new()]);
        Ok(())
    }

    /// Takes output of a task.
    pub(super) fn write(&mut self, rank: usize, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if let Some((_, files)) = &mut self.files {
            return files[rank][stream as usize].write_all(bytes);
        }
        if self.manner == Manner::Raw {
            return self.sink(stream).write_all(bytes);
        }
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let line = &mut self.lines[rank][stream as usize];
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") || line.len() >= LINE_MAX {
                self.end_line(rank, stream)?;
            }
        }
        Ok(())
    }

    /// A task has ended: what it left without a line's end is shown.
    pub(super) fn end(&mut self, rank: usize) -> io::Result<()> {
        self.end_line(rank, Stream::Out)?;
        self.end_line(rank, Stream::Err)
    }

    fn end_line(&mut self, rank: usize, stream: Stream) -> io::Result<()> {
        let line = std::mem::take(&mut self.lines[rank][stream as usize]);
        if line.is_empty() {
            return Ok(());
        }
        let tag = std::mem::take(&mut self.tags[rank]);
        let sink = self.sink(stream);
        let result = sink
            .write_all(tag.as_bytes())
            .and_then(|()| sink.write_all(line.strip_suffix(b"\n").unwrap_or(&line)))
            .and_then(|()| sink.write_all(b"\n"));
        self.tags[rank] = tag;
        result
    }

    fn sink(&mut self, stream: Stream) -> &mut dyn Write {
        match stream {
            Stream::Out if !self.all_to_stderr => &mut *self.out,
            _ => &mut *self.err,
        }
    }

    /// Lets everything be seen.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush().and(self.err.flush())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The files of one task.
fn open(dir: &Path, number: &str) -> anyhow::Result<[File; 2]> {
    let open = |end: &str| {
        let path = dir.join(format!("{number}.{end}"));
        create_result(&path).with_context(|| cannot_write(&path))
    };
    Ok([open("out")?, open("err")?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Kept(Rc<RefCell<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Kept {
        fn text(&self) -> String {
            String::from_utf8(self.0.take()).unwrap()
        }
    }

    fn kept(manner: Manner, all_to_stderr: bool) -> (Show, Kept, Kept) {
        let tags = vec!["[0 a] ".to_string(), "[1 b] ".to_string()];
        let mut show = Show::new(manner, tags, all_to_stderr);
        let (out, err) = (Kept::default(), Kept::default());
        (show.out, show.err) = (Box::new(out.clone()), Box::new(err.clone()));
        (show, out, err)
    }

    #[test]
    fn lines_stay_whole_and_carry_their_task() {
        let (mut show, out, err) = kept(Manner::Tagged, false);
        show.write(0, Stream::Out, b"one\ntw").unwrap();
        show.write(1, Stream::Out, b"ONE\n\n").unwrap();
        show.write(0, Stream::Err, b"oh").unwrap();
        show.write(0, Stream::Out, b"o\nend").unwrap();
        show.end(0).unwrap();
        show.end(1).unwrap();
        let wanted = "[0 a] one\n[1 b] ONE\n[1 b] \n[0 a] two\n[0 a] end\n";
        assert_eq!((out.text().as_str(), err.text().as_str()), (wanted, "[0 a] oh\n"));
    }

    #[test]
    fn a_line_without_end_is_shown_in_pieces() {
        let (mut show, out, _) = kept(Manner::Tagged, false);
        for _ in 0..3 {
            show.write(1, Stream::Out, &vec![b'x'; LINE_MAX / 2]).unwrap();
        }
        assert_eq!(out.text().len(), LINE_MAX + "[1 b] \n".len());
        show.end(1).unwrap();
        assert_eq!(out.text().len(), LINE_MAX / 2 + "[1 b] \n".len());
    }

    #[test]
    fn raw_is_raw_and_standard_output_can_be_kept_free() {
        let (mut show, out, err) = kept(Manner::Raw, true);
        show.write(0, Stream::Out, b"a").unwrap();
        show.write(1, Stream::Err, b"b").unwrap();
        show.end(0).unwrap();
        assert_eq!((out.text().as_str(), err.text().as_str()), ("", "ab"));
    }
}
