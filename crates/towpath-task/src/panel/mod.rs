//! Panels: parameters that others change while a task computes, and results that they follow.
//!
//! A task shows a [`Panel`] under a name that is known in the whole virtual machine; any other task
//! opens a [`View`] of it, as `towpath panel` does. What they say to each other are messages in two
//! contexts of their own, with the name's number as their tag: no daemon knows of it, and a
//! computation that nobody looks at pays for a glance.

mod error;
mod place;
mod show;
mod view;

pub use error::PanelError;
pub use show::Panel;
pub use towpath_vm::panel::{
    BoardError, CHOICES_MAX, Counts, Form, Kind, OverWhy, Parameter, ParameterId, Point, Refusal,
    SERIES_MAX, Series, SeriesId, Told, ValueError,
};
pub use view::{View, panels};
