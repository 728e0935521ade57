//! What those that keep the log say to each other, and how: in messages, which are repeated until
//! they arrive, or in notes, which are said once and cost a packet.
//!
//! While nothing is decided, beats and their answers are all that is said. A beat is a note where
//! its follower has all entries and has answered the last one: one that is lost is followed by a
//! message. An answer is as what it answers.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use towpath_vm::consensus::{Message, Payload, ReplicaId};
use towpath_wire::HostId;

use crate::voters::host_of;

/// Something to be said to a host.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) to: HostId,
    pub(crate) bytes: Vec<u8>,
    /// In a note.
    pub(crate) once: bool,
}

/// What is to be said, and what bears on how.
#[derive(Debug, Default)]
pub(crate) struct Saying {
    waiting: Vec<Said>,
    /// Those who were sent a beat, and were not heard since.
    unheard: BTreeSet<ReplicaId>,
    /// What is being answered came in a note.
    noted: bool,
}

impl Saying {
    /// Another one says something, in a note or not.
    pub(crate) fn hears(&mut self, from: ReplicaId, noted: bool) {
        self.unheard.remove(&from);
        self.noted = noted;
    }

    /// All that follows from it was said.
    pub(crate) const fn has_answered(&mut self) {
        self.noted = false;
    }

    /// To be said; `level`: to one that is known to have all entries.
    pub(crate) fn say(&mut self, message: &Message, level: bool) {
        let once = match message.payload {
            Payload::Beat { .. } => self.unheard.insert(message.to) && level,
            Payload::BeatAnswer { .. } => self.noted,
            _ => false,
        };
        if let Some(to) = host_of(message.to) {
            self.waiting.push(Said { to, bytes: message.encode(), once });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::voters::replica_of;

    fn id(slot: u16) -> ReplicaId {
        replica_of(HostId::new(slot, 1).expect("a host"), 0)
    }

    fn message(to: u16, payload: Payload) -> Message {
        let (generation, boot, life, term) = (1, 1, 1, 1);
        Message { generation, from: id(1), to: id(to), boot, life, term, payload }
    }

    const BEAT: Payload = Payload::Beat { commit: 1, round: 0 };
    const ANSWER: Payload = Payload::BeatAnswer { round: 0 };

    fn once(saying: &mut Saying) -> Vec<bool> {
        saying.take().into_iter().map(|said| said.once).collect()
    }

    #[test]
    fn beats_are_notes_as_long_as_they_are_answered_and_nothing_is_lacking() {
        let mut saying = Saying::default();
        saying.say(&message(2, BEAT), true);
        saying.say(&message(3, BEAT), true);
        saying.hears(id(2), true);
        saying.say(&message(2, BEAT), true);
        saying.say(&message(3, BEAT), true);
        assert_eq!(once(&mut saying), [true, true, true, false], "the third was not heard");
        saying.hears(id(2), false);
        saying.hears(id(3), false);
        saying.say(&message(2, BEAT), false);
        saying.say(&message(3, BEAT), true);
        assert_eq!(once(&mut saying), [false, true], "the second lacks something");
    }

    #[test]
    fn an_answer_is_as_what_it_answers_and_nothing_else_is_a_note() {
        let mut saying = Saying::default();
        saying.hears(id(2), true);
        saying.say(&message(2, ANSWER), false);
        saying.say(&message(2, Payload::Appended { matched: 1 }), true);
        saying.say(&message(2, Payload::HandOver), true);
        saying.has_answered();
        saying.say(&message(2, ANSWER), false);
        saying.hears(id(2), false);
        saying.say(&message(2, ANSWER), false);
        assert_eq!(once(&mut saying), [true, false, false, false, false]);
    }
}
