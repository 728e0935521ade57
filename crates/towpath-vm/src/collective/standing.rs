//! Whether a team still works, and how its members tell each other when it does not.
//!
//! A member one of whose operations fails does nothing more with the team: those of its operations
//! that are not over fail, too, and all later ones. It tells all others so, once, with the number
//! of the first operation that it does not see through. From that operation on the team is broken
//! for whoever hears it: what is under way there ends at once, and so does what begins later. What
//! comes before goes on, since the sender has done its part in it. The first operation that fails
//! at a member for this reason makes that member tell the others in turn.
//!
//! **Why nobody waits for ever**, as long as members that live go on calling until their first
//! error. Of all operations in which some member waits for ever take the first. One of those who
//! wait there waits for a member that is not waiting in it. That one has not ended: ends are told
//! to all. It is not over with the operation: then it has sent its part, of which nothing is left
//! that would need another call of it. It does not wait for ever in an earlier one, so that it
//! comes to this one, or fails before or in it. If it fails, it has told whoever waits, or has
//! ended while it told: then that is told. Hence every member tells, also one that failed because
//! it was told. A member that has told needs to be told nothing.
//!
//! So a broken team of n costs n (n − 1) messages at most.
//!
//! A notice has the team's context and the tag [`NOTICE`]. Its body:
//!
//! ```text
//! 0..4 number of the first operation that fails | 4..25 why, as in `error`
//! ```

use alloc::collections::BTreeSet;

use towpath_wire::bytes::{Reader, Writer};
use towpath_wire::talk::Tag;

use super::error::CollectiveError;
use super::format::BROKEN;
use super::machine::Message;

/// Tag of the messages by which members tell each other that the team is broken; no operation has
/// this number ([`Standing::number_after`]).
pub const NOTICE: Tag = -1;

/// How a team stands, as one of its members knows it.
#[derive(Debug, Default)]
pub struct Standing {
    /// The first operation that fails, and why.
    broken: Option<(u32, CollectiveError)>,
    /// This member has told the others.
    has_told: bool,
    /// Members that have told this one.
    out: BTreeSet<u32>,
}

/// Numbers go round: of two, the one that is ahead by less than half of all comes later.
const fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Standing {
    /// The number of the operation after number `number`.
    pub const fn number_after(number: u32) -> u32 {
        let next = number.wrapping_add(1);
        if next.cast_signed() as Tag == NOTICE { 0 } else { next }
    }

    /// Why operation `number` fails, if the team is broken there.
    pub fn error_of(&self, number: u32) -> Option<CollectiveError> {
        self.broken.filter(|(first, _)| !is_before(number, *first)).map(|(_, error)| error)
    }

    /// Whether `rank` has told that it does nothing more: then it needs nothing more.
    pub fn is_out(&self, rank: u32) -> bool {
        self.out.contains(&rank)
    }

    /// Takes the notice of member `from`. Operations under way for which [`Self::error_of`] now
    /// has an error fail by it.
    pub fn heard(&mut self, from: u32, body: &[u8]) {
        self.out.insert(from);
        let mut r = Reader::new(body);
        // What no member sends says nothing.
        let Ok(first) = r.u32() else { return };
        let error = CollectiveError::parse(r.rest());
        self.breaks(first, error.unwrap_or(CollectiveError::Malformed { rank: from }));
    }

    /// Takes note that an operation of this member's has failed, and that `first` is the first of
    /// those that are not over, or itself: all of them, and later ones, fail by `error`. What is
    /// to be told to all other members that have not ended and are not out; nothing the second
    /// time.
    pub fn fail(&mut self, first: u32, error: CollectiveError) -> Option<Message> {
        self.breaks(first, error);
        let (first, error) = self.broken.filter(|_| !self.has_told)?;
        self.has_told = true;
        let mut body = alloc::vec![0; 4];
        Writer::new(&mut body).u32(first);
        body.extend(error.emit());
        Some(Message { format: BROKEN, parts: alloc::vec![body.into()] })
    }

    fn breaks(&mut self, first: u32, error: CollectiveError) {
        if self.broken.is_none_or(|(other, _)| is_before(first, other)) {
            self.broken = Some((first, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: CollectiveError = CollectiveError::MemberLost { rank: 7 };

    fn body(message: &Message) -> alloc::vec::Vec<u8> {
        message.parts[0].to_vec()
    }

    #[test]
    fn it_is_broken_from_the_first_operation_that_anybody_names() {
        let (mut a, mut b) = (Standing::default(), Standing::default());
        assert_eq!(a.error_of(0), None);
        let told = a.fail(5, LOST).unwrap();
        assert_eq!((a.error_of(4), a.error_of(5), a.error_of(6)), (None, Some(LOST), Some(LOST)));
        assert_eq!(a.fail(4, LOST), None, "once");
        b.heard(3, &body(&told));
        assert!(b.is_out(3) && !b.is_out(7));
        assert_eq!((b.error_of(4), b.error_of(5)), (None, Some(LOST)));
        let later = Standing::default().fail(9, CollectiveError::GaveUp { rank: 1 }).unwrap();
        b.heard(1, &body(&later));
        assert_eq!(b.error_of(9), Some(LOST));
        assert!(b.fail(2, LOST).is_some());
        assert_eq!((b.error_of(1), b.error_of(2)), (None, Some(LOST)));
    }

    #[test]
    fn numbers_go_round_and_leave_out_that_of_notices() {
        assert_eq!(Standing::number_after(8), 9);
        assert_eq!(Standing::number_after(u32::MAX - 1), 0);
        let mut standing = Standing::default();
        standing.fail(u32::MAX - 2, LOST);
        assert_eq!(standing.error_of(u32::MAX - 3), None);
        assert_eq!(standing.error_of(3), Some(LOST));
    }

    #[test]
    fn what_cannot_be_read_is_the_senders_fault_or_nothing() {
        let mut standing = Standing::default();
        standing.heard(2, &[1, 2, 3]);
        assert_eq!(standing.error_of(0), None);
        standing.heard(2, &[1, 0, 0, 0, 99]);
        assert_eq!(standing.error_of(1), Some(CollectiveError::Malformed { rank: 2 }));
    }
}
