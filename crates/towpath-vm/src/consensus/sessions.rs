//! Each command once: the answers of commands that may be proposed again.
//!
//! Whoever proposes cannot know whether a proposal that was not answered is in the log, so it
//! proposes it again, under the same number of the same session; the second one is not applied, but
//! answered as the first was (Ongaro 2014, section 6.3). The table is part of the state: all
//! replicas have the same, and snapshots hold it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader};

use super::entry::{Body, Command, Entry, limited};

/// Most sessions; a new one ends the one that was used least recently.
pub const SESSIONS_MAX: usize = 8192;
/// Most answers that a session leaves unsettled.
pub const ANSWERS_MAX: usize = 64;
/// Longest answer.
pub const ANSWER_MAX: usize = 4 << 10;
/// Bytes of all answers; beyond, sessions end, the least recently used first.
pub const ANSWERS_BYTES_MAX: usize = 16 << 20;

/// What the log drives. Invariant: all of it depends on what was applied, in order, alone.
pub trait StateMachine {
    /// Applies a command; the answer has at most [`ANSWER_MAX`] bytes.
    fn apply(&mut self, index: u64, command: &[u8]) -> Vec<u8>;
    /// All of it, as bytes.
    fn save(&self) -> Vec<u8>;
    /// Becomes what was saved.
    fn restore(&mut self, state: &[u8]) -> Result<(), ParseError>;
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It said nothing to the state machine.
    Nothing,
    /// A session began: its number is the entry's index.
    Opened {
        /// Whose.
        nonce: u64,
    },
    /// A command was applied, or had been.
    Answered {
        /// Of this session,
        session: u64,
        /// this number;
        number: u64,
        /// the answer.
        answer: Vec<u8>,
        /// It had been applied before.
        repeated: bool,
    },
    /// A command was not applied.
    Refused {
        /// Of this session,
        session: u64,
        /// this number.
        number: u64,
        /// Why.
        why: SessionError,
    },
}

/// Why a command was not applied. It may have been applied before, unless it is
/// [`SessionError::Many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There is no such session any more.
    #[error("session {0} has ended, or never was")]
    Over(u64),
    /// It said that it knows the answer.
    #[error("command {0} of the session is settled")]
    Settled(u64),
    /// Too many answers are kept for it.
    #[error("{ANSWERS_MAX} answers of the session are not settled")]
    Many,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Session {
    /// The last entry that used it.
    used: u64,
    settled: u64,
    answers: BTreeMap<u64, Vec<u8>>,
}

impl Session {
    fn bytes(&self) -> usize {
        self.answers.values().map(Vec::len).sum()
    }
}

/// The sessions. Invariants: `by_use` has each session once, by its last use; `bytes` is that of
/// all answers, at most [`ANSWERS_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sessions {
    by_id: BTreeMap<u64, Session>,
    by_use: BTreeSet<(u64, u64)>,
    bytes: usize,
}

impl Sessions {
    fn open(&mut self, index: u64) {
        while self.by_id.len() >= SESSIONS_MAX && self.end_oldest(|_| true) {}
        self.insert(index, Session { used: index, ..Session::default() });
    }

    fn insert(&mut self, id: u64, session: Session) {
        self.by_use.insert((session.used, id));
        self.bytes += session.bytes();
        self.by_id.insert(id, session);
    }

    /// Ends the least recently used of those that `may` holds for.
    fn end_oldest(&mut self, may: impl Fn(u64) -> bool) -> bool {
        let oldest = self.by_use.iter().find(|(_, id)| may(*id)).copied();
        let Some((used, id)) = oldest else { return false };
        self.by_use.remove(&(used, id));
        if let Some(session) = self.by_id.remove(&id) {
            self.bytes -= session.bytes();
        }
        true
    }

    /// Looks a command up; its answer, if it was applied before.
    fn look_up(&mut self, index: u64, c: &Command) -> Result<Option<Vec<u8>>, SessionError> {
        let session = self.by_id.get_mut(&c.session).ok_or(SessionError::Over(c.session))?;
        self.by_use.remove(&(session.used, c.session));
        session.used = index;
        self.by_use.insert((index, c.session));
        let before = session.bytes();
        // A command does not settle itself.
        session.settled = session.settled.max(c.settled.min(c.number.saturating_sub(1)));
        session.answers = session.answers.split_off(&(session.settled + 1));
        self.bytes -= before - session.bytes();
        if c.number <= session.settled {
            return Err(SessionError::Settled(c.number));
        }
        match session.answers.get(&c.number) {
            Some(answer) => Ok(Some(answer.clone())),
            None if session.answers.len() >= ANSWERS_MAX => Err(SessionError::Many),
            None => Ok(None),
        }
    }

