//! Rates and buffers that profiles and levels allow, and the model decoder's buffers from them
//! (ISO/IEC 13818-1 §2.4.2.3, §2.14.3, §2.17.2).
//!
//! Sizes of TB, B and Bsys, the leaks of sound and tables, and the formulas of MB were compared
//! with a transcription of ITU-T H.222.0 (08/2023) in public and with two public programs (a
//! multiplexer, libmpegts, which has AC-3's and AAC's too, and a checker of transport streams);
//! the levels are those of the tables named at each.

use crate::read::{Codec, StreamInfo, VideoInfo};

/// Leak of the transport buffer of sound, bit/s.
const SOUND_BPS: u64 = 2_000_000;
/// Its main buffer, bytes.
const SOUND_BYTES: u64 = 3584;
/// The same of AC-3: ATSC A/52 annex A, where `stream_type` is ATSC's; ETSI TS 101 154 annex C.
const AC3_ATSC_BYTES: u64 = 2592;
const AC3_DVB_BYTES: u64 = 5696;
const AC3_ATSC_TYPES: [u8; 2] = [0x81, 0x87];
/// AAC up to so many channels: leak, main buffer (§2.4.2.3).
const AAC: [(u8, u64, u64); 2] = [(2, SOUND_BPS, SOUND_BYTES), (8, 5_529_600, 8976)];

/// Buffers of a stream in the model decoder. Sizes in bytes, rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffers {
    /// Leak of the transport buffer.
    pub(super) leak_bps: u64,
    /// What lies behind it, where that is known.
    pub(super) behind: Option<Behind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Multiplexing buffer and elementary stream buffer.
    Video { transfer: Transfer, multiplex: u64, elementary: u64 },
    /// Main buffer.
    Sound { main: u64 },
}

/// How bytes pass from the multiplexing to the elementary stream buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// At a rate.
    Leak(u64),
    /// As the pictures' `vbv_delay` tell.
    VbvDelay,
}

