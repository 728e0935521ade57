//! Memory that a message is built in.

use towpath_task::{Loan, Sealed};

/// Messages up to this length, in bytes, are copied into a ring between tasks of one host: where
/// they were built makes no difference.
const SHORT: usize = 4 << 10;
/// Room behind a row, in bytes: for a few numbers that follow it, it need not move.
const SLACK: usize = 64;

/// The bytes of a message that is built here.
#[derive(Debug)]
pub(super) enum Storage {
    /// In memory of this process' own.
    Own(Vec<u8>),
    /// Where tasks of this host can read it; `len` bytes of it are written.
    Loan { loan: Loan, len: usize },
    /// There too, and sent: what is appended goes elsewhere.
    Sealed(Sealed),
}

impl Storage {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Loan { loan, len } => &loan[..*len],
            Self::Sealed(sealed) => sealed,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Loan { len, .. } => *len,
            Self::Sealed(sealed) => sealed.len(),
        }
    }

    /// How long a loan should be before `more` bytes are appended; `None`: none is needed.
    pub(super) fn wants(&self, more: usize) -> Option<usize> {
        let wanted = self.len().saturating_add(more);
        let wants = match self {
            Self::Loan { loan, .. } => wanted > loan.len(),
            Self::Own(_) | Self::Sealed(_) => wanted > SHORT && more >= self.len(),
        };
        // A power of two is what a loan takes up in any case.
        wants.then(|| wanted.saturating_add(SLACK).checked_next_power_of_two()).flatten()
    }

    /// Moves into a loan, which is long enough.
    pub(super) fn move_to(&mut self, mut loan: Loan) {
        let len = self.len();
        loan[..len].copy_from_slice(self.bytes());
        *self = Self::Loan { loan, len };
    }

    /// In memory of this process' own.
    pub(super) fn own(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Self::Own(_)) {
            *self = Self::Own(self.bytes().to_vec());
        }
        match self {
            Self::Own(bytes) => bytes,
            _ => unreachable!("it has just been moved there"),
        }
    }

    /// To be sent where it is, if that is where tasks of this host can read it.
    pub(super) fn seal(&mut self) -> Option<&Sealed> {
        if let Self::Loan { .. } = self
            && let Self::Loan { loan, len } = std::mem::replace(self, Self::Own(Vec::new()))
        {
            *self = Self::Sealed(loan.seal(len));
        }
        if let Self::Sealed(sealed) = self { Some(sealed) } else { None }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if let Self::Loan { loan, len } = self
            && bytes.len() <= loan.len() - *len
        {
            loan.write(*len, bytes);
            *len += bytes.len();
            return;
        }
        self.own().extend_from_slice(bytes);
    }

    /// Appends zeros up to a multiple of four bytes.
    pub(super) fn pad(&mut self) {
        self.append(&[0; 3][..self.len().next_multiple_of(4) - self.len()]);
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Own(bytes) => bytes.clear(),
            Self::Loan { len, .. } => *len = 0,
            Self::Sealed(_) => *self = Self::Own(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Lend(usize),
        Seal,
        Own,
        Pad,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_usize..40).prop_map(Step::Append),
            2 => (0_usize..80).prop_map(Step::Lend),
            1 => Just(Step::Seal),
            1 => Just(Step::Own),
            1 => Just(Step::Pad),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        /// Wherever the bytes are, they are what was appended.
        #[test]
        fn bytes_stay_through_moves(steps in prop::collection::vec(step(), 0..40)) {
            let (mut storage, mut plain) = (Storage::Own(Vec::new()), Vec::new());
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Append(len) => {
                        storage.append(&vec![at as u8 + 1; len]);
                        plain.resize(plain.len() + len, at as u8 + 1);
                    }
                    Step::Lend(more) => storage.move_to(Loan::own(plain.len() + more)),
                    Step::Seal => {
                        let placed = !matches!(storage, Storage::Own(_));
                        prop_assert_eq!(storage.seal().map(|sealed| sealed.to_vec()),
                            placed.then(|| plain.clone()));
                    }
                    Step::Own => prop_assert_eq!(&*storage.own(), &plain),
                    Step::Pad => {
                        storage.pad();
                        plain.resize(plain.len().next_multiple_of(4), 0);
                    }
                    Step::Clear => {
                        storage.clear();
                        plain.clear();
                    }
                }
                prop_assert_eq!(storage.bytes(), &*plain);
                prop_assert_eq!(storage.len(), plain.len());
            }
        }
    }

    #[test]
    fn loans_are_asked_for_when_they_pay() {
        let mut storage = Storage::Own(Vec::new());
        assert_eq!((storage.wants(SHORT), storage.wants(SHORT + 1)), (None, Some(2 * SHORT)));
        assert_eq!(storage.wants(65_536), Some(131_072));
        assert_eq!(storage.wants(usize::MAX), None);
        storage.append(&[1; 3000]);
        assert_eq!((storage.wants(2000), storage.wants(3000)), (None, Some(8192)));
        storage.move_to(Loan::own(6000));
        assert_eq!((storage.wants(3000), storage.wants(6000)), (None, Some(16_384)));
        storage.seal();
        assert_eq!((storage.wants(1), storage.wants(4000)), (None, Some(8192)));
    }
}
