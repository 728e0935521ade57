//! Tokens that were issued: which are good, until when and for how many newcomers.
//!
//! Part of the [control state](crate::control) that only those have who keep the log: whoever comes
//! to lead admits newcomers by the same list, and counts on where the one before has stopped. A
//! token's secret is drawn for it, and is in the list: who keeps the log no longer can make nothing
//! of those that are issued later. One that is not in the list admits nobody; one that is revoked
//! stays in it as long as there is room, so that whoever comes with it hears why.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

/// Most tokens that are good at once.
pub const INVITATIONS_MAX: usize = 1024;

/// What whoever comes with a token has to know. Not printable.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A token that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Which; it goes over the network in clear.
    pub nonce: [u8; 16],
    /// Drawn for it.
    pub secret: Secret,
    /// When it ends, in seconds since the Unix epoch by the clock of whoever leads.
    pub expiry_unix_s: u64,
    /// Newcomers that it admits at most; `None`: any number.
    pub uses_max: Option<u32>,
    /// Newcomers that it has admitted.
    pub uses: u32,
    /// It admits nobody any more.
    pub revoked: bool,
}

impl Issued {
    const fn is_good(&self, at_unix_s: u64) -> bool {
        !self.revoked && self.expiry_unix_s > at_unix_s
    }

    fn is_used_up(&self) -> bool {
        self.uses_max.is_some_and(|max| self.uses >= max)
    }
}

/// A token that a newcomer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Which.
    pub nonce: [u8; 16],
    /// When it came, by the clock of whoever leads, in seconds since the Unix epoch.
    pub at_unix_s: u64,
}

/// Why a token admits nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGood {
    /// Its time is over.
    Expired,
    /// It is not in the list, or revoked there.
    Revoked,
    /// Others have used it up.
    UsedUp,
}

impl NotGood {
    /// What its holder is told.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Expired => "the token has expired",
            Self::Revoked => "the token has been revoked",
            Self::UsedUp => "the token has admitted as many hosts as it was good for",
        }
    }
}

/// The list. Invariants: at most [`INVITATIONS_MAX`] tokens; of none `uses > uses_max`, but for one
/// that was put there so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitations {
    by_nonce: BTreeMap<[u8; 16], Issued>,
    changes: u64,
}

impl Invitations {
    /// A list as it was kept, so many at most.
    pub fn of(issued: impl IntoIterator<Item = Issued>) -> Self {
        let issued = issued.into_iter().take(INVITATIONS_MAX);
        Self { by_nonce: issued.map(|issued| (issued.nonce, issued)).collect(), changes: 0 }
    }

    /// The same, with what else was kept of it: no token admits more hosts by that than by either.
    #[must_use]
    pub fn and(mut self, kept: impl IntoIterator<Item = Issued>) -> Self {
        for other in kept {
            if let Some(issued) = self.by_nonce.get_mut(&other.nonce) {
                issued.uses = issued.uses.max(other.uses);
                issued.revoked |= other.revoked;
            } else if self.by_nonce.len() < INVITATIONS_MAX {
                self.by_nonce.insert(other.nonce, other);
            }
        }
        self
    }

    /// All of them, those that are over, too, or revoked.
    pub fn iter(&self) -> impl Iterator<Item = &Issued> {
        self.by_nonce.values()
    }

    /// Whether a token is in the list, and not revoked.
    pub fn has(&self, nonce: &[u8; 16]) -> bool {
        self.by_nonce.get(nonce).is_some_and(|issued| !issued.revoked)
    }

    /// The secret of a token, good or not.
    pub fn secret(&self, nonce: &[u8; 16]) -> Option<&Secret> {
        self.by_nonce.get(nonce).map(|issued| &issued.secret)
    }

    /// Counts changes: two lists of one state's life with the same count are the same.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether no more are in it than may be.
    pub(crate) fn is_within_limit(&self) -> bool {
        self.by_nonce.len() <= INVITATIONS_MAX
    }

    /// Whether there is room for one more at this time: those that are over, or revoked, do not
    /// count.
    pub fn has_room(&self, at_unix_s: u64) -> bool {
        self.iter().filter(|issued| issued.is_good(at_unix_s)).count() < INVITATIONS_MAX
    }

