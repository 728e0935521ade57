//! The sender: a transport stream in, datagrams at their instants out.
//!
//! A [`Sender`] sends one stream: bytes are pushed as there is room, datagrams pulled when they are
//! due. [`Streams`] holds many behind one timer. Neither knows files, sockets or clocks.
//!
//! Rules, in the order in which they apply:
//!
//! 1. *Groups.* The bytes from a clock reference (PCR) to the next are a group; a datagram starts
//!    with each group and holds at most 7 packets, so a reference is always a datagram's first
//!    packet. The clock is that of the first PID that has one; if another PID tells twenty
//!    references while it is silent, that one's.
//! 2. *Time.* Within a group time runs evenly from its reference to the next: each datagram is due
//!    at the interpolated instant of its first byte. What stands before the first reference is
//!    sent at the rate of the first group, what follows the last one at the rate of the last.
//! 3. *Breaks.* A step back, one of more than a second, or one that the stream announces, breaks
//!    the clock. The group that ends with it is sent at the rate of the one before it; the new
//!    clock counts from there. Wraps are no breaks. A file that starts anew, or goes on elsewhere,
//!    breaks its clock.
//! 4. *Schedules.* A policy of [`crate::pace`] takes the place of rule 2.
//! 5. *Lateness.* A datagram that is later than [`Config::late_max`] is not made up for by a
//!    burst: it and everything behind it is due that much later from then on.
//!
//! | file | what is there |
//! |---|---|
//! | `groups` | rules 1 and 3 |
//! | `timing` | rules 2 and 4 |
//! | `flow` | from the stream's clock to the sender's: start, pause, speed, feedback, rule 5 |
//! | `sender` | one stream |
//! | `streams` | many, and the tick in which they are woken |

mod flow;
mod groups;
mod sender;
mod streams;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod timing;

pub use flow::{Feedback, GAP_MAX_PPM, GAP_MIN_PPM, SPEED_MAX_PPM, SPEED_MIN_PPM};
pub use sender::{Config, DATAGRAM, Due, SendCounters, Sender, Standing, WINDOW_FILL, WINDOW_MAX};
pub use streams::{StreamId, Streams, Tick};
pub use timing::Timing;
