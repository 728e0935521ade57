//! Hosts that crash and start again: with what their disks have, or with wiped ones, which makes
//! them newcomers.

use std::ops::Range;
use std::time::Duration;

use towpath_node::{JoinTarget, Node, NodeConfig, Saved};
use towpath_proto::Rng;

use super::program::Stage;
use super::run::{CALL_REBOOT, Run, VM_KEY, crypto};
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
    /// All that keep the log do, none with a wiped disk.
    all: bool,
}

impl Restart {
    /// `shared`: others than the founder may lead. Where none does, it keeps its disk: without it
    /// there is nothing to come back to.
    pub(super) fn draw(rng: &mut Rng, hosts: usize, (all, shared): (bool, bool)) -> Self {
        let (host, ms) = (rng.below(hosts as u64) as usize, between(rng, 50, 3000));
        Self { host, ms, wiped: rng.below(3) == 0 && (shared || host > 0), all }
    }

    /// Hosts that may be lost for it.
    pub(super) fn strikes(self, hosts: usize) -> Range<usize> {
        if self.all { 0..hosts } else { self.host..self.host + 1 }
    }
}

/// How a host began, so that it can again.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) config: NodeConfig,
    /// Of a newcomer; whoever was one of the first takes another's token.
    pub(super) target: Option<JoinTarget>,
}

/// Hosts and their lives. Invariant: `left` is of hosts in `down`.
#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) begun: Vec<Begun>,
    /// Hosts that are gone for good.
    pub(super) crashed: Vec<usize>,
    /// Hosts that are gone and start again, by the fault that did it, with what they kept.
    down: Vec<(usize, usize, Option<Saved>)>,
    starts: u64,
}

impl Lives {
    pub(super) fn of(begun: Vec<Begun>) -> Self {
        Self { begun, ..Self::default() }
    }
}

impl Run<'_> {
    /// The fault of this number: who it meets is gone. False where nobody may be now.
    pub(super) fn stop(&mut self, number: usize, restart: Restart) -> bool {
        if !self.may_crash() {
            return false;
        }
        let keeps = |host: &usize| {
            let node = self.world.hosts[*host].node.as_ref();
            node.is_some_and(|node| node.log_name().is_some())
        };
        let all = 0..self.ids.len();
        let met: Vec<usize> =
            if restart.all { all.filter(keeps).collect() } else { vec![restart.host] };
        for host in met {
            if self.world.hosts[host].node.is_none() {
                continue;
            }
            let h = &self.world.hosts[host];
            let left = h.disk.as_ref().zip(h.node.as_ref()).and_then(|(d, node)| d.left_by(node));
            let left = left.filter(|_| restart.all || !restart.wiped);
            self.world.crash(host);
            self.is_gone(host);
            self.lives.down.push((number, host, left));
        }
        true
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
        let node = match left {
            Some(saved) => Node::found_again(now, config, crypto(seed, host), rng, VM_KEY, saved)
                .expect("it is its own"),
            None => Node::join(now, config, crypto(seed, host), rng, self.target(host)),
        };
        self.world.hosts[host].disk = Some(Disk::default());
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
