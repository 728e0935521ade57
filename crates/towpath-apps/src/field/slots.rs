//! A plane wave, two slots in a conducting plane, and the guides and network behind them.
//!
//! Time goes as e^{+jωt}, H lies along z, the plane is y = 0. With E the field across the slots,
//!
//! k/2η ∫ E(x') H₀⁽²⁾(k |x - x'|) dx' + (Y_guide E)(x) = 2 H₀ e^{jkx cos φ}
//!
//! by the generalized network formulation (R. F. Harrington, J. R. Mautz, 1976), Galerkin with
//! pulses that are graded by a cosine, since E grows without bound at the edges. Guide modes
//! √(ε_n/w) cos(nπξ/w) see an infinite guide, but those with n = 0 the load's 2 x 2 admittance.

use rustfft::num_complex::Complex64 as C;

use super::kernel::{SERIES_MAX, hankel, over};
use super::lu::solve;

/// η of free space in ohm, and the speed of light in m/s.
pub(crate) const ETA: f64 = 376.730_313_668;
pub(crate) const LIGHT: f64 = 299_792_458.0;
/// Pulses of a slot, at most.
pub(crate) const PULSES_MAX: usize = 512;
/// Guide modes that are summed.
const MODES: usize = 3000;

/// Lengths in metres. 0 < w ≤ λ, w < d ≤ 1000 λ.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) wavelength: f64,
    pub(crate) width: f64,
    /// Between the slots' middles.
    pub(crate) distance: f64,
    /// Of what fills the guides.
    pub(crate) permittivity: f64,
    /// Of the incident wave, from the x axis, radian.
    pub(crate) angle: f64,
    /// The load as the slots see it, siemens.
    pub(crate) load: [[C; 2]; 2],
    /// Of each slot.
    pub(crate) pulses: usize,
}

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}: it must be {limit}")]
pub(crate) struct SlotsError {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) limit: &'static str,
}

/// What the wave does.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    k: f64,
    edges: Vec<[f64; 2]>,
    /// E of each pulse, V/m.
    field: Vec<C>,
    /// ∫E over each slot, V.
    pub(crate) volts: [C; 2],
    /// W/m: radiated into the upper half, taken by the load, given by the source.
    pub(crate) scattered: f64,
    pub(crate) loaded: f64,
    pub(crate) driven: f64,
}

/// A known network behind the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Network {
    /// Both guides end matched
    Matched,
    /// Half and twice the guides' admittance
    Unequal,
    /// Without loss: +0.8 j and -0.6 j
    Reactive,
    /// The guides are joined by 0.15 wavelengths of line
    Line,
    /// 0.3 guide wavelengths, then a pi network
    Pi,
}

impl Network {
    /// Y_L in siemens; Y₀ = √ε/η.
    pub(crate) fn admittance(self, permittivity: f64) -> [[C; 2]; 2] {
        let y0 = permittivity.sqrt() / ETA;
        let diagonal = |a: C, b: C| [[a * y0, C::ZERO], [C::ZERO, b * y0]];
        let real = |re| C::new(re, 0.0);
        match self {
            Self::Matched => diagonal(real(1.0), real(1.0)),
            Self::Unequal => diagonal(real(0.5), real(2.0)),
            Self::Reactive => diagonal(C::new(0.0, 0.8), C::new(0.0, -0.6)),
            Self::Line => {
                // Y of a line: -j Y₀ cot βl, and j Y₀ / sin βl between its ends.
                let (sin, cos) = (0.15 * std::f64::consts::TAU).sin_cos();
                let (own, other) = (C::new(0.0, -cos / sin * y0), C::new(0.0, y0 / sin));
                [[own, other], [other, own]]
            }
            Self::Pi => {
                let (own, other) = (C::new(1.0, 0.5) * y0, C::new(0.0, -0.4) * y0);
                through([[own, other], [other, own]], y0, 0.3 * std::f64::consts::TAU)
            }
        }
    }
}

