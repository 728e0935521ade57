//! What clips of ffmpeg do not have: packets of 204 bytes, tables that change, programs side by
//! side, pictures in two fields, AVI files of several parts. Made here, byte by byte, from clips
//! whose frames are known.

use std::prelude::rust_2024::*;
use std::vec;

use super::count::{PACKET, pcrs};
use super::whole::{inspect, lists};
use towpath_media::read::{Codec, FaultKind, Format, FrameLists, FrameType, Reader};

const CLIP: &[u8] = include_bytes!("../../data/mpeg2.ts");
const ROWS: &str = include_str!("../../data/mpeg2.ts.frames.csv");
const AVI: &[u8] = include_bytes!("../../data/jpeg.avi");
const AVI_ROWS: &str = include_str!("../../data/jpeg.avi.frames.csv");
/// PIDs of the clip.
const MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;
const SOUND: u16 = 0x101;

fn sizes(rows: &str) -> Vec<u64> {
    let size = |row: &str| row.split(',').next().and_then(|size| size.parse().ok());
    rows.lines().map(|row| size(row).expect("a row starts with a size")).collect()
}

fn sizes_of(lists: &FrameLists, stream: u16) -> Vec<u64> {
    lists.frames_of(stream).map(|f| f.size).collect()
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1F, packet[2]])
}

fn set_pid(packet: &mut [u8], pid: u16) {
    packet[1] = packet[1] & 0xE0 | (pid >> 8) as u8;
    packet[2] = pid as u8;
}

/// CRC-32/MPEG-2, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let bits = bytes.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1));
    bits.fold(u32::MAX, |crc, bit| {
        let carry = crc >> 31 ^ u32::from(bit);
        (crc << 1) ^ (carry * 0x04C1_1DB7)
    })
}

