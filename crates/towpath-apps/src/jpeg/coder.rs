//! Strips as JPEG, and strips joined to one JPEG.
//!
//! Rows of MCUs (16 pixels high at 4:2:0) begin with a restart: coefficients of one do not depend
//! on another, and the bytes of a strip are those that it has in the whole image (ITU-T T.81,
//! F.1.1.5). To join strips is to put their entropy-coded segments one after the other and count
//! the markers anew.

use anyhow::{Context as _, anyhow, ensure};
use memchr::memchr;

use super::image::{Image, View};
#[cfg(not(feature = "turbo"))]
use super::pure as codec;
#[cfg(feature = "turbo")]
use super::turbo as codec;

pub(super) use codec::alone;

/// Pixels of an MCU's side.
pub(crate) const MCU: usize = 16;

/// An image of its own, with a restart at each row of MCUs.
pub(crate) fn encode(image: &View<'_>, quality: u8) -> anyhow::Result<Vec<u8>> {
    ensure!((1..=100).contains(&quality), "a quality of {quality}: from 1 to 100");
    codec::encode(image, quality)
}

/// The pixels of a JPEG.
pub(crate) fn decode(bytes: &[u8]) -> anyhow::Result<Image> {
    codec::decode(bytes)
}

/// Where a JPEG's parts are: its frame header's height, and its entropy-coded data.
struct Parts {
    /// Of the two bytes of the height.
    height: usize,
    /// Where the scan's header begins.
    #[cfg(any(test, feature = "turbo"))]
    scan: usize,
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
            return Ok(Parts {
                height,
                #[cfg(any(test, feature = "turbo"))]
                scan: at - 2 - len,
                data: at..bytes.len() - 2,
            });
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
        let mut data = &strip[parts(strip)?.data];
        while let Some(at) = memchr(0xff, data) {
            let (before, rest) = data.split_at(at);
            out.extend_from_slice(before);
            let (two, rest) = rest.split_at(rest.len().min(2));
            match two {
                [_, 0xd0..=0xd7] => out.extend(marker()),
                _ => out.extend_from_slice(two),
            }
            data = rest;
        }
        out.extend_from_slice(data);
    }
    out.extend([0xff, 0xd9]);
    Ok(out)
}

/// One JPEG in the making, of rows of MCUs that have no restarts, with a restart before each.
#[cfg(any(test, feature = "turbo"))]
pub(super) struct Restarts {
    width: usize,
    height: usize,
    rows: usize,
    out: Vec<u8>,
}

#[cfg(any(test, feature = "turbo"))]
impl Restarts {
    /// Of an image of so many pixels.
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self { width, height, rows: 0, out: Vec::with_capacity(3 * width * height / 8) }
    }

    /// The next row, which is a JPEG of its own.
    pub(super) fn push(&mut self, row: &[u8]) -> anyhow::Result<()> {
        let head = parts(row)?;
        if self.rows == 0 {
            // The interval (DRI) stands between the other headers and the scan's.
            self.out.extend_from_slice(&row[..head.scan]);
            let height = (self.height as u16).to_be_bytes();
            self.out[head.height..head.height + 2].copy_from_slice(&height);
            let [high, low] = (self.width.div_ceil(MCU) as u16).to_be_bytes();
            self.out.extend([0xff, 0xdd, 0, 4, high, low]);
            self.out.extend_from_slice(&row[head.scan..head.data.start]);
        } else {
            self.out.extend([0xff, 0xd0 + ((self.rows - 1) % 8) as u8]);
        }
        self.out.extend_from_slice(&row[head.data]);
        self.rows += 1;
        Ok(())
    }

    /// The whole.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.extend([0xff, 0xd9]);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_joined_are_the_bytes_of_the_whole() {
        for (width, height) in [(512, 397), (17, 1), (100, 160), (33, 300)] {
            let image = Image::made_up(width, height).unwrap();
            let whole = encode(&image.view(), 75).unwrap();
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
    fn rows_of_blocks_become_one_picture_with_restarts() {
        let image = Image::made_up(100, 70).unwrap();
        let whole = encode(&image.view(), 75).unwrap();
        let mut made = Restarts::new(100, 70);
        for first in (0..70).step_by(MCU) {
            // Without the interval (DRI) a row is what a coder gives that knows no restarts.
            let mut row = encode(&image.strip(first, MCU.min(70 - first)), 75).unwrap();
            let at = row.windows(2).position(|two| two == [0xff, 0xdd]).unwrap();
            row.drain(at..at + 6);
            made.push(&row).unwrap();
        }
        let (made, right) = (decode(&made.finish()).unwrap(), decode(&whole).unwrap());
        assert!(made == right);
        assert!(Restarts::new(100, 70).push(&whole[..30]).is_err());
    }

    #[test]
    fn a_file_of_another_coder_is_decoded() {
        // libjpeg-turbo's; data/jpeg/README.md.
        let image = decode(include_bytes!("../../data/jpeg/512x397.q75.jpg")).unwrap();
        assert_eq!((image.width, image.height), (512, 397));
        let again = decode(&encode(&image.view(), 90).unwrap()).unwrap();
        assert!(image.psnr(&again) > 30.0, "{}", image.psnr(&again));
    }

    #[test]
    fn damage_is_told() {
        let image = Image::made_up(32, 32).unwrap();
        let good = encode(&image.view(), 75).unwrap();
        assert!(encode(&image.view(), 0).unwrap_err().to_string().contains("a quality of 0"));
        for cut in [0, 1, 3, 20, 200, good.len() - 1] {
            assert!(join(&[good[..cut].to_vec()], 32).is_err(), "cut at {cut}");
        }
        assert!(decode(b"not one").is_err());
        assert!(join(&[], 1).is_err());
    }
}
