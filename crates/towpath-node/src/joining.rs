//! A join under way, or a return.
//!
//! A host that may lead, and does not, refers a newcomer with a token to the one that does: its
//! token may be older than that. The text of the refusal is then
//!
//! ```text
//! address and port | space | static key (64 hexadecimal digits) | space | name
//! ```
//! sealed as every refusal is, so that only a host with the VM key can have written it.
//!
//! **All that vote start again.** Hosts that kept the log ask those that may lead to let them in.
//! One that is asked meanwhile says so, and how far what it kept goes, in a refusal of the same
//! kind:
//!
//! ```text
//! term | space | life of the log | space | term and index of the last entry | space |
//! 1 where it still runs, else 0 | space | words
//! ```
//! Where all that voted as of the last entry, and were not lost before it, say that of themselves,
//! nobody leads and nobody has decided anything since; the one whose word goes furthest, of equals
//! the one with the smallest key, begins again with what it kept, and the others find a leader.
//! Where one of them says nothing, nobody does: it may know more.
//!
//! **Most of them start again, and others still run.** One that runs, and is told so by so many of
//! those that voted that the rest could decide nothing, says the same, and goes on itself where it
//! has most: without an end of its tasks.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;

use towpath_proto::{AssociationId, ConnectFailure, HostKey, Psk, Refusal};
use towpath_wire::{Admission, Instant};

use crate::config::refusal;
use crate::hello::Purpose;
use crate::restore::{KeptTo, Saved};

/// How long a newcomer goes on asking those that its token names, while one of them says that
/// another host leads: a few elections.
pub(crate) const ELECT_FOR: Duration = Duration::from_secs(8);

/// Hosts that a newcomer may be referred to, beside those that its token names.
const REFERRED_MAX: usize = 8;
/// What one says that does not lead.
pub(crate) const NOT_LEADER: &str = "only the leader of the virtual machine admits hosts";

/// Where a newcomer is sent, and by which key that host is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Referral {
    pub(crate) addr: SocketAddr,
    pub(crate) key: HostKey,
    pub(crate) name: String,
}

impl Referral {
    pub(crate) fn emit(&self) -> String {
        let mut text = format!("{} ", self.addr);
        for byte in self.key.0 {
            let _ = write!(text, "{byte:02x}");
        }
        text + " " + &self.name
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (addr, hex, name) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let mut key = [0; 32];
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Self { addr, key: HostKey(key), name: name.into() })
    }

    /// The same for people.
    fn refusal(&self) -> Refusal {
        let Self { addr, name, .. } = self;
        Refusal { code: refusal::NOT_LEADER, text: format!("{NOT_LEADER}: {name} at {addr}") }
    }
}

/// What one says that starts again itself, or knows that most of those that voted do.
const RETURNING: &str = "those that may lead have started again, and none of them leads yet";
/// For so long counts what one has said that starts again: longer than it takes to ask a few others
/// once more, some of which are silent.
pub(crate) const RETURNING_FOR: Duration = Duration::from_secs(40);

impl KeptTo {
    pub(crate) fn emit(&self) -> String {
        let Self { term, life, last: (of, index), lives } = self;
        format!("{term} {life} {of} {index} {} {RETURNING}", u8::from(*lives))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let mut number = || words.next()?.parse().ok();
        let (term, life, last) = (number()?, number()?, (number()?, number()?));
        let lives = number()? == 1;
        (words.next()? == RETURNING).then_some(Self { term, life, last, lives })
    }
}

/// A host that kept the log and starts again.
#[derive(Debug)]
pub(crate) struct Return {
    /// What it kept.
    pub(crate) saved: Saved,
    /// Others that start again, how far what they kept goes, and when they said so last.
    heard: BTreeMap<[u8; 32], (KeptTo, Instant)>,
    /// All have said so once: they are asked once more, since one of them may have been told
    /// otherwise meanwhile.
    is_sure: bool,
}

impl Return {
    pub(crate) const fn new(saved: Saved) -> Self {
        Self { saved, heard: BTreeMap::new(), is_sure: false }
    }

    /// One that voted says something else, or nothing.
    fn forget(&mut self, key: &[u8; 32]) {
        if self.heard.remove(key).is_some() {
            self.is_sure = false;
        }
    }

