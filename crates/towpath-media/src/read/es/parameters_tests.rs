//! Sequence parameter sets, written bit by bit with each part that they may have: what stands
//! behind a part is read right when the part is.

use std::vec::Vec;

use super::access::Access;
use super::h264::H264;
use super::h264_headers::{sequence_parameters as h264, tells_recovery_point};
use super::hevc::Hevc;
use super::hevc_headers::sequence_parameters as hevc;
use super::mpeg::MpegVideo;
use super::units::UnitCodec;
use crate::read::event::{Codec, VideoInfo};

/// Bits of a unit.
#[derive(Clone, Default)]
struct Unit(Vec<bool>);

impl Unit {
    fn u(mut self, n: u32, value: u64) -> Self {
        self.0.extend((0..n).rev().map(|i| value >> i & 1 == 1));
        self
    }

    fn ue(self, value: u32) -> Self {
        let code = u64::from(value) + 1;
        let len = 64 - code.leading_zeros();
        self.u(len - 1, 0).u(len, code)
    }

    fn ues(self, values: &[u32]) -> Self {
        values.iter().fold(self, |unit, &value| unit.ue(value))
    }

    fn se(self, value: i32) -> Self {
        let twice = value.unsigned_abs() * 2;
        self.ue(if value > 0 { twice - 1 } else { twice })
    }

    fn and(mut self, part: &Self) -> Self {
        self.0.extend(&part.0);
        self
    }

    /// Its bytes, with what keeps start codes out.
    fn bytes(self) -> Vec<u8> {
        let mut bits = self.0;
        bits.push(true);
        bits.resize(bits.len().next_multiple_of(8), false);
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        let mut bytes: Vec<u8> = Vec::new();
        for byte in bits.chunks(8).map(byte) {
            if byte <= 3 && bytes.ends_with(&[0, 0]) {
                bytes.push(3);
            }
            bytes.push(byte);
        }
        bytes
    }
}

fn unit() -> Unit {
    Unit::default()
}

/// Usability information with nothing but a time: 1 tick of 50 in a second.
fn timed() -> Unit {
    unit().u(1, 1).u(4, 0).u(1, 1).u(32, 1).u(32, 50).u(1, 1).u(1, 0)
}

/// From the number of reference frames on: 320 by 240, whole frames, nothing cropped.
fn plain_size() -> Unit {
    unit().ue(4).u(1, 0).ues(&[19, 14]).u(1, 1).u(1, 1).u(1, 0)
}

const PLAIN: VideoInfo = VideoInfo {
    width: 320,
    height: 240,
    fps_num: 25,
    fps_den: 1,
    profile: 66,
    level: 31,
    rate_bps: 0,
    buffer_bytes: 0,
    vbv_delay: false,
};

/// Profile to picture order, with picture order of type 0.
fn front(profile: u64, high: &Unit) -> Unit {
    unit().u(8, profile).u(8, 0xC0).u(8, 31).ue(2).and(high).ue(5).ues(&[0, 3])
}

fn of(front: &Unit, size: &Unit, usability: &Unit) -> Option<VideoInfo> {
    h264(&front.clone().and(size).and(usability).bytes())
}

#[test]
fn a_sequence_of_h264_tells_its_size_profile_level_and_rate() {
    let found = of(&front(66, &unit()), &plain_size(), &timed());
    assert_eq!(found, Some(PLAIN));
    let untimed = of(&front(66, &unit()), &plain_size(), &unit().u(1, 0));
    assert_eq!(untimed, Some(VideoInfo { fps_num: 0, fps_den: 0, ..PLAIN }));
    assert_eq!(h264(&[]), None);
    assert_eq!(h264(&front(66, &unit()).bytes()), None, "it ends before its size");
}

#[test]
fn picture_order_of_every_type_is_passed() {
    let order = |order: Unit| {
        let front = unit().u(8, 66).u(8, 0).u(8, 31).ues(&[0, 0]).and(&order);
        of(&front, &plain_size(), &timed())
    };
    let cycle = |n: u32| {
        let head = unit().ue(1).u(1, 1).se(-7).se(5).ue(n);
        (0..n).fold(head, |unit, k| unit.se(k.cast_signed() % 9 - 4))
    };
    assert_eq!(order(unit().ue(2)), Some(PLAIN));
    for n in [0, 1, 3, 255] {
        assert_eq!(order(cycle(n)), Some(PLAIN), "{n}");
    }
    assert_eq!(order(cycle(256)), None);
}

