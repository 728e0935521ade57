//! Against data/kernels/known.json.

use serde_json::Value;

use super::nbody::Bodies;
use super::suite::{Kernel, noise};
use super::{KernelArgs, ep, fft, hough, kernel, lu, matmul, sort, tsp};
use crate::exchange::local::run;
use crate::exchange::{Exchange, share, share_counts};
use rustfft::num_complex::Complex64;

const SIZES: [usize; 6] = [1, 2, 3, 4, 7, 8];

fn known(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../../data/kernels/known.json")).unwrap();
    all[name].clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        one => vec![one.as_f64().unwrap()],
    }
}

/// What the root says, for each number of ranks: all the same.
fn same<T: Send + PartialEq + std::fmt::Debug>(
    work: impl Fn(&mut dyn Exchange) -> anyhow::Result<Option<T>> + Sync,
) -> T {
    let mut said = SIZES.map(|size| run(size, &work).swap_remove(0).unwrap().unwrap()).into_iter();
    let first = said.next().unwrap();
    for (other, size) in said.zip(&SIZES[1..]) {
        assert!(other == first, "{size} tasks");
    }
    first
}

#[test]
fn fourier() {
    let known = known("fft2_32");
    let input = numbers(&known["input"]);
    let got = same(|exchange| {
        let own = share(32, exchange.rank(), exchange.size());
        let rows = input[own.start * 32..own.end * 32].iter().map(|x| Complex64::new(*x, 0.0));
        let columns = fft::transform(exchange, 32, rows.collect())?;
        Ok(fft::collect(exchange, 32, &columns)?)
    });
    for sample in known["samples"].as_array().unwrap() {
        let of = |name: &str| sample[name].as_f64().unwrap();
        let value = got[of("u") as usize * 32 + of("v") as usize];
        assert!((value - Complex64::new(of("re"), of("im"))).norm() < 1e-9, "{sample} {value}");
    }
    let energy: f64 = got.iter().map(Complex64::norm_sqr).sum();
    assert!((energy / known["energy"].as_f64().unwrap() - 1.0).abs() < 1e-12);
}

#[test]
fn equations() {
    let known = known("linear24");
    let (a, b) = (numbers(&known["A"]), numbers(&known["b"]));
    let (x, log) = same(|exchange| {
        let entry = |row: usize, column: usize| a[row * 24 + column];
        let mut blocks = lu::Blocks::new(24, exchange.rank(), exchange.size(), entry);
        let pivots = blocks.factor(exchange)?;
        let factors = blocks.collect(exchange, pivots)?;
        Ok(factors.map(|f| (f.solve(&b), f.log_determinant())))
    });
    for (x, right) in x.iter().zip(numbers(&known["x_exact"])) {
        assert!((x - right).abs() < 1e-12);
    }
    assert!((log - known["logabsdet"].as_f64().unwrap()).abs() < 1e-10);
}

#[test]
fn many_equations_in_several_blocks_and_none_of_a_singular_matrix() {
    let n = 330;
    let entry = |row: usize, column: usize| noise(row * n + column);
    let b: Vec<f64> = (0..n).map(|row| row as f64).collect();
    let x = same(|exchange| {
        let mut blocks = lu::Blocks::new(n, exchange.rank(), exchange.size(), entry);
        let pivots = blocks.factor(exchange)?;
        Ok(blocks.collect(exchange, pivots)?.map(|factors| factors.solve(&b)))
    });
    assert!(lu::residual(n, entry, &x, &b) < 16.0);
    let singular = run(3, |exchange| {
        let mut blocks = lu::Blocks::new(70, exchange.rank(), exchange.size(), |_, _| 1.0);
        Ok(blocks.factor(exchange)?)
    });
    assert_eq!(singular[0].as_ref().unwrap_err().to_string(), "the matrix is singular");
}

#[test]
fn products() {
    let n = 300;
    let real = |place: usize, seed: usize| noise(place + seed * n * n);
    let got = same(|exchange| {
        let own = share(n, exchange.rank(), exchange.size());
        let rows = |seed| (own.start * n..own.end * n).map(|p| real(p, seed)).collect::<Vec<_>>();
        let c = matmul::product(exchange, n, &rows(0), &rows(1))?;
        Ok(exchange.gather_counts(0, &c, &share_counts(n, exchange.size(), n))?)
    });
    for row in [0, 77, n - 1] {
        for column in [0, 3, n - 1] {
            let right: f64 = (0..n).map(|k| real(row * n + k, 0) * real(k * n + column, 1)).sum();
            assert!((got[row * n + column] - right).abs() < 1e-12);
        }
    }
}

#[test]
fn gravity() {
    let known = known("nbody64");
    let position = numbers(&known["pos"]).as_chunks::<3>().0.to_vec();
    let bodies = Bodies {
        velocity: vec![[0.0; 3]; position.len()],
        position,
        mass: numbers(&known["mass"]),
        softening2: known["softening2"].as_f64().unwrap(),
    };
    let (got, potential) =
        same(|exchange| Ok(Some((bodies.accelerations(exchange)?, bodies.potential(exchange)?))));
    for (got, right) in got.iter().flatten().zip(numbers(&known["acc"])) {
        assert!((got - right).abs() < 1e-10 * right.abs().max(1.0), "{got} {right}");
    }
    assert!((potential - known["potential"].as_f64().unwrap()).abs() < 1e-12);
}

