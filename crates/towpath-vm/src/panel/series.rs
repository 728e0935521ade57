//! Series of results: points of one or more numbers, or of a whole field.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{POINT_COST, SERIES_MAX, TEXT_MAX, VALUES_MAX};

/// What the values of a point are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Form {
    /// A value of each curve, by these names.
    Curves(Vec<String>),
    /// A field, row after row.
    Field {
        /// How many rows.
        rows: u32,
        /// Values of each.
        columns: u32,
    },
}

/// Results that come one after another.
///
/// ```
/// use towpath_vm::panel::Series;
/// let error = Series::curves("error", &["mean", "greatest"]).unit("$").over("step").keep(500);
/// let heat = Series::field("heat", 64, 64).unit("K").over("s");
/// assert_eq!((error.values(), heat.values()), (2, 4096));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) over: String,
    pub(super) form: Form,
    pub(super) keep: u32,
}

/// No point of so many values is shorter on the way, in bytes, nor longer than this and
/// [`POINT_SPREAD`].
pub(super) const fn point_least(values: usize) -> u64 {
    8 * values as u64 + 12
}

/// How much longer a point may be than it is at least.
pub(super) const POINT_SPREAD: u64 = 24;

/// A point of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Which series, by number.
    pub series: u16,
    /// Where on the axis: a step, a time.
    pub at: f64,
    /// Points of this series that this follower was not told since the last one it was.
    pub lost: u64,
    /// As many as the series' form says.
    pub values: Vec<f64>,
}

impl Series {
    fn new(name: &str, form: Form) -> Self {
        let (unit, over) = (String::new(), "step".to_owned());
        Self { name: name.to_owned(), unit, over, form, keep: 0 }
    }

    /// One or several curves.
    pub fn curves(name: &str, curves: &[&str]) -> Self {
        Self::new(name, Form::Curves(curves.iter().map(ToString::to_string).collect()))
    }

    /// A field of numbers, each point whole.
    pub fn field(name: &str, rows: u32, columns: u32) -> Self {
        Self::new(name, Form::Field { rows, columns })
    }

    /// What its values count.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }

    /// What the axis counts; `step` unless said.
    #[must_use]
    pub fn over(mut self, over: &str) -> Self {
        over.clone_into(&mut self.over);
        self
    }

    /// The last so many points are kept for those that follow later; none unless said.
    #[must_use]
    pub const fn keep(mut self, points: u32) -> Self {
        self.keep = points;
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its values count; may be empty.
    pub fn unit_text(&self) -> &str {
        &self.unit
    }

    /// What the axis counts.
    pub fn over_text(&self) -> &str {
        &self.over
    }

    /// What the values of a point are.
    pub const fn form(&self) -> &Form {
        &self.form
    }

    /// Values of each point.
    pub fn values(&self) -> usize {
        match &self.form {
            Form::Curves(curves) => curves.len(),
            Form::Field { rows, columns } => (*rows as usize).saturating_mul(*columns as usize),
        }
    }

    /// Bytes of the values that it keeps at most.
    pub(super) fn kept_bytes(&self) -> usize {
        let point = self.values().saturating_mul(8).saturating_add(POINT_COST);
        (self.keep as usize).saturating_mul(point)
    }

    /// Whether it is within the limits; the thing, its size and its limit if not.
    pub(super) fn is_within(&self) -> Result<(), (String, usize, usize)> {
        let texts =
            [("a series' name", &self.name), ("a unit", &self.unit), ("an axis", &self.over)];
        for (what, text) in texts {
            if text.len() > TEXT_MAX {
                return Err((what.to_owned(), text.len(), TEXT_MAX));
            }
        }
        if let Form::Curves(curves) = &self.form {
            if curves.len() > SERIES_MAX {
                return Err(("the curves of a series".to_owned(), curves.len(), SERIES_MAX));
            }
            if let Some(long) = curves.iter().find(|c| c.len() > TEXT_MAX) {
                return Err(("a curve's name".to_owned(), long.len(), TEXT_MAX));
            }
        }
        if self.values() > VALUES_MAX {
            return Err(("the values of a point".to_owned(), self.values(), VALUES_MAX));
        }
        Ok(())
    }
}
