//! Hosts that crash, or are told to end, and start again: with what their disks have, or with wiped
//! ones, which makes them newcomers.

use std::ops::Range;
use std::time::Duration;

use towpath_node::{JoinTarget, Node, NodeConfig, Saved};
use towpath_proto::Rng;
use towpath_wire::{HostId, Instant};

use super::program::Stage;
use super::run::{CALL_END, CALL_REBOOT, Run, VM_KEY, crypto};
use crate::disk::Disk;
use crate::scenario::between;

/// How soon a start is tried again that did not let the host in.
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    host: usize,
    /// How long it is gone.
    pub(super) ms: u64,
    /// Nothing is on its disk any more.
    wiped: bool,
    how: How,
}

/// How it comes to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It crashes.
    Crash,
    /// All that keep the log do, none with a wiped disk.
    PowerCut,
    /// It is told to end, and waits until it may, for [`PARTS`] at most. Its disk is not wiped.
    Told,
}

/// How long a daemon that is told to end waits for the others.
const PARTS: Duration = Duration::from_secs(2);
/// How long it takes to end its tasks: up to three times this.
const ENDS: Duration = Duration::from_millis(150);
/// How often it looks.
const LOOKS: Duration = Duration::from_millis(1);

impl Restart {
    /// `shared`: others than the founder may lead. Where none does, it keeps its disk: without it
    /// there is nothing to come back to.
    pub(super) fn draw(rng: &mut Rng, hosts: usize, (how, shared): (How, bool)) -> Self {
        let (host, ms) = (rng.below(hosts as u64) as usize, between(rng, 50, 3000));
        let waits = if how == How::Told { (PARTS + ENDS * 4).as_millis() as u64 } else { 0 };
        Self { host, ms: ms + waits, wiped: rng.below(3) == 0 && (shared || host > 0), how }
    }

    /// Hosts that may be lost for it.
    pub(super) fn strikes(self, hosts: usize) -> Range<usize> {
        if self.how == How::PowerCut { 0..hosts } else { self.host..self.host + 1 }
    }
}

/// How a host began, so that it can again.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) config: NodeConfig,
    /// Of a newcomer; whoever was one of the first takes another's token.
    pub(super) target: Option<JoinTarget>,
}

/// A host that is told to end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// By this fault.
    number: usize,
    host: usize,
    since: Instant,
    /// It may, and its tasks are ended first, in which time it answers nothing.
    goes: bool,
}

/// Hosts and their lives. Invariant: `left` is of hosts in `down`.
#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) begun: Vec<Begun>,
    /// Hosts that are gone for good.
    pub(super) crashed: Vec<usize>,
    /// Hosts that are gone and start again, by the fault that did it, with what they kept.
    down: Vec<(usize, usize, Option<Saved>)>,
    /// Hosts that are told to end.
    ending: Vec<Ending>,
    /// Those that were, in that life.
    told: Vec<HostId>,
    starts: u64,
}

impl Lives {
    pub(super) fn of(begun: Vec<Begun>) -> Self {
        Self { begun, ..Self::default() }
    }

    /// Whether one is about to end.
    pub(super) fn any_ends(&self) -> bool {
        !self.ending.is_empty()
    }
}