/// Changes the body of the section in a packet, between its version and its CRC.
fn edit(packet: &mut [u8], version: u8, id: u16, body: &[u8]) {
    let section = &mut packet[5..];
    let length = 9 + body.len() as u16;
    section[1] = section[1] & 0xF0 | (length >> 8) as u8;
    section[2] = length as u8;
    section[3..5].copy_from_slice(&id.to_be_bytes());
    section[5] = 0xC1 | version << 1;
    section[8..8 + body.len()].copy_from_slice(body);
    let end = 8 + body.len();
    let crc = crc(&section[..end]);
    section[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    section[end + 4..].fill(0xFF);
}

fn association(packet: &mut [u8], version: u8, programs: &[(u16, u16)]) {
    let body: Vec<u8> = programs
        .iter()
        .flat_map(|&(number, map)| [number.to_be_bytes(), (map | 0xE000).to_be_bytes()].concat())
        .collect();
    edit(packet, version, 1, &body);
}

/// Pictures on one PID, with the clock, and sound on another.
fn map(packet: &mut [u8], version: u8, program: u16, video: u16, sound: u16) {
    let [v1, v0] = (video | 0xE000).to_be_bytes();
    let [s1, s0] = (sound | 0xE000).to_be_bytes();
    let body = [v1, v0, 0xF0, 0, 2, v1, v0, 0xF0, 0, 3, s1, s0, 0xF0, 0];
    edit(packet, version, program, &body);
}

/// The first packet of the second half in which a picture's PES packet starts.
fn middle() -> usize {
    let packets = CLIP.chunks(PACKET).enumerate().skip(CLIP.len() / PACKET / 2);
    let mut starts = packets.filter(|(_, p)| pid(p) == VIDEO && p[1] & 0x40 != 0);
    starts.next().expect("there are many").0
}

#[test]
fn packets_of_204_bytes() {
    // Parity that looks like packets' first bytes does not lead astray.
    for parity in [0x00, 0x47, 0xB8] {
        let packets = CLIP.chunks(PACKET).flat_map(|p| [p, &[parity; 16]].concat());
        let bytes: Vec<u8> = packets.collect();
        let (format, lists) = lists(&bytes);
        assert_eq!((format, lists.faults.total()), (Format::Ts204, 0), "{parity}");
        assert_eq!(sizes_of(&lists, 0), sizes(ROWS));
        let (report, plain) = (inspect(&bytes), inspect(CLIP));
        assert_eq!(report.clocks, plain.clocks, "rates count packets of 188 bytes");
        assert_eq!(report.checks.len(), plain.checks.len());
        for (our, theirs) in report.checks.iter().zip(&plain.checks) {
            assert_eq!(our.count, theirs.count, "{}", our.name);
        }
        let offsets: Vec<u64> = lists.clocks.iter().map(|c| c.offset).collect();
        let expected: Vec<u64> = pcrs(CLIP).iter().map(|(i, _)| i * 204 + 10).collect();
        assert_eq!(offsets, expected);
    }
}

#[test]
fn a_map_of_a_new_version_moves_the_pictures() {
    let (middle, moved) = (middle(), 0x200);
    let mut bytes = CLIP.to_vec();
    let mut comes_again = false;
    for (i, packet) in bytes.chunks_mut(PACKET).enumerate() {
        match pid(packet) {
            MAP if i >= middle => map(packet, 1, 1, moved, SOUND),
            VIDEO if i >= middle => set_pid(packet, moved),
            _ => {}
        }
    }
    // The new map must be there before the first packet on the new PID.
    let mut packet = CLIP.chunks(PACKET).find(|p| pid(p) == MAP).expect("a map").to_vec();
    map(&mut packet, 1, 1, moved, SOUND);
    let before = CLIP.chunks(PACKET).take(middle).filter(|p| pid(p) == MAP).count();
    packet[3] = 0x10 | (before & 15) as u8;
    for later in bytes[middle * PACKET..].chunks_mut(PACKET).filter(|p| pid(p) == MAP) {
        later[3] = 0x10 | (later[3] + 1) & 15;
        comes_again = true;
    }
    assert!(comes_again, "the map comes again in the second half");
    bytes.splice(middle * PACKET..middle * PACKET, packet);

    let (_, lists) = lists(&bytes);
    assert_eq!(lists.faults.total(), 0, "{:?}", lists.faults);
    let streams: Vec<_> = lists.streams.iter().map(|s| (s.id, s.codec)).collect();
    let expected =
        [(VIDEO, Codec::Mpeg2Video), (SOUND, Codec::MpegAudio), (moved, Codec::Mpeg2Video)];
    assert_eq!(streams, expected);
    let all = [sizes_of(&lists, 0), sizes_of(&lists, 2)];
    assert!(all.iter().all(|part| part.len() > 20));
    assert_eq!(all.concat(), sizes(ROWS));

    let report = inspect(&bytes);
    assert_eq!(report.programs.len(), 1);
    let program = &report.programs[0];
    assert_eq!((program.version, program.clock_pid), (1, moved));
    assert_eq!(program.streams, [2, 1]);
    assert_eq!(report.clocks.len(), 2, "one on each PID");
}

#[test]
fn tables_of_new_versions_that_say_the_same_change_nothing() {
    let middle = middle();
    let mut bytes = CLIP.to_vec();
    for (i, packet) in bytes.chunks_mut(PACKET).enumerate() {
        match pid(packet) {
            MAP if i >= middle => map(packet, 7, 1, VIDEO, SOUND),
            0 if i >= middle => association(packet, 9, &[(1, MAP)]),
            _ => {}
        }
    }
    let (_, lists) = lists(&bytes);
    assert_eq!((lists.faults.total(), lists.streams.len()), (0, 2));
    assert_eq!(sizes_of(&lists, 0), sizes(ROWS));
    let report = inspect(&bytes);
    assert_eq!((report.programs.len(), report.programs[0].version), (1, 7));
}

#[test]
fn a_table_for_later_is_not_in_force() {
    let mut bytes = CLIP.to_vec();
    for packet in bytes.chunks_mut(PACKET).filter(|p| pid(p) == MAP).skip(1) {
        map(packet, 1, 1, 0x300, 0x301);
        // current_next_indicator: next.
        packet[5 + 5] &= !1;
        let end = 5 + 8 + 14;
        let crc = crc(&packet[5..end]);
        packet[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    }
    let (_, lists) = lists(&bytes);
    assert_eq!((lists.faults.total(), lists.streams.len()), (0, 2));
    assert_eq!(sizes_of(&lists, 0), sizes(ROWS));
}

#[test]
fn an_association_of_a_new_version_moves_the_map() {
    let (middle, moved) = (middle(), 0x1234);
    let mut bytes = CLIP.to_vec();
    let mut told = false;
    for (i, packet) in bytes.chunks_mut(PACKET).enumerate() {
        match pid(packet) {
            0 if i >= middle => {
                told = true;
                association(packet, 1, &[(1, moved)]);
            }
            MAP if told => {
                map(packet, 1, 1, VIDEO, SOUND);
                set_pid(packet, moved);
            }
            _ => {}
        }
    }
    let report = inspect(&bytes);
    assert_eq!(report.programs.len(), 1);
    assert_eq!((report.programs[0].map_pid, report.programs[0].version), (moved, 1));
    assert_eq!(report.streams[0].frames, 50);
    assert_eq!(report.faults.total(), 0);
}

#[test]
fn three_programs_side_by_side() {
    let shift = |n: u16| n * 0x40;
    let programs: Vec<(u16, u16)> = (0..3).map(|n| (n + 1, MAP + shift(n))).collect();
    let mut bytes = Vec::new();
    for packet in CLIP.chunks(PACKET) {
        if pid(packet) < 0x20 {
            let at = bytes.len();
            bytes.extend(packet);
            if pid(packet) == 0 {
                association(&mut bytes[at..], 0, &programs);
            }
            continue;
        }
        for n in 0..3 {
            let mut copy = packet.to_vec();
            if pid(packet) == MAP {
                map(&mut copy, 0, n + 1, VIDEO + shift(n), SOUND + shift(n));
            }
            set_pid(&mut copy, pid(packet) + shift(n));
            bytes.extend(copy);
        }
    }
    let (_, lists) = lists(&bytes);
    assert_eq!((lists.faults.total(), lists.streams.len()), (0, 6));
    let report = inspect(&bytes);
    assert_eq!(report.programs.len(), 3);
    for (n, program) in (0..).zip(&report.programs) {
        assert_eq!((program.number, program.clock_pid), (n + 1, VIDEO + shift(n)));
        assert_eq!(sizes_of(&lists, program.streams[0]), sizes(ROWS), "program {n}");
    }
    let counts: Vec<u64> = report.clocks.iter().map(|c| c.count).collect();
    assert_eq!(counts, [pcrs(CLIP).len() as u64; 3]);
    let plain = inspect(CLIP);
    for clock in &report.clocks {
        assert_eq!(clock.interval, plain.clocks[0].interval);
    }
}

/// A picture header, its coding extension and a slice of so many bytes.
fn picture(kind: u8, structure: u8, slice: usize) -> Vec<u8> {
    let mut bytes = vec![0, 0, 1, 0x00, 0, kind << 3, 0xFF, 0xF8];
    bytes.extend([0, 0, 1, 0xB5, 0x8F, 0xFF, 0xF0 | structure, 0x80, 0]);
    bytes.extend([0, 0, 1, 0x01]);
    bytes.resize(bytes.len() + slice, 0x5A);
    bytes
}

#[test]
fn two_fields_of_mpeg2_are_one_frame() {
    let mut header = vec![0, 0, 1, 0xB3, 0x02, 0x00, 0x20, 0x13, 0xFF, 0xFF, 0xE0, 0x00];
    header.extend([0, 0, 1, 0xB5, 0x14, 0x82, 0, 1, 0, 0]);
    let (i, p, b, top, bottom, whole) = (1, 2, 3, 1, 2, 3);
    let pictures = [
        // Fields may be of unlike types: I and P.
        (picture(i, top, 700), Some(picture(p, bottom, 150)), FrameType::I),
        (picture(p, bottom, 90), Some(picture(p, top, 80)), FrameType::P),
        (picture(b, whole, 40), None, FrameType::B),
        (picture(b, top, 30), Some(picture(b, bottom, 20)), FrameType::B),
    ];
    let mut bytes = header;
    let mut expected = Vec::new();
    for (first, second, kind) in pictures {
        let before = if expected.is_empty() { 0 } else { bytes.len() };
        bytes.extend(first);
        bytes.extend(second.unwrap_or_default());
        expected.push(((bytes.len() - before) as u64, kind));
    }
    let (format, lists) = lists(&bytes);
    assert_eq!((format, lists.faults.total()), (Format::MpegVideo, 0));
    let found: Vec<_> = lists.frames.iter().map(|f| (f.size, f.kind)).collect();
    assert_eq!(found, expected);
    let video = lists.streams[0].video.expect("its sequence header tells");
    assert_eq!((video.width, video.height, video.fps_num), (32, 32, 25));
}

pub(super) fn chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes
}

#[test]
fn an_avi_of_several_parts_goes_on_behind_the_first() {
    let at = AVI.windows(4).position(|w| w == b"movi").expect("a list of frames");
    let index = AVI.windows(4).position(|w| w == b"idx1").expect("an index");
    let frames = &AVI[at + 4..index];
    // A part has an index of its own (OpenDML), and frames may stand in records.
    let standard_index = chunk(*b"ix00", &[0; 32]);
    let record = chunk(*b"LIST", &[b"rec ", frames].concat());
    for (what, body) in [
        ("chunks", [frames, &standard_index].concat()),
        ("index first", [&standard_index, frames].concat()),
        ("records", record),
    ] {
        let list = chunk(*b"LIST", &[b"movi", &body[..]].concat());
        let part = chunk(*b"RIFF", &[b"AVIX", &list[..]].concat());
        let bytes = [AVI, &part, &part].concat();
        let (format, lists) = lists(&bytes);
        assert_eq!((format, lists.faults.total()), (Format::Avi, 0), "{what}");
        assert_eq!(sizes_of(&lists, 0), sizes(AVI_ROWS).repeat(3), "{what}");
        let steps = lists.frames.windows(2).map(|w| w[1].dts.zip(w[0].dts).map(|(b, a)| b - a));
        let steps: Vec<_> = steps.collect();
        assert!(steps.iter().all(|step| *step == Some(3600)), "{what}: {steps:?}");
        // Cut in the last part: the frames before the cut are whole.
        let cut = &bytes[..bytes.len() - part.len() / 2];
        let (_, lists) = super::whole::lists(cut);
        assert_eq!(lists.faults.count(FaultKind::Truncated), 1, "{what}");
        let whole = lists.frames.iter().filter(|f| !f.damaged).count();
        assert!((12..18).contains(&whole), "{what}: {whole}");
    }
}

#[test]
fn raw_video_of_an_avi_is_video() {
    // No handler, no compression: the header alone says that it is pictures.
    let mut bytes = AVI.to_vec();
    let four = |bytes: &[u8], name: &[u8]| {
        let found = bytes.windows(4).enumerate().filter(|(_, w)| *w == name);
        found.map(|(at, _)| at).collect::<Vec<_>>()
    };
    for at in four(&bytes, b"MJPG") {
        bytes[at..at + 4].fill(0);
    }
    let (format, lists) = lists(&bytes);
    assert_eq!((format, lists.faults.total()), (Format::Avi, 0));
    let video = lists.video().expect("its frames are pictures");
    assert_eq!((video.codec, video.index), (Codec::Other, 0));
    assert_eq!(sizes_of(&lists, 0), sizes(AVI_ROWS));
    assert_eq!(inspect(&bytes).streams[0].frames, lists.frames.len() as u64);
    assert_eq!(lists.frame_rate(0), Some((25, 1)));
}

#[test]
fn pids_are_labelled_by_what_the_tables_say_of_them() {
    let (clock, data, lone, private) = (0x140, 0x141, 0x142, 0x143);
    let mut bytes = CLIP.to_vec();
    for packet in bytes.chunks_mut(PACKET).filter(|p| pid(p) == MAP) {
        let mut body = vec![0xE0 | (clock >> 8) as u8, clock as u8, 0xF0, 0];
        for (kind, of) in [(2, VIDEO), (3, SOUND), (0x80, data), (6, private)] {
            body.extend([kind, 0xE0 | (of >> 8) as u8, of as u8, 0xF0, 0]);
        }
        edit(packet, 0, 1, &body);
    }
    let filler = CLIP.chunks(PACKET).next().expect("packets");
    let more = [1, 2, 0x10, 0x11, 0x12, 0x14, 0x1FFF, clock, data, lone, private];
    for of in more {
        let mut packet = filler.to_vec();
        set_pid(&mut packet, of);
        packet[1] &= 0x1F;
        // An adaptation field of nothing but stuffing.
        packet[3..6].copy_from_slice(&[0x20, 183, 0]);
        packet[6..].fill(0xFF);
        bytes.extend(packet);
    }
    let report = inspect(&bytes);
    let labels: Vec<(u16, &str)> = report.pids.iter().map(|p| (p.pid, p.label.as_str())).collect();
    let expected = [
        (0, "PAT"),
        (1, "CAT"),
        (2, "TSDT"),
        (0x10, "NIT"),
        (0x11, "SDT"),
        (0x12, "EIT"),
        (0x14, "TDT"),
        (VIDEO, "video"),
        (SOUND, "audio"),
        (clock, "clock"),
        (data, "data"),
        (lone, "unreferenced"),
        (private, "data"),
        (MAP, "PMT 1"),
        (0x1FFF, "null"),
    ];
    assert_eq!(labels, expected);
    let plain = inspect(CLIP);
    let video = plain.pids.iter().find(|p| p.pid == VIDEO).expect("it has pictures");
    assert_eq!((video.label.as_str(), video.scrambled), ("video and clock", 0));
    let packets = CLIP.chunks(PACKET).filter(|p| pid(p) == VIDEO).count();
    assert_eq!(video.packets, packets as u64);
}

#[test]
fn nothing_but_its_table_belongs_on_a_tables_pid() {
    let count = |bytes: &[u8], name| {
        let report = inspect(bytes);
        report.checks.iter().find(|check| check.name == name).expect("a check").count
    };
    let mut bytes = CLIP.to_vec();
    let packet = bytes.chunks_mut(PACKET).filter(|p| pid(p) == 0).nth(1).expect("a second");
    packet[5] = 0x42;
    association(packet, 0, &[(1, MAP)]);
    assert_eq!(count(CLIP, "PAT_error"), 0);
    assert_ne!(count(&bytes, "PAT_error"), 0, "a table of services");
    assert_eq!(count(&bytes, "CRC_error"), 0);
    // Scrambled ones cannot be read.
    for (of, name) in [(0, "PAT_error"), (MAP, "PMT_error")] {
        let mut bytes = CLIP.to_vec();
        let packet = bytes.chunks_mut(PACKET).filter(|p| pid(p) == of).nth(1).expect("a second");
        packet[3] |= 0x80;
        assert_ne!(count(&bytes, name), 0, "{name}");
        let other = if of == 0 { "PMT_error" } else { "PAT_error" };
        assert_eq!(count(&bytes, other), count(CLIP, other), "{name}");
    }
}

#[test]
fn a_reader_that_was_told_the_format_does_not_look_for_it() {
    let formats = [Format::Ts188, Format::Ts192, Format::MpegVideo, Format::Avi];
    for format in formats {
        assert_eq!(Reader::with_format(format).format(), Some(format));
    }
    let (mut reader, mut lists) = (Reader::new(), FrameLists::new());
    assert_eq!(reader.format(), None);
    reader.push(CLIP, &mut lists).expect("its format is known");
    assert_eq!(reader.format(), Some(Format::Ts188));
}
