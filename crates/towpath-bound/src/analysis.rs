//! The analyses of one flow: total flow, separated flow, pay multiplexing only once.

use alloc::vec::Vec;
use core::fmt;

use super::envelope::{Envelope, RateLatency};
use super::fifo::{self, ProgramSize};
use super::grouped::{self, CrossTraffic, Groups, Interest};
use super::network::{Multiplexing, Network};
use super::per_hop::PerHop;
use super::pmoo;
use super::rational::Rational;

/// How a bound was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Total flow analysis over groups of flows: sum of the servers' delays.
    Tfa(CrossTraffic),
    /// Separated flow analysis over groups of flows: the servers' left-overs in one curve.
    Sfa(CrossTraffic),
    /// Pay multiplexing only once; blind servers only.
    Pmoo(CrossTraffic),
    /// Total flow analysis in one pass over the network, with line shaping.
    TfaPerHop,
    /// Separated flow analysis in one pass over the network.
    SfaPerHop,
    /// Linear program over a polynomial number of dates; FIFO servers only.
    FifoProgram,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tfa(_) => "total flow",
            Self::Sfa(_) => "separated flow",
            Self::Pmoo(_) => "pay multiplexing only once",
            Self::TfaPerHop => "total flow, per hop",
            Self::SfaPerHop => "separated flow, per hop",
            Self::FifoProgram => "FIFO linear program",
        })
    }
}

/// One line of how a bound came about: what a server does for the flow.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the server; `None`: the whole path at once.
    pub server: Option<usize>,
    /// What competes with the flow (or, for total flow, everything that enters the server).
    pub arrival: Option<Envelope>,
    /// The curve the flow is served with.
    pub service: Option<RateLatency>,
    /// The delay this step adds, where delays are summed.
    pub delay: Option<Rational>,
}

/// What a method says about one flow. `None` stands for "no bound by this method".
#[derive(Clone, Debug)]
pub struct Bound {
    /// The flow's index.
    pub flow: usize,
    /// The method.
    pub method: Method,
    /// No bit is longer under way than this, from the first server's input to the last's output.
    pub delay: Option<Rational>,
    /// Separated flow and pay multiplexing only once: no more of the flow is under way at once.
    /// Total flow: no more waits in any one server of the path, all flows together.
    pub backlog: Option<Rational>,
    /// How it was found, server by server.
    pub steps: Vec<Step>,
    /// Size of the linear program, where the method is one.
    pub program: Option<ProgramSize>,
}

impl Method {
    /// Whether [`Bound::backlog`] counts the flow alone (else all flows of a server).
    pub fn bounds_own_backlog(self) -> bool {
        !matches!(self, Self::Tfa(_) | Self::TfaPerHop)
    }
}

impl Bound {
    /// The bound of a linear program for another flow of the same path.
    pub(super) fn for_flow(&self, network: &Network, flow: usize) -> Self {
        let arrival = &network.flows()[flow].arrival;
        let backlog = self.delay.as_ref().map(|delay| arrival.at(delay));
        Self { flow, backlog, ..self.clone() }
    }

    pub(super) fn none(flow: usize, method: Method) -> Self {
        Self { flow, method, delay: None, backlog: None, steps: Vec::new(), program: None }
    }
}

/// Bounds one flow by total flow analysis over groups.
pub(super) fn tfa(network: &Network, flow: usize, cross: CrossTraffic) -> Bound {
    let mut groups = Groups::new(network, cross.bounding);
    let mut bound = Bound::none(flow, Method::Tfa(cross));
    let (mut delay, mut backlog) = (Some(Rational::ZERO), Some(Rational::ZERO));
    for &server in &network.flows()[flow].path {
        let parts = &network.servers()[server];
        let arrival = groups.arrival(server, network.flows_at(server), None);
        let alone = network.flows_at(server).len() == 1;
        let here = arrival.as_ref().and_then(|all| {
            let in_order = alone || parts.multiplexing == Multiplexing::Fifo;
            if in_order { all.delay(&parts.service) } else { all.busy_period(&parts.service) }
        });
        let waiting = arrival.as_ref().and_then(|all| all.backlog(&parts.service));
        delay = delay.zip(here.as_ref()).map(|(sum, here)| &sum + here);
        backlog = backlog.zip(waiting).map(|(most, here)| most.max(here));
        bound.steps.push(Step {
            server: Some(server),
            arrival,
            service: Some(parts.service.clone()),
            delay: here,
        });
    }
    Bound { delay, backlog, ..bound }
}

