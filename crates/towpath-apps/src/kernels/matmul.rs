//! C = A B: rows of A and C stay where they are, panels of B come round (SUMMA: R. van de Geijn,
//! J. Watts, 1997, with one column of processors).

use super::gemm::{add_product, matrix, matrix_mut, set_product};
use crate::exchange::{Exchange, Result, share};

/// Rows of B that are sent at once: the same for any number of ranks, as are the sums.
const PANEL: usize = 256;

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
    let mut room = if size == 1 { Vec::new() } else { vec![0.0; PANEL.min(n) * n] };
    for first in (0..n).step_by(PANEL) {
        let rows = first..(first + PANEL).min(n);
        // Whoever has some of the panel's rows sends them to all.
        for owner in (0..size).filter(|_| size > 1) {
            let held = share(n, owner, size);
            let (from, to) = (held.start.max(rows.start), held.end.min(rows.end));
            if from >= to {
                continue;
            }
            let part = &mut room[(from - first) * n..(to - first) * n];
            if owner == rank {
                part.copy_from_slice(&b[(from - held.start) * n..(to - held.start) * n]);
            }
            exchange.broadcast_slice(owner, part)?;
        }
        if own.is_empty() {
            continue;
        }
        // By rows this is Cᵀ += Bᵀ Aᵀ by columns.
        let panel = if size == 1 { &b[first * n..] } else { &room[..] };
        let panel = matrix(panel, [n, rows.len()], n);
        let columns = matrix(&a[first..], [rows.len(), own.len()], n);
        let mut sums = matrix_mut(&mut c, [n, own.len()], n);
        match first {
            0 => set_product(&mut sums, &panel, &columns),
            _ => add_product(&mut sums, &panel, &columns),
        }
    }
    Ok(c)
}
