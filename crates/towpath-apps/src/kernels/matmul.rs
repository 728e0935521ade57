//! C = A B: rows of A and C stay where they are, panels of B come round (SUMMA: R. van de Geijn,
//! J. Watts, 1997, with one column of processors).

use super::gemm::{Matrix, Target, gemm};
use crate::exchange::{Exchange, ExchangeError, Result, bytes, share};

/// Rows of B that are sent at once: the same for any number of ranks, as are the sums.
const PANEL: usize = 128;

/// This rank's rows of the product of n × n matrices, row by row; `b` are its rows of B.
pub(crate) fn product(
    exchange: &mut dyn Exchange,
    n: usize,
    a: &[f64],
    b: &[f64],
) -> Result<Vec<f64>> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let own = share(n, rank, size);
    assert!(a.len() == own.len() * n && b.len() == a.len(), "a share of the rows");
    let mut c = vec![0.0; own.len() * n];
    for first in (0..n).step_by(PANEL) {
        let rows = first..(first + PANEL).min(n);
        // Whoever has some of the panel's rows sends them to all.
        let mut panel: Vec<f64> = Vec::with_capacity(rows.len() * n);
        for owner in 0..size {
            let held = share(n, owner, size);
            let (from, to) = (held.start.max(rows.start), held.end.min(rows.end));
            if from >= to {
                continue;
            }
            let message = (owner == rank)
                .then(|| bytes::of_f64(&b[(from - held.start) * n..(to - held.start) * n]));
            bytes::append_f64(&exchange.broadcast(owner, message)?, &mut panel)?;
        }
        if panel.len() != rows.len() * n {
            return Err(ExchangeError::Malformed { len: 8 * panel.len(), what: "a panel" });
        }
        // By rows this is Cᵀ += Bᵀ Aᵀ by columns.
        let columns: Vec<f64> =
            a.chunks_exact(n).flat_map(|row| &row[rows.clone()]).copied().collect();
        gemm(
            Matrix { cells: &panel, rows: n, stride: n },
            Matrix { cells: &columns, rows: rows.len(), stride: rows.len() },
            own.len(),
            1.0,
            &mut Target { cells: &mut c, first: 0, stride: n },
        );
    }
    Ok(c)
}
