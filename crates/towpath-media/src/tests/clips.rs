//! The clips that come with the project have the frames that ffprobe found in them, and what is
//! done to them is told.

use std::prelude::rust_2024::*;
use std::{format, vec};

use super::count::{PACKET, pcrs};
use super::whole::{inspect, lists};
use towpath_media::inspect::{CheckReport, DurationSource, Inspector, Report};
use towpath_media::read::{CLOCK_HZ, FaultKind, Format, FrameType, ReadError, Reader};

macro_rules! clip {
    ($name:literal) => {
        (
            include_bytes!(concat!("../../data/", $name)).as_slice(),
            include_str!(concat!("../../data/", $name, ".frames.csv")),
        )
    };
}

const MPEG2: &[u8] = include_bytes!("../../data/mpeg2.ts");

fn check<'a>(report: &'a Report, name: &str) -> &'a CheckReport {
    report.checks.iter().find(|c| c.name == name).expect("a check of that name")
}

/// Number of the `n`th packet of a PID that satisfies a condition.
fn packet_of(bytes: &[u8], pid: u16, n: usize, when: impl Fn(&[u8]) -> bool) -> usize {
    let packets = bytes.chunks(PACKET).enumerate();
    let of_pid = packets.filter(|(_, p)| u16::from_be_bytes([p[1] & 0x1F, p[2]]) == pid && when(p));
    of_pid.map(|(i, _)| i).nth(n).expect("there are as many")
}

#[test]
fn frames_are_those_of_ffprobe() {
    let clips = [
        (clip!("mpeg2.ts"), Format::Ts188),
        (clip!("h264.ts"), Format::Ts188),
        (clip!("mpeg2.m2ts"), Format::Ts192),
        (clip!("mpeg1.mpg"), Format::ProgramStream),
        (clip!("mpeg1.m1v"), Format::MpegVideo),
        (clip!("jpeg.mjpeg"), Format::Mjpeg),
        (clip!("jpeg.avi"), Format::Avi),
    ];
    for ((bytes, rows), format) in clips {
        let (found, lists) = lists(bytes);
        assert_eq!((found, lists.faults.total()), (format, 0));
        let ours: Vec<String> = lists
            .frames
            .iter()
            .map(|f| format!("{},{}", f.size, if f.key { 'K' } else { '_' }))
            .collect();
        assert_eq!(ours, rows.lines().collect::<Vec<_>>(), "{format:?}");
    }
}

#[test]
fn hevc_frames_begin_with_the_zero_byte_that_annex_b_gives_them() {
    let (bytes, rows) = clip!("hevc.h265");
    let (format, lists) = lists(bytes);
    assert_eq!(format, Format::Hevc);
    // ffprobe 5 counts that byte, where there is one, to the frame before.
    let mut their_end = 0;
    for (our, row) in lists.frames.iter().zip(rows.lines()) {
        their_end += row.split(',').next().expect("a size").parse::<u64>().expect("a size");
        let end = usize::try_from(our.start + our.size).expect("a short clip");
        let zero_byte = bytes[end..].starts_with(&[0, 0, 0, 1]);
        assert_eq!(end as u64 + u64::from(zero_byte), their_end);
        assert_eq!(our.key, row.ends_with('K'));
    }
    assert_eq!(lists.frames.len(), rows.lines().count());
}

#[test]
fn clock_statistics_are_those_of_a_count_apart() {
    let report = inspect(MPEG2);
    let pcrs = pcrs(MPEG2);
    let clock = &report.clocks[0];
    let steps: Vec<u64> = pcrs.windows(2).map(|w| w[1].1 - w[0].1).collect();
    assert!(steps.len() > 10);
    assert_eq!(clock.count, pcrs.len() as u64);
    assert_eq!(Some(&clock.interval.min_ticks), steps.iter().min());
    assert_eq!(Some(&clock.interval.max_ticks), steps.iter().max());
    assert_eq!(clock.span_ticks, steps.iter().sum::<u64>());
    assert_eq!(clock.span_bytes, (pcrs[pcrs.len() - 1].0 - pcrs[0].0) * PACKET as u64);
    let over = steps.iter().filter(|&&s| s > 40 * CLOCK_HZ / 1000).count();
    assert_eq!(check(&report, "PCR_repetition_error (40 ms)").count, over as u64);
    assert_eq!(report.rate_series.bins.iter().sum::<u64>(), clock.span_bytes);
}

