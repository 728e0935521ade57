//! Trace files: our own CSV and the formats in which public traces are found.

use alloc::vec::Vec;

use super::fields::{Line, lines};
use super::{FRAMES_MAX, FrameRate, TraceError};

/// Bytes of a trace file: 100 for each frame of the longest trace.
const FILE_BYTES_MAX: usize = 100 * FRAMES_MAX;

/// A format of trace files, told by content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// A header that names the columns, among them `bytes` (or `size`) and perhaps `type`.
    Csv,
    /// Four columns: number, type, time in ms, bytes (Fitzek and Reisslein's library).
    Columns,
    /// Frame rate, delay, then bits and type of each frame (`.gdf`).
    Gdf,
    /// Type and size (Rose's `.IPB` lists as commonly annotated).
    Typed,
    /// Nothing but a size on each line (Garrett and Willinger; Rose).
    Bare,
}

/// The unit of sizes in lists that do not say it: [`TraceFormat::Typed`], [`TraceFormat::Bare`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareUnit {
    /// As Garrett and Willinger's.
    #[default]
    Bytes,
    /// As Rose's; rounded up to bytes.
    Bits,
}

/// What a trace file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The format it was recognised as.
    pub format: TraceFormat,
    /// Frame rate where the file tells it.
    pub frame_rate: Option<FrameRate>,
    /// Frame sizes in bytes, in the file's order.
    pub sizes: Vec<u64>,
    /// Frame types (`I`, `P`, `B` or whatever letter stands there), as many as sizes; `?` where
    /// the file tells none.
    pub types: Vec<u8>,
}

/// Reads a trace file of any known format. `bare` is the unit of lists that do not say it.
///
/// Sizes are checked against the limits when a [`Trace`](super::Trace) is made of them.
pub fn parse(bytes: &[u8], bare: BareUnit) -> Result<Listing, TraceError> {
    if bytes.len() > FILE_BYTES_MAX {
        let (bytes, limit) = (bytes.len() as u64, FILE_BYTES_MAX as u64);
        return Err(TraceError::FileTooLarge { bytes, limit });
    }
    let mut rest = lines(bytes);
    let first = rest.clone().next().ok_or(TraceError::Empty)??;
    let layout = Layout::detect(first, bare)?;
    let mut listing =
        Listing { format: layout.format, frame_rate: None, sizes: Vec::new(), types: Vec::new() };
    for _ in 0..layout.header {
        let line = rest.next().ok_or(TraceError::Empty)??;
        if let Some(rate) = gdf_frame_rate(line) {
            listing.frame_rate = Some(rate?);
        }
    }
    let mut clock = Clock::default();
    for line in rest {
        let line = line?;
        if listing.sizes.len() == FRAMES_MAX {
            return Err(TraceError::TooManyFrames { limit: FRAMES_MAX });
        }
        let frame = layout.frame(line)?;
        listing.sizes.push(frame.bytes);
        listing.types.push(frame.kind);
        clock.note(frame.ms);
    }
    if listing.sizes.is_empty() {
        return Err(TraceError::Empty);
    }
    listing.frame_rate = listing.frame_rate.or_else(|| clock.frame_rate());
    Ok(listing)
}

/// Where things stand on a line.
struct Layout {
    format: TraceFormat,
    /// Lines before the first frame.
    header: usize,
    /// Fields of a line; `None`: at least as many as needed.
    columns: Option<usize>,
    size: usize,
    kind: Option<usize>,
    ms: Option<usize>,
    bits: bool,
}

struct Frame {
    bytes: u64,
    kind: u8,
    ms: Option<u64>,
}

impl Layout {
    fn new(format: TraceFormat, columns: usize, size: usize) -> Self {
        let columns = Some(columns);
        Self { format, header: 0, columns, size, kind: None, ms: None, bits: false }
    }

