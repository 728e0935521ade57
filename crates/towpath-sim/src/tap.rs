//! A tap on a real link: what becomes of which frame, and when.
//!
//! The machine of `towpath tap`. It knows neither clock nor device: frames and the time come in,
//! frames go out when they are due. Rate, queue and chance are those of the simulator's own
//! [`link`](crate::link), so that what ran over a tap can be run in virtual time, too. Beyond them
//! - a **change** at an instant holds for what waits: it leaves at the new rate, with the new
//!   delay, or never, where the link is dead;
//! - what befalls a frame by **chance** is a function of the seed, the direction and the number of
//!   the frame in it alone: neither its time, nor an overflow before it, nor a change of the rate
//!   draws other lots.
//!
//! ```
//! use towpath_sim::tap::{Direction, Script, Tap};
//! use towpath_wire::Instant;
//!
//! // 1 Mbit/s and 5 ms; the link is dead from the second second on, and says nothing of it.
//! let script = "
//!     [link.both]
//!     rate_bps = 1_000_000
//!     delay_us = 5_000
//!     [[change]]
//!     at_ms = 1_000
//!     up = false";
//! let mut tap = Tap::new(&Script::parse(script).unwrap(), Instant::ZERO);
//! tap.handle_frame(Instant::ZERO, Direction::There, vec![0; 1250]);
//! // 10 ms for 10 000 bits, and 5 ms on the way.
//! let due = tap.next_timeout().unwrap();
//! assert_eq!(due.as_nanos(), 15_000_000);
//! assert_eq!(tap.poll_frame(due).unwrap().frame.len(), 1250);
//! let late = Instant::from_nanos(2_000_000_000);
//! tap.handle_frame(late, Direction::There, vec![0; 1250]);
//! assert_eq!(tap.stats(Direction::There).cut, 1);
//! ```

mod machine;
mod script;
#[cfg(test)]
mod tests;
mod way;

pub use machine::{Delivery, Direction, Dropped, Tap, Ways};
pub use script::{BYTES_MAX, Change, EVENTS_MAX, Script, ScriptError, Setting};
pub use way::{HELD_BYTES_MAX, HELD_MAX, WayState, WayStats, Why};
