//! Stripe schedulers: which path carries the next packet of data. One file for each policy, one
//! conformance suite over all of them.
//!
//! | policy | carries the next packet by | for |
//! |---|---|---|
//! | [`Earliest`] | the path by which it arrives first, or soon will | all: the default |
//! | [`Fcfs`] | whichever link asks first | many equal links; the source's own |
//! | [`RoundRobin`] | the next in turn | reference |
//! | [`Permuted`] | the next in turn, in an order of each sender's own | reference |
//! | [`ShortestQueue`] | the one with the fewest bytes under way | reference |
//! | [`Adaptive`] | the one with the least queue and last service time | the source's best |
//! | [`Redundant`] | all of them: the first copy counts | what must not wait for a dead link |
//! | [`Weighted`] | each in proportion to its link's weight | links that cost |
//!
//! A path may carry what it has room for: its congestion window, its pacer, and, where there are
//! several, no more than a quarter beyond what it holds by itself
//! ([`Association`](crate::association::Association) sees to that), so that no policy can make a
//! queue that the next urgent message would wait behind.

mod adaptive;
mod earliest;
mod fcfs;
mod kind;
mod permuted;
mod policy;
mod redundant;
mod round_robin;
mod shortest;
mod weighted;

#[cfg(test)]
mod tests;

pub use adaptive::Adaptive;
pub use earliest::Earliest;
pub use fcfs::Fcfs;
pub use kind::StripeKind;
pub use permuted::Permuted;
pub use policy::{Next, PathView, StripeScheduler};
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use shortest::ShortestQueue;
pub use weighted::Weighted;
