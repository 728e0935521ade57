//! The end of a run: when it is quiet, and what must be left then.

use std::collections::HashMap;
use std::time::Duration;

use towpath_node::Node;
use towpath_vm::credit::{FIRST_MAX, LOAN_MAX, WINDOW_FAR};
use towpath_vm::members::GRANTED_MAX;
use towpath_vm::talk::CREDIT_FIRST;

use super::program::Stage;
use super::run::Run;

/// What was under way when the last task ended is not what an idle virtual machine does, for so
/// long beyond the time after which a host is lost.
const SETTLING: Duration = Duration::from_secs(2);
/// Bytes of what hosts that keep the log say to each other while nothing happens.
const BEATS_MAX: u64 = 2048;
/// How long it is looked at after that: twice as long as an idle connection is silent.
const IDLE: Duration = Duration::from_secs(50);

/// Most bytes that a daemon holds for tasks of its own, by [`towpath_vm::credit`].
fn held_max(pairs: u64) -> u64 {
    let unasked = (pairs * CREDIT_FIRST).min(FIRST_MAX);
    unasked + (pairs * WINDOW_FAR).min(GRANTED_MAX + pairs * LOAN_MAX)
}

impl Run<'_> {
    /// Nothing is left to do since long enough; counts what an idle virtual machine sends.
    pub(super) fn has_settled(&mut self) -> bool {
        let traffic = (self.world.delivered, self.leader_packets());
        let now = self.world.now();
        let since = *self.settled_since.get_or_insert_with(|| {
            self.settled_at = None;
            now
        });
        let idle = now.since(since);
        let settling = SETTLING + Duration::from_millis(self.scenario.lost_after_ms.into());
        if idle < settling {
            return false;
        }
        let (all, leader) = *self.settled_at.get_or_insert(traffic);
        if idle < settling + IDLE {
            return false;
        }
        let growth = &mut self.out.growth;
        let seconds = IDLE.as_secs_f64();
        growth.idle_datagrams_per_s = (traffic.0 - all) as f64 / seconds;
        // Of associations that ended meanwhile nothing is counted any more.
        growth.idle_leader_packets_per_s = traffic.1.saturating_sub(leader) as f64 / seconds;
        true
    }

    fn leader_packets(&self) -> u64 {
        let node = self.world.hosts.iter().filter_map(|h| h.node.as_ref()).find(|n| n.leads());
        let counters = node.map(Node::counters).into_iter().flatten();
        let wanted = |name: &str| name == "packets_sent" || name == "packets_received";
        counters.filter(|(name, _)| wanted(name)).map(|(_, n)| n).sum()
    }

    /// By host: pairs of tasks that there ever were, the receiver on this host.
    fn pairs_by_host(&self) -> Vec<u64> {
        let mut pairs = vec![0; self.ids.len()];
        for (_, dst) in self.ledger.pairs() {
            if let Some(index) = self.by_id.get(&dst) {
                pairs[self.tasks[*index].host] += 1;
            }
        }
        pairs
    }

    fn living(&self) -> Vec<usize> {
        (0..self.ids.len()).filter(|h| !self.lives.crashed.contains(h)).collect()
    }

    /// One host leads, and all that live follow it; the place of its log.
    fn check_leader(&mut self, living: &[usize]) -> u64 {
        let node = |host: &usize| self.world.hosts[*host].node.as_ref();
        let leaders: Vec<usize> =
            living.iter().filter(|h| node(h).is_some_and(Node::leads)).copied().collect();
        let [leader] = leaders[..] else {
            let keeps = living.iter().filter_map(|h| Some(format!("{h}: {}", node(h)?.voting())));
            let what = format!("hosts {leaders:?} lead: {:?}", keeps.collect::<Vec<_>>());
            self.ledger.violate(what);
            return 0;
        };
        let entries = node(&leader).map_or(0, Node::log_index);
        let id = self.ids[leader];
        let astray = |h: &&usize| node(h).is_some_and(|n| n.leader() != id || n.is_frozen());
        if let Some(astray) = living.iter().find(astray) {
            let follows = node(astray).and_then(Node::leader);
            let how = node(astray).map(Node::voting);
            let what = format!(
                "host {astray} follows {follows:?}, host {leader} ({id:?}) leads: {how:?}, {:?}",
                node(&leader).map(Node::voting)
            );
            self.ledger.violate(what);
        }
        entries
    }

    /// Looks at what is left, and writes the outcome.
    pub(super) fn check(&mut self) {
        let living = self.living();
        self.ledger.check_quiet(|t| {
            self.by_id.get(&t).is_some_and(|i| self.tasks[*i].stage == Stage::Enrolled)
        });
        self.ledger.close();
        let mut peaks: HashMap<String, u64> = HashMap::new();
        let pairs = self.pairs_by_host();
        let entries = self.check_leader(&living);
        for host in living {
            let h = &self.world.hosts[host];
            let used = h.memory.used();
            // Those that keep the log have always something under way.
            let beats = if self.scenario.voters > 1 { BEATS_MAX } else { 0 };
            if used > beats && self.ledger.violations.is_empty() {
                self.ledger.violate(format!("host {host} still holds {used} bytes of messages"));
            }
            let Some(node) = &h.node else { continue };
            if node.log_index() != entries {
                let has = node.log_index();
                self.ledger.violate(format!("host {host} has {has} of {entries} log entries"));
            }
            if node.malformed() > 0 {
                let what = format!("host {host} was sent {} things amiss", node.malformed());
                self.ledger.violate(what);
            }
            let (mut remains, reserved) = (node.remains(), h.reserved());
            remains.extend((reserved > 0).then(|| format!("{reserved} reservations")));
            let flows = if remains.is_empty() {
                Vec::new()
            } else {
                node.flows(self.world.local_now(host))
            };
            for what in remains.iter().chain(&flows) {
                self.ledger.violate(format!("host {host} still has {what}"));
            }
            let bound = held_max(pairs[host]);
            let held =
                node.counters().iter().find(|(n, _)| *n == "task_bytes_inside_max").unwrap().1;
            if held > bound {
                let pairs = pairs[host];
                let what = format!("host {host} held {held} bytes for {pairs} pairs, not {bound}");
                self.ledger.violate(what);
            }
            let memory = ("message_memory_max", h.memory.used_max());
            for (name, value) in node.counters().into_iter().chain([memory]) {
                let peak = peaks.entry(name.into()).or_default();
                *peak = (*peak).max(value);
            }
        }
        let mut peaks: Vec<(String, u64)> = peaks.into_iter().collect();
        peaks.sort();
        self.out.peaks = peaks;
        let leader = self.world.hosts.iter().filter_map(|h| h.node.as_ref()).find(|n| n.leads());
        if let Some(node) = leader {
            self.out.growth.table = node.hosts().count();
            self.out.growth.snapshot_bytes = node.snapshot_bytes();
            self.out.growth.log_messages = node.log_messages();
            self.out.growth.log_entries = node.log_index();
        }
        self.out.tasks = self.tasks.len();
        self.out.messages = self.ledger.messages;
        (self.out.on_channels, self.out.bytes) = (self.ledger.on_lines, self.ledger.bytes);
        self.out.cut_short = self.ledger.cut_short;
        (self.out.mail, self.out.mail_lost) = self.ledger.check_mail(self.scenario.keeps_mail());
        self.out.datagrams = self.world.delivered;
        self.out.trace_hash = self.world.trace_hash();
        self.out.seconds = self.world.now().as_nanos() as f64 / 1e9;
        self.out.violations = std::mem::take(&mut self.ledger.violations);
    }
}
