//! Bytes in which nothing is right are never "undamaged".

use std::prelude::rust_2024::*;
use std::vec;

use super::whole::inspect;
use towpath_media::inspect::{Inspector, Report};
use towpath_media::read::{FaultKind, Reader};

/// What is told of bytes, if anything at all.
fn told(bytes: &[u8]) -> Option<Report> {
    let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
    reader.push(bytes, &mut inspector).ok()?;
    let format = reader.finish(&mut inspector).ok()?;
    Some(inspector.report(format, reader.bytes()))
}

fn list(kind: [u8; 4], name: [u8; 4], length: u32, content: &[u8]) -> Vec<u8> {
    [&kind[..], &length.to_le_bytes(), &name, content].concat()
}

/// Bytes at random, the same ones each time.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn garbage_of_every_kind_is_not_undamaged() {
    let packets = |head: &[u8], fill: u8| {
        let mut packet = head.to_vec();
        packet.resize(188, fill);
        packet.repeat(300)
    };
    let stream_header = [&b"vidsMJPG"[..], &[0; 48]].concat();
    let kinds: Vec<(&str, Vec<u8>)> = vec![
        ("sequence start codes", [0, 0, 1, 0xB3].repeat(4000)),
        (
            "sequence headers of no picture",
            [0, 0, 1, 0xB3, 0x16, 0, 0xF0, 0x13, 9, 9, 9, 9].repeat(500),
        ),
        (
            "slices without a picture",
            [&[0, 0, 1, 0xB3][..], &[0, 0, 1, 1, 7, 7].repeat(900)].concat(),
        ),
        ("pack start codes", [0, 0, 1, 0xBA].repeat(4000)),
        ("a pack and nothing", vec![0, 0, 1, 0xBA, 0x21, 0, 1, 0, 1, 0x80, 0, 1]),
        ("empty sequence parameters", [0, 0, 0, 1, 0x67].repeat(3000)),
        ("empty parameters of both kinds", [0, 0, 1, 0x67, 0, 0, 1, 0x68].repeat(2000)),
        ("delimiters", [0, 0, 0, 1, 0x09, 0xF0].repeat(2000)),
        ("delimiters and empty slices", [0, 0, 1, 0x09, 0xF0, 0, 0, 1, 0x65].repeat(2000)),
        ("empty parameters of H.265", [0, 0, 0, 1, 0x42, 1, 0, 0, 1, 0x44, 1].repeat(2000)),
        ("images of nothing", [0xFF, 0xD8, 0xFF, 0xD9].repeat(2000)),
        ("an image that begins", [&[0xFF, 0xD8, 0xFF, 0xE0][..], &noise(3, 5000)].concat()),
        (
            "a list of 4 GiB",
            list(*b"RIFF", *b"AVI ", u32::MAX, &list(*b"LIST", *b"hdrl", u32::MAX, b"")),
        ),
        (
            "lists of 4 GiB",
            list(*b"RIFF", *b"AVI ", u32::MAX, &list(*b"LIST", *b"movi", u32::MAX, b"")),
        ),
        ("an unfinished file of nothing", list(*b"RIFF", *b"AVI ", 0, b"")),
        ("an unfinished list", list(*b"RIFF", *b"AVI ", 0, &list(*b"LIST", *b"movi", 0, b""))),
        (
            "a stream without a frame",
            list(
                *b"RIFF",
                *b"AVI ",
                0,
                &[&b"strh"[..], &56u32.to_le_bytes(), &stream_header].concat(),
            ),
        ),
        ("packets of nothing", packets(&[0x47, 0x1F, 0xFF, 0x10], 0xFF)),
        ("packets of zeros", packets(&[0x47], 0)),
        ("packets of a stream that no table names", packets(&[0x47, 1, 0, 0x20, 183, 0], 0xFF)),
        ("the letter G", vec![b'G'; 9000]),
        ("zeros", vec![0; 9000]),
        ("start codes of all kinds", (0..=255).flat_map(|code| [0, 0, 1, code]).collect()),
        ("system headers", [0, 0, 1, 0xBB, 0, 0].repeat(1000)),
        ("padding", [0, 0, 1, 0xBE, 0, 2, 9, 9].repeat(1000)),
    ];
    for (what, bytes) in kinds {
        if let Some(report) = told(&bytes) {
            assert!(report.faults.total() > 0, "{what} is undamaged: {report:?}");
        }
    }
    for seed in 0..400 {
        for head in
            [&[][..], &[0, 0, 1, 0xB3], &[0, 0, 1, 0xBA], &[0, 0, 1, 0x67], &[0xFF, 0xD8, 0xFF]]
        {
            let bytes = [head, &noise(seed, 700)].concat();
            if let Some(report) = told(&bytes) {
                assert!(report.faults.total() > 0, "{head:x?} {seed} is undamaged: {report:?}");
            }
        }
    }
}

/// What is cut after its first picture is proven, and what is not touched at all.
#[test]
fn what_is_whole_is_undamaged() {
    for bytes in [
        &include_bytes!("../../data/mpeg2.ts")[..],
        include_bytes!("../../data/mpeg2.m2ts"),
        include_bytes!("../../data/mpeg1.mpg"),
        include_bytes!("../../data/mpeg1.m1v"),
        include_bytes!("../../data/h264.ts"),
        include_bytes!("../../data/hevc.h265"),
        include_bytes!("../../data/jpeg.mjpeg"),
        include_bytes!("../../data/jpeg.avi"),
        include_bytes!("../../data/sound.avi"),
    ] {
        let report = inspect(bytes);
        assert_eq!(report.faults.total(), 0, "{:?}: {:?}", report.format, report.faults);
    }
}

/// A capture that begins anywhere: the packet that is cut is told, and where the first whole one
/// starts.
#[test]
fn a_transport_stream_that_begins_inside_a_packet_is_not_undamaged() {
    let clip = include_bytes!("../../data/mpeg2.ts");
    for cut in [1, 100, 187] {
        let report = inspect(&clip[cut..]);
        let faults: Vec<_> =
            report.faults.kinds.iter().map(|f| (f.kind, &f.first_offsets[..])).collect();
        let first = 188 - cut as u64;
        assert!(faults.contains(&(FaultKind::Headless, &[first][..])), "{faults:?}");
    }
}
