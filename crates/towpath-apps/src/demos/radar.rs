//! Radar cross section of a conducting cylinder, by its series.
//!
//! σ(φ) = 4/k |Σ ε_n J_n(ka)/H_n⁽²⁾(ka) cos nφ|² for a wave polarised along the cylinder
//! (R. F. Harrington, Time-Harmonic Electromagnetic Fields, 1961, section 5-9); φ = 180° is back to
//! the radar where the wave travels along φ = 0.

use anyhow::ensure;
use clap::Args;
use rustfft::num_complex::Complex64;
use towpath_report::plot::{Axis, Chart, Shape, Unit};

use crate::exchange::{Exchange, Result, map_all};
use crate::picture::Field;
use crate::report::Report;

const ANGLES: usize = 181;
const SIZE_MAX: f64 = 200.0;

#[derive(Clone, Debug, Args)]
pub(crate) struct RadarArgs {
    /// Largest circumference of the cylinder in wavelengths (ka)
    #[arg(long, default_value_t = 20.0)]
    largest: f64,
    /// Cylinders from small to that
    #[arg(long, default_value_t = 80)]
    cylinders: usize,
}

/// σ / a in this direction, radian.
fn cross_section(ka: f64, phi: f64) -> f64 {
    // Terms fall like (e ka / 2n)^(2n) beyond n = ka.
    let terms = (ka + 12.0 + 6.0 * ka.cbrt()) as i32;
    let mut sum = Complex64::ZERO;
    for n in 0..=terms {
        let (j, y) = (libm::jn(n, ka), libm::yn(n, ka));
        if !y.is_finite() {
            break; // J / H is nothing there
        }
        let part = Complex64::new(j, 0.0) / Complex64::new(j, -y);
        sum += part * (f64::from(n) * phi).cos() * if n == 0 { 1.0 } else { 2.0 };
    }
    4.0 / ka * sum.norm_sqr()
}

fn size(args: &RadarArgs, at: usize) -> f64 {
    args.largest * (at + 1) as f64 / args.cylinders as f64
}

fn map(exchange: &mut dyn Exchange, args: &RadarArgs) -> Result<Vec<f64>> {
    map_all(exchange, args.cylinders, ANGLES, |at, out| {
        let ka = size(args, at);
        out.extend((0..ANGLES).map(|degree| cross_section(ka, (degree as f64).to_radians())));
    })
}

/// The whole demonstration; the root gets the report.
pub(crate) fn radar(
    exchange: &mut dyn Exchange,
    args: &RadarArgs,
) -> anyhow::Result<Option<Report>> {
    let (largest, count) = (args.largest, args.cylinders);
    let good = largest > 0.01 && largest <= SIZE_MAX;
    ensure!(good, "a circumference of {largest} wavelengths: from 0.01 to {SIZE_MAX}");
    ensure!((2..=2000).contains(&count), "{count} cylinders: from 2 to 2000");
    let values = map(exchange, args)?;
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let lead = format!("{count} cylinders up to ka = {largest}, {} tasks", exchange.size());
    let mut report = Report::new("Radar cross section of a cylinder", &lead);
    let back = values[values.len() - 1];
    let words = format!("{back:.4} of the largest, π = 3.1416 where it is large");
    report.say("Back to the radar, σ/a", &words);
    let light = values.iter().map(|sigma| (1e-6 + sigma).ln()).collect();
    report.field("Direction (across) and size (down), as logarithms", &Field::new(ANGLES, light));
    let points = |at: usize| (size(args, at), values[at * ANGLES + ANGLES - 1]);
    let axis = |label| Axis::new(label, Unit::Count);
    let chart = Chart::new("Back to the radar", axis("ka"), axis("σ/a")).with(
        "σ/a",
        Shape::Line,
        (0..count).map(points).collect(),
    );
    report.chart("Over size", &chart);
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::exchange::local::run;

    #[test]
    fn large_and_thin_cylinders_have_their_limits() {
        // A. W. Love's tables: what is large reflects as its curvature does, σ = π a.
        for ka in [40.0, 80.0, 150.0] {
            assert!((cross_section(ka, PI) / PI - 1.0).abs() < 0.01, "{}", cross_section(ka, PI));
        }
        // A thin wire scatters alike in all directions: π²/(ka ln²(0.8905 ka)) about.
        let ka: f64 = 1e-4;
        let thin = PI * PI / (ka * ((0.8905 * ka).ln().powi(2) + PI * PI / 4.0));
        for phi in [0.0, 1.0, PI] {
            assert!((cross_section(ka, phi) / thin - 1.0).abs() < 1e-3, "{phi}");
        }
    }

    #[test]
    fn what_is_taken_from_the_wave_is_what_is_scattered() {
        // The theorem of the forward amplitude: 4/k Re Σ = ∫σ dφ / 2π, per a.
        for ka in [0.3, 2.0, 9.5] {
            let steps = 720;
            let angle = |at: i32| 2.0 * PI * f64::from(at) / f64::from(steps);
            let mean =
                (0..steps).map(|at| cross_section(ka, angle(at))).sum::<f64>() / f64::from(steps);
            let terms = (ka + 30.0) as i32;
            let part = |n: i32| {
                let (j, y) = (libm::jn(n, ka), libm::yn(n, ka));
                let weight = if n == 0 { 1.0 } else { 2.0 };
                if y.is_finite() { weight * j * j / (j * j + y * y) } else { 0.0 }
            };
            let forward = 4.0 / ka * (0..=terms).map(part).sum::<f64>();
            assert!((mean / forward - 1.0).abs() < 1e-10, "{ka}: {mean} {forward}");
        }
    }

    #[test]
    fn any_number_of_tasks_gives_the_same_bits() {
        let args = RadarArgs { largest: 6.0, cylinders: 9 };
        let of = |size| run(size, |e| Ok(map(e, &args)?)).swap_remove(0).unwrap();
        for size in [2, 3, 4, 7, 8] {
            assert_eq!(of(size), of(1), "{size} tasks");
        }
    }
}
