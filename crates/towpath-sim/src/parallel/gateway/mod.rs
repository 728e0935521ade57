//! The node of the source's §4, after the Touchstone DELTA: gateway processors in a row with
//! wrap-around, a ring each, generators that each send to one of them.
//!
//! A processor takes segments into its queue. Adaptive: one whose queue has reached the high
//! threshold passes them to its right neighbour, with a count; the last one keeps them and all
//! generators are stopped. Fixed: it keeps them itself, and they are stopped. They start again
//! when a queue that was full falls below the low threshold.

mod run;
mod spec;

pub(super) use run::run;
pub use spec::{GatewayNode, Way};
