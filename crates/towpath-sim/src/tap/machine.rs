//! Both directions, and the script that changes them.

use std::collections::VecDeque;

use serde::Serialize;
use towpath_wire::Instant;

use super::script::{Change, Script};
use super::way::{Way, WayState, WayStats, Why};

/// From the first end to the second, or from the second to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the first end.
    There,
    /// From the second.
    Back,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::There, Self::Back];

    /// What scripts and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::Back => "back",
        }
    }
}

/// Which directions something is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ways {
    /// One.
    One(Direction),
    /// Both.
    #[default]
    Both,
}

impl Ways {
    /// Whether this one is meant.
    pub fn has(self, direction: Direction) -> bool {
        self == Self::Both || self == Self::One(direction)
    }
}

/// A frame that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which way it goes.
    pub direction: Direction,
    /// When it is due; not after the time that was asked for.
    pub due: Instant,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// A frame that does not get through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Which way it went.
    pub direction: Direction,
    /// Why not.
    pub why: Why,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The tap. Calls may come late and early; each brings the script up to its time first.
///
/// Invariants: `changes` are in order of time, and none of them is due before the last call; what
/// was dropped is kept until it is asked for.
pub struct Tap {
    ways: [Way; 2],
    changes: VecDeque<Change>,
    began: Instant,
    dropped: VecDeque<Dropped>,
}

impl Tap {
    /// A tap whose script begins now.
    pub fn new(script: &Script, now: Instant) -> Self {
        // A seed of its own for each direction: a pair of numbers of one seed could meet again.
        let seed = |of: u64| towpath_proto::Rng::new(script.seed, of).u64();
        let [there, back] = script.begin;
        Self {
            ways: [Way::new(there, seed(1)), Way::new(back, seed(2))],
            changes: script.changes.iter().cloned().collect(),
            began: now,
            dropped: VecDeque::new(),
        }
    }

    /// A frame came in.
    pub fn handle_frame(&mut self, now: Instant, direction: Direction, frame: Vec<u8>) {
        self.handle_timeout(now);
        if let Err((why, frame)) = self.ways[direction as usize].offer(now, frame) {
            self.dropped.push_back(Dropped { direction, why, frame });
        }
    }

    /// Does what the script says up to now, each change at its own instant.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.next_change().filter(|at| *at <= now) {
            let Some(change) = self.changes.pop_front() else { return };
            self.change(at, change.ways, |state| change.apply(state));
        }
    }

    /// The next frame that is due. Which of two that are due goes first, where they go different
    /// ways, is the earlier one.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Delivery> {
        self.handle_timeout(now);
        let direction = *Direction::BOTH.iter().min_by_key(|direction| {
            self.ways[**direction as usize].next().unwrap_or(Instant::NEVER)
        })?;
        let (due, frame) = self.ways[direction as usize].due(now)?;
        Some(Delivery { direction, due, frame })
    }

    /// The next frame that was dropped, in order.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop_front()
    }

    /// When something happens next, if no frame comes.
    pub fn next_timeout(&self) -> Option<Instant> {
        let frames = self.ways.iter().filter_map(Way::next);
        frames.chain(self.next_change()).min()
    }

    fn next_change(&self) -> Option<Instant> {
        self.changes.front().map(|change| self.began + change.at)
    }

    /// Changes directions now, whatever the script says; the script goes on.
    pub fn change(&mut self, now: Instant, ways: Ways, how: impl Fn(&mut WayState)) {
        for direction in Direction::BOTH.into_iter().filter(|direction| ways.has(*direction)) {
            let way = &mut self.ways[direction as usize];
            let mut state = way.state();
            how(&mut state);
            let cut = way.change(now, state).into_iter();
            self.dropped.extend(cut.map(|frame| Dropped { direction, why: Why::Cut, frame }));
        }
    }

    /// What a direction is like now.
    pub fn state(&self, direction: Direction) -> WayState {
        self.ways[direction as usize].state()
    }

    /// Counters of a direction.
    pub fn stats(&self, direction: Direction) -> WayStats {
        self.ways[direction as usize].stats
    }

    /// Frames under way in a direction, doubles included.
    pub fn held(&self, direction: Direction) -> usize {
        self.ways[direction as usize].held()
    }

    /// Changes that the script has yet to make.
    pub fn changes_left(&self) -> usize {
        self.changes.len()
    }
}
