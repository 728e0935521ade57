//! LU and products on one task, as they are timed here and in `peers/`.

use super::{lu, matmul};
use crate::rated::Work;

/// The factors of a matrix of `side` rows, column by column.
pub(crate) fn factored(side: usize, all: &[f64]) -> Work {
    let blocks = lu::Blocks::new(side, 0, 1, |row, column| all[column * side + row]);
    Box::new(move |exchange| {
        std::hint::black_box(blocks.clone().factor(exchange)?);
        Ok(())
    })
}

/// The square of such a matrix.
pub(crate) fn multiplied(side: usize, all: Vec<f64>) -> Work {
    Box::new(move |exchange| {
        std::hint::black_box(matmul::product(exchange, side, &all, &all)?);
        Ok(())
    })
}