/// Scaling lists: of each the numbers that are there.
fn lists(chroma: u32, lists: &[Option<&[i32]>]) -> Unit {
    let head = unit().ue(chroma);
    let head = if chroma == 3 { head.u(1, 1) } else { head };
    let head = head.ues(&[2, 1]).u(1, 1).u(1, 1);
    lists.iter().fold(head, |unit, list| match list {
        None => unit.u(1, 0),
        Some(steps) => steps.iter().fold(unit.u(1, 1), |unit, &step| unit.se(step)),
    })
}

#[test]
fn scaling_lists_are_passed_in_their_lengths() {
    let (short, long) = ([1; 16], core::array::from_fn::<_, 64, _>(|n| [1, -1][n % 2]));
    // One that has come to nothing goes on by itself; numbers have eight bits.
    let (ended, wrapped, turned) = ([-8], [124, 124], [127, 127, 127, 127, -4]);
    let middle: [i32; 3] = [3, 4, -15];
    let high = |profile| VideoInfo { profile, ..PLAIN };
    let all: Vec<Option<&[i32]>> = [
        Some(&short[..]),
        None,
        Some(&ended),
        Some(&wrapped),
        Some(&turned),
        Some(&middle),
        Some(&long),
        None,
    ]
    .into();
    for chroma in [0, 1, 2] {
        let front = front(100, &lists(chroma, &all));
        assert_eq!(of(&front, &plain_size(), &timed()), Some(high(100)), "{chroma}");
    }
    let twelve: Vec<_> = all.iter().copied().chain([None, Some(&long[..]), None, None]).collect();
    let front = |lists: &Unit| front(244, lists);
    assert_eq!(of(&front(&lists(3, &twelve)), &plain_size(), &timed()), Some(high(244)));
    let none = unit().ue(1).ues(&[0, 0]).u(1, 0).u(1, 0);
    assert_eq!(of(&front(&none), &plain_size(), &timed()), Some(high(244)));
}

#[test]
fn what_is_cropped_is_not_shown() {
    let high = |chroma: u32| {
        let high = unit().ue(chroma);
        let high = if chroma == 3 { high.u(1, 0) } else { high };
        front(122, &high.ues(&[0, 0]).u(1, 0).u(1, 0))
    };
    let size = |whole: u64, crop: &[u32]| {
        let size = unit().ue(1).u(1, 1).ues(&[19, 14]).u(1, whole);
        let size = if whole == 0 { size.u(1, 1) } else { size };
        size.u(1, 0).u(1, 1).ues(crop)
    };
    let shown = |chroma, whole, crop: &[u32]| {
        let found = of(&high(chroma), &size(whole, crop), &timed())?;
        assert_eq!((found.fps_num, found.fps_den, found.profile), (25, 1, 122));
        Some((found.width, found.height))
    };
    for (chroma, x, y) in [(0, 1, 1), (1, 2, 2), (2, 2, 1), (3, 1, 1)] {
        let expected = (320 - 3 * x, 240 - 7 * y);
        assert_eq!(shown(chroma, 1, &[1, 2, 3, 4]), Some(expected), "chroma {chroma}");
        // Fields: rows and their units stand for two.
        let expected = (320 - 3 * x, 480 - 14 * y);
        assert_eq!(shown(chroma, 0, &[1, 2, 3, 4]), Some(expected), "chroma {chroma}, fields");
    }
    assert_eq!(shown(1, 1, &[79, 80, 0, 119]), Some((2, 2)));
    for crop in [[80, 80, 0, 0], [80, 81, 0, 0], [0, 0, 60, 60], [0, 0, 60, 61], [u32::MAX - 1; 4]]
    {
        assert_eq!(shown(1, 1, &crop), None, "{crop:?}");
    }
    // One macroblock wider than numbers go.
    let wide = unit().ue(1).u(1, 0).ues(&[(1 << 28) - 1, 14]).u(1, 1).u(1, 0).u(1, 0);
    assert_eq!(of(&front(66, &unit()), &wide, &timed()), None);
}

