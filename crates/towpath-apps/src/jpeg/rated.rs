//! The coder beside the library that it calls, on one task.

use std::hint::black_box;

use super::coder::{alone, decode, encode};
use super::image::Image;
use crate::rated::{Rated, Work};

const QUALITY: u8 = 75;

/// What is rated: a picture of 1920 x 1080 that is compressed and decompressed.
pub(crate) fn rated() -> anyhow::Result<Vec<Rated>> {
    let image = Image::made_up(1920, 1080)?;
    let coded = encode(&image.view(), QUALITY)?;
    let (amount, unit) = (image.pixels.len() as f64 / 1e6, "MB a second");
    let [encoder, decoder] = alone::NAMES;
    let (given, file) = (image.clone(), coded.clone());
    let ours: Work = Box::new(move |_| {
        black_box(encode(&given.view(), QUALITY)?);
        Ok(())
    });
    let library: Work = Box::new(move |_| {
        black_box(alone::encode(&image, QUALITY)?);
        Ok(())
    });
    let peers = vec![(encoder, library)];
    let encoding = Rated { what: "JPEG, compressed", amount, unit, ours, peers };
    let ours: Work = Box::new(move |_| {
        black_box(decode(&coded)?);
        Ok(())
    });
    let library: Work = Box::new(move |_| {
        black_box(alone::decode(&file)?);
        Ok(())
    });
    let peers = vec![(decoder, library)];
    Ok(vec![encoding, Rated { what: "JPEG, decompressed", amount, unit, ours, peers }])
}
