//! Rates and buffers that profiles and levels allow, and the model decoder's buffers from them
//! (ISO/IEC 13818-1 §2.4.2.3, §2.14.3, §2.17.2).

use crate::read::{Codec, StreamInfo, VideoInfo};

/// Leak of the transport buffer of audio.
const AUDIO_BPS: u64 = 2_000_000;
/// The same of tables.
pub(super) const TABLE_BPS: u64 = 1_000_000;

/// Buffers of a stream in the model decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffers {
    /// Leak of the transport buffer, bit/s.
    pub(super) leak_bps: u64,
    /// Video of known profile and level.
    pub(super) video: Option<VideoBuffers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoBuffers {
    /// Rate from the multiplexing to the elementary stream buffer, bit/s (leak method).
    pub(super) transfer_bps: u64,
    /// Size of the multiplexing buffer, bytes.
    pub(super) multiplex: u64,
    /// Size of the elementary stream buffer, bytes.
    pub(super) elementary: u64,
}

/// `None` where the model says nothing, or the stream did not tell its level yet.
pub(super) fn buffers(info: &StreamInfo) -> Option<Buffers> {
    if info.codec.is_audio() {
        return Some(Buffers { leak_bps: AUDIO_BPS, video: None });
    }
    let video = info.video?;
    match info.codec {
        Codec::Mpeg1Video => Some(mpeg(video, 1_856_000, 327_680, true)),
        Codec::Mpeg2Video => {
            let (rate, buffer, low) = mpeg2_level(video)?;
            Some(mpeg(video, rate, buffer, low))
        }
        Codec::H264 => {
            let (rate, buffer) = h264_level(video.level)?;
            let factor = h264_factor(video.profile);
            Some(later(video, rate * factor, buffer * factor))
        }
        Codec::Hevc => {
            let (rate, buffer) = hevc_level(video.level)?;
            Some(later(video, rate * 1100, buffer * 1100))
        }
        _ => None,
    }
}

/// Overhead of multiplexing: 4 ms of jitter and 1/750 s of headers at the highest rate, bits.
const fn overhead_bits(rate_bps: u64) -> u64 {
    rate_bps * 4 / 1000 + rate_bps / 750
}

/// MPEG-1 and MPEG-2; `low`: low and main level.
fn mpeg(video: VideoInfo, rate_bps: u64, buffer_bits: u64, low: bool) -> Buffers {
    let own = if video.buffer_bytes > 0 { video.buffer_bytes } else { buffer_bits / 8 };
    let spare = if low { buffer_bits.saturating_sub(own * 8) } else { 0 };
    let transfer_bps = match video.rate_bps {
        rate if rate > 0 && !low => (rate * 105 / 100).min(rate_bps),
        _ => rate_bps,
    };
    Buffers {
        leak_bps: rate_bps * 12 / 10,
        video: Some(VideoBuffers {
            transfer_bps,
            multiplex: (overhead_bits(rate_bps) + spare) / 8,
            elementary: own,
        }),
    }
}

/// H.264 and H.265: the leak is the level's rate itself.
fn later(video: VideoInfo, rate_bps: u64, buffer_bits: u64) -> Buffers {
    let own = if video.buffer_bytes > 0 { video.buffer_bytes } else { buffer_bits / 8 };
    let spare = buffer_bits.saturating_sub(own * 8);
    Buffers {
        leak_bps: rate_bps,
        video: Some(VideoBuffers {
            transfer_bps: rate_bps,
            multiplex: (overhead_bits(rate_bps.max(2_000_000)) + spare) / 8,
            elementary: own,
        }),
    }
}

/// Rate in bit/s, VBV in bits (13818-2 tables 8-13, 8-14), whether low or main level.
const fn mpeg2_level(video: VideoInfo) -> Option<(u64, u64, bool)> {
    // A set escape bit marks the 4:2:2 profile, whose level bits count differently.
    Some(match (video.profile, video.level) {
        (0, 5) => (50_000_000, 9_437_184, true),
        (0, 2) => (300_000_000, 47_185_920, false),
        (_, 10) => (4_000_000, 475_136, true),
        (_, 8) => (15_000_000, 1_835_008, true),
        (_, 6) => (60_000_000, 7_340_032, false),
        (_, 4) => (80_000_000, 9_781_248, false),
        _ => return None,
    })
}

/// `MaxBR` and `MaxCPB` in units of the factor (14496-10 table A-1).
const fn h264_level(level: u16) -> Option<(u64, u64)> {
    Some(match level {
        9 => (128, 350),
        10 => (64, 175),
        11 => (192, 500),
        12 => (384, 1000),
        13 => (768, 2000),
        20 => (2000, 2000),
        21 | 22 => (4000, 4000),
        30 => (10_000, 10_000),
        31 => (14_000, 14_000),
        32 => (20_000, 20_000),
        40 => (20_000, 25_000),
        41 | 42 => (50_000, 62_500),
        50 => (135_000, 135_000),
        51 | 52 => (240_000, 240_000),
        _ => return None,
    })
}

/// `cpbBrNalFactor` (14496-10 table A-2).
const fn h264_factor(profile: u8) -> u64 {
    match profile {
        100 => 1500,
        110 => 3600,
        122 | 244 | 44 => 4800,
        _ => 1200,
    }
}

/// The same of H.265 (23008-2 table A.9): the level times 30, bit 8 set for the high tier.
const fn hevc_level(level: u16) -> Option<(u64, u64)> {
    let high = level & 0x100 != 0;
    Some(match (level & 0xFF, high) {
        (30, _) => (128, 350),
        (60, _) => (1500, 1500),
        (63, _) => (3000, 3000),
        (90, _) => (6000, 6000),
        (93, _) => (10_000, 10_000),
        (120, false) => (12_000, 12_000),
        (120, true) => (30_000, 30_000),
        (123, false) => (20_000, 20_000),
        (123, true) => (50_000, 50_000),
        (150, false) => (25_000, 25_000),
        (150, true) => (100_000, 100_000),
        (153, false) => (40_000, 40_000),
        (153, true) => (160_000, 160_000),
        (156 | 180, false) => (60_000, 60_000),
        (156 | 180, true) | (186, false) => (240_000, 240_000),
        (183, false) => (120_000, 120_000),
        (183, true) => (480_000, 480_000),
        (186, true) => (800_000, 800_000),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_profile_at_main_level() {
        let video = VideoInfo { profile: 4, level: 8, buffer_bytes: 229_376, ..Default::default() };
        let info = StreamInfo {
            index: 0,
            program: 1,
            id: 256,
            stream_type: 2,
            codec: Codec::Mpeg2Video,
            video: Some(video),
        };
        // 18 Mbit/s; 0.004 s and 1/750 s of 15 Mbit/s are 80 000 bits; VBV 1 835 008 bits.
        let expected =
            VideoBuffers { transfer_bps: 15_000_000, multiplex: 10_000, elementary: 229_376 };
        assert_eq!(buffers(&info), Some(Buffers { leak_bps: 18_000_000, video: Some(expected) }));
    }
}
