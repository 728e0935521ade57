//! The two-dimensional transform: rows, a transposition by all to all, columns.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::exchange::{Exchange, Result, bytes, share};

fn to_bytes(values: impl Iterator<Item = Complex64>) -> Vec<u8> {
    let flat: Vec<f64> = values.flat_map(|c| [c.re, c.im]).collect();
    bytes::of_f64(&flat)
}

/// Transforms a matrix of n × n, of which this rank has its share of the rows; it ends with the
/// same share of the result's columns, each as a row.
pub(crate) fn transform(
    exchange: &mut dyn Exchange,
    n: usize,
    mut rows: Vec<Complex64>,
) -> Result<Vec<Complex64>> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let own = share(n, rank, size);
    assert_eq!(rows.len(), own.len() * n, "a share of the rows");
    let fft = FftPlanner::new().plan_fft_forward(n);
    fft.process(&mut rows);
    let block = |to: usize| {
        let columns = share(n, to, size);
        to_bytes(rows.chunks_exact(n).flat_map(|row| row[columns.clone()].iter().copied()))
    };
    let parts = (0..size).map(block).collect();
    let mut columns = vec![Complex64::ZERO; own.len() * n];
    for (from, part) in exchange.all_to_all(parts)?.into_iter().enumerate() {
        let first = share(n, from, size).start;
        let values = bytes::to_f64(&part)?;
        for (at, value) in values.as_chunks::<2>().0.iter().enumerate() {
            let (row, column) = (first + at / own.len(), at % own.len());
            columns[column * n + row] = Complex64::new(value[0], value[1]);
        }
    }
    fft.process(&mut columns);
    Ok(columns)
}

/// Everyone's columns at the root, by rows again.
pub(crate) fn collect(
    exchange: &mut dyn Exchange,
    n: usize,
    columns: &[Complex64],
) -> Result<Option<Vec<Complex64>>> {
    let Some(parts) = exchange.gather(0, to_bytes(columns.iter().copied()))? else {
        return Ok(None);
    };
    let mut flat = Vec::with_capacity(2 * n * n);
    for part in parts {
        bytes::append_f64(&part, &mut flat)?;
    }
    let at = |row: usize, column: usize| {
        let place = 2 * (column * n + row);
        Complex64::new(flat[place], flat[place + 1])
    };
    Ok(Some((0..n * n).map(|place| at(place / n, place % n)).collect()))
}