    /// Whether this one, with this key, begins again: all that voted start again, and none of them
    /// has more, as each has said twice.
    pub(crate) fn begins(&mut self, now: Instant, own: &[u8; 32]) -> bool {
        let begins = self.may_begin(now, own);
        if begins && !self.is_sure {
            self.is_sure = true;
            self.heard.clear();
            // Where nobody else is left to ask there is nothing to wait for.
            return self.may_begin(now, own);
        }
        begins
    }

    fn may_begin(&self, now: Instant, own: &[u8; 32]) -> bool {
        let mine = self.saved.kept_to();
        let yields = |key: &[u8; 32]| {
            let said = self.heard.get(key).filter(|(_, at)| now.since(*at) < RETURNING_FOR);
            said.is_some_and(|(kept, _)| {
                mine.is_beyond(kept) || !kept.is_beyond(&mine) && own < key
            })
        };
        let voters = || self.saved.voters_left().into_iter().flatten();
        voters().any(|key| key == own) && voters().all(|key| key == own || yields(key))
    }
}

/// What brings a host to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was told to.
    Told,
    /// The log has it as lost.
    Lost,
    /// It kept the log of the virtual machine, and others may lead that by now.
    Kept,
}

/// What a newcomer does that is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It asks another one that may lead.
    Another,
    /// It asks them all once more, a little later.
    Again,
    /// It gives up: who has said no, knows.
    Refused,
    /// It gives up: none of them has let it in.
    Nobody,
}

/// Whether others may let in whom one refuses with this.
pub(crate) fn asks_on(code: u16) -> bool {
    let all = [refusal::NOT_LEADER, refusal::NOT_MEMBER, refusal::RECOVERING, refusal::RETURNING];
    all.contains(&code)
}

/// A join under way.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The handshake or association with the leader, while there is one.
    pub(crate) id: Option<AssociationId>,
    /// When to try again.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) addr: SocketAddr,
    pub(crate) key: HostKey,
    /// Who else may lead.
    pub(crate) others: VecDeque<(SocketAddr, HostKey)>,
    pub(crate) admission: Admission,
    pub(crate) psk: Psk,
    pub(crate) reason: Reason,
    /// When it began.
    pub(crate) since: Instant,
    /// How many have been asked since all were.
    pub(crate) asked: usize,
    /// One of these said no, though not for good: what it says.
    pub(crate) said: Option<ConnectFailure>,
    /// How many times it was sent elsewhere.
    pub(crate) referred: usize,
    /// It kept the log.
    pub(crate) back: Option<Box<Return>>,
    /// The token that it was given, for where what it kept is of no use.
    pub(crate) token: Option<(Admission, Psk)>,
}

impl Joining {
    /// That of a host that the log has as lost.
    pub(crate) fn again(now: Instant, addr: SocketAddr, key: HostKey) -> Self {
        let (admission, psk) = (Admission::Member, Psk::MEMBER);
        let (id, retry_at, others, reason) = (None, Some(now), VecDeque::new(), Reason::Lost);
        Self {
            id,
            retry_at,
            addr,
            key,
            others,
            admission,
            psk,
            reason,
            since: now,
            asked: 0,
            said: None,
            referred: 0,
            back: None,
            token: None,
        }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        if self.reason == Reason::Lost { Purpose::Rejoin } else { Purpose::Join }
    }

    /// One that voted starts again, too, and asks this one: it is the next but one to be asked,
    /// since others may be silent for long.
    pub(crate) fn heard_of(&mut self, key: &HostKey) {
        let known = self.others.iter().position(|(_, other)| other == key);
        let votes = |back: &Return| {
            back.saved.voters_left().is_some_and(|mut voters| voters.any(|voter| *voter == key.0))
        };
        if let Some(at) = known.filter(|at| *at > 1 && self.back.as_deref().is_some_and(votes))
            && let Some(other) = self.others.remove(at)
        {
            self.others.insert(1, other);
        }
    }

    /// Turns to the next one that may lead.
    pub(crate) fn turn(&mut self) {
        if let Some((addr, key)) = self.others.pop_front() {
            self.others.push_back((self.addr, self.key));
            (self.addr, self.key) = (addr, key);
        }
    }

