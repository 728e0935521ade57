//! A feed-forward network of servers and the flows through it, checked once.

use alloc::string::String;
use alloc::vec::Vec;

use super::envelope::{Envelope, RateLatency, TokenBucket};
use super::rational::Rational;

/// The most servers of a network.
pub const SERVERS_MAX: usize = 65_536;
/// The most flows of a network.
pub const FLOWS_MAX: usize = 1_048_576;
/// The most servers on one flow's path.
pub const HOPS_MAX: usize = 64;

/// In which order a server takes the data that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexing {
    /// First come, first served over all flows.
    Fifo,
    /// Any order between flows, first come first served within one.
    Blind,
    /// The class with the lowest [`Flow::class`] first, a frame in transmission is finished; first
    /// come, first served within a class.
    StaticPriority,
}

/// A server: an egress with its link, or any other resource that serves at a known rate.
#[derive(Clone, Debug)]
pub struct Server {
    /// What errors and traces call it.
    pub name: String,
    /// Strict service curve: holds for every backlogged period.
    pub service: RateLatency,
    /// Order between flows.
    pub multiplexing: Multiplexing,
    /// What the line behind it can carry in time t: rate c, burst L (one frame). Output of one
    /// server to the next never exceeds it.
    pub line: Option<TokenBucket>,
}

impl Server {
    /// A server without a line limit.
    pub fn new(name: &str, rate: Rational, latency: Rational, order: Multiplexing) -> Self {
        Self {
            name: name.into(),
            service: RateLatency::new(rate, latency),
            multiplexing: order,
            line: None,
        }
    }

    /// The same with a line of rate `rate` that carries frames of at most `frame`.
    #[must_use]
    pub fn with_line(mut self, rate: Rational, frame: Rational) -> Self {
        self.line = Some(TokenBucket::new(rate, frame));
        self
    }

    /// The same with a packetiser behind it: the next server sees a packet when its last bit has
    /// left, so the latency grows by L / R (Le Boudec and Thiran, section 1.7). The last server of
    /// a path needs none: the last bit is what counts there anyway.
    #[must_use]
    pub fn store_and_forward(mut self, frame: &Rational) -> Self {
        if let Some(time) = frame.checked_div(&self.service.rate) {
            self.service.latency += &time;
        }
        self
    }
}

/// A flow: what it may send, and where it goes.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What errors and traces call it.
    pub name: String,
    /// Arrival curve at the first server.
    pub arrival: Envelope,
    /// Indices of the servers, in order, each once.
    pub path: Vec<usize>,
    /// Class at static-priority servers; 0 is served first.
    pub class: u8,
    /// Largest frame, data; blocks classes above at static-priority servers.
    pub frame: Rational,
    /// A delay that no bit beats (transmission and propagation); the jitter bound is counted
    /// from it.
    pub delay_least: Rational,
}

impl Flow {
    /// A flow of class 0 with fluid frames and no least delay.
    pub fn new(name: &str, arrival: Envelope, path: Vec<usize>) -> Self {
        Self {
            name: name.into(),
            arrival,
            path,
            class: 0,
            frame: Rational::ZERO,
            delay_least: Rational::ZERO,
        }
    }
}

/// Why a network has no bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// More servers, flows or hops than the limit.
    #[error("{what}: {value}; the limit is {limit}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        value: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A rate, burst, latency or frame below zero.
    #[error("{name}: {what} is {value}; it must not be negative")]
    Negative {
        /// Which server or flow.
        name: String,
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: Rational,
    },
    /// A flow without a path.
    #[error("flow {flow}: its path is empty")]
    EmptyPath {
        /// The flow.
        flow: String,
    },
    /// A path names a server that is not there.
    #[error("flow {flow}: its path names server {server} of {servers}")]
    UnknownServer {
        /// The flow.
        flow: String,
        /// The index on the path.
        server: usize,
        /// How many servers there are.
        servers: usize,
    },
    /// A path visits a server twice.
    #[error("flow {flow}: its path visits server {server} twice")]
    Revisits {
        /// The flow.
        flow: String,
        /// The server.
        server: String,
    },
    /// The paths form a cycle: burst and delay feed on each other, and the methods here, which
    /// go from the sources to the sinks, have no start.
    #[error("the paths form a cycle through server {server}; only feed-forward networks are bound")]
    Cycle {
        /// A server on the cycle.
        server: String,
    },
    /// More data arrives at a server in the long run than it serves.
    #[error("unstable: server {server} by {by} (rate of its flows above its own)")]
    Unstable {
        /// The server.
        server: String,
        /// Rate of the flows less rate of the server.
        by: Rational,
    },
}