/// Everything before the time, in H.264 as in H.265.
fn signal(all: bool) -> Unit {
    if !all {
        return unit().u(1, 1).u(4, 0);
    }
    let aspect = unit().u(1, 1).u(1, 1).u(8, 255).u(32, 0x1234_5678);
    aspect.u(1, 1).u(1, 0).u(1, 1).u(4, 0b1011).u(1, 1).u(24, 0x00AB_CDEF).u(1, 1).ues(&[3, 2])
}

#[test]
fn a_rate_is_half_as_many_ticks() {
    for (tick, scale, rate) in [
        (1, 50, (25, 1)),
        (1001, 60_000, (30_000, 1001)),
        (1, 25, (25, 2)),
        (1 << 31, 7, (3, 1 << 31)),
        ((1 << 31) - 1, 7, (7, u32::MAX - 1)),
        (0, 50, (0, 0)),
        (1, 0, (0, 0)),
    ] {
        for all in [false, true] {
            let time = signal(all).u(1, 1).u(32, tick).u(32, scale).u(1, 0).u(1, 0);
            let found = of(&front(66, &unit()), &plain_size(), &time);
            let (fps_num, fps_den) = rate;
            assert_eq!(found, Some(VideoInfo { fps_num, fps_den, ..PLAIN }), "{tick} {scale}");
        }
    }
    // An aspect by its number, and a signal without colours.
    let other = unit().u(1, 1).u(1, 1).u(8, 254).u(1, 0).u(1, 1).u(4, 5).u(1, 0).u(1, 0);
    let time = other.u(1, 1).u(32, 1).u(32, 50).u(1, 0).u(1, 0);
    assert_eq!(of(&front(66, &unit()), &plain_size(), &time), Some(PLAIN));
    // Cut in the middle of it.
    let mut bytes = front(66, &unit()).and(&plain_size()).and(&timed()).bytes();
    bytes.truncate(bytes.len() - 3);
    let cut = h264(&bytes).expect("its size is there");
    assert_eq!((cut.width, cut.fps_num, cut.fps_den), (320, 0, 0));
}

#[test]
fn the_last_schedule_of_the_model_decoder_counts() {
    let model = |schedules: u32, time: u64| {
        let head = signal(false).u(1, time);
        let head = if time == 1 { head.u(32, 1).u(32, 50).u(1, 1) } else { head };
        let head = head.u(1, 1).ue(schedules).u(4, 3).u(4, 5);
        let rows = (0..=schedules.min(31)).fold(head, |unit, n| unit.ues(&[n + 9, n + 4]).u(1, 1));
        let found = of(&front(66, &unit()), &plain_size(), &rows).expect("it is whole");
        assert_eq!(found.fps_num, if time == 1 { 25 } else { 0 });
        (found.rate_bps, found.buffer_bytes)
    };
    for (schedules, last) in [(0, 0), (1, 1), (4, 4), (31, 31), (40, 31)] {
        let expected = ((last + 10) << 9, ((last + 5) << 9) / 8);
        assert_eq!((model(schedules, 0), model(schedules, 1)), (expected, expected));
    }
}

#[test]
fn a_recovery_point_is_found_among_messages() {
    let tells = |bytes: &[u8]| tells_recovery_point(bytes);
    assert!(tells(&[6, 1, 0x80]));
    assert!(!tells(&[6, 1]), "its content is not there");
    assert!(!tells(&[5, 1, 9]) && !tells(&[]));
    assert!(tells(&[5, 1, 9, 6, 1, 0x80]));
    assert!(!tells(&[5, 2, 9, 6, 1, 0x80, 0]), "the number stands in another's content");
    assert!(!tells(&[5, 20, 9, 6, 1, 0x80]), "it is longer than what is there");
    // Numbers from 255 on have several bytes.
    let long = [&[5, 255, 1][..], &[7; 256], &[6, 1, 0]].concat();
    assert!(tells(&long));
    assert!(!tells(&[255, 6, 1, 0, 0]), "number 261");
    assert!(!tells(&[255; 9]));
}

/// What the tests with H.265 vary.
#[derive(Clone)]
struct Parts {
    sub_layers: u32,
    /// Of the lower layers: whether profile and level are told.
    told: Vec<(u64, u64)>,
    chroma: u32,
    crop: Option<[u32; 4]>,
    order_bits: u32,
    all_layers: u64,
    scaling: Option<Unit>,
    raw: bool,
    sets: Unit,
    long_term: Option<u32>,
    signal: Unit,
}

