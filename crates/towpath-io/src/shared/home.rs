//! A task's own segment.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::thread::sched_getcpu;

use super::arena::Arena;
use super::card::OwnCard;
use super::inbound::Inbound;
use super::ledger::Ledger;
use super::outbound::Outbound;
use super::pair::{self, PairFds, PeerCard};
use super::segment::{OpenError, open_task};

/// A task's own segment: its card, its ledger, and the arena that its messages stand in.
#[derive(Debug)]
pub struct Home {
    card: OwnCard,
    ledger: Ledger,
    arena: Arena,
}

impl Home {
    /// Maps the segment. It is opened once: a second writer would spoil what the first one wrote.
    pub fn open(owner: OwnedFd) -> Result<Self, OpenError> {
        let (memory, shape) = open_task(owner, true)?;
        let (card, ledger) = (OwnCard::new(Arc::clone(&memory)), Ledger::new(Arc::clone(&memory)));
        Ok(Self { card, ledger, arena: Arena::new(memory, shape) })
    }

    /// Maps what a pair with a neighbour needs. The own half is opened once: a second writer would
    /// spoil what the first one wrote.
    pub fn pair(&self, fds: PairFds) -> Result<(Outbound, Inbound, PeerCard), OpenError> {
        pair::open(&self.arena, fds)
    }

    /// What neighbours see of this task.
    pub fn card(&self) -> &OwnCard {
        &self.card
    }

    /// Says on the card that the task runs, and where it does.
    pub fn run(&self) {
        self.card.run_on(sched_getcpu() as u32);
    }

    /// What it says of its direct routes.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where its messages stand.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }
}