/// Bounds one flow by separated flow analysis over groups.
pub(super) fn sfa(network: &Network, flow: usize, cross: CrossTraffic) -> Bound {
    let mut groups = Groups::new(network, cross.bounding);
    let except = (cross.interest == Interest::LeftOut).then_some(flow);
    let mut bound = Bound::none(flow, Method::Sfa(cross));
    for &server in &network.flows()[flow].path {
        let others = groups.others(server, &[flow], None);
        let arrival = groups.arrival(server, &others, except);
        let service = arrival.as_ref().and_then(|cross| grouped::left_over(network, server, cross));
        bound.steps.push(Step { server: Some(server), arrival, service, delay: None });
    }
    separated(network, bound)
}

/// Convolves the steps' services and takes both deviations.
fn separated(network: &Network, bound: Bound) -> Bound {
    let mut whole: Option<RateLatency> = None;
    for step in &bound.steps {
        let Some(service) = &step.service else { return bound };
        whole = Some(whole.map_or(service.clone(), |before| before.then(service)));
    }
    served(network, bound, whole)
}

fn served(network: &Network, mut bound: Bound, service: Option<RateLatency>) -> Bound {
    let Some(service) = service else { return bound };
    let arrival = &network.flows()[bound.flow].arrival;
    bound.delay = arrival.delay(&service);
    bound.backlog = arrival.backlog(&service);
    let delay = bound.delay.clone();
    bound.steps.push(Step { server: None, arrival: None, service: Some(service), delay });
    bound
}

/// Bounds one flow by pay multiplexing only once; no bound if a server of the path is not blind.
pub(super) fn pmoo(network: &Network, flow: usize, cross: CrossTraffic) -> Bound {
    let bound = Bound::none(flow, Method::Pmoo(cross));
    let path = &network.flows()[flow].path;
    let except = (cross.interest == Interest::LeftOut).then_some(flow);
    let mut groups = Groups::new(network, cross.bounding);
    let service = pmoo::left_over(&mut groups, path, &[flow], None, except);
    served(network, bound, service)
}

/// Sums the delays of the servers on the path.
pub(super) fn tfa_per_hop(network: &Network, bounds: &PerHop, flow: usize) -> Bound {
    let mut bound = Bound::none(flow, Method::TfaPerHop);
    let (mut delay, mut backlog) = (Some(Rational::ZERO), Some(Rational::ZERO));
    for (hop, &server) in network.flows()[flow].path.iter().enumerate() {
        let (here, waiting) = (&bounds.delay[server], &bounds.backlog[server]);
        delay = delay.zip(here.as_ref()).map(|(sum, here)| &sum + here);
        backlog = backlog.zip(waiting.as_ref()).map(|(most, here)| most.max(here.clone()));
        bound.steps.push(Step {
            server: Some(server),
            arrival: bounds.arrival[flow].get(hop).cloned(),
            service: Some(network.servers()[server].service.clone()),
            delay: here.clone(),
        });
    }
    Bound { delay, backlog, ..bound }
}

/// Convolves what each server of the path leaves over.
pub(super) fn sfa_per_hop(network: &Network, bounds: &PerHop, flow: usize) -> Bound {
    let mut bound = Bound::none(flow, Method::SfaPerHop);
    for (hop, &server) in network.flows()[flow].path.iter().enumerate() {
        let service = bounds.left_over(network, flow, hop);
        let arrival = bounds.arrival[flow].get(hop).cloned();
        bound.steps.push(Step { server: Some(server), arrival, service, delay: None });
    }
    separated(network, bound)
}

/// Bounds one flow by the linear program. Data under way at once arrived within the last delay.
pub(super) fn fifo_program(network: &Network, bounds: &PerHop, flow: usize) -> Bound {
    let bound = Bound::none(flow, Method::FifoProgram);
    let Some((delay, size)) = fifo::delay(network, bounds, flow) else { return bound };
    let backlog = Some(network.flows()[flow].arrival.at(&delay));
    Bound { delay: Some(delay), backlog, program: Some(size), ..bound }
}