/// A checked feed-forward network.
///
/// Invariants: every path is non-empty, names existing servers, each once; `order` lists every
/// server after all that feed it; at every server the flows' sustained rates sum to at most R.
#[derive(Clone, Debug)]
pub struct Network {
    servers: Vec<Server>,
    flows: Vec<Flow>,
    /// Flows of each server, ascending.
    at: Vec<Vec<usize>>,
    order: Vec<usize>,
}

impl Network {
    /// Checks and takes the parts.
    pub fn new(servers: Vec<Server>, flows: Vec<Flow>) -> Result<Self, NetworkError> {
        check_count("servers", servers.len(), SERVERS_MAX)?;
        check_count("flows", flows.len(), FLOWS_MAX)?;
        for server in &servers {
            check_server(server)?;
        }
        let mut at = alloc::vec![Vec::new(); servers.len()];
        for (index, flow) in flows.iter().enumerate() {
            check_flow(flow, &servers)?;
            for &server in &flow.path {
                if at[server].last() == Some(&index) {
                    return Err(NetworkError::Revisits {
                        flow: flow.name.clone(),
                        server: servers[server].name.clone(),
                    });
                }
                at[server].push(index);
            }
        }
        let order = topological_order(&servers, &flows)?;
        let network = Self { servers, flows, at, order };
        network.check_stable()?;
        Ok(network)
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Indices of the flows through a server, ascending.
    pub fn flows_at(&self, server: usize) -> &[usize] {
        &self.at[server]
    }

    /// Indices of the servers, each after all that feed it.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Replaces a service curve by what other classes leave of it.
    pub(super) fn set_service(&mut self, server: usize, service: RateLatency) {
        self.servers[server].service = service;
    }

    /// Position of a server on a flow's path.
    pub(super) fn hop(&self, flow: usize, server: usize) -> usize {
        let hop = self.flows[flow].path.iter().position(|&other| other == server);
        hop.expect("the flow passes the server")
    }

    /// The server before `server` on a flow's path.
    pub(super) fn before(&self, flow: usize, server: usize) -> Option<usize> {
        let hop = self.hop(flow, server);
        hop.checked_sub(1).map(|previous| self.flows[flow].path[previous])
    }

    fn check_stable(&self) -> Result<(), NetworkError> {
        for (server, flows) in self.servers.iter().zip(&self.at) {
            let load: Rational =
                flows.iter().map(|&flow| &self.flows[flow].arrival.sustained().rate).sum();
            if load > server.service.rate {
                return Err(NetworkError::Unstable {
                    server: server.name.clone(),
                    by: &load - &server.service.rate,
                });
            }
        }
        Ok(())
    }
}

fn check_count(what: &'static str, value: usize, limit: usize) -> Result<(), NetworkError> {
    if value > limit {
        return Err(NetworkError::TooMany { what, value, limit });
    }
    Ok(())
}

fn check_sign(name: &str, what: &'static str, value: &Rational) -> Result<(), NetworkError> {
    if value.is_negative() {
        return Err(NetworkError::Negative { name: name.into(), what, value: value.clone() });
    }
    Ok(())
}

fn check_server(server: &Server) -> Result<(), NetworkError> {
    check_sign(&server.name, "rate", &server.service.rate)?;
    check_sign(&server.name, "latency", &server.service.latency)?;
    if let Some(line) = &server.line {
        check_sign(&server.name, "line rate", &line.rate)?;
        check_sign(&server.name, "line frame", &line.burst)?;
    }
    Ok(())
}

fn check_flow(flow: &Flow, servers: &[Server]) -> Result<(), NetworkError> {
    for piece in flow.arrival.pieces() {
        check_sign(&flow.name, "rate", &piece.rate)?;
        check_sign(&flow.name, "burst", &piece.burst)?;
    }
    check_sign(&flow.name, "frame", &flow.frame)?;
    check_sign(&flow.name, "least delay", &flow.delay_least)?;
    check_count("hops of a flow", flow.path.len(), HOPS_MAX)?;
    if flow.path.is_empty() {
        return Err(NetworkError::EmptyPath { flow: flow.name.clone() });
    }
    if let Some(&server) = flow.path.iter().find(|&&server| server >= servers.len()) {
        let (flow, servers) = (flow.name.clone(), servers.len());
        return Err(NetworkError::UnknownServer { flow, server, servers });
    }
    Ok(())
}

/// Kahn's algorithm; ties go to the smaller index, so the order is the same on every run.
fn topological_order(servers: &[Server], flows: &[Flow]) -> Result<Vec<usize>, NetworkError> {
    let mut edges: Vec<(usize, usize)> =
        flows.iter().flat_map(|flow| flow.path.windows(2).map(|pair| (pair[0], pair[1]))).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut waiting = alloc::vec![0_usize; servers.len()];
    for &(_, to) in &edges {
        waiting[to] += 1;
    }
    let mut ready: alloc::collections::BTreeSet<usize> =
        (0..servers.len()).filter(|&server| waiting[server] == 0).collect();
    let mut order = Vec::with_capacity(servers.len());
    while let Some(server) = ready.pop_first() {
        order.push(server);
        let first = edges.partition_point(|&(from, _)| from < server);
        for &(_, to) in edges[first..].iter().take_while(|&&(from, _)| from == server) {
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.insert(to);
            }
        }
    }
    match waiting.iter().position(|&count| count > 0) {
        Some(server) => Err(NetworkError::Cycle { server: servers[server].name.clone() }),
        None => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, rate: i64) -> Server {
        let (rate, latency) = (Rational::integer(rate), Rational::integer(1));
        Server::new(name, rate, latency, Multiplexing::Fifo)
    }

