//! Mandelbrot's set: rows cost differently, so they are dealt out with a stride.

use anyhow::ensure;
use clap::Args;

use crate::exchange::{Exchange, Result, map_all};
use crate::picture::Field;
use crate::report::Report;

const SIDE_MAX: usize = 4000;
const STEPS_MAX: u32 = 100_000;
/// A prime: neighbours in a task's share are so many rows apart.
const STRIDE: usize = 4099;

#[derive(Clone, Debug, Args)]
pub(crate) struct FractalArgs {
    /// Columns; rows are three quarters as many
    #[arg(long, default_value_t = 240)]
    columns: usize,
    /// Steps after which a point counts as caught
    #[arg(long, default_value_t = 200)]
    steps: u32,
}

/// Steps until z → z² + c leaves the circle of radius 2.
fn steps(re: f64, im: f64, most: u32) -> u32 {
    let (mut x, mut y) = (0.0, 0.0);
    for step in 0..most {
        let (square_x, square_y) = (x * x, y * y);
        if square_x + square_y > 4.0 {
            return step;
        }
        (x, y) = (square_x - square_y + re, 2.0 * x * y + im);
    }
    most
}

fn rows(exchange: &mut dyn Exchange, columns: usize, most: u32) -> Result<Vec<f64>> {
    let rows = columns * 3 / 4;
    let row_of = |at: usize| at * STRIDE % rows;
    let dealt = map_all(exchange, rows, columns, |at, out| {
        let im = 1.2 - 2.4 * (row_of(at) as f64 + 0.5) / rows as f64;
        let re = |column: usize| -2.2 + 3.2 * (column as f64 + 0.5) / columns as f64;
        out.extend((0..columns).map(|column| f64::from(steps(re(column), im, most))));
    })?;
    let mut all = vec![0.0; rows * columns];
    for (at, row) in dealt.chunks_exact(columns).enumerate() {
        all[row_of(at) * columns..][..columns].copy_from_slice(row);
    }
    Ok(all)
}

/// The whole demonstration; the root gets the report.
pub(crate) fn fractal(
    exchange: &mut dyn Exchange,
    args: &FractalArgs,
) -> anyhow::Result<Option<Report>> {
    let (columns, most) = (args.columns, args.steps);
    ensure!((4..=SIDE_MAX).contains(&columns), "{columns} columns: from 4 to {SIDE_MAX}");
    ensure!((1..=STEPS_MAX).contains(&most), "{most} steps: from 1 to {STEPS_MAX}");
    let values = rows(exchange, columns, most)?;
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let caught = values.iter().filter(|v| **v >= f64::from(most)).count();
    let area = 3.2 * 2.4 * caught as f64 / values.len() as f64;
    let lead = format!("{columns} columns, {most} steps, {} tasks", exchange.size());
    let mut report = Report::new("Fractal", &lead);
    report.say("Area of what is caught", &format!("{area:.4} (the set's is 1.5066)"));
    let light = values.iter().map(|v| (1.0 + v).ln()).collect();
    report.field("Steps, as logarithms", &Field::new(columns, light));
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn what_is_known_to_be_caught_is_and_any_number_of_tasks_draws_the_same() {
        let draw = |size| run(size, |e| Ok(rows(e, 120, 300)?)).swap_remove(0).unwrap();
        let one = draw(1);
        for size in [2, 3, 4, 7, 8] {
            assert!(draw(size) == one, "{size} tasks");
        }
        // The cardioid and the disc beside it never leave; beyond 2 all leave at once.
        for at in 0..40 {
            let (sin, cos) = (f64::from(at) * 0.157).sin_cos();
            let (u, v) = (0.98 * cos, 0.98 * sin);
            let cardioid = (u / 2.0 - (u * u - v * v) / 4.0, v / 2.0 - u * v / 2.0);
            assert_eq!(steps(cardioid.0, cardioid.1, 2000), 2000, "{cardioid:?}");
            assert_eq!(steps(-1.0 + 0.24 * cos, 0.24 * sin, 2000), 2000);
            assert!(steps(2.1 * cos, 2.1 * sin, 2000) <= 2);
        }
        let caught = one.iter().filter(|v| **v >= 300.0).count();
        let area = 3.2 * 2.4 * caught as f64 / one.len() as f64;
        assert!((area - 1.5066).abs() < 0.05, "{area}");
    }
}
