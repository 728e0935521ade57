//! Each kernel on data that it makes, with its check.

use std::time::Instant;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use rustfft::num_complex::Complex64;

use super::{ep, fft, hough, lu, matmul, nbody, sort, tsp};
use crate::exchange::{Exchange, share, share_counts};
use crate::options::{splitmix, uniform};
use crate::report::Report;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kernel {
    /// Two-dimensional Fourier transform of SIZE x SIZE
    Fft,
    /// LU and a solution of SIZE equations
    Lu,
    /// Product of matrices of SIZE x SIZE
    Matmul,
    /// SIZE bodies for ten steps
    Nbody,
    /// NAS EP with 2^SIZE pairs
    Ep,
    /// Sorting of SIZE keys
    Sort,
    /// The shortest tour of SIZE cities
    Tsp,
    /// Lines in a picture of SIZE x SIZE
    Hough,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct KernelArgs {
    /// Which kernel
    #[arg(value_enum)]
    pub(super) kernel: Kernel,
    /// How large; each kernel has its own default and limits
    #[arg(long)]
    pub(super) size: Option<usize>,
}

impl KernelArgs {
    /// Which kernel, in a word.
    pub(crate) fn kernel(&self) -> String {
        format!("{:?}", self.kernel).to_lowercase()
    }
}

/// What a kernel says, at the root.
struct Outcome {
    work: String,
    check: String,
    is_right: bool,
}

impl Kernel {
    /// Default, least and largest size.
    const fn sizes(self) -> [usize; 3] {
        match self {
            Self::Fft => [512, 2, 4096],
            Self::Lu | Self::Matmul => [384, 1, 4096],
            Self::Nbody => [1000, 2, 100_000],
            Self::Ep => [20, 16, 36],
            Self::Sort => [1_000_000, 0, 100_000_000],
            Self::Tsp => [13, 4, tsp::CITIES_MAX],
            Self::Hough => [400, 2, 4000],
        }
    }

    fn run(self, exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
        match self {
            Self::Fft => run_fft(exchange, n),
            Self::Lu => run_lu(exchange, n),
            Self::Matmul => run_matmul(exchange, n),
            Self::Nbody => run_nbody(exchange, n),
            Self::Ep => run_ep(exchange, n),
            Self::Sort => run_sort(exchange, n),
            Self::Tsp => run_tsp(exchange, n),
            Self::Hough => run_hough(exchange, n),
        }
    }
}

fn outcome(work: String, check: String, is_right: bool) -> Outcome {
    Outcome { work, check, is_right }
}

pub(super) fn noise(place: usize) -> f64 {
    2.0 * uniform(8, place as u64) - 1.0
}

fn run_fft(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let own = share(n, exchange.rank(), exchange.size());
    let input = |place: usize| Complex64::new(noise(place), 0.0);
    let rows = (own.start * n..own.end * n).map(input).collect();
    exchange.begin();
    let columns = fft::transform(exchange, n, rows)?;
    exchange.done();
    let Some(all) = fft::collect(exchange, n, &columns)? else { return Ok(None) };
    let energy: f64 = (0..n * n).map(|place| noise(place).powi(2)).sum();
    let got = all.iter().map(Complex64::norm_sqr).sum::<f64>() / (n * n) as f64;
    let off = (got / energy - 1.0).abs();
    Ok(Some(outcome(
        format!("{n} x {n} points"),
        format!("Parseval within {off:.1e}"),
        off < 1e-12,
    )))
}

fn run_lu(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let entry = |row: usize, column: usize| noise(row * n + column);
    let mut blocks = lu::Blocks::new(n, exchange.rank(), exchange.size(), entry);
    exchange.begin();
    let pivots = blocks.factor(exchange)?;
    exchange.done();
    let Some(factors) = blocks.collect(exchange, pivots)? else { return Ok(None) };
    let b: Vec<f64> = (0..n).map(|row| noise(n * n + row)).collect();
    let residual = lu::residual(n, entry, &factors.solve(&b), &b);
    let check = format!("scaled residual {residual:.3}, below 16");
    Ok(Some(outcome(format!("{n} equations"), check, residual < 16.0)))
}

fn run_matmul(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let own = share(n, exchange.rank(), exchange.size());
    let whole = |place: usize, seed: u64| (splitmix(place as u64 ^ seed) % 17) as f64 - 8.0;
    let rows = |seed: u64| (own.start * n..own.end * n).map(|p| whole(p, seed)).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = (rows(0), rows(1 << 40));
    exchange.begin();
    let c = matmul::product(exchange, n, &a, &b)?;
    exchange.done();
    // (A B) 1 = A (B 1), in integers.
    let sums: Vec<f64> = c.chunks_exact(n.max(1)).map(|row| row.iter().sum()).collect();
    let counts = share_counts(n, exchange.size(), 1);
    let Some(got) = exchange.gather_counts(0, &sums, &counts)? else { return Ok(None) };
    let b_sums: Vec<f64> =
        (0..n).map(|row| (0..n).map(|column| whole(row * n + column, 1 << 40)).sum()).collect();
    let right = |row: usize| -> f64 { (0..n).map(|k| whole(row * n + k, 0) * b_sums[k]).sum() };
    let wrong = (0..n).filter(|row| got[*row] != right(*row)).count();
    Ok(Some(outcome(
        format!("{n} x {n}"),
        format!("{wrong} rows of integers are wrong"),
        wrong == 0,
    )))
}

fn run_nbody(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let mut bodies = nbody::Bodies::ball(n);
    bodies.softening2 = 0.01;
    let before = bodies.energy(exchange)?;
    exchange.begin();
    for _ in 0..10 {
        bodies.step(exchange, 0.005)?;
    }
    exchange.done();
    let drift = (bodies.energy(exchange)? / before - 1.0).abs();
    let check = format!("energy drifts by {drift:.1e}");
    let said = outcome(format!("{n} bodies, 10 steps"), check, drift < 1e-4);
    Ok((exchange.rank() == 0).then_some(said))
}

fn run_ep(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    exchange.begin();
    let (sx, sy, rings) = ep::sums(exchange, n as u32)?;
    exchange.done();
    // Of pairs in the square the circle has π/4; sums of N Gaussians have deviation √N.
    let (pairs, kept) = ((1_u64 << n) as f64, rings.iter().sum::<f64>());
    let share_off = (kept / pairs - std::f64::consts::FRAC_PI_4).abs() * pairs.sqrt();
    let is_right = share_off < 3.0 && sx.hypot(sy) < 8.0 * kept.sqrt();
    let said = outcome(format!("2^{n} pairs"), format!("sums {sx:.9} and {sy:.9}"), is_right);
    Ok((exchange.rank() == 0).then_some(said))
}

fn run_sort(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let key = |place: usize| splitmix(place as u64 + 27);
    let mine = share(n, exchange.rank(), exchange.size());
    let keys = mine.map(key).collect();
    exchange.begin();
    let own = sort::sort(exchange, keys)?;
    exchange.done();
    let is_sorted = own.is_sorted();
    let sum = own.iter().fold(0_u64, |sum, key| sum.wrapping_add(*key));
    let ends = [own.first().copied().unwrap_or(0), own.last().copied().unwrap_or(0)];
    let about = [own.len() as u64, u64::from(is_sorted), sum, ends[0], ends[1]];
    let counts = vec![about.len(); exchange.size()];
    let Some(parts) = exchange.gather_counts(0, &about, &counts)? else { return Ok(None) };
    let (mut count, mut total, mut last, mut good) = (0, 0_u64, 0, true);
    for part in parts.as_chunks::<5>().0 {
        count += part[0];
        total = total.wrapping_add(part[2]);
        good &= part[1] == 1 && (part[0] == 0 || part[3] >= last);
        last = if part[0] == 0 { last } else { part[4] };
    }
    let right = (0..n).fold(0_u64, |sum, place| sum.wrapping_add(key(place)));
    let is_right = good && count == n as u64 && total == right;
    let check = format!("{count} keys in order, their sum {total:016x}");
    Ok(Some(outcome(format!("{n} keys"), check, is_right)))
}

fn run_tsp(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    let place = |i: usize| [500.0 * (1.0 + noise(2 * i)), 500.0 * (1.0 + noise(2 * i + 1))];
    let cities = tsp::Cities::new(&(0..n).map(place).collect::<Vec<_>>())?;
    exchange.begin();
    let tour = cities.shortest(exchange)?;
    exchange.done();
    let Some(tour) = tour else { return Ok(None) };
    let mut visited = tour.cities.clone();
    visited.sort_unstable();
    let is_tour = visited.iter().enumerate().all(|(at, city)| at as u64 == *city);
    let check = format!("length {}, {:?}", tour.length, tour.cities);
    Ok(Some(outcome(format!("{n} cities"), check, is_tour)))
}

fn run_hough(exchange: &mut dyn Exchange, n: usize) -> anyhow::Result<Option<Outcome>> {
    // A line at 30 degrees, and points at random.
    let (sin, cos) = 30_f64.to_radians().sin_cos();
    let rho = 0.6 * n as f64;
    let on_line = (0..n).filter_map(|y| {
        let x = ((rho - y as f64 * sin) / cos).round();
        (0.0..n as f64).contains(&x).then_some([x as usize, y])
    });
    let random = (0..n).map(|i| {
        let part = |at: usize| ((0.5 + 0.5 * noise(at)) * n as f64) as usize;
        [part(2 * i), part(2 * i + 1)]
    });
    let points: Vec<[usize; 2]> = on_line.chain(random).collect();
    exchange.begin();
    let votes = hough::votes(exchange, [n, n], &points)?;
    exchange.done();
    let Some(votes) = votes else { return Ok(None) };
    let (theta, distance, count) = votes.best();
    let sum: u64 = votes.counts.iter().sum();
    let is_right = sum == 180 * points.len() as u64
        && theta.abs_diff(30) <= 1
        && (distance as f64 - rho).abs() <= 2.0;
    let check = format!("a line at {theta} degrees, {distance} pixels away, with {count} votes");
    Ok(Some(outcome(format!("{n} x {n} pixels"), check, is_right)))
}

/// Runs one; the root gets the report. A wrong answer is an error.
pub(crate) fn kernel(
    exchange: &mut dyn Exchange,
    args: &KernelArgs,
) -> anyhow::Result<Option<Report>> {
    let [default, least, largest] = args.kernel.sizes();
    let n = args.size.unwrap_or(default);
    ensure!((least..=largest).contains(&n), "a size of {n}: from {least} to {largest}");
    let begun = Instant::now();
    let Some(said) = args.kernel.run(exchange, n)? else { return Ok(None) };
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(said.is_right, "wrong: {}", said.check);
    let lead = format!("{:?}: {}, {} tasks", args.kernel, said.work, exchange.size());
    let mut report = Report::new("Kernel", &lead);
    report.say("Checked", &said.check);
    report.say("With the check it took", &towpath_report::units::time_text(seconds));
    Ok(Some(report))
}
