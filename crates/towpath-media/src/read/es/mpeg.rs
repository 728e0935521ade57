//! MPEG-1 and MPEG-2 video (ISO/IEC 11172-2, 13818-2).

use super::access::Access;
use super::units::{Unit, UnitCodec};
use crate::read::bits::Bits;
use crate::read::event::{Codec, FrameType, VideoInfo};

const PICTURE: u8 = 0x00;
const SLICE_FIRST: u8 = 0x01;
const SLICE_LAST: u8 = 0xAF;
const SEQUENCE_HEADER: u8 = 0xB3;
const EXTENSION: u8 = 0xB5;
const SEQUENCE_END: u8 = 0xB7;

/// `extension_start_code_identifier`s (13818-2 table 6-2).
const SEQUENCE_EXTENSION: u8 = 1;
const PICTURE_CODING_EXTENSION: u8 = 8;

/// `picture_structure` of a whole frame (13818-2 table 6-14).
const WHOLE_FRAME: u8 = 3;

/// Frames per second by `frame_rate_code` (13818-2 table 6-4).
const FRAME_RATES: [(u32, u32); 9] = [
    (0, 0),
    (24_000, 1001),
    (24, 1),
    (25, 1),
    (30_000, 1001),
    (30, 1),
    (50, 1),
    (60_000, 1001),
    (60, 1),
];

/// How much of the frame under way was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    /// Nothing but headers, or the picture header of a whole frame.
    #[default]
    Headers,
    /// The picture header of a first field, and perhaps its slices.
    FirstField,
    /// Slices of the last field or of the frame: any other unit begins the next frame.
    Slices,
}

/// Finds pictures.
#[derive(Debug)]
pub(super) struct MpegVideo {
    seen: Seen,
    video: VideoInfo,
    codec: Codec,
    /// A sequence header came; it is told at the picture, when its extension is known.
    sequence: bool,
    told: Option<(Codec, VideoInfo)>,
    news: bool,
    /// Whether the first picture told its `vbv_delay`.
    vbv_delay: Option<bool>,
}

/// `vbv_delay` of a stream whose rate varies (13818-2 §6.3.9).
const NO_DELAY: u16 = 0xFFFF;

impl MpegVideo {
    pub(super) fn new() -> Self {
        Self {
            seen: Seen::Headers,
            video: VideoInfo::default(),
            codec: Codec::Mpeg1Video,
            sequence: false,
            told: None,
            news: false,
            vbv_delay: None,
        }
    }

    fn picture(&mut self, unit: Unit<'_>, access: &mut Access) {
        // 10 bits of temporal reference, 3 of type, 16 of delay.
        let delay = match *unit.bytes {
            [_, _, b2, b1, b0, ..] => {
                Some(u16::from(b2 & 7) << 13 | u16::from(b1) << 5 | u16::from(b0) >> 3)
            }
            _ => None,
        };
        let delay = delay.filter(|&delay| delay != NO_DELAY);
        if self.sequence {
            self.sequence = false;
            self.video.vbv_delay = *self.vbv_delay.get_or_insert(delay.is_some());
            let now = Some((self.codec, self.video));
            self.news |= self.told != now;
            self.told = now;
        }
        if self.seen == Seen::FirstField {
            return;
        }
        access.begin(unit.at);
        if let Some(delay) = delay {
            access.vbv_delay(delay, unit.at + 4);
        }
        let Some(&second) = unit.bytes.get(2) else { return };
        access.kind(match second >> 3 & 7 {
            // 4: D pictures of MPEG-1, of DC coefficients only, from themselves alone too.
            1 | 4 => FrameType::I,
            2 => FrameType::P,
            3 => FrameType::B,
            _ => FrameType::Unknown,
        });
        if second >> 3 & 7 == 1 {
            access.key();
        }
    }

    fn extension(&mut self, bytes: &[u8]) {
        match bytes.get(1).map_or(0, |b| b >> 4) {
            PICTURE_CODING_EXTENSION => {
                let Some(third) = bytes.get(3) else { return };
                self.seen = match (third & 3, self.seen) {
                    (WHOLE_FRAME, _) | (_, Seen::FirstField) => Seen::Headers,
                    _ => Seen::FirstField,
                };
            }
            // It adds to what the header says, once.
            SEQUENCE_EXTENSION if self.sequence && self.codec == Codec::Mpeg1Video => {
                self.sequence_extension(&bytes[1..]);
            }
            _ => {}
        }
    }

