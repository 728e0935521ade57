//! The result of an inspection: plain values, ready to be printed, plotted or serialised.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use crate::read::{Faults, Format, FrameType, ProgramInfo, StreamInfo};

/// Everything that is known of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What it is.
    pub format: Format,
    /// Bytes read.
    pub size_bytes: u64,
    /// Time from its first to its last instant, by the best source there is.
    pub duration_s: Option<f64>,
    /// Where `duration_s` comes from.
    pub duration_source: DurationSource,
    /// `size_bytes` over `duration_s`, bit/s.
    pub rate_bps: Option<f64>,
    /// Programs (TS).
    pub programs: Vec<ProgramInfo>,
    /// Streams, in order of their index.
    pub streams: Vec<StreamReport>,
    /// PIDs in ascending order (TS).
    pub pids: Vec<PidReport>,
    /// Clocks (PCR per PID, or SCR), in order of appearance.
    pub clocks: Vec<ClockReport>,
    /// Bytes of the whole file over time, by the first clock; else by the frames of the first
    /// video stream.
    pub rate_series: Series,
    /// The checks of ETSI TR 101 290, priority 1 and 2 (TS). Empty elsewhere.
    pub checks: Vec<CheckReport>,
    /// Buffers of the model decoder (TS). Empty elsewhere.
    pub buffers: Vec<BufferReport>,
    /// What is wrong with the file.
    pub faults: Faults,
}

/// Where a duration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DurationSource {
    /// First to last clock reference, jumps left out.
    Clock,
    /// First to last decoding time stamp, plus one frame.
    Stamps,
    /// Frames over frames per second.
    FrameRate,
    /// Nothing says.
    Unknown,
}

/// A stream with its frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamReport {
    /// What the file says of it.
    pub info: StreamInfo,
    /// Bytes of its elementary stream.
    pub bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Frames that decoding can start at; none where nothing tells (AVI without an index).
    pub key_frames: Option<u64>,
    /// Largest distance between two key frames, in frames.
    pub key_distance_max: Option<u64>,
    /// Frames with lost bytes.
    pub damaged_frames: u64,
    /// Frame sizes by type: only the types that occur.
    pub sizes: Vec<SizeReport>,
    /// First and last decoding instant, 90 kHz, wraps undone.
    pub dts_first: Option<i64>,
    /// The last one.
    pub dts_last: Option<i64>,
    /// Bytes of the stream's frames over decoding time.
    pub rate_series: Series,
}

/// Frame sizes of one type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReport {
    /// The type.
    pub kind: FrameType,
    /// Frames.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Smallest, in bytes.
    pub min_bytes: u64,
    /// Largest, in bytes.
    pub max_bytes: u64,
    /// Frames by size; bin `i` holds sizes from `size_bin_floor(i)` below `size_bin_floor(i + 1)`.
    pub histogram: Vec<u64>,
}

/// A PID of a transport stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PidReport {
    /// The PID.
    pub pid: u16,
    /// Packets.
    pub packets: u64,
    /// Packets with scrambled payload.
    pub scrambled: u64,
    /// What it is: "PAT", "PMT 1", "video", "null", …
    pub label: String,
}

/// The clock of a PID.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// PID; 0 for the SCR of a program stream.
    pub pid: u16,
    /// References.
    pub count: u64,
    /// Value of the first, 27 MHz ticks.
    pub first_ticks: u64,
    /// Value of the last as sent, 27 MHz ticks.
    pub last_ticks: u64,
    /// Time covered, jumps and announced discontinuities left out, 27 MHz ticks.
    pub span_ticks: u64,
    /// Stream bytes from the first to the last, over the same intervals (188 per packet).
    pub span_bytes: u64,
    /// Announced discontinuities.
    pub discontinuities: u64,
    /// Steps back or forth by more than 100 ms, not announced.
    pub jumps: u64,
    /// How often the counter passed 2³³ · 300.
    pub wraps: u64,
    /// Intervals between neighbours on one time base.
    pub interval: IntervalReport,
    /// How well values fit a rate that is constant around each.
    pub accuracy: AccuracyReport,
    /// Rate between neighbours, bit/s: smallest, mean (span), largest.
    pub rate_min_bps: f64,
    /// Mean.
    pub rate_mean_bps: f64,
    /// Largest.
    pub rate_max_bps: f64,
}

