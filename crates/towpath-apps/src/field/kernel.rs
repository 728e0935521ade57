//! H₀⁽²⁾ and its double integrals over intervals.

use rustfft::num_complex::Complex64;

/// Euler's constant.
const GAMMA: f64 = 0.577_215_664_901_532_9;
/// Up to this argument power series lose less than 4 of 16 digits.
pub(crate) const SERIES_MAX: f64 = 8.0;
const TERMS: usize = 40;

/// H₀⁽²⁾(z) = J₀(z) - j Y₀(z), z > 0.
pub(crate) fn hankel(z: f64) -> Complex64 {
    Complex64::new(libm::j0(z), -libm::y0(z))
}

/// F with F''(u) = H₀⁽²⁾(k |u|), F even, by power series, term by term:
///
/// J₀ = Σ (-1)^m (z/2)^{2m} / m!², Y₀ = 2/π (ln(z/2) + γ) J₀ - 2/π Σ (-1)^m h_m (z/2)^{2m} / m!²,
/// h_m = 1 + 1/2 + … + 1/m. k |u| ≤ 8.
pub(crate) fn twice_integrated(k: f64, u: f64) -> Complex64 {
    let z = k * u.abs();
    if z == 0.0 {
        return Complex64::ZERO;
    }
    debug_assert!(z <= SERIES_MAX * 1.01, "{z}");
    let (quarter, log) = (0.25 * z * z, (0.5 * z).ln() + GAMMA);
    let (mut term, mut harmonic) = (u * u, 0.0);
    let (mut j, mut y) = (0.0, 0.0);
    for m in 0..TERMS {
        let (a, b) = ((2 * m + 1) as f64, (2 * m + 2) as f64);
        let part = term / (a * b);
        j += part;
        // ∬ u^{2m} ln u = u^{2m+2} / (a b) (ln u - 1/a - 1/b)
        y += part * (log - 1.0 / a - 1.0 / b - harmonic);
        let next = (m + 1) as f64;
        term *= -quarter / (next * next);
        harmonic += 1.0 / next;
        if part.abs() < 1e-18 * j.abs() {
            break;
        }
    }
    Complex64::new(j, -y * std::f64::consts::FRAC_2_PI)
}

/// ∫∫ H₀⁽²⁾(k |x - x'|) dx dx' over a ≤ x ≤ b, c ≤ x' ≤ d; the intervals are equal, neighbours, or
/// apart.
pub(crate) fn over(k: f64, [a, b]: [f64; 2], [c, d]: [f64; 2]) -> Complex64 {
    let furthest = (b - c).abs().max((d - a).abs());
    if k * furthest <= SERIES_MAX {
        let f = |u: f64| twice_integrated(k, u);
        return f(b - c) - f(a - c) - f(b - d) + f(a - d);
    }
    // Far apart, and smooth: four points of Gauss each way.
    const X: [f64; 4] =
        [-0.861136311594053, -0.339981043584856, 0.339981043584856, 0.861136311594053];
    const W: [f64; 4] =
        [0.347854845137454, 0.652145154862546, 0.652145154862546, 0.347854845137454];
    let mut sum = Complex64::ZERO;
    for (x, w) in X.iter().zip(W) {
        let x = f64::midpoint(a, b) + 0.5 * (b - a) * x;
        for (y, v) in X.iter().zip(W) {
            let y = f64::midpoint(c, d) + 0.5 * (d - c) * y;
            sum += hankel(k * (x - y).abs()) * (w * v);
        }
    }
    sum * (0.25 * (b - a) * (d - c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_and_points_are_the_same_integral() {
        let gauss = crate::options::gauss(40);
        for (k, first, second) in [
            (1.0, [0.0, 0.2], [1.0, 1.3]),
            (5.0, [0.1, 0.15], [1.2, 1.4]),
            (2.0, [0.0, 1.0], [2.0, 3.9]),
        ] {
            let mut right = Complex64::ZERO;
            for (x, w) in &gauss {
                for (y, v) in &gauss {
                    let at = |[a, b]: [f64; 2], x: f64| f64::midpoint(a, b) + 0.5 * (b - a) * x;
                    right += hankel(k * (at(first, *x) - at(second, *y)).abs()) * (w * v);
                }
            }
            right *= 0.25 * (first[1] - first[0]) * (second[1] - second[0]);
            let got = over(k, first, second);
            assert!((got - right).norm() < 1e-11 * right.norm(), "{got} {right}");
        }
        // An interval with itself, by halves: the integral is additive.
        let f = |a, b| over(3.0, a, b);
        let whole = f([0.0, 1.0], [0.0, 1.0]);
        let halves = f([0.0, 0.5], [0.0, 0.5]) * 2.0 + f([0.0, 0.5], [0.5, 1.0]) * 2.0;
        assert!((whole - halves).norm() < 1e-13);
    }
}
