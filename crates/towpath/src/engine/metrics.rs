//! What the daemon measures beside its node, and who is told of it all.

use std::time::Duration;

use towpath_io::udp::LinkCounters;
use towpath_node::egress::EgressStats;
use towpath_vm::metrics::{self, Row, Series, Source};
use towpath_wire::{HostId, Instant};

use super::clients::ClientConn;
use super::core::Engine;
use super::network::{Link, Network};
use crate::protocol::{OBSERVERS_MAX, ONCE_MAX, Reply};

const NODE: u8 = metrics::Node::GROUP.number;
const DAEMON: u8 = metrics::Daemon::GROUP.number;
const LINK: u8 = metrics::Link::GROUP.number;
const TURN_TIME: u8 = metrics::table::TURN_TIME.number;
const TURN_WORK: u8 = metrics::table::TURN_WORK.number;

/// All that a daemon measures: its own series stand between those of its node.
pub(super) struct Everything<'a>(pub(super) &'a Engine);

impl Source for Everything<'_> {
    fn after(&mut self, last: Option<Series>) -> Option<Row> {
        let Self(engine) = self;
        let own = match last.map(|last| last.group) {
            Some(NODE) => return Some(engine.daemon_row()),
            Some(DAEMON) => engine.network.row_after(None),
            Some(LINK) => engine.network.row_after(last.map(|last| last.key)),
            _ => None,
        };
        let own = own.map_or_else(|| engine.node.metrics_after(last), Some);
        // Turns stand between the tasks' channels and round trips.
        let last = last.filter(|last| last.group <= TURN_WORK);
        let turns = last.and_then(|last| engine.turns_after(last));
        match (own, turns) {
            (Some(own), Some(turns)) => Some(if own.series < turns.series { own } else { turns }),
            (own, turns) => own.or(turns),
        }
    }
}

impl Engine {
    /// A client wants to be told.
    pub(super) fn observe(&mut self, key: u64, host: Option<HostId>, every_ms: Option<u32>) {
        if let Some(host) = host.filter(|host| self.node.me() != Some(*host)) {
            return self.observe_there(key, host, every_ms);
        }
        let now = self.clock.now();
        let has = self.observing(every_ms.is_none());
        if every_ms.is_none() && has.len() >= ONCE_MAX {
            self.put_off(has[0]);
        }
        let (has, once) = (has.len(), every_ms.is_none());
        let Some(client) = self.clients.all.get_mut(&key) else { return };
        let why = if client.subscription.is_some() {
            "this connection is told what the daemon measures already\n\
             hint: make another connection for another reader"
                .into()
        } else if !once && has >= OBSERVERS_MAX {
            format!(
                "{has} others are told what this daemon measures, no more are\n\
                 hint: end one of the programs that ask `towpath metrics --every`"
            )
        } else {
            let every = every_ms.map(|ms| Duration::from_millis(ms.into()));
            let new = |every| metrics::Subscription::new(now, every);
            let once = || metrics::Subscription::once(now);
            client.subscription = Some(every.map_or_else(once, new));
            self.clients.observers.insert(key);
            return;
        };
        client.reply(&Reply::Failed(why));
    }

    /// Those who are told once, or again and again, in the order in which they came.
    fn observing(&self, once: bool) -> Vec<u64> {
        let of = |key: &u64| self.clients.all.get(key)?.subscription.as_ref();
        let is = |key: &u64| of(key).is_some_and(|s| s.is_once() == once);
        self.clients.observers.iter().copied().filter(is).collect()
    }

    /// One that is told once, and has not read it yet, gives its place up.
    fn put_off(&mut self, key: u64) {
        self.clients.observers.remove(&key);
        if let Some(client) = self.clients.all.get_mut(&key) {
            client.subscription = None;
            client.reply(&Reply::Failed(format!(
                "{ONCE_MAX} others have asked since what this daemon measures\n\
                 hint: ask again, and read the answer at once"
            )));
        }
    }

