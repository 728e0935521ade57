//! AVI files made chunk by chunk: formats, lengths and indexes.

use std::prelude::rust_2024::*;

use super::containers::chunk;
use super::whole::lists;
use towpath_media::read::{Codec, FaultKind, FrameType};

/// A header of a stream, and the format of one of sound.
fn sound(tag: u16, format: usize) -> Vec<u8> {
    let mut header = b"auds".to_vec();
    header.resize(56, 0);
    let mut wave = tag.to_le_bytes().to_vec();
    wave.extend([2, 0]);
    wave.extend(44_100_u32.to_le_bytes());
    wave.extend(16_000_u32.to_le_bytes());
    wave.resize(18, 0);
    wave.truncate(format);
    let list = [&b"strl"[..], &chunk(*b"strh", &header), &chunk(*b"strf", &wave)].concat();
    chunk(*b"LIST", &list)
}

/// A header and format of pictures, of these lengths.
fn pictures(handler: [u8; 4], compression: [u8; 4], head: usize, format: usize) -> Vec<u8> {
    let mut header = [&b"vids"[..], &handler].concat();
    header.resize(20, 0);
    header.extend(1_u32.to_le_bytes());
    header.extend(25_u32.to_le_bytes());
    header.resize(56, 0);
    header.truncate(head);
    let mut bitmap = 40_u32.to_le_bytes().to_vec();
    bitmap.extend(320_u32.to_le_bytes());
    // Upside down.
    bitmap.extend((-240_i32).to_le_bytes());
    bitmap.extend([1, 0, 24, 0]);
    bitmap.extend(compression);
    bitmap.resize(40, 0);
    bitmap.truncate(format);
    let list = [&b"strl"[..], &chunk(*b"strh", &header), &chunk(*b"strf", &bitmap)].concat();
    chunk(*b"LIST", &list)
}

/// A file of these streams and chunks.
fn avi(streams: &[Vec<u8>], frames: &[u8], behind: &[u8]) -> Vec<u8> {
    let headers = [&b"hdrl"[..], &chunk(*b"avih", &[0; 56]), &streams.concat()].concat();
    let frames = chunk(*b"LIST", &[&b"movi"[..], frames].concat());
    let body = [&b"AVI "[..], &chunk(*b"LIST", &headers), &frames, behind].concat();
    chunk(*b"RIFF", &body)
}

#[test]
fn sound_of_an_avi_is_known_by_its_tag() {
    for (tag, codec, layer) in [
        (0x01, Codec::Pcm, 0),
        (0x50, Codec::MpegAudio, 0),
        (0x55, Codec::MpegAudio, 3),
        (0xFF, Codec::Aac, 0),
        (0x1600, Codec::Aac, 0),
        (0x1610, Codec::Aac, 0),
        (0x2000, Codec::Ac3, 0),
        (0x77, Codec::Other, 0),
    ] {
        let (_, lists) = lists(&avi(&[sound(tag, 18)], &chunk(*b"00wb", b"abc"), &[]));
        assert_eq!((lists.faults.total(), lists.streams[0].codec), (0, codec), "{tag:#x}");
        let audio = lists.streams[0].audio.expect("its format tells");
        assert_eq!((audio.sample_rate_hz, audio.channels, audio.rate_bps), (44_100, 2, 128_000));
        assert_eq!(audio.layer, layer);
    }
    // Twelve bytes tell all that is told.
    for (len, known) in [(12, true), (11, false)] {
        let (_, lists) = lists(&avi(&[sound(1, len)], &chunk(*b"00wb", b"abc"), &[]));
        assert_eq!(lists.streams[0].audio.is_some(), known, "{len}");
    }
}

#[test]
fn pictures_of_an_avi_are_known_by_their_format_or_their_handler() {
    let of = |handler: &[u8; 4], compression: &[u8; 4], head, format| {
        let streams = [pictures(*handler, *compression, head, format)];
        let (_, lists) = lists(&avi(&streams, &chunk(*b"00dc", b"abc"), &[]));
        let stream = lists.streams.first().cloned();
        (
            stream.map(|s| (s.codec, s.video.map(|v| (v.width, v.height, v.fps_num, v.fps_den)))),
            lists,
        )
    };
    let size = Some((320, 240, 25, 1));
    for (handler, compression, codec) in [
        (b"xvid", b"H264", Codec::H264),
        (b"xvid", b"none", Codec::Mpeg4Video),
        (b"    ", b"h265", Codec::Hevc),
        (b"mjpg", b"    ", Codec::Mjpeg),
        (b"    ", b"    ", Codec::Other),
        (b"    ", b"mpg1", Codec::Mpeg1Video),
        (b"    ", b"MPG2", Codec::Mpeg2Video),
    ] {
        let (found, lists) = of(handler, compression, 56, 40);
        assert_eq!((found, lists.faults.total()), (Some((codec, size)), 0));
        let frame = lists.frames[0];
        let image = codec == Codec::Mjpeg;
        assert_eq!((frame.key, frame.pts.is_some()), (image, image));
        assert_eq!(frame.kind, if image { FrameType::I } else { FrameType::Unknown });
    }
    let faults = |head, format| {
        let (found, lists) = of(b"H264", b"H264", head, format);
        (found.is_some(), lists.faults.count(FaultKind::StreamHeader))
    };
    assert_eq!(
        (faults(28, 20), faults(27, 20), faults(28, 19)),
        ((true, 0), (false, 1), (false, 1))
    );
}

