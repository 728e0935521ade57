//! The sequence parameter set of H.265, as far as an inspection needs it.

use super::h264_headers::shown;
use crate::read::bits::Bits;
use crate::read::event::VideoInfo;

/// Short-term reference picture sets of a sequence (§7.4.3.2.1).
const REFERENCE_SETS_MAX: u32 = 64;
/// Pictures of one set, either way (`sps_max_dec_pic_buffering_minus1` is at most 15).
const REFERENCES_MAX: u32 = 16;

/// Sequence parameter set after its header of two bytes (§7.3.2.2.1).
pub(super) fn sequence_parameters(bytes: &[u8]) -> Option<VideoInfo> {
    let mut b = Bits::of_nal(bytes);
    b.skip(4);
    let sub_layers = b.bits(3);
    b.skip(1);
    let (profile, level) = profile_tier_level(&mut b, sub_layers);
    b.ue();
    let chroma = b.ue();
    if chroma == 3 {
        b.skip(1);
    }
    let coded = (b.ue(), b.ue());
    let (width, height) = shown(&mut b, coded, chroma, 1)?;
    let mut video = VideoInfo { width, height, profile, level, ..VideoInfo::default() };
    // What follows is only needed for the frame rate; a set too long to be seen whole has none.
    let _ = to_usability(&mut b, sub_layers).and_then(|()| usability(&mut b, &mut video));
    Some(video)
}

/// §7.3.3: gives profile and level (bit 8: high tier).
fn profile_tier_level(b: &mut Bits<'_>, sub_layers: u32) -> (u8, u16) {
    b.skip(2);
    let tier = u16::from(b.bit());
    let profile = b.bits(5) as u8;
    b.skip(32 + 48);
    let level = b.bits(8) as u16 | tier << 8;
    let present: [(bool, bool); 7] = core::array::from_fn(|i| {
        if (i as u32) < sub_layers { (b.bit(), b.bit()) } else { (false, false) }
    });
    if sub_layers > 0 {
        b.skip(2 * (8 - sub_layers));
    }
    for (has_profile, has_level) in present {
        b.skip(if has_profile { 88 } else { 0 } + if has_level { 8 } else { 0 });
    }
    (profile, level)
}

/// Everything between the picture size and the usability information.
fn to_usability(b: &mut Bits<'_>, sub_layers: u32) -> Option<()> {
    b.ue();
    b.ue();
    let order_bits = b.ue().checked_add(4).filter(|&n| n <= 16)?;
    let all_layers = b.bit();
    for _ in if all_layers { 0 } else { sub_layers }..=sub_layers {
        b.ue();
        b.ue();
        b.ue();
    }
    for _ in 0..6 {
        b.ue();
    }
    if b.bit() && b.bit() {
        scaling_lists(b);
    }
    b.skip(2);
    if b.bit() {
        b.skip(8);
        b.ue();
        b.ue();
        b.skip(1);
    }
    reference_sets(b)?;
    if b.bit() {
        let count = b.ue();
        if count > 32 {
            return None;
        }
        for _ in 0..count {
            b.skip(order_bits + 1);
        }
    }
    b.skip(2);
    (!b.overrun()).then_some(())
}

/// §7.3.4.
fn scaling_lists(b: &mut Bits<'_>) {
    for size in 0..4_u32 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if !b.bit() {
                b.ue();
                continue;
            }
            if size > 1 {
                b.se();
            }
            for _ in 0..(1_u32 << (4 + 2 * size)).min(64) {
                b.se();
            }
        }
    }
}

/// §7.3.7.
fn reference_sets(b: &mut Bits<'_>) -> Option<()> {
    let sets = b.ue();
    if sets > REFERENCE_SETS_MAX {
        return None;
    }
    let mut previous = 0;
    for set in 0..sets {
        if set > 0 && b.bit() {
            b.skip(1);
            b.ue();
            let mut kept = 0;
            for _ in 0..=previous {
                let used = b.bit();
                if used || b.bit() {
                    kept += 1;
                }
            }
            previous = kept;
        } else {
            let (negative, positive) = (b.ue(), b.ue());
            if negative > REFERENCES_MAX || positive > REFERENCES_MAX {
                return None;
            }
            for _ in 0..negative + positive {
                b.ue();
                b.skip(1);
            }
            previous = negative + positive;
        }
        if b.overrun() {
            return None;
        }
    }
    Some(())
}

/// Annex E: up to the timing.
fn usability(b: &mut Bits<'_>, video: &mut VideoInfo) -> Option<()> {
    if !b.bit() {
        return None;
    }
    if b.bit() && b.bits(8) == 255 {
        b.skip(32);
    }
    if b.bit() {
        b.skip(1);
    }
    if b.bit() {
        b.skip(4);
        if b.bit() {
            b.skip(24);
        }
    }
    if b.bit() {
        b.ue();
        b.ue();
    }
    b.skip(3);
    if b.bit() {
        for _ in 0..4 {
            b.ue();
        }
    }
    if b.bit() {
        let (tick, scale) = (b.bits(32), b.bits(32));
        if tick != 0 && scale != 0 && !b.overrun() {
            (video.fps_num, video.fps_den) = (scale, tick);
        }
    }
    Some(())
}
