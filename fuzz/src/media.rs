//! Reading of media: any cut gives the same, and what holds for every reading.

#[path = "../../crates/towpath-media/src/tests/log.rs"]
mod log;

use towpath_media::inspect::Inspector;
use towpath_media::read::{Format, Reader};

/// Reads bytes as a format (found out if `None`) whole and in pieces, and inspects them. The
/// first byte tells the pieces' lengths.
pub fn read(format: Option<Format>, bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let whole = log::read(format, bytes, &[]);
    log::check(&whole, bytes);
    let cuts = [usize::from(cut), 1, usize::from(cut >> 4), 188];
    assert_eq!(log::read(format, bytes, &cuts), whole, "the cut makes no difference");
    inspect(format, bytes);
}

fn inspect(format: Option<Format>, bytes: &[u8]) {
    let mut reader = format.map_or_else(Reader::new, Reader::with_format);
    let mut inspector = Inspector::new();
    if reader.push(bytes, &mut inspector).is_err() {
        return;
    }
    if let Ok(format) = reader.finish(&mut inspector) {
        let report = inspector.report(format, reader.bytes());
        assert!(report.streams.iter().all(|s| s.bytes <= report.size_bytes));
    }
}
