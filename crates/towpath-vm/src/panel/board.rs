//! The side that shows: values, followers, and what they are still to be told.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use towpath_wire::TaskId;

use super::parameter::{Parameter, ValueError};
use super::series::{POINT_SPREAD, Point, Series, point_least};
use super::words::{FromPanel, OverWhy, Refusal, ToPanel};
use super::{
    ASKING_MAX, FOLLOWERS_MAX, KEPT_MAX, LET_IN, PARAMETERS_MAX, ROOM_KEPT, ROOM_MAX, SERIES_MAX,
};
use crate::talk::{decode, encode};

/// A parameter of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterId(pub u16);

/// A series of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u16);

/// Why a board does not do as it is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// Something is larger than it may be.
    #[error("{what}: {size}, limit {limit}")]
    Limit {
        /// What.
        what: String,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// There is one by this name.
    #[error("there are two things called `{0}`")]
    Twice(String),
    /// A name is empty.
    #[error("a parameter or series without a name")]
    Nameless,
    /// A series whose points have no values.
    #[error("series `{0}` has points without values")]
    Empty(String),
    /// A value that a parameter cannot have.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Others have been told what there is: nothing is added any more.
    #[error("`{0}` is added after the others were shown")]
    Late(String),
    /// There is none of this number.
    #[error("{what} {number}: there are {there}")]
    None {
        /// `parameter` or `series`.
        what: &'static str,
        /// The number.
        number: u16,
        /// How many there are.
        there: usize,
    },
    /// A point of another size than its series says.
    #[error("a point of {got} values in series `{series}`, which has {expected}")]
    Values {
        /// The series' name.
        series: String,
        /// Values given.
        got: usize,
        /// Values of its points.
        expected: usize,
    },
}

/// What a board counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Points told, once for each follower.
    pub told: u64,
    /// Points left out for want of room, once for each follower.
    pub lost: u64,
    /// Changes that followers asked for and got.
    pub set: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// Tasks that were not even asked whether they may follow: too many did at once.
    pub turned_away: u64,
    /// Messages that make no sense, or are of a task that does not follow.
    pub malformed: u64,
    /// Followers that took nothing any more, and are told nothing any more.
    pub cut_off: u64,
}

/// A message to followers; the same one to several of them stands in memory once.
type Words = Arc<[u8]>;

#[derive(Debug)]
struct Follower {
    id: TaskId,
    room: u64,
    /// Bytes that it was told, or will be, and has not taken.
    told: u64,
    /// Points left out since the last, by series.
    lost: Vec<u64>,
    /// Not sent yet, and its bytes.
    out: VecDeque<Words>,
    out_bytes: u64,
    /// It gets what is in `out`, and then no more.
    is_over: bool,
}

/// The side that shows.
#[derive(Debug)]
pub struct Board {
    parameters: Vec<Parameter>,
    series: Vec<Series>,
    /// The last points of each series, as many as it keeps.
    kept: Vec<VecDeque<Point>>,
    followers: Vec<Follower>,
    /// Who wants to follow and was not answered, with nonce and room.
    asking: VecDeque<(TaskId, u64, u64)>,
    /// Who may not, and what they are told.
    refused: VecDeque<(TaskId, Words)>,
    is_shown: bool,
    is_over: bool,
    counts: Counts,
}

fn words(say: &FromPanel) -> Words {
    encode(say, Vec::new()).into()
}

impl Follower {
    fn put(&mut self, say: Words) {
        let bytes = say.len() as u64;
        self.told += bytes;
        self.out_bytes += bytes;
        self.out.push_back(say);
    }

    /// Puts a message in line that it must not miss; false: it has taken nothing for too long.
    fn tell(&mut self, say: Words) -> bool {
        if self.is_over {
            return true;
        }
        if self.told + say.len() as u64 > self.room {
            return false;
        }
        self.put(say);
        true
    }

    /// Whether there may be room for a point that is at least so long.
    const fn has_room(&self, least: u64) -> bool {
        !self.is_over && self.told + least <= self.room - ROOM_KEPT
    }

