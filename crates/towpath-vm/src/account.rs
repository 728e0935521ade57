//! What a task tells of its direct routes, in words that its daemon reads in shared memory.

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

/// Words of an account.
pub const ACCOUNT_WORDS: usize = 8;

/// How the direct route to another task stands, as its sender sees it: shared memory on one host,
/// a stream between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteState {
    /// None was offered yet.
    #[default]
    None,
    /// It is being set up.
    SettingUp,
    /// It stands.
    Stands,
    /// It ended; another one may be asked for.
    Ended,
    /// This task takes no direct routes.
    NotWanted,
    /// This task could not map it, listen or connect: no memory, no descriptor, no network.
    NoMeans,
    /// The two did not reach each other, or one of them did not look in for too long.
    NotReached,
    /// The other side gave it up, or a daemon: it said that there is none.
    Refused,
    /// What came on it could not be.
    Bad,
    /// This task has as many as it may, and all are in use.
    NoRoom,
}

impl RouteState {
    const ALL: [Self; 10] = [
        Self::None,
        Self::SettingUp,
        Self::Stands,
        Self::Ended,
        Self::NotWanted,
        Self::NoMeans,
        Self::NotReached,
        Self::Refused,
        Self::Bad,
        Self::NoRoom,
    ];

    /// As it stands in memory.
    pub const fn to_raw(self) -> u64 {
        self as u64
    }

    /// What stands there; what nobody writes is none.
    pub fn from_raw(raw: u64) -> Self {
        let known = Self::ALL.get(usize::try_from(raw).unwrap_or(usize::MAX));
        known.copied().unwrap_or_default()
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "asked for, not offered yet",
            Self::SettingUp => "being set up: both must look in",
            Self::Stands => "stands",
            Self::Ended => "ended; another one may be asked for",
            Self::NotWanted => "refused: this task takes none",
            Self::NoMeans => {
                "refused: this task could not map, listen or connect (memory, descriptors, network)"
            }
            Self::NotReached => "given up: the two did not reach each other in time",
            Self::Refused => "refused: by the other side, or a daemon had none to offer",
            Self::Bad => "cut off: what came by it could not be",
            Self::NoRoom => "put off: this task has as many as it may, all in use",
        }
    }
}

/// What went one way so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl core::ops::AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.messages = self.messages.wrapping_add(other.messages);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// What a task tells of its way to another one: of 8 words, the first is the other task, the
/// second how the direct route stands, then messages and bytes for each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The other task; none: those that are gone, together.
    pub peer: Option<TaskId>,
    /// How the direct route to it stands.
    pub direct: RouteState,
    /// Sent by shared memory.
    pub by_ring: Sent,
    /// Sent by a stream.
    pub by_stream: Sent,
    /// Sent by the daemons: messages since the two know each other, bytes since a direct route was
    /// asked for.
    pub by_daemons: Sent,
}

impl Account {
    /// The word of the other task's number.
    pub const PEER: usize = 0;
    /// The word of the direct route's state.
    pub const DIRECT: usize = 1;
    /// The first of the two words that count what went by shared memory.
    pub const BY_RING: usize = 2;
    /// The same of streams.
    pub const BY_STREAM: usize = 4;
    /// The same of the daemons.
    pub const BY_DAEMONS: usize = 6;

    /// What stands in a line.
    pub fn from_words(words: &[u64; ACCOUNT_WORDS]) -> Self {
        let sent = |at: usize| Sent { messages: words[at], bytes: words[at + 1] };
        Self {
            peer: TaskId::try_from(words[Self::PEER]).ok(),
            direct: RouteState::from_raw(words[Self::DIRECT]),
            by_ring: sent(Self::BY_RING),
            by_stream: sent(Self::BY_STREAM),
            by_daemons: sent(Self::BY_DAEMONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_what_was_written_and_strange_ones_are_none() {
        for (raw, state) in (0..).zip(RouteState::ALL) {
            assert_eq!((state.to_raw(), RouteState::from_raw(raw)), (raw, state));
        }
        assert_eq!(RouteState::from_raw(RouteState::ALL.len() as u64), RouteState::None);
        assert_eq!(RouteState::from_raw(u64::MAX), RouteState::None);
    }

    #[test]
    fn an_account_is_read_word_by_word() {
        let peer = towpath_wire::HostId::new(3, 1).and_then(|host| host.task(9)).unwrap();
        let account = Account::from_words(&[peer.to_raw(), 2, 10, 11, 12, 13, 14, 15]);
        let sent = |messages, bytes| Sent { messages, bytes };
        let direct = RouteState::Stands;
        let (by_ring, by_stream, by_daemons) = (sent(10, 11), sent(12, 13), sent(14, 15));
        assert_eq!(account, Account { peer: Some(peer), direct, by_ring, by_stream, by_daemons });
        assert_eq!(Account::from_words(&[0; 8]), Account::default());
    }
}
