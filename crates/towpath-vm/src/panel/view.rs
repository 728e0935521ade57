//! The side that follows: what there is, as far as it was told.

use alloc::string::String;
use alloc::vec::Vec;

use towpath_wire::TaskId;

use super::parameter::Parameter;
use super::series::{Point, Series};
use super::words::{FromPanel, OverWhy, Refusal, ToPanel};
use super::{PARAMETERS_MAX, SERIES_MAX};
use crate::talk::{decode, encode};

/// What a follower is told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Told {
    /// A parameter has another value, which [`Viewed::parameters`] has, too.
    Changed {
        /// By number.
        parameter: u16,
        /// From now on.
        value: f64,
        /// Who wanted it; none: the program itself.
        by: Option<TaskId>,
    },
    /// A result.
    Point(Point),
    /// What came of a change that this follower asked for.
    Answer {
        /// From [`Viewed::set`].
        question: u64,
        /// Why not.
        outcome: Result<(), String>,
    },
    /// Nothing more comes.
    Over(OverWhy),
}

/// Why a message of a board is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// It does not decode, or is of something that was not shown.
    #[error("a message of {0} bytes makes no sense")]
    Malformed(usize),
    /// This task may not follow.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The side that follows.
#[derive(Clone, Debug)]
pub struct Viewed {
    nonce: u64,
    parameters: Vec<Parameter>,
    series: Vec<Series>,
    is_shown: bool,
    /// Points still to come that the series had kept.
    kept: u64,
    /// Bytes taken that the board was not told of.
    taken: u64,
    room: u64,
    questions: u64,
}

impl Viewed {
    /// Begins to follow: the first message to the board. `nonce`: of no other view of this task.
    pub fn begin(nonce: u64, room: u64) -> (Self, Vec<u8>) {
        let (parameters, series) = (Vec::new(), Vec::new());
        let this = Self {
            nonce,
            parameters,
            series,
            is_shown: false,
            kept: 0,
            taken: 0,
            room,
            questions: 0,
        };
        (this, encode(&ToPanel::Follow { nonce, room }, Vec::new()))
    }

    /// Whether it was told what there is.
    pub const fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Whether it was told all that the series had kept when it began.
    pub const fn has_kept(&self) -> bool {
        self.is_shown && self.kept == 0
    }

    /// All parameters, by number, as they were last told.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All series, by number.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The number of the parameter of this name.
    pub fn parameter_named(&self, name: &str) -> Option<u16> {
        let number = self.parameters.iter().position(|parameter| parameter.name() == name)?;
        Some(number as u16)
    }

    /// Asks that a parameter have another value: the question's number, and the message.
    pub fn set(&mut self, parameter: u16, value: f64) -> (u64, Vec<u8>) {
        self.questions += 1;
        let question = self.questions;
        (question, encode(&ToPanel::Set { question, parameter, value }, Vec::new()))
    }

    /// Wants to be told no more: the message.
    pub fn close(&self) -> Vec<u8> {
        encode(&ToPanel::Unfollow, Vec::new())
    }

    /// Takes a message of the board. None: there is nothing in it to tell.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<Option<Told>, Misfit> {
        let say: FromPanel = decode(bytes).map_err(|_| Misfit::Malformed(bytes.len()))?;
        if !self.is_shown {
            match say {
                FromPanel::Shown { nonce, kept, parameters, series } if nonce == self.nonce => {
                    let are_within = parameters.len() <= PARAMETERS_MAX
                        && series.len() <= SERIES_MAX
                        && parameters.iter().all(|p| p.is_within().is_ok())
                        && parameters.iter().all(|p| p.check(p.value).is_ok())
                        && series.iter().all(|s| s.is_within().is_ok() && s.values() > 0);
                    if !are_within {
                        return Err(Misfit::Malformed(bytes.len()));
                    }
                    (self.kept, self.parameters, self.series) = (kept, parameters, series);
                    self.is_shown = true;
                }
                FromPanel::Refused { nonce, why } if nonce == self.nonce => return Err(why.into()),
                // Of another view of this task, before this one.
                _ => {}
            }
            return Ok(None);
        }
        let malformed = Misfit::Malformed(bytes.len());
        match say {
            FromPanel::Shown { .. } | FromPanel::Refused { .. } => Err(malformed),
            FromPanel::Changed { parameter, value, by } => {
                self.taken += bytes.len() as u64;
                let Some(at) = self.parameters.get_mut(usize::from(parameter)) else {
                    return Err(malformed);
                };
                if at.check(value).is_err() {
                    return Err(malformed);
                }
                at.value = value;
                Ok(Some(Told::Changed { parameter, value, by }))
            }
            FromPanel::Answer { question, outcome } => {
                self.taken += bytes.len() as u64;
                Ok(Some(Told::Answer { question, outcome }))
            }
            FromPanel::Point(point) => {
                self.taken += bytes.len() as u64;
                self.kept = self.kept.saturating_sub(1);
                let series = self.series.get(usize::from(point.series));
                if series.is_none_or(|series| series.values() != point.values.len()) {
                    return Err(malformed);
                }
                Ok(Some(Told::Point(point)))
            }
            FromPanel::Over(why) => Ok(Some(Told::Over(why))),
        }
    }

    /// A message that says how much was taken, where that is worth one.
    pub fn owed(&mut self) -> Option<Vec<u8>> {
        if self.taken < self.room / 4 {
            return None;
        }
        let bytes = core::mem::take(&mut self.taken);
        Some(encode(&ToPanel::Taken { bytes }, Vec::new()))
    }
}