/// Time between neighbouring clock references.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntervalReport {
    /// Intervals.
    pub count: u64,
    /// Shortest, 27 MHz ticks.
    pub min_ticks: u64,
    /// Longest, 27 MHz ticks.
    pub max_ticks: u64,
    /// Longer than 40 ms (DVB practice).
    pub over_40_ms: u64,
    /// Longer than 100 ms (ISO/IEC 13818-1).
    pub over_100_ms: u64,
    /// Intervals by length: bin `i` holds `i` to `i + 1` ms, the last bin everything longer.
    pub histogram_ms: Vec<u64>,
}

/// PCR accuracy: deviation of each value from the straight line between its neighbours.
///
/// The standard makes the rate between two PCRs constant and lets it change at each, so only
/// where the two rates around a PCR agree (within 1 %) does a deviation mean an error; elsewhere
/// it counts as a change of rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccuracyReport {
    /// PCRs that could be judged.
    pub judged: u64,
    /// PCRs at which the rate changes.
    pub rate_changes: u64,
    /// Every PCR was judged: the stream has one rate.
    pub constant_rate: bool,
    /// Largest deviation, ns.
    pub max_ns: f64,
    /// Mean of the absolute deviation, ns.
    pub mean_ns: f64,
    /// Root mean square, ns.
    pub rms_ns: f64,
    /// Deviations beyond ±500 ns.
    pub over_500_ns: u64,
    /// Largest absolute deviation over time, ns per bin.
    pub series: Series,
}

/// Values over time in a bounded number of bins: a full series doubles its bin width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Width of a bin in 27 MHz ticks.
    pub bin_ticks: u64,
    /// Sum or maximum of each bin, from time zero (the first reference).
    pub bins: Vec<u64>,
}

/// A check of ETSI TR 101 290 (V1.2.1 table 5.1 and 5.2) with its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// Its number there: "1.1" to "2.6".
    pub number: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The limit that was checked, for people.
    pub limit: &'static str,
    /// Violations.
    pub count: u64,
    /// Byte offsets in the file of the first few.
    pub first_offsets: Vec<u64>,
    /// It could be checked at all (time-based checks need a clock).
    pub checked: bool,
}

/// Buffers of the model decoder T-STD (ISO/IEC 13818-1 §2.4.2) for one PID, or for the tables of a
/// program together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferReport {
    /// The PID.
    pub pid: u16,
    /// Transport buffer TB: 512 bytes.
    pub transport: FillReport,
    /// Rate at which TB leaks, bit/s.
    pub leak_bps: u64,
    /// Multiplexing buffer MB (video of known profile and level).
    pub multiplex: Option<FillReport>,
    /// Elementary stream buffer EB (the same). Only a frame larger than it overflows it: what does
    /// not fit waits in MB.
    pub elementary: Option<FillReport>,
    /// Main buffer B of sound, or Bsys of a program's tables, which are under the PID of its map.
    pub main: Option<FillReport>,
    /// Frames whose last byte was not in EB or B at their decoding instant.
    pub underflows: u64,
    /// Worst of them: how late the last byte was, 27 MHz ticks.
    pub late_max_ticks: u64,
    /// Byte offsets in the file near the first few underflows.
    pub underflow_offsets: Vec<u64>,
    /// By the `vbv_delay` method: pictures whose start code came into MB after it should have
    /// passed on to EB.
    pub starved: u64,
    /// Frames that could be judged.
    pub frames: u64,
    /// Longest stay of a frame's last byte in EB or B, 27 MHz ticks.
    pub delay_max_ticks: u64,
    /// TB fill over time: largest of each bin, bytes.
    pub transport_series: Series,
    /// Fill of EB or B over time: largest of each bin, bytes.
    pub elementary_series: Series,
}

/// How full a buffer got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FillReport {
    /// Its size, bytes.
    pub size_bytes: u64,
    /// Fullest, bytes; above `size_bytes` when it overflowed.
    pub max_bytes: u64,
    /// Arrivals (TB, MB) or decoding instants (EB) that found it overflowing.
    pub overflows: u64,
    /// Byte offsets in the file of the first few.
    pub first_offsets: Vec<u64>,
}
