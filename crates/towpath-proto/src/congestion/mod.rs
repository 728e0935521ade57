//! Congestion control: how much may be under way on a path. One file per policy.

mod aimd;
mod fixed;
mod policy;
#[cfg(test)]
mod tests;

pub use aimd::Aimd;
pub use fixed::Fixed;
pub use policy::{Congestion, CongestionKind};
