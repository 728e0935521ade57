//! What is planned for: the video that a file holds, and what had to be assumed.

use std::prelude::rust_2024::*;
use std::{format, vec};

use super::whole::lists;
use towpath_media::plan::{Note, Unit, Video, VideoError, Wanted, of_listing, of_media};
use towpath_media::read::{FaultKind, Sink};
use towpath_media::trace::{FrameRate, Listing, TraceFormat};

const CLIP: &[u8] = include_bytes!("../../data/mpeg2.ts");
const ELEMENTARY: &[u8] = include_bytes!("../../data/mpeg1.m1v");
const BARE: &[u8] = include_bytes!("../../data/hevc.h265");

fn media(bytes: &[u8], wanted: Wanted) -> Result<Video, VideoError> {
    let (format, lists) = lists(bytes);
    of_media(&lists, format, bytes.len() as u64, wanted)
}

#[test]
fn frames_or_groups_of_a_clip_are_planned_for() {
    let frames = media(CLIP, Wanted::default()).expect("it has pictures");
    assert_eq!((frames.unit, frames.trace.groups()), (Unit::Frame, 50));
    assert_eq!((frames.what().as_str(), frames.is_damaged()), ("frames of stream 0", false));
    assert_eq!((frames.frame_rate, &frames.notes[..]), (Some(FrameRate::TWENTY_FIVE), &[][..]));
    let wanted = Wanted { pcr: true, ..Wanted::default() };
    let groups = media(CLIP, wanted).expect("it has clocks");
    assert_eq!((groups.unit, groups.frame_rate), (Unit::Group, None));
    assert!(groups.what().starts_with("groups of "), "{}", groups.what());
    assert_eq!(groups.trace.total(), CLIP.len() as u64);
    assert_eq!(format!("{:>6}|{}", Unit::Group, Unit::Frame), " group|frame");
    // What is wanted goes before what the file says.
    let wanted = Wanted { frame_rate: Some(FrameRate::THIRTY), ..Wanted::default() };
    assert_eq!(media(CLIP, wanted).expect("frames").frame_rate, Some(FrameRate::THIRTY));
    assert_eq!(media(ELEMENTARY, Wanted::default()).expect("frames").trace.groups(), 25);
}

#[test]
fn what_a_file_does_not_hold_is_refused() {
    let bits = Wanted { bits: true, ..Wanted::default() };
    let pcr = Wanted { pcr: true, ..Wanted::default() };
    let program = |n| Wanted { program: Some(n), ..Wanted::default() };
    let refused = |bytes, wanted| media(bytes, wanted).map(|_| ()).expect_err("refused");
    assert_eq!(refused(CLIP, bits), VideoError::NoSizes);
    assert_eq!(refused(ELEMENTARY, pcr), VideoError::NoClock);
    let none = VideoError::NoProgram { wanted: 7, known: vec![1] };
    assert_eq!((refused(CLIP, program(7)), media(CLIP, program(1)).is_ok()), (none, true));
    let (format, mut lists) = lists(CLIP);
    lists.frames.clear();
    let of = |wanted| of_media(&lists, format, 9, wanted).map(|_| ()).expect_err("refused");
    assert_eq!(of(Wanted::default()), VideoError::NoFrame);
    assert_eq!(of(program(1)), VideoError::NoFrameOf(1));
    let by_clock = Wanted { pcr: true, ..program(1) };
    assert_eq!(of(by_clock), VideoError::NoFrameOf(1));
}

#[test]
fn what_had_to_be_chosen_or_is_wrong_is_said() {
    let (format, mut lists) = lists(CLIP);
    let mut other = lists.programs[0].clone();
    (other.number, other.streams) = (2, Vec::new());
    lists.programs.push(other);
    lists.fault(FaultKind::Garbage, 9);
    for wanted in [Wanted::default(), Wanted { pcr: true, ..Wanted::default() }] {
        let of = |wanted| of_media(&lists, format, CLIP.len() as u64, wanted).expect("a video");
        let video = of(wanted);
        assert!(video.is_damaged());
        assert_eq!(video.notes, [Note::Program { number: 1, count: 2 }, Note::Faults(1)]);
        let chosen = of(Wanted { program: Some(1), ..wanted });
        assert_eq!(chosen.notes, [Note::Faults(1)], "nothing was left to choose");
    }
    // Pictures that come when they like are due at their stamps.
    let frame = lists.frames.iter_mut().filter(|f| f.dts.is_some()).nth(20).expect("many");
    frame.dts = frame.dts.map(|dts| dts + 3000);
    let uneven = of_media(&lists, format, 9, Wanted::default()).expect("a video");
    assert!(uneven.notes.contains(&Note::Uneven) && uneven.frame_rate.is_none());
    let told = Wanted { frame_rate: Some(FrameRate::THIRTY), ..Wanted::default() };
    let told = of_media(&lists, format, 9, told).expect("a video");
    assert!(!told.notes.contains(&Note::Uneven) && told.frame_rate == Some(FrameRate::THIRTY));
    // HEVC without stamps: what it says of its rate is all that there is.
    let plain = media(BARE, Wanted::default()).expect("frames");
    assert!(!plain.notes.contains(&Note::Uneven) && plain.frame_rate.is_some());
}

#[test]
fn lists_of_sizes_have_neither_clocks_nor_programs_and_some_tell_their_unit() {
    let (sizes, types) = (vec![3, 4], vec![b'?'; 2]);
    let listing =
        |format| Listing { format, sizes: sizes.clone(), types: types.clone(), frame_rate: None };
    let of = |format, wanted| of_listing(listing(format), wanted);
    let bits = Wanted { bits: true, ..Wanted::default() };
    for (format, may) in
        [(TraceFormat::Typed, true), (TraceFormat::Bare, true), (TraceFormat::Csv, false)]
    {
        let video = of(format, Wanted::default()).expect("a video");
        assert_eq!((video.trace.total(), video.what().as_str()), (7, "frames of the trace"));
        assert_eq!(video.notes, [Note::RateAssumed(FrameRate::TWENTY_FIVE)]);
        assert_eq!(of(format, bits).is_ok(), may, "{format:?}");
        let pcr = Wanted { pcr: true, ..Wanted::default() };
        assert_eq!(of(format, pcr).map(|_| ()), Err(VideoError::TraceWithoutClock));
        let program = Wanted { program: Some(1), ..Wanted::default() };
        assert_eq!(of(format, program).map(|_| ()), Err(VideoError::TraceWithoutPrograms));
    }
    let told = Listing { frame_rate: Some(FrameRate::THIRTY), ..listing(TraceFormat::Bare) };
    let told = of_listing(told, Wanted::default()).expect("a video");
    assert_eq!((told.frame_rate, &told.notes[..]), (Some(FrameRate::THIRTY), &[][..]));
}
