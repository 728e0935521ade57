//! Strips as JPEG, and strips joined to one JPEG.
//!
//! Rows of MCUs (16 pixels high at 4:2:0) begin with a restart: coefficients of one do not depend
//! on another, and the bytes of a strip are those that it has in the whole image (ITU-T T.81,
//! F.1.1.5). To join strips is to put their entropy-coded segments one after the other and count
//! the markers anew.

use anyhow::{Context as _, anyhow, ensure};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::image::{Image, SIDE_MAX};

/// Pixels of an MCU's side.
pub(crate) const MCU: usize = 16;

/// An image of its own, with a restart at each row of MCUs.
pub(crate) fn encode(image: &Image, quality: u8) -> anyhow::Result<Vec<u8>> {
    ensure!((1..=100).contains(&quality), "a quality of {quality}: from 1 to 100");
    let mut out = Vec::with_capacity(image.pixels.len() / 8);
    let mut encoder = Encoder::new(&mut out, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_restart_interval(image.width.div_ceil(MCU) as u16);
    let sides = (image.width as u16, image.height as u16);
    encoder
        .encode(&image.pixels, sides.0, sides.1, ColorType::Rgb)
        .map_err(|e| anyhow!("the image cannot be coded: {e}"))?;
    Ok(out)
}

/// The pixels of a JPEG.
pub(crate) fn decode(bytes: &[u8]) -> anyhow::Result<Image> {
    let options = DecoderOptions::default().set_max_width(SIDE_MAX).set_max_height(SIDE_MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| anyhow!("no JPEG: {e}"))?;
    let about = decoder.info().context("no JPEG: nothing about its size")?;
    let (width, height) = (usize::from(about.width), usize::from(about.height));
    Image::checked(width, height)?;
    let pixels = decoder.decode().map_err(|e| anyhow!("a damaged JPEG: {e}"))?;
    ensure!(pixels.len() == width * height * 3, "a JPEG that is not of three components");
    Ok(Image { width, height, pixels })
}

/// Where a JPEG's parts are: its frame header's height, and its entropy-coded data.
struct Parts {
    /// Of the two bytes of the height.
    height: usize,
    data: std::ops::Range<usize>,
}

fn parts(bytes: &[u8]) -> anyhow::Result<Parts> {
    let mut at = 2;
    let mut height = None;
    loop {
        let Some([mark, kind, high, low]) = bytes.get(at..at + 4) else {
            return Err(anyhow!("a JPEG that ends in its headers"));
        };
        ensure!(*mark == 0xff, "a JPEG with a damaged header at byte {at}");
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind == 0xc0 {
            height = Some(at + 5);
        }
        at += 2 + len;
        if *kind == 0xda {
            ensure!(bytes.ends_with(&[0xff, 0xd9]) && at <= bytes.len() - 2, "a cut JPEG");
            let height = height.context("a JPEG that is not baseline")?;
            return Ok(Parts { height, data: at..bytes.len() - 2 });
        }
    }
}

/// One JPEG of strips that lie below each other; all but the last are whole rows of MCUs.
pub(crate) fn join(strips: &[Vec<u8>], height: usize) -> anyhow::Result<Vec<u8>> {
    let first = strips.first().context("no strip")?;
    let head = parts(first)?;
    let mut out = first[..head.data.start].to_vec();
    out[head.height..head.height + 2].copy_from_slice(&(height as u16).to_be_bytes());
    let mut restart = 0;
    let mut marker = || {
        restart += 1;
        [0xff, 0xd0 + (restart - 1) % 8]
    };
    for (number, strip) in strips.iter().enumerate() {
        if number > 0 {
            out.extend(marker());
        }
        let data = &strip[parts(strip)?.data];
        let mut at = 0;
        while at < data.len() {
            let is_restart = data[at] == 0xff && matches!(data.get(at + 1), Some(0xd0..=0xd7));
            if is_restart {
                out.extend(marker());
                at += 2;
            } else {
                out.push(data[at]);
                at += 1;
            }
        }
    }
    out.extend([0xff, 0xd9]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_joined_are_the_bytes_of_the_whole() {
        for (width, height) in [(512, 397), (17, 1), (100, 160), (33, 300)] {
            let image = Image::made_up(width, height).unwrap();
            let whole = encode(&image, 75).unwrap();
            for rows in [MCU, 3 * MCU, 1000 * MCU] {
                let strip = |first: usize| {
                    encode(&image.strip(first, rows.min(height - first)), 75).unwrap()
                };
                let strips: Vec<_> = (0..height).step_by(rows).map(strip).collect();
                assert!(join(&strips, height).unwrap() == whole, "{width} x {height} by {rows}");
            }
            let again = decode(&whole).unwrap();
            assert_eq!((again.width, again.height), (width, height));
            assert!(image.psnr(&again) > 28.0, "{}", image.psnr(&again));
        }
    }

    #[test]
    fn a_file_of_another_coder_is_decoded() {
        // libjpeg-turbo's; data/jpeg/README.md.
        let image = decode(include_bytes!("../../data/jpeg/512x397.q75.jpg")).unwrap();
        assert_eq!((image.width, image.height), (512, 397));
        let again = decode(&encode(&image, 90).unwrap()).unwrap();
        assert!(image.psnr(&again) > 30.0, "{}", image.psnr(&again));
    }

    #[test]
    fn damage_is_told() {
        let image = Image::made_up(32, 32).unwrap();
        let good = encode(&image, 75).unwrap();
        assert!(encode(&image, 0).unwrap_err().to_string().contains("a quality of 0"));
        for cut in [0, 1, 3, 20, 200, good.len() - 1] {
            assert!(join(&[good[..cut].to_vec()], 32).is_err(), "cut at {cut}");
        }
        assert!(decode(b"not one").is_err());
        assert!(join(&[], 1).is_err());
    }
}
