//! A record as a file: lines of comma-separated values.
//!
//! ```text
//! towpath-job,1,RANKS,APPLICATION     version 1
//! rank,R,STEPS                        ranks in order, each followed by its steps
//! w,NS                                worked so many nanoseconds of processor time
//! s,RANK,TAG,BYTES                    sent a message
//! r,RANK,TAG,BYTES                    received one
//! b,ROOT,BYTES                        broadcast
//! g,ROOT,BYTES                        gather: the own part
//! a,BYTES                             all-gather: the own part
//! x,BYTES,BYTES,…                     all-to-all: the part for each rank
//! end
//! ```

use std::fmt::Write as _;
use std::str::FromStr;

use super::record::{Log, MESSAGE_BYTES_MAX, RANKS_MAX, Record, STEPS_MAX, Step, WORK_NS_MAX};

/// Longest file.
pub const FILE_BYTES_MAX: usize = 64 << 20;
const MAGIC: &str = "towpath-job";
const VERSION: u64 = 1;
/// Longest name of an application.
const NAME_BYTES_MAX: usize = 100;

const CUT: &str = "the record was cut: record the job again";
const OTHER: &str = "`towpath-apps APP --record FILE` writes records";
const EDITED: &str = "the record was changed: record the job again";

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RecordError {
    /// From 1.
    pub line: usize,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

impl Record {
    /// Reads a record of at most [`FILE_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        if text.len() > FILE_BYTES_MAX {
            let message = format!("file in bytes is {}, must be 0 to {FILE_BYTES_MAX}", text.len());
            return Err(RecordError { line: 1, message, hint: "record fewer steps" });
        }
        let mut reader = Reader { lines: text.lines(), line: 0 };
        let (size, application) = reader.header()?;
        let mut ranks = Vec::new();
        for rank in 0..size {
            ranks.push(reader.rank(rank, size)?);
        }
        match reader.next()? {
            "end" if text.ends_with('\n') => {}
            "end" => return Err(reader.fault("there is no end of line".into(), CUT)),
            other => return Err(reader.unlike("\"end\"", other)),
        }
        match reader.lines.next() {
            None => Ok(Self { application, ranks }),
            Some(more) => {
                reader.line += 1;
                Err(reader.unlike("nothing behind the end", more))
            }
        }
    }

    /// The record as a file.
    pub fn text(&self) -> String {
        let steps = |rank: &Vec<Step>| lines(rank);
        assemble(&self.application, self.ranks.iter().map(steps))
    }
}

impl Log {
    /// A rank's part of a file, for [`assemble`](Self::assemble).
    pub fn lines(&self) -> String {
        lines(self.steps())
    }

    /// A file of what [`lines`](Self::lines) gave each rank, in order.
    pub fn assemble(application: &str, ranks: &[String]) -> String {
        assemble(application, ranks.iter().cloned())
    }
}

fn assemble(application: &str, ranks: impl ExactSizeIterator<Item = String>) -> String {
    let mut out = format!("{MAGIC},{VERSION},{},{application}\n", ranks.len());
    for (rank, steps) in ranks.enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "rank,{rank},{}", steps.lines().count());
        out += &steps;
    }
    out + "end\n"
}

fn lines(steps: &[Step]) -> String {
    let mut out = String::new();
    for step in steps {
        let _ = match step {
            Step::Work(ns) => writeln!(out, "w,{ns}"),
            Step::Send { to, tag, bytes } => writeln!(out, "s,{to},{tag},{bytes}"),
            Step::Receive { from, tag, bytes } => writeln!(out, "r,{from},{tag},{bytes}"),
            Step::Broadcast { root, bytes } => writeln!(out, "b,{root},{bytes}"),
            Step::Gather { root, bytes } => writeln!(out, "g,{root},{bytes}"),
            Step::AllGather(bytes) => writeln!(out, "a,{bytes}"),
            Step::AllToAll(parts) => {
                out.push('x');
                for bytes in parts {
                    let _ = write!(out, ",{bytes}");
                }
                writeln!(out)
            }
        };
    }
    out
}

struct Reader<'a> {
    lines: std::str::Lines<'a>,
    /// The line that was read last, from 1.
    line: usize,
}

/// The values of a line, one after the other.
struct Values<'r, 'a> {
    reader: &'r Reader<'a>,
    rest: std::str::Split<'a, char>,
}

impl<'a> Reader<'a> {
    fn fault(&self, message: String, hint: &'static str) -> RecordError {
        RecordError { line: self.line.max(1), message, hint }
    }

    fn unlike(&self, expected: &str, found: &str) -> RecordError {
        let found: String = found.chars().take(40).collect();
        self.fault(format!("{found:?} instead of {expected}"), EDITED)
    }

