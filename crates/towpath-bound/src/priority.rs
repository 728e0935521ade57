//! Static-priority servers as one FIFO server per class.
//!
//! A class is served with [`service::static_priority`] of what the classes above send. Their
//! bursts are known when a port is reached, because ports are passed in
//! topological order and classes from the top.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::envelope::{RateLatency, TokenBucket};
use super::network::{Multiplexing, Network, NetworkError, Server};
use super::per_hop::PerHop;
use super::rational::Rational;
use super::service;

/// A class of a static-priority port.
struct Class {
    /// Servers of the classes above.
    above: Vec<usize>,
    /// The port's own curve.
    port: RateLatency,
    /// Largest frame of the classes below.
    frame_below: Rational,
}

/// Splits a network's static-priority servers and bounds every server of the result.
pub(super) fn split(network: &Network) -> Result<(Network, PerHop), NetworkError> {
    let shares_order = |server: &Server| server.multiplexing == Multiplexing::StaticPriority;
    if !network.servers().iter().any(shares_order) {
        return Ok((network.clone(), PerHop::new(network)));
    }
    let mut servers: Vec<Server> = Vec::new();
    let mut classes: Vec<Option<Class>> = Vec::new();
    let mut place: BTreeMap<(usize, u8), usize> = BTreeMap::new();
    let mut order: Vec<usize> = Vec::new();
    for &port in network.order() {
        let parts = &network.servers()[port];
        if !shares_order(parts) {
            let flows = network.flows_at(port).iter();
            place.extend(flows.map(|&flow| ((port, network.flows()[flow].class), servers.len())));
            order.push(servers.len());
            servers.push(parts.clone());
            classes.push(None);
            continue;
        }
        let mut above = Vec::new();
        for class in classes_at(network, port) {
            let index = servers.len();
            place.insert((port, class), index);
            order.push(index);
            servers.push(Server {
                name: name_of(parts, class),
                multiplexing: Multiplexing::Fifo,
                ..parts.clone()
            });
            classes.push(Some(Class {
                above: above.clone(),
                port: parts.service.clone(),
                frame_below: frame_below(network, port, class),
            }));
            above.push(index);
        }
    }
    let mut flows = network.flows().to_vec();
    for flow in &mut flows {
        for hop in &mut flow.path {
            *hop = place[&(*hop, flow.class)];
        }
    }
    let mut split = Network::new(servers, flows)?;
    let mut bounds = PerHop::start(&split);
    for server in order {
        if let Some(class) = &classes[server] {
            split.set_service(server, class.service(&bounds));
        }
        bounds.pass(&split, server);
    }
    Ok((split, bounds))
}

impl Class {
    /// What the classes above leave; rate zero if nothing.
    fn service(&self, bounds: &PerHop) -> RateLatency {
        let nothing = || RateLatency::new(Rational::ZERO, self.port.latency.clone());
        let mut above = TokenBucket::new(Rational::ZERO, Rational::ZERO);
        for &server in &self.above {
            let Some(total) = bounds.total(server) else { return nothing() };
            above.rate += &total.rate;
            above.burst += &total.burst;
        }
        service::static_priority(&self.port, &above, &self.frame_below)
            .unwrap_or_else(|_| nothing())
    }
}

fn classes_at(network: &Network, port: usize) -> Vec<u8> {
    let flows = network.flows_at(port).iter();
    let mut classes: Vec<u8> = flows.map(|&flow| network.flows()[flow].class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

fn frame_below(network: &Network, port: usize, class: u8) -> Rational {
    let flows = network.flows_at(port).iter().map(|&flow| &network.flows()[flow]);
    let below = flows.filter(|flow| flow.class > class);
    below.map(|flow| flow.frame.clone()).max().unwrap_or_default()
}

fn name_of(port: &Server, class: u8) -> String {
    alloc::format!("{} class {class}", port.name)
}
