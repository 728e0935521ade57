//! Compression by independent blocks: each is a member of a gzip file (RFC 1952, 2.2), so that the
//! members one behind the other are a file that any gzip reads.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use super::pieces::{FILE_MAX, deal, made_up, read};
use crate::exchange::{Exchange, share};
use crate::report::Report;

/// What is compressed by itself.
const BLOCK: usize = 128 << 10;

#[derive(Clone, Debug, Args)]
pub(crate) struct CompressArgs {
    /// What is compressed [default: a made-up text]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Where the result goes
    #[arg(long, value_name = "GZ")]
    output: Option<PathBuf>,
    /// From 0, none, to 9, most
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=9))]
    level: u32,
}

/// A gzip file of what the root has, at the root.
fn compressed(
    exchange: &mut dyn Exchange,
    whole: Option<&[u8]>,
    level: u32,
) -> anyhow::Result<Option<Vec<u8>>> {
    let size = exchange.size();
    let own = deal(exchange, whole, |whole, rank| {
        let blocks = share(whole.len().div_ceil(BLOCK), rank, size);
        blocks.start * BLOCK..(blocks.end * BLOCK).min(whole.len())
    })?;
    let mut members = Vec::new();
    for block in own.1.chunks(BLOCK) {
        exchange.check()?;
        let mut member = GzBuilder::new().mtime(0).write(members, Compression::new(level));
        member.write_all(block)?;
        members = member.finish()?;
    }
    let Some(parts) = exchange.gather(0, members)? else { return Ok(None) };
    let file = parts.concat();
    if !file.is_empty() {
        return Ok(Some(file));
    }
    // Of nothing there is a member, too.
    Ok(Some(GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level)).finish()?))
}

/// What a gzip file of at most `most` bytes says.
fn decompressed(file: &[u8], most: usize) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    MultiGzDecoder::new(file).take(most as u64 + 1).read_to_end(&mut all)?;
    Ok(all)
}

/// The whole example; the root gets the report.
pub(super) fn compress(
    exchange: &mut dyn Exchange,
    args: &CompressArgs,
) -> anyhow::Result<Option<Report>> {
    let whole = match (exchange.rank(), &args.file) {
        (0, Some(path)) => Some(read(path, FILE_MAX)?),
        (0, None) => Some(made_up(200_000).into_bytes()),
        _ => None,
    };
    let file = compressed(exchange, whole.as_deref(), args.level)?;
    let (Some(whole), Some(file)) = (whole, file) else { return Ok(None) };
    ensure!(decompressed(&file, whole.len())? == whole, "wrong: it does not come back");
    let blocks = whole.len().div_ceil(BLOCK).max(1);
    let lead = format!("{} bytes in {blocks} blocks, {} tasks", whole.len(), exchange.size());
    let mut report = Report::new("Compression", &lead);
    let ratio = whole.len() as f64 / file.len() as f64;
    report.say("Compressed", &format!("{} bytes, ratio {ratio:.3}", file.len()));
    if let Some(path) = &args.output {
        towpath_report::files::write_file(path, &file)?;
    }
    report.file("compressed.gz", file);
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::exchange::local::run;

    fn file_of(size: usize, whole: &[u8]) -> Vec<u8> {
        let work = |exchange: &mut dyn Exchange| {
            let whole = (exchange.rank() == 0).then_some(whole);
            compressed(exchange, whole, 6)
        };
        run(size, work).swap_remove(0).unwrap().unwrap()
    }

    #[test]
    fn any_number_of_tasks_makes_the_same_file_and_it_comes_back() {
        let text = made_up(120_000).into_bytes();
        for len in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK, text.len()] {
            let one = file_of(1, &text[..len]);
            for size in [2, 3, 4, 7, 8] {
                assert!(file_of(size, &text[..len]) == one, "{len} bytes, {size} tasks");
            }
            assert!(decompressed(&one, len).unwrap() == text[..len]);
            assert!(len < BLOCK || one.len() < len / 2);
        }
    }

    #[test]
    fn the_stock_tool_reads_it() {
        let text = made_up(50_000).into_bytes();
        let mut gzip = Command::new("gzip");
        let gzip = gzip.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut gzip) = gzip.spawn() else {
            towpath_skip::skip("no gzip here");
            return;
        };
        let file = file_of(3, &text);
        let mut input = gzip.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || input.write_all(&file));
        let out = gzip.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap();
        assert!(out.status.success() && out.stdout == text);
    }
}
