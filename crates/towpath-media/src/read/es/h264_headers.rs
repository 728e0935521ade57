//! Parameter sets and SEI of H.264, as far as an inspection needs them.

use crate::read::bits::Bits;
use crate::read::event::VideoInfo;

/// Payload type of a recovery point (Annex D).
const RECOVERY_POINT: usize = 6;

/// `cpb_cnt_minus1` at most (E.2.2).
const SCHEDULES_MAX: u32 = 31;

/// Profiles whose parameter set tells the chroma format (§7.3.2.1.1).
const WITH_CHROMA: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Whether a SEI unit (after its header byte) tells a recovery point in the bytes at hand.
pub(super) fn tells_recovery_point(mut bytes: &[u8]) -> bool {
    while bytes.len() > 2 {
        let (Some(kind), Some(size)) = (varying(&mut bytes), varying(&mut bytes)) else {
            return false;
        };
        if kind == RECOVERY_POINT {
            return true;
        }
        let Some(rest) = bytes.get(size..) else { return false };
        bytes = rest;
    }
    false
}

/// A number as a run of 255s and a last byte (§7.3.2.3.1).
fn varying(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    loop {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        value += usize::from(first);
        if first != 255 {
            return Some(value);
        }
    }
}

/// Sequence parameter set after its header byte (§7.3.2.1.1).
pub(super) fn sequence_parameters(bytes: &[u8]) -> Option<VideoInfo> {
    let mut b = Bits::of_nal(bytes);
    let profile = b.bits(8) as u8;
    b.skip(8);
    let level = b.bits(8) as u16;
    b.ue();
    let chroma = if WITH_CHROMA.contains(&profile) { high_profile(&mut b) } else { 1 };
    b.ue();
    picture_order(&mut b)?;
    b.ue();
    b.skip(1);
    let width_blocks = b.ue().checked_add(1)?;
    let height_units = b.ue().checked_add(1)?;
    let frames_only = b.bit();
    if !frames_only {
        b.skip(1);
    }
    b.skip(1);
    let fields = if frames_only { 1 } else { 2 };
    let coded = (width_blocks.checked_mul(16)?, height_units.checked_mul(16 * fields)?);
    let (width, height) = shown(&mut b, coded, chroma, fields)?;
    let mut video = VideoInfo { width, height, profile, level, ..VideoInfo::default() };
    if b.bit() {
        usability(&mut b, &mut video);
    }
    Some(video)
}

/// The picture without what its cropping window leaves out, in H.264 as in H.265; `fields`: rows of
/// the window's unit stand for so many rows. `None` if nothing is left.
pub(super) fn shown(
    b: &mut Bits<'_>,
    (width, height): (u32, u32),
    chroma: u32,
    fields: u32,
) -> Option<(u32, u32)> {
    let crop = if b.bit() { [b.ue(), b.ue(), b.ue(), b.ue()] } else { [0; 4] };
    let (unit_x, unit_y) = match chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    let width = width.checked_sub(crop[0].checked_add(crop[1])?.checked_mul(unit_x)?)?;
    let height = height.checked_sub(crop[2].checked_add(crop[3])?.checked_mul(unit_y * fields)?)?;
    (!b.overrun() && width > 0 && height > 0).then_some((width, height))
}

/// Chroma format and scaling lists; gives `chroma_format_idc`.
fn high_profile(b: &mut Bits<'_>) -> u32 {
    let chroma = b.ue();
    if chroma == 3 {
        b.skip(1);
    }
    b.ue();
    b.ue();
    b.skip(1);
    if b.bit() {
        for list in 0..if chroma == 3 { 12 } else { 8 } {
            if b.bit() {
                scaling_list(b, if list < 6 { 16 } else { 64 });
            }
        }
    }
    chroma
}

fn scaling_list(b: &mut Bits<'_>, size: usize) {
    let (mut last, mut next) = (8_i32, 8_i32);
    for _ in 0..size {
        if next != 0 {
            next = last.wrapping_add(b.se()) & 0xFF;
        }
        if next != 0 {
            last = next;
        }
    }
}

fn picture_order(b: &mut Bits<'_>) -> Option<()> {
    match b.ue() {
        0 => {
            b.ue();
        }
        1 => {
            b.skip(1);
            b.se();
            b.se();
            let cycle = b.ue();
            if cycle > 255 {
                return None;
            }
            for _ in 0..cycle {
                b.se();
            }
        }
        _ => {}
    }
    Some(())
}

/// Video usability information (Annex E): timing and the decoder model.
fn usability(b: &mut Bits<'_>, video: &mut VideoInfo) {
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
    if b.bit() {
        let (tick, scale) = (b.bits(32), b.bits(32));
        b.skip(1);
        // Two ticks to a frame (E.2.1).
        if tick != 0 && scale != 0 && !b.overrun() {
            (video.fps_num, video.fps_den) = match tick.checked_mul(2) {
                Some(double) if scale % 2 == 1 => (scale, double),
                _ => (scale / 2, tick),
            };
        }
    }
    if b.bit() {
        // The model decoder takes the last of the schedules (13818-1 §2.14.3.1).
        let schedules = b.ue();
        let (rate_scale, size_scale) = (b.bits(4), b.bits(4));
        for _ in 0..schedules.min(SCHEDULES_MAX) {
            b.ue();
            b.ue();
            b.skip(1);
        }
        let rate = (u64::from(b.ue()) + 1) << (6 + rate_scale);
        let size = (u64::from(b.ue()) + 1) << (4 + size_scale);
        if !b.overrun() {
            video.rate_bps = rate;
            video.buffer_bytes = size / 8;
        }
    }
}
