//! A join under way, or a return.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

use towpath_proto::{AssociationId, HostKey, Psk};
use towpath_wire::{Admission, Instant};

use crate::hello::Purpose;

/// What brings a host to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was told to.
    Told,
    /// The log has it as lost.
    Lost,
    /// It founded the virtual machine, and others may lead that by now.
    Founded,
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
}

impl Joining {
    /// That of a host that the log has as lost.
    pub(crate) fn again(now: Instant, addr: SocketAddr, key: HostKey) -> Self {
        let (admission, psk) = (Admission::Member, Psk::MEMBER);
        let (id, retry_at, others, reason) = (None, Some(now), VecDeque::new(), Reason::Lost);
        Self { id, retry_at, addr, key, others, admission, psk, reason }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        if self.reason == Reason::Lost { Purpose::Rejoin } else { Purpose::Join }
    }

    /// Turns to the next one that may lead.
    pub(crate) fn turn(&mut self) {
        if let Some((addr, key)) = self.others.pop_front() {
            self.others.push_back((self.addr, self.key));
            (self.addr, self.key) = (addr, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
