//! The side that shows: values, followers, and what they are still to be told.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::TaskId;

use super::parameter::{Parameter, ValueError};
use super::series::{Point, Series};
use super::words::{FromPanel, Refusal, ToPanel};
use super::{FOLLOWERS_MAX, KEPT_MAX, PARAMETERS_MAX, ROOM_KEPT, ROOM_MAX, SERIES_MAX};
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
    /// Not sent yet.
    out: VecDeque<Words>,
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
    is_shown: bool,
    counts: Counts,
}

fn words(say: &FromPanel) -> Words {
    encode(say, Vec::new()).into()
}

impl Follower {
    /// Puts a message in line that it must not miss; false: it has taken nothing for too long.
    fn tell(&mut self, say: Words) -> bool {
        if self.is_over {
            return true;
        }
        let bytes = say.len() as u64;
        if self.told + bytes > self.room {
            return false;
        }
        self.told += bytes;
        self.out.push_back(say);
        true
    }

    /// Puts a point in line if there is room; false: it was left out, and counted.
    fn point(&mut self, point: &Point, plain: &mut Option<Words>) -> bool {
        let lost = &mut self.lost[usize::from(point.series)];
        let say = if *lost == 0 {
            let plain = plain.get_or_insert_with(|| words(&FromPanel::Point(point.clone())));
            Arc::clone(plain)
        } else {
            words(&FromPanel::Point(Point { lost: *lost, ..point.clone() }))
        };
        let bytes = say.len() as u64;
        if self.is_over || self.told + bytes > self.room - ROOM_KEPT {
            *lost += 1;
            return false;
        }
        *lost = 0;
        self.told += bytes;
        self.out.push_back(say);
        true
    }

    /// The last thing that it is told.
    fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.out.push_back(words(&FromPanel::Over));
        }
    }

    /// The next thing that it is told is the last.
    fn cut_off(&mut self) {
        if !self.is_over {
            self.out.clear();
            self.end();
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
            is_shown: false,
            counts: Counts { told: 0, lost: 0, set: 0, refused: 0, malformed: 0, cut_off: 0 },
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

    /// From now on nothing is added.
    pub const fn show(&mut self) {
        self.is_shown = true;
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
            let say = words(&FromPanel::Changed { parameter: parameter.0, value, by });
            self.tell_all(&say);
        }
        Ok(())
    }

    fn tell_all(&mut self, say: &Words) {
        for follower in &mut self.followers {
            if !follower.tell(Arc::clone(say)) {
                self.counts.cut_off += 1;
                follower.cut_off();
            }
        }
    }

    fn tell(&mut self, number: usize, say: &FromPanel) {
        let follower = &mut self.followers[number];
        if !follower.tell(words(say)) {
            self.counts.cut_off += 1;
            follower.cut_off();
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
        if self.followers.is_empty() && keep == 0 {
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
            (Ok(ToPanel::Follow { nonce, room }), _) => self.follow(from, nonce, room),
            (Ok(ToPanel::Taken { bytes }), Some(number)) => {
                let follower = &mut self.followers[number];
                follower.told = follower.told.saturating_sub(bytes);
            }
            (Ok(ToPanel::Set { question, parameter, value }), Some(number)) => {
                let outcome = self.set_by(ParameterId(parameter), value, Some(from));
                let is_set = outcome.is_ok();
                *(if is_set { &mut self.counts.set } else { &mut self.counts.refused }) += 1;
                let outcome = outcome.map_err(|why| why.to_string());
                self.tell(number, &FromPanel::Answer { question, outcome });
                return is_set;
            }
            (Ok(ToPanel::Unfollow), Some(number)) => {
                self.followers[number].cut_off();
            }
            (Err(_), _) | (Ok(_), None) => self.counts.malformed += 1,
        }
        false
    }

    fn follow(&mut self, from: TaskId, nonce: u64, room: u64) {
        self.forget(from);
        let refusal = if !(2 * ROOM_KEPT..=ROOM_MAX).contains(&room) {
            Some(Refusal::Room(room))
        } else if self.followers.len() >= FOLLOWERS_MAX {
            Some(Refusal::Full(FOLLOWERS_MAX as u32))
        } else {
            None
        };
        let lost = vec![0; self.series.len()];
        let mut follower =
            Follower { id: from, room, told: 0, lost, out: VecDeque::new(), is_over: false };
        if let Some(why) = refusal {
            // One place beyond is for those that are told so; who comes next takes it.
            self.followers.truncate(FOLLOWERS_MAX);
            follower.is_over = true;
            follower.out.push_back(words(&FromPanel::Refused { nonce, why }));
            self.followers.push(follower);
            return;
        }
        let (parameters, series) = (self.parameters.clone(), self.series.clone());
        let points = self.kept.iter().flatten();
        let kept = points.filter(|point| follower.point(point, &mut None)).count() as u64;
        // What there is counts for nothing: it comes once, and has limits of its own.
        follower.out.push_front(words(&FromPanel::Shown { nonce, kept, parameters, series }));
        self.followers.push(follower);
    }

    /// A task has ended, or does not want to hear more.
    pub fn forget(&mut self, task: TaskId) {
        self.followers.retain(|follower| follower.id != task);
    }

    /// Nothing more comes: all followers are told so.
    pub fn end(&mut self) {
        self.followers.iter_mut().for_each(Follower::end);
    }

    /// The next message for a follower that `may` be told something.
    pub fn next_words(&self, may: impl Fn(TaskId) -> bool) -> Option<(TaskId, Arc<[u8]>)> {
        let ready = |follower: &&Follower| !follower.out.is_empty() && may(follower.id);
        let follower = self.followers.iter().find(ready)?;
        Some((follower.id, Arc::clone(&follower.out[0])))
    }

    /// That message was sent.
    pub fn sent(&mut self, to: TaskId) {
        for follower in &mut self.followers {
            if follower.id == to {
                follower.out.pop_front();
            }
        }
        self.followers.retain(|follower| !(follower.is_over && follower.out.is_empty()));
    }

    /// Bytes of messages that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.followers.iter().flat_map(|follower| &follower.out).map(|words| words.len()).sum()
    }
}