#[test]
fn a_clean_clip_passes_all_checks_but_the_repetition_of_its_clock() {
    let report = inspect(MPEG2);
    for check in &report.checks {
        let expected = check.name == "PCR_repetition_error (40 ms)";
        assert_eq!(check.count > 0, expected, "{check:?}");
    }
    assert_eq!(report.faults.total(), 0);
    let video = &report.streams[0];
    assert_eq!((video.frames, video.key_distance_max), (50, Some(12)));
    assert_eq!(
        video.sizes.iter().map(|s| s.kind).collect::<Vec<_>>(),
        [FrameType::I, FrameType::P, FrameType::B]
    );
    assert_eq!(report.duration_s, Some(2.0));
}

#[test]
fn a_lost_packet_is_told_where_it_is_missed() {
    let lost = packet_of(MPEG2, 256, 100, |_| true);
    let next = packet_of(MPEG2, 256, 101, |_| true);
    let mut bytes = MPEG2.to_vec();
    bytes.drain(lost * PACKET..(lost + 1) * PACKET);
    let report = inspect(&bytes);
    let continuity = check(&report, "Continuity_count_error");
    assert_eq!(continuity.first_offsets, [((next - 1) * PACKET) as u64]);
    assert_eq!(report.streams[0].damaged_frames, 1);
    assert_eq!(report.streams[0].frames, 50);
}

#[test]
fn a_packet_may_come_twice_but_not_three_times() {
    let at = packet_of(MPEG2, 256, 50, |p| p[1] & 0x40 == 0) * PACKET;
    let packet = MPEG2[at..at + PACKET].to_vec();
    let mut bytes = MPEG2.to_vec();
    bytes.splice(at..at, packet.iter().copied());
    let twice = inspect(&bytes);
    assert_eq!(twice.faults.total(), 0);
    assert_eq!(twice.streams[0].bytes, inspect(MPEG2).streams[0].bytes);
    bytes.splice(at..at, packet);
    let thrice = inspect(&bytes);
    assert_eq!(thrice.faults.count(FaultKind::Repeated), 1);
}

#[test]
fn a_flipped_bit_in_a_table_is_a_crc_error() {
    let at = packet_of(MPEG2, 0, 2, |_| true) * PACKET;
    let mut bytes = MPEG2.to_vec();
    bytes[at + 10] ^= 4;
    let report = inspect(&bytes);
    assert_eq!(check(&report, "CRC_error").first_offsets, [at as u64]);
    assert_eq!(report.programs.len(), 1, "a table with a wrong CRC is not believed");
}

#[test]
fn missing_tables_and_streams_are_missed_in_time() {
    // Without the PAT's second half of the clip 1 s goes by, 0.5 s more than may.
    let mut bytes = MPEG2.to_vec();
    let half = bytes.len() / 2;
    for packet in bytes[half / PACKET * PACKET..].chunks_mut(PACKET) {
        if u16::from_be_bytes([packet[1] & 0x1F, packet[2]]) == 0 {
            packet[1] |= 0x1F;
            packet[2] = 0xFF; // a null packet
        }
    }
    let report = inspect(&bytes);
    assert_eq!(check(&report, "PAT_error").count, 1);
    assert_eq!(check(&report, "PMT_error").count, 0);
}

/// Sets the PCR of a packet.
fn set_pcr(packet: &mut [u8], ticks: u64) {
    let field = (ticks / 300) << 15 | 0x3F << 9 | (ticks % 300);
    packet[6..12].copy_from_slice(&field.to_be_bytes()[2..]);
}

