//! What there is to see: scans from a file, or made up by a gravity turn.

use anyhow::{Context as _, ensure};

use super::space::{Camera, EARTH, SITES, Vector, along, cross, dot, norm, place, unit};
use crate::options::{quantile, uniform};

/// km³/s².
const MU: f64 = 398_600.441_8;
/// Seconds between scans.
pub(crate) const SCAN: f64 = 5.0;
pub(crate) const SCANS: usize = 60;
/// Seconds of thrust.
const BURN: f64 = 180.0;
/// Below this height nothing is seen, km.
pub(crate) const VISIBLE: f64 = 7.0;
/// Of a measurement, µrad.
pub(crate) const NOISE: f64 = 5.0;
/// Bounds of what is taken in.
pub(crate) const TARGETS_MAX: usize = 10_000;
const MEASUREMENTS_MAX: usize = 4_000_000;
const SCAN_MAX: usize = 100_000;
const SCANS_MAX: usize = 10_000;

/// Measurements of one scan of one sensor, µrad, in the order of arrival.
pub(crate) type Plane = Vec<[f64; 2]>;

/// Everything that both sensors report, and, where known, the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scene {
    /// By scan: both sensors' measurements.
    pub(crate) scans: Vec<[Plane; 2]>,
    /// By scan: where visible targets are.
    pub(crate) truth: Vec<Vec<Vector>>,
}

impl Scene {
    /// `scan,sensor,u_rad,v_rad`, in the order of scans.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let mut scene = Self::default();
        let mut count = 0;
        for (at, line) in text.lines().enumerate().skip(1) {
            let line_number = at + 1;
            let cells: Result<Vec<f64>, _> = line.split(',').map(|c| c.trim().parse()).collect();
            let cells = cells.with_context(|| format!("line {line_number}: `{line}`"))?;
            ensure!(cells.len() == 4, "line {line_number} has {} columns, not 4", cells.len());
            let (scan, sensor) = (cells[0] as usize, cells[1] as usize);
            ensure!(scan < SCANS_MAX, "line {line_number}: scan {scan}, at most {SCANS_MAX}");
            ensure!(sensor < 2, "line {line_number}: sensor {sensor}, there are 0 and 1");
            ensure!(
                cells[2].abs() < 1.0 && cells[3].abs() < 1.0,
                "line {line_number}: ({}, {}) is not in a focal plane",
                cells[2],
                cells[3]
            );
            count += 1;
            ensure!(count <= MEASUREMENTS_MAX, "more than {MEASUREMENTS_MAX} measurements");
            scene.scans.resize(scene.scans.len().max(scan + 1), Default::default());
            let plane = &mut scene.scans[scan][sensor];
            ensure!(plane.len() < SCAN_MAX, "scan {scan} has more than {SCAN_MAX} measurements");
            plane.push([cells[2] * 1e6, cells[3] * 1e6]);
        }
        ensure!(!scene.scans.is_empty(), "no measurement");
        Ok(scene)
    }

    pub(crate) fn measurements(&self) -> usize {
        self.scans.iter().flatten().map(Vec::len).sum()
    }

    /// Targets start in the first 100 s near the sites; each is detected with this probability, and
    /// so many false alarms come in each scan of each sensor. The same for the same seed.
    pub(crate) fn made_up(
        targets: usize,
        seed: u64,
        false_alarms: f64,
        detected: f64,
    ) -> anyhow::Result<Self> {
        ensure!(targets <= TARGETS_MAX, "{targets} targets: at most {TARGETS_MAX}");
        ensure!((0.0..=1000.0).contains(&false_alarms), "{false_alarms} false alarms: 0 to 1000");
        ensure!((0.0..=1.0).contains(&detected), "a detection probability of {detected}");
        let mut draw = Draw { seed, place: 0 };
        let mut scene =
            Self { scans: vec![Default::default(); SCANS], truth: vec![Vec::new(); SCANS] };
        for _ in 0..targets {
            let start = 100.0 * draw.uniform();
            let flight = flight(&mut draw);
            for (scan, truth) in scene.truth.iter_mut().enumerate() {
                let t = scan as f64 * SCAN - start;
                let step = (t / STEP).floor();
                if t < 0.0 || step as usize + 1 >= flight.len() {
                    continue;
                }
                let (a, b) = (flight[step as usize], flight[step as usize + 1]);
                let at = along(a, t / STEP - step, along(b, -1.0, a));
                if norm(at) - EARTH > VISIBLE {
                    truth.push(at);
                }
            }
        }
        let corners =
            [40.0, 62.0].iter().flat_map(|la| [44.0, 72.0].map(|lo| place(*la, lo, EARTH + 100.0)));
        let corners: Vec<Vector> = corners.collect();
        for (scan, truth) in scene.scans.iter_mut().zip(&scene.truth) {
            for (sensor, plane) in scan.iter_mut().enumerate() {
                let camera = Camera::of(sensor);
                for target in truth {
                    if draw.uniform() < detected {
                        let seen = camera.project(*target);
                        plane.push(seen.map(|x| x + NOISE * draw.normal()));
                    }
                }
                let seen: Vec<[f64; 2]> = corners.iter().map(|c| camera.project(*c)).collect();
                let bound = |axis: usize, f: fn(f64, f64) -> f64| {
                    seen.iter().map(|s| s[axis]).reduce(f).expect("corners")
                };
                for _ in 0..draw.poisson(false_alarms) {
                    plane.push(std::array::from_fn(|axis| {
                        let (low, high) = (bound(axis, f64::min), bound(axis, f64::max));
                        low + (high - low) * draw.uniform()
                    }));
                }
                // The order must tell nothing.
                for i in (1..plane.len()).rev() {
                    plane.swap(i, (draw.uniform() * (i + 1) as f64) as usize);
                }
            }
        }
        Ok(scene)
    }
}