/// `None` where the model says nothing, or the stream did not tell its level yet.
pub(super) fn buffers(info: &StreamInfo) -> Option<Buffers> {
    if info.codec.is_audio() {
        return Some(sound(info));
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

fn sound(info: &StreamInfo) -> Buffers {
    let channels = info.audio.map_or(0, |audio| audio.channels);
    let (leak_bps, main) = match info.codec {
        Codec::Ac3 if AC3_ATSC_TYPES.contains(&info.stream_type) => (SOUND_BPS, AC3_ATSC_BYTES),
        Codec::Ac3 => (SOUND_BPS, AC3_DVB_BYTES),
        Codec::Aac => {
            let row = AAC.iter().find(|row| channels <= row.0);
            row.map_or((SOUND_BPS, SOUND_BYTES), |&(_, leak, main)| (leak, main))
        }
        _ => (SOUND_BPS, SOUND_BYTES),
    };
    Buffers { leak_bps, behind: Some(Behind::Sound { main }) }
}

/// Overhead of multiplexing: 4 ms of jitter and 1/750 s of headers at the highest rate, bits.
const fn overhead_bits(rate_bps: u64) -> u64 {
    rate_bps * 4 / 1000 + rate_bps / 750
}

/// MPEG-1 and MPEG-2 (§2.4.2.3); `low`: low and main level. MPEG-1 of constrained parameters is
/// taken as these.
fn mpeg(video: VideoInfo, rate_bps: u64, buffer_bits: u64, low: bool) -> Buffers {
    let elementary = if video.buffer_bytes > 0 { video.buffer_bytes } else { buffer_bits / 8 };
    let spare = if low { buffer_bits.saturating_sub(elementary * 8) } else { 0 };
    let transfer = match video.rate_bps {
        _ if video.vbv_delay => Transfer::VbvDelay,
        rate if rate > 0 && !low => Transfer::Leak((rate * 105 / 100).min(rate_bps)),
        _ => Transfer::Leak(rate_bps),
    };
    let multiplex = (overhead_bits(rate_bps) + spare) / 8;
    Buffers {
        leak_bps: rate_bps * 12 / 10,
        behind: Some(Behind::Video { transfer, multiplex, elementary }),
    }
}

/// H.264 (§2.14.3.1) and H.265 (§2.17.2): TB leaks at the rate that the stream tells, else at the
/// level's; MB at the level's.
fn later(video: VideoInfo, rate_bps: u64, buffer_bits: u64) -> Buffers {
    let elementary = if video.buffer_bytes > 0 { video.buffer_bytes } else { buffer_bits / 8 };
    let spare = buffer_bits.saturating_sub(elementary * 8);
    let multiplex = (overhead_bits(rate_bps.max(2_000_000)) + spare) / 8;
    let transfer = Transfer::Leak(rate_bps);
    Buffers {
        leak_bps: if video.rate_bps > 0 { video.rate_bps } else { rate_bps },
        behind: Some(Behind::Video { transfer, multiplex, elementary }),
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
        51 | 52 | 60 => (240_000, 240_000),
        61 => (480_000, 480_000),
        62 => (800_000, 800_000),
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
    use crate::read::AudioInfo;

    fn stream(codec: Codec, stream_type: u8) -> StreamInfo {
        StreamInfo { stream_type, ..StreamInfo::new(0, 256, codec) }
    }

    fn video(codec: Codec, video: VideoInfo) -> Option<Buffers> {
        buffers(&StreamInfo { video: Some(video), ..stream(codec, 0) })
    }

    fn told(leak_bps: u64, transfer: Transfer, multiplex: u64, elementary: u64) -> Buffers {
        let behind = Some(Behind::Video { transfer, multiplex, elementary });
        Buffers { leak_bps, behind }
    }

    #[test]
    fn mpeg2_by_hand() {
        let main = VideoInfo { profile: 4, level: 8, buffer_bytes: 229_376, ..Default::default() };
        // 18 Mbit/s; 0.004 s and 1/750 s of 15 Mbit/s are 80 000 bits; VBV 1 835 008 bits.
        let leak = Transfer::Leak(15_000_000);
        assert_eq!(video(Codec::Mpeg2Video, main), Some(told(18_000_000, leak, 10_000, 229_376)));
        // What VBV leaves of the level's 229 376 bytes is room in MB.
        let small = VideoInfo { buffer_bytes: 100_000, vbv_delay: true, ..main };
        let expected = Some(told(18_000_000, Transfer::VbvDelay, 139_376, 100_000));
        assert_eq!(video(Codec::Mpeg2Video, small), expected);
        // High level: 96 Mbit/s; 105 % of its own rate; 80 Mbit/s · (0.004 + 1/750) / 8; no room
        // more.
        let high = VideoInfo { level: 4, rate_bps: 20_000_000, ..small };
        let high = VideoInfo { vbv_delay: false, ..high };
        let leak = Transfer::Leak(21_000_000);
        assert_eq!(video(Codec::Mpeg2Video, high), Some(told(96_000_000, leak, 53_333, 100_000)));
    }

    #[test]
    fn h264_by_hand() {
        // High profile at level 4: 1500 · 20 000 bit/s, 1500 · 25 000 bits; (0.12 + 0.04) Mbit.
        let high = VideoInfo { profile: 100, level: 40, ..Default::default() };
        let leak = Transfer::Leak(30_000_000);
        assert_eq!(video(Codec::H264, high), Some(told(30_000_000, leak, 20_000, 4_687_500)));
        // It tells 8 Mbit/s and 1 000 000 bytes: the rest of the level's buffer is MB's.
        let own = VideoInfo { rate_bps: 8_000_000, buffer_bytes: 1_000_000, ..high };
        assert_eq!(video(Codec::H264, own), Some(told(8_000_000, leak, 3_707_500, 1_000_000)));
    }

    #[test]
    fn sound_by_hand() {
        let of = |codec, stream_type, channels| {
            let audio = Some(AudioInfo { channels, ..AudioInfo::default() });
            buffers(&StreamInfo { audio, ..stream(codec, stream_type) })
        };
        let expected =
            |leak_bps, main| Some(Buffers { leak_bps, behind: Some(Behind::Sound { main }) });
        assert_eq!(of(Codec::MpegAudio, 3, 2), expected(2_000_000, 3584));
        assert_eq!(of(Codec::Aac, 15, 2), expected(2_000_000, 3584));
        assert_eq!(of(Codec::Aac, 15, 6), expected(5_529_600, 8976));
        assert_eq!(of(Codec::Ac3, 0x81, 6), expected(2_000_000, 2592));
        assert_eq!(of(Codec::Ac3, 6, 6), expected(2_000_000, 5696));
    }
}