#[test]
fn a_clock_that_wraps_is_no_jump_and_one_that_jumps_is() {
    let modulus = (1_u64 << 33) * 300;
    let pcrs = pcrs(MPEG2);
    let shifted = |by: &dyn Fn(usize) -> u64| {
        let mut bytes = MPEG2.to_vec();
        for (n, (packet, ticks)) in pcrs.iter().enumerate() {
            let at = *packet as usize * PACKET;
            set_pcr(&mut bytes[at..at + PACKET], (ticks + by(n)) % modulus);
        }
        inspect(&bytes)
    };
    let before = inspect(MPEG2);
    let wrapped = shifted(&|_| modulus - pcrs[10].1);
    assert_eq!(wrapped.clocks[0].wraps, 1);
    assert_eq!(wrapped.clocks[0].jumps, 0);
    assert_eq!(wrapped.clocks[0].interval, before.clocks[0].interval);

    let jumped = shifted(&|n| if n < 10 { 0 } else { 5 * CLOCK_HZ });
    assert_eq!(jumped.clocks[0].jumps, 1);
    let offset = pcrs[10].0 * PACKET as u64;
    assert_eq!(check(&jumped, "PCR_discontinuity_indicator_error").first_offsets, [offset]);
    let back = shifted(&|n| if n < 10 { 5 * CLOCK_HZ } else { 0 });
    assert_eq!(back.clocks[0].jumps, 1);
    assert_eq!(back.clocks[0].span_ticks, before.clocks[0].span_ticks - (pcrs[10].1 - pcrs[9].1));
    assert_eq!(before.duration_source, DurationSource::Stamps);
    for report in [jumped, back] {
        assert_eq!(report.duration_source, DurationSource::Clock);
        let seconds = report.clocks[0].span_ticks as f64 / CLOCK_HZ as f64;
        assert_eq!(report.duration_s, Some(seconds));
    }
}

#[test]
fn the_timeline_for_schedules_never_steps_back() {
    let mut bytes = MPEG2.to_vec();
    let pcrs = pcrs(MPEG2);
    for &(packet, ticks) in &pcrs[8..] {
        let at = packet as usize * PACKET;
        set_pcr(&mut bytes[at..at + PACKET], ticks - pcrs[3].1);
    }
    let (_, lists) = lists(&bytes);
    let line = lists.timeline_of(0);
    assert_eq!(line.len(), pcrs.len());
    assert_eq!(line[0].0, 0);
    assert!(line.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
    // Before and after the jump the steps are those of the file.
    assert_eq!(line[5].0 - line[4].0, pcrs[5].1 - pcrs[4].1);
    assert_eq!(line[12].0 - line[11].0, pcrs[12].1 - pcrs[11].1);
}

/// Packets of one PID at a constant rate: a PCR in every tenth, off by so many ticks.
fn constant_rate(packets: u64, off: impl Fn(u64) -> i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..packets {
        let mut packet = [0xFF_u8; PACKET];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x20]);
        packet[4] = 183;
        packet[5] = 0;
        if i % 10 == 0 {
            packet[5] = 0x10;
            set_pcr(&mut packet, (1_000_000 + i * 2_000).saturating_add_signed(off(i / 10)));
        }
        bytes.extend(packet);
    }
    bytes
}

#[test]
fn accuracy_is_judged_at_a_constant_rate() {
    let clean = inspect(&constant_rate(1000, |_| 0));
    let accuracy = &clean.clocks[0].accuracy;
    assert_eq!((accuracy.judged, accuracy.over_500_ns), (98, 0));
    assert!(accuracy.constant_rate && accuracy.max_ns < 1e-3);

    // One PCR 20 ticks (741 ns) late; its neighbours deviate by half of that.
    let one = inspect(&constant_rate(1000, |n| if n == 50 { 20 } else { 0 }));
    let accuracy = &one.clocks[0].accuracy;
    assert_eq!(accuracy.over_500_ns, 1);
    assert!((accuracy.max_ns - 20e9 / 27e6).abs() < 1.0, "{}", accuracy.max_ns);
    let error = check(&one, "PCR_accuracy_error");
    assert_eq!((error.count, error.checked), (1, true));
    assert_eq!(error.first_offsets, [500 * 188 + 10]);

    let variable = inspect(MPEG2);
    let error = check(&variable, "PCR_accuracy_error");
    assert_eq!((error.count, error.checked), (0, false), "a variable rate is no error");
}