    fn detect(first: Line<'_>, bare: BareUnit) -> Result<Self, TraceError> {
        let fields: Vec<&str> = first.fields().take(16).collect();
        let digits = |f: &&str| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit());
        let number = |index: usize| fields.get(index).is_some_and(digits);
        let letter = |index: usize| fields.get(index).is_some_and(|f| kind_of(f).is_some());
        let bits = bare == BareUnit::Bits;
        if first.text.contains("[frames/second]") {
            let gdf = Self::new(TraceFormat::Gdf, 3, 0);
            return Ok(Self { header: 2, columns: None, kind: Some(2), bits: true, ..gdf });
        }
        if let Some(size) = fields.iter().position(|f| is_name(f, &["bytes", "size", "length"])) {
            let csv = Self::new(TraceFormat::Csv, fields.len(), size);
            let kind = fields.iter().position(|f| is_name(f, &["type", "kind"]));
            return Ok(Self { header: 1, kind, ..csv });
        }
        match fields.len() {
            1 if number(0) => Ok(Self { bits, ..Self::new(TraceFormat::Bare, 1, 0) }),
            2 if letter(0) && number(1) => {
                let typed = Self::new(TraceFormat::Typed, 2, 1);
                Ok(Self { kind: Some(0), bits, ..typed })
            }
            3 if number(0) && letter(1) && number(2) => {
                Ok(Self { kind: Some(1), ..Self::new(TraceFormat::Csv, 3, 2) })
            }
            4 if number(0) && letter(1) && number(2) && number(3) => {
                let columns = Self::new(TraceFormat::Columns, 4, 3);
                Ok(Self { kind: Some(1), ms: Some(2), ..columns })
            }
            _ => Err(TraceError::UnknownFormat { line: first.number, text: first.beginning() }),
        }
    }

    fn frame(&self, line: Line<'_>) -> Result<Frame, TraceError> {
        let (mut size, mut kind, mut ms, mut count) = (None, None, None, 0);
        for (index, field) in line.fields().enumerate() {
            count = index + 1;
            if index == self.size {
                let what =
                    if self.bits { "no frame size in bits" } else { "no frame size in bytes" };
                size = Some(line.number(field, what)?);
            }
            if Some(index) == self.kind {
                kind = Some(kind_of(field).ok_or_else(|| line.wrong("no frame type"))?);
            }
            if Some(index) == self.ms {
                ms = Some(line.number(field, "no time in ms")?);
            }
        }
        let Some(size) = size else { return Err(line.wrong("no frame size")) };
        if self.columns.is_some_and(|columns| columns != count) {
            return Err(line.wrong("a different number of columns than before"));
        }
        let bytes = if self.bits { size.div_ceil(8) } else { size };
        Ok(Frame { bytes, kind: kind.unwrap_or(b'?'), ms })
    }
}

fn is_name(field: &str, names: &[&str]) -> bool {
    names.iter().any(|name| field.eq_ignore_ascii_case(name))
}

/// `I`, `b`, `I-Frame`, `IDR` or nothing (`-`): the letter, in upper case.
fn kind_of(field: &str) -> Option<u8> {
    let first = *field.as_bytes().first()?;
    let rest = &field[1..];
    let known = rest.is_empty() || rest.eq_ignore_ascii_case("-frame") || field == "IDR";
    match first {
        b'-' | b'?' if rest.is_empty() => Some(b'?'),
        _ => (first.is_ascii_alphabetic() && known).then_some(first.to_ascii_uppercase()),
    }
}

fn gdf_frame_rate(line: Line<'_>) -> Option<Result<FrameRate, TraceError>> {
    if !line.text.contains("[frames/second]") {
        return None;
    }
    let field = line.fields().next()?;
    Some(decimal(field).ok_or_else(|| line.wrong("no frame rate")).and_then(|thousandths| {
        known_rate(f64::from(thousandths) / 1000.0, 1e-4)
            .map_or_else(|| FrameRate::new(thousandths, 1000), Ok)
    }))
}

