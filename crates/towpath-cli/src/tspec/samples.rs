//! Packets of a trace or a schedule: when each is sent, and how large it is.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use towpath_media::schedule;
use towpath_media::trace::{self, BareUnit, FrameRate};

use super::capture;

/// Packets of one trace.
pub(super) const SAMPLES_MAX: usize = 10_000_000;
/// Bytes of one file that is not a capture.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// How a schedule file begins.
const SCHEDULE: &str = "towpath-schedule,";
/// Packets of a schedule, unless it is said otherwise.
const SCHEDULE_PACKET: u64 = 1392;

/// One packet, or one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Since the first one.
    pub(super) at_ns: u64,
    pub(super) bytes: u64,
}

/// What a file holds, with a word on what it was taken for.
#[derive(Debug)]
pub(super) struct Samples {
    /// At least one; times do not decrease, the first is zero; no size is zero.
    pub(super) items: Vec<Sample>,
    /// `packets of a capture, Ethernet`.
    pub(super) what: String,
    /// What a person should know of how the file was read.
    pub(super) notes: Vec<String>,
}

/// How to read what a file does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Frames per second of a frame trace.
    pub(super) frame_rate: Option<FrameRate>,
    /// Cut each item into packets of at most so many bytes, all sent at its instant.
    pub(super) packet_bytes: Option<u64>,
}

/// Reads a capture, a list of times and sizes, or a frame trace, told by content.
pub(super) fn read(path: &Path, reading: Reading) -> anyhow::Result<Samples> {
    let mut head = [0; 4];
    let stdin = path.as_os_str() == "-";
    let mut source: Box<dyn Read + Send> = if stdin {
        Box::new(std::io::stdin())
    } else {
        if path.is_dir() {
            bail!("{} is a directory\nhint: name the files in it", path.display());
        }
        Box::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?)
    };
    let in_file = || format!("in {}", crate::files::shown(path));
    let got = fill(&mut source, &mut head).with_context(in_file)?;
    let source = std::io::Cursor::new(head[..got].to_vec()).chain(source);
    let samples = if crate::capture::is_one(&head[..got]) {
        capture::read(source).with_context(in_file)?
    } else {
        let mut bytes = Vec::new();
        source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(in_file)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            bail!("{}: longer than {FILE_BYTES_MAX} bytes, the limit", crate::files::shown(path));
        }
        text(&bytes, reading).with_context(in_file)?
    };
    finish(samples, reading).with_context(in_file)
}

