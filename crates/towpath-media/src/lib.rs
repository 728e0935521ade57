//! Stored video: reading it, planning its delivery, pacing it. No IO.
//!
//! Which rate and buffer a video needs when it may start after two seconds:
//!
//! ```
//! use towpath_media::plan::{Wish, plan};
//! use towpath_media::schedule::Scheme;
//! use towpath_media::trace::Trace;
//!
//! // A frame a second: its time, and its bytes.
//! let sizes = [40_000, 10_000, 10_000, 60_000, 10_000];
//! let video = Trace::from_groups((0..).zip(sizes), 1).expect("times that do not decrease");
//! let one_rate = plan(&video, Scheme::Cbr, Wish::Delay(2)).expect("there is such a rate");
//! assert!(one_rate.delay <= 2 && one_rate.buffer >= 60_000);
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// Tests of whole files speak of the crate by its name, as its users do.
#[cfg(test)]
extern crate self as towpath_media;

pub mod inspect;
pub mod pace;
pub mod plan;
pub mod read;
pub mod receive;
pub mod rtp;
pub mod rtsp;
pub mod schedule;
pub mod send;
mod stop;
#[cfg(test)]
mod tests;
pub mod trace;

pub use stop::Stop;