#[test]
fn a_transport_buffer_overflows_when_packets_come_in_a_heap() {
    let report = inspect(MPEG2);
    let of = |report: &Report, pid| {
        report.buffers.iter().find(|b| b.pid == pid).expect("it is modelled").clone()
    };
    assert_eq!(of(&report, 257).leak_bps, 2_000_000);
    assert_eq!(of(&report, 257).transport.overflows, 0);
    let video = of(&report, 256);
    assert_eq!(video.leak_bps, 18_000_000); // 1.2 times main level
    assert_eq!((video.underflows, video.frames), (0, 50));

    // Between PCRs 74 us apart each packet of 188 bytes finds the ones before it still there but
    // for the 18.52 bytes that leave at 2 Mbit/s: 188, 357.48, 526.96.
    let mut heap = MPEG2[..packet_of(MPEG2, 256, 0, |_| true) * PACKET].to_vec();
    let clock = constant_rate(11, |_| 0);
    heap.extend(&clock[..PACKET]);
    let sound = packet_of(MPEG2, 257, 3, |p| p[3] & 0x20 == 0) * PACKET;
    for n in 0..3_u8 {
        let at = heap.len();
        heap.extend(&MPEG2[sound..sound + PACKET]);
        heap[at + 3] = 0x10 | n;
    }
    let at = heap.len();
    heap.extend(&clock[..PACKET]);
    set_pcr(&mut heap[at..], 1_000_000 + 4 * 2_000);
    let sound = of(&inspect(&heap), 257).transport;
    assert_eq!((sound.max_bytes, sound.overflows), (527, 1));
}

#[test]
fn frames_that_come_after_their_decoding_instant_underflow() {
    // All PCRs 2 s later: every frame is decoded before it arrives.
    let mut bytes = MPEG2.to_vec();
    for (packet, ticks) in pcrs(MPEG2) {
        let at = packet as usize * PACKET;
        set_pcr(&mut bytes[at..at + PACKET], ticks + 2 * CLOCK_HZ);
    }
    let report = inspect(&bytes);
    let video = report.buffers.iter().find(|b| b.pid == 256).expect("the pictures are modelled");
    assert!(video.underflows >= 48, "{}", video.underflows);
    assert!(video.late_max_ticks > CLOCK_HZ, "{}", video.late_max_ticks);
}

#[test]
fn what_cannot_be_read_is_refused_with_a_reason() {
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new();
        reader.push(bytes, &mut ()).and_then(|()| reader.finish(&mut ()))
    };
    assert_eq!(read(&[]), Err(ReadError::Empty));
    assert_eq!(
        read(b"frame,type,bytes\n0,I,100\n"),
        Err(ReadError::UnknownFormat { looked_at: 25, container: None })
    );
    let unknown = ReadError::UnknownFormat { looked_at: 65_536, container: None };
    assert_eq!(read(&vec![7; 100_000]), Err(unknown));
    let mut film = b"\0\0\0\x20ftypisom".to_vec();
    film.resize(1000, 0);
    let named = ReadError::UnknownFormat { looked_at: 1000, container: Some("MP4/MOV") };
    assert_eq!(read(&film), Err(named));
    assert!(named.to_string().starts_with("unsupported container MP4/MOV"));
}

#[test]
fn truncated_files_give_what_they_have() {
    for ((bytes, rows), format) in [
        (clip!("mpeg2.ts"), Format::Ts188),
        (clip!("mpeg1.mpg"), Format::ProgramStream),
        (clip!("jpeg.avi"), Format::Avi),
        (clip!("jpeg.mjpeg"), Format::Mjpeg),
    ] {
        let cut = &bytes[..=(bytes.len() / 2)];
        let (found, lists) = lists(cut);
        assert_eq!((found, lists.faults.count(FaultKind::Truncated)), (format, 1));
        let whole = rows.lines().count();
        assert!(lists.frames.len() > whole / 4 && lists.frames.len() < whole, "{format:?}");
    }
}

#[test]
fn an_endless_file_needs_no_more_memory_for_its_series() {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    for start in 0..200 {
        let block: Vec<u8> = constant_rate(1000, |_| start * 2_000_000);
        reader.push(&block, &mut inspector).expect("its format is known");
    }
    let format = reader.finish(&mut inspector).expect("its format is known");
    let report = inspector.report(format, reader.bytes());
    assert!(report.rate_series.bins.len() <= towpath_media::inspect::SERIES_BINS_MAX);
    assert!(report.clocks[0].span_ticks > 190 * 1_980_000);
}