    /// Why a token admits nobody (any more), if it does not.
    pub fn judge(&self, shown: &Shown) -> Result<(), NotGood> {
        let issued = self.by_nonce.get(&shown.nonce);
        let issued = issued.filter(|issued| !issued.revoked).ok_or(NotGood::Revoked)?;
        if issued.expiry_unix_s <= shown.at_unix_s {
            return Err(NotGood::Expired);
        }
        if issued.is_used_up() { Err(NotGood::UsedUp) } else { Ok(()) }
    }

    /// A token is good from now on; false: so many are that none has room. Of those that are over,
    /// or revoked, the one that ends first goes where there is no room, none before: the clock of
    /// the next leader may be behind, and a host that was let in by one, and is known, comes back
    /// by it.
    pub(crate) fn issue(&mut self, issued: Issued, at_unix_s: u64) -> bool {
        if self.by_nonce.len() >= INVITATIONS_MAX && !self.by_nonce.contains_key(&issued.nonce) {
            let over = self.iter().filter(|issued| !issued.is_good(at_unix_s));
            let first = over.min_by_key(|issued| (issued.expiry_unix_s, issued.nonce));
            let Some(first) = first.map(|issued| issued.nonce) else { return false };
            self.by_nonce.remove(&first);
        }
        self.by_nonce.insert(issued.nonce, issued);
        self.changes += 1;
        true
    }

    /// A token is good no longer; false where it was not anyway.
    pub(crate) fn revoke(&mut self, nonce: &[u8; 16]) -> bool {
        let issued = self.by_nonce.get_mut(nonce).filter(|issued| !issued.revoked);
        let revoked = issued.map(|issued| issued.revoked = true).is_some();
        self.changes += u64::from(revoked);
        revoked
    }

    /// None is good any longer: how many were, or are over.
    pub(crate) fn revoke_all(&mut self) -> usize {
        let nonces: Vec<_> = self.by_nonce.keys().copied().collect();
        nonces.iter().filter(|nonce| self.revoke(nonce)).count()
    }

    /// A newcomer was admitted by a token.
    pub(crate) fn count(&mut self, nonce: &[u8; 16]) {
        if let Some(issued) = self.by_nonce.get_mut(nonce) {
            issued.uses = issued.uses.saturating_add(1);
            self.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_the_list_counts_and_its_words_say_why_a_token_is_no_good() {
        let issued = |nonce: u8| {
            let (nonce, uses_max) = ([nonce; 16], Some(1));
            Issued {
                nonce,
                secret: Secret([7; 32]),
                expiry_unix_s: 9,
                uses_max,
                uses: 0,
                revoked: false,
            }
        };
        let mut list = Invitations::default();
        assert!(list.issue(issued(1), 0) && list.issue(issued(2), 0));
        assert_eq!(list.changes(), 2);
        list.count(&[2; 16]);
        list.count(&[3; 16]);
        assert_eq!(list.changes(), 3);
        let judge = |list: &Invitations, nonce: u8, at_unix_s| {
            let verdict = list.judge(&Shown { nonce: [nonce; 16], at_unix_s });
            verdict.map_err(NotGood::words)
        };
        assert_eq!(judge(&list, 1, 8), Ok(()));
        assert_eq!(judge(&list, 1, 9), Err("the token has expired"));
        let used = "the token has admitted as many hosts as it was good for";
        assert_eq!(judge(&list, 2, 8), Err(used));
        assert!(list.revoke(&[1; 16]) && !list.revoke(&[1; 16]));
        assert_eq!((list.changes(), judge(&list, 1, 8)), (4, Err("the token has been revoked")));
        // Whoever comes with it hears that.
        assert!(!list.has(&[1; 16]) && list.secret(&[1; 16]).is_some());
        assert!(list.issue(issued(3), 0));
        assert_eq!((list.revoke_all(), list.revoke_all(), list.changes()), (2, 0, 7));
        // What was kept of it twice.
        let (mut used, mut gone) = (issued(3), issued(4));
        (used.uses, gone.revoked) = (1, true);
        let both = Invitations::of([issued(3), issued(4), issued(5)]).and([used, gone, issued(6)]);
        let verdicts = [3, 4, 5, 6].map(|nonce| judge(&both, nonce, 8).is_ok());
        assert_eq!(verdicts, [false, false, true, true]);
        assert!(!alloc::format!("{list:?}").contains("7, 7"), "a secret is not printed");
    }
}
