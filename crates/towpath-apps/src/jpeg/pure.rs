//! The coder of the default build: `jpeg-encoder` and `zune-jpeg`, without C.

use anyhow::{Context as _, anyhow, ensure};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::coder::MCU;
use super::image::{Image, SIDE_MAX, View};

/// An image of its own at 4:2:0, with a restart at each row of MCUs; the quality is good.
pub(super) fn encode(image: &View<'_>, quality: u8) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(image.pixels.len() / 8);
    let mut encoder = Encoder::new(&mut out, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_restart_interval(image.width.div_ceil(MCU) as u16);
    let sides = (image.width as u16, image.height as u16);
    encoder
        .encode(image.pixels, sides.0, sides.1, ColorType::Rgb)
        .map_err(|e| anyhow!("the image cannot be coded: {e}"))?;
    Ok(out)
}

/// The pixels of a JPEG.
pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<Image> {
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

/// The libraries alone, for `rates`: their names, and what they do.
pub(super) mod alone {
    use super::{ColorType, Encoder, Image, JpegDecoder, SamplingFactor, ZCursor, anyhow};

    pub(in super::super) const NAMES: [&str; 2] = ["jpeg-encoder", "zune-jpeg"];

    pub(in super::super) fn encode(image: &Image, quality: u8) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, quality);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let sides = (image.width as u16, image.height as u16);
        let said = encoder.encode(&image.pixels, sides.0, sides.1, ColorType::Rgb);
        said.map_err(|error| anyhow!("{error}"))?;
        Ok(out)
    }

    pub(in super::super) fn decode(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        let pixels = JpegDecoder::new(ZCursor::new(bytes)).decode();
        pixels.map_err(|error| anyhow!("{error}"))
    }
}