    fn answer(&mut self, c: &Command, answer: Vec<u8>) {
        if let Some(session) = self.by_id.get_mut(&c.session) {
            self.bytes += answer.len();
            session.answers.insert(c.number, answer);
        }
        while self.bytes > ANSWERS_BYTES_MAX && self.end_oldest_with_answers(c.session) {}
    }

    fn end_oldest_with_answers(&mut self, but: u64) -> bool {
        let has = |(_, id): &&(u64, u64)| *id != but && !self.by_id[id].answers.is_empty();
        let found = self.by_use.iter().find(has).map(|(_, id)| *id);
        found.is_some_and(|found| self.end_oldest(|id| id == found))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.by_id.len() as u32).to_le_bytes());
        for (id, session) in &self.by_id {
            for word in [*id, session.used, session.settled] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&(session.answers.len() as u32).to_le_bytes());
            for (number, answer) in &session.answers {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&(answer.len() as u32).to_le_bytes());
                out.extend_from_slice(answer);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut sessions = Self::default();
        for _ in 0..limited(r.u32()? as usize, SESSIONS_MAX, "sessions")? {
            let (id, used, settled) = (r.u64()?, r.u64()?, r.u64()?);
            let mut session = Session { used, settled, answers: BTreeMap::new() };
            for _ in 0..limited(r.u32()? as usize, ANSWERS_MAX, "answers of a session")? {
                let number = r.u64()?;
                let len = limited(r.u32()? as usize, ANSWER_MAX, "bytes of an answer")?;
                session.answers.insert(number, r.take(len)?.into());
            }
            sessions.insert(id, session);
        }
        Ok(sessions)
    }
}

/// A state machine with its sessions: what a replica applies its log to.
#[derive(Clone, Debug, Default)]
pub struct Replicated<M> {
    /// The state machine.
    pub machine: M,
    sessions: Sessions,
    index: u64,
    #[cfg(plant)]
    plant: super::config::Plant,
}

impl<M: StateMachine> Replicated<M> {
    /// One to which nothing was applied.
    pub fn new(machine: M) -> Self {
        Self {
            machine,
            sessions: Sessions::default(),
            index: 0,
            #[cfg(plant)]
            plant: super::config::Plant::None,
        }
    }

    /// With a deliberate bug.
    #[cfg(plant)]
    #[must_use]
    pub fn with(mut self, plant: super::config::Plant) -> Self {
        self.plant = plant;
        self
    }

    /// The last entry that was applied.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Applies an entry.
    ///
    /// # Panics
    /// If it does not follow on the last, or the state machine's answer is too long.
    pub fn apply(&mut self, entry: &Entry) -> Applied {
        assert_eq!(entry.index, self.index + 1, "entries are applied one after the other");
        self.index = entry.index;
        match &entry.body {
            Body::Empty | Body::Members(_) | Body::Other { .. } => Applied::Nothing,
            Body::Open { nonce } => {
                self.sessions.open(entry.index);
                Applied::Opened { nonce: *nonce }
            }
            Body::Command(command) => self.command(command),
        }
    }

    fn command(&mut self, command: &Command) -> Applied {
        let (session, number) = (command.session, command.number);
        match self.sessions.look_up(self.index, command) {
            Err(why) => Applied::Refused { session, number, why },
            Ok(Some(answer)) => Applied::Answered { session, number, answer, repeated: true },
            Ok(None) => {
                let answer = self.machine.apply(self.index, &command.bytes);
                assert!(answer.len() <= ANSWER_MAX, "an answer of {} bytes", answer.len());
                #[cfg(plant)]
                if self.plant == super::config::Plant::AnswerForgotten {
                    return Applied::Answered { session, number, answer, repeated: false };
                }
                self.sessions.answer(command, answer.clone());
                Applied::Answered { session, number, answer, repeated: false }
            }
        }
    }

    /// All of it, for a snapshot as of [`Self::index`].
    pub fn save(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.sessions.encode(&mut out);
        out.extend_from_slice(&self.machine.save());
        out
    }

