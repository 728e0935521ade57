//! Gauss's points.

use std::sync::OnceLock;

/// Abscissas and weights on [-1, 1]: roots of Legendre's polynomial by Newton.
pub(crate) fn gauss(n: usize) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(n);
    for i in 0..n {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut p, mut before) = (1.0, 0.0);
            for k in 0..n {
                let k = k as f64;
                (p, before) = (((2.0 * k + 1.0) * x * p - k * before) / (k + 1.0), p);
            }
            slope = n as f64 * (x * p - before) / (x * x - 1.0);
            let step = p / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        points.push((x, 2.0 / ((1.0 - x * x) * slope * slope)));
    }
    points
}

/// Twenty of them.
pub(crate) fn gauss20() -> &'static [(f64, f64)] {
    static POINTS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    POINTS.get_or_init(|| gauss(20))
}

#[cfg(test)]
mod tests {
    use super::gauss;

    #[test]
    fn polynomials_up_to_twice_the_points_are_exact() {
        for n in [1, 2, 5, 20, 64] {
            for power in 0..(2 * n as i32) {
                let sum: f64 = gauss(n).iter().map(|(x, w)| w * x.powi(power)).sum();
                let right = if power % 2 == 0 { 2.0 / f64::from(power + 1) } else { 0.0 };
                assert!((sum - right).abs() < 1e-13, "{n} points, power {power}");
            }
        }
    }
}
