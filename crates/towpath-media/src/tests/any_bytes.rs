//! Any bytes in any cut give the same events and never a panic.

use std::prelude::rust_2024::*;

use super::log::{Told, check, read};
use proptest::prelude::*;
use towpath_media::inspect::Inspector;
use towpath_media::read::{FaultKind, Format, Reader};

const CLIPS: [(&str, &[u8]); 8] = [
    ("mpeg2.ts", include_bytes!("../../data/mpeg2.ts")),
    ("h264.ts", include_bytes!("../../data/h264.ts")),
    ("mpeg2.m2ts", include_bytes!("../../data/mpeg2.m2ts")),
    ("mpeg1.mpg", include_bytes!("../../data/mpeg1.mpg")),
    ("mpeg1.m1v", include_bytes!("../../data/mpeg1.m1v")),
    ("hevc.h265", include_bytes!("../../data/hevc.h265")),
    ("jpeg.mjpeg", include_bytes!("../../data/jpeg.mjpeg")),
    ("jpeg.avi", include_bytes!("../../data/jpeg.avi")),
];

const FORMATS: [Format; 9] = [
    Format::Ts188,
    Format::Ts192,
    Format::Ts204,
    Format::ProgramStream,
    Format::MpegVideo,
    Format::H264,
    Format::Hevc,
    Format::Mjpeg,
    Format::Avi,
];

/// Something done to a file: overwrite, remove, or insert some bytes.
#[derive(Clone, Debug)]
struct Damage {
    at: prop::sample::Index,
    bytes: Vec<u8>,
    kind: u8,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..20),
        prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0x47), Just(0xFF)], 1..300),
    ];
    (any::<prop::sample::Index>(), bytes, 0..3_u8).prop_map(|(at, bytes, kind)| Damage {
        at,
        bytes,
        kind,
    })
}

fn damaged(clip: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = clip[..clip.len().min(40_000)].to_vec();
    for Damage { at, bytes: new, kind } in damages {
        let at = at.index(bytes.len());
        let end = (at + new.len()).min(bytes.len());
        match kind {
            0 => bytes[at..end].copy_from_slice(&new[..end - at]),
            1 => drop(bytes.drain(at..end)),
            _ => drop(bytes.splice(at..at, new.iter().copied())),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn inspect(bytes: &[u8]) {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    if reader.push(bytes, &mut inspector).is_err() {
        return;
    }
    let Ok(format) = reader.finish(&mut inspector) else { return };
    let report = inspector.report(format, reader.bytes());
    assert!(report.streams.iter().all(|s| s.bytes <= report.size_bytes));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_damaged_file_reads_the_same_in_any_cut(
        clip in 0..CLIPS.len(),
        damages in prop::collection::vec(damage(), 0..6),
        cuts in prop::collection::vec(1_usize..1000, 1..12),
    ) {
        let bytes = damaged(CLIPS[clip].1, &damages);
        let whole = read(None, &bytes, &[usize::MAX >> 1]);
        check(&whole, &bytes);
        prop_assert_eq!(&read(None, &bytes, &cuts), &whole);
        inspect(&bytes);
    }

    #[test]
    fn a_mislabelled_file_is_read_without_harm(
        clip in 0..CLIPS.len(),
        format in prop::sample::select(&FORMATS[..]),
        cuts in prop::collection::vec(1_usize..300, 1..6),
    ) {
        let bytes = &CLIPS[clip].1[..CLIPS[clip].1.len().min(20_000)];
        let whole = read(Some(format), bytes, &[usize::MAX >> 1]);
        check(&whole, bytes);
        prop_assert_eq!(&read(Some(format), bytes, &cuts), &whole);
    }

    #[test]
    fn random_bytes_are_read_without_harm(
        bytes in prop::collection::vec(
            prop_oneof![4 => Just(0_u8), 2 => Just(1), 2 => Just(0x47), 8 => any::<u8>()],
            0..2000,
        ),
        format in prop::sample::select(&FORMATS[..]),
        cuts in prop::collection::vec(1_usize..300, 1..6),
    ) {
        let whole = read(Some(format), &bytes, &[usize::MAX >> 1]);
        check(&whole, &bytes);
        prop_assert_eq!(&read(Some(format), &bytes, &cuts), &whole);
    }
}

/// Found by fuzzing: where the fault was depended on the cut.
#[test]
fn a_short_stream_header_is_a_fault_where_it_starts() {
    let mut bytes = b"RIFF\x1c\0\0\0AVI ".to_vec();
    bytes.extend(b"strh\x06\0\0\0videos");
    bytes.extend(b"JUNK\x02\0\0\0..");
    for cuts in [&[][..], &[1], &[7], &[11, 2]] {
        let log = read(Some(Format::Avi), &bytes, cuts);
        assert_eq!(log.told, [Told::Fault(FaultKind::StreamHeader, 20)], "{cuts:?}");
    }
}

/// Found by fuzzing: it was told as a frame of no bytes.
#[test]
fn a_frame_of_which_nothing_came_is_none() {
    let avi = CLIPS[7].1;
    let name = avi.windows(8).position(|window| window == b"movi00dc").expect("a frame") + 4;
    for (len, frames) in [(name + 8, 0), (name + 9, 1)] {
        let log = read(Some(Format::Avi), &avi[..len], &[]);
        check(&log, &avi[..len]);
        assert_eq!(log.told.iter().filter(|told| matches!(told, Told::Frame(_))).count(), frames);
    }
}

/// Found by fuzzing: a pack's clock of as many ticks as the clock has, or more, was told.
#[test]
fn a_clock_out_of_range_is_left_out() {
    for (extension, raw_ticks) in [(299_u64, Some((1 << 33) * 300 - 1)), (300, None), (511, None)] {
        let [high, low] = [0xFC | extension >> 7, extension << 1 | 1].map(|bits| bits as u8);
        let pack = [0, 0, 1, 0xBA, 0x7F, 0xFF, 0xFF, 0xFF, high, low, 1, 2, 3, 0xF8];
        let log = read(Some(Format::ProgramStream), &pack, &[1]);
        check(&log, &pack);
        match raw_ticks {
            None => assert_eq!(log.told, [Told::Fault(FaultKind::ClockExtension, 0)]),
            Some(raw) => assert!(
                matches!(&log.told[..], [Told::Clock(clock)] if clock.raw_ticks == raw),
                "{:?}",
                log.told
            ),
        }
    }
}

/// A frame rate was multiplied by each extension, until it was none.
#[test]
fn a_sequence_header_has_one_extension() {
    let header = [0, 0, 1, 0xB3, 0x02, 0x00, 0x20, 0x11, 0xFF, 0xFF, 0xE0, 0x00];
    // The last bits: 3 + 1 frames in 31 + 1 times.
    let extension = [0, 0, 1, 0xB5, 0x14, 0x82, 0, 1, 0, 0x7F];
    let picture = [0, 0, 1, 0x00, 0, 1 << 3, 0xFF, 0xF8, 0, 0, 1, 0x01, 0x5A];
    let bytes = [&header[..], &extension.repeat(8), &picture].concat();
    let log = read(Some(Format::MpegVideo), &bytes, &[]);
    check(&log, &bytes);
    let rates: Vec<_> = log
        .told
        .iter()
        .filter_map(|told| match told {
            Told::Stream(info) => info.video.map(|video| (video.fps_num, video.fps_den)),
            _ => None,
        })
        .collect();
    assert_eq!(rates, [(24_000 * 4, 1001 * 32)]);
}