    /// Becomes what was saved as of entry `index`.
    pub fn restore(&mut self, index: u64, state: &[u8]) -> Result<(), ParseError> {
        let mut r = Reader::new(state);
        // The log was begun with no state.
        let sessions = match state {
            [] => Sessions::default(),
            _ => Sessions::decode(&mut r)?,
        };
        self.machine.restore(r.rest())?;
        (self.sessions, self.index) = (sessions, index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Count(u64);

    impl StateMachine for Count {
        fn apply(&mut self, _: u64, command: &[u8]) -> Vec<u8> {
            self.0 += 1;
            [&self.0.to_le_bytes()[..], command].concat()
        }

        fn save(&self) -> Vec<u8> {
            self.0.to_le_bytes().into()
        }

        fn restore(&mut self, state: &[u8]) -> Result<(), ParseError> {
            self.0 = Reader::new(state).u64()?;
            Ok(())
        }
    }

    fn opened(count: u64) -> Replicated<Count> {
        let mut all = Replicated::new(Count(0));
        for index in 1..=count {
            let nonce = index;
            let entry = Entry { term: 1, index, body: Body::Open { nonce } };
            assert_eq!(all.apply(&entry), Applied::Opened { nonce });
        }
        all
    }

    fn command(all: &mut Replicated<Count>, session: u64, number: u64, settled: u64) -> Applied {
        let command = Command { session, number, settled, bytes: [0; 3000].into() };
        let body = Body::Command(command);
        all.apply(&Entry { term: 1, index: all.index() + 1, body })
    }

    fn why(applied: Applied) -> SessionError {
        match applied {
            Applied::Refused { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_is_applied_once_and_answered_alike_even_after_a_snapshot() {
        let mut all = opened(2);
        let first = command(&mut all, 1, 1, 0);
        let saved = all.save();
        all.restore(all.index(), &saved).unwrap();
        assert_eq!(all.save(), saved);
        let Applied::Answered { answer, repeated: false, .. } = first else { panic!("{first:?}") };
        let again = command(&mut all, 1, 1, 0);
        let (session, number) = (1, 1);
        assert_eq!(again, Applied::Answered { session, number, answer, repeated: true });
        assert_eq!(all.machine.0, 1);
        command(&mut all, 1, 2, 1);
        assert_eq!(why(command(&mut all, 1, 1, 0)), SessionError::Settled(1));
        assert_eq!(why(command(&mut all, 7, 1, 0)), SessionError::Over(7));
        assert_eq!(all.machine.0, 2);
    }

    #[test]
    fn answers_are_kept_up_to_their_limit_and_sessions_end_the_oldest_first() {
        let mut all = opened(1);
        for number in 1..=ANSWERS_MAX as u64 {
            command(&mut all, 1, number, 0);
        }
        assert_eq!(why(command(&mut all, 1, 65, 0)), SessionError::Many);
        assert!(matches!(command(&mut all, 1, 65, 1), Applied::Answered { .. }));
        let sessions = 90;
        let mut all = opened(sessions);
        for session in 1..=sessions {
            for number in 1..=ANSWERS_MAX as u64 {
                command(&mut all, session, number, 0);
            }
        }
        let bytes = all.sessions.bytes;
        assert!((ANSWERS_BYTES_MAX / 2..=ANSWERS_BYTES_MAX).contains(&bytes), "{bytes}");
        assert_eq!(why(command(&mut all, 1, 65, 64)), SessionError::Over(1));
        assert!(matches!(command(&mut all, sessions, 65, 64), Applied::Answered { .. }));
        let all = opened(SESSIONS_MAX as u64 + 1);
        assert_eq!(all.sessions.by_id.len(), SESSIONS_MAX);
    }

    #[test]
    fn a_damaged_table_is_refused() {
        let mut all = opened(2);
        command(&mut all, 1, 1, 0);
        let saved = all.save();
        for cut in 1..saved.len() {
            assert!(all.clone().restore(9, &saved[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_settled_is_counted_no_more() {
        let mut all = opened(2);
        let counted = |all: &Replicated<Count>| {
            let bytes: usize = all.sessions.by_id.values().map(Session::bytes).sum();
            assert_eq!(all.sessions.bytes, bytes);
            bytes
        };
        let empty = counted(&all);
        (1..=3).for_each(|number| drop(command(&mut all, 1, number, 0)));
        command(&mut all, 2, 1, 0);
        let four = counted(&all) - empty;
        // The second and third stay; of the fourth there is an answer, too.
        command(&mut all, 1, 4, 1);
        assert_eq!(counted(&all) - empty, four);
        command(&mut all, 1, 5, 4);
        assert_eq!(counted(&all) - empty, four / 2);
        // A command does not settle itself.
        assert!(matches!(command(&mut all, 1, 6, 99), Applied::Answered { repeated: false, .. }));
        assert!(matches!(command(&mut all, 1, 6, 99), Applied::Answered { repeated: true, .. }));
        assert_eq!(why(command(&mut all, 1, 5, 0)), SessionError::Settled(5));
        counted(&all);
    }
}
