//! Headers of audio frames: MPEG audio, ADTS, AC-3.

use crate::read::event::AudioInfo;

/// A frame header that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Bytes of the frame, header and all.
    pub(super) bytes: u32,
    pub(super) info: AudioInfo,
    /// Belongs to the frame before it: a dependent substream of Enhanced AC-3.
    pub(super) dependent: bool,
    /// A dependent one may follow.
    pub(super) leads: bool,
}

const fn header(bytes: u32, info: AudioInfo) -> FrameHeader {
    FrameHeader { bytes, info, dependent: false, leads: false }
}

/// kbit/s by `bitrate_index` 1 to 14: layers 1 to 3 (11172-3 table 3-B.2).
const MPEG1_KBPS: [[u32; 14]; 3] = [
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
];
/// The same at half the sample rates: layer 1, layers 2 and 3 (13818-3 table B.2).
const MPEG2_KBPS: [[u32; 14]; 2] = [
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const MPEG1_HZ: [u32; 3] = [44_100, 48_000, 32_000];

/// MPEG audio, layers 1 to 3, with the quarter sample rates in use beside the standard's (11172-3
/// §2.4.1.3, 13818-3 §2.4.2.3). Free format is none: its frames do not tell their length.
pub(super) fn mpeg([b3, b2, b1, b0]: [u8; 4]) -> Option<FrameHeader> {
    if b3 != 0xFF || b2 & 0xE0 != 0xE0 || b0 & 3 == 2 {
        return None;
    }
    // Versions 0: a quarter, 1: reserved, 2: half, 3: the full sample rates.
    let version = b2 >> 3 & 3;
    let layer = 4 - (b2 >> 1 & 3);
    if version == 1 || layer == 4 {
        return None;
    }
    let full = version == 3;
    let rates = match (full, layer) {
        (true, layer) => &MPEG1_KBPS[usize::from(layer) - 1],
        (false, 1) => &MPEG2_KBPS[0],
        (false, _) => &MPEG2_KBPS[1],
    };
    let rate_bps = rates.get(usize::from(b1 >> 4).checked_sub(1)?)? * 1000;
    let hz = MPEG1_HZ.get(usize::from(b1 >> 2 & 3))?;
    let sample_rate_hz = match version {
        3 => *hz,
        2 => hz / 2,
        _ => hz / 4,
    };
    let padding = u32::from(b1 >> 1 & 1);
    let (bytes, frame_samples) = match (layer, full) {
        (1, _) => ((12 * rate_bps / sample_rate_hz + padding) * 4, 384),
        (3, false) => (72 * rate_bps / sample_rate_hz + padding, 576),
        _ => (144 * rate_bps / sample_rate_hz + padding, 1152),
    };
    let channels = if b0 >> 6 == 3 { 1 } else { 2 };
    Some(header(bytes, AudioInfo { sample_rate_hz, channels, rate_bps, frame_samples, layer }))
}

/// By `sampling_frequency_index` (13818-7 table 35).
const ADTS_HZ: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];
const ADTS_HEADER: u32 = 7;

/// AAC in ADTS (13818-7 §6.2).
pub(super) fn adts([b6, b5, b4, b3, b2, b1, b0]: [u8; 7]) -> Option<FrameHeader> {
    // A layer of 0 tells it from MPEG audio.
    if b6 != 0xFF || b5 & 0xF6 != 0xF0 {
        return None;
    }
    let sample_rate_hz = *ADTS_HZ.get(usize::from(b4 >> 2 & 15))?;
    let channels = match (b4 & 1) << 2 | b3 >> 6 {
        7 => 8,
        channels => channels,
    };
    let bytes = u32::from(b3 & 3) << 11 | u32::from(b2) << 3 | u32::from(b1 >> 5);
    if bytes <= ADTS_HEADER {
        return None;
    }
    let frame_samples = 1024 * (u16::from(b0 & 3) + 1);
    Some(header(
        bytes,
        AudioInfo { sample_rate_hz, channels, rate_bps: 0, frame_samples, layer: 0 },
    ))
}