fn parts() -> Parts {
    Parts {
        sub_layers: 0,
        told: Vec::new(),
        chroma: 1,
        crop: None,
        order_bits: 4,
        all_layers: 1,
        scaling: None,
        raw: false,
        sets: unit().ue(0),
        long_term: None,
        signal: unit().u(4, 0).u(3, 0).u(1, 0),
    }
}

impl Parts {
    fn unit(&self) -> Unit {
        let layers = self.sub_layers;
        let head = unit().u(4, 1).u(3, layers.into()).u(1, 1);
        let head = head.u(2, 0).u(1, 1).u(5, 2).u(32, 0x6000_0000).u(48, 0x9000_0000_0001);
        let mut unit = head.u(8, 93);
        for &(profile, level) in &self.told {
            unit = unit.u(1, profile).u(1, level);
        }
        if layers > 0 {
            unit = unit.u(2 * (8 - layers), 0);
        }
        for &(profile, level) in &self.told {
            unit = if profile == 1 { unit.u(44, 0xFF_FFFF).u(44, 0xABC_DEF1) } else { unit };
            unit = if level == 1 { unit.u(8, 0x5A) } else { unit };
        }
        unit = unit.ues(&[3, self.chroma]);
        unit = if self.chroma == 3 { unit.u(1, 1) } else { unit };
        unit = unit.ues(&[640, 360]);
        unit = match &self.crop {
            Some(crop) => unit.u(1, 1).ues(crop),
            None => unit.u(1, 0),
        };
        unit = unit.ues(&[2, 1, self.order_bits]).u(1, self.all_layers);
        for layer in 0..if self.all_layers == 1 { layers + 1 } else { 1 } {
            unit = unit.ues(&[layer + 4, 2, 5]);
        }
        unit = unit.ues(&[0, 3, 1, 2, 4, 6]);
        unit = match &self.scaling {
            Some(scaling) => unit.u(1, 1).and(scaling),
            None => unit.u(1, 0),
        };
        unit = unit.u(2, 2).u(1, self.raw.into());
        unit = if self.raw { unit.u(8, 0x77).ues(&[2, 5]).u(1, 1) } else { unit };
        unit = unit.and(&self.sets);
        unit = match self.long_term {
            Some(count) => (0..count).fold(unit.u(1, 1).ue(count), |unit, n| {
                unit.u(self.order_bits + 4, u64::from(n)).u(1, 1)
            }),
            None => unit.u(1, 0),
        };
        unit.u(2, 3).u(1, 1).and(&self.signal).u(1, 1).u(32, 1001).u(32, 30_000)
    }

    /// Size and rate.
    fn read(&self) -> Option<(u32, u32, u32, u32)> {
        let video = hevc(&self.unit().bytes())?;
        assert_eq!((video.profile, video.level), (2, 256 + 93));
        Some((video.width, video.height, video.fps_num, video.fps_den))
    }
}

const WHOLE: Option<(u32, u32, u32, u32)> = Some((640, 360, 30_000, 1001));
/// Its size is told, but what stands behind was not understood.
const SIZE: Option<(u32, u32, u32, u32)> = Some((640, 360, 0, 0));

#[test]
fn a_sequence_of_h265_is_read_past_its_layers() {
    assert_eq!(parts().read(), WHOLE);
    for told in [&[(1, 1)][..], &[(0, 1), (1, 0)], &[(1, 0), (0, 0), (0, 1)], &[(1, 1); 6]] {
        for all_layers in [0, 1] {
            // The flag says whether each layer tells its own.
            let told = told.to_vec();
            let parts = Parts { sub_layers: told.len() as u32, told, all_layers, ..parts() };
            assert_eq!(parts.read(), WHOLE, "{:?}", parts.told);
        }
    }
    for (chroma, size) in [(0, (630, 353)), (1, (620, 346)), (2, (620, 353)), (3, (630, 353))] {
        let parts = Parts { chroma, crop: Some([6, 4, 5, 2]), ..parts() };
        assert_eq!(parts.read(), Some((size.0, size.1, 30_000, 1001)), "chroma {chroma}");
    }
    for (order_bits, read) in [(0, WHOLE), (12, WHOLE), (13, SIZE)] {
        let parts = Parts { order_bits, long_term: Some(3), ..parts() };
        assert_eq!(parts.read(), read, "{order_bits}");
    }
    for (count, read) in [(0, WHOLE), (32, WHOLE), (33, SIZE)] {
        assert_eq!(Parts { long_term: Some(count), ..parts() }.read(), read, "{count}");
    }
    assert_eq!(Parts { raw: true, ..parts() }.read(), WHOLE);
}

