//! What a host knows of the ways that its tasks' messages take, for people who ask.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::association::{CodingStats, PathState, PathStatus};
use towpath_vm::channel::ChannelStatus;
use towpath_vm::members::State;
use towpath_wire::{HostId, TaskId};

use crate::direct::{Ring, ordered};
use crate::node::Node;

/// The way from a task of this host to another task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Who sends.
    pub from: TaskId,
    /// Who receives.
    pub to: TaskId,
    /// Whether `from` takes part here.
    pub known: bool,
    /// Whether `to` takes part, where this host is its host.
    pub peer_known: Option<bool>,
    /// How the direct route stands.
    pub direct: DirectState,
    /// What went from one to the other by the daemons, and what may go.
    pub by_daemons: Exchange,
    /// Channels of `from`'s own to `to`, whoever opened them.
    pub channels: Vec<ChannelStatus>,
    /// The association that carries it to `to`'s host; none on one host, or when there is none.
    pub network: Option<Network>,
}

/// How the direct route between two tasks stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectState {
    /// Nobody asked for one, or it was given up: too little was exchanged so far.
    None,
    /// Shared memory: both have it.
    Ring,
    /// Shared memory was offered, and one of them could not use it.
    RingFailed,
    /// A stream between their hosts was asked for, or is there.
    Stream,
    /// There was no room for another one: of this host, or of this task.
    Full,
    /// This host's links are paced, and a stream would go past their egress.
    Paced,
}

/// Payload with 64 bytes for each piece, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Sent so far.
    pub sent_bytes: u64,
    /// What the receiver's daemon lets it send in all.
    pub limit_bytes: u64,
}

/// An association, as its end here sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The other host.
    pub host: HostId,
    /// Where it is reached.
    pub addr: core::net::SocketAddr,
    /// Packets are hidden and protected against change.
    pub sealed: bool,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Bytes that may be under way at once: in one round trip, at most so many.
    pub window_bytes: u64,
    /// Bytes of a datagram.
    pub datagram_bytes: u16,
    /// Datagrams sent, and how many of them counted as lost.
    pub packets_sent: u64,
    /// Of these.
    pub packets_lost: u64,
    /// Every path that there is, or was.
    pub paths: Vec<Way>,
    /// What is coded across them.
    pub coding: Coded,
}

/// Coding across the paths to another host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coded {
    /// What this host codes by, as it is given to `up --coding`; channels may say otherwise.
    pub usual: String,
    /// Groups of packets that this host has coded.
    pub groups: u64,
    /// Packets of parity sent for them.
    pub parities_sent: u64,
    /// Packets that the other host did not get, and rebuilt.
    pub rebuilt_there: u64,
    /// Packets of parity that came from there.
    pub parities_received: u64,
    /// Packets that did not come from there, and were rebuilt here.
    pub rebuilt_here: u64,
    /// Groups from there of which too much was lost.
    pub unrebuilt: u64,
}

impl Coded {
    /// Whether anything was coded, here or there.
    pub fn is_used(&self) -> bool {
        self.groups > 0 || self.parities_received > 0
    }
}

/// Why a path carries nothing, if so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WayState {
    /// It carries.
    Carries,
    /// Its link has no carrier.
    Down,
    /// It does not answer while others do; it is asked whether it is back.
    Silent,
    /// The other host has not shown yet that it receives there.
    Unproven,
    /// It is used no more.
    Retired,
    /// It is on standby, and carries nothing while another can.
    Standby,
}

/// A path to another host: a pair of links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Its number.
    pub path: u16,
    /// Our link, by its place among those of this host.
    pub link: u16,
    /// Where that receives.
    pub local: core::net::SocketAddr,
    /// Where the other host does.
    pub remote: core::net::SocketAddr,
    /// Whether it carries.
    pub state: WayState,
    /// Smoothed round-trip time, and the least of late; zero before one is known.
    pub rtt: Duration,
    /// The least of late.
    pub rtt_min: Duration,
    /// Bits per second that it delivered of late, at its best; zero before that is known.
    pub rate_bps: u64,
    /// Bytes that may be under way at once.
    pub window_bytes: u64,
    /// Bytes that are.
    pub in_flight_bytes: u64,
    /// Bytes of a datagram.
    pub datagram_bytes: u16,
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Bytes of these.
    pub bytes_sent: u64,
    /// Of the datagrams, those that counted as lost.
    pub packets_lost: u64,
    /// Datagrams that came.
    pub packets_received: u64,
    /// Times that it was left: it lost its carrier, or was silent while others got on.
    pub left: u64,
    /// Times that it carried again.
    pub returned: u64,
}

/// What a task of this host has to do with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLoad {
    /// The task.
    pub task: TaskId,
    /// Tasks with which it exchanges messages.
    pub peers: u32,
    /// Of these, by a direct route.
    pub direct: u32,
    /// Channels of its own.
    pub channels: u32,
    /// Payload that it sent by the daemons, with 64 bytes for each piece, to tasks that are there.
    pub sent_bytes: u64,
}

