//! The coder beside the library that it calls, on one task.

use anyhow::anyhow;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use super::coder::{decode, encode};
use super::image::Image;
use crate::rated::{Rated, Work};

const WIDTH: u16 = 1920;
const HEIGHT: u16 = 1080;
const QUALITY: u8 = 75;

/// What is rated: a picture that is compressed and decompressed.
pub(crate) fn rated() -> anyhow::Result<Vec<Rated>> {
    let image = Image::made_up(usize::from(WIDTH), usize::from(HEIGHT))?;
    let coded = encode(&image, QUALITY)?;
    let (amount, unit) = (image.pixels.len() as f64 / 1e6, "MB a second");
    let (given, file) = (image.clone(), coded.clone());
    let ours: Work = Box::new(move |_| {
        std::hint::black_box(encode(&given, QUALITY)?);
        Ok(())
    });
    let alone: Work = Box::new(move |_| {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, QUALITY);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let said = encoder.encode(&image.pixels, WIDTH, HEIGHT, ColorType::Rgb);
        said.map_err(|error| anyhow!("{error}"))?;
        std::hint::black_box(out);
        Ok(())
    });
    let peers = vec![("jpeg-encoder", alone)];
    let encoding = Rated { what: "JPEG, compressed", amount, unit, ours, peers };
    let ours: Work = Box::new(move |_| {
        std::hint::black_box(decode(&coded)?);
        Ok(())
    });
    let alone: Work = Box::new(move |_| {
        let pixels = JpegDecoder::new(ZCursor::new(&file)).decode();
        std::hint::black_box(pixels.map_err(|error| anyhow!("{error}"))?);
        Ok(())
    });
    let peers = vec![("zune-jpeg", alone)];
    Ok(vec![encoding, Rated { what: "JPEG, decompressed", amount, unit, ours, peers }])
}
