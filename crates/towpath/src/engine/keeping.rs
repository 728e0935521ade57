//! What whoever may lead brings to its disk while it works, and what its end leaves for its next
//! life.

use std::path::PathBuf;

use towpath_node::Node;
use towpath_wire::{HostId, Instant};

use super::core::{Engine, PART_WITHIN};
use crate::keeper::{Keeper, Kept};
use crate::ledger::Ledger;
use crate::protocol::HostEvent;
use crate::{ledger, log, table};

/// What a host keeps over its lives.
pub(super) struct Keeping {
    /// The daemon's directory.
    dir: PathBuf,
    /// Keeps files, where this host ever kept any.
    pub(super) keeper: Option<Keeper>,
    /// It kept what a founder keeps, as of the last turn.
    keeps: bool,
    /// Nothing of the virtual machine is to be known at the next start.
    pub(super) is_over: bool,
    /// That files cannot be kept at all is said once.
    told: bool,
}

impl Keeping {
    /// For a daemon in `dir`; `keeper`: a founder's.
    pub(super) const fn new(dir: PathBuf, keeper: Option<Keeper>) -> Self {
        Self { dir, keeps: keeper.is_some(), keeper, is_over: false, told: false }
    }

    /// Begins to keep what whoever may lead keeps, and ends with it, as this host comes to that and
    /// ceases to. Gives a journal that has begun: it has nobody to wake yet.
    fn follow(&mut self, node: &Node) -> Option<&Ledger> {
        let keeps = node.keeps();
        if keeps && self.keeper.is_none() {
            self.keeper = self.said(Keeper::start(&self.dir, None));
        }
        let keeper = self.keeper.as_mut()?;
        if keeps != self.keeps {
            self.keeps = keeps;
            match node.vm_key().filter(|_| !node.is_founder()) {
                Some(key) => keeper.keep(Kept::Key, key.to_vec(), None),
                None if keeps => {}
                None => keeper.forget(),
            }
        }
        match (node.keeps_log(), &keeper.ledger) {
            (true, None) if keeper.has_cleared() => {
                let begun = Ledger::begin(&self.dir);
                self.keeper.as_mut()?.ledger = self.said(begun);
                self.keeper.as_ref()?.ledger.as_ref()
            }
            (false, Some(_)) => {
                keeper.clear_ledger();
                None
            }
            _ => None,
        }
    }

    fn said<T, E: std::fmt::Display>(&mut self, tried: Result<T, E>) -> Option<T> {
        tried
            .inspect_err(|why| {
                if !std::mem::replace(&mut self.told, true) {
                    log!("nothing is kept for the next start: {why}");
                }
            })
            .ok()
    }

    /// This host is another one from here on: what is of an earlier one, and is not gone on with,
    /// would be mistaken for what the virtual machine has now.
    fn begins_anew(&mut self, node: &Node) {
        if !node.keeps_log() {
            ledger::remove(&self.dir);
        }
        match &mut self.keeper {
            _ if node.keeps() => {}
            Some(keeper) => keeper.forget(),
            None => table::remove(&self.dir),
        }
    }
}

impl Engine {
    /// This host is part of the virtual machine, or again, as another one.
    pub(super) fn has_joined(&mut self, me: HostId, again: bool) {
        log!("joined as {me}{}", if again { " again" } else { "" });
        self.keeping.begins_anew(&self.node);
        // Who watched before may know it by the id of an earlier life.
        let own = self.node.hosts().find(|host| host.id == me).cloned();
        if let Some(own) = own {
            self.tell_watchers(&HostEvent::Added(own));
        }
    }

    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.keeping.keeper.as_mut()?.ledger.as_mut()
    }

    /// Whoever keeps the log has what it decides written down, and goes on with what is.
    pub(super) fn look_at_ledger(&mut self) {
        // What it kept is of use at its next start where it is taken out because it ends.
        let follows = if self.ending { None } else { self.keeping.follow(&self.node) };
        if let Some(ledger) = follows {
            let waker = self.waker.clone();
            ledger.ring(move || waker.wake());
        }
        let now = self.clock.now();
        let keeper = self.keeping.keeper.as_mut();
        let Some(ledger) = keeper.and_then(|keeper| keeper.ledger.as_mut()) else {
            return self.node.wrote(now, None, &mut self.memory);
        };
        ledger.look_at(now, &mut self.node, &mut self.memory);
    }

    /// What was decided since is handed over before the engine waits for something else.
    pub(super) fn hand_over_ledger(&mut self) {
        let now = self.clock.now();
        let Some(keeper) = &mut self.keeping.keeper else { return };
        if let Some(ledger) = &mut keeper.ledger {
            ledger.hand_over(now, &mut self.node);
            // What is not written is gone on with in the next turn, for which nobody rings.
            self.pending.rushed |= self.node.waits_for_disk() && !ledger.is_well();
        }
        keeper.look_at(&mut self.node);
    }

    /// When its disk is not waited for any more.
    pub(super) fn disk_stalls_at(&self) -> Option<Instant> {
        self.keeping.keeper.as_ref()?.ledger.as_ref()?.due()
    }

    /// Whether all that had been decided when it was told to end is written, as far as it can be.
    pub(super) fn has_written(&mut self) -> bool {
        match (self.node.decided(), self.ledger_mut()) {
            (Some((asked, effective)), Some(ledger)) => {
                effective >= *ledger.ends_at.get_or_insert(asked)
            }
            (None, Some(ledger)) => ledger.has_written(),
            _ => true,
        }
    }

    /// Where no other host is left there is nobody to come back to, unless somebody was deleted who
    /// may not have heard of it. A virtual machine that is over may leave lost hosts behind, too.
    pub(super) fn has_nobody_to_come_back_to(&self) -> bool {
        let sole = self.node.hosts().count() == 1;
        if self.pending.is_deleted {
            return true;
        }
        let leaves = self.node.me().is_some() && !self.node.is_frozen();
        if self.keeping.is_over && !self.node.is_founder() && leaves {
            // Another one leads, and needs this one for nothing; or nobody is left.
            let leads = self.node.leads();
            return !leads && self.node.is_let_go() || sole && self.node.unheard().is_empty();
        }
        match self.node.saved() {
            // Another one leads: this host comes back to it, unless that one has deleted it.
            Some(_) if self.keeping.is_over && !self.node.leads() && !self.node.is_frozen() => {
                !self.node.is_listed()
            }
            Some(saved) if self.keeping.is_over => {
                saved.is_alone() && self.node.unheard().is_empty()
            }
            Some(saved) => sole && !saved.names_deleted(),
            None => sole,
        }
    }

    /// Where others keep the log, too, another one leads before this host ends, and they can decide
    /// without it, if that can be within a moment.
    pub(super) fn may_end(&mut self) -> bool {
        let now = self.clock.now();
        let by = *self.pending.ends_by.get_or_insert(now + PART_WITHIN);
        let may = self.pending.is_deleted || now >= by || self.node.may_end(now, &mut self.memory);
        if may {
            // The others know that it ends before its tasks do, which takes time.
            let _ = self.transmit();
        }
        may
    }
}
