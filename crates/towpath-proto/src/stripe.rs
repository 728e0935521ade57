//! Stripe schedulers: which path carries the next packet. One file per policy once there are
//! several paths to choose from.

use towpath_wire::PathId;

/// What a scheduler may know of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Its number.
    pub id: PathId,
    /// Bytes that may still be sent now.
    pub room: u64,
    /// False while its link has no carrier.
    pub up: bool,
}

/// Chooses a path for the next packet of data.
pub trait StripeScheduler {
    /// Index into `paths`, or `None` to send nothing now.
    fn pick(&mut self, paths: &[PathView]) -> Option<usize>;
}

/// The first path that is up and has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstUsable;

impl StripeScheduler for FirstUsable {
    fn pick(&mut self, paths: &[PathView]) -> Option<usize> {
        paths.iter().position(|p| p.up && p.room > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_carrier_or_room_is_passed_over() {
        let view = |id, room, up| PathView { id: PathId(id), room, up };
        let paths = [view(0, 9, false), view(1, 0, true), view(2, 5, true)];
        assert_eq!(FirstUsable.pick(&paths), Some(2));
        assert_eq!(FirstUsable.pick(&paths[..2]), None);
    }
}
