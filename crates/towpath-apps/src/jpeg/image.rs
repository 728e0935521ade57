//! Pictures of three bytes a pixel: read, written, compared, made up.

use anyhow::{Context as _, bail, ensure};

/// Sides of JPEG's are 16 bit; so many pixels are taken.
pub(crate) const SIDE_MAX: usize = 65_500;
pub(crate) const PIXELS_MAX: usize = 100_000_000;

/// Red, green, blue, row by row. 1 ≤ width, height ≤ 65 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u8>,
}

impl Image {
    pub(crate) fn checked(width: usize, height: usize) -> anyhow::Result<()> {
        ensure!(
            (1..=SIDE_MAX).contains(&width) && (1..=SIDE_MAX).contains(&height),
            "an image of {width} x {height} pixels: each side is from 1 to {SIDE_MAX}"
        );
        ensure!(
            width * height <= PIXELS_MAX,
            "an image of {width} x {height} pixels: at most {PIXELS_MAX} in all"
        );
        Ok(())
    }

    /// A binary PPM (P6, 255).
    pub(crate) fn read_ppm(bytes: &[u8]) -> anyhow::Result<Self> {
        let mut at = 0;
        let mut word = || -> anyhow::Result<&[u8]> {
            // White space and comments, then letters or digits, then one white space.
            while let Some(byte) = bytes.get(at) {
                if *byte == b'#' {
                    at += bytes[at..].iter().take_while(|b| **b != b'\n').count();
                } else if !byte.is_ascii_whitespace() {
                    break;
                } else {
                    at += 1;
                }
            }
            let len = bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            ensure!(len > 0 && len < 10, "no PPM: its beginning is cut or damaged");
            at += len + 1;
            Ok(&bytes[at - len - 1..at - 1])
        };
        ensure!(word()? == b"P6", "no PPM of bytes: it does not begin with P6");
        let mut number = || -> anyhow::Result<usize> {
            let word = std::str::from_utf8(word()?)?;
            word.parse().with_context(|| format!("`{word}` is no number of a PPM"))
        };
        let (width, height, most) = (number()?, number()?, number()?);
        ensure!(most == 255, "a PPM whose largest value is {most}, not 255");
        Self::checked(width, height)?;
        let pixels = bytes.get(at..).unwrap_or_default();
        let len = width * height * 3;
        ensure!(pixels.len() >= len, "a PPM of {} pixel bytes, not {len}", pixels.len());
        Ok(Self { width, height, pixels: pixels[..len].to_vec() })
    }

    /// A sky, discs and a few waves: the same for the same size.
    pub(crate) fn made_up(width: usize, height: usize) -> anyhow::Result<Self> {
        Self::checked(width, height)?;
        let mut pixels = Vec::with_capacity(width * height * 3);
        let discs: Vec<[f64; 4]> = (0..24)
            .map(|n| {
                let draw = |what: u64| crate::options::uniform(11, n * 4 + what);
                [draw(0), draw(1), 0.01 + 0.08 * draw(2), 255.0 * draw(3)]
            })
            .collect();
        for row in 0..height {
            for column in 0..width {
                let x = column as f64 / width as f64;
                let y = row as f64 / height as f64;
                let waves = (40.0 * x + 9.0 * (7.0 * y).sin()).sin() + (23.0 * y * x).cos();
                let mut shade = 120.0 + 40.0 * (0.5 - y) + 18.0 * waves;
                for [cx, cy, r, tone] in &discs {
                    let dy = (y - cy) * height as f64 / width as f64;
                    if (x - cx).powi(2) + dy * dy < r * r {
                        shade = 0.6 * shade + 0.4 * tone;
                    }
                }
                let tint = [0.8, 1.0, 1.2 - 0.4 * y];
                pixels.extend(tint.map(|t| (shade * t).clamp(0.0, 255.0) as u8));
            }
        }
        Ok(Self { width, height, pixels })
    }

    /// All of it.
    pub(crate) fn view(&self) -> View<'_> {
        View { width: self.width, height: self.height, pixels: &self.pixels }
    }

    /// Rows from here on, so many of them.
    pub(crate) fn strip(&self, first: usize, rows: usize) -> View<'_> {
        let line = 3 * self.width;
        let pixels = &self.pixels[first * line..(first + rows) * line];
        View { width: self.width, height: rows, pixels }
    }

    /// Peak signal to noise, dB.
    pub(crate) fn psnr(&self, other: &Self) -> f64 {
        let square = |(a, b): (&u8, &u8)| (f64::from(*a) - f64::from(*b)).powi(2);
        let sum: f64 = self.pixels.iter().zip(&other.pixels).map(square).sum();
        10.0 * (255.0 * 255.0 * self.pixels.len() as f64 / sum.max(1e-9)).log10()
    }
}

/// An image, or rows of one, that is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: &'a [u8],
}

impl<'a> View<'a> {
    /// Behind what a message says already: its sides and its pixels.
    pub(crate) fn pack(&self, message: &mut Vec<u8>) {
        message.reserve(8 + self.pixels.len());
        for side in [self.width, self.height] {
            message.extend_from_slice(&(side as u32).to_le_bytes());
        }
        message.extend_from_slice(self.pixels);
    }

    pub(crate) fn unpacked(message: &'a [u8]) -> anyhow::Result<Self> {
        let Some((sides, pixels)) = message.split_first_chunk::<8>() else {
            bail!("an image of {} bytes", message.len());
        };
        let side = |at: usize| {
            u32::from_le_bytes(sides[4 * at..4 * at + 4].try_into().expect("four")) as usize
        };
        let (width, height) = (side(0), side(1));
        Image::checked(width, height)?;
        ensure!(pixels.len() == width * height * 3, "an image of {} pixel bytes", pixels.len());
        Ok(Self { width, height, pixels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_read_or_refused() {
        let good = b"P6\n# a comment\n2 1\n255\n\x01\x02\x03\x04\x05\x06";
        let image = Image::read_ppm(good).unwrap();
        assert_eq!((image.width, image.height, &image.pixels[..]), (2, 1, &[1, 2, 3, 4, 5, 6][..]));
        let said = |bytes: &[u8]| Image::read_ppm(bytes).unwrap_err().to_string();
        assert!(said(b"").contains("cut or damaged"));
        assert!(said(b"P5 1 1 255 x").contains("does not begin with P6"));
        assert!(said(b"P6 0 5 255\n").starts_with("an image of 0 x 5 pixels"));
        assert!(said(b"P6 65000 65000 255\n").contains("at most 100000000"));
        assert!(said(b"P6 2 2 255\nxyz").contains("3 pixel bytes, not 12"));
        assert!(said(b"P6 99999999999 1 255\n").contains("damaged"));
        let made = Image::made_up(33, 20).unwrap();
        let mut message = Vec::new();
        made.view().pack(&mut message);
        assert_eq!(View::unpacked(&message).unwrap(), made.view());
        assert!(View::unpacked(&message[..50]).is_err());
    }
}
