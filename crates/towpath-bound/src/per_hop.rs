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
            total.burst = (&total.burst + &own.burst).coarse_up();
        }
        Some(total)
    }

    /// All that enters a server; per server before, no more than its line carries.
    fn shaped(&self, network: &Network, server: usize) -> Option<Envelope> {
        let mut groups: BTreeMap<Option<usize>, Vec<&Envelope>> = BTreeMap::new();
        for &flow in network.flows_at(server) {
            let curve = self.arrival[flow].get(network.hop(flow, server))?;
            groups.entry(network.before(flow, server)).or_default().push(curve);
        }
        let shaped = |(before, group): (Option<usize>, Vec<&Envelope>)| {
            let line = before.and_then(|before| network.servers()[before].line.as_ref());
            let all = Envelope::sum(group);
            match line {
                Some(line) => all.capped(line),
                None => all,
            }
        };
        let groups: Vec<Envelope> = groups.into_iter().map(shaped).collect();
        Some(Envelope::sum(&groups))
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

#[cfg(test)]
mod tests {
    use super::super::network::{Flow, Server};
    use super::*;

    /// Three servers in a row with lines; a flow enters at each and leaves two later. No two rates
    /// or bursts are alike.
    fn unlike(flows: usize, order: Multiplexing) -> Network {
        let whole = |n: usize| Rational::whole(n as u64);
        let link = Rational::integer(1_000_000_007);
        let server = |k: usize| {
            let (latency, frame) = (Rational::new(k as i128 + 1, 1_000_003), whole(12_304));
            Server::new(&alloc::format!("s{k}"), link.clone(), latency.unwrap_or_default(), order)
                .with_line(link.clone(), frame)
        };
        let flow = |k: usize| {
            let rate = 400_000_000 / flows * (flows + k) / (2 * flows) + 7919 * k % 1009;
            let (fast, slow) = (whole(rate * 3 + k), whole(rate));
            let pieces = [(fast, 12_304), (slow, 20_000 + 104_729 * k % 30_011)];
            let pieces = pieces.map(|(rate, burst)| TokenBucket::new(rate, whole(burst)));
            let arrival = Envelope::min_of(pieces.into()).unwrap_or_else(Envelope::nothing);
            Flow::new(&alloc::format!("f{k}"), arrival, (k % 3..(k % 3 + 2).min(4)).collect())
        };
        let servers = (0..4).map(server).collect();
        Network::new(servers, (0..flows).map(flow).collect()).expect("stable")
    }

    /// The same pass with nothing rounded and nothing left out.
    fn exact_delays(network: &Network) -> Vec<Rational> {
        let mut arrival: Vec<Vec<Envelope>> =
            network.flows().iter().map(|flow| alloc::vec![flow.arrival.clone()]).collect();
        let mut delays = alloc::vec![Rational::ZERO; network.servers().len()];
        for &server in network.order() {
            let parts = &network.servers()[server];
            let here = |flow: usize| network.hop(flow, server);
            let mut groups: BTreeMap<Option<usize>, Envelope> = BTreeMap::new();
            let mut total = TokenBucket::new(Rational::ZERO, Rational::ZERO);
            for &flow in network.flows_at(server) {
                let curve = &arrival[flow][here(flow)];
                total.rate += &curve.sustained().rate;
                total.burst += &curve.sustained().burst;
                let group = groups.entry(network.before(flow, server));
                group.and_modify(|sum| *sum = sum.plus(curve)).or_insert_with(|| curve.clone());
            }
            let mut all = Envelope::nothing();
            for (before, group) in groups {
                let line = before.and_then(|before| network.servers()[before].line.as_ref());
                all = all.plus(&line.map_or(group.clone(), |line| group.capped(line)));
            }
            let fifo = parts.multiplexing == Multiplexing::Fifo;
            let alone = network.flows_at(server).len() <= 1;
            let delay = if fifo || alone {
                all.delay(&parts.service)
            } else {
                all.busy_period(&parts.service)
            };
            delays[server] = delay.expect("stable");
            for &flow in network.flows_at(server) {
                let (curve, hop) = (arrival[flow][here(flow)].clone(), here(flow));
                let own = curve.sustained();
                let cross = TokenBucket::new(&total.rate - &own.rate, &total.burst - &own.burst);
                let rest = if fifo {
                    parts.service.left_over_fifo(&cross)
                } else {
                    parts.service.left_over_blind(&cross)
                };
                let separated = Envelope::token_bucket(own.rate.clone(), own.burst.clone());
                let separated = separated.output(&rest.expect("stable")).expect("stable");
                let output = curve.delayed(&delays[server]).capped(separated.sustained());
                let line = parts.line.as_ref().expect("each has one");
                arrival[flow].push(output.capped(line));
                debug_assert_eq!(arrival[flow].len(), hop + 2);
            }
        }
        delays
    }

    #[test]
    fn figures_are_exact_to_a_millionth_and_never_below() {
        for order in [Multiplexing::Fifo, Multiplexing::Blind] {
            for flows in [3, 40] {
                let network = unlike(flows, order);
                let bounds = PerHop::new(&network);
                for (found, exact) in bounds.delay.iter().zip(exact_delays(&network)) {
                    let found = found.as_ref().expect("stable");
                    assert!(*found >= exact, "{order:?} {flows}: {found} below {exact}");
                    let most = &exact * &Rational::new(1_000_001, 1_000_000).unwrap_or_default();
                    assert!(*found <= most, "{order:?} {flows}: {found} above {exact}");
                }
            }
        }
    }

    /// What sums of unlike fractions cost is their length: a thousand denominators multiplied.
    #[test]
    fn numbers_stay_short_however_unlike_the_rates() {
        let network = unlike(400, Multiplexing::Blind);
        let bounds = PerHop::new(&network);
        for number in bounds.delay.iter().chain(&bounds.backlog).flatten() {
            let digits = alloc::string::ToString::to_string(number).len();
            assert!(digits < 200, "{digits} digits: {number}");
        }
        let bursts = bounds.arrival.iter().flatten().map(|curve| &curve.sustained().burst);
        for burst in bursts {
            assert!(alloc::string::ToString::to_string(burst).len() < 60, "{burst}");
        }
    }
}
