//! Delivery schedules of stored video, a file each.
//!
//! A schedule says when each byte is sent so that none is late and none overflows the receiver's
//! buffer. Conventions, the same for all: delivery starts at tick 0; the first group is consumed
//! `delay` ticks later, group `i` at `delay + times[i]`, all at once (first source, eq. 4.1); a
//! byte is in time if it is sent at that very tick. The buffer must hold what is there just before
//! a group leaves: `max (D(delay + times[i]) − sums[i])`, never more than the video has (eq. 4.2
//! and 4.6, capped). Decisions are made in integers; buffers are whole bytes, rounded up.
//!
//! | scheme | rate | knows |
//! |---|---|---|
//! | [`cbr`] | one | everything, before |
//! | [`pcbr`] | one, held while early | the clock references as they pass |
//! | [`pdcbr`] | high while late, low while early | the same |
//! | [`window`] | one, held while the buffer is full | the same, and the buffer |
//! | [`smooth`] | the least possible peak, least variance | everything, before |
//! | [`cba`], [`cba::mcba`] | few increases; few changes | everything, before |
//! | [`pcrtt`] | one per interval of fixed length | everything, before |
//! | [`ideal`] | the references' own | two references |

pub mod cba;
pub mod cbr;
mod corridor;
mod error;
mod file;
mod hulls;
pub mod ideal;
pub mod pcbr;
pub mod pcrtt;
pub mod pdcbr;
mod program;
mod scheme;
mod screen;
mod slope;
pub mod smooth;
#[cfg(test)]
pub(crate) mod testing;
mod verify;
pub mod window;

pub use error::ScheduleError;
pub use file::{FileError, emit, parse};
pub use program::{POSITION_UNIT, Point, Schedule, Segment};
pub use scheme::Scheme;
pub use verify::{Checked, Violation};
