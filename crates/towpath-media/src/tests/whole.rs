//! Whole files in memory.

use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::{Format, FrameLists, Reader};

/// Frames and clock references, read in pieces of an odd size.
pub(crate) fn lists(bytes: &[u8]) -> (Format, FrameLists) {
    let (mut reader, mut lists) = (Reader::new(), FrameLists::new());
    for piece in bytes.chunks(999) {
        reader.push(piece, &mut lists).expect("its format is known");
    }
    (reader.finish(&mut lists).expect("its format is known"), lists)
}

/// The report.
pub(crate) fn inspect(bytes: &[u8]) -> Report {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    reader.push(bytes, &mut inspector).expect("its format is known");
    let format = reader.finish(&mut inspector).expect("its format is known");
    inspector.report(format, reader.bytes())
}
