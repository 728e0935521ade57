//! A report as text, and as tables for a page.

use std::fmt::Write as _;

use towpath_media::inspect::{BufferReport, ClockReport, DurationSource, Report};
use towpath_media::read::{AudioInfo, Codec, Format, FrameType, StreamInfo, VideoInfo};

use crate::plot::{Column, Table};
use crate::units::{rate_text, size_text, time_text};
use crate::words::counted;

/// Characters of a line, behind two of indent.
const WIDTH: usize = 98;

const TICKS_PER_MS: f64 = 27_000.0;

/// Everything about a file, as it is printed.
pub(super) fn report_text(name: &str, report: &Report) -> String {
    let mut out = format!("{name}: {}\n", summary(report));
    for (heading, table) in tables(report) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{heading}\n{}", indented(&table.text_within(WIDTH)));
    }
    out
}

/// What it is, in a line.
pub(super) fn summary(report: &Report) -> String {
    let mut parts = vec![format(report.format).to_string(), size_text(report.size_bytes as f64)];
    if let Some(seconds) = report.duration_s {
        let source = match report.duration_source {
            DurationSource::Clock => "by its clock",
            DurationSource::Stamps => "by its time stamps",
            DurationSource::FrameRate => "by its frame rate",
            DurationSource::Unknown => "",
        };
        parts.push(format!("{} {source}", time_text(seconds)).trim_end().to_string());
    }
    if let Some(bps) = report.rate_bps {
        parts.push(rate_text(bps));
    }
    parts.push(match report.faults.total() {
        0 => "undamaged".to_string(),
        1 => "1 fault".to_string(),
        n => format!("{n} faults"),
    });
    parts.join(", ")
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |out, line| out + "  " + line + "\n")
}

/// All tables that have rows, with their headings.
pub(super) fn tables(report: &Report) -> Vec<(&'static str, Table)> {
    let all = [
        ("Programs", programs(report)),
        ("Streams", streams(report)),
        ("Frame sizes", sizes(report)),
        ("PIDs", pids(report)),
        ("Clock references", clocks(report)),
        ("Checks of ETSI TR 101 290, priority 1 and 2", checks(report)),
        ("Model decoder (T-STD)", buffers(report)),
        ("Faults", faults(report)),
    ];
    all.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

/// A cell whose text says the same to people and programs.
fn same(text: impl std::fmt::Display) -> (String, String) {
    let text = text.to_string();
    (text.clone(), text)
}

fn size(bytes: u64) -> (String, String) {
    (size_text(bytes as f64), bytes.to_string())
}

fn programs(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("PROGRAM", ""),
        Column::figures("MAP PID", ""),
        Column::figures("CLOCK PID", ""),
        Column::words("STREAMS", ""),
    ]);
    for p in &report.programs {
        let clock = if p.clock_pid == 0x1fff { "none".into() } else { p.clock_pid.to_string() };
        let streams: Vec<String> = p.streams.iter().map(u16::to_string).collect();
        table.push(vec![same(p.number), same(p.map_pid), same(clock), same(streams.join(" "))]);
    }
    table
}

fn streams(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("STREAM", ""),
        Column::figures("ID", ""),
        Column::words("CODEC", ""),
        Column::words("PICTURE OR SOUND", ""),
        Column::figures("SIZE", ""),
        Column::figures("FRAMES", ""),
        Column::figures("KEY", ""),
        Column::figures("GROUP MAX", ""),
        Column::figures("DAMAGED", ""),
    ]);
    for s in &report.streams {
        // Where there are bytes and no frames these were not looked for.
        let frames = s.frames > 0 || s.bytes == 0;
        // Each frame of sound stands alone.
        let keys = |n: Option<u64>| match n {
            _ if s.info.codec.is_audio() => same(""),
            Some(n) if frames => same(n),
            _ => same("–"),
        };
        table.push(vec![
            same(s.info.index),
            same(s.info.id),
            same(coding(&s.info)),
            same(content(&s.info)),
            size(s.bytes),
            if frames { same(s.frames) } else { same("–") },
            keys(s.key_frames),
            keys(s.key_distance_max),
            same(s.damaged_frames),
        ]);
    }
    table
}

/// Its codec, with the layer of MPEG audio.
fn coding(info: &StreamInfo) -> String {
    let layer = info.audio.map_or(0, |audio| audio.layer);
    let name = codec(info.codec);
    if layer > 0 { format!("{name} layer {layer}") } else { name.to_string() }
}