    fn flow(name: &str, rate: i64, path: &[usize]) -> Flow {
        let bucket = Envelope::token_bucket(Rational::integer(rate), Rational::integer(10));
        Flow::new(name, bucket, path.to_vec())
    }

    fn refused(flows: Vec<Flow>) -> NetworkError {
        Network::new(alloc::vec![server("a", 10), server("b", 10)], flows).unwrap_err()
    }

    #[test]
    fn every_fault_has_its_name() {
        let cycle = refused(alloc::vec![flow("f", 1, &[0, 1]), flow("g", 1, &[1, 0])]);
        assert_eq!(cycle, NetworkError::Cycle { server: "a".into() });
        let unstable = refused(alloc::vec![flow("f", 6, &[0, 1]), flow("g", 7, &[1])]);
        assert_eq!(
            alloc::string::ToString::to_string(&unstable),
            "unstable: server b by 3 (rate of its flows above its own)"
        );
        assert!(matches!(refused(alloc::vec![flow("f", 1, &[])]), NetworkError::EmptyPath { .. }));
        let twice = refused(alloc::vec![flow("f", 1, &[0, 0])]);
        assert!(matches!(twice, NetworkError::Revisits { .. }));
        let unknown = refused(alloc::vec![flow("f", 1, &[2])]);
        assert!(matches!(unknown, NetworkError::UnknownServer { server: 2, servers: 2, .. }));
        let negative = refused(alloc::vec![flow("f", -1, &[0])]);
        assert!(matches!(negative, NetworkError::Negative { what: "rate", .. }));
        let long = refused(alloc::vec![flow("f", 1, &[0; HOPS_MAX + 1])]);
        assert!(matches!(long, NetworkError::TooMany { value: 65, limit: 64, .. }));
    }

    #[test]
    fn rates_that_sum_to_exactly_the_server_are_stable() {
        let flows = alloc::vec![flow("f", 4, &[1, 0]), flow("g", 6, &[0])];
        let network = Network::new(alloc::vec![server("a", 10), server("b", 10)], flows).unwrap();
        assert_eq!(network.order(), [1, 0]);
        assert_eq!(network.flows_at(0), [0, 1]);
    }
}
