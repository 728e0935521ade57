//! The two-dimensional transform: rows, a transposition by all to all, columns.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::exchange::{Exchange, ExchangeError, Result, share, share_counts};

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
    // For each rank its columns of these rows, row by row.
    let mut blocks = Vec::with_capacity(rows.len());
    for to in 0..size {
        let columns = share(n, to, size);
        rows.chunks_exact(n).for_each(|row| blocks.extend_from_slice(&row[columns.clone()]));
    }
    let counts = share_counts(n, size, own.len());
    let mut columns = vec![Complex64::ZERO; own.len() * n];
    for (from, part) in exchange.all_to_all_counts(&blocks, &counts)?.iter().enumerate() {
        let held = share(n, from, size);
        if part.len() != held.len() * own.len() {
            return Err(ExchangeError::Malformed { len: size_of_val(&part[..]), what: "a block" });
        }
        for (row, values) in held.zip(part.chunks_exact(own.len().max(1))) {
            for (column, value) in values.iter().enumerate() {
                columns[column * n + row] = *value;
            }
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
    let counts = share_counts(n, exchange.size(), n);
    let Some(all) = exchange.gather_counts(0, columns, &counts)? else { return Ok(None) };
    Ok(Some((0..n * n).map(|place| all[place % n * n + place / n]).collect()))
}
