//! H.264 byte streams (ISO/IEC 14496-10 Annex B).

use super::access::Access;
use super::h264_headers::{sequence_parameters, tells_recovery_point};
use super::units::{CAPTURE_MAX, Unit, UnitCodec};
use crate::read::bits::Bits;
use crate::read::event::{Codec, FrameType, VideoInfo};

/// `nal_unit_type`s (table 7-1).
const SLICE: u8 = 1;
const PARTITION_A: u8 = 2;
const IDR_SLICE: u8 = 5;
const SEI: u8 = 6;
const SEQUENCE_PARAMETERS: u8 = 7;
const PICTURE_PARAMETERS: u8 = 8;
const DELIMITER: u8 = 9;

/// Finds access units.
///
/// A unit ends before the first delimiter, parameter set or SEI after its slices (§7.4.1.2.3), or
/// before a slice whose first macroblock is not beyond the last slice's: without arbitrary slice
/// order, which no profile in use has, that is the first slice of another picture.
#[derive(Debug, Default)]
pub(super) struct H264 {
    slices: bool,
    last_macroblock: u32,
    video: Option<VideoInfo>,
    news: bool,
}

impl H264 {
    fn slice(&mut self, kind: u8, unit: Unit<'_>, access: &mut Access) {
        let mut b = Bits::of_nal(&unit.bytes[1..]);
        let first_macroblock = b.ue();
        let slice_type = b.ue();
        if b.overrun() {
            return;
        }
        if self.slices && first_macroblock <= self.last_macroblock {
            access.end(unit.start());
        }
        self.slices = true;
        self.last_macroblock = first_macroblock;
        access.begin(unit.start());
        access.slice(match slice_type % 5 {
            0 | 3 => FrameType::P, // P, SP
            1 => FrameType::B,
            _ => FrameType::I, // I, SI
        });
        if kind == IDR_SLICE {
            access.key();
        }
    }
}

impl UnitCodec for H264 {
    fn wants(first: u8) -> usize {
        match first & 0x1F {
            SLICE | PARTITION_A | IDR_SLICE => 16,
            SEI => 128,
            SEQUENCE_PARAMETERS => CAPTURE_MAX,
            _ => 1,
        }
    }

    fn unit(&mut self, unit: Unit<'_>, access: &mut Access) {
        let kind = unit.bytes[0] & 0x1F;
        if matches!(kind, SEI | SEQUENCE_PARAMETERS | PICTURE_PARAMETERS | DELIMITER) {
            if self.slices {
                access.end(unit.start());
                self.slices = false;
            }
            access.begin(unit.start());
        }
        match kind {
            SLICE | PARTITION_A | IDR_SLICE => self.slice(kind, unit, access),
            SEI if tells_recovery_point(&unit.bytes[1..]) => access.key(),
            SEQUENCE_PARAMETERS => {
                if let Some(video) = sequence_parameters(&unit.bytes[1..]) {
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
        self.video.map(|video| (Codec::H264, video))
    }
}
