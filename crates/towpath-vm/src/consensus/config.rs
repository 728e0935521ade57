//! What a replica is set to, and the limits of the whole.

use super::entry::COMMAND_MAX;

/// Settings of a replica. All times are in ticks; with ticks of 50 ms the defaults mean a beat
/// every 350 ms, an election 1 to 2 s after the last one heard, and a leader that gives up after
/// 1 s without a majority, or 2 s of a disk that takes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// From one beat of a leader to the next.
    pub beat_ticks: u32,
    /// Least time without a leader before an election; the drawn one is up to twice that. Some
    /// beats must fit in, or every lost one costs an election.
    pub election_ticks: u32,
    /// A leader whose disk has taken nothing for so long, though it should, steps down: others can
    /// still commit. Longer than an election, since disks pause for longer than networks.
    pub disk_ticks: u32,
    /// Most bytes of entries in one message; one entry always fits.
    pub append_bytes: usize,
    /// Most bytes of entries under way to one replica, beyond what it said that it has.
    pub under_way_bytes: usize,
    /// Most bytes of entries that are not committed: more is not taken.
    pub uncommitted_bytes: usize,
    /// Bytes of one piece of a snapshot.
    pub piece_bytes: usize,
    /// A deliberate bug.
    #[cfg(plant)]
    pub plant: Plant,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            beat_ticks: 7,
            election_ticks: 20,
            disk_ticks: 40,
            append_bytes: 64 << 10,
            under_way_bytes: 1 << 20,
            uncommitted_bytes: 16 << 20,
            piece_bytes: 32 << 10,
            #[cfg(plant)]
            plant: Plant::None,
        }
    }
}

/// Most bytes of entries in one message, whatever the settings: one full command more than what is
/// cut at.
pub const APPEND_MAX: usize = (64 << 10) + COMMAND_MAX + 256;
/// Longest piece of a snapshot.
pub const PIECE_MAX: usize = 64 << 10;
/// Pieces of a snapshot that are under way at once.
pub(crate) const PIECES_UNDER_WAY: u64 = 8;
/// Longest state in a snapshot: mailboxes of 64 MiB, answers of 16, 4095 hosts and 10 000 groups
/// take three quarters of it.
pub const STATE_MAX: usize = 128 << 20;
/// Messages with entries under way to one replica at once.
pub(crate) const APPENDS_UNDER_WAY: usize = 256;
/// Fresh reads that wait at once.
pub const READS_MAX: usize = 16_384;
/// Messages that wait for the disk at once. What comes beyond is as good as lost on the way.
pub(crate) const HELD_MAX: usize = 4096;
/// A learner that lacks no more entries than this may become a voter.
pub const CAUGHT_UP: u64 = 64;

/// Deliberate bugs, so that the simulator can prove that it finds them.
#[cfg(plant)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// None.
    #[default]
    None,
    /// Answers leave before what they promise is on the disk.
    SkippedSync,
    /// A vote is given to whoever asks, though another has it.
    VotedTwice,
    /// A read is answered without asking a majority.
    StaleRead,
    /// The answer of a command is not kept: proposed again, it is applied again.
    AnswerForgotten,
    /// An entry of an earlier term counts as committed once a majority has it.
    OldTermCommitted,
}
