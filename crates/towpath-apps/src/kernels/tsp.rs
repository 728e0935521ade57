//! The travelling salesman by branch and bound: beginnings of tours are shared and stolen.

use anyhow::ensure;

use super::branch::{Problem, explore};
use crate::exchange::Exchange;

pub(crate) const CITIES_MAX: usize = 20;

/// Distances rounded to integers, as TSPLIB's EUC_2D.
pub(crate) struct Cities {
    n: usize,
    distance: Vec<u64>,
}

/// The best so far: shorter first, then the tour that comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tour {
    pub(crate) length: u64,
    pub(crate) cities: Vec<u64>,
}

/// A way from city 0.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    visited: u32,
    last: u8,
    length: u64,
}

impl Cities {
    pub(crate) fn new(places: &[[f64; 2]]) -> anyhow::Result<Self> {
        let n = places.len();
        ensure!((4..=CITIES_MAX).contains(&n), "{n} cities: from 4 to {CITIES_MAX}");
        let distance = |at: usize| {
            let ([ax, ay], [bx, by]) = (places[at / n], places[at % n]);
            ((ax - bx).hypot(ay - by) + 0.5).floor() as u64
        };
        Ok(Self { n, distance: (0..n * n).map(distance).collect() })
    }

    fn between(&self, a: u8, b: u8) -> u64 {
        self.distance[usize::from(a) * self.n + usize::from(b)]
    }

    fn open(&self, way: &Way) -> impl Iterator<Item = u8> + Clone {
        let visited = way.visited;
        (0..self.n as u8).filter(move |city| visited & 1 << city == 0)
    }

    /// The shortest tour, at the root: the same one for any number of ranks.
    pub(crate) fn shortest(&self, exchange: &mut dyn Exchange) -> anyhow::Result<Option<Tour>> {
        let best = explore(exchange, self)?.best.expect("any order of cities is a tour");
        let cities = std::iter::once(0).chain(best.choices.into_iter().map(u64::from)).collect();
        Ok((exchange.rank() == 0).then_some(Tour { length: best.cost, cities }))
    }
}

/// Choices are the cities after city 0.
impl Problem for Cities {
    type State = Way;

    fn width(&self) -> u8 {
        self.n as u8
    }

    fn depth(&self) -> usize {
        self.n - 1
    }

    fn start(&self) -> Way {
        Way { visited: 1, last: 0, length: 0 }
    }

    fn choose(&self, way: &Way, city: u8) -> Option<Way> {
        (way.visited & 1 << city == 0).then(|| Way {
            visited: way.visited | 1 << city,
            last: city,
            length: way.length + self.between(way.last, city),
        })
    }

    /// What is left takes at least the shortest way from each city that must still be left.
    fn bound(&self, way: &Way) -> Option<u64> {
        let cheapest = |from: u8| {
            let to = self.open(way).chain([0]).filter(|city| *city != from);
            to.map(|city| self.between(from, city)).min().unwrap_or(0)
        };
        let rest: u64 = self.open(way).map(cheapest).sum();
        let onwards = self.open(way).map(|city| self.between(way.last, city)).min();
        Some(way.length + rest + onwards.unwrap_or(0))
    }

    fn cost(&self, way: &Way) -> u64 {
        way.length + self.between(way.last, 0)
    }

    /// Always to the nearest.
    fn guess(&self) -> Option<Vec<u8>> {
        let (mut way, mut cities) = (self.start(), Vec::new());
        while cities.len() < self.depth() {
            let nearest = self.open(&way).min_by_key(|city| self.between(way.last, *city))?;
            cities.push(nearest);
            way = self.choose(&way, nearest)?;
        }
        Some(cities)
    }
}
