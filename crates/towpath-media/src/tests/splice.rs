//! Films of two parts whose clocks do not go on: as long as both together, whoever tells it.

use std::format;
use std::prelude::rust_2024::*;

use super::count::{PACKET, pcrs};
use super::whole::{inspect, lists};
use towpath_media::plan::{Note, Video, Wanted, of_media};
use towpath_media::read::CLOCK_HZ;
use towpath_media::schedule::cbr;
use towpath_media::trace::{FrameRate, Trace};

/// 50 frames at 25 per second.
const CLIP: &[u8] = include_bytes!("../../data/mpeg2.ts");
const ROWS: &str = include_str!("../../data/mpeg2.ts.frames.csv");
const MODULUS: u64 = 1 << 33;

/// The clip with all clock references and time stamps moved by so many 90 kHz ticks.
fn moved(by: u64) -> Vec<u8> {
    let mut bytes = CLIP.to_vec();
    for (packet, ticks) in pcrs(CLIP) {
        let field = &mut bytes[packet as usize * PACKET..][6..12];
        let base = (ticks / 300 + by) % MODULUS;
        field.copy_from_slice(&((base << 15) | (0x3F << 9) | (ticks % 300)).to_be_bytes()[2..]);
    }
    for packet in bytes.chunks_mut(PACKET).filter(|p| p[1] & 0x40 != 0) {
        let start = if packet[3] & 0x20 != 0 { 5 + usize::from(packet[4]) } else { 4 };
        let pes = &mut packet[start..];
        if !pes.starts_with(&[0, 0, 1]) {
            continue;
        }
        let stamps = [0, 0, 1, 2][usize::from(pes[7] >> 6)];
        for field in pes[9..].chunks_mut(5).take(stamps) {
            let byte = |i: usize| u64::from(field[i]);
            let (high, middle) = ((byte(0) >> 1) & 7, (byte(1) << 7) | (byte(2) >> 1));
            let old = (high << 30) | (middle << 15) | (byte(3) << 7) | (byte(4) >> 1);
            let new = (old + by) % MODULUS;
            field[0] = (field[0] & 0xF1) | ((new >> 29) as u8 & 0x0E);
            field[1] = (new >> 22) as u8;
            field[2] = (new >> 14) as u8 | 1;
            field[3] = (new >> 7) as u8;
            field[4] = (new << 1) as u8 | 1;
        }
    }
    bytes
}

/// Two parts, the second moved; `announced`: by its first packet with a clock.
fn spliced(by: u64, announced: bool) -> Vec<u8> {
    let mut second = moved(by);
    if announced {
        let first = pcrs(&second)[0].0 as usize * PACKET;
        second[first + 5] |= 0x80;
    }
    [CLIP, &second].concat()
}

/// Clock references from the `from`th on, `count` of them, are stuffing instead.
fn without_references(mut bytes: Vec<u8>, from: usize, count: usize) -> Vec<u8> {
    for (packet, _) in pcrs(&bytes).into_iter().skip(from).take(count) {
        let packet = &mut bytes[packet as usize * PACKET..][..PACKET];
        packet[5] &= !0x10;
        packet[6..12].fill(0xFF);
    }
    bytes
}

fn video(bytes: &[u8], pcr: bool) -> Video {
    let (format, lists) = lists(bytes);
    of_media(&lists, format, bytes.len() as u64, Wanted { pcr, ..Wanted::default() })
        .expect("a video")
}

/// The film by its frames, twice.
fn expected() -> Trace {
    let sizes = || ROWS.lines().filter_map(|row| row.split(',').next()?.parse().ok());
    Trace::uniform(sizes().chain(sizes()), FrameRate::TWENTY_FIVE).expect("a trace")
}

#[test]
fn a_spliced_film_is_as_long_as_its_parts() {
    let minutes = |n: u64| n * 60 * 90_000;
    // Forth and back by 83 minutes, by 3 s, by nothing, and over the end of the counter.
    for by in [minutes(83), MODULUS - minutes(83), 3 * 90_000, 0, MODULUS - 90_000] {
        for announced in [true, false] {
            let what = format!("{by} {announced}");
            let bytes = spliced(by, announced);
            let frames = video(&bytes, false);
            assert_eq!(frames.trace, expected(), "{what}: what was filmed, at 25 per second");
            assert!(frames.notes.contains(&Note::Breaks(1)), "{what}: {:?}", frames.notes);
            let all = video(&bytes, true);
            assert!(all.notes.contains(&Note::Breaks(1)), "{what}: {:?}", all.notes);
            let report = inspect(&bytes);
            let told = report.duration_s.expect("a length");
            for trace in [&frames.trace, &all.trace] {
                let seconds = trace.seconds(trace.duration());
                // The last group, and what is between the parts, have no length of their own.
                assert!((seconds - told).abs() < 0.3, "{what}: {seconds} and {told}");
            }
        }
    }
}

/// The second part begins with frames, its first reference comes later; or there is none at all,
/// since the clock is in a stream that was not recorded.
#[test]
fn a_splice_is_seen_before_or_without_a_reference() {
    let seconds = |n: u64| n * 90_000;
    let references = pcrs(CLIP).len();
    for by in [seconds(40), seconds(4980), MODULUS - seconds(40), MODULUS - seconds(4980)] {
        let late = without_references(spliced(by, false), references, 1);
        let none = without_references(spliced(by, false), 0, usize::MAX);
        for (what, bytes) in [("late", late), ("none", none)] {
            let film = video(&bytes, false);
            assert_eq!(film.trace, expected(), "{what}, {by}: at 25 per second");
            assert!(film.notes.contains(&Note::Breaks(1)), "{what}, {by}: {:?}", film.notes);
        }
    }
}

/// A spliced film needs the rate that its frames need, and not that of a film of 83 minutes.
#[test]
fn a_spliced_film_needs_what_its_frames_need() {
    let video = video(&spliced(83 * 60 * 90_000, true), false);
    let rate = |trace: &Trace| cbr::least_rate(trace, trace.ticks_per_second()).expect("a rate");
    assert_eq!(rate(&video.trace), rate(&expected()));
    assert!(video.trace.seconds(video.trace.duration()) < 4.1);
}

/// Moved as a whole, over the end of the counter too, it is the same film.
#[test]
fn a_film_that_wraps_does_not_break() {
    for by in [0, MODULUS - 90_000, MODULUS - 2 * 90_000] {
        let video = video(&moved(by), false);
        assert_eq!((video.trace.groups(), video.notes.as_slice()), (50, &[][..]), "{by}");
        assert_eq!(video.frame_rate, Some(FrameRate::TWENTY_FIVE));
    }
    assert_eq!(CLOCK_HZ / 300, 90_000);
}
