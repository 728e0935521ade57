//! From the file to a checked topology: each fault with its line.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use toml::Spanned;

use super::discipline::{Discipline, DisciplineName};
use super::form::{CpuForm, PortForm, TopologyForm};
use super::graph::{Cpu, HOPS_MAX, Node, NodeId, NodeKind, Port, PortId, Topology};
use crate::file;
use crate::spec::limits::{INTERVAL_NS_MAX, RATE_BPS_MAX, SIZE_BITS_MAX};

/// Largest file.
pub const FILE_BYTES_MAX: usize = file::BYTES_MAX;
/// Most hosts and switches together.
pub const NODES_MAX: usize = 2048;
/// Most links.
pub const LINKS_MAX: usize = 8192;
/// Most levels of static priority.
pub const LEVELS_MAX: usize = 16;
/// Most channels of an SCFQ port, most quanta in a round of a DRR port.
pub const SESSIONS_MAX: u32 = 1 << 20;

const SESSIONS: u32 = 64;
const QUEUE_BYTES: u64 = 1 << 20;
const PACKET_BYTES: u64 = 1538;

/// What is wrong with a topology, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct TopologyError {
    /// From 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What can be wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// A value outside its limits.
    #[error("{what} is {value}, must be {least} to {most}")]
    Range {
        /// The key.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// Two nodes, or two ports of one node, of the same name.
    #[error("duplicate name {0:?}")]
    Duplicate(String),
    /// An empty name, or one with a colon or a control character.
    #[error("name {0:?} must not be empty or hold a colon or control characters")]
    Name(String),
    /// A link to a node that there is not.
    #[error("unknown node {0:?}")]
    UnknownNode(String),
    /// A link to an interface that its host does not have.
    #[error("unknown interface {0:?}")]
    UnknownInterface(String),
    /// A link with fewer or more ends than two.
    #[error("a link has {0} ends, must have 2")]
    Ends(usize),
    /// A link whose ends are one node.
    #[error("link from {0:?} to itself")]
    SelfLink(String),
    /// An interface with two links, or with none.
    #[error("interface {name:?} is in {links} links, must be in one")]
    Interface {
        /// `node:port`.
        name: String,
        /// How many links name it.
        links: usize,
    },
    /// Budgets that do not rise, or that the scheduler does not take.
    #[error("budgets_ns: {0}")]
    Budgets(&'static str),
    /// A number of sessions where the scheduler has none.
    #[error("sessions_max: only of drr and scfq")]
    Sessions,
    /// Two hosts without a route, or with one that is too long.
    #[error("no route of at most {HOPS_MAX} hops from {from:?} to {to:?}")]
    Unreachable {
        /// A host.
        from: String,
        /// Another.
        to: String,
    },
}

/// A fault with a byte offset, before the line is known.
type At<T> = Result<T, (usize, Fault)>;

impl Topology {
    /// Reads and checks a topology file.
    ///
    /// Errors: [`TopologyError`], the first fault with its line. Limits: [`FILE_BYTES_MAX`],
    /// [`NODES_MAX`], [`LINKS_MAX`], routes of [`HOPS_MAX`] hops.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        if text.len() > FILE_BYTES_MAX {
            let (value, most) = (text.len() as u64, FILE_BYTES_MAX as u64);
            let fault = Fault::Range { what: "file in bytes", value, least: 0, most };
            return Err(TopologyError { line: 1, fault });
        }
        let form: TopologyForm = file::read(text, FILE_BYTES_MAX)
            .map_err(|e| TopologyError { line: e.line, fault: Fault::Syntax(e.message) })?;
        Self::build(&form).map_err(|(offset, fault)| {
            let line = file::line_of(text, offset);
            TopologyError { line, fault }
        })
    }

    /// Checks a form that did not come from text; offsets stand in for lines.
    fn build(form: &TopologyForm) -> At<Self> {
        let nodes = form.host.len() + form.switch.len();
        range(0, "number of nodes", nodes as u64, 0, NODES_MAX as u64)?;
        range(0, "number of links", form.link.len() as u64, 0, LINKS_MAX as u64)?;
        let mut builder = Builder::new(form)?;
        for link in &form.link {
            let at = link.ends.span().start;
            range(at, "rate_bps", link.rate_bps, 1, RATE_BPS_MAX)?;
            range(at, "delay_ns", link.delay_ns, 0, INTERVAL_NS_MAX)?;
            let [a, b] = link.ends.get_ref().as_slice() else {
                return Err((at, Fault::Ends(link.ends.get_ref().len())));
            };
            let (a, b) = (builder.end(at, a)?, builder.end(at, b)?);
            if a.node == b.node {
                return Err((at, Fault::SelfLink(builder.nodes[a.node].name.clone())));
            }
            let rate = link.rate_bps.min(a.rate_bps()).min(b.rate_bps());
            builder.add_port(at, &a, &b, (rate, link.delay_ns))?;
            builder.add_port(at, &b, &a, (rate, link.delay_ns))?;
        }
        builder.check_interfaces()?;
        let next = routes(&builder.nodes, &builder.ports, form.host.len());
        let topology =
            Self { nodes: builder.nodes, ports: builder.ports, hosts: form.host.len(), next };
        for to in topology.hosts() {
            for from in topology.hosts() {
                let hops = topology.route(from, to).take(HOPS_MAX + 1).count();
                if from != to && (hops == 0 || hops > HOPS_MAX) {
                    let name = |id: NodeId| topology.nodes[id.0 as usize].name.clone();
                    let at = form.host[from.0 as usize].name.span().start;
                    return Err((at, Fault::Unreachable { from: name(from), to: name(to) }));
                }
            }
        }
        Ok(topology)
    }
}