/// A decimal number below 100 000 in thousandths; further digits are dropped.
fn decimal(field: &str) -> Option<u32> {
    let (whole, part) = field.split_once('.').unwrap_or((field, ""));
    let whole: u32 = whole.parse().ok().filter(|&whole| whole <= 100_000)?;
    if !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digit = |index: usize| part.as_bytes().get(index).map_or(0, |b| u32::from(b - b'0'));
    Some(whole * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// A frame rate in use within `tolerance` (relative) of `fps`.
fn known_rate(fps: f64, tolerance: f64) -> Option<FrameRate> {
    const KNOWN: [(u32, u32); 12] = [
        (24_000, 1001),
        (24, 1),
        (25, 1),
        (30_000, 1001),
        (30, 1),
        (50, 1),
        (60_000, 1001),
        (60, 1),
        (5, 1),
        (10, 1),
        (25, 2),
        (15, 1),
    ];
    let off = |&(num, den): &(u32, u32)| {
        let known = f64::from(num) / f64::from(den);
        let diff = fps / known - 1.0;
        if diff < 0.0 { -diff } else { diff }
    };
    let best = KNOWN.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    if off(best) > tolerance {
        return None;
    }
    FrameRate::new(best.0, best.1).ok()
}

/// Time stamps of a file in whole milliseconds: the frame rate they imply. They may be out of
/// order (stamps are of display, frames in the order sent) and some may repeat.
#[derive(Default)]
struct Clock {
    stamps: u64,
    range: Option<(u64, u64)>,
}

impl Clock {
    fn note(&mut self, ms: Option<u64>) {
        let Some(ms) = ms else { return };
        self.stamps += 1;
        let (least, most) = self.range.unwrap_or((ms, ms));
        self.range = Some((least.min(ms), most.max(ms)));
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        let (least, most) = self.range?;
        if self.stamps < 2 || least == most {
            return None;
        }
        known_rate((self.stamps - 1) as f64 * 1000.0 / (most - least) as f64, 0.004)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use core::fmt::Write;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Listing, TraceError> {
        parse(text.as_bytes(), BareUnit::Bytes)
    }

    #[test]
    fn every_format_is_told_by_content() {
        let cases = [
            ("frame,type,bytes\r\n1,I,7\r\n2,P,9\r\n", TraceFormat::Csv, "IP"),
            ("1,I,7\n2,B,9", TraceFormat::Csv, "IB"),
            ("Type;Size\ni;7\np;9\n", TraceFormat::Csv, "IP"),
            ("# a comment\n\n0\tI\t0\t7\n1\tP\t40\t9\n", TraceFormat::Columns, "IP"),
            ("I 7\nB 9\n", TraceFormat::Typed, "IB"),
            ("7\n9\n", TraceFormat::Bare, "??"),
        ];
        for (text, format, types) in cases {
            let listing = read(text).expect(text);
            assert_eq!((listing.format, &listing.sizes[..]), (format, &[7, 9][..]), "{text}");
            assert_eq!(listing.types, types.as_bytes(), "{text}");
        }
    }

    #[test]
    fn lines_that_are_no_format_are_said_to_be_none() {
        let lines = [
            "I",
            "7 7",
            "I I",
            "I 7 7",
            "1,7,7",
            "1,I,I",
            "x\tI\t0\t7",
            "0\t5\t0\t7",
            "0\tI\tx\t7",
            "0\tI\t0\tx",
            "1 I 0 7 9",
        ];
        for line in lines {
            let text = alloc::format!("{line}\n{line}\n");
            let told = read(&text);
            assert!(matches!(told, Err(TraceError::UnknownFormat { line: 1, .. })), "{line}");
        }
    }

    #[test]
    fn what_spreadsheets_write_is_read() {
        let text = "\u{feff}\"frame\",\"type\",\"bytes\"\r\n# Größe in Byte\r\n\
                    \"1\",\"I\",\"7.0\"\r\n\r\n2,P,9.\r\n";
        assert_eq!(read(text).expect("csv").sizes, [7, 9]);
        let wrong = |text: &str| read(text).expect_err(text).to_string();
        assert!(wrong("frame,type,bytes\n1,I,7.5\n").starts_with("line 2: no frame size"));
        assert!(wrong("frame,type,bytes\n1,I,1e6\n").starts_with("line 2: no frame size"));
        assert!(wrong("frame,type,bytes\n1,I,.\n").starts_with("line 2: no frame size"));
    }

    #[test]
    fn gdf_holds_bits_and_the_frame_rate() {
        let text = "25 \t[frames/second]\tFrame Rate\n0 \t[seconds]\tInitial Delay\n\
                    57\t\t[bits]\t\tI-Frame\n72\t\t[bits]\t\tB-Frame\n";
        let listing = read(text).expect("gdf");
        assert_eq!((&listing.sizes[..], &listing.types[..]), (&[8, 9][..], &b"IB"[..]));
        assert_eq!(listing.frame_rate, Some(FrameRate::TWENTY_FIVE));
        let film = read(&text.replacen("25", "23.976", 1)).expect("gdf");
        assert_eq!(film.frame_rate, FrameRate::new(24_000, 1001).ok());
    }

    #[test]
    fn bare_lists_may_be_bits() {
        assert_eq!(parse(b"57\n72\n", BareUnit::Bits).expect("bits").sizes, [8, 9]);
    }

    #[test]
    fn time_stamps_tell_the_frame_rate_although_some_repeat() {
        let mut text = String::new();
        for n in 0..1000u32 {
            let ms = if n == 500 { 499 * 40 } else { n * 40 };
            writeln!(text, "{n} P {ms} 10").expect("writing to a string");
        }
        assert_eq!(read(&text).expect("columns").frame_rate, Some(FrameRate::TWENTY_FIVE));
    }

    #[test]
    fn errors_name_the_line() {
        let line = |text: &str| read(text).expect_err(text).to_string();
        assert!(line("frame,type,bytes\n1,I,7\n2,P,x\n").starts_with("line 3: no frame size"));
        assert!(line("# c\n7\n-9\n").starts_with("line 3: no frame size"));
        assert!(line("1,I,7\n2,P\n").starts_with("line 2: "));
        assert!(line("1,I,7\n2,5,7\n").starts_with("line 2: no frame type"));
        assert!(line("hello world\n").starts_with("line 1: not a frame trace"));
        assert!(line("7\n99999999999999999999\n").starts_with("line 2: a number beyond the limit"));
        assert!(line("18446744073709551616\n").starts_with("line 1: a number beyond the limit"));
        assert!(line("7\n\u{fffd}\n").starts_with("line 2: not ASCII"));
        assert_eq!(read(""), Err(TraceError::Empty));
        assert_eq!(read("\n# only a comment\n"), Err(TraceError::Empty));
        assert_eq!(read("frame,type,bytes\n"), Err(TraceError::Empty));
        assert!(line("0 [frames/second]\n0 [seconds]\n8 [bits] I-Frame\n").contains("frame rate"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_bytes_are_a_listing_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(listing) = parse(&bytes, BareUnit::Bytes) {
                prop_assert_eq!(listing.sizes.len(), listing.types.len());
            }
        }

        #[test]
        fn what_is_written_as_csv_is_read_back(
            sizes in prop::collection::vec(any::<u64>(), 1..50),
        ) {
            let mut text = String::from("frame,type,bytes\n");
            for (index, size) in sizes.iter().enumerate() {
                writeln!(text, "{},I,{size}", index + 1).expect("writing to a string");
            }
            prop_assert_eq!(read(&text).expect("csv").sizes, sizes);
        }
    }
}
