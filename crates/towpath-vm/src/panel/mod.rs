//! What a task shows of a computation while it runs: parameters that others change, and series of
//! results that they follow.
//!
//! ```text
//! follower                          board
//!   Follow { nonce, room } ----------->          once; again: it begins anew
//!          <----------- Shown { nonce, .. }      or Refused; then, in this order:
//!          <----------- Point, Changed           as long as it has room for them
//!   Taken { bytes } ------------------>          so much of what came was taken
//!   Set { question, parameter, value } ->
//!          <----------- Answer { question, .. }
//!   Unfollow ------------------------->
//!          <----------- Over { why }
//! ```
//!
//! A board never waits for a follower. What a follower has been told and has not said that it took
//! counts against the room that it named; a point for which there is none is left out, and the next
//! one says how many were.

mod board;
mod limits;
mod parameter;
mod series;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use board::{Board, BoardError, Counts, ParameterId, SeriesId};
pub use limits::{
    ASKING_MAX, CHOICES_MAX, FOLLOWERS_MAX, KEPT_MAX, LET_IN, PANEL_VERSION, PARAMETERS_MAX,
    POINT_COST, ROOM, ROOM_KEPT, ROOM_MAX, SERIES_MAX, TEXT_MAX, VALUES_MAX,
};
pub use parameter::{Kind, Parameter, ValueError};
pub use series::{Form, Point, Series};
pub use view::{Misfit, Told, Viewed};
pub use words::{FromPanel, OverWhy, Refusal, ToPanel};
