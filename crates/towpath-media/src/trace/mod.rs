//! Frame traces: how many bytes are consumed when.
//!
//! A [`Trace`] is the consumption curve of a stored video, the only thing a schedule needs to know
//! of it. It is made from frame sizes at a frame rate ([`Trace::uniform`]), from the clock
//! references of a transport stream ([`Trace::from_pcrs`]), or from a file ([`parse`]).

mod core;
mod delay;
mod error;
mod fields;
mod parse;
mod rate;

pub use core::{
    DURATION_TICKS_MAX, FRAME_BYTES_MAX, FRAMES_MAX, PCR_HZ, PcrPoint, TOTAL_BYTES_MAX, Trace,
};
pub use delay::StartUp;
pub use error::TraceError;
pub use parse::{BareUnit, Listing, TraceFormat, parse};
pub(crate) use rate::gcd;
pub use rate::{ExactRate, FrameRate};
