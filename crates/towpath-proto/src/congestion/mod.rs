//! Congestion control: how much may be under way on a path. One file per policy.

mod aimd;
#[cfg(test)]
mod arena;
mod cubic;
mod fixed;
mod largest;
mod model;
mod policy;
#[cfg(test)]
mod tests;

pub use aimd::Aimd;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use model::Model;
pub use policy::{Congestion, CongestionKind, Loss, Sample};