fn fill(source: &mut dyn Read, head: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < head.len() {
        match source.read(&mut head[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

fn text(bytes: &[u8], reading: Reading) -> anyhow::Result<Samples> {
    let first = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|l| is_data(l));
    let Some(first) = first else { bail!("no lines: nothing was sent") };
    let first = std::str::from_utf8(first).context("neither a capture nor text")?;
    if first.starts_with(SCHEDULE) {
        return scheduled(bytes, reading);
    }
    match Columns::of(first, reading.frame_rate.is_none()) {
        Some(columns) => packets(bytes, columns),
        None => frames(bytes, reading),
    }
}

fn is_data(line: &[u8]) -> bool {
    !line.is_empty() && !line.starts_with(b"#")
}

/// Where time and size stand, and in which units.
#[derive(Clone, Copy, Debug)]
struct Columns {
    header: bool,
    time: usize,
    size: usize,
    ns_per_unit: u64,
    bits: bool,
}

impl Columns {
    /// From a header that names a time, or from a line of two numbers, of which the first has
    /// decimals unless any two are (`bare`). `None`: this is no list of times and sizes.
    fn of(first: &str, bare: bool) -> Option<Self> {
        let names: Vec<String> = fields(first).map(str::to_ascii_lowercase).collect();
        let unit = |name: &str| match name {
            "time" | "time_s" | "t" | "timestamp" | "timestamp_s" | "at_s" => Some(1_000_000_000),
            "time_ms" | "timestamp_ms" | "at_ms" => Some(1_000_000),
            "time_us" | "timestamp_us" | "at_us" => Some(1_000),
            "time_ns" | "timestamp_ns" | "at_ns" => Some(1),
            _ => None,
        };
        let bits = |name: &str| match name {
            "size" | "size_bytes" | "bytes" | "length" | "len" => Some(false),
            "size_bits" | "bits" => Some(true),
            _ => None,
        };
        let time = names.iter().enumerate().find_map(|(at, name)| Some((at, unit(name)?)));
        let size = names.iter().enumerate().find_map(|(at, name)| Some((at, bits(name)?)));
        if let (Some((time, ns_per_unit)), Some((size, bits))) = (time, size) {
            return Some(Self { header: true, time, size, ns_per_unit, bits });
        }
        let number = |text: &String| nanos(text, 1).is_some();
        let two = names.len() == 2 && names.iter().all(number);
        (two && (bare || names[0].contains('.'))).then_some(Self {
            header: false,
            time: 0,
            size: 1,
            ns_per_unit: 1_000_000_000,
            bits: false,
        })
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|f| !f.is_empty())
}

fn packets(bytes: &[u8], columns: Columns) -> anyhow::Result<Samples> {
    let mut items: Vec<Sample> = Vec::new();
    let mut first_ns = None;
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    let lines = lines.map(|(k, l)| (k + 1, l.trim_ascii())).filter(|(_, l)| is_data(l));
    for (number, line) in lines.skip(usize::from(columns.header)) {
        let line = std::str::from_utf8(line).with_context(|| format!("line {number}: no text"))?;
        let field = |at: usize| fields(line).nth(at);
        let at_ns = field(columns.time).and_then(|f| nanos(f, columns.ns_per_unit));
        let size = field(columns.size).and_then(|f| f.parse::<u64>().ok());
        let (Some(at_ns), Some(size)) = (at_ns, size) else {
            let shown: String = line.chars().filter(|c| !c.is_control()).take(60).collect();
            bail!("line {number}: no time and whole size in {shown:?}");
        };
        let at_ns = at_ns.checked_sub(*first_ns.get_or_insert(at_ns));
        let before = items.last().map_or(0, |s: &Sample| s.at_ns);
        let Some(at_ns) = at_ns.filter(|at| *at >= before) else {
            bail!("line {number}: its time is before the line above it\nhint: sort it by time");
        };
        let bytes = if columns.bits { size.div_ceil(8) } else { size };
        if items.len() == SAMPLES_MAX {
            bail!("line {number}: more than {SAMPLES_MAX} packets, the limit");
        }
        items.push(Sample { at_ns, bytes });
    }
    let mut notes = Vec::new();
    if !columns.header {
        let note = "two columns without a header: seconds and bytes (--fps if it numbers frames)";
        notes.push(note.to_string());
    }
    Ok(Samples { items, what: "times and sizes".to_string(), notes })
}

/// A decimal number of units of `ns` each, in whole nanoseconds, rounded down.
fn nanos(text: &str, ns: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction {
        "" => 0,
        f => f.parse::<u128>().ok()? * u128::from(ns) / 10u128.pow(f.len() as u32),
    };
    whole.checked_mul(ns)?.checked_add(part as u64)
}

/// Packets of a delivery schedule, each at the instant in which the schedule comes to its first
/// byte, rounded down.
fn scheduled(bytes: &[u8], reading: Reading) -> anyhow::Result<Samples> {
    let schedule = schedule::parse(bytes)?;
    let packet = reading.packet_bytes.unwrap_or(SCHEDULE_PACKET);
    if schedule.total.div_ceil(packet) > SAMPLES_MAX as u64 {
        bail!(
            "{} bytes in packets of {packet}: more than {SAMPLES_MAX} packets, the limit\n\
             hint: larger packets, with --packet",
            schedule.total
        );
    }
    let mut items = Vec::new();
    let (mut from_ns, mut from, mut next) = (0, 0, 0);
    for (at_ns, sent) in schedule.cumulative() {
        while next < sent.min(schedule.total) {
            let (part, whole) = (u128::from(next - from), u128::from(sent - from));
            let after = u128::from(at_ns.saturating_sub(from_ns)) * part / whole;
            let bytes = packet.min(schedule.total - next);
            items.push(Sample { at_ns: from_ns + after as u64, bytes });
            next += bytes;
        }
        (from_ns, from) = (at_ns.max(from_ns), sent);
    }
    let what = format!("a schedule by {}, of at most {packet} B each", schedule.scheme);
    Ok(Samples { items, what, notes: Vec::new() })
}

fn frames(bytes: &[u8], reading: Reading) -> anyhow::Result<Samples> {
    let listing = trace::parse(bytes, BareUnit::default()).map_err(|e| {
        anyhow::anyhow!(
            "{e}\nhint: give columns `time_s,size_bytes`, a frame trace, or a capture (pcap)"
        )
    })?;
    let mut notes = Vec::new();
    let Some(rate) = reading.frame_rate.or(listing.frame_rate) else {
        bail!(
            "a frame trace that does not tell its frame rate\nhint: give it, as in --fps 25, or \
             fps = 25 in a file of requests"
        );
    };
    if reading.frame_rate.is_none() {
        notes.push(format!("{:.3} frames per second, as the file says", rate.per_second()));
    }
    if listing.sizes.len() > SAMPLES_MAX {
        bail!("{} frames, more than {SAMPLES_MAX}, the limit", listing.sizes.len());
    }
    let at = |index: usize| {
        let seconds = index as u128 * u128::from(rate.den());
        let ns = seconds * 1_000_000_000 / u128::from(rate.num());
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let frame = |(index, bytes): (usize, &u64)| Sample { at_ns: at(index), bytes: *bytes };
    let items = listing.sizes.iter().enumerate().map(frame).collect();
    Ok(Samples { items, what: format!("frames at {:.3} per second", rate.per_second()), notes })
}

/// Leaves out what is empty, cuts into packets, starts at zero.
fn finish(mut samples: Samples, reading: Reading) -> anyhow::Result<Samples> {
    let all = samples.items.len();
    samples.items.retain(|s| s.bytes > 0);
    if samples.items.len() < all {
        samples.notes.push(format!("{} empty ones left out", all - samples.items.len()));
    }
    if let Some(packet) = reading.packet_bytes {
        let mut cut = Vec::with_capacity(samples.items.len());
        for s in &samples.items {
            let mut left = s.bytes;
            while left > 0 {
                if cut.len() == SAMPLES_MAX {
                    bail!("--packet {packet} makes more than {SAMPLES_MAX} packets, the limit");
                }
                let bytes = left.min(packet);
                cut.push(Sample { at_ns: s.at_ns, bytes });
                left -= bytes;
            }
        }
        samples.items = cut;
        // Writing to a string cannot fail.
        let _ = write!(samples.what, ", cut into packets of at most {packet} B");
    }
    let Some(first) = samples.items.first().map(|s| s.at_ns) else {
        bail!("no packets: nothing was sent");
    };
    for s in &mut samples.items {
        s.at_ns -= first;
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 kB at 1 kB/s, a pause, 500 B at 250 B/s.
    #[test]
    fn a_schedule_is_cut_into_packets_at_the_times_of_their_first_bytes() {
        let text = "towpath-schedule,1\nscheme,pcbr\nticks_per_second,1000\ndelay_ticks,9\n\
                    buffer_bytes,9\ntotal_bytes,1500\n\
                    start_tick,position_1024ths,rate_bytes,rate_ticks\n\
                    0,0,1,1\n2000,1024000,1,4\n";
        let reading = Reading { frame_rate: None, packet_bytes: Some(400) };
        let samples = finish(super::text(text.as_bytes(), reading).unwrap(), reading).unwrap();
        let ms: Vec<_> = samples.items.iter().map(|s| (s.at_ns / 1_000_000, s.bytes)).collect();
        // The third packet's first byte is the first segment's 801st, the fourth's is the second
        // segment's 201st.
        assert_eq!(ms, [(0, 400), (400, 400), (800, 400), (2800, 300)]);
        assert!(fault(&text.replace("pcbr", "magic")).contains("line 2"));
    }

    fn of(text: &str) -> anyhow::Result<Samples> {
        finish(super::text(text.as_bytes(), Reading::default())?, Reading::default())
    }

    fn pairs(text: &str) -> Vec<(u64, u64)> {
        of(text).unwrap().items.iter().map(|s| (s.at_ns, s.bytes)).collect()
    }

    fn fault(text: &str) -> String {
        format!("{:#}", of(text).unwrap_err())
    }

    #[test]
    fn times_and_sizes_are_read_exactly_in_any_unit() {
        let expected = [(0, 100), (1_500_000, 1)];
        assert_eq!(pairs("time_s,size_bytes\n0.1,100\n# x\n\n0.1015,1\n"), expected);
        assert_eq!(pairs("size_bits;n;time_us\n800;1;7\n5;2;1507\n"), expected);
        assert_eq!(pairs("1000000000.000000001 100\n1000000000.001500001 1"), expected);
        assert_eq!(pairs("time_ns,bytes\r\n18446744073709551615,4\r\n"), [(0, 4)]);
        let seconds = [(0, 100), (1_000_000_000, 7)];
        for bare in ["5 100\n6 7\n", "5\t100\n6\t7\n", "5,100\n6,7", "time_s\tbytes\n5\t100\n6\t7"]
        {
            assert_eq!(pairs(bare), seconds, "{bare:?}");
        }
    }

    #[test]
    fn frames_come_one_each_frame_time_and_are_cut_into_packets() {
        let reading = Reading {
            frame_rate: Some(FrameRate::new(30_000, 1001).unwrap()),
            packet_bytes: Some(1000),
        };
        let samples = finish(
            super::text(b"frame,type,bytes\n0,I,2500\n1,P,0\n2,P,7\n", reading).unwrap(),
            reading,
        );
        let samples = samples.unwrap();
        let pairs: Vec<_> = samples.items.iter().map(|s| (s.at_ns, s.bytes)).collect();
        assert_eq!(pairs, [(0, 1000), (0, 1000), (0, 500), (66_733_333, 7)]);
        assert_eq!(samples.notes, ["1 empty ones left out"]);
    }

    #[test]
    fn faults_name_the_line() {
        assert!(fault("time_s,bytes\n1.0,5\n0.9,5\n").contains("line 3: its time is before"));
        assert!(fault("time_s,bytes\n1.0,x\n").contains("line 2: no time and whole size"));
        assert!(fault("time_s,bytes\n1.0\n").contains("line 2"));
        assert!(fault("time_s,bytes\n-1.0,5\n").contains("line 2"));
        assert!(fault("time_s,bytes\n99999999999999999999,5\n").contains("line 2"));
        assert!(fault("time_s,bytes\n").contains("no packets"));
        assert!(fault("").contains("no lines"));
        assert!(fault("100\n200\n").contains("hint: give it, as in --fps 25"));
        assert!(fault("what is this\n").contains("hint: give columns"));
    }

    #[test]
    fn digits_beyond_a_nanosecond_are_cut_off() {
        let ns = 1_000_000_000;
        assert_eq!(nanos("1.9999999999", ns), Some(1_999_999_999));
        assert_eq!(nanos(".5", ns), Some(500_000_000));
        assert_eq!(nanos("5.", ns), Some(5_000_000_000));
        for bad in ["", ".", "-1", "1e9", "0x1", "1.2.3", "99999999999999999999"] {
            assert_eq!(nanos(bad, ns), None, "{bad}");
        }
    }
}
