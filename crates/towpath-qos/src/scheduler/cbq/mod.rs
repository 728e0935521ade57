//! Class-based queuing after Floyd and Jacobson.
//!
//! A tree of classes, each with an allocated rate. An [`Estimator`] per class tells whether it is
//! over its limit; packets come from the leaves, most urgent priority first, weighted round robin
//! within; a leaf over its limit may send only where a link-sharing guideline ([`Sharing`]) lets
//! it borrow from an ancestor, and is otherwise held until its `undertime`.
//!
//! Bound: none on delay (that is the second source's finding). Shares: a class that always has
//! packets gets its allocated rate over the estimator's time constant of 16 packets, as long as
//! the classes more urgent keep to theirs. Not work-conserving. Leaves under their limit have a
//! ring of their own, and those over it wait by the end of their pause, so that neither is looked
//! for. Cost: O(depth) for the estimators, O(log V) to file a leaf whose standing changes (formal:
//! each class above it as well); plus O(leaves) where leaves over their limit may borrow, but only
//! from inner classes that are over theirs: they are passed one by one. Source: Floyd and Jacobson,
//! "Link-sharing and resource management models for packet networks" (1995). Reads `rate`, `weight`
//! (quantum weight · L), `priority`, `burst` (maxidle: packets back to back after idling),
//! `may_borrow`, `parent`.

mod estimator;
mod policy;
mod sharing;
mod standings;

pub use estimator::Estimator;
pub use policy::{AncestorsOnly, Cbq, Class, Formal, TopLevel};
pub use sharing::Sharing;