    /// One that does not lead says who does: that one is the next to be asked; or that it starts
    /// again, too. Gives the refusal as people may read it.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        own: HostKey,
        failure: ConnectFailure,
    ) -> ConnectFailure {
        if let ConnectFailure::Refused(Refusal { code: refusal::RETURNING, text }) = &failure {
            if let (Some(kept), Some(back)) = (KeptTo::parse(text), &mut self.back)
                && back.saved.voters_left().is_some_and(|mut v| v.any(|key| *key == self.key.0))
            {
                back.heard.insert(self.key.0, (kept, now));
            }
            return ConnectFailure::Refused(Refusal {
                code: refusal::RETURNING,
                text: RETURNING.into(),
            });
        }
        if let Some(back) = &mut self.back {
            back.forget(&self.key.0);
        }
        let ConnectFailure::Refused(Refusal { code: refusal::REFERRED, text }) = &failure else {
            return failure;
        };
        let Some(referral) = Referral::parse(text) else { return failure };
        if referral.key == own {
            // It has not noticed yet that the leader that this host was is gone.
            return ConnectFailure::Refused(referral.refusal());
        }
        let mut to = (referral.addr, referral.key);
        let known = self.others.iter().position(|(_, key)| *key == referral.key);
        if let Some(known) = known.and_then(|known| self.others.remove(known)) {
            // Where it is reached from here, this host knows better than the one that refers to it.
            to = known;
        } else if self.referred < REFERRED_MAX {
            self.referred += 1;
        } else {
            return ConnectFailure::Refused(referral.refusal());
        }
        self.others.push_front(to);
        ConnectFailure::Refused(referral.refusal())
    }

    /// What a newcomer does that was told to join, and was not let in.
    pub(crate) fn next(&mut self, now: Instant, failure: &ConnectFailure) -> Next {
        match failure {
            ConnectFailure::Refused(r) if asks_on(r.code) => {
                self.said = Some(failure.clone());
            }
            // It knows best: it leads, or speaks another language.
            ConnectFailure::Refused(_) | ConnectFailure::Version(_) => return Next::Refused,
            ConnectFailure::NoAnswer | ConnectFailure::Yielded | ConnectFailure::WrongKey => {}
        }
        self.turn();
        self.asked += 1;
        if self.asked <= self.others.len() {
            return Next::Another;
        }
        self.asked = 0;
        let several = !self.others.is_empty();
        let goes_on = several && self.said.is_some() && now.since(self.since) < ELECT_FOR;
        if goes_on { Next::Again } else { Next::Nobody }
    }

    /// Why none has let it in: who said something says more than who said nothing.
    pub(crate) fn why(&mut self, last: ConnectFailure) -> ConnectFailure {
        self.said.take().unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_goes_is_said_in_a_refusal_and_nothing_else_is_taken_for_that() {
        let kept = KeptTo { term: u64::MAX, life: 0, last: (7, u64::MAX), lives: true };
        assert_eq!(KeptTo::parse(&kept.emit()), Some(kept));
        let said = kept.emit();
        for wrong in
            ["", " ", "1 2 3 4", &said[1..], &said[..said.len() - 1], &said.replace('7', "-7")]
        {
            assert_ne!(KeptTo::parse(wrong), Some(kept), "{wrong:?}");
        }
        assert_eq!(KeptTo::parse(&format!("{}9 1 1 1 0 {RETURNING}", u64::MAX)), None);
    }

    #[test]
    fn those_that_may_lead_are_tried_in_turn_and_the_first_again() {
        let at = |n: u8| (SocketAddr::from(([10, 0, 0, n], 7077)), HostKey([n; 32]));
        let (addr, key) = at(1);
        let mut joining = Joining::again(Instant::ZERO, addr, key);
        joining.turn();
        assert_eq!((joining.addr, joining.key), at(1), "there is no other");
        joining.others.extend([at(2), at(3)]);
        let tried = [(); 4].map(|()| {
            joining.turn();
            (joining.addr, joining.key)
        });
        assert_eq!(tried, [at(2), at(3), at(1), at(2)]);
        assert_eq!(joining.purpose(), Purpose::Rejoin);
    }
}
