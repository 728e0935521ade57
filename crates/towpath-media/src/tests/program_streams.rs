//! Program streams that ffmpeg does not make: MPEG-2 packs with stuffing, maps, and ends.

use std::prelude::rust_2024::*;
use std::vec;

use super::whole::lists;
use towpath_media::read::{Codec, FaultKind, Format, FrameLists, Reader};

const CLIP: &[u8] = include_bytes!("../../data/mpeg1.mpg");
const ROWS: &str = include_str!("../../data/mpeg1.mpg.frames.csv");
const PICTURES: &[u8] = include_bytes!("../../data/mpeg1.m1v");
const PICTURE_ROWS: &str = include_str!("../../data/mpeg1.m1v.frames.csv");

/// Where a start code of this kind stands.
fn codes(bytes: &[u8], kind: u8) -> Vec<u64> {
    let found = bytes.windows(4).enumerate().filter(|(_, w)| *w == [0, 0, 1, kind]);
    found.map(|(at, _)| at as u64).collect()
}

/// An MPEG-2 pack header with this clock, in ticks of 27 MHz, and so much stuffing.
fn pack(ticks: u64, stuffing: u8) -> Vec<u8> {
    let (base, extension) = (ticks / 300, ticks % 300);
    let mut field = 0b01_u64 << 46;
    for (part, shift) in [(base >> 30 & 7, 43), (base >> 15 & 0x7FFF, 27), (base & 0x7FFF, 11)] {
        field |= part << shift;
    }
    field |= extension << 1 | 1 << 42 | 1 << 26 | 1 << 10 | 1;
    let mut bytes = vec![0, 0, 1, 0xBA];
    bytes.extend(&field.to_be_bytes()[2..]);
    bytes.extend([0, 0, 3, 0xF8 | stuffing]);
    bytes.resize(bytes.len() + usize::from(stuffing), 0xFF);
    bytes
}

/// A start code and its length, and what follows.
fn long(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 1, kind];
    bytes.extend((content.len() as u16).to_be_bytes());
    bytes.extend(content);
    bytes
}

/// An MPEG-2 packet of a stream, with stuffing in its header.
fn packet(stream: u8, stuffing: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, 0, stuffing];
    bytes.resize(3 + usize::from(stuffing), 0xFF);
    bytes.extend(content);
    long(stream, &bytes)
}

fn fed(bytes: &[u8], piece: usize) -> FrameLists {
    let (mut reader, mut lists) = (Reader::new(), FrameLists::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece, &mut lists).expect("its format is known");
    }
    assert_eq!(reader.finish(&mut lists), Ok(Format::ProgramStream));
    lists
}

fn rows(lists: &FrameLists, stream: u16) -> Vec<u64> {
    lists.frames_of(stream).map(|frame| frame.size).collect()
}

fn sizes(rows: &str) -> Vec<u64> {
    rows.lines().map(|row| row.split(',').next().expect("a size").parse().expect("one")).collect()
}

#[test]
fn clocks_stand_where_their_packs_do() {
    let (_, lists) = lists(CLIP);
    let clocks: Vec<(u64, u64)> = lists.clocks.iter().map(|c| (c.offset, c.position)).collect();
    let packs: Vec<(u64, u64)> = codes(CLIP, 0xBA).iter().map(|at| (at + 8, at + 8)).collect();
    assert!(packs.len() > 1);
    assert_eq!(clocks, packs);
}

#[test]
fn an_end_code_ends_nothing_that_follows() {
    let end = [0, 0, 1, 0xB9];
    let (_, once) = lists(&[CLIP, &end].concat());
    assert_eq!((once.faults.total(), rows(&once, 0)), (0, sizes(ROWS)));
    let (_, twice) = lists(&[CLIP, &end, CLIP, &end].concat());
    assert_eq!(twice.faults.count(FaultKind::Garbage), 0);
    assert_eq!(twice.frames.len(), 2 * once.frames.len());
}

