//! The least valid bound of every flow.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::analysis::{self, Bound, Method};
use super::envelope::Envelope;
use super::grouped::{Bounding, CrossTraffic, Interest};
use super::network::{Multiplexing, Network, NetworkError};
use super::per_hop::PerHop;
use super::priority;
use super::rational::Rational;

/// Networks with more flows than this are bound per hop and by the linear program only: the
/// analyses over groups of flows cost the square of their number.
pub const GROUPED_FLOWS_MAX: usize = 64;

/// Why a flow has no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// No such flow.
    #[error("flow {flow} of {flows}")]
    UnknownFlow {
        /// The index asked for.
        flow: usize,
        /// How many there are.
        flows: usize,
    },
    /// No method bounds it: a server on its way has no rate to spare.
    #[error("flow {flow}: no bound, server {server} has no rate left beside its flows")]
    Unbounded {
        /// The flow.
        flow: String,
        /// The first server of its path without a bound.
        server: String,
    },
}

/// The least bound of a flow, with everything a caller is promised.
#[derive(Clone, Debug)]
pub struct Least {
    /// The flow's index.
    pub flow: usize,
    /// The method that gave the delay.
    pub method: Method,
    /// No bit is longer under way.
    pub delay: Rational,
    /// Delays of two bits differ by no more: delay − the flow's least delay.
    pub jitter: Rational,
    /// No more of the flow is under way at once.
    pub backlog: Rational,
    /// What the flow may look like behind its last server.
    pub output: Envelope,
    /// Bounds of the servers on the path, all flows together.
    pub servers: Vec<ServerBound>,
    /// Every method that was asked, with its steps.
    pub tried: Vec<Bound>,
}

/// Bounds of one server, all its flows (of the class, under static priority) together.
#[derive(Clone, Debug)]
pub struct ServerBound {
    /// Index in [`Analysis::network`].
    pub server: usize,
    /// No bit stays longer; `None`: unbounded.
    pub delay: Option<Rational>,
    /// No more waits at once, in fluid bits (a packetised source adds its largest packet); `None`:
    /// unbounded.
    pub backlog: Option<Rational>,
}

/// A network made ready for bounds: static-priority servers split into their classes, every server
/// bound once.
#[derive(Clone, Debug)]
pub struct Analysis {
    network: Network,
    per_hop: PerHop,
    blind: bool,
}

impl Analysis {
    /// Prepares a network: one pass over all hops of all flows.
    pub fn new(network: &Network) -> Result<Self, NetworkError> {
        let (network, per_hop) = priority::split(network)?;
        let blind =
            network.servers().iter().all(|server| server.multiplexing == Multiplexing::Blind);
        Ok(Self { network, per_hop, blind })
    }

    /// The network as it is analysed: FIFO and blind servers only.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Delay and backlog of every server, and every flow's curve at every hop.
    pub fn per_hop(&self) -> &PerHop {
        &self.per_hop
    }

    /// One flow's bound by one method.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn bound(&self, flow: usize, method: Method) -> Bound {
        match method {
            Method::Tfa(cross) => analysis::tfa(&self.network, flow, cross),
            Method::Sfa(cross) => analysis::sfa(&self.network, flow, cross),
            Method::Pmoo(cross) => analysis::pmoo(&self.network, flow, cross),
            Method::TfaPerHop => analysis::tfa_per_hop(&self.network, &self.per_hop, flow),
            Method::SfaPerHop => analysis::sfa_per_hop(&self.network, &self.per_hop, flow),
            Method::FifoProgram => analysis::fifo_program(&self.network, &self.per_hop, flow),
        }
    }

    /// The methods whose bounds are valid here. What leaves the flow of interest out is asked only
    /// where every server is blind.
    pub fn methods(&self) -> Vec<Method> {
        let mut methods = alloc::vec![Method::TfaPerHop, Method::SfaPerHop];
        if !self.blind {
            methods.push(Method::FifoProgram);
        }
        if self.network.flows().len() <= GROUPED_FLOWS_MAX {
            let interest = if self.blind { Interest::LeftOut } else { Interest::Counted };
            for bounding in [Bounding::PerServer, Bounding::CommonPath] {
                let cross = CrossTraffic { bounding, interest };
                methods.extend([Method::Tfa(cross), Method::Sfa(cross), Method::Pmoo(cross)]);
            }
        }
        methods
    }

    /// The least bound of a flow by all valid methods.
    pub fn least(&self, flow: usize) -> Result<Least, BoundError> {
        self.least_of(flow, &self.methods(), &mut BTreeMap::new())
    }

    /// The least bounds of all flows, in order. Flows of one path share one linear program.
    pub fn least_of_all(&self) -> Vec<Result<Least, BoundError>> {
        self.of_all_by(&self.methods())
    }

    /// The least bounds of all flows by the two analyses that are linear in the network's size.
    pub fn fast_of_all(&self) -> Vec<Result<Least, BoundError>> {
        self.of_all_by(&[Method::TfaPerHop, Method::SfaPerHop])
    }

    /// The least bounds of all flows by some of [`Analysis::methods`], in order.
    pub fn of_all_by(&self, methods: &[Method]) -> Vec<Result<Least, BoundError>> {
        let mut programs = BTreeMap::new();
        let flows = 0..self.network.flows().len();
        flows.map(|flow| self.least_of(flow, methods, &mut programs)).collect()
    }

    fn least_of<'a>(
        &'a self,
        flow: usize,
        methods: &[Method],
        programs: &mut BTreeMap<&'a [usize], Bound>,
    ) -> Result<Least, BoundError> {
        let flows = self.network.flows().len();
        let parts = self.network.flows().get(flow);
        let parts = parts.ok_or(BoundError::UnknownFlow { flow, flows })?;
        let ask = |&method: &Method| match method {
            Method::FifoProgram => {
                let shared = programs.entry(&parts.path);
                let known = shared.or_insert_with(|| self.bound(flow, method));
                known.for_flow(&self.network, flow)
            }
            _ => self.bound(flow, method),
        };
        let tried: Vec<Bound> = methods.iter().map(ask).collect();
        let best = tried.iter().filter(|bound| bound.delay.is_some());
        let Some(best) = best.min_by(|a, b| a.delay.cmp(&b.delay)) else {
            return Err(self.unbounded(flow));
        };
        let delay = best.delay.clone().unwrap_or_default();
        let jitter = (&delay - &parts.delay_least).max(Rational::ZERO);
        let per_flow = tried.iter().filter(|bound| bound.method.bounds_own_backlog());
        let under_way = parts.arrival.at(&delay);
        let backlog =
            per_flow.filter_map(|bound| bound.backlog.clone()).fold(under_way, Rational::min);
        let servers = parts.path.iter().map(|&server| self.server(server)).collect();
        let (method, output) = (best.method, parts.arrival.delayed(&jitter));
        Ok(Least { flow, method, delay, jitter, backlog, output, servers, tried })
    }

    fn server(&self, server: usize) -> ServerBound {
        let delay = self.per_hop.delay[server].clone();
        ServerBound { server, delay, backlog: self.per_hop.backlog[server].clone() }
    }

    fn unbounded(&self, flow: usize) -> BoundError {
        let parts = &self.network.flows()[flow];
        let bounded = |server: &&usize| self.per_hop.delay[**server].is_none();
        let server = parts.path.iter().find(bounded).or(parts.path.last());
        let name = server.map_or("", |&server| self.network.servers()[server].name.as_str());
        BoundError::Unbounded { flow: parts.name.clone(), server: name.into() }
    }
}