impl Run<'_> {
    /// The fault of this number: who it meets is gone. False where nobody may be now.
    pub(super) fn stop(&mut self, number: usize, restart: Restart) -> bool {
        let host = restart.host;
        if restart.how == How::Told {
            let told = self.lives.ending.iter().any(|ending| ending.host == host);
            let me = self.world.hosts[host].node.as_ref().and_then(Node::me);
            // Who votes, and has crashed, is not lost yet: nobody can know that it does not stay.
            let ended = |id| self.lives.told.contains(&id);
            let runs = me.is_some() && !told && self.voters_but(&ended).is_some();
            if runs {
                let since = self.world.now();
                self.lives.ending.push(Ending { number, host, since, goes: false });
                self.lives.told.extend(me);
                self.ending(host);
            }
            return runs;
        }
        if !self.may_crash() {
            return false;
        }
        let keeps = |host: &usize| {
            let node = self.world.hosts[*host].node.as_ref();
            node.is_some_and(|node| node.log_name().is_some())
        };
        let all = 0..self.ids.len();
        let all_do = restart.how == How::PowerCut;
        let met: Vec<usize> = if all_do { all.filter(keeps).collect() } else { vec![host] };
        for host in met {
            if self.world.hosts[host].node.is_some() {
                self.lives.ending.retain(|ending| ending.host != host);
                self.goes(number, host, all_do || !restart.wiped);
            }
        }
        true
    }

    /// A host is gone, with what is on its disk or not.
    fn goes(&mut self, number: usize, host: usize, keeps: bool) {
        let h = &self.world.hosts[host];
        let left = h.disk.as_ref().zip(h.node.as_ref()).and_then(|(d, node)| d.left_by(node));
        self.world.crash(host);
        self.is_gone(host);
        self.lives.down.push((number, host, left.filter(|_| keeps)));
    }

    /// A host that is told to end does where it may, or has waited long enough.
    pub(super) fn ending(&mut self, host: usize) {
        let told = self.lives.ending.iter().position(|ending| ending.host == host);
        let (Some(at), now) = (told, self.world.now()) else { return };
        let Ending { number, since, goes, .. } = self.lives.ending[at];
        if !goes {
            let may = self.world.with(host, |node, now, memory| node.may_end(now, memory));
            let waits = may == Some(false) && now.since(since) < PARTS;
            let next = if waits { now + LOOKS } else { now + ENDS * (host as u32 % 4) };
            if !waits {
                self.lives.ending[at].goes = true;
                self.world.pause(host, next + LOOKS);
            }
            return self.world.call_at(next, CALL_END | host as u64);
        }
        self.lives.ending.swap_remove(at);
        let ended = self.world.with(host, |node, now, memory| {
            node.comes_back(true);
            node.leave(now, "left", memory);
        });
        if ended.is_some() {
            self.goes(number, host, true);
        }
    }

    /// All tasks of a host have ended with it.
    pub(super) fn is_gone(&mut self, host: usize) {
        self.ledger.host_lost(self.ids[host].expect("it joined"));
        for task in self.tasks.iter_mut().filter(|t| t.host == host) {
            if task.stage != Stage::Over {
                self.over += 1;
                self.ledger.task_ended(task.id, None);
                task.stage = Stage::Over;
            }
        }
    }

    /// Those that a fault has met start again.
    pub(super) fn start_again(&mut self, number: usize) {
        let (back, rest) =
            std::mem::take(&mut self.lives.down).into_iter().partition(|(of, ..)| *of == number);
        self.lives.down = rest;
        let back: Vec<(usize, usize, Option<Saved>)> = back;
        for (_, host, left) in back {
            self.reboot(host, left);
        }
    }

    /// A host that was not let in asks once more.
    pub(super) fn not_let_in(&mut self, host: usize) {
        self.world.crash(host);
        self.world.call_at(self.world.now() + AGAIN, CALL_REBOOT | host as u64);
    }

    pub(super) fn reboot(&mut self, host: usize, left: Option<Saved>) {
        self.lives.starts += 1;
        let (now, seed) = (self.world.local_now(host), self.out.seed);
        let rng = Rng::new(seed, 1 << 20 | self.lives.starts);
        let config = self.lives.begun[host].config.clone();
        let disk = Disk::of(left.clone());
        let node = match left {
            Some(saved) => Node::found_again(now, config, crypto(seed, host), rng, VM_KEY, saved)
                .expect("it is its own"),
            None => Node::join(now, config, crypto(seed, host), rng, self.target(host)),
        };
        self.world.hosts[host].disk = Some(disk);
        self.world.boot(host, node);
    }

    /// Anybody may lead by now: all are asked, whoever leads as far as is known first.
    fn target(&self, host: usize) -> JoinTarget {
        let others = (0..self.ids.len()).filter(|other| *other != host);
        let leads = |other: &usize| {
            let node = self.world.hosts[*other].node.as_ref();
            !node.is_some_and(Node::leads)
        };
        let mut others: Vec<usize> = others.collect();
        others.sort_by_key(leads);
        let known = self.lives.begun[host].target.as_ref();
        let any = self.lives.begun.iter().find_map(|begun| begun.target.as_ref());
        let invitation = known.or(any).expect("one was invited").invitation.clone();
        let at = |other: usize| {
            (self.world.addresses(other)[0], crypto(self.out.seed, other).public_key())
        };
        let mut all = others.into_iter().map(at);
        let (addr, key) = all.next().expect("another host");
        JoinTarget { addr, key, others: all.collect(), invitation }
    }
}
