//! The tables of sound's frame headers, entry by entry, and what no header can be.

use std::vec::Vec;

use super::audio_headers::{ac3, adts, mpeg};

/// Bytes of a frame, samples per second, samples, bits per second and channels.
type Row = (u32, u32, u16, u32, u8);

fn mpeg_row(bytes: [u8; 4]) -> Option<Row> {
    let h = mpeg(bytes)?;
    let i = h.info;
    Some((h.bytes, i.sample_rate_hz, i.frame_samples, i.rate_bps, i.channels))
}

#[test]
fn a_frame_of_mpeg_audio_lasts_as_long_as_its_samples() {
    let mut seen = 0;
    for version in [0u8, 2, 3] {
        for layer in 1..=3u8 {
            for rate in 1..15u8 {
                for hz in 0..3u8 {
                    for padding in [0u8, 1] {
                        let b2 = 0xE0 | version << 3 | (4 - layer) << 1 | 1;
                        let b1 = rate << 4 | hz << 2 | padding << 1;
                        let row = mpeg_row([0xFF, b2, b1, 0]).expect("a header");
                        let (bytes, rate_hz, samples, bps, channels) = row;
                        let full = [44_100, 48_000, 32_000][usize::from(hz)];
                        assert_eq!(rate_hz, full / [4, 0, 2, 1][usize::from(version)]);
                        // Slots of four bytes in the first layer.
                        let slot = if layer == 1 { 4 } else { 1 };
                        let exact = u64::from(bps) * u64::from(samples) / 8 / u64::from(rate_hz);
                        let whole = exact as u32 / slot * slot + u32::from(padding) * slot;
                        assert_eq!((bytes, channels), (whole, 2), "{version} {layer} {rate} {hz}");
                        assert_eq!(mpeg([0xFF, b2, b1, 0]).map(|h| h.info.layer), Some(layer));
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 756);
}

#[test]
fn rates_of_mpeg_audio_are_those_of_the_tables() {
    let rates = |b2: u8| -> Vec<u32> {
        let rate = |i: u8| mpeg([0xFF, b2, i << 4 | 4, 0]).map(|h| h.info.rate_bps / 1000);
        (0..16).filter_map(rate).collect()
    };
    let first = (1..15).map(|n| 32 * n).collect::<Vec<u32>>();
    assert_eq!(rates(0xFF), first);
    let second = [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
    assert_eq!(rates(0xFD), second);
    let third = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    assert_eq!(rates(0xFB), third);
    let half_first = [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256];
    assert_eq!((rates(0xF7), rates(0xE7)), (half_first.to_vec(), half_first.to_vec()));
    let half = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    for b2 in [0xF5, 0xF3, 0xE5, 0xE3] {
        assert_eq!(rates(b2), half, "{b2:#x}");
    }
    // Not a syncword, a reserved emphasis.
    assert_eq!(mpeg([0xFE, 0xFD, 0xA4, 0]), None);
    assert_eq!(mpeg([0xFF, 0xDD, 0xA4, 0]), None);
    assert_eq!((mpeg([0xFF, 0xFD, 0xA4, 2]), mpeg([0xFF, 0xFD, 0xA4, 3]).is_some()), (None, true));
    for (mode, channels) in [(0x00, 2), (0x40, 2), (0x80, 2), (0xC0, 1)] {
        let h = mpeg([0xFF, 0xFD, 0xA4, mode]).expect("a header");
        assert_eq!(h.info.channels, channels);
        assert!(!h.dependent && !h.leads);
    }
}

#[test]
fn every_sample_rate_and_configuration_of_aac() {
    let rates = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025,
        8_000, 7_350,
    ];
    for index in 0..16u8 {
        let h = adts([0xFF, 0xF1, index << 2, 0x40, 0x34, 0x60, 0xFC]);
        let expected = rates.get(usize::from(index)).copied();
        assert_eq!(h.map(|h| h.info.sample_rate_hz), expected, "{index}");
    }
    for (configuration, channels) in [(0u8, 0), (1, 1), (2, 2), (5, 5), (6, 6), (7, 8)] {
        let bytes = [0xFF, 0xF1, 0x50 | configuration >> 2, configuration << 6, 0x34, 0x60, 0xFC];
        let h = adts(bytes).expect("a header");
        assert_eq!((h.info.channels, h.bytes), (channels, 0x1A3), "{configuration}");
    }
    // Length: 13 bits of three bytes; eight bytes are a frame, seven only a header.
    let length = |n: u16| {
        let [b3, b2, b1] = [0x80 | (n >> 11) as u8, (n >> 3) as u8, (n << 5) as u8];
        adts([0xFF, 0xF1, 0x50, b3, b2, b1, 0]).map(|h| h.bytes)
    };
    assert_eq!([7, 8, 0x1000, 0x1FFF].map(length), [None, Some(8), Some(0x1000), Some(0x1FFF)]);
    let samples =
        |blocks| adts([0xFF, 0xF1, 0x50, 0x80, 0x34, 0x60, blocks]).unwrap().info.frame_samples;
    assert_eq!([0, 1, 2, 3].map(samples), [1024, 2048, 3072, 4096]);
    // A layer, or no syncword, is not AAC; either version is.
    let sync = |b6, b5| adts([b6, b5, 0x50, 0x80, 0x34, 0x60, 0]).is_some();
    assert_eq!([sync(0xFF, 0xF0), sync(0xFF, 0xF8), sync(0xFF, 0xF9)], [true; 3]);
    assert_eq!(
        [sync(0xFE, 0xF0), sync(0xFF, 0xF2), sync(0xFF, 0xF4), sync(0xFF, 0xE0)],
        [false; 4]
    );
}

#[test]
fn a_frame_of_ac3_holds_1536_samples_at_every_rate() {
    let kbps =
        [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
    for code in 0..64u8 {
        for (bits, hz) in [(0u8, 48_000u32), (1, 44_100), (2, 32_000)] {
            let h = ac3([0x0B, 0x77, 0, 0, bits << 6 | code, 8 << 3, 0b0100_0000]);
            let Some(rate) = kbps.get(usize::from(code) / 2) else {
                assert_eq!(h, None, "{code}");
                continue;
            };
            let h = h.expect("a header");
            assert_eq!((h.info.rate_bps, h.info.sample_rate_hz), (rate * 1000, hz));
            let words = rate * 1000 * 1536 / hz / 16;
            let odd = if hz == 44_100 { u32::from(code & 1) } else { 0 };
            assert_eq!(h.bytes, 2 * (words + odd), "{code}");
            assert!(!h.leads && !h.dependent);
        }
    }
    // Streams 9 and 10 run at half and a quarter of the rates, in frames as long.
    let slower = |id: u8| {
        let h = ac3([0x0B, 0x77, 0, 0, 30, id << 3, 0b0100_0000]).expect("a header");
        (h.bytes, h.info.sample_rate_hz, h.info.rate_bps)
    };
    assert_eq!(slower(6), (1792, 48_000, 448_000));
    assert_eq!(
        [8, 9, 10].map(slower),
        [(1792, 48_000, 448_000), (1792, 24_000, 224_000), (1792, 12_000, 112_000),]
    );
    let is = |s1, s0, id: u8| ac3([s1, s0, 0, 7, 0x30, id << 3, 0]).is_some();
    assert_eq!([is(0x0B, 0x77, 16), is(0x0B, 0x77, 17)], [true, false]);
    assert_eq!([is(0x0A, 0x77, 16), is(0x0B, 0x76, 16)], [false, false]);
}

#[test]
fn channels_of_ac3_are_those_of_its_mode_and_one_for_low_frequencies() {
    // The bit for low frequencies stands behind the mode's mixing levels.
    for (mode, channels, bit) in
        [(0u8, 2, 4), (1, 1, 4), (2, 2, 2), (3, 3, 2), (4, 3, 2), (5, 4, 0), (6, 4, 2), (7, 5, 0)]
    {
        let of = |rest: u8| {
            let h = ac3([0x0B, 0x77, 0, 0, 30, 8 << 3, mode << 5 | rest]).expect("a header");
            h.info.channels
        };
        assert_eq!(of(0), channels, "mode {mode}");
        assert_eq!(of(1 << bit), channels + 1, "mode {mode}");
        assert_eq!(of(0x1F & !(1 << bit)), channels, "mode {mode}, the levels only");
        // Enhanced: without levels between.
        let enhanced = |low: u8| {
            ac3([0x0B, 0x77, 0x41, 0x7F, 0x30 | mode << 1 | low, 16 << 3, 0]).expect("a header")
        };
        assert_eq!(
            (enhanced(0).info.channels, enhanced(1).info.channels),
            (channels, channels + 1)
        );
        assert!(enhanced(0).dependent && enhanced(0).leads);
    }
}

#[test]
fn enhanced_frames_have_one_to_six_blocks() {
    let of = |b2: u8, b1: u8, code: u8| {
        let h = ac3([0x0B, 0x77, b2, b1, code, 16 << 3, 0])?;
        let i = h.info;
        Some((h.bytes, i.sample_rate_hz, i.frame_samples, i.rate_bps))
    };
    for (blocks, samples) in [(0u8, 256), (1, 512), (2, 768), (3, 1536)] {
        let row = of(1, 0x7F, blocks << 4).expect("a header");
        assert_eq!(row, (768, 48_000, samples, 768 * 8 * 48_000 / u32::from(samples)));
    }
    assert_eq!(of(1, 0x7F, 0x70).map(|r| r.1), Some(44_100));
    assert_eq!(of(1, 0x7F, 0xB0).map(|r| r.1), Some(32_000));
    // Half the rates: always six blocks.
    for (half, hz) in [(0u8, 24_000), (1, 22_050), (2, 16_000)] {
        assert_eq!(of(1, 0x7F, 0xC0 | half << 4).map(|r| (r.1, r.2)), Some((hz, 1536)));
    }
    assert_eq!(of(1, 0x7F, 0xF0), None, "no such rate");
    assert_eq!(
        (of(7, 0xFF, 0x30).map(|r| r.0), of(0, 0, 0x30).map(|r| r.0)),
        (Some(4096), Some(2))
    );
    // The first bits are another field's.
    assert_eq!(of(0xBF, 0xFF, 0x30).map(|r| r.0), Some(4096));
}