/// What a network looks like through guides of electrical length b:
/// Y₀ (Y_N + j Y₀ tan b) (Y₀ + j Y_N tan b)⁻¹.
fn through(network: [[C; 2]; 2], y0: f64, length: f64) -> [[C; 2]; 2] {
    let turn = C::new(0.0, length.tan());
    let mut upper = network;
    let mut lower = network.map(|row| row.map(|y| turn * y));
    for i in 0..2 {
        upper[i][i] += turn * y0;
        lower[i][i] += y0;
    }
    let [[a, b], [c, d]] = lower;
    let scale = C::new(y0, 0.0) / (a * d - b * c);
    let inverse = [[d, -b], [-c, a]];
    let product =
        |i: usize, j: usize| (upper[i][0] * inverse[0][j] + upper[i][1] * inverse[1][j]) * scale;
    [[product(0, 0), product(0, 1)], [product(1, 0), product(1, 1)]]
}

impl Slots {
    pub(crate) fn checked(self) -> Result<Self, SlotsError> {
        let check = |name, value: f64, good: bool, limit| match good {
            true => Ok(()),
            false => Err(SlotsError { name, value, limit }),
        };
        let lambda = self.wavelength;
        check("the wavelength", lambda, lambda > 1e-12 && lambda < 1e12, "from 1e-12 to 1e12 m")?;
        let width = self.width / lambda;
        check(
            "the slots' width",
            width,
            (1e-4..=1.0).contains(&width),
            "from 1e-4 to 1 wavelength",
        )?;
        let apart = self.distance / self.width;
        check("the slots' distance", apart, apart > 1.0, "more than a width")?;
        let far = self.distance / lambda;
        check("the slots' distance", far, far <= 1000.0, "at most 1000 wavelengths")?;
        let er = self.permittivity;
        check("the permittivity", er, (1.0..=100.0).contains(&er), "from 1 to 100")?;
        check("the angle", self.angle, self.angle.abs() <= 7.0, "a turn at most")?;
        let good = self.load.iter().flatten().all(|y| y.is_finite() && y.norm() < 1e9);
        check("the load", self.load[0][0].re, good, "finite")?;
        let count = self.pulses;
        let good = (2..=PULSES_MAX).contains(&count);
        check("the number of pulses", count as f64, good, "from 2 to 512")?;
        Ok(self)
    }

    pub(crate) fn wave_number(&self) -> f64 {
        std::f64::consts::TAU / self.wavelength
    }

    /// Pulses of both slots.
    fn edges(&self) -> Vec<[f64; 2]> {
        let n = self.pulses;
        let at = |i: usize| {
            0.5 * self.width * (1.0 - (std::f64::consts::PI * i as f64 / n as f64).cos())
        };
        let slot = |middle: f64| {
            let left = middle - 0.5 * self.width;
            (0..n).map(move |i| [left + at(i), left + at(i + 1)])
        };
        slot(-0.5 * self.distance).chain(slot(0.5 * self.distance)).collect()
    }

    /// A row of the half space's admittance: what tasks share.
    pub(crate) fn row(&self, at: usize) -> Vec<C> {
        let (edges, k) = (self.edges(), self.wave_number());
        edges.iter().map(|other| over(k, edges[at], *other) * (k / (2.0 * ETA))).collect()
    }

