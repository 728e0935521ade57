//! Congestion control: how much may be under way on a path. One file per policy, and one for each
//! question that [`Tolerant`] asks: how full is the queue (`queue`), is this loss more than the
//! path's own (`ambient`), does sending less help (`trial`), when does slow start end (`hystart`).

mod aimd;
mod ambient;
mod cubic;
mod fixed;
mod hystart;
mod policy;
mod queue;
#[cfg(test)]
mod tests;
mod tolerant;
mod trial;

pub use aimd::Aimd;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use policy::{Congestion, CongestionKind, Loss, Sample};
pub use tolerant::Tolerant;
