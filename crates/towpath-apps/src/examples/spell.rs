//! A spell checker: the list of words goes to all, pieces of the text to each.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use towpath_report::plot::{Column, Table};

use super::pieces::{FILE_MAX, WORDS, deal, made_up, read};
use crate::exchange::{Exchange, share};
use crate::report::Report;

const LIST_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Args)]
pub(crate) struct SpellArgs {
    /// The text [default: a made-up one]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Words that are right, one a line [default: those of the made-up text]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
}

/// Words of a text: letters, with apostrophes between them; in small letters, without a final `'s`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|c: char| !c.is_alphabetic() && c != '\'');
    let bare = |word: &str| {
        let word = word.trim_matches('\'').to_lowercase();
        word.strip_suffix("'s").map_or(word.clone(), str::to_owned)
    };
    parts.map(bare).filter(|word| !word.is_empty())
}

/// The piece of a rank: pieces end before white space, so that no word is cut.
fn piece(text: &[u8], rank: usize, size: usize) -> std::ops::Range<usize> {
    let edge = |at: usize| match at {
        0 => 0,
        _ => text[at..].iter().position(u8::is_ascii_whitespace).map_or(text.len(), |w| at + w),
    };
    let own = share(text.len(), rank, size);
    edge(own.start)..edge(own.end)
}

/// Words of the root's text that are not in its list, and how often, at the root.
fn unknown(
    exchange: &mut dyn Exchange,
    text: Option<&str>,
    list: Option<String>,
) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
    let list = exchange.broadcast(0, list.map(String::into_bytes))?;
    let list = std::str::from_utf8(&list).context("the list of words is no text")?;
    let known: HashSet<String> = list.lines().flat_map(words).collect();
    let size = exchange.size();
    let whole = text.map(str::as_bytes);
    let (_, own) = deal(exchange, whole, |whole, rank| piece(whole, rank, size))?;
    let own = std::str::from_utf8(&own).context("a piece of the text is no text")?;
    let mut counts = BTreeMap::<String, u64>::new();
    for word in words(own).filter(|word| !known.contains(word)) {
        *counts.entry(word).or_default() += 1;
    }
    let line = |(word, count): (&String, &u64)| format!("{count} {word}\n");
    let lines: String = counts.iter().map(line).collect();
    let Some(parts) = exchange.gather(0, lines.into_bytes())? else { return Ok(None) };
    let mut all = BTreeMap::<String, u64>::new();
    for part in parts {
        for line in std::str::from_utf8(&part).context("what a task found")?.lines() {
            let (count, word) = line.split_once(' ').context("what a task found")?;
            *all.entry(word.to_owned()).or_default() += count.parse::<u64>()?;
        }
    }
    Ok(Some(all))
}

/// The whole example; the root gets the report.
pub(super) fn spell(
    exchange: &mut dyn Exchange,
    args: &SpellArgs,
) -> anyhow::Result<Option<Report>> {
    let text_of = |path: &PathBuf, most| {
        String::from_utf8(read(path, most)?)
            .with_context(|| format!("{} is no text", path.display()))
    };
    let (text, list) = if exchange.rank() == 0 {
        let text =
            args.file.as_ref().map_or(Ok(made_up(100_000)), |path| text_of(path, FILE_MAX))?;
        let list = args.words.as_ref();
        (Some(text), Some(list.map_or(Ok(WORDS.join("\n")), |path| text_of(path, LIST_MAX))?))
    } else {
        (None, None)
    };
    ensure!(list.as_ref().is_none_or(|list| !list.trim().is_empty()), "the list has no word");
    let unknown = unknown(exchange, text.as_deref(), list)?;
    let (Some(text), Some(unknown)) = (text, unknown) else { return Ok(None) };
    let lead = format!("{} bytes of text, {} tasks", text.len(), exchange.size());
    let mut report = Report::new("Spell checker", &lead);
    let columns = [Column::words("word", "word"), Column::figures("times", "times")];
    let mut table = Table::new(&columns);
    for (word, count) in unknown {
        table.push(vec![(word.clone(), word), (count.to_string(), count.to_string())]);
    }
    report.table("Not in the list", &table);
    report.file("unknown.csv", table.csv());
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    fn unknown_by(size: usize, text: &str, list: &str) -> BTreeMap<String, u64> {
        let work = |exchange: &mut dyn Exchange| {
            let is_root = exchange.rank() == 0;
            unknown(exchange, is_root.then_some(text), is_root.then(|| list.to_owned()))
        };
        run(size, work).swap_remove(0).unwrap().unwrap()
    }

    #[test]
    fn any_number_of_tasks_finds_the_same_words() {
        let list = "the\nkeeper's\nriver\ndon't\nÉcluse\n";
        let text = "The keeper, the RIVER's écluse; don't 'dont' — wrogn wrogn\nkeepers' wörds.";
        let right = [("dont", 1), ("keepers", 1), ("wrogn", 2), ("wörds", 1)];
        let right: BTreeMap<String, u64> =
            right.into_iter().map(|(word, n)| (word.to_owned(), n)).collect();
        let long = made_up(5000);
        let one = unknown_by(1, &long, &WORDS.join("\n"));
        assert_eq!(one.values().sum::<u64>(), 5000_u64.div_ceil(97));
        for size in [1, 2, 3, 4, 7, 8] {
            assert_eq!(unknown_by(size, text, list), right, "{size} tasks");
            assert_eq!(unknown_by(size, &long, &WORDS.join("\n")), one, "{size} tasks");
            assert!(unknown_by(size, "", list).is_empty());
            assert_eq!(unknown_by(size, "onewordwithoutend", list).len(), 1);
        }
    }
}
