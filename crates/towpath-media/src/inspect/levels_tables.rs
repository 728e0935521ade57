//! The tables of profiles and levels, row by row, as the standards print them.

use super::levels::{Behind, Buffers, Transfer, buffers};
use crate::read::{AudioInfo, Codec, StreamInfo, VideoInfo};

fn video(codec: Codec, profile: u8, level: u16) -> Option<Buffers> {
    let video = Some(VideoInfo { profile, level, ..VideoInfo::default() });
    buffers(&StreamInfo { video, ..StreamInfo::new(0, 256, codec) })
}

/// Leak of the transport buffer, rate between the buffers, and their sizes.
fn row(buffers: Option<Buffers>) -> Option<(u64, u64, u64, u64)> {
    let Buffers { leak_bps, behind } = buffers?;
    match behind {
        Some(Behind::Video { transfer: Transfer::Leak(rate), multiplex, elementary }) => {
            Some((leak_bps, rate, multiplex, elementary))
        }
        other => panic!("{other:?}"),
    }
}

/// 4 ms and 1/750 s of at least 2 Mbit/s, in bytes.
fn overhead(rate: u64) -> u64 {
    let rate = rate.max(2_000_000);
    (rate * 4 / 1000 + rate / 750) / 8
}

#[test]
fn every_level_of_h264_has_its_rate_and_buffer() {
    for (level, rate, buffer) in [
        (9, 128, 350),
        (10, 64, 175),
        (11, 192, 500),
        (12, 384, 1000),
        (13, 768, 2000),
        (20, 2000, 2000),
        (21, 4000, 4000),
        (22, 4000, 4000),
        (30, 10_000, 10_000),
        (31, 14_000, 14_000),
        (32, 20_000, 20_000),
        (40, 20_000, 25_000),
        (41, 50_000, 62_500),
        (42, 50_000, 62_500),
        (50, 135_000, 135_000),
        (51, 240_000, 240_000),
        (52, 240_000, 240_000),
        (60, 240_000, 240_000),
        (61, 480_000, 480_000),
        (62, 800_000, 800_000),
    ] {
        for (profile, factor) in
            [(66, 1200), (77, 1200), (100, 1500), (110, 3600), (122, 4800), (244, 4800), (44, 4800)]
        {
            let (rate, bytes) = (rate * factor, buffer * factor / 8);
            let expected = (rate, rate, overhead(rate), bytes);
            let found = row(video(Codec::H264, profile, level));
            assert_eq!(found, Some(expected), "level {level}, profile {profile}");
        }
    }
    for level in [0, 14, 33, 53, 63] {
        assert_eq!(video(Codec::H264, 100, level), None, "{level}");
    }
}

#[test]
fn every_level_of_h265_has_its_rate_and_buffer_in_both_tiers() {
    for (level, main, high, buffer) in [
        (30, 128, 128, 350),
        (60, 1500, 1500, 1500),
        (63, 3000, 3000, 3000),
        (90, 6000, 6000, 6000),
        (93, 10_000, 10_000, 10_000),
        (120, 12_000, 30_000, 0),
        (123, 20_000, 50_000, 0),
        (150, 25_000, 100_000, 0),
        (153, 40_000, 160_000, 0),
        (156, 60_000, 240_000, 0),
        (180, 60_000, 240_000, 0),
        (183, 120_000, 480_000, 0),
        (186, 240_000, 800_000, 0),
    ] {
        for (tier, kbps) in [(0, main), (0x100, high)] {
            let rate = kbps * 1100;
            // From level 2 on the buffer has a second's worth.
            let bytes = if buffer == 0 { kbps } else { buffer } * 1100 / 8;
            let expected = (rate, rate, overhead(rate), bytes);
            assert_eq!(row(video(Codec::Hevc, 1, tier | level)), Some(expected), "{level} {tier}");
        }
    }
    assert_eq!((video(Codec::Hevc, 1, 0), video(Codec::Hevc, 1, 121)), (None, None));
}

#[test]
fn every_level_of_mpeg_video_has_its_rate_and_buffer() {
    for (profile, level, rate, vbv) in [
        (0, 5, 50_000_000, 9_437_184),
        (0, 2, 300_000_000, 47_185_920),
        (4, 10, 4_000_000, 475_136),
        (4, 8, 15_000_000, 1_835_008),
        (1, 6, 60_000_000, 7_340_032),
        (1, 4, 80_000_000, 9_781_248),
    ] {
        let expected = (rate * 12 / 10, rate, overhead(rate), vbv / 8);
        assert_eq!(row(video(Codec::Mpeg2Video, profile, level)), Some(expected), "{level}");
    }
    assert_eq!((video(Codec::Mpeg2Video, 4, 2), video(Codec::Mpeg2Video, 4, 5)), (None, None));
    // 12 / 10 of 1.856 Mbit/s; 9898 bits of overhead.
    let first = row(video(Codec::Mpeg1Video, 0, 0));
    assert_eq!(first, Some((2_227_200, 1_856_000, 1237, 40_960)));
    // Without pictures nothing is known.
    assert_eq!(buffers(&StreamInfo::new(0, 256, Codec::H264)), None);
}

#[test]
fn what_a_stream_tells_of_itself_goes_before_its_level() {
    let of = |codec, video| {
        row(buffers(&StreamInfo { video: Some(video), ..StreamInfo::new(0, 256, codec) }))
    };
    // At most the level's rate passes to the second buffer, however much 105 % are.
    let high = VideoInfo { profile: 4, level: 6, rate_bps: 59_000_000, ..VideoInfo::default() };
    assert_eq!(of(Codec::Mpeg2Video, high).map(|r| r.1), Some(60_000_000));
    let slow = VideoInfo { rate_bps: 1_000_000, ..high };
    assert_eq!(of(Codec::Mpeg2Video, slow).map(|r| r.1), Some(1_050_000));
    // At main level the level's counts.
    let main = VideoInfo { level: 8, ..slow };
    assert_eq!(of(Codec::Mpeg2Video, main).map(|r| r.1), Some(15_000_000));
    // A buffer larger than the level's leaves nothing.
    let large =
        VideoInfo { profile: 100, level: 30, buffer_bytes: 9_000_000, ..VideoInfo::default() };
    let rate = 15_000_000;
    assert_eq!(of(Codec::H264, large), Some((rate, rate, overhead(rate), 9_000_000)));
}

#[test]
fn sound_has_the_buffers_of_its_kind() {
    let of = |codec, stream_type, channels| {
        let audio = Some(AudioInfo { channels, ..AudioInfo::default() });
        let info = StreamInfo { stream_type, audio, ..StreamInfo::new(0, 256, codec) };
        match buffers(&info) {
            Some(Buffers { leak_bps, behind: Some(Behind::Sound { main }) }) => (leak_bps, main),
            other => panic!("{other:?}"),
        }
    };
    for (channels, expected) in [
        (0, (2_000_000, 3584)),
        (2, (2_000_000, 3584)),
        (3, (5_529_600, 8976)),
        (8, (5_529_600, 8976)),
        (9, (2_000_000, 3584)),
    ] {
        assert_eq!(of(Codec::Aac, 15, channels), expected, "{channels} channels");
    }
    for (stream_type, main) in [(0x80, 5696), (0x81, 2592), (0x82, 5696), (0x87, 2592)] {
        assert_eq!(of(Codec::Ac3, stream_type, 2), (2_000_000, main), "{stream_type:#x}");
    }
    let info = StreamInfo::new(0, 256, Codec::MpegAudio);
    assert!(buffers(&info).is_some(), "no header has come yet");
}