/// kbit/s by half of `frmsizecod` (TS 102 366 table 4.13).
const AC3_KBPS: [u32; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
const AC3_HZ: [u32; 3] = [48_000, 44_100, 32_000];
const AC3_SAMPLES: u16 = 1536;
/// Channels by `acmod`, without low frequency effects.
const AC3_CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
/// Streams up to this `bsid` are AC-3, those above Enhanced AC-3.
const AC3_LAST: u8 = 10;

/// AC-3 and Enhanced AC-3 (ETSI TS 102 366 §4.3, annex E).
pub(super) fn ac3(bytes: [u8; 7]) -> Option<FrameHeader> {
    let [s1, s0, _, _, code, id, mode] = bytes;
    if [s1, s0] != [0x0B, 0x77] {
        return None;
    }
    match id >> 3 {
        id if id > 16 => None,
        id if id > AC3_LAST => enhanced(bytes),
        id => {
            // 9 and 10: half and a quarter of the sample rate.
            let slower = u32::from(id.saturating_sub(8));
            let hz = *AC3_HZ.get(usize::from(code >> 6))?;
            let kbps = *AC3_KBPS.get(usize::from(code & 63) / 2)?;
            // 1536 samples in words of 16 bits; 44.1 kHz leaves a rest, which the lowest bit tells.
            let odd = if hz == 44_100 { u32::from(code & 1) } else { 0 };
            let words = kbps * 96_000 / hz + odd;
            let info = AudioInfo {
                sample_rate_hz: hz >> slower,
                channels: ac3_channels(mode),
                rate_bps: (kbps * 1000) >> slower,
                frame_samples: AC3_SAMPLES,
                layer: 0,
            };
            Some(header(words * 2, info))
        }
    }
}

/// From the byte that starts with `acmod`: mixing levels of some modes lie before `lfeon`.
fn ac3_channels(byte: u8) -> u8 {
    let mode = byte >> 5;
    let levels = 2 * u32::from(mode & 1 == 1 && mode != 1)
        + 2 * u32::from(mode & 4 != 0)
        + 2 * u32::from(mode == 2);
    AC3_CHANNELS[usize::from(mode)] + (byte >> (4 - levels) & 1)
}

fn enhanced([_, _, b2, b1, code, _, _]: [u8; 7]) -> Option<FrameHeader> {
    let bytes = ((u32::from(b2 & 7) << 8 | u32::from(b1)) + 1) * 2;
    let (sample_rate_hz, blocks) = match (code >> 6, code >> 4 & 3) {
        (3, half) => (AC3_HZ.get(usize::from(half))? / 2, 6),
        (full, blocks) => (AC3_HZ[usize::from(full)], [1, 2, 3, 6][usize::from(blocks)]),
    };
    let frame_samples = 256 * blocks;
    let mode = code >> 1 & 7;
    let info = AudioInfo {
        sample_rate_hz,
        channels: AC3_CHANNELS[usize::from(mode)] + (code & 1),
        rate_bps: bytes * 8 * sample_rate_hz / u32::from(frame_samples),
        frame_samples,
        layer: 0,
    };
    Some(FrameHeader { bytes, info, dependent: b2 >> 6 == 1, leads: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(
        sample_rate_hz: u32,
        channels: u8,
        rate_bps: u32,
        samples: u16,
        layer: u8,
    ) -> AudioInfo {
        AudioInfo { sample_rate_hz, channels, rate_bps, frame_samples: samples, layer }
    }

    #[test]
    fn mpeg_audio_by_hand() {
        // Layer 2, 192 kbit/s, 48 kHz, stereo: 144 · 192 000 / 48 000 bytes.
        let second = mpeg([0xFF, 0xFD, 0xA4, 0x00]).expect("a header");
        assert_eq!(second, header(576, info(48_000, 2, 192_000, 1152, 2)));
        // Layer 3, 128 kbit/s, 44.1 kHz, padded, one channel: 417.96 bytes rounded down, and one.
        let third = mpeg([0xFF, 0xFB, 0x92, 0xC0]).expect("a header");
        assert_eq!(third, header(418, info(44_100, 1, 128_000, 1152, 3)));
        // Layer 1, 384 kbit/s, 32 kHz: 12 · 12 slots of 4 bytes.
        let first = mpeg([0xFF, 0xFF, 0xC8, 0x00]).expect("a header");
        assert_eq!(first, header(576, info(32_000, 2, 384_000, 384, 1)));
        // Half the rates: layer 3, 64 kbit/s, 22.05 kHz: 72 · 64 000 / 22 050 = 208.98.
        let half = mpeg([0xFF, 0xF3, 0x80, 0x00]).expect("a header");
        assert_eq!(half, header(208, info(22_050, 2, 64_000, 576, 3)));
        // Free format, a reserved rate, a reserved layer, a reserved version.
        for bytes in [[0xFD, 0x04, 0], [0xFD, 0xAC, 0], [0xF9, 0xA4, 0], [0xED, 0xA4, 0]] {
            assert_eq!(mpeg([0xFF, bytes[0], bytes[1], bytes[2]]), None, "{bytes:?}");
        }
    }

    #[test]
    fn adts_by_hand() {
        // 44.1 kHz, two channels, 0x1A3 bytes, one block.
        let two = adts([0xFF, 0xF1, 0x50, 0x80, 0x34, 0x7F, 0xFC]).expect("a header");
        assert_eq!(two, header(0x1A3, info(44_100, 2, 0, 1024, 0)));
        // 48 kHz, configuration 6 (5.1), four blocks.
        let six = adts([0xFF, 0xF9, 0x4D, 0x80, 0x34, 0x7F, 0xFF]).expect("a header");
        assert_eq!(six, header(0x1A3, info(48_000, 6, 0, 4096, 0)));
        assert_eq!(adts([0xFF, 0xF1, 0x50, 0x80, 0x00, 0xFF, 0xFC]), None, "7 bytes: no sound");
        assert_eq!(adts([0xFF, 0xF1, 0x7C, 0x80, 0x34, 0x7F, 0xFC]), None, "no sample rate");
    }

    #[test]
    fn ac3_by_hand() {
        // 48 kHz, code 30: 448 kbit/s, 1792 bytes; mode 7 with low frequencies: after 3 + 2 + 2
        // bits.
        let six = ac3([0x0B, 0x77, 0, 0, 30, 8 << 3, 0b1110_0001]).expect("a header");
        assert_eq!(six, header(1792, info(48_000, 6, 448_000, 1536, 0)));
        // 44.1 kHz, code 0 and 1: 69 and 70 words (69.66); mode 2, no low frequencies.
        let odd = |code: u8| ac3([0x0B, 0x77, 0, 0, 0x40 | code, 8 << 3, 0b0101_1000]);
        assert_eq!(odd(0), Some(header(138, info(44_100, 2, 32_000, 1536, 0))));
        assert_eq!(odd(1), Some(header(140, info(44_100, 2, 32_000, 1536, 0))));
        // Enhanced: 384 words, 48 kHz, 6 blocks, mode 2: 768 · 8 · 48 000 / 1536 bit/s.
        let more = ac3([0x0B, 0x77, 0x01, 0x7F, 0x34, 16 << 3, 0]).expect("a header");
        assert_eq!((more.bytes, more.info), (768, info(48_000, 2, 192_000, 1536, 0)));
        assert!(more.leads && !more.dependent);
        assert_eq!(ac3([0x0B, 0x77, 0, 0, 38, 8 << 3, 0]), None, "no rate");
        assert_eq!(ac3([0x0B, 0x77, 0, 0, 0xC0, 8 << 3, 0]), None, "no sample rate");
    }
}
