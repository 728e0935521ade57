//! Which item goes to which host next, and what counts as its result. Neither IO nor clock: events
//! go in with the time, launches and results come out.
//!
//! **Balance by demand.** A host gets its next item when it has room: its job slots, and a queue
//! behind them that hides the way there and back. The queue holds at most about 250 ms of work by
//! the host's own mean, and nothing once fewer items wait than all hosts could hold, so that no
//! host is idle at the end while another has a queue.

mod core;
mod host;
#[cfg(test)]
mod tests;

pub use core::{Launch, Plan, PlanEvent, PlanOptions};
pub use host::{HostCounts, HostStanding};
