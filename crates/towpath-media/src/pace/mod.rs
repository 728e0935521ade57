//! Pacers: state machines that say when to send how many bytes; and a player to test them.
//!
//! A [`Pacer`] is driven by clock references as they come up in the stream: [`Pace::feed`] tells it
//! a reference and how many bytes follow until the next one; [`Pace::poll`] answers with bytes to
//! send and the tick to send them at. Ticks count the pacer's own 27 MHz counter from the start of
//! delivery. How it behaves is a [`Policy`], a file each; no call allocates.

mod cbr;
mod counter;
mod follow;
mod head;
mod pacer;
mod pcbr;
mod pdcbr;
mod play;
mod player;
mod window;

pub use cbr::Cbr;
pub use counter::{Counter, PCR_WRAP};
pub use follow::Follow;
pub use head::Head;
pub use pacer::{Action, Busy, Pace, Pacer, Policy};
pub use pcbr::Pcbr;
pub use pdcbr::Pdcbr;
pub use play::{Network, Outcome, play};
pub use player::{Fault, Player};
pub use window::{OUTSTANDING_GROUPS, Window};