    /// Puts a point in line if there is room; false: it was left out, and counted.
    fn point(&mut self, point: &Point, plain: &mut Option<Words>) -> bool {
        let number = usize::from(point.series);
        if !self.has_room(point_least(point.values.len()) + POINT_SPREAD) {
            self.lost[number] += 1;
            return false;
        }
        let lost = core::mem::take(&mut self.lost[number]);
        let say = if lost == 0 {
            let plain = plain.get_or_insert_with(|| words(&FromPanel::Point(point.clone())));
            Arc::clone(plain)
        } else {
            words(&FromPanel::Point(Point { lost, ..point.clone() }))
        };
        self.put(say);
        true
    }

    /// It says that it has taken so much: never what was not sent yet.
    fn took(&mut self, bytes: u64) {
        self.told = self.told.saturating_sub(bytes).max(self.out_bytes);
    }

    /// The next message was sent.
    fn sent(&mut self) {
        if let Some(words) = self.out.pop_front() {
            self.out_bytes = self.out_bytes.saturating_sub(words.len() as u64);
        }
    }

    /// The last thing that it is told.
    fn end(&mut self, why: OverWhy) {
        if !self.is_over {
            self.is_over = true;
            self.out.push_back(words(&FromPanel::Over(why)));
        }
    }

    /// The next thing that it is told is the last.
    fn cut_off(&mut self, why: OverWhy) {
        if !self.is_over {
            self.out.clear();
            self.out_bytes = 0;
            self.end(why);
        }
    }
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// A board with nothing on it.
    pub const fn new() -> Self {
        Self {
            parameters: Vec::new(),
            series: Vec::new(),
            kept: Vec::new(),
            followers: Vec::new(),
            asking: VecDeque::new(),
            refused: VecDeque::new(),
            is_shown: false,
            is_over: false,
            counts: Counts {
                told: 0,
                lost: 0,
                set: 0,
                refused: 0,
                turned_away: 0,
                malformed: 0,
                cut_off: 0,
            },
        }
    }

    fn may_add(&self, name: &str, there: usize, limit: usize) -> Result<(), BoardError> {
        let mut names =
            self.parameters.iter().map(Parameter::name).chain(self.series.iter().map(Series::name));
        if name.is_empty() {
            return Err(BoardError::Nameless);
        }
        if names.any(|other| other == name) {
            return Err(BoardError::Twice(name.to_owned()));
        }
        if self.is_shown {
            return Err(BoardError::Late(name.to_owned()));
        }
        if there >= limit {
            let what = if limit == PARAMETERS_MAX { "parameters" } else { "series" }.to_owned();
            return Err(BoardError::Limit { what, size: there + 1, limit });
        }
        Ok(())
    }

    /// Adds a parameter.
    pub fn parameter(&mut self, parameter: Parameter) -> Result<ParameterId, BoardError> {
        let limit = |(what, size, limit)| BoardError::Limit { what, size, limit };
        parameter.is_within().map_err(limit)?;
        self.may_add(parameter.name(), self.parameters.len(), PARAMETERS_MAX)?;
        parameter.check(parameter.value)?;
        self.parameters.push(parameter);
        Ok(ParameterId(self.parameters.len() as u16 - 1))
    }

    /// Adds a series.
    pub fn series(&mut self, series: Series) -> Result<SeriesId, BoardError> {
        let limit = |(what, size, limit)| BoardError::Limit { what, size, limit };
        series.is_within().map_err(limit)?;
        self.may_add(series.name(), self.series.len(), SERIES_MAX)?;
        if series.values() == 0 {
            return Err(BoardError::Empty(series.name().to_owned()));
        }
        let bytes: usize = self.series.iter().map(Series::kept_bytes).sum();
        let size = bytes.saturating_add(series.kept_bytes());
        if size > KEPT_MAX {
            let what = "bytes of points that are kept".to_owned();
            return Err(BoardError::Limit { what, size, limit: KEPT_MAX });
        }
        self.series.push(series);
        self.kept.push(VecDeque::new());
        Ok(SeriesId(self.series.len() as u16 - 1))
    }

    /// From now on nothing is added, and others may follow; also after an end.
    pub const fn show(&mut self) {
        (self.is_shown, self.is_over) = (true, false);
    }

    /// All parameters, by number, as they are now.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All series, by number.
    pub fn all_series(&self) -> &[Series] {
        &self.series
    }

    /// The number of the parameter of this name.
    pub fn parameter_named(&self, name: &str) -> Option<ParameterId> {
        let number = self.parameters.iter().position(|parameter| parameter.name() == name)?;
        Some(ParameterId(number as u16))
    }

    /// What it has counted.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Tasks that follow.
    pub fn followers(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.followers.iter().map(|follower| follower.id)
    }

