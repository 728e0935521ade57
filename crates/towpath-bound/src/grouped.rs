//! Arrival bounds inside a network, for groups of flows that travel together.
//!
//! The flows of a group are bound as one from server to server: what the servers before leave
//! over beside the other flows gives the group's curve here. This is what the tools of the field
//! call PBOO (pay bursts only once, server by server) and PMOO (over the longest common path)
//! arrival bounding; sources: Schmitt, Zdarsky and Martinovic, *Improving performance bounds in
//! feed-forward networks by paying multiplexing only once* (2008); Bondorf and Schmitt (2016).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::envelope::{Envelope, RateLatency};
use super::network::{Multiplexing, Network};
use super::pmoo;

/// How many groups one question may bound before it is given up: the number of distinct groups
/// can grow exponentially with the depth of a network.
pub const GROUPS_MAX: usize = 4096;

/// How cross traffic is bound on its way to the flow of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossTraffic {
    /// Server by server, or over common paths (blind servers only).
    pub bounding: Bounding,
    /// Whether the flow of interest slows its own cross traffic down at the server before they
    /// meet. Leaving it out there is sound for blind multiplexing (the worst case gives the flow
    /// of interest the lowest priority everywhere); under FIFO it is only the convention of
    /// published figures and **no bound**.
    pub interest: Interest,
}

/// Over how much of the path cross traffic is bound at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounding {
    /// Server by server (PBOO).
    PerServer,
    /// Over the longest path the group shares (PMOO).
    CommonPath,
}

/// Part of the flow of interest in the bound of its own cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// It counts as any other flow.
    Counted,
    /// It is left out at the server before.
    LeftOut,
}

impl CrossTraffic {
    /// Server by server, everything counted: sound for every multiplexing.
    pub const SOUND: Self = Self { bounding: Bounding::PerServer, interest: Interest::Counted };

    /// Server by server, the flow of interest left out: as figures are published.
    pub const PUBLISHED: Self = Self { bounding: Bounding::PerServer, interest: Interest::LeftOut };
}

type Key = (usize, Vec<usize>, Option<usize>);

/// Bounds groups, each once.
pub(super) struct Groups<'a> {
    pub(super) network: &'a Network,
    bounding: Bounding,
    known: BTreeMap<Key, Option<Envelope>>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(network: &'a Network, bounding: Bounding) -> Self {
        Self { network, bounding, known: BTreeMap::new() }
    }

    /// Arrival curve at `server` of the flows of `set` (ascending) together. `except`: a flow not
    /// counted as cross traffic at the servers before. `None`: unbounded, or [`GROUPS_MAX`] spent.
    pub(super) fn arrival(
        &mut self,
        server: usize,
        set: &[usize],
        except: Option<usize>,
    ) -> Option<Envelope> {
        if set.is_empty() {
            return Some(Envelope::nothing());
        }
        let key = (server, set.to_vec(), except);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= GROUPS_MAX {
            return None;
        }
        let mut total = Envelope::nothing();
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &flow in set {
            match self.network.before(flow, server) {
                None => total = total.plus(&self.network.flows()[flow].arrival),
                Some(before) => groups.entry(before).or_default().push(flow),
            }
        }
        let mut bound = Some(total);
        for (before, group) in groups {
            let Some(sum) = bound else { break };
            // A flow of interest that comes another way was not in these flows' queue last.
            let except = except.filter(|&flow| self.came_from(flow, server, before));
            bound = self.output(before, &group, except).map(|output| sum.plus(&output));
        }
        self.known.insert(key, bound.clone());
        bound
    }

    /// Curve of `group`, which goes on together, at the output of `server`.
    fn output(
        &mut self,
        server: usize,
        group: &[usize],
        except: Option<usize>,
    ) -> Option<Envelope> {
        let path = match self.bounding {
            Bounding::PerServer => alloc::vec![server],
            Bounding::CommonPath => self.common_path(server, group),
        };
        let left_over = if path.len() > 1 {
            pmoo::left_over(self, &path, group, except, None)?
        } else {
            let others = self.others(server, group, except);
            let cross = self.arrival(server, &others, None)?;
            left_over(self.network, server, &cross)?
        };
        let output = self.arrival(path[0], group, except)?.output(&left_over)?;
        Some(match &self.network.servers()[server].line {
            Some(line) => output.capped(line),
            None => output,
        })
    }

    fn came_from(&self, flow: usize, server: usize, before: usize) -> bool {
        let path = &self.network.flows()[flow].path;
        path.windows(2).any(|pair| pair == [before, server])
    }

    /// The flows of a server without a group and without `except`.
    pub(super) fn others(
        &self,
        server: usize,
        group: &[usize],
        except: Option<usize>,
    ) -> Vec<usize> {
        let all = self.network.flows_at(server).iter().copied();
        all.filter(|flow| group.binary_search(flow).is_err() && Some(*flow) != except).collect()
    }

    /// The longest path of blind servers that ends in `server` and that the whole group shares.
    fn common_path(&self, server: usize, group: &[usize]) -> Vec<usize> {
        let blind = |at: usize| self.network.servers()[at].multiplexing == Multiplexing::Blind;
        let mut path = alloc::vec![server];
        let mut first = server;
        while blind(first) {
            let Some(before) = self.network.before(group[0], first) else { break };
            let shared = group.iter().all(|&flow| self.network.before(flow, first) == Some(before));
            if !shared || !blind(before) {
                break;
            }
            path.push(before);
            first = before;
        }
        path.reverse();
        path
    }
}

/// What a server leaves over beside cross traffic, by its multiplexing.
pub(super) fn left_over(network: &Network, server: usize, cross: &Envelope) -> Option<RateLatency> {
    let server = &network.servers()[server];
    match server.multiplexing {
        Multiplexing::Fifo => server.service.left_over_fifo(cross.sustained()),
        // Static-priority servers are split into FIFO classes before any analysis.
        Multiplexing::Blind | Multiplexing::StaticPriority => {
            server.service.left_over_blind(cross.sustained())
        }
    }
}
