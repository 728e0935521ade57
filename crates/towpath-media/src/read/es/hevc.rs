//! H.265 byte streams (ISO/IEC 23008-2 Annex B).

use super::access::Access;
use super::hevc_headers::sequence_parameters;
use super::units::{CAPTURE_MAX, Unit, UnitCodec};
use crate::read::bits::Bits;
use crate::read::event::{Codec, FrameType, VideoInfo};

/// `nal_unit_type`s (table 7-1): slices are 0 to 9 and 16 to 21, the latter random access points.
const SLICE_LAST: u8 = 9;
const RANDOM_ACCESS_FIRST: u8 = 16;
const RANDOM_ACCESS_LAST: u8 = 21;
const RANDOM_ACCESS_RESERVED_LAST: u8 = 23;
const VIDEO_PARAMETERS: u8 = 32;
const SEQUENCE_PARAMETERS: u8 = 33;
const PICTURE_PARAMETERS: u8 = 34;
const END_OF_BITSTREAM: u8 = 37;
const SEI_PREFIX: u8 = 39;

/// Picture parameter sets a stream may have (§7.4.3.3.1).
const PICTURE_PARAMETERS_MAX: usize = 64;

/// Finds access units (§7.4.2.4.4).
#[derive(Debug)]
pub(super) struct Hevc {
    slices: bool,
    /// `num_extra_slice_header_bits` of each picture parameter set.
    extra_bits: [u8; PICTURE_PARAMETERS_MAX],
    video: Option<VideoInfo>,
    news: bool,
}

impl Hevc {
    pub(super) fn new() -> Self {
        Self { slices: false, extra_bits: [0; PICTURE_PARAMETERS_MAX], video: None, news: false }
    }

    fn begins_unit(kind: u8) -> bool {
        matches!(kind, VIDEO_PARAMETERS..=END_OF_BITSTREAM | SEI_PREFIX | 41..=44 | 48..=55)
    }

    fn is_random_access(kind: u8) -> bool {
        (RANDOM_ACCESS_FIRST..=RANDOM_ACCESS_RESERVED_LAST).contains(&kind)
    }

    /// First segment of a picture (§7.3.6.1).
    fn first_segment(&mut self, kind: u8, unit: Unit<'_>, access: &mut Access) {
        if self.slices {
            access.end(unit.start());
        }
        self.slices = true;
        access.begin(unit.start());
        if Self::is_random_access(kind) {
            access.key();
        }
        let mut b = Bits::of_nal(&unit.bytes[2..]);
        b.skip(if Self::is_random_access(kind) { 2 } else { 1 });
        let parameters = b.ue() as usize;
        b.skip(self.extra_bits.get(parameters).copied().unwrap_or(0).into());
        let slice_type = b.ue();
        if !b.overrun() {
            access.kind(match slice_type {
                0 => FrameType::B,
                1 => FrameType::P,
                2 => FrameType::I,
                _ => FrameType::Unknown,
            });
        }
    }

    fn picture_parameters(&mut self, bytes: &[u8]) {
        let mut b = Bits::of_nal(bytes);
        let id = b.ue() as usize;
        b.ue();
        b.skip(2);
        let extra = b.bits(3) as u8;
        if let (false, Some(place)) = (b.overrun(), self.extra_bits.get_mut(id)) {
            *place = extra;
        }
    }
}

impl UnitCodec for Hevc {
    fn wants(first: u8) -> usize {
        match first >> 1 & 0x3F {
            0..=SLICE_LAST | RANDOM_ACCESS_FIRST..=RANDOM_ACCESS_LAST => 12,
            SEQUENCE_PARAMETERS => CAPTURE_MAX,
            PICTURE_PARAMETERS => 16,
            _ => 2,
        }
    }

    fn unit(&mut self, unit: Unit<'_>, access: &mut Access) {
        let &[first, second, ref rest @ ..] = unit.bytes else { return };
        let kind = first >> 1 & 0x3F;
        let layer = (first & 1) << 5 | second >> 3;
        if layer > 0 {
            return;
        }
        if Self::begins_unit(kind) {
            if self.slices {
                access.end(unit.start());
                self.slices = false;
            }
            access.begin(unit.start());
        }
        match kind {
            0..=SLICE_LAST | RANDOM_ACCESS_FIRST..=RANDOM_ACCESS_LAST
                if rest.first().is_some_and(|b| b >> 7 == 1) =>
            {
                self.first_segment(kind, unit, access);
            }
            PICTURE_PARAMETERS => self.picture_parameters(rest),
            SEQUENCE_PARAMETERS => {
                if let Some(video) = sequence_parameters(rest) {
                    self.news |= self.video != Some(video);
                    self.video = Some(video);
                }
            }
            _ => {}
        }
    }

    fn take_video(&mut self) -> Option<(Codec, VideoInfo)> {
        if !core::mem::take(&mut self.news) {
            return None;
        }
        self.video.map(|video| (Codec::Hevc, video))
    }
}