    /// The guides' admittance.
    fn guides(&self, edges: &[[f64; 2]]) -> Vec<Vec<C>> {
        let (n, w, k) = (self.pulses, self.width, self.wave_number());
        let mut own = vec![vec![C::ZERO; n]; n];
        let mut parts = vec![0.0; n];
        for mode in 1..=MODES {
            let q = mode as f64 * std::f64::consts::PI / w;
            let square = k * k * self.permittivity - q * q;
            // Im κ ≤ 0: what does not propagate decays.
            let kappa = match square >= 0.0 {
                true => C::new(square.sqrt(), 0.0),
                false => C::new(0.0, -(-square).sqrt()),
            };
            let y = C::new(k * self.permittivity / ETA, 0.0) / kappa;
            let left = edges[0][0];
            for (part, [a, b]) in parts.iter_mut().zip(edges) {
                let sine = |x: f64| (q * (x - left)).sin();
                *part = (2.0 / w).sqrt() / q * (sine(*b) - sine(*a));
            }
            for (i, row) in own.iter_mut().enumerate() {
                let y = y * parts[i];
                for (cell, part) in row[..=i].iter_mut().zip(&parts) {
                    *cell += y * part;
                }
            }
        }
        let mut all = vec![vec![C::ZERO; 2 * n]; 2 * n];
        let length = |i: usize| edges[i][1] - edges[i][0];
        for (i, row) in all.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                let (s, t) = (i / n, j / n);
                *cell = self.load[s][t] * (length(i) * length(j) / w);
                if s == t {
                    let (a, b) = ((i % n).max(j % n), (i % n).min(j % n));
                    *cell += own[a][b];
                }
            }
        }
        all
    }

    /// From the rows of [`Slots::row`].
    pub(crate) fn solve(&self, half_space: &[Vec<C>]) -> Result<Solution, SlotsError> {
        let (edges, k) = (self.edges(), self.wave_number());
        let guides = self.guides(&edges);
        let n = edges.len();
        let mut matrix: Vec<C> = Vec::with_capacity(n * n);
        for (row, guide) in half_space.iter().zip(&guides) {
            matrix.extend(row.iter().zip(guide).map(|(a, b)| a + b));
        }
        let wave = k * self.angle.cos();
        let current: Vec<C> = edges.iter().map(|e| phase(wave, *e) * 2.0).collect();
        let field = solve(matrix, current.clone());
        let field = field.filter(|field| field.iter().all(|e| e.is_finite()));
        let field = field.ok_or(SlotsError {
            name: "the load",
            value: self.load[0][0].re,
            limit: "such that it does not cancel the slots' own admittance",
        })?;
        let form = |matrix: &[Vec<C>]| {
            let row = |(e, row): (&C, &Vec<C>)| {
                e.conj() * row.iter().zip(&field).map(|(y, f)| y * f).sum::<C>()
            };
            0.5 * field.iter().zip(matrix).map(row).sum::<C>().re
        };
        let volts = |slot: usize| {
            let range = slot * self.pulses..(slot + 1) * self.pulses;
            range.map(|i| field[i] * (edges[i][1] - edges[i][0])).sum()
        };
        Ok(Solution {
            k,
            volts: [volts(0), volts(1)],
            scattered: form(half_space),
            loaded: form(&guides),
            driven: 0.5 * current.iter().zip(&field).map(|(i, e)| i.conj() * e).sum::<C>().re,
            edges,
            field,
        })
    }
}

/// ∫ e^{jqx} dx over an interval.
fn phase(q: f64, [a, b]: [f64; 2]) -> C {
    let (middle, half) = (f64::midpoint(a, b), 0.5 * (b - a));
    let sinc = if (q * half).abs() < 1e-8 { 1.0 } else { (q * half).sin() / (q * half) };
    C::from_polar(2.0 * half * sinc, q * middle)
}

impl Solution {
    /// F with H_s → F √(2j/πkr) e^{-jkr} in this direction (radian, from the x axis).
    pub(crate) fn far(&self, theta: f64) -> C {
        let q = self.k * theta.cos();
        let sum: C = self.edges.iter().zip(&self.field).map(|(e, f)| f * phase(q, *e)).sum();
        sum * (-self.k / (2.0 * ETA))
    }

    /// H_s at a point above the plane, A/m: two points of Gauss a pulse.
    pub(crate) fn near(&self, x: f64, y: f64) -> C {
        let mut sum = C::ZERO;
        for ([a, b], field) in self.edges.iter().zip(&self.field) {
            for side in [-1.0, 1.0] {
                let at = f64::midpoint(*a, *b) + side * 0.5 * (b - a) * 0.577_350_269_189_626;
                sum += field * hankel(self.k * (x - at).hypot(y).max(1e-9)) * (0.5 * (b - a));
            }
        }
        sum * (-self.k / (2.0 * ETA))
    }

    /// What must be 0: (given - taken) / given.
    pub(crate) fn imbalance(&self) -> f64 {
        (self.driven - self.scattered - self.loaded) / self.driven
    }
}

const _: () = assert!(std::f64::consts::TAU <= SERIES_MAX, "a slot of one wavelength fits");
