//! Traffic specifications: what a channel may send.
//!
//! A [`TSpec`] is one of seven models of the literature. Each gives the same four things:
//!
//! - [`TSpec::bits_in`]: the exact most bits in any window of a length, rounded up;
//! - [`TSpec::buckets`]: a concave set of token buckets above it, for calculus and admission;
//!   [`TSpec::packets`]: the staircase itself, of what counts packets;
//! - a [`Regulator`]: conformance, and the earliest conforming time, without allocation;
//! - [`measure`](measure::measure): the tightest specification of each kind for a trace.
//!
//! All sizes here are what the model counts. [`wire`] turns a specification of messages into one
//! of wire bits, once; [`service`] maps the classes of RSVP, Tenet, ATM and 802.1p.
//!
//! Rates are whole bit/s, times whole nanoseconds, amounts whole bits; what a rate gives in a time
//! is kept in nanobits (bit/s × ns), so that nothing is lost and nothing drifts.

pub mod averaged;
pub mod buckets;
pub mod dbind;
pub mod form;
pub mod limits;
pub mod measure;
pub mod packets;
pub mod peak_mean;
pub mod regulator;
pub mod schedule;
pub mod service;
mod share;
pub mod sigma_rho;
pub mod spaced;
pub mod token_bucket;
mod tspec;
pub mod wire;

pub use averaged::Averaged;
pub use buckets::{Bucket, Buckets};
pub use dbind::DBind;
pub use form::TSpecForm;
pub use limits::SpecError;
pub use packets::Packets;
pub use peak_mean::PeakMean;
pub use regulator::{Regulator, Verdict};
pub use schedule::Schedule;
pub use sigma_rho::SigmaRho;
pub use spaced::Spaced;
pub use token_bucket::TokenBucket;
pub use tspec::TSpec;