/// A stream of random numbers.
struct Draw {
    seed: u64,
    place: u64,
}

impl Draw {
    fn uniform(&mut self) -> f64 {
        self.place += 1;
        uniform(self.seed, self.place)
    }

    fn normal(&mut self) -> f64 {
        quantile(self.uniform())
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// D. Knuth's product of uniform numbers, in pieces that do not underflow.
    fn poisson(&mut self, mean: f64) -> usize {
        let (mut count, mut left) = (0, mean);
        while left > 0.0 {
            let piece = left.min(30.0);
            left -= piece;
            let (end, mut product) = ((-piece).exp(), self.uniform());
            while product > end {
                count += 1;
                product *= self.uniform();
            }
        }
        count
    }
}

/// Seconds between points of a flight.
const STEP: f64 = 0.25;

/// A gravity turn: straight up for 10 s, a kick, then thrust a₀/(1 - t/τ) along the velocity;
/// classical Runge-Kutta.
fn flight(draw: &mut Draw) -> Vec<Vector> {
    let site = SITES[(draw.uniform() * SITES.len() as f64) as usize];
    let (latitude, longitude) = (site[0] + 0.15 * draw.normal(), site[1] + 0.15 * draw.normal());
    let azimuth = draw.between(-30.0, 60.0).to_radians();
    let (a0, tau) = (draw.between(0.0145, 0.018), draw.between(235.0, 260.0));
    let kick = draw.between(0.02, 0.06);
    let mut r = place(latitude, longitude, EARTH);
    let east = unit(cross([0.0, 0.0, 1.0], unit(r)));
    let north = cross(unit(r), east);
    let heading: Vector =
        std::array::from_fn(|i| azimuth.sin() * east[i] + azimuth.cos() * north[i]);
    let mut v = unit(r).map(|x| x * 1e-6);
    let acceleration = |t: f64, r: Vector, v: Vector| {
        let d = if t >= 10.0 { unit(v) } else { unit(r) };
        along(d.map(|x| x * a0 / (1.0 - t / tau)), -MU / norm(r).powi(3), r)
    };
    let mut path = Vec::new();
    let mut is_kicked = false;
    for step in 0..=(BURN / STEP) as usize {
        let t = step as f64 * STEP;
        path.push(r);
        if t >= 10.0 && !is_kicked {
            let u = unit(v);
            let aside = unit(along(heading, -dot(heading, u), u));
            let speed = norm(v);
            v = std::array::from_fn(|i| speed * (kick.cos() * u[i] + kick.sin() * aside[i]));
            is_kicked = true;
        }
        let h = STEP;
        let (k1r, k1v) = (v, acceleration(t, r, v));
        let at = |s: f64, kr: Vector, kv: Vector| (along(r, s, kr), along(v, s, kv));
        let (r2, v2) = at(h / 2.0, k1r, k1v);
        let k2v = acceleration(t + h / 2.0, r2, v2);
        let (r3, v3) = at(h / 2.0, v2, k2v);
        let k3v = acceleration(t + h / 2.0, r3, v3);
        let (r4, v4) = at(h, v3, k3v);
        let k4v = acceleration(t + h, r4, v4);
        let mean = |a: Vector, b: Vector, c: Vector, d: Vector| -> Vector {
            std::array::from_fn(|i| (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]) / 6.0)
        };
        (r, v) = (along(r, h, mean(k1r, v2, v3, v4)), along(v, h, mean(k1v, k2v, k3v, k4v)));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_end_where_an_independent_integration_says() {
        // Euler's method in the plane, over the corners of the parameters: these are its extremes.
        for seed in 0..40 {
            let path = flight(&mut Draw { seed, place: 0 });
            let height = norm(path[path.len() - 1]) - EARTH;
            let last = along(path[path.len() - 1], -1.0, path[path.len() - 2]);
            let speed = norm(last) / STEP;
            assert!((-30.0..260.0).contains(&height), "{height} km");
            assert!((3.0..4.6).contains(&speed), "{speed} km/s");
        }
    }

    #[test]
    fn scenes_are_bounded_and_files_checked() {
        let said = |n| Scene::made_up(n, 1, 2.0, 0.9).unwrap_err().to_string();
        assert_eq!(said(1_000_000_000), "1000000000 targets: at most 10000");
        assert!(Scene::made_up(1, 1, f64::NAN, 0.9).is_err());
        let empty = Scene::made_up(0, 1, 0.0, 0.9).unwrap();
        assert_eq!(empty.measurements(), 0);
        let said = |text: &str| format!("{:#}", Scene::read(text).unwrap_err());
        assert_eq!(said("scan,sensor,u_rad,v_rad\n"), "no measurement");
        assert!(said("h\n0,2,0,0\n").starts_with("line 2: sensor 2"));
        assert!(said("h\n0,0,NaN,0\n").contains("not in a focal plane"));
        assert!(said("h\n99999999999,0,0,0\n").contains("at most"));
    }
}
