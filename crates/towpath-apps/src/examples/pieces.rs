//! Texts of the examples: a file, or one that is made up, read by the root and dealt out in pieces.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::exchange::{Exchange, MESSAGE_MAX, Result};
use crate::options::splitmix;

/// Bytes of a file that is read.
pub(super) const FILE_MAX: u64 = MESSAGE_MAX as u64;
/// Tag of a piece.
const PIECE: i32 = 11;

/// Words of made-up texts.
pub(super) const WORDS: [&str; 24] = [
    "a", "and", "barge", "boat", "bridge", "by", "canal", "gate", "horse", "in", "keeper", "lock",
    "of", "path", "river", "rope", "slow", "the", "to", "tow", "under", "water", "where", "winter",
];

/// So many words, nine a line; one of 97 is spelled wrong.
pub(super) fn made_up(words: usize) -> String {
    let mut text = String::with_capacity(6 * words);
    for at in 0..words as u64 {
        let word = WORDS[(splitmix(at) % WORDS.len() as u64) as usize];
        let (first, rest) = word.split_at(1);
        match at % 97 {
            0 => text.extend([rest, first, "x"]),
            1 => text.extend([first.to_uppercase().as_str(), rest]),
            _ => text.push_str(word),
        }
        text.push(if at % 9 == 8 { '\n' } else { ' ' });
    }
    text
}

/// What is in a file.
pub(super) fn read(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let shown = || path.display().to_string();
    let len = std::fs::metadata(path).with_context(shown)?.len();
    ensure!(len <= most, "{} has {len} bytes: at most {most}", shown());
    let bytes = std::fs::read(path).with_context(shown)?;
    let len = bytes.len() as u64;
    ensure!(len <= most, "{} has {len} bytes: at most {most}", shown());
    Ok(bytes)
}

/// Gives each rank the range that `part` names of what the root has, and where it begins.
pub(super) fn deal(
    exchange: &mut dyn Exchange,
    whole: Option<&[u8]>,
    part: impl Fn(&[u8], usize) -> Range<usize>,
) -> Result<(usize, Vec<u8>)> {
    let Some(whole) = whole else {
        let mut piece = exchange.recv(Some(0), PIECE)?.1;
        let begin = piece.split_off(piece.len().saturating_sub(8));
        let bad = crate::exchange::ExchangeError::Malformed { len: piece.len(), what: "a piece" };
        let begin = begin.try_into().map_err(|_| bad)?;
        return Ok((u64::from_le_bytes(begin) as usize, piece));
    };
    for to in 1..exchange.size() {
        let range = part(whole, to);
        let begin = (range.start as u64).to_le_bytes();
        exchange.send(to, PIECE, &[&whole[range], &begin[..]].concat())?;
    }
    let own = part(whole, 0);
    Ok((own.start, whole[own].to_vec()))
}
