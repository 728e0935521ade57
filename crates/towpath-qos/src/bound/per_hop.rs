//! One pass from the sources to the sinks: a curve for every flow at every server, a delay and a
//! backlog for every server. Linear in the hops of all flows; every faster or tighter method
//! starts from it.
//!
//! A flow leaves a server with the least of
//! - its curve shifted by the server's delay (total flow analysis);
//! - its token bucket after what the server leaves it (separated flow analysis).
//!
//! What comes from one server together never exceeds that server's line (line shaping: Grieu,
//! *Analyse et évaluation de techniques de commutation Ethernet* (2004); Mifdaoui and Leydier
//! (2017)).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::envelope::{Envelope, RateLatency, TokenBucket};
use super::network::{Multiplexing, Network};
use super::rational::Rational;

/// The most pieces of a sum of curves. A sum over flows with unlike knees has a piece per flow;
/// those left out of the middle cost little and keep the pass linear.
const PIECES_KEPT: usize = 24;

/// Bounds of every server, and the curve of every flow where it enters each server of its path.
#[derive(Clone, Debug)]
pub struct PerHop {
    /// Delay of any bit, by server; `None`: unbounded.
    pub delay: Vec<Option<Rational>>,
    /// Data that waits at once, all flows together, by server; `None`: unbounded.
    pub backlog: Vec<Option<Rational>>,
    /// By flow, then by hop. A flow's list ends where its burst is unbounded.
    pub arrival: Vec<Vec<Envelope>>,
    /// Token buckets of all flows of a server, summed; `None`: one of them is unbounded.
    total: Vec<Option<TokenBucket>>,
}

impl PerHop {
    /// Bounds every server of the network, with the lines' shaping. Static-priority servers are
    /// taken as blind; [`super::Analysis`] splits them into classes first.
    pub fn new(network: &Network) -> Self {
        let mut bounds = Self::start(network);
        for &server in network.order() {
            bounds.pass(network, server);
        }
        bounds
    }

    /// Nothing bound yet but the flows at their first servers.
    pub(super) fn start(network: &Network) -> Self {
        let servers = network.servers().len();
        Self {
            delay: alloc::vec![None; servers],
            backlog: alloc::vec![None; servers],
            arrival: network.flows().iter().map(|flow| alloc::vec![flow.arrival.clone()]).collect(),
            total: alloc::vec![None; servers],
        }
    }

    /// Token buckets of all flows of a server that was passed, summed.
    pub(super) fn total(&self, server: usize) -> Option<&TokenBucket> {
        self.total[server].as_ref()
    }

    /// What a server leaves a flow (hop `hop` of its path) beside all others.
    pub fn left_over(&self, network: &Network, flow: usize, hop: usize) -> Option<RateLatency> {
        let server = network.flows()[flow].path[hop];
        let own = self.arrival[flow].get(hop)?.sustained();
        let total = self.total[server].as_ref()?;
        let cross = TokenBucket::new(&total.rate - &own.rate, &total.burst - &own.burst);
        let service = &network.servers()[server].service;
        match network.servers()[server].multiplexing {
            Multiplexing::Fifo => service.left_over_fifo(&cross),
            Multiplexing::Blind | Multiplexing::StaticPriority => service.left_over_blind(&cross),
        }
    }

    /// Bounds a server whose servers before are bound.
    pub(super) fn pass(&mut self, network: &Network, server: usize) {
        let service = &network.servers()[server].service;
        self.total[server] = self.sum_of_buckets(network, server);
        if let Some(all) = self.shaped(network, server) {
            let fifo = network.servers()[server].multiplexing == Multiplexing::Fifo;
            let in_order = fifo || network.flows_at(server).len() <= 1;
            self.delay[server] =
                if in_order { all.delay(service) } else { all.busy_period(service) };
            self.backlog[server] = all.backlog(service);
        }
        for &flow in network.flows_at(server) {
            let hop = network.hop(flow, server);
            if hop + 1 == network.flows()[flow].path.len() {
                continue;
            }
            if let Some(output) = self.output(network, flow, hop, server) {
                self.arrival[flow].push(output);
            }
        }
    }

    fn sum_of_buckets(&self, network: &Network, server: usize) -> Option<TokenBucket> {
        let mut total = TokenBucket::new(Rational::ZERO, Rational::ZERO);
        for &flow in network.flows_at(server) {
            let own = self.arrival[flow].get(network.hop(flow, server))?.sustained();
            total.rate += &own.rate;
            total.burst += &own.burst;
        }
        Some(total)
    }

    /// All that enters a server; per server before, no more than its line carries.
    fn shaped(&self, network: &Network, server: usize) -> Option<Envelope> {
        let mut groups: BTreeMap<Option<usize>, Envelope> = BTreeMap::new();
        for &flow in network.flows_at(server) {
            let curve = self.arrival[flow].get(network.hop(flow, server))?;
            let group = groups.entry(network.before(flow, server));
            group
                .and_modify(|sum| *sum = sum.plus(curve).thinned(PIECES_KEPT))
                .or_insert_with(|| curve.clone());
        }
        let mut all = Envelope::nothing();
        for (before, group) in groups {
            let line = before.and_then(|before| network.servers()[before].line.as_ref());
            all = all.plus(&line.map_or(group.clone(), |line| group.capped(line)));
        }
        Some(all)
    }

    fn output(
        &self,
        network: &Network,
        flow: usize,
        hop: usize,
        server: usize,
    ) -> Option<Envelope> {
        let curve = self.arrival[flow].get(hop)?;
        let shifted = self.delay[server].as_ref().map(|delay| curve.delayed(delay));
        let separated = self.left_over(network, flow, hop).and_then(|rest| {
            Envelope::token_bucket(curve.sustained().rate.clone(), curve.sustained().burst.clone())
                .output(&rest)
        });
        let output = match (shifted, separated) {
            (Some(shifted), Some(separated)) => shifted.capped(separated.sustained()),
            (shifted, separated) => shifted.or(separated)?,
        };
        Some(
            match &network.servers()[server].line {
                Some(line) => output.capped(line),
                None => output,
            }
            .coarse_up(),
        )
    }
}
