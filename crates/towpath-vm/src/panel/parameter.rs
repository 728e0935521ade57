//! Parameters: numbers with a name, a unit and limits.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{CHOICES_MAX, TEXT_MAX};

/// Whole numbers up to this are exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Which values a parameter may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// Any from the first to the second.
    Real(f64, f64),
    /// Whole ones from the first to the second.
    Whole(f64, f64),
    /// Off (0) or on (1).
    Switch,
    /// One of these, by number from 0 on.
    Choice(Vec<String>),
}

/// A number that others may change while a computation goes on.
///
/// ```
/// use towpath_vm::panel::Parameter;
/// let volatility = Parameter::real("volatility", 0.3).between(0.01, 2.0).unit("1/√a");
/// assert_eq!(volatility.read("0.4"), Ok(0.4));
/// assert_eq!(
///     volatility.read("7").unwrap_err().to_string(),
///     "volatility: 7 is not from 0.01 to 2"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) kind: Kind,
    pub(super) value: f64,
}

/// Why a parameter cannot have a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {value} is not {wanted}")]
pub struct ValueError {
    /// The parameter's name.
    pub parameter: String,
    /// What it was to be.
    pub value: String,
    /// What it may be.
    pub wanted: String,
}

impl Parameter {
    fn new(name: &str, kind: Kind, value: f64) -> Self {
        Self { name: name.to_owned(), unit: String::new(), kind, value }
    }

    /// A number of any size, to begin with `value`.
    pub fn real(name: &str, value: f64) -> Self {
        Self::new(name, Kind::Real(-f64::MAX, f64::MAX), value)
    }

    /// A whole number, to begin with `value`; at most 2⁵³ either way.
    pub fn whole(name: &str, value: i64) -> Self {
        Self::new(name, Kind::Whole(-WHOLE_MAX, WHOLE_MAX), value as f64)
    }

    /// On or off.
    pub fn switch(name: &str, on: bool) -> Self {
        Self::new(name, Kind::Switch, on.into())
    }

    /// One of several, to begin with the first.
    pub fn choice(name: &str, choices: &[&str]) -> Self {
        Self::new(name, Kind::Choice(choices.iter().map(ToString::to_string).collect()), 0.0)
    }

    /// No less and no more than this; nothing to switches and choices.
    #[must_use]
    pub fn between(mut self, least: f64, most: f64) -> Self {
        if let Kind::Real(from, to) | Kind::Whole(from, to) = &mut self.kind {
            (*from, *to) = (least, most);
        }
        self
    }

    /// What its numbers count.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its numbers count; may be empty.
    pub fn unit_text(&self) -> &str {
        &self.unit
    }

    /// Which values it may have.
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What it is.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// What it may be, in words.
    pub fn wanted(&self) -> String {
        match &self.kind {
            Kind::Real(least, most) if *least <= -f64::MAX && *most >= f64::MAX => {
                "a number".to_owned()
            }
            Kind::Real(least, most) => format!("from {least} to {most}"),
            Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Switch => "on or off".to_owned(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
        }
    }

    /// A value as people write it.
    pub fn text_of(&self, value: f64) -> String {
        match &self.kind {
            Kind::Switch => if value.abs() <= 0.0 { "off" } else { "on" }.to_owned(),
            Kind::Choice(choices) => {
                choices.get(value as usize).cloned().unwrap_or_else(|| value.to_string())
            }
            Kind::Real(..) | Kind::Whole(..) => value.to_string(),
        }
    }

    fn refused(&self, value: String) -> ValueError {
        ValueError { parameter: self.name.clone(), value, wanted: self.wanted() }
    }

    /// Whether it may be `value`.
    pub fn check(&self, value: f64) -> Result<(), ValueError> {
        let is = |other: f64| (value - other).abs() <= 0.0;
        let is_whole = (-WHOLE_MAX..=WHOLE_MAX).contains(&value) && is(value as i64 as f64);
        let fits = match &self.kind {
            // Neither is true of a value that is no number.
            Kind::Real(least, most) => (*least..=*most).contains(&value),
            Kind::Whole(least, most) => is_whole && (*least..=*most).contains(&value),
            Kind::Switch => is(0.0) || is(1.0),
            Kind::Choice(choices) => is_whole && value >= 0.0 && value < choices.len() as f64,
        };
        if fits { Ok(()) } else { Err(self.refused(value.to_string())) }
    }

    /// A value that people have written.
    pub fn read(&self, text: &str) -> Result<f64, ValueError> {
        let text = text.trim();
        let read = match &self.kind {
            Kind::Switch => match text {
                "on" | "true" | "yes" | "1" => Some(1.0),
                "off" | "false" | "no" | "0" => Some(0.0),
                _ => None,
            },
            Kind::Choice(choices) => choices.iter().position(|c| c == text).map(|n| n as f64),
            Kind::Real(..) | Kind::Whole(..) => text.parse().ok(),
        };
        let value = read.ok_or_else(|| self.refused(text.chars().take(TEXT_MAX).collect()))?;
        self.check(value)?;
        Ok(value)
    }

    /// Whether it makes sense and is within the limits; the thing, its size and its limit if not.
    pub(super) fn is_within(&self) -> Result<(), (String, usize, usize)> {
        let texts = [("a parameter's name", &self.name), ("a parameter's unit", &self.unit)];
        for (what, text) in texts {
            if text.len() > TEXT_MAX {
                return Err((what.to_owned(), text.len(), TEXT_MAX));
            }
        }
        if let Kind::Choice(choices) = &self.kind {
            if choices.len() > CHOICES_MAX {
                let what = format!("the choices of `{}`", self.name);
                return Err((what, choices.len(), CHOICES_MAX));
            }
            if let Some(long) = choices.iter().find(|c| c.len() > TEXT_MAX) {
                return Err((format!("a choice of `{}`", self.name), long.len(), TEXT_MAX));
            }
        }
        Ok(())
    }
}