/// One end of a link.
struct End<'a> {
    node: usize,
    port: String,
    form: Option<&'a PortForm>,
    scheduler: DisciplineName,
    budgets_ns: Option<&'a [u64]>,
}

impl End<'_> {
    fn rate_bps(&self) -> u64 {
        self.form.and_then(|form| form.rate_bps).unwrap_or(RATE_BPS_MAX)
    }
}

struct Builder<'a> {
    form: &'a TopologyForm,
    index: BTreeMap<&'a str, usize>,
    nodes: Vec<Node>,
    ports: Vec<Port>,
}

impl<'a> Builder<'a> {
    fn new(form: &'a TopologyForm) -> At<Self> {
        let mut builder = Self { form, index: BTreeMap::new(), nodes: vec![], ports: vec![] };
        for host in &form.host {
            let at = host.name.span().start;
            let cpu = host.cpu.map(|cpu| check_cpu(at, &cpu)).transpose()?;
            builder.add_node(&host.name, NodeKind::Host { cpu }, &host.interface)?;
        }
        for switch in &form.switch {
            let at = switch.name.span().start;
            range(at, "latency_ns", switch.latency_ns, 0, INTERVAL_NS_MAX)?;
            let memory_bits = match switch.memory_bytes {
                Some(bytes) => Some(range(at, "memory_bytes", bytes, 0, SIZE_BITS_MAX / 8)? * 8),
                None => None,
            };
            if let Some(fabric) = switch.fabric_bps {
                range(at, "fabric_bps", fabric, 1, RATE_BPS_MAX)?;
            }
            let (latency_ns, fabric_bps) = (switch.latency_ns, switch.fabric_bps);
            let kind = NodeKind::Switch { latency_ns, fabric_bps, memory_bits };
            builder.add_node(&switch.name, kind, &switch.port)?;
        }
        Ok(builder)
    }

    fn add_node(
        &mut self,
        name: &'a Spanned<String>,
        kind: NodeKind,
        ports: &'a [PortForm],
    ) -> At<()> {
        check_name(name)?;
        let at = name.span().start;
        if self.index.insert(name.get_ref(), self.nodes.len()).is_some() {
            return Err((at, Fault::Duplicate(name.get_ref().clone())));
        }
        for (i, port) in ports.iter().enumerate() {
            check_name(&port.name)?;
            let at = port.name.span().start;
            if ports[..i].iter().any(|p| p.name.get_ref() == port.name.get_ref()) {
                let full = format!("{}:{}", name.get_ref(), port.name.get_ref());
                return Err((at, Fault::Duplicate(full)));
            }
            if let Some(rate) = port.rate_bps {
                range(at, "rate_bps", rate, 1, RATE_BPS_MAX)?;
            }
        }
        self.nodes.push(Node { name: name.get_ref().clone(), kind, ports: Vec::new() });
        Ok(())
    }

    fn port_forms(&self, node: usize) -> (&'a [PortForm], Option<DisciplineName>) {
        match node.checked_sub(self.form.host.len()) {
            None => (&self.form.host[node].interface, self.form.host[node].scheduler),
            Some(i) => (&self.form.switch[i].port, self.form.switch[i].scheduler),
        }
    }