    /// Tells those who want to be told what is due, of each a turn.
    pub(super) fn tell_observers(&mut self) {
        let Some(due) = self.observers_due() else { return };
        let now = self.clock.now();
        if due > now {
            return;
        }
        let keys: Vec<u64> = self.clients.observers.iter().copied().collect();
        for key in keys {
            let Some(client) = self.clients.all.get_mut(&key) else { continue };
            let Some(mut subscription) = client.subscription.take() else { continue };
            let backlog = client.backlog();
            let delta = subscription.turn(now, backlog, &mut Everything(self));
            if subscription.is_over() {
                self.clients.observers.remove(&key);
            }
            if let Some(client) = self.clients.all.get_mut(&key) {
                client.subscription = Some(subscription).filter(|s| !s.is_over());
                if let Some(delta) = delta {
                    client.reply(&Reply::Metrics(delta));
                }
            }
        }
    }

    /// When that has something to do.
    pub(super) fn observers_due(&self) -> Option<Instant> {
        let of = |key: &u64| self.clients.all.get(key);
        let due = |c: &ClientConn| c.subscription.as_ref()?.due(c.backlog());
        self.clients.observers.iter().filter_map(of).filter_map(due).min()
    }

    /// Counters of the whole daemon by name.
    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        let own = self.daemon_row();
        let own = own.named().map(|(metric, value)| (metric.name, value));
        let all = self.node.counters().into_iter().chain(own);
        all.map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The first part of what turns cost behind `last`.
    fn turns_after(&self, last: Series) -> Option<Row> {
        let turns = &self.pending.turns;
        let of = [(TURN_TIME, &turns.time), (TURN_WORK, &turns.bytes)];
        of.into_iter().filter(|(group, _)| *group >= last.group).find_map(|(group, seen)| {
            let part = (group == last.group).then_some(last.part);
            metrics::part_of(Series::new(group, 0, 0), seen, part)
        })
    }

    fn daemon_row(&self) -> Row {
        let EgressStats { reserved_bytes, control_bytes, other_bytes, held, unused } =
            self.network.paced();
        let (tasks_connected, tasks_cut_off) = self.conversations.counted();
        metrics::Daemon {
            paced_channels: self.network.reserved() as u64,
            paced_reserved_bytes: reserved_bytes,
            paced_control_bytes: control_bytes,
            paced_other_bytes: other_bytes,
            paced_held: held,
            paced_unused: unused,
            message_memory_bytes: self.memory.used(),
            message_memory_bytes_max: self.memory.used_max(),
            send_errors: self.network.send_errors(),
            clients: self.clients.all.len() as u64,
            streams_held: self.held.len() as u64,
            kept_for_tasks: self.node.remains().len() as u64,
            tasks_connected,
            tasks_cut_off,
            turns_cut: self.pending.turns.cut,
        }
        .row(0, 0)
    }
}

impl Network {
    /// The first link whose number is beyond `last`, or of all.
    fn row_after(&self, last: Option<u64>) -> Option<Row> {
        let number = |link: &Link| u64::from(link.driver.link().id().0);
        let links = self.links().iter().filter(|link| last.is_none_or(|last| number(link) > last));
        let link = links.min_by_key(|link| number(link))?;
        let LinkCounters {
            send_calls,
            receive_calls,
            datagrams_sent,
            bytes_sent,
            datagrams_received,
            bytes_received,
            blocked,
            too_long,
            send_errors,
            cut,
        } = *link.driver.counters();
        let egress = link.driver.egress();
        let EgressStats { reserved_bytes, control_bytes, other_bytes, held, unused } =
            egress.stats().copied().unwrap_or_default();
        let row = metrics::Link {
            datagrams_sent,
            bytes_sent,
            datagrams_received,
            bytes_received,
            send_calls,
            receive_calls,
            blocked,
            too_long,
            send_errors,
            cut,
            paced_reserved_bytes: reserved_bytes,
            paced_control_bytes: control_bytes,
            paced_other_bytes: other_bytes,
            paced_held: held,
            paced_unused: unused,
            paced_channels: egress.reserved() as u64,
        };
        Some(row.row(number(link), 0))
    }
}
