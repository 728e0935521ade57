//! Stored video: reading it, planning its delivery, pacing it. No IO.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

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
pub mod trace;

pub use stop::Stop;