/// What its headers tell of the pictures or the sound.
fn content(info: &StreamInfo) -> String {
    match (&info.video, &info.audio) {
        (Some(video), _) => picture(video),
        (None, Some(audio)) => sound(audio),
        (None, None) => String::new(),
    }
}

fn sound(audio: &AudioInfo) -> String {
    let mut parts = vec![format!("{} kHz", f64::from(audio.sample_rate_hz) / 1e3)];
    if audio.channels > 0 {
        parts.push(counted(audio.channels.into(), "channel"));
    }
    if audio.rate_bps > 0 {
        parts.push(rate_text(audio.rate_bps.into()));
    }
    if audio.frame_samples > 0 {
        parts.push(format!("{} samples", audio.frame_samples));
    }
    parts.join(", ")
}

fn picture(video: &VideoInfo) -> String {
    let mut text = format!("{}x{}", video.width, video.height);
    if video.fps_num > 0 && video.fps_den > 0 {
        let fps = f64::from(video.fps_num) / f64::from(video.fps_den);
        let fps = format!("{fps:.3}");
        let _ = write!(text, ", {} fps", fps.trim_end_matches('0').trim_end_matches('.'));
    }
    text
}

fn sizes(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("STREAM", ""),
        Column::words("TYPE", ""),
        Column::figures("FRAMES", ""),
        Column::figures("MEAN", ""),
        Column::figures("SMALLEST", ""),
        Column::figures("LARGEST", ""),
        Column::figures("OF ALL BYTES", ""),
    ]);
    for s in report.streams.iter().filter(|s| s.frames > 0) {
        let all: u64 = s.sizes.iter().map(|k| k.bytes).sum();
        for k in &s.sizes {
            table.push(vec![
                same(s.info.index),
                same(if s.info.codec.is_audio() { "sound" } else { frame_type(k.kind) }),
                same(k.count),
                same(size_text((k.bytes as f64 / k.count.max(1) as f64).round())),
                size(k.min_bytes),
                size(k.max_bytes),
                same(format!("{:.1} %", 100.0 * k.bytes as f64 / all.max(1) as f64)),
            ]);
        }
    }
    table
}

fn pids(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("PID", ""),
        Column::words("WHAT", ""),
        Column::figures("PACKETS", ""),
        Column::figures("SHARE", ""),
        Column::figures("SCRAMBLED", ""),
    ]);
    let all: u64 = report.pids.iter().map(|p| p.packets).sum();
    for p in &report.pids {
        let share = format!("{:.2} %", 100.0 * p.packets as f64 / all.max(1) as f64);
        table.push(vec![
            same(p.pid),
            same(&p.label),
            same(p.packets),
            same(share),
            same(p.scrambled),
        ]);
    }
    table
}

fn clocks(report: &Report) -> Table {
    let mut table = Table::new(&[Column::words("", ""), Column::words("", "")]);
    for c in &report.clocks {
        let name = if c.pid == 0 { "SCR".to_string() } else { format!("PCR of PID {}", c.pid) };
        for (what, value) in clock_lines(c) {
            table.push(vec![same(format!("{name}: {what}")), same(value)]);
        }
    }
    table
}

fn clock_lines(c: &ClockReport) -> Vec<(&'static str, String)> {
    let ms = |ticks: u64| format!("{:.3} ms", ticks as f64 / TICKS_PER_MS);
    let mut lines = vec![
        ("references", format!("{} over {}", c.count, time_text(c.span_ticks as f64 / 27e6))),
        (
            "breaks",
            format!(
                "{} announced, {} jumps, {} wraps of the counter",
                c.discontinuities, c.jumps, c.wraps
            ),
        ),
    ];
    if c.interval.count > 0 {
        let (shortest, longest) = (ms(c.interval.min_ticks), ms(c.interval.max_ticks));
        let (over_40, over_100) = (c.interval.over_40_ms, c.interval.over_100_ms);
        lines.push((
            "interval",
            format!("{shortest} to {longest}; {over_40} above 40 ms, {over_100} above 100 ms"),
        ));
        lines.push((
            "rate between",
            format!(
                "{} to {}, mean {}",
                rate_text(c.rate_min_bps),
                rate_text(c.rate_max_bps),
                rate_text(c.rate_mean_bps)
            ),
        ));
    }
    let a = &c.accuracy;
    lines.push((
        "accuracy",
        if a.judged == 0 {
            "not to be judged: the rate changes at each reference".to_string()
        } else {
            format!(
                "within {:.0} ns, {:.0} ns rms, {} beyond 500 ns, of {} judged{}",
                a.max_ns,
                a.rms_ns,
                a.over_500_ns,
                a.judged,
                if a.constant_rate { ": constant rate" } else { "" }
            )
        },
    ));
    lines
}

