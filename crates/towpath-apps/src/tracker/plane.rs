//! Tracks in one sensor's focal plane: a constant acceleration filter for each axis, track
//! splitting with a gate, and one scan of it over tasks.
//!
//! Every task holds some tracks, and has the whole report of a scan. Each track splits into a child
//! for each datum in its gate. Children go to the task that their datum's number names (crystal
//! router), where those that end at one datum meet and all but the best are pruned. Which of the
//! rest live is one assignment, the same at every task; data that nobody takes begin tracks where
//! they are.

use super::assignment::{Pair, assign};
use super::scene::{NOISE, SCAN};
use super::space::{Camera, EARTH, along, norm, unit};
use crate::exchange::{Exchange, ExchangeError, Parcel, Result, bytes, route};
use crate::options::splitmix;

/// Variance of a measurement, µrad².
const R: f64 = NOISE * NOISE;
/// White jerk, µrad²/s⁵.
const JERK: f64 = 4e-4;
/// Of d², with two degrees of freedom: 1 of 20 000 is missed.
const GATE: f64 = 20.0;
const DETECTED: f64 = 0.96;
/// False alarms per µrad² of a scan: ten over a field of 60 mrad squared.
const ALARMS: f64 = 10.0 / (60_000.0 * 60_000.0);
/// Children of one datum that are kept for the assignment.
const KEPT: usize = 4;
/// Where a track begins: height and speed of what has just become visible, km and km/s.
const BEGIN_HEIGHT: f64 = 8.0;
const BEGIN_SPEED: f64 = 0.37;
const BEGIN_ACCELERATION: f64 = 0.0105;
/// Standard deviations of a beginning's rate and acceleration.
const BEGIN_RATE: f64 = 4.0;
const BEGIN_CHANGE: f64 = 0.35;
const WORDS: usize = 18;

/// One track. `hits` ≥ 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Track {
    /// Its first datum: names the track.
    pub(crate) first: u64,
    /// Its last datum; no other track of the sensor has the same.
    pub(crate) last: u64,
    /// The last one before this scan.
    before: u64,
    pub(crate) hits: u32,
    /// Scans since the last datum.
    pub(crate) misses: u32,
    /// Position, rate, acceleration of both axes, µrad and s.
    pub(crate) state: [[f64; 3]; 2],
    /// The same for both axes: p00, p01, p02, p11, p12, p22.
    pub(crate) spread: [f64; 6],
    /// Log-likelihood ratio of the last datum.
    gain: f64,
}

/// The number of a datum of a sensor: larger for later ones.
pub(crate) const fn datum(scan: usize, at: usize) -> u64 {
    (scan as u64) << 24 | at as u64
}

impl Track {
    /// From a datum alone: a launch just seen, on its way straight up.
    fn begin(camera: &Camera, seen: [f64; 2], number: u64) -> Self {
        let mut state = [[seen[0], 0.0, 0.0], [seen[1], 0.0, 0.0]];
        if let Some(ground) = camera.meets(seen, BEGIN_HEIGHT) {
            let up = unit(ground);
            let step = 1.0;
            let one = camera.project(along(ground, step, up));
            let here = camera.project(ground);
            for axis in 0..2 {
                let per_km = (one[axis] - here[axis]) / step;
                state[axis][1] = per_km * BEGIN_SPEED;
                state[axis][2] = per_km * BEGIN_ACCELERATION;
            }
            debug_assert!(norm(ground) > EARTH);
        }
        let (rate, change) = (BEGIN_RATE * BEGIN_RATE, BEGIN_CHANGE * BEGIN_CHANGE);
        Self {
            first: number,
            last: number,
            before: number,
            hits: 1,
            misses: 0,
            state,
            spread: [R, 0.0, 0.0, rate, 0.0, change],
            gain: 0.0,
        }
    }

