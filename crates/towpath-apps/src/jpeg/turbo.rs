//! The coder with feature `turbo`: libjpeg-turbo, whose sources `turbojpeg-sys` brings along. It is
//! built by cmake and a C compiler, its vector instructions by nasm.
//!
//! Its interface sets no restarts, so each row of MCUs is compressed as an image, and these become
//! one with a restart before each but the first.

use anyhow::{Context as _, anyhow};
use turbojpeg::{Compressor, Decompressor, OutputBuf, PixelFormat, Subsamp};

use super::coder::{MCU, Restarts};
use super::image::{Image, View};

/// Rows of pixels from `first` on, `rows` of them, as the library wants them.
fn view<'a>(image: &View<'a>, first: usize, rows: usize) -> turbojpeg::Image<&'a [u8]> {
    let pitch = 3 * image.width;
    let pixels = &image.pixels[first * pitch..(first + rows) * pitch];
    turbojpeg::Image { pixels, width: image.width, pitch, height: rows, format: PixelFormat::RGB }
}

fn compressor(quality: u8) -> anyhow::Result<Compressor> {
    let mut compressor = Compressor::new().context("no memory for a coder")?;
    compressor.set_quality(i32::from(quality))?;
    compressor.set_subsamp(Subsamp::Sub2x2)?;
    Ok(compressor)
}

/// An image of its own at 4:2:0, with a restart at each row of MCUs; the quality is good.
pub(super) fn encode(image: &View<'_>, quality: u8) -> anyhow::Result<Vec<u8>> {
    let mut compressor = compressor(quality)?;
    let mut row = OutputBuf::new_owned();
    let mut out = Restarts::new(image.width, image.height);
    for first in (0..image.height).step_by(MCU) {
        let some = view(image, first, MCU.min(image.height - first));
        compressor.compress(some, &mut row).context("the image cannot be coded")?;
        out.push(&row)?;
    }
    Ok(out.finish())
}

/// The pixels of a JPEG.
pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<Image> {
    let mut decoder = Decompressor::new().context("no memory for a decoder")?;
    let about = decoder.read_header(bytes).map_err(|e| anyhow!("no JPEG: {e}"))?;
    let (width, height) = (about.width, about.height);
    Image::checked(width, height)?;
    let mut pixels = vec![0; 3 * width * height];
    let out = turbojpeg::Image {
        pixels: &mut pixels[..],
        width,
        pitch: 3 * width,
        height,
        format: PixelFormat::RGB,
    };
    decoder.decompress(bytes, out).map_err(|e| anyhow!("a damaged JPEG: {e}"))?;
    Ok(Image { width, height, pixels })
}

/// The library alone, for `rates`: its name, and what it does.
pub(super) mod alone {
    use super::{Image, PixelFormat, compressor, view};

    pub(in super::super) const NAMES: [&str; 2] = ["libjpeg-turbo", "libjpeg-turbo"];

    pub(in super::super) fn encode(image: &Image, quality: u8) -> anyhow::Result<Vec<u8>> {
        let whole = view(&image.view(), 0, image.height);
        Ok(compressor(quality)?.compress_to_vec(whole)?)
    }

    pub(in super::super) fn decode(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        Ok(turbojpeg::decompress(bytes, PixelFormat::RGB)?.pixels)
    }
}