    fn next(&mut self) -> Result<&'a str, RecordError> {
        let Some(line) = self.lines.next() else {
            return Err(self.fault("the record ends here, without \"end\"".into(), CUT));
        };
        self.line += 1;
        Ok(line)
    }

    fn header(&mut self) -> Result<(usize, String), RecordError> {
        let line = self.lines.next().unwrap_or_default();
        self.line = 1;
        let mut parts = line.splitn(4, ',');
        if parts.next() != Some(MAGIC) {
            return Err(self.fault(format!("no record: it begins with {MAGIC}"), OTHER));
        }
        let mut number = |what: &str, most: u64| -> Result<u64, RecordError> {
            let word = parts.next().unwrap_or_default();
            let found: String = word.chars().take(40).collect();
            match word.parse() {
                Ok(value) if (1..=most).contains(&value) => Ok(value),
                _ => Err(self.fault(format!("{what} is {found:?}, must be 1 to {most}"), OTHER)),
            }
        };
        number("version", VERSION)?;
        let size = number("ranks", RANKS_MAX as u64)? as usize;
        let name = parts.next().unwrap_or_default();
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b',';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            let must = format!("the application must be 1 to {NAME_BYTES_MAX} plain characters");
            return Err(self.fault(must, OTHER));
        }
        Ok((size, name.to_owned()))
    }

    fn rank(&mut self, rank: usize, size: usize) -> Result<Vec<Step>, RecordError> {
        let line = self.next()?;
        let head = line.strip_prefix("rank,").and_then(|rest| rest.split_once(','));
        let Some((_, count)) = head.filter(|(number, _)| number.parse() == Ok(rank)) else {
            return Err(self.unlike(&format!("\"rank,{rank},STEPS\""), line));
        };
        let within = |count: &usize| *count <= STEPS_MAX;
        let Some(count) = count.parse().ok().filter(within) else {
            let found: String = count.chars().take(40).collect();
            let message = format!("steps of rank {rank} are {found:?}, must be 0 to {STEPS_MAX}");
            return Err(self.fault(message, EDITED));
        };
        let (mut steps, mut weight) = (Vec::new(), 0);
        for _ in 0..count {
            let line = self.next()?;
            let step = self.step(line, size)?;
            weight += step.weight();
            if weight > STEPS_MAX {
                let message = format!("steps of rank {rank} are more than {STEPS_MAX}, the limit");
                return Err(self.fault(message, "record a shorter run"));
            }
            steps.push(step);
        }
        Ok(steps)
    }

    fn step(&self, line: &'a str, size: usize) -> Result<Step, RecordError> {
        let mut rest = line.split(',');
        let kind = rest.next().unwrap_or_default();
        let mut values = Values { reader: self, rest };
        let ranks = size as u64 - 1;
        let bytes = MESSAGE_BYTES_MAX;
        let step = match kind {
            "w" => Step::Work(values.number("work in ns", WORK_NS_MAX)?),
            "s" => Step::Send {
                to: values.number("rank", ranks)? as usize,
                tag: values.value("tag")?,
                bytes: values.number("bytes", bytes)?,
            },
            "r" => Step::Receive {
                from: values.number("rank", ranks)? as usize,
                tag: values.value("tag")?,
                bytes: values.number("bytes", bytes)?,
            },
            "b" => Step::Broadcast {
                root: values.number("root", ranks)? as usize,
                bytes: values.number("bytes", bytes)?,
            },
            "g" => Step::Gather {
                root: values.number("root", ranks)? as usize,
                bytes: values.number("bytes", bytes)?,
            },
            "a" => Step::AllGather(values.number("bytes", bytes)?),
            "x" => {
                let part = |_| values.number("bytes", bytes);
                Step::AllToAll((0..size).map(part).collect::<Result<_, _>>()?)
            }
            _ => return Err(self.unlike("a step", line)),
        };
        match values.rest.next() {
            None => Ok(step),
            Some(_) => Err(self.fault(format!("a step {kind:?} has fewer values"), EDITED)),
        }
    }
}

impl Values<'_, '_> {
    fn value<T: FromStr>(&mut self, what: &str) -> Result<T, RecordError> {
        let word = self.rest.next().unwrap_or_default();
        let found: String = word.chars().take(40).collect();
        word.parse().map_err(|_| self.reader.fault(format!("{what} is {found:?}, no number"), CUT))
    }

    /// A number from 0 to `most`.
    fn number(&mut self, what: &str, most: u64) -> Result<u64, RecordError> {
        let value: u64 = self.value(what)?;
        if value <= most {
            return Ok(value);
        }
        let message = format!("{what} is {value}, must be 0 to {most}");
        Err(self.reader.fault(message, EDITED))
    }
}