#[test]
fn scaling_lists_of_h265_are_passed() {
    let none = Some(unit().u(1, 0));
    assert_eq!(Parts { scaling: none, ..parts() }.read(), WHOLE);
    for sizes in [[0_u32; 4], [1; 4], [1, 0, 1, 0], [0, 1, 0, 1]] {
        let mut scaling = unit().u(1, 1);
        for (size, told) in (0..4_u32).zip(sizes) {
            for matrix in 0..if size == 3 { 2 } else { 6 } {
                scaling = scaling.u(1, told.into());
                if told == 0 {
                    scaling = scaling.ue(matrix % 2);
                    continue;
                }
                scaling = if size > 1 { scaling.se(7) } else { scaling };
                let count = if size == 0 { 16 } else { 64 };
                scaling = (0..count).fold(scaling, |unit, n| unit.se(n % 5 - 2));
            }
        }
        assert_eq!(Parts { scaling: Some(scaling), ..parts() }.read(), WHOLE, "{sizes:?}");
    }
}

/// A set of so many pictures before and after.
fn set(unit: Unit, negative: u32, positive: u32) -> Unit {
    let head = unit.ues(&[negative, positive]);
    (0..negative + positive).fold(head, |unit, n| unit.ue(n % 3).u(1, u64::from(n) & 1))
}

#[test]
fn sets_of_reference_pictures_are_passed() {
    let read = |sets: Unit| Parts { sets, ..parts() }.read();
    assert_eq!(read(set(unit().ue(1), 3, 2)), WHOLE);
    assert_eq!(read(set(unit().ue(1), 16, 16)), WHOLE);
    assert_eq!(read(set(unit().ue(1), 17, 0)), SIZE);
    assert_eq!(read(set(unit().ue(1), 0, 17)), SIZE);
    let many = |count| {
        let first = set(unit().ue(count), 1, 1);
        (1..count).fold(first, |unit, _| set(unit.u(1, 0), 0, 1))
    };
    assert_eq!((read(many(64)), read(many(65))), (WHOLE, SIZE));
    // The second is told by the first, of 5 pictures: 6 of which 4 are used or kept; the third
    // by that: 5.
    let second = set(unit().ue(3), 3, 2).u(1, 1).u(1, 1).ue(7);
    let second = second.u(1, 1).u(2, 0b01).u(2, 0b00).u(1, 1).u(2, 0b00).u(2, 0b01);
    let third = second.u(1, 1).u(1, 0).ue(2).u(5, 0b11111);
    assert_eq!(read(third), WHOLE);
    assert_eq!(hevc(&set(unit().ue(1), 3, 2).bytes()), None);
}

#[test]
fn usability_of_h265_is_read_up_to_the_time() {
    let end = |signal: Unit, window: u64| {
        let signal = signal.u(3, 5).u(1, window);
        if window == 1 { signal.ues(&[1, 2, 3, 4]) } else { signal }
    };
    // `signal` begins with the flag that is there in H.264 alone.
    let all = Unit(signal(true).0[1..].to_vec());
    let number = unit().u(1, 1).u(8, 254).u(1, 0).u(1, 1).u(4, 5).u(1, 0).u(1, 0);
    let none = unit().u(4, 0);
    for (which, signal) in [all, number, none].into_iter().enumerate() {
        for window in [0, 1] {
            let signal = end(signal.clone(), window);
            let mut parts = parts();
            parts.signal = signal;
            assert_eq!(parts.read(), WHOLE, "{which} {window}");
        }
    }
    // None at all: the flag before it is not set.
    let mut parts = parts();
    parts.signal = end(unit().u(4, 0), 0);
    let whole = parts.unit();
    let flag = whole.0.len() - 65 - parts.signal.0.len() - 1;
    let mut without = whole.clone();
    without.0[flag] = false;
    let video = hevc(&without.bytes()).expect("its size is there");
    assert_eq!((video.width, video.fps_num), (640, 0));
    // No time, and no rate of nothing.
    for (tick, scale) in [(0, 5), (5, 0)] {
        let mut bits = whole.clone();
        bits.0.truncate(bits.0.len() - 64);
        let video = hevc(&bits.u(32, tick).u(32, scale).bytes()).expect("its size is there");
        assert_eq!((video.fps_num, video.fps_den), (0, 0));
    }
}

