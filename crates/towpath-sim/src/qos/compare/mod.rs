//! Every packet scheduler under the same loads.
//!
//! The second source ends with the wish for such a comparison: performance, schedulability and
//! scalability in one environment (Cui 1999, chapter VI). [`compare`] gives a row per discipline.
//!
//! - Delay, jitter, misses: the classes of a [`Load`] over several ports in a row, each port filled
//!   up by saturating bulk channels of its own.
//! - Fairness: saturating queues with weights; greatest deviation from the weighted share.
//! - Isolation: worst delay of conforming channels beside a rival that conforms, and beside one
//!   that does not.
//! - Schedulable region: for each number of channels of the first class the most of the second with
//!   no deadline missed, all bursts at once.
//! - Scalability: time per packet with 10, 1000 and 100 000 backlogged queues, by a clock that the
//!   caller hands in.

mod bench;
mod churn;
mod load;
mod region;
mod table;

pub use churn::{Churn, churn};
pub use load::{Class, Load, LoadError, Sending};
pub use region::RegionPoint;
pub use table::{ClassRow, Comparison, Fairness, Isolation, Row, compare};