fn checks(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::words("CHECK", ""),
        Column::words("NAME", ""),
        Column::figures("VIOLATIONS", ""),
        Column::words("LIMIT", ""),
        Column::words("FIRST AT BYTE", ""),
    ]);
    for c in &report.checks {
        let count = if c.checked { c.count.to_string() } else { "not checked".into() };
        table.push(vec![
            same(c.number),
            same(c.name),
            same(count),
            same(c.limit),
            same(offsets(&c.first_offsets)),
        ]);
    }
    table
}

fn buffers(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("PID", ""),
        Column::words("BUFFER", ""),
        Column::figures("SIZE", ""),
        Column::figures("FULLEST", ""),
        Column::figures("OVERFLOWS", ""),
        Column::words("", ""),
    ]);
    for b in &report.buffers {
        let all = [
            ("transport", Some(&b.transport)),
            ("multiplexing", b.multiplex.as_ref()),
            ("elementary", b.elementary.as_ref()),
            ("main", b.main.as_ref()),
        ];
        let tables = report.programs.iter().find(|p| p.map_pid == b.pid);
        for (name, fill) in all {
            let Some(fill) = fill else { continue };
            let note = match (name, tables) {
                ("transport", Some(program)) => format!("PAT, CAT and map of {}", program.number),
                ("multiplexing", _) if b.starved > 0 => {
                    format!("{} start codes after their vbv_delay", b.starved)
                }
                ("elementary", _) | ("main", None) => late(b),
                _ => String::new(),
            };
            table.push(vec![
                same(b.pid),
                same(name),
                size(fill.size_bytes),
                size(fill.max_bytes),
                same(fill.overflows),
                same(note),
            ]);
        }
    }
    table
}

/// What is said about frames that come too late.
fn late(b: &BufferReport) -> String {
    let worst = time_text(b.late_max_ticks as f64 / 27e6);
    match b.underflows {
        0 if b.frames == 0 => String::new(),
        0 => format!("no frame of {} late", b.frames),
        n => format!("{n} of {} frames late, by up to {worst}", b.frames),
    }
}

fn faults(report: &Report) -> Table {
    let mut table = Table::new(&[
        Column::figures("COUNT", ""),
        Column::words("WHAT", ""),
        Column::words("FIRST AT BYTE", ""),
    ]);
    for f in &report.faults.kinds {
        table.push(vec![same(f.count), same(f.kind.text()), same(offsets(&f.first_offsets))]);
    }
    table
}

/// The first few.
fn offsets(offsets: &[u64]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<String> = offsets.iter().take(SHOWN).map(u64::to_string).collect();
    if offsets.len() > SHOWN {
        text.push("…".to_string());
    }
    text.join(" ")
}

const fn format(format: Format) -> &'static str {
    match format {
        Format::Ts188 => "MPEG transport stream",
        Format::Ts192 => "MPEG transport stream (192-byte packets)",
        Format::Ts204 => "MPEG transport stream (204-byte packets)",
        Format::ProgramStream => "MPEG program stream",
        Format::MpegVideo => "MPEG video",
        Format::H264 => "H.264 video",
        Format::Hevc => "H.265 video",
        Format::Mjpeg => "Motion JPEG",
        Format::Avi => "AVI",
    }
}

pub(super) const fn codec(codec: Codec) -> &'static str {
    match codec {
        Codec::Mpeg1Video => "MPEG-1 video",
        Codec::Mpeg2Video => "MPEG-2 video",
        Codec::Mpeg4Video => "MPEG-4 video",
        Codec::H264 => "H.264",
        Codec::Hevc => "H.265",
        Codec::Mjpeg => "Motion JPEG",
        Codec::MpegAudio => "MPEG audio",
        Codec::Aac => "AAC",
        Codec::Ac3 => "AC-3",
        Codec::Pcm => "PCM",
        Codec::Other => "other",
    }
}

pub(super) const fn frame_type(kind: FrameType) -> &'static str {
    match kind {
        FrameType::I => "I",
        FrameType::P => "P",
        FrameType::B => "B",
        FrameType::Unknown => "unknown",
    }
}
