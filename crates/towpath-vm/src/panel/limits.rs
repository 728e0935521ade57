//! How much there may be.

/// Of what a board and its followers say to each other; both must speak the same.
pub const PANEL_VERSION: u32 = 1;
/// Longest name, unit or choice, in bytes.
pub const TEXT_MAX: usize = 64;
/// Most parameters of a board.
pub const PARAMETERS_MAX: usize = 256;
/// Most choices of a parameter.
pub const CHOICES_MAX: usize = 64;
/// Most series of a board.
pub const SERIES_MAX: usize = 64;
/// Most values of a point.
pub const VALUES_MAX: usize = 65_536;
/// Most bytes that a board keeps for followers to come, of all its series; a point costs
/// [`POINT_COST`] beside its values.
pub const KEPT_MAX: usize = 4 << 20;
/// What a kept point costs beside its values, in bytes.
pub const POINT_COST: usize = 48;
/// Tasks that want to follow and have not been answered; more are not.
pub const ASKING_MAX: usize = 64;
/// Followers that are let in at once: each is told all that is kept.
pub const LET_IN: usize = 2;
/// Most followers of a board.
pub const FOLLOWERS_MAX: usize = 16;
/// The room that a follower usually names, in bytes.
pub const ROOM: u64 = 2 << 20;
/// The most that it may name.
pub const ROOM_MAX: u64 = 8 << 20;
/// Of a follower's room, what points leave for everything else.
pub const ROOM_KEPT: u64 = 64 << 10;