    /// Of ports without scheduler and budgets of their own.
    fn budgets(&self, node: usize) -> Option<&'a [u64]> {
        let switch = node.checked_sub(self.form.host.len())?;
        self.form.switch[switch].budgets_ns.as_deref()
    }

    /// `node` or `node:port`. A port that is not declared gets the node's settings, unless the
    /// node declares interfaces.
    fn end(&self, at: usize, text: &str) -> At<End<'a>> {
        let (name, port) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let &node =
            self.index.get(name).ok_or_else(|| (at, Fault::UnknownNode(name.to_string())))?;
        let (forms, scheduler) = self.port_forms(node);
        let form = port.and_then(|port| forms.iter().find(|f| f.name.get_ref() == port));
        let is_host = node < self.form.host.len();
        if form.is_none() && is_host && !forms.is_empty() {
            return Err((at, Fault::UnknownInterface(text.to_string())));
        }
        let port = match port {
            Some("") => return Err((at, Fault::Name(text.to_string()))),
            Some(port) => port.to_string(),
            None => self.nodes[node].ports.len().to_string(),
        };
        let own = form.and_then(|f| f.scheduler);
        let budgets = form.and_then(|f| f.budgets_ns.as_deref());
        let budgets_ns = budgets.or_else(|| self.budgets(node).filter(|_| own.is_none()));
        let scheduler = own.or(scheduler).unwrap_or(DisciplineName::Edf);
        Ok(End { node, port, form, scheduler, budgets_ns })
    }

    fn add_port(&mut self, at: usize, from: &End<'_>, to: &End<'_>, link: (u64, u64)) -> At<()> {
        let taken = |id: &PortId| self.ports[id.0 as usize].name == from.port;
        if self.nodes[from.node].ports.iter().any(taken) {
            let name = format!("{}:{}", self.nodes[from.node].name, from.port);
            return Err((at, Fault::Interface { name, links: 2 }));
        }
        let at = from.form.map_or(at, |form| form.name.span().start);
        let (rate_bps, delay_ns) = link;
        let queue_bytes = from.form.and_then(|f| f.queue_bytes).unwrap_or(QUEUE_BYTES);
        let queue_bits = range(at, "queue_bytes", queue_bytes, 0, SIZE_BITS_MAX / 8)? * 8;
        let packet_bytes = from.form.and_then(|f| f.packet_bytes).unwrap_or(PACKET_BYTES);
        let packet_bits = range(at, "packet_bytes", packet_bytes, 1, SIZE_BITS_MAX / 8)? * 8;
        let budgets = from.budgets_ns;
        let sessions = from.form.and_then(|f| f.sessions_max);
        let drain = u128::from(queue_bits) * 1_000_000_000 / u128::from(rate_bps);
        let drain_ns = drain.clamp(1, u128::from(INTERVAL_NS_MAX)) as u64;
        let id = PortId(self.ports.len() as u32);
        self.ports.push(Port {
            node: NodeId(from.node as u32),
            name: from.port.clone(),
            peer: NodeId(to.node as u32),
            rate_bps,
            delay_ns,
            scheduler: from.scheduler,
            discipline: discipline(at, from.scheduler, (budgets, sessions), drain_ns)?,
            queue_bits,
            packet_bits,
        });
        self.nodes[from.node].ports.push(id);
        Ok(())
    }

    /// Every declared interface of a host is in a link.
    fn check_interfaces(&self) -> At<()> {
        for (node, host) in self.form.host.iter().enumerate() {
            for form in &host.interface {
                let named = |id: &PortId| self.ports[id.0 as usize].name == *form.name.get_ref();
                if !self.nodes[node].ports.iter().any(named) {
                    let name = format!("{}:{}", host.name.get_ref(), form.name.get_ref());
                    return Err((form.name.span().start, Fault::Interface { name, links: 0 }));
                }
            }
        }
        Ok(())
    }
}

fn range(at: usize, what: &'static str, value: u64, least: u64, most: u64) -> At<u64> {
    if value < least || value > most {
        return Err((at, Fault::Range { what, value, least, most }));
    }
    Ok(value)
}

fn check_name(name: &Spanned<String>) -> At<()> {
    let text = name.get_ref();
    if text.is_empty() || text.contains(|c: char| c == ':' || c.is_control()) {
        return Err((name.span().start, Fault::Name(text.clone())));
    }
    Ok(())
}

