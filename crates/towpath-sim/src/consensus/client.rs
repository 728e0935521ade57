//! A client: one operation after the other, each repeated until it is answered.

use towpath_wire::Instant;

use super::history::{Act, Operation};

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A session, under this nonce.
    Session(u64),
    /// To set a register, as command `number`.
    Swap { key: u8, value: u64, number: u64, len: usize },
    /// To read a register.
    Read { key: u8 },
    /// Nothing: it is done.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) session: u64,
    /// The last command that it made.
    pub(super) number: u64,
    pub(super) wants: Wants,
    pub(super) called: Instant,
    /// Counts questions: an answer to an earlier one is void.
    pub(super) call: u64,
    /// Whom it asks,
    pub(super) at: usize,
    /// and whom after that.
    pub(super) next: usize,
    pub(super) history: Vec<(u8, Operation)>,
    /// How often the operation was asked for.
    pub(super) tries: u64,
}

impl Client {
    pub(super) const fn new(at: usize, nonce: u64) -> Self {
        Self {
            session: 0,
            number: 0,
            wants: Wants::Session(nonce),
            called: Instant::ZERO,
            call: 0,
            at,
            next: at,
            history: Vec::new(),
            tries: 0,
        }
    }

    /// Its operation is over: answered, or never to be ([`Instant::NEVER`]).
    pub(super) fn note(&mut self, answered: Instant, answer: u64) {
        let (key, act) = match self.wants {
            Wants::Swap { key, value, .. } => (key, Act::Swap(value)),
            Wants::Read { key } => (key, Act::Read),
            Wants::Session(_) | Wants::Nothing => return,
        };
        self.history.push((key, Operation { act, called: self.called, answered, answer }));
    }
}
