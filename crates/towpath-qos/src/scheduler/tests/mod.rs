//! Every scheduler on an ideal link in virtual time, against what it promises.
//!
//! The link carries one byte per nanosecond (8 Gbit/s), so that a packet's time in nanoseconds is
//! its size in bytes and nothing rounds.

mod bounds;
mod cbq;
mod conformance;
mod deadlines;
mod fairness;
mod heads;
mod hfsc;
mod link;
