//! Tokens that were issued: which are good, until when and for how many newcomers.
//!
//! Part of the [control state](crate::control) that only those have who keep the log: whoever comes
//! to lead admits newcomers by the same list, and counts on where the one before has stopped. A
//! token's secret is not in it: that comes of the VM key, its expiry and its nonce. One that is not
//! in the list admits nobody: so it can be revoked.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most tokens that are good at once.
pub const INVITATIONS_MAX: usize = 1024;

/// A token that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Which; it goes over the network in clear.
    pub nonce: [u8; 16],
    /// When it ends, in seconds since the Unix epoch by the clock of whoever leads.
    pub expiry_unix_s: u64,
    /// Newcomers that it admits at most; `None`: any number.
    pub uses_max: Option<u32>,
    /// Newcomers that it has admitted.
    pub uses: u32,
}

impl Issued {
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
    /// It is not in the list.
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

    /// All of them, those that are over, too.
    pub fn iter(&self) -> impl Iterator<Item = &Issued> {
        self.by_nonce.values()
    }

    /// Whether a token is in the list.
    pub fn has(&self, nonce: &[u8; 16]) -> bool {
        self.by_nonce.contains_key(nonce)
    }

    /// Counts changes: two lists of one state's life with the same count are the same.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether no more are in it than may be.
    pub(crate) fn is_within_limit(&self) -> bool {
        self.by_nonce.len() <= INVITATIONS_MAX
    }

    /// Whether there is room for one more at this time: those that are over do not count.
    pub fn has_room(&self, at_unix_s: u64) -> bool {
        let good = self.iter().filter(|issued| issued.expiry_unix_s > at_unix_s);
        good.count() < INVITATIONS_MAX
    }

    /// Why a token admits nobody (any more), if it does not.
    pub fn judge(&self, shown: &Shown) -> Result<(), NotGood> {
        let issued = self.by_nonce.get(&shown.nonce).ok_or(NotGood::Revoked)?;
        if issued.expiry_unix_s <= shown.at_unix_s {
            return Err(NotGood::Expired);
        }
        if issued.is_used_up() { Err(NotGood::UsedUp) } else { Ok(()) }
    }

    /// A token is good from now on; false: so many are that none has room. Those that are over go
    /// where they are in the way, not before: the clock of the next leader may be behind.
    pub(crate) fn issue(&mut self, issued: Issued, at_unix_s: u64) -> bool {
        if self.by_nonce.len() >= INVITATIONS_MAX && !self.has(&issued.nonce) {
            self.by_nonce.retain(|_, issued| issued.expiry_unix_s > at_unix_s);
            if self.by_nonce.len() >= INVITATIONS_MAX {
                return false;
            }
        }
        self.by_nonce.insert(issued.nonce, issued);
        self.changes += 1;
        true
    }

    /// A token is good no longer; false where it was not anyway.
    pub(crate) fn revoke(&mut self, nonce: &[u8; 16]) -> bool {
        let revoked = self.by_nonce.remove(nonce).is_some();
        self.changes += u64::from(revoked);
        revoked
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
            Issued { nonce, expiry_unix_s: 9, uses_max, uses: 0 }
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
    }
}
