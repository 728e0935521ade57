//! First come, first served: the link that asks gets the packet (the source's FCFS over channels,
//! each of which takes the next segment when it has sent the last one).

use super::policy::{Next, PathView, StripeScheduler};

/// The first path of the link that asks that has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl StripeScheduler for Fcfs {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        paths.iter().position(|p| p.asks && p.is_open())
    }
}
