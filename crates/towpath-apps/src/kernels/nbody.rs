//! Gravity of all on all: everyone has all positions, and moves its share.

use crate::exchange::{Exchange, Result, map_all};

/// Positions and masses; softened distances √(r² + ε²).
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    pub(crate) position: Vec<[f64; 3]>,
    pub(crate) velocity: Vec<[f64; 3]>,
    pub(crate) mass: Vec<f64>,
    pub(crate) softening2: f64,
}

impl Bodies {
    /// A cold ball of n bodies, the same for the same n.
    pub(crate) fn ball(n: usize) -> Self {
        let place = |i: usize| {
            let draw = |what: u64| 2.0 * crate::options::uniform(64, i as u64 * 3 + what) - 1.0;
            [draw(0), draw(1), draw(2)]
        };
        Self {
            position: (0..n).map(place).collect(),
            velocity: vec![[0.0; 3]; n],
            mass: vec![1.0 / n as f64; n],
            softening2: 1e-4,
        }
    }

    fn pull(&self, on: usize) -> [f64; 3] {
        let here = self.position[on];
        let mut sum = [0.0; 3];
        for (there, mass) in self.position.iter().zip(&self.mass) {
            let d: [f64; 3] = std::array::from_fn(|i| there[i] - here[i]);
            let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + self.softening2;
            let scale = mass / (square * square.sqrt());
            for (sum, d) in sum.iter_mut().zip(d) {
                *sum += scale * d;
            }
        }
        sum
    }

    /// Accelerations of all, G = 1: the same bits for any number of ranks.
    pub(crate) fn accelerations(&self, exchange: &mut dyn Exchange) -> Result<Vec<[f64; 3]>> {
        let n = self.position.len();
        // Positive softening also takes care of a body's pull on itself: its distance is 0.
        let flat = map_all(exchange, n, 3, |on, out| out.extend(self.pull(on)))?;
        Ok(flat.as_chunks::<3>().0.to_vec())
    }

    /// Leapfrog: kick, drift, kick.
    pub(crate) fn step(&mut self, exchange: &mut dyn Exchange, dt: f64) -> Result<()> {
        self.kick(exchange, dt / 2.0)?;
        for (position, velocity) in self.position.iter_mut().zip(&self.velocity) {
            for (x, v) in position.iter_mut().zip(velocity) {
                *x += dt * v;
            }
        }
        self.kick(exchange, dt / 2.0)
    }

    fn kick(&mut self, exchange: &mut dyn Exchange, dt: f64) -> Result<()> {
        let pulls = self.accelerations(exchange)?;
        for (velocity, pull) in self.velocity.iter_mut().zip(pulls) {
            for (v, a) in velocity.iter_mut().zip(pull) {
                *v += dt * a;
            }
        }
        Ok(())
    }

    /// Of each body with those before it, by whose share it is in; at every rank.
    pub(crate) fn potential(&self, exchange: &mut dyn Exchange) -> Result<f64> {
        let with_those_before = |i: usize| -> f64 {
            let with = |j: usize| {
                let d = |k: usize| self.position[i][k] - self.position[j][k];
                let square = d(0).powi(2) + d(1).powi(2) + d(2).powi(2) + self.softening2;
                self.mass[i] * self.mass[j] / square.sqrt()
            };
            (0..i).map(with).sum()
        };
        let n = self.position.len();
        let all = map_all(exchange, n, 1, |on, out| out.push(with_those_before(on)))?;
        Ok(-all.iter().sum::<f64>())
    }

    pub(crate) fn energy(&self, exchange: &mut dyn Exchange) -> Result<f64> {
        let square = |v: &[f64; 3]| v.iter().map(|x| x * x).sum::<f64>();
        let kinetic = self.velocity.iter().zip(&self.mass).map(|(v, m)| 0.5 * m * square(v));
        Ok(kinetic.sum::<f64>() + self.potential(exchange)?)
    }
}