    /// A parameter's value.
    pub fn value(&self, parameter: ParameterId) -> Result<f64, BoardError> {
        Ok(self.at(parameter)?.value)
    }

    fn at(&self, ParameterId(number): ParameterId) -> Result<&Parameter, BoardError> {
        let there = self.parameters.len();
        let none = BoardError::None { what: "parameter", number, there };
        self.parameters.get(usize::from(number)).ok_or(none)
    }

    /// Gives a parameter a value; followers are told.
    pub fn set(&mut self, parameter: ParameterId, value: f64) -> Result<(), BoardError> {
        self.set_by(parameter, value, None)
    }

    fn set_by(
        &mut self,
        parameter: ParameterId,
        value: f64,
        by: Option<TaskId>,
    ) -> Result<(), BoardError> {
        self.at(parameter)?.check(value)?;
        let old = core::mem::replace(&mut self.parameters[usize::from(parameter.0)].value, value);
        if old.to_bits() != value.to_bits() || by.is_some() {
            let say = FromPanel::Changed { parameter: parameter.0, value, by };
            self.tell(0..self.followers.len(), &say);
        }
        Ok(())
    }

    /// Tells some of the followers what they must not miss.
    fn tell(&mut self, which: Range<usize>, say: &FromPanel) {
        let say = words(say);
        for follower in &mut self.followers[which] {
            if !follower.tell(Arc::clone(&say)) {
                self.counts.cut_off += 1;
                follower.cut_off(OverWhy::CutOff);
            }
        }
    }

    /// Adds a point to a series: where it is on the axis, and its values. Nothing is copied where
    /// nobody follows and nothing is kept.
    pub fn push(&mut self, series: SeriesId, at: f64, values: &[f64]) -> Result<(), BoardError> {
        let number = usize::from(series.0);
        let there = self.series.len();
        let about = self.series.get(number).ok_or(BoardError::None {
            what: "series",
            number: series.0,
            there,
        })?;
        let (got, expected) = (values.len(), about.values());
        if got != expected {
            let series = about.name().to_owned();
            return Err(BoardError::Values { series, got, expected });
        }
        let keep = about.keep as usize;
        let least = point_least(values.len()) + POINT_SPREAD;
        if keep == 0 && !self.followers.iter().any(|follower| follower.has_room(least)) {
            for follower in &mut self.followers {
                follower.lost[number] += 1;
                self.counts.lost += 1;
            }
            return Ok(());
        }
        let point = Point { series: series.0, at, lost: 0, values: values.to_vec() };
        let mut plain = None;
        for follower in &mut self.followers {
            let told = follower.point(&point, &mut plain);
            *(if told { &mut self.counts.told } else { &mut self.counts.lost }) += 1;
        }
        if keep > 0 {
            let kept = &mut self.kept[number];
            if kept.len() == keep {
                kept.pop_front();
            }
            kept.push_back(point);
        }
        Ok(())
    }

    /// Takes a message of a task; true: a parameter has another value.
    pub fn handle(&mut self, from: TaskId, bytes: &[u8]) -> bool {
        let number = self.followers.iter().position(|follower| follower.id == from);
        match (decode::<ToPanel>(bytes), number) {
            (Ok(ToPanel::Follow { nonce, room }), _) => {
                // Of one task the last counts.
                self.forget(from);
                if self.asking.len() < ASKING_MAX {
                    self.asking.push_back((from, nonce, room));
                } else {
                    self.counts.turned_away += 1;
                }
            }
            (Ok(ToPanel::Taken { bytes }), Some(number)) => self.followers[number].took(bytes),
            (Ok(ToPanel::Set { question, parameter, value }), Some(number)) => {
                let outcome = self.set_by(ParameterId(parameter), value, Some(from));
                let is_set = outcome.is_ok();
                *(if is_set { &mut self.counts.set } else { &mut self.counts.refused }) += 1;
                let outcome = outcome.map_err(|why| why.to_string());
                self.tell(number..number + 1, &FromPanel::Answer { question, outcome });
                return is_set;
            }
            (Ok(ToPanel::Unfollow), Some(number)) => {
                self.followers[number].cut_off(OverWhy::Asked);
            }
            // It did not wait until it was let in.
            (Ok(ToPanel::Unfollow), None) => self.forget(from),
            (Err(_), _) | (Ok(_), None) => self.counts.malformed += 1,
        }
        false
    }