impl Node {
    /// The way from `from` to `to`, as far as this host knows it: all of it where `from` is here.
    pub fn explain(&self, from: TaskId, to: TaskId) -> Explanation {
        let member = self.local.members.get(from).filter(|m| m.state == State::Enrolled);
        let here = self.me == Some(to.host());
        let takes_part = |m: &towpath_vm::members::Member| m.state == State::Enrolled;
        let peer_known = here.then(|| self.local.members.get(to).is_some_and(takes_part));
        let pair = member.and_then(|m| m.pairs.get(&to));
        Explanation {
            from,
            to,
            known: member.is_some(),
            peer_known,
            direct: self.direct_state(from, to),
            by_daemons: pair.map_or(Exchange::default(), |p| Exchange {
                sent_bytes: p.sent,
                limit_bytes: p.limit,
            }),
            channels: self.channels_between(from, to),
            network: if here { None } else { self.network(to.host()) },
        }
    }

    fn direct_state(&self, from: TaskId, to: TaskId) -> DirectState {
        let has = self.local.members.get(from).is_some_and(|m| m.direct.contains(&to));
        let near = self.me == Some(to.host());
        let full =
            (near && self.is_full_of_rings()) || self.is_full(from, to) || self.is_full(to, from);
        match self.local.rings.get(&ordered(from, to)) {
            Some(Ring::Stands) => DirectState::Ring,
            Some(Ring::Failed) => DirectState::RingFailed,
            None if has => DirectState::Stream,
            None if !near && self.config.paced => DirectState::Paced,
            None if full => DirectState::Full,
            None => DirectState::None,
        }
    }

    fn way(&self, path: &PathStatus) -> Way {
        let state = match path.state {
            PathState::Carries => WayState::Carries,
            PathState::Down => WayState::Down,
            PathState::Silent(_) => WayState::Silent,
            PathState::Unproven => WayState::Unproven,
            PathState::Retired => WayState::Retired,
            PathState::Standby => WayState::Standby,
        };
        let addrs = self.config.links.addrs();
        let counted = path.counted;
        Way {
            path: path.id.0,
            link: path.link.0,
            local: addrs.get(usize::from(path.link.0)).copied().unwrap_or(addrs[0]),
            remote: path.remote,
            state,
            rtt: path.rtt.unwrap_or_default(),
            rtt_min: path.rtt_min,
            rate_bps: path.rate.saturating_mul(8),
            window_bytes: path.window,
            in_flight_bytes: path.in_flight,
            datagram_bytes: path.datagram,
            packets_sent: counted.packets_sent,
            bytes_sent: counted.bytes_sent,
            packets_lost: counted.packets_lost,
            packets_received: counted.packets_received,
            left: counted.left,
            returned: counted.returned,
        }
    }

    fn coded(&self, CodingStats { encoder, decoder, delivered, .. }: &CodingStats) -> Coded {
        Coded {
            usual: self.config.proto.coding.usual.to_string(),
            groups: encoder.groups,
            parities_sent: encoder.sent,
            rebuilt_there: *delivered,
            parities_received: decoder.received,
            rebuilt_here: decoder.rebuilt,
            unrebuilt: decoder.unrebuilt,
        }
    }

    fn network(&self, host: HostId) -> Option<Network> {
        let association = self.endpoint.association(self.peers.up(host)?)?;
        let stats = association.stats();
        Some(Network {
            host,
            addr: association.remote(),
            sealed: association.is_sealed(),
            rtt: association.rtt(),
            window_bytes: association.window(),
            datagram_bytes: association.datagram(),
            packets_sent: stats.packets_sent,
            packets_lost: stats.packets_lost,
            paths: association.paths().map(|p| self.way(&p)).collect(),
            coding: self.coded(&stats.paths.coding),
        })
    }

    /// The first associations that stand, with hosts behind `after`, `most` of them; whether there
    /// are more.
    pub fn networks(&self, after: Option<HostId>, most: usize) -> (Vec<Network>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.peers.by_host.range((from, Bound::Unbounded));
        let mut all = behind.filter_map(|(host, _)| self.network(*host));
        let networks = all.by_ref().take(most).collect();
        (networks, all.next().is_some())
    }

    /// What the first tasks of this host behind `after`, `most` of them, have to do with others;
    /// whether there are more.
    pub fn loads(&self, after: Option<TaskId>, most: usize) -> (Vec<TaskLoad>, bool) {
        let load = |task| {
            let member = self.local.members.get(task)?;
            Some(TaskLoad {
                task,
                peers: member.pairs.len() as u32,
                direct: member.direct.len() as u32,
                channels: self.local.channels.of(task).len() as u32,
                sent_bytes: member.pairs.values().map(|p| p.sent).sum(),
            })
        };
        let next = |last: &TaskId| self.local.members.after(Some(*last)).map(|(task, _)| task);
        let first = self.local.members.after(after).map(|(task, _)| task);
        let mut all = core::iter::successors(first, next);
        let loads = all.by_ref().take(most).filter_map(load).collect();
        (loads, all.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coding_is_used_where_anything_was_coded_here_or_there() {
        let nothing = Coded { usual: "none".into(), rebuilt_there: 3, ..Coded::default() };
        assert!(!nothing.is_used());
        assert!(Coded { groups: 1, ..nothing.clone() }.is_used());
        assert!(Coded { parities_received: 1, ..nothing }.is_used());
    }
}