    /// Where it is a scan later; no datum yet.
    fn predicted(&self) -> Self {
        let t = SCAN;
        let h = 0.5 * t * t;
        let [p00, p01, p02, p11, p12, p22] = self.spread;
        let moved = |[x, v, a]: [f64; 3]| [x + t * v + h * a, v + t * a, a];
        // F P Fᵀ, row by row.
        let (a0, a1, a2) =
            (p00 + t * p01 + h * p02, p01 + t * p11 + h * p12, p02 + t * p12 + h * p22);
        let (b1, b2) = (p11 + t * p12, p12 + t * p22);
        let q = JERK;
        let spread = [
            a0 + t * a1 + h * a2 + q * t.powi(5) / 20.0,
            a1 + t * a2 + q * t.powi(4) / 8.0,
            a2 + q * t.powi(3) / 6.0,
            b1 + t * b2 + q * t.powi(3) / 3.0,
            b2 + q * t * t / 2.0,
            p22 + q * t,
        ];
        Self {
            before: self.last,
            misses: self.misses + 1,
            state: self.state.map(moved),
            spread,
            ..*self
        }
    }

    /// A prediction with a datum; none: outside of the gate.
    fn extended(&self, seen: [f64; 2], number: u64) -> Option<Self> {
        let [p00, p01, p02, p11, p12, p22] = self.spread;
        let s = p00 + R;
        let away = [seen[0] - self.state[0][0], seen[1] - self.state[1][0]];
        let square = (away[0] * away[0] + away[1] * away[1]) / s;
        if square > GATE {
            return None;
        }
        let gains = [p00 / s, p01 / s, p02 / s];
        let mut state = self.state;
        for (axis, away) in state.iter_mut().zip(away) {
            for (x, gain) in axis.iter_mut().zip(gains) {
                *x += gain * away;
            }
        }
        let [g0, g1, g2] = gains;
        let spread = [
            p00 - g0 * p00,
            p01 - g0 * p01,
            p02 - g0 * p02,
            p11 - g1 * p01,
            p12 - g1 * p02,
            p22 - g2 * p02,
        ];
        let likely = DETECTED / (1.0 - DETECTED) / (std::f64::consts::TAU * s * ALARMS);
        let gain = likely.ln() - 0.5 * square;
        let hits = self.hits + 1;
        Some(Self { last: number, hits, misses: 0, state, spread, gain, ..*self })
    }

    /// Half the width of the gate.
    fn reach(&self) -> f64 {
        (GATE * (self.spread[0] + R)).sqrt()
    }

    /// Whether a track without a datum goes on.
    const fn lives(&self) -> bool {
        self.misses <= if self.hits >= 4 { 3 } else { 1 }
    }

    fn words(&self) -> [f64; WORDS] {
        let [[x, vx, ax], [y, vy, ay]] = self.state;
        let [p0, p1, p2, p3, p4, p5] = self.spread;
        // Numbers of data are below 2^53.
        let (first, last, before) = (self.first as f64, self.last as f64, self.before as f64);
        let (hits, misses) = (f64::from(self.hits), f64::from(self.misses));
        [first, last, before, hits, misses, x, vx, ax, y, vy, ay, p0, p1, p2, p3, p4, p5, self.gain]
    }

    fn from_words(words: &[f64; WORDS]) -> Self {
        let [first, last, before, hits, misses, motion @ .., gain] = *words;
        let [x, vx, ax, y, vy, ay, p0, p1, p2, p3, p4, p5] = motion;
        Self {
            first: first as u64,
            last: last as u64,
            before: before as u64,
            hits: hits as u32,
            misses: misses as u32,
            state: [[x, vx, ax], [y, vy, ay]],
            spread: [p0, p1, p2, p3, p4, p5],
            gain,
        }
    }
}

/// Tracks as bytes and back.
pub(crate) fn packed(tracks: &[Track]) -> Vec<u8> {
    let words: Vec<f64> = tracks.iter().flat_map(Track::words).collect();
    bytes::of(&words).into_owned()
}

pub(crate) fn unpacked(message: &[u8]) -> Result<Vec<Track>> {
    let words = bytes::to::<f64>(message)?;
    let (tracks, rest) = words.as_chunks::<WORDS>();
    match rest {
        [] => Ok(tracks.iter().map(Track::from_words).collect()),
        _ => Err(ExchangeError::Malformed { len: message.len(), what: "tracks" }),
    }
}

/// The data by u, so that a gate is a range of them.
struct Sorted<'a> {
    seen: &'a [[f64; 2]],
    order: Vec<usize>,
}

impl<'a> Sorted<'a> {
    fn new(seen: &'a [[f64; 2]]) -> Self {
        let mut order: Vec<usize> = (0..seen.len()).collect();
        order.sort_by(|a, b| seen[*a][0].total_cmp(&seen[*b][0]).then(a.cmp(b)));
        Self { seen, order }
    }