fn check_cpu(at: usize, cpu: &CpuForm) -> At<Cpu> {
    range(at, "limit_ppm", cpu.limit_ppm.into(), 1, 1_000_000)?;
    // A second per packet and a microsecond per byte are far beyond any processor.
    range(at, "packet_ns", cpu.packet_ns, 0, 1_000_000_000)?;
    range(at, "byte_ps", cpu.byte_ps, 0, 1_000_000)?;
    range(at, "blocking_ns", cpu.blocking_ns, 0, INTERVAL_NS_MAX)?;
    range(at, "budget_ns", cpu.budget_ns, cpu.blocking_ns.saturating_add(1), INTERVAL_NS_MAX)?;
    let CpuForm { packet_ns, byte_ps, limit_ppm, blocking_ns, budget_ns } = *cpu;
    Ok(Cpu { packet_ns, byte_ps, limit_ppm, blocking_ns, budget_ns })
}

fn discipline(
    at: usize,
    name: DisciplineName,
    (budgets, sessions): (Option<&[u64]>, Option<u32>),
    drain_ns: u64,
) -> At<Discipline> {
    if let Some(sessions) = sessions {
        range(at, "sessions_max", sessions.into(), 2, SESSIONS_MAX.into())?;
        if !matches!(name, DisciplineName::Drr | DisciplineName::Scfq) {
            return Err((at, Fault::Sessions));
        }
    }
    let sessions = sessions.unwrap_or(SESSIONS);
    if let Some(budgets) = budgets {
        for &budget in budgets {
            range(at, "budgets_ns", budget, 1, INTERVAL_NS_MAX)?;
        }
        if budgets.windows(2).any(|w| w[0] >= w[1]) {
            return Err((at, Fault::Budgets("must rise from level to level")));
        }
    }
    let levels = || match budgets {
        Some(budgets) if budgets.is_empty() || budgets.len() > LEVELS_MAX => {
            Err((at, Fault::Budgets("must be 1 to 16 levels")))
        }
        Some(budgets) => Ok(budgets.to_vec()),
        None => {
            let mut levels: Vec<u64> = (0..8).map(|i| (drain_ns >> (7 - i)).max(1)).collect();
            levels.dedup();
            Ok(levels)
        }
    };
    Ok(match name {
        DisciplineName::Fcfs => match budgets {
            Some(&[budget]) => Discipline::Fcfs(budget),
            None => Discipline::Fcfs(drain_ns),
            Some(_) => return Err((at, Fault::Budgets("fcfs has one"))),
        },
        DisciplineName::StaticPriority => Discipline::StaticPriority(levels()?),
        DisciplineName::Rcsp => Discipline::Rcsp(levels()?),
        _ if budgets.is_some() => {
            return Err((at, Fault::Budgets("only of fcfs, priority and rcsp")));
        }
        DisciplineName::Edf => Discipline::Edf { hold: false },
        DisciplineName::JitterEdf => Discipline::Edf { hold: true },
        DisciplineName::Hfsc => Discipline::Hfsc,
        DisciplineName::Wfq | DisciplineName::Wf2qPlus | DisciplineName::VirtualClock => {
            Discipline::RateBased
        }
        DisciplineName::Drr => Discipline::Drr { weights_max: sessions },
        DisciplineName::Scfq => Discipline::Scfq { channels_max: sessions },
        DisciplineName::Cbq => Discipline::ShareOnly,
    })
}

/// Breadth first from each host, over switches only; the first port in the file wins a tie.
fn routes(nodes: &[Node], ports: &[Port], hosts: usize) -> Vec<Vec<u32>> {
    let reverse = |port: u32| port ^ 1;
    let mut tables = Vec::with_capacity(hosts);
    for to in 0..hosts {
        let mut next = vec![u32::MAX; nodes.len()];
        let mut distance = vec![u32::MAX; nodes.len()];
        let mut queue = VecDeque::from([to]);
        distance[to] = 0;
        while let Some(at) = queue.pop_front() {
            if at < hosts && at != to {
                continue;
            }
            for port in &nodes[at].ports {
                let from = ports[port.0 as usize].peer.0 as usize;
                let back = reverse(port.0);
                if distance[from] == u32::MAX {
                    distance[from] = distance[at] + 1;
                    queue.push_back(from);
                }
                if distance[from] == distance[at] + 1 {
                    next[from] = next[from].min(back);
                }
            }
        }
        tables.push(next);
    }
    tables
}