#[test]
fn chunks_end_where_their_list_does() {
    let stream = [pictures(*b"H264", *b"H264", 56, 40)];
    let frames = [chunk(*b"00dc", b"abc"), chunk(*b"00dc", &[]), chunk(*b"00dc", b"defg")].concat();
    let index = |entries: &[(&[u8; 4], u32, u32)]| {
        let entry = |(name, flags, size): &(&[u8; 4], u32, u32)| {
            let words = [*flags, 0, *size].map(u32::to_le_bytes).concat();
            [&name[..], &words].concat()
        };
        chunk(*b"idx1", &entries.iter().flat_map(entry).collect::<Vec<u8>>())
    };
    let old = index(&[(b"00dc", 0x10, 3), (b"00dc", 0x10, 0), (b"00dc", 0, 4)]);
    let whole = avi(&stream, &frames, &old);
    let (_, found) = lists(&whole);
    assert_eq!(found.faults.total(), 0);
    let rows: Vec<_> = found.frames.iter().map(|f| (f.size, f.dts, f.key)).collect();
    // The empty chunk repeats a picture: it takes time, and no entry of the index is of it.
    assert_eq!(rows, [(3, Some(0), true), (4, Some(7200), false)]);
    // The last chunk says one byte more than its list has: it is no frame, and neither is
    // anything in what follows.
    let at = whole.windows(4).rposition(|w| w == b"defg").expect("it is there") - 4;
    for (says, faults) in [(4_u32, 0), (5, 1), (6, 1)] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&says.to_le_bytes());
        let (_, lists) = lists(&bytes);
        assert_eq!(lists.faults.count(FaultKind::ChunkLength), faults, "{says}");
        assert_eq!(lists.frames.len(), 2 - faults as usize, "{says}");
    }
    // Junk that ends behind its list is not believed; the list's length may leave out what makes
    // the junk's even.
    for (len, faults) in [(4_u32, 0), (5, 0), (6, 0), (7, 1), (8, 1)] {
        let junk = [&b"JUNK"[..], &[0; 4], b"fivef"].concat();
        let mut bytes = avi(&stream, &[&frames[..], &junk].concat(), &[]);
        let at = bytes.windows(4).rposition(|w| w == b"JUNK").expect("it is there") + 4;
        bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        let (_, lists) = lists(&bytes);
        assert_eq!(lists.faults.count(FaultKind::ChunkLength), faults, "{len}");
    }
}

#[test]
fn an_index_between_the_frames_goes_before_the_one_behind_them() {
    let stream = [pictures(*b"H264", *b"H264", 56, 40)];
    let own = |kind: u32, entries: &[u32]| {
        let mut content = kind.to_le_bytes().to_vec();
        content.extend((entries.len() as u32).to_le_bytes());
        content.extend(b"00dc");
        content.resize(24, 0);
        for size in entries {
            content.extend([0; 4]);
            content.extend(size.to_le_bytes());
        }
        chunk(*b"ix00", &content)
    };
    let frames = [chunk(*b"00dc", b"abc"), chunk(*b"00dc", b"defg")].concat();
    let entry = |flags: u32| {
        let words = [flags, 0, 3].map(u32::to_le_bytes).concat();
        [&b"00dc"[..], &words].concat()
    };
    // Behind the frames: none is a key.
    let old = chunk(*b"idx1", &[entry(0), entry(0)].concat());
    let keys = |own: &[u8]| {
        let (_, lists) = lists(&avi(&stream, &[&frames[..], own].concat(), &old));
        assert_eq!(lists.faults.total(), 0);
        lists.frames.iter().map(|f| f.key).collect::<Vec<_>>()
    };
    let delta = 1 << 31;
    // The second entry of three is of an empty chunk.
    assert_eq!(keys(&own(0x0100_0002, &[3, delta, 4])), [true, true]);
    assert_eq!(keys(&own(0x0100_0002, &[3 | delta, 0, 4])), [false, true]);
    // Of another kind it tells nothing: the one behind counts.
    assert_eq!(keys(&own(0x0100_0003, &[3, 4])), [false, false]);
    assert_eq!(keys(&[]), [false, false]);
}