#[test]
fn maps_tell_codecs_and_heads_are_read_however_they_are_cut() {
    // Clocks with every bit of base and extension in use.
    let ticks = [(1 << 33) * 300 - 27_000_000, (0x1_5555_5555 + 1) * 300 + 171, 299];
    let map = [0xE1, 0xFF, 0, 0, 0, 8, 0x01, 0xE0, 0, 0, 0x0F, 0xC1, 0, 0, 1, 2, 3, 4];
    let mut bytes = Vec::new();
    for (n, piece) in PICTURES.chunks(PICTURES.len().div_ceil(3)).enumerate() {
        bytes.extend(pack(ticks[n], 3 * n as u8));
        if n == 0 {
            bytes.extend(long(0xBB, &[0x80, 0, 1, 0, 0xE1, 0x7F]));
            bytes.extend(long(0xBC, &map));
        }
        bytes.extend(long(0xBE, &[0xFF; 77]));
        for content in piece.chunks(2000) {
            bytes.extend(packet(0xE0, 11, content));
        }
        for stream in [0xC0, 0xC1, 0xBD] {
            bytes.extend(packet(stream, 0, &[0x77; 40]));
        }
    }
    for piece in [1, 2, 7, 5000, bytes.len()] {
        let lists = fed(&bytes, piece);
        assert_eq!(rows(&lists, 0), sizes(PICTURE_ROWS), "pieces of {piece}");
        let streams: Vec<_> =
            lists.streams.iter().map(|s| (s.id, s.stream_type, s.codec)).collect();
        let told = [
            (0xE0, 1, Codec::Mpeg1Video),
            (0xC0, 0, Codec::MpegAudio),
            (0xC1, 0x0F, Codec::Aac),
            (0xBD, 0, Codec::Other),
        ];
        assert_eq!(streams, told, "pieces of {piece}");
        let raw: Vec<u64> = lists.clocks.iter().map(|c| c.raw_ticks).collect();
        assert_eq!(raw, ticks, "pieces of {piece}");
        assert_eq!(lists.faults.count(FaultKind::Garbage), 0);
        assert_eq!(lists.faults.count(FaultKind::Truncated), 0);
    }
}

#[test]
fn what_is_no_pack_is_passed_and_its_place_is_told() {
    let packs = codes(CLIP, 0xBA);
    let (middle, last) = (packs[packs.len() / 2] as usize, CLIP.len());
    for junk in [&b"no start code"[..], &[0, 0, 1, 0xBA, 0xF0, 0, 0], &[0, 0, 1, 0x42, 7]] {
        let bytes = [&CLIP[..middle], junk, &CLIP[middle..last]].concat();
        for piece in [1, 10, bytes.len()] {
            let lists = fed(&bytes, piece);
            assert_eq!(lists.faults.count(FaultKind::Garbage), 1, "{junk:?} by {piece}");
            let offsets: Vec<u64> = lists.clocks.iter().map(|c| c.offset).collect();
            let moved = |at: &u64| {
                let behind = *at as usize >= middle;
                at + 8 + if behind { junk.len() as u64 } else { 0 }
            };
            assert_eq!(offsets, packs.iter().map(moved).collect::<Vec<_>>(), "{junk:?}");
        }
    }
    // Zeros before a start code are none.
    let filled = [&CLIP[..middle], &[0; 50], &CLIP[middle..]].concat();
    assert_eq!(fed(&filled, 999).faults.total(), 0);
    // A clock's extension beyond 299.
    let wrong = [pack(300 * 90_000 + 299, 0), packet(0xE0, 0, &PICTURES[..1000])].concat();
    let extension = fed(&wrong, 3);
    assert_eq!(extension.faults.count(FaultKind::ClockExtension), 0);
    let mut high = wrong;
    (high[8], high[9]) = (high[8] | 3, 0xFF);
    assert_eq!(fed(&high, 3).faults.count(FaultKind::ClockExtension), 1);
}