    /// Answers those that want to follow, a few at a time; all, where nobody may any more.
    pub fn let_in(&mut self) {
        for _ in 0..if self.is_over { ASKING_MAX } else { LET_IN } {
            let Some((from, nonce, room)) = self.asking.pop_front() else { return };
            self.follow(from, nonce, room);
        }
    }

    fn follow(&mut self, from: TaskId, nonce: u64, room: u64) {
        let refusal = if self.is_over {
            Some(Refusal::Ended)
        } else if !(2 * ROOM_KEPT..=ROOM_MAX).contains(&room) {
            Some(Refusal::Room(room))
        } else if self.followers.len() >= FOLLOWERS_MAX {
            Some(Refusal::Full(FOLLOWERS_MAX as u32))
        } else {
            None
        };
        if let Some(why) = refusal {
            if self.refused.len() < ASKING_MAX {
                self.refused.push_back((from, words(&FromPanel::Refused { nonce, why })));
            }
            return;
        }
        let mut follower = Follower {
            id: from,
            room,
            told: 0,
            lost: vec![0; self.series.len()],
            out: VecDeque::new(),
            out_bytes: 0,
            is_over: false,
        };
        let points = self.newest(room - ROOM_KEPT);
        let (parameters, series) = (self.parameters.clone(), self.series.clone());
        let kept = points.len() as u64;
        // What there is counts for nothing: it comes once, and has limits of its own.
        let shown = words(&FromPanel::Shown { nonce, kept, parameters, series });
        follower.out.push_back(shown);
        for point in points {
            follower.point(point, &mut None);
        }
        self.followers.push(follower);
    }

    /// What is kept, in the order of series and points: of each the newest, in turns, as much as
    /// goes into `room`.
    fn newest(&self, room: u64) -> Vec<&Point> {
        let mut counts = vec![0; self.kept.len()];
        let mut left = room;
        loop {
            let mut any = false;
            for (kept, count) in self.kept.iter().zip(&mut counts) {
                let Some(point) = kept.iter().rev().nth(*count) else { continue };
                let most = point_least(point.values.len()) + POINT_SPREAD;
                if most <= left {
                    (left, *count, any) = (left - most, *count + 1, true);
                }
            }
            if !any {
                break;
            }
        }
        let newest = |(kept, count): (_, &usize)| {
            let kept: &VecDeque<Point> = kept;
            kept.range(kept.len() - count..)
        };
        self.kept.iter().zip(&counts).flat_map(newest).collect()
    }

    /// A task has ended, or does not want to hear more.
    pub fn forget(&mut self, task: TaskId) {
        self.followers.retain(|follower| follower.id != task);
        self.asking.retain(|(asking, ..)| *asking != task);
        self.refused.retain(|(refused, _)| *refused != task);
    }

    /// Nothing more comes: all followers are told so, and nobody follows any more.
    pub fn end(&mut self) {
        self.is_over = true;
        for follower in &mut self.followers {
            follower.end(OverWhy::Ended);
        }
    }

    /// The next thing that followers are told is the last: for those that take nothing.
    pub fn end_now(&mut self) {
        self.is_over = true;
        for follower in &mut self.followers {
            follower.is_over = false;
            follower.cut_off(OverWhy::Ended);
        }
    }

    /// The next message for a task that `may` be told something.
    pub fn next_words(&self, may: impl Fn(TaskId) -> bool) -> Option<(TaskId, Arc<[u8]>)> {
        if let Some((to, words)) = self.refused.iter().find(|(to, _)| may(*to)) {
            return Some((*to, Arc::clone(words)));
        }
        let ready = |follower: &&Follower| !follower.out.is_empty() && may(follower.id);
        let follower = self.followers.iter().find(ready)?;
        Some((follower.id, Arc::clone(&follower.out[0])))
    }

    /// That message was sent.
    pub fn sent(&mut self, to: TaskId) {
        if let Some(at) = self.refused.iter().position(|(refused, _)| *refused == to) {
            self.refused.remove(at);
            return;
        }
        self.followers.iter_mut().filter(|follower| follower.id == to).for_each(Follower::sent);
        self.followers.retain(|follower| !(follower.is_over && follower.out.is_empty()));
    }

    /// Bytes of messages that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.followers.iter().flat_map(|follower| &follower.out).map(|words| words.len()).sum()
    }
}