    fn within(&self, centre: f64, reach: f64) -> &[usize] {
        let cut = |u: f64| self.order.partition_point(|at| self.seen[*at][0] < u);
        &self.order[cut(centre - reach)..cut(centre + reach)]
    }
}

/// Tracks whose last datum this task's share is.
fn owner(number: u64, size: usize) -> usize {
    (splitmix(number) % size as u64) as usize
}

/// One scan: what this task holds of its sensor's tracks, from what it held before.
pub(crate) fn step(
    exchange: &mut dyn Exchange,
    camera: &Camera,
    scan: usize,
    seen: &[[f64; 2]],
    held: &[Track],
) -> Result<Vec<Track>> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let sorted = Sorted::new(seen);
    let mut coasting = Vec::with_capacity(held.len());
    let mut parcels: Vec<Vec<Track>> = vec![Vec::new(); size];
    for track in held {
        let ahead = track.predicted();
        for at in sorted.within(ahead.state[0][0], ahead.reach()) {
            let number = datum(scan, *at);
            if let Some(child) = ahead.extended(seen[*at], number) {
                parcels[owner(number, size)].push(child);
            }
        }
        coasting.push(ahead);
    }
    let parcel = |(rank, tracks): (usize, Vec<Track>)| Parcel { rank, bytes: packed(&tracks) };
    let parcels = parcels.into_iter().enumerate().filter(|(_, tracks)| !tracks.is_empty());
    let came = route(exchange, parcels.map(parcel).collect())?;
    let mut children = Vec::new();
    for parcel in came {
        children.extend(unpacked(&parcel.bytes)?);
    }
    prune(&mut children);
    let pairs: Vec<f64> = children
        .iter()
        .flat_map(|child| [child.before as f64, child.last as f64, child.gain])
        .collect();
    let mut all = Vec::new();
    for part in exchange.all_gather_parts(&pairs)? {
        for pair in part.as_chunks::<3>().0 {
            all.push(Pair { left: pair[0] as u64, right: pair[1] as u64, gain: pair[2] });
        }
    }
    let taken = assign(&all);
    children.retain(|child| taken.binary_search(&(child.before, child.last)).is_ok());
    let went_on = |key: u64| {
        let at = taken.partition_point(|(left, _)| *left < key);
        taken.get(at).is_some_and(|(left, _)| *left == key)
    };
    coasting.retain(|track| !went_on(track.before) && track.lives());
    children.append(&mut coasting);
    let mut is_taken = vec![false; seen.len()];
    for (_, number) in &taken {
        is_taken[(number & 0xff_ffff) as usize] = true;
    }
    for (at, seen) in seen.iter().enumerate().filter(|(at, _)| !is_taken[*at]) {
        let number = datum(scan, at);
        if owner(number, size) == rank {
            children.push(Track::begin(camera, *seen, number));
        }
    }
    Ok(children)
}

/// Of tracks that end at one datum the best stay: by gain, then by name.
fn prune(children: &mut Vec<Track>) {
    children.sort_by(|a, b| {
        a.last.cmp(&b.last).then(b.gain.total_cmp(&a.gain)).then(a.before.cmp(&b.before))
    });
    let (mut last, mut count) = (None, 0);
    children.retain(|child| {
        count = if last == Some(child.last) { count + 1 } else { 0 };
        last = Some(child.last);
        count < KEPT
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_follows_what_accelerates_and_knows_how_well() {
        let camera = Camera::of(0);
        let mut track = Track::begin(&camera, [0.0, 100_000.0], 0);
        let truth = |scan: usize| {
            let t = scan as f64 * SCAN;
            [3.0 * t + 0.2 * t * t, 100_000.0 + 9.0 * t + 0.1 * t * t]
        };
        for scan in 1..30 {
            track = track.predicted().extended(truth(scan), datum(scan, 0)).expect("in the gate");
        }
        assert_eq!((track.hits, track.misses, track.first), (30, 0, 0));
        let right = truth(29);
        for axis in 0..2 {
            assert!((track.state[axis][0] - right[axis]).abs() < 1.0);
        }
        assert!(track.spread[0] > 0.0 && track.spread[0] < R);
        assert!(track.predicted().extended([0.0, 0.0], 1).is_none());
        assert_eq!(unpacked(&packed(&[track])).unwrap(), [track]);
        assert!(unpacked(&[0; 16]).is_err());
    }
}