    /// 11172-2 §2.4.2.3.
    fn sequence_header(&mut self, bytes: &[u8]) {
        let mut b = Bits::new(bytes);
        let (width, height) = (b.bits(12), b.bits(12));
        b.skip(4);
        let rate = FRAME_RATES.get(b.bits(4) as usize).copied().unwrap_or((0, 0));
        let rate_units = b.bits(18);
        b.skip(1);
        let buffer_units = b.bits(10);
        if b.overrun() || width == 0 || height == 0 {
            return;
        }
        self.codec = Codec::Mpeg1Video;
        self.sequence = true;
        self.video = VideoInfo {
            width,
            height,
            fps_num: rate.0,
            fps_den: rate.1,
            profile: 0,
            level: 0,
            // All ones means variable in MPEG-1.
            rate_bps: if rate_units == 0x3_FFFF { 0 } else { u64::from(rate_units) * 400 },
            buffer_bytes: u64::from(buffer_units) * 2048,
            vbv_delay: false,
        };
    }

    /// 13818-2 §6.2.2.3.
    fn sequence_extension(&mut self, bytes: &[u8]) {
        let mut b = Bits::new(bytes);
        b.skip(4);
        let profile_level = b.bits(8) as u8;
        b.skip(3);
        let (width, height) = (b.bits(2), b.bits(2));
        let rate_units = u64::from(b.bits(12)) << 18;
        b.skip(1);
        let buffer_units = u64::from(b.bits(8)) << 10;
        b.skip(1);
        let (n, d) = (b.bits(2), b.bits(5));
        if b.overrun() {
            return;
        }
        let v = &mut self.video;
        self.codec = Codec::Mpeg2Video;
        v.width |= width << 12;
        v.height |= height << 12;
        v.profile = profile_level >> 4 & 7;
        v.level = u16::from(profile_level & 15);
        v.rate_bps += rate_units * 400;
        v.buffer_bytes += buffer_units * 2048;
        if v.fps_den != 0 {
            v.fps_num *= n + 1;
            v.fps_den *= d + 1;
        }
    }
}

impl UnitCodec for MpegVideo {
    fn wants(first: u8) -> usize {
        match first {
            PICTURE => 5,
            SEQUENCE_HEADER => 9,
            EXTENSION => 7,
            _ => 1,
        }
    }

    fn unit(&mut self, unit: Unit<'_>, access: &mut Access) {
        let code = unit.bytes[0];
        if code == SEQUENCE_END {
            self.seen = Seen::Headers;
            access.end(unit.at + 4);
            return;
        }
        let slice = (SLICE_FIRST..=SLICE_LAST).contains(&code);
        if self.seen == Seen::Slices && !slice {
            self.seen = Seen::Headers;
            access.end(unit.at);
        }
        match code {
            PICTURE => self.picture(unit, access),
            EXTENSION => self.extension(unit.bytes),
            SEQUENCE_HEADER => {
                self.seen = Seen::Headers;
                self.sequence_header(&unit.bytes[1..]);
            }
            _ if slice && self.seen == Seen::Headers => self.seen = Seen::Slices,
            _ => {}
        }
    }

    fn take_video(&mut self) -> Option<(Codec, VideoInfo)> {
        core::mem::take(&mut self.news).then_some(self.told).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Width, height, a code of the frame rate, and the rest of a sequence header.
    fn header(width: u64, height: u64, rate: u64) -> [u8; 8] {
        // A rate of 1000 units, a marker, a buffer of 20 units.
        let bits = width << 52 | height << 40 | 1 << 36 | rate << 32 | 1000 << 14 | 1 << 13;
        (bits | 20 << 3).to_be_bytes()
    }

    fn told(bytes: &[u8]) -> Option<(u32, u32, u32, u64, u64)> {
        let mut video = MpegVideo::new();
        video.sequence_header(bytes);
        let v = video.video;
        let told = (v.width, v.height, v.fps_num, v.rate_bps, v.buffer_bytes);
        video.sequence.then_some(told)
    }

    #[test]
    fn a_sequence_header_tells_what_it_holds_or_nothing() {
        let of = |width, height, rate| told(&header(width, height, rate));
        assert_eq!(of(352, 288, 3), Some((352, 288, 25, 400_000, 40_960)));
        assert_eq!(of(352, 288, 15), Some((352, 288, 0, 400_000, 40_960)), "no rate of these");
        assert_eq!((of(0, 288, 3), of(352, 0, 3)), (None, None));
        assert_eq!(told(&header(352, 288, 3)[..7]), None, "it is cut off");
    }

    #[test]
    fn a_pictures_delay_is_sixteen_bits_behind_its_type() {
        for (bytes, delay) in [
            (&[PICTURE, 0, 0x08, 0, 0][..], Some(0)),
            (&[PICTURE, 0xFF, 0xCF, 0x12, 0x34], Some(7 << 13 | 0x12 << 5 | 0x34 >> 3)),
            (&[PICTURE, 0, 0x0F, 0xFF, 0xF8], None),
            (&[PICTURE, 0, 0x0F, 0xFF], None),
        ] {
            let (mut video, mut access) = (MpegVideo::new(), Access::new(0));
            video.picture(Unit { bytes, at: 0, long: false }, &mut access);
            access.end(10);
            let frame = access.take_ended().next().expect("a frame");
            assert_eq!(frame.vbv_delay, delay, "{bytes:?}");
        }
    }
}
