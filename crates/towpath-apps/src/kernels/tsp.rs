//! The travelling salesman by branch and bound. Beginnings of tours are handed out one at a time,
//! each with the best length that is known; who is done gets another.

use anyhow::ensure;

use crate::exchange::{Exchange, bytes};

const WORK: i32 = 1;
const RESULT: i32 = 2;
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

    fn between(&self, a: u64, b: u64) -> u64 {
        self.distance[a as usize * self.n + b as usize]
    }

    /// Always to the nearest: a bound to begin with.
    fn nearest(&self) -> Tour {
        let mut cities = vec![0_u64];
        while cities.len() < self.n {
            let last = *cities.last().expect("the first");
            let open = (1..self.n as u64).filter(|c| !cities.contains(c));
            cities.push(open.min_by_key(|c| self.between(last, *c)).expect("one is open"));
        }
        self.tour(cities)
    }

    fn tour(&self, cities: Vec<u64>) -> Tour {
        let next = |at: usize| cities[(at + 1) % cities.len()];
        let length = (0..cities.len()).map(|at| self.between(cities[at], next(at))).sum();
        Tour { length, cities }
    }

    /// The number of beginnings: the first two cities after city 0.
    fn beginnings(&self) -> usize {
        (self.n - 1) * (self.n - 2)
    }

    fn beginning(&self, at: usize) -> Vec<u64> {
        let first = 1 + (at / (self.n - 2)) as u64;
        let second = 1 + (at % (self.n - 2)) as u64;
        vec![0, first, if second < first { second } else { second + 1 }]
    }

    /// Improves on `best` with tours that begin so.
    fn search(&self, path: &mut Vec<u64>, visited: u32, length: u64, best: &mut Tour) {
        let last = *path.last().expect("a beginning");
        if path.len() == self.n {
            let tour = Tour { length: length + self.between(last, 0), cities: path.clone() };
            if tour < *best {
                *best = tour;
            }
            return;
        }
        // What is left takes at least the shortest way from each city that must still be left.
        let open = |c: &u64| visited & 1 << *c == 0;
        let cheapest = |from: u64| {
            let to = (0..self.n as u64).filter(|c| (open(c) || *c == 0) && *c != from);
            to.map(|c| self.between(from, c)).min().unwrap_or(0)
        };
        let rest: u64 = (0..self.n as u64).filter(open).map(cheapest).sum();
        let onwards = (0..self.n as u64).filter(open).map(|c| self.between(last, c)).min();
        if length + rest + onwards.unwrap_or(0) > best.length {
            return;
        }
        for city in (0..self.n as u64).filter(open) {
            path.push(city);
            let length = length + self.between(last, city);
            self.search(path, visited | 1 << city, length, best);
            path.pop();
        }
    }

    fn from(&self, beginning: usize, best: &mut Tour) {
        let mut path = self.beginning(beginning);
        let length = self.between(path[0], path[1]) + self.between(path[1], path[2]);
        let visited = path.iter().fold(0, |set, city| set | 1 << city);
        self.search(&mut path, visited, length, best);
    }

    /// The shortest tour, at the root: the same one for any number of ranks.
    pub(crate) fn shortest(&self, exchange: &mut dyn Exchange) -> anyhow::Result<Option<Tour>> {
        let mut best = self.nearest();
        if exchange.size() == 1 {
            (0..self.beginnings()).for_each(|at| self.from(at, &mut best));
            return Ok(Some(best));
        }
        if exchange.rank() != 0 {
            loop {
                let words = bytes::to_u64(&exchange.recv(Some(0), WORK)?.1)?;
                let [beginning, cities @ ..] = &words[..] else { return Ok(None) };
                ensure!(cities.len() == self.n, "a tour of {} cities", cities.len());
                best = best.min(self.tour(cities.to_vec()));
                self.from(*beginning as usize, &mut best);
                exchange.send(0, RESULT, &bytes::of_u64(&best.cities))?;
            }
        }
        let (mut next, mut under_way) = (0, 0);
        for to in 1..exchange.size() {
            under_way += usize::from(self.hand_out(exchange, to, &mut next, &best)?);
        }
        while under_way > 0 {
            let (from, message) = exchange.recv(None, RESULT)?;
            let cities = bytes::to_u64(&message)?;
            ensure!(cities.len() == self.n, "a tour of {} cities", cities.len());
            best = best.min(self.tour(cities));
            under_way -= usize::from(!self.hand_out(exchange, from, &mut next, &best)?);
        }
        Ok(Some(best))
    }

    /// The next beginning to a rank; false: there is none, and it ends.
    fn hand_out(
        &self,
        exchange: &mut dyn Exchange,
        to: usize,
        next: &mut usize,
        best: &Tour,
    ) -> anyhow::Result<bool> {
        if *next == self.beginnings() {
            exchange.send(to, WORK, &[])?;
            return Ok(false);
        }
        let mut words = vec![*next as u64];
        words.extend(&best.cities);
        *next += 1;
        exchange.send(to, WORK, &bytes::of_u64(&words))?;
        Ok(true)
    }
}
