//! The two-dimensional transform: rows, a transposition by all to all, columns.

use std::cell::RefCell;

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::exchange::{Exchange, ExchangeError, Result, share, share_counts};

thread_local! {
    /// Plans are made once.
    static PLANNER: RefCell<FftPlanner<f64>> = RefCell::new(FftPlanner::new());
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
    let fft = PLANNER.with_borrow_mut(|planner| planner.plan_fft_forward(n));
    let mut room = vec![Complex64::ZERO; fft.get_inplace_scratch_len()];
    fft.process_with_scratch(&mut rows, &mut room);
    // Columns of these rows, one behind the other: those of each rank lie together.
    let mut columns = vec![Complex64::ZERO; rows.len()];
    transpose::transpose(&rows, &mut columns, n, own.len());
    if size > 1 {
        let counts = share_counts(n, size, own.len());
        let parts = exchange.all_to_all_counts(&columns, &counts)?;
        for (from, part) in parts.iter().enumerate() {
            let held = share(n, from, size);
            if part.len() != held.len() * own.len() {
                let len = size_of_val(&part[..]);
                return Err(ExchangeError::Malformed { len, what: "a block" });
            }
            for (column, some) in part.chunks_exact(held.len().max(1)).enumerate() {
                columns[column * n..][held.clone()].copy_from_slice(some);
            }
        }
    }
    fft.process_with_scratch(&mut columns, &mut room);
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
    let mut by_rows = vec![Complex64::ZERO; n * n];
    transpose::transpose(&all, &mut by_rows, n, n);
    Ok(Some(by_rows))
}