#[test]
fn three_bodies_dance_a_figure_of_eight() {
    // A. Chenciner, R. Montgomery (2000); the period is 6.32591398.
    let (x, y) = (0.970_004_36, -0.243_087_53);
    let (vx, vy) = (-0.932_407_37, -0.864_731_46);
    let bodies = Bodies {
        position: vec![[x, y, 0.0], [-x, -y, 0.0], [0.0; 3]],
        velocity: vec![[-vx / 2.0, -vy / 2.0, 0.0], [-vx / 2.0, -vy / 2.0, 0.0], [vx, vy, 0.0]],
        mass: vec![1.0; 3],
        softening2: 1e-30,
    };
    // A body does not pull itself: 0 / tiny = 0.
    let steps = 4000;
    let ended = run(1, |exchange| {
        let mut bodies = bodies.clone();
        let before = bodies.energy(exchange)?;
        for _ in 0..steps {
            bodies.step(exchange, 6.325_913_98 / f64::from(steps))?;
        }
        let drift = bodies.energy(exchange)? / before - 1.0;
        Ok((bodies, drift))
    });
    let (bodies, drift) = ended.into_iter().next().unwrap().unwrap();
    assert!((bodies.position[0][0] - x).abs() < 1e-4 && (bodies.position[0][1] - y).abs() < 1e-4);
    assert!(drift.abs() < 1e-8);
}

#[test]
fn nas_ep() {
    let known = known("nas_ep_S");
    let all = run(2, |exchange| Ok(ep::sums(exchange, 24)?));
    let (sx, sy, rings) = *all[0].as_ref().unwrap();
    assert!((sx / known["sx"].as_f64().unwrap() - 1.0).abs() < 1e-8, "{sx}");
    assert!((sy / known["sy"].as_f64().unwrap() - 1.0).abs() < 1e-8, "{sy}");
    assert_eq!(rings.iter().sum::<f64>(), 13_176_389.0);
    same(|exchange| Ok(Some(ep::sums(exchange, 18)?)));
}

#[test]
fn sorting() {
    let known = known("sort1e5");
    let mut state = known["seed"].as_u64().unwrap();
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let keys: Vec<u64> = (0..100_000).map(|_| next()).collect();
    for size in SIZES {
        let parts = run(size, |exchange| {
            let own = share(keys.len(), exchange.rank(), exchange.size());
            Ok(sort::sort(exchange, keys[own].to_vec())?)
        });
        let parts: Vec<Vec<u64>> = parts.into_iter().map(Result::unwrap).collect();
        assert!(parts.iter().all(|part| part.len() <= 2 * keys.len() / size), "{size} tasks");
        let all = parts.concat();
        let of = |name: &str| known[name].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!((all[0], all[all.len() - 1]), (of("first"), of("last")));
        assert!(all.len() == keys.len() && all.is_sorted());
        assert!(all[50_000] == of("median") || all[49_999] == of("median"));
    }
    for odd in [vec![], vec![5], vec![7; 40]] {
        let parts = run(4, |exchange| {
            let own = share(odd.len(), exchange.rank(), 4);
            Ok(sort::sort(exchange, odd[own].to_vec())?)
        });
        assert_eq!(parts.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>(), odd);
    }
}

#[test]
fn travelling() {
    let known = known("tsp14");
    let places = numbers(&known["cities"]).as_chunks::<2>().0.to_vec();
    let cities = tsp::Cities::new(&places).unwrap();
    let tour = same(|exchange| cities.shortest(exchange));
    assert_eq!(tour.length, known["optimal_tour_length"].as_u64().unwrap());
    let said = tsp::Cities::new(&[[0.0; 2]; 50]).map(drop).unwrap_err().to_string();
    assert_eq!(said, "50 cities: from 4 to 20");
}

#[test]
fn lines() {
    let known = known("hough");
    let flat = numbers(&known["points"]);
    let points: Vec<[usize; 2]> =
        flat.as_chunks::<2>().0.iter().map(|p| p.map(|x| x as usize)).collect();
    let (best, sum) = same(|exchange| {
        let votes = hough::votes(exchange, [240, 180], &points)?;
        Ok(votes.map(|votes| (votes.best(), votes.counts.iter().sum::<u64>())))
    });
    let of = |name: &str| known[name].as_u64().unwrap();
    assert_eq!(sum, of("accumulator_sum"));
    let right = (of("argmax_theta") as usize, of("argmax_rho") as i64, of("accumulator_max"));
    assert_eq!(best, right);
}

#[test]
fn every_kernel_checks_itself_and_knows_its_limits() {
    let small = [
        (Kernel::Fft, 20),
        (Kernel::Lu, 60),
        (Kernel::Matmul, 70),
        (Kernel::Nbody, 40),
        (Kernel::Ep, 16),
        (Kernel::Sort, 1000),
        (Kernel::Tsp, 8),
        (Kernel::Hough, 100),
    ];
    for (which, size) in small {
        let args = KernelArgs { kernel: which, size: Some(size) };
        let all = run(3, |exchange| kernel(exchange, &args));
        for (rank, outcome) in all.into_iter().enumerate() {
            assert_eq!(outcome.unwrap().is_some(), rank == 0, "{which:?}");
        }
        let args = KernelArgs { kernel: which, size: Some(usize::MAX) };
        let said = run(1, |exchange| kernel(exchange, &args)).swap_remove(0).map(drop);
        assert!(said.unwrap_err().to_string().starts_with("a size of 18446744073709551615: from"));
    }
}
