//! Any bytes taken as an elementary stream of any codec are read the same in any cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::media;
use towpath_media::read::Format;

const FORMATS: [Format; 4] = [Format::MpegVideo, Format::H264, Format::Hevc, Format::Mjpeg];

fuzz_target!(|bytes: &[u8]| {
    let Some((&format, bytes)) = bytes.split_first() else { return };
    media::read(Some(FORMATS[usize::from(format) % FORMATS.len()]), bytes);
});
