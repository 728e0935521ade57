//! Who sends next on a link: a place of its own between a link's driver and the machines.
//!
//! A driver that drains (see [`machine`](crate::machine)) asks its link's [`Egress`] what to do:
//!
//! ```text
//! machine ── Head: what a reserved channel would send next ──▶ egress
//! driver  ◀─ Decision: a Grant, not before an instant, nothing ── egress
//! machine ◀─ Grant ── driver ── what came of it, as sealed ──▶ egress
//! ```
//!
//! What was not granted stays in the machine, where it can still be given up, repaired in another
//! order or sent by another link: the queue that matters is ours. [`Free`] grants whatever fits,
//! as long as anything comes of it; it is a plain value, so that an unreserved link costs no
//! virtual call. What paces and reserves is `towpath_node::egress`.

use towpath_wire::{ChannelId, Instant, LinkId};

use crate::id::AssociationId;
use crate::machine::{Grant, Transmit};

/// What a reserved channel would send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The channel's association.
    pub association: AssociationId,
    /// The channel.
    pub channel: ChannelId,
    /// Bytes of its next datagram, from packet header to tag: what will be sealed in a grant of
    /// so many.
    pub bytes: u32,
    /// When what it begins with began to wait.
    pub since: Instant,
}

/// What a driver is to do next.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// Poll the machine with this grant, and tell what came of it.
    Grant(Grant),
    /// Nothing before then.
    Wait(Instant),
    /// Nothing until the machine was called, or told of a head.
    Idle,
}

/// Decides for one link. The driver calls, each time that it drains: `woken`, `ready` for each
/// [`Head`], then `next` and, after a grant, `ready` for new heads and `sent`, until it is told to
/// wait or that nothing is left. So a grant of which nothing came is not given again before
/// `woken` or `ready`.
pub trait Egress {
    /// False: no channel can be reserved here, and heads need not be asked for.
    const RESERVES: bool;

    /// The machine was called, or time has passed: it may have more than when it was last asked.
    fn woken(&mut self);

    /// A reserved channel has something. Each channel has one head at most: the next one is told
    /// after this one was granted.
    fn ready(&mut self, now: Instant, head: Head);

    /// Who sends next.
    fn next(&mut self, now: Instant) -> Decision;

    /// What came of a grant; `None`: there was nothing for it.
    fn sent(&mut self, now: Instant, grant: &Grant, train: Option<&Transmit>);
}

/// An unreserved link: whatever fits, in turn, as fast as the link takes it.
#[derive(Clone, Copy, Debug)]
pub struct Free {
    link: LinkId,
    idle: bool,
}

impl Free {
    /// For `link`.
    pub const fn new(link: LinkId) -> Self {
        Self { link, idle: false }
    }
}

impl Egress for Free {
    const RESERVES: bool = false;

    fn woken(&mut self) {
        self.idle = false;
    }

    fn ready(&mut self, _: Instant, _: Head) {}

    fn next(&mut self, _: Instant) -> Decision {
        if self.idle { Decision::Idle } else { Decision::Grant(Grant::free(self.link)) }
    }

    fn sent(&mut self, _: Instant, _: &Grant, train: Option<&Transmit>) {
        self.idle = train.is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_link_grants_until_nothing_comes_of_it_and_again_when_woken() {
        let (now, mut free) = (Instant::ZERO, Free::new(LinkId(3)));
        let train = Transmit {
            link: LinkId(3),
            remote: ([10, 0, 0, 1], 1).into(),
            segment: 100,
            len: 100,
            tos: 0,
            not_before: now,
        };
        for train in [Some(&train), None] {
            let Decision::Grant(grant) = free.next(now) else { panic!("it grants") };
            assert_eq!((grant.link, grant.bytes, grant.association), (LinkId(3), usize::MAX, None));
            free.sent(now, &grant, train);
        }
        assert!(matches!(free.next(now), Decision::Idle));
        free.woken();
        assert!(matches!(free.next(now), Decision::Grant(_)));
    }
}
