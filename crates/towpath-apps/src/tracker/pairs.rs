//! Tracks in space: a track of each sensor whose lines of sight meet.
//!
//! What pairs there were is known to every task; each looks for partners of its share of the first
//! sensor's tracks, all exchange what they found, and one assignment, the same at every task, says
//! which pairs are targets. A pair's score is its log-likelihood ratio over the scans, the past
//! fading.

use std::cmp::Ordering;

use super::assignment::{Pair, assign};
use super::plane::Track;
use super::scene::NOISE;
use super::space::{Camera, EARTH, Vector, epipolar, from_site, meeting, norm};
use crate::exchange::{Exchange, Result};

/// Lines of sight that miss each other by more do not meet, km.
const MISS: f64 = 2.0;
/// Heights of targets, km.
const HEIGHT_MAX: f64 = 400.0;
/// Angle about the line between the sensors that lines of sight within [`MISS`] may differ by.
const ANGLE: f64 = 1.2e-4;
/// Standard deviation of a miss by measurements alone, km.
const SPREAD: f64 = 0.26;
/// How far apart two launches may be and still be taken for one, km: what a chance pair's miss is
/// spread over.
const CHANCE: f64 = 20.0;
/// What is left of a score a scan later.
const FADING: f64 = 0.9;
/// A pair that was just seen for the first time is told at once if it may be a launch: so near to a
/// site, degrees, and between these heights, km.
const SITE: f64 = 1.2;
const LAUNCH: [f64; 2] = [5.0, 20.0];
const WORDS: usize = 8;

/// Two tracks that are one target. By (first of sensor 0, first of sensor 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) firsts: [u64; 2],
    pub(crate) at: Vector,
    /// Scans in which both lines of sight met.
    pub(crate) scans: u32,
    pub(crate) score: f64,
    /// Seen by one sensor at least in this scan.
    is_seen: bool,
}

impl Target {
    /// Whether it is told of.
    pub(crate) fn is_sure(&self) -> bool {
        let height = norm(self.at) - EARTH;
        let launch = (LAUNCH[0]..LAUNCH[1]).contains(&height) && from_site(self.at) < SITE;
        self.is_seen && (self.scans >= 3 || launch)
    }

    fn words(&self) -> [f64; WORDS] {
        let [x, y, z] = self.at;
        let [a, b] = self.firsts.map(|first| first as f64);
        let scans = f64::from(self.scans) + if self.is_seen { 0.5 } else { 0.0 };
        [a, b, x, y, z, scans, self.score, 0.0]
    }

    fn from_words(words: &[f64; WORDS]) -> Self {
        let [a, b, x, y, z, scans, score, _] = *words;
        Self {
            firsts: [a as u64, b as u64],
            at: [x, y, z],
            scans: scans as u32,
            score,
            is_seen: scans.fract() > 0.0,
        }
    }
}

/// The targets of this scan, in the order of their names, from those before. `mine` are this task's
/// part of the first sensor's tracks, `second` all of the other's.
pub(crate) fn step(
    exchange: &mut dyn Exchange,
    cameras: &[Camera; 2],
    [mine, second]: [&[Track]; 2],
    before: &[Target],
) -> Result<Vec<Target>> {
    let mut second: Vec<(f64, &Track)> =
        second.iter().map(|t| (epipolar(cameras, 1, position(t)), t)).collect();
    second.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.last.cmp(&b.1.last)));
    let mut found = Vec::new();
    for track in mine {
        let angle = epipolar(cameras, 0, position(track));
        let begin = second.partition_point(|(other, _)| *other < angle - ANGLE);
        let near = second[begin..].iter().take_while(|(other, _)| *other <= angle + ANGLE);
        found.extend(near.filter_map(|(_, other)| met(cameras, [track, other], before)));
    }
    let words: Vec<f64> = found.iter().flat_map(Target::words).collect();
    let mut all = Vec::new();
    for part in exchange.all_gather_parts(&words)? {
        all.extend(part.as_chunks::<WORDS>().0.iter().map(Target::from_words));
    }
    // Whoever found what: the same order for any number of tasks.
    all.sort_by(|a, b| a.firsts.cmp(&b.firsts).then_with(|| total(&a.words(), &b.words())));
    let pair = |t: &Target| Pair { left: t.firsts[0], right: t.firsts[1], gain: t.score };
    let taken = assign(&all.iter().map(pair).collect::<Vec<_>>());
    all.retain(|t| taken.binary_search(&(t.firsts[0], t.firsts[1])).is_ok());
    Ok(all)
}

fn total(a: &[f64; WORDS], b: &[f64; WORDS]) -> Ordering {
    let unequal = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    unequal.fold(Ordering::Equal, Ordering::then)
}

const fn position(track: &Track) -> [f64; 2] {
    [track.state[0][0], track.state[1][0]]
}

/// Two tracks as a target, if they can be one.
fn met(cameras: &[Camera; 2], pair: [&Track; 2], before: &[Target]) -> Option<Target> {
    let (at, miss) = meeting(cameras, pair.map(position));
    let height = norm(at) - EARTH;
    let firsts = pair.map(|track| track.first);
    let known = before.binary_search_by_key(&firsts, |target| target.firsts);
    let known = known.ok().map(|at| before[at]);
    // What coasts is known less well.
    let blur = pair.iter().map(|t| t.spread[0] / (NOISE * NOISE)).sum::<f64>() / 2.0;
    let spread = SPREAD * blur.max(0.3).sqrt();
    if miss > MISS.max(3.0 * spread) || !(0.0..HEIGHT_MAX).contains(&height) {
        return None;
    }
    let chance = (CHANCE / (spread * std::f64::consts::TAU.sqrt())).ln();
    let gain = chance.max(0.1) - 0.5 * (miss / spread).powi(2);
    let score = gain + known.map_or(0.0, |t| FADING * t.score);
    let scans = 1 + known.map_or(0, |t| t.scans);
    let is_seen = pair.iter().any(|track| track.misses == 0);
    Some(Target { firsts, at, scans, score, is_seen })
}