/// What a codec tells of the pictures, unit by unit.
fn told<C: UnitCodec>(mut codec: C, units: &[Vec<u8>]) -> Vec<Option<(Codec, u32)>> {
    let mut access = Access::new(0);
    let mut at = 0;
    units
        .iter()
        .map(|bytes| {
            codec.unit(super::units::Unit { at, long: false, bytes }, &mut access);
            at += bytes.len() as u64 + 3;
            codec.take_video().map(|(codec, video)| (codec, video.width))
        })
        .collect()
}

#[test]
fn parameters_are_told_when_they_are_new() {
    let sps = |width: u32| {
        let size = unit().ue(4).u(1, 0).ues(&[width / 16 - 1, 14]).u(1, 1).u(1, 1).u(1, 0);
        [&[0x67][..], &front(66, &unit()).and(&size).and(&timed()).bytes()].concat()
    };
    let broken = std::vec![0x67, 66];
    let units = [sps(320), sps(320), broken, sps(640), sps(640), sps(320)];
    let new = |width| Some((Codec::H264, width));
    let expected = [new(320), None, None, new(640), None, new(320)];
    assert_eq!(told(H264::default(), &units), expected);
    // Two that came before anybody asked: the last one counts.
    let mut codec = H264::default();
    let mut access = Access::new(0);
    for bytes in [&units[0], &units[3], &units[4]] {
        codec.unit(super::units::Unit { at: 0, long: false, bytes }, &mut access);
    }
    assert_eq!(codec.take_video().map(|(_, video)| video.width), Some(640));
    let sps = |chroma| {
        [&[0x42, 1][..], &Parts { chroma, crop: Some([4, 0, 0, 0]), ..parts() }.unit().bytes()]
            .concat()
    };
    let units = [sps(1), sps(1), sps(3), sps(3)];
    let new = |width| Some((Codec::Hevc, width));
    assert_eq!(told(Hevc::new(), &units), [new(632), None, new(636), None]);
    // Of a layer above the first nothing is told.
    let mut above = sps(1);
    above[1] |= 8;
    let mut far = sps(1);
    far[0] |= 1;
    assert_eq!(told(Hevc::new(), &[above, far, sps(1)]), [None, None, new(632)]);
}

#[test]
fn an_extension_of_mpeg2_adds_to_its_sequence_header() {
    let header =
        unit().u(12, 0x2D0).u(12, 0x240).u(4, 2).u(4, 3).u(18, 0x1_0203).u(1, 1).u(10, 0x2AA);
    let header = [&[0xB3][..], &header.u(1, 0).bytes()].concat();
    let extension = |profile_level: u64, n: u64, d: u64| {
        let bits = unit().u(4, 1).u(8, profile_level).u(1, 1).u(2, 1).u(2, 1).u(2, 2);
        let bits = bits.u(12, 3).u(1, 1).u(8, 5).u(1, 0).u(2, n).u(5, d);
        [&[0xB5][..], &bits.bytes()].concat()
    };
    let picture = std::vec![0x00, 0, 0x0F, 0xFF, 0xF8];
    let of = |extension: Vec<u8>| {
        let mut codec = MpegVideo::new();
        let mut access = Access::new(0);
        for bytes in [&header, &extension, &picture] {
            codec.unit(
                super::units::Unit { at: 0, long: false, bytes: &bytes[..bytes.len().min(9)] },
                &mut access,
            );
        }
        codec.take_video().expect("a picture came")
    };
    let (codec, video) = of(extension(0x85, 1, 2));
    assert_eq!(codec, Codec::Mpeg2Video);
    // The escape bit is no part of the profile.
    assert_eq!((video.profile, video.level), (0, 5));
    assert_eq!((video.width, video.height), (0x2D0 | 1 << 12, 0x240 | 2 << 12));
    assert_eq!((video.fps_num, video.fps_den), (25 * 2, 3));
    let rate = 0x1_0203_u64 + (3 << 18);
    assert_eq!((video.rate_bps, video.buffer_bytes), (rate * 400, (0x2AA + (5 << 10)) * 2048));
    let (_, video) = of(extension(0x48, 0, 0));
    assert_eq!((video.profile, video.level, video.fps_num, video.fps_den), (4, 8, 25, 1));
}
