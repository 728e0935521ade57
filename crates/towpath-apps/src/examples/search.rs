//! Parallel search: each task looks through a piece of a file for some bytes. Pieces overlap by a
//! byte less than is looked for, so that what lies across an edge is found, and found once.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use memchr::memmem;

use super::pieces::{FILE_MAX, deal, made_up, read};
use crate::exchange::{Exchange, share};
use crate::report::Report;

const PATTERN_MAX: usize = 4096;
const FOUND_MAX: usize = 1_000_000;
/// Places that are shown.
const SHOWN: usize = 10;

#[derive(Clone, Debug, Args)]
pub(crate) struct SearchArgs {
    /// What is looked for, as it stands
    #[arg(default_value = "towpath")]
    pattern: String,
    /// Where [default: a made-up text]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Where `pattern` begins in `text`, those that overlap, too; one more than the limit at most.
fn places(text: &[u8], pattern: &[u8]) -> Vec<u64> {
    let finder = memmem::Finder::new(pattern);
    let (mut from, mut found) = (0, Vec::new());
    while found.len() <= FOUND_MAX
        && let Some(at) = finder.find(&text[from..])
    {
        found.push((from + at) as u64);
        from += at + 1;
    }
    found
}

/// All places in what the root has, in order; at the root.
fn found(
    exchange: &mut dyn Exchange,
    whole: Option<&[u8]>,
    pattern: &[u8],
) -> anyhow::Result<Option<Vec<u64>>> {
    let len = pattern.len();
    ensure!((1..=PATTERN_MAX).contains(&len), "{len} bytes to look for: from 1 to {PATTERN_MAX}");
    let size = exchange.size();
    let (begin, piece) = deal(exchange, whole, |whole, rank| {
        let own = share(whole.len(), rank, size);
        own.start..(own.end + len - 1).min(whole.len())
    })?;
    let own: Vec<u64> = places(&piece, pattern).iter().map(|at| begin as u64 + at).collect();
    let Some(parts) = exchange.gather_parts(0, &own)? else { return Ok(None) };
    let mut all = Vec::new();
    for part in parts {
        all.extend(part);
        ensure!(all.len() <= FOUND_MAX, "it is found more than {FOUND_MAX} times");
    }
    Ok(Some(all))
}

/// The number of a place's line, from 1, and the line.
fn line(text: &[u8], at: u64) -> (usize, &[u8]) {
    let (before, after) = text.split_at(at as usize);
    let begin = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    let end = memchr::memchr(b'\n', after).map_or(text.len(), |end| before.len() + end);
    (memchr::memchr_iter(b'\n', before).count() + 1, &text[begin..end])
}

/// The whole example; the root gets the report.
pub(super) fn search(
    exchange: &mut dyn Exchange,
    args: &SearchArgs,
) -> anyhow::Result<Option<Report>> {
    let whole = match (exchange.rank(), &args.file) {
        (0, Some(path)) => Some(read(path, FILE_MAX)?),
        (0, None) => Some(made_up(200_000).replace("tow path", "towpath").into_bytes()),
        _ => None,
    };
    let found = found(exchange, whole.as_deref(), args.pattern.as_bytes())?;
    let (Some(whole), Some(found)) = (whole, found) else { return Ok(None) };
    let pattern = towpath_report::text::visible(&args.pattern);
    let lead = format!("`{pattern}` in {} bytes, {} tasks", whole.len(), exchange.size());
    let mut report = Report::new("Search", &lead);
    report.say("Found", &format!("{} times", found.len()));
    let shown = |at: &u64| {
        let (number, line) = line(&whole, *at);
        let line = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        format!("{number}: {}", towpath_report::text::visible(&line))
    };
    let lines: Vec<String> = found.iter().take(SHOWN).map(shown).collect();
    report.say("The first of them", &lines.join("\n"));
    let row = |at: &u64| format!("{at}\n");
    let all: String = found.iter().map(row).collect();
    report.file("places.csv", format!("offset_bytes\n{all}"));
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    fn found_by(size: usize, text: &[u8], pattern: &[u8]) -> anyhow::Result<Vec<u64>> {
        let work = |exchange: &mut dyn Exchange| {
            let whole = (exchange.rank() == 0).then_some(text);
            found(exchange, whole, pattern)
        };
        Ok(run(size, work).swap_remove(0)?.unwrap())
    }

    #[test]
    fn any_number_of_tasks_finds_what_every_place_tried_finds() {
        let text = made_up(2000).into_bytes();
        let every = vec![b'a'; 50];
        for (text, pattern) in [
            (&text[..], &b"canal"[..]),
            (&text, b"the river"),
            (&text, b"\n"),
            (&text, b"no such words"),
            (&text[..3], b"much longer than the text"),
            (&every, b"aaaaaaaaa"),
            (&[], b"a"),
        ] {
            let windows = text.windows(pattern.len()).enumerate();
            let right: Vec<u64> =
                windows.filter(|(_, w)| *w == pattern).map(|(at, _)| at as u64).collect();
            for size in [1, 2, 3, 4, 7, 8] {
                assert_eq!(found_by(size, text, pattern).unwrap(), right, "{size} tasks");
            }
        }
        assert_eq!(line(b"one\ntwo\nthree", 5), (2, &b"two"[..]));
        assert_eq!(line(b"one\ntwo\nthree", 12), (3, &b"three"[..]));
    }

    #[test]
    fn too_much_and_nothing_are_refused() {
        let said =
            |text: &[u8], pattern: &[u8]| found_by(3, text, pattern).unwrap_err().to_string();
        assert_eq!(said(b"text", b""), "0 bytes to look for: from 1 to 4096");
        let many = vec![b'a'; FOUND_MAX + 3];
        assert_eq!(said(&many, b"aa"), "it is found more than 1000000 times");
    }
}
