//! The linear program of a FIFO network over a polynomial number of dates.
//!
//! Source: Bouillard, *Trade-off between accuracy and tractability of network calculus in FIFO
//! networks*, Performance Evaluation 153 (2022): section 5 (polynomial-size program) and section 6
//! (delays of simpler analyses as constraints).
//!
//! The servers from which data reaches the flow's last server form a tree with that server at the
//! root; where paths part and meet again, a server appears once for each way to the root (its
//! copies are independent, which can only enlarge the maximum). A server at depth d has d + 2
//! dates. Date u ≤ d at a server is when the bit arrived that leaves it at the parent's date u (the
//! root's bits leave at one date, t₀); date d + 1 is when the service up to the parent's last date
//! began. Since FIFO keeps the order of bits, a flow's cumulative data has one value per date
//! *number*, the same at every server it passes: one column of values per flow.

use alloc::vec::Vec;

use super::envelope::{Envelope, RateLatency, TokenBucket};
use super::network::{Multiplexing, Network};
use super::per_hop::PerHop;
use super::program::{Program, Proven};
use super::rational::Rational;

/// The most servers, counted with their copies, that a program covers besides the path of the flow
/// of interest. Flows enter a program from servers beyond with their per-hop curves. If a program
/// of this size is too large for the solver, smaller ones are tried.
pub const NODES_MAX: usize = 16;

/// The most pieces of a bundle's curve; each costs a row per pair of dates.
const PIECES_KEPT: usize = 6;

/// A server on the way to the root.
struct Node {
    server: usize,
    parent: Option<usize>,
    depth: usize,
    /// Index of the first of its `depth + 2` dates.
    dates: usize,
}

/// Flows that enter the tree at the same node and leave it at the same node.
struct Bundle {
    /// Node indices from the one where they leave down to the one where they enter.
    nodes: Vec<usize>,
    /// The server outside the tree that they come from; `None`: they start at the entering node.
    before: Option<usize>,
    /// The flows, by index, with their hop at the entering node.
    flows: Vec<(usize, usize)>,
    /// Index of the first value; there are as many as the entering node has dates.
    values: usize,
    interest: bool,
}

struct Tree<'a> {
    network: &'a Network,
    per_hop: &'a PerHop,
    nodes: Vec<Node>,
    bundles: Vec<Bundle>,
    variables: usize,
}

/// The size of a solved program, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSize {
    /// Variables: dates and values.
    pub variables: usize,
    /// Constraints.
    pub rows: usize,
    /// Constraints with a multiplier above zero in the proof.
    pub rows_used: usize,
    /// Steps of the search.
    pub pivots: usize,
}

/// The largest delay of `flow` that the program admits; `None` if a server that matters is not
/// FIFO, the program is too large, or a server before is unbounded.
pub(super) fn delay(
    network: &Network,
    per_hop: &PerHop,
    flow: usize,
) -> Option<(Rational, ProgramSize)> {
    [NODES_MAX, NODES_MAX / 3, 0].into_iter().find_map(|nodes| {
        let tree = Tree::new(network, per_hop, flow, nodes)?;
        let unit = Unit::of(&tree);
        let program = tree.program(&unit)?;
        let Proven { bound, pivots, rows_used } = program.solve()?;
        let (variables, rows) = (tree.variables, program.rows());
        Some((&bound * &unit.time, ProgramSize { variables, rows, rows_used, pivots }))
    })
}

/// Units that bring every number of the program near one.
struct Unit {
    rate: Rational,
    data: Rational,
    time: Rational,
}

impl Unit {
    fn of(tree: &Tree<'_>) -> Self {
        let services =
            || tree.nodes.iter().map(|node| &tree.network.servers()[node.server].service);
        let rate = services().map(|service| service.rate.clone()).max();
        let rate = rate.filter(Rational::is_positive).unwrap_or(Rational::ONE);
        let due = services().map(|service| &service.rate * &service.latency);
        let bursts = tree.bundles.iter().filter_map(|bundle| tree.curve(bundle, 0));
        let bursts = bursts.map(|curve| curve.sustained().burst.clone());
        let data = due.chain(bursts).max().filter(Rational::is_positive).unwrap_or(Rational::ONE);
        let time = &data / &rate;
        Self { rate, data, time }
    }
}

impl<'a> Tree<'a> {
    fn new(network: &'a Network, per_hop: &'a PerHop, flow: usize, nodes: usize) -> Option<Self> {
        let path = &network.flows()[flow].path;
        let (nodes_max, root) = (path.len() + nodes, *path.last()?);
        let (nodes, bundles) = (Vec::new(), Vec::new());
        let mut tree = Self { network, per_hop, nodes, bundles, variables: 1 };
        tree.add_node(root, None, 0);
        // The path of the flow of interest first, then breadth first while there is room.
        for (node, &before) in path.iter().rev().skip(1).enumerate() {
            tree.add_node(before, Some(node), node + 1);
        }
        let mut next = 0;
        while next < tree.nodes.len() {
            tree.add_children(next, nodes_max)?;
            next += 1;
        }
        for node in 0..tree.nodes.len() {
            tree.add_bundles(node, flow);
        }
        Some(tree)
    }

    fn add_node(&mut self, server: usize, parent: Option<usize>, depth: usize) {
        self.nodes.push(Node { server, parent, depth, dates: self.variables });
        self.variables += depth + 2;
    }

    /// `None` if the server is not FIFO.
    fn add_children(&mut self, node: usize, nodes_max: usize) -> Option<()> {
        let server = self.nodes[node].server;
        if self.network.servers()[server].multiplexing != Multiplexing::Fifo {
            return None;
        }
        let flows = self.network.flows_at(server).iter();
        let mut before: Vec<usize> =
            flows.filter_map(|&flow| self.network.before(flow, server)).collect();
        before.sort_unstable();
        before.dedup();
        for child in before {
            let fifo = self.network.servers()[child].multiplexing == Multiplexing::Fifo;
            let room = self.nodes.len() < nodes_max;
            if fifo && room && self.child(node, child).is_none() {
                self.add_node(child, Some(node), self.nodes[node].depth + 1);
            }
        }
        Some(())
    }

    /// The node of `server` among the children of `node`.
    fn child(&self, node: usize, server: usize) -> Option<usize> {
        let found = |child: &Node| child.parent == Some(node) && child.server == server;
        self.nodes.iter().position(found)
    }

    /// Bundles that leave the tree at `node`.
    fn add_bundles(&mut self, node: usize, interest: usize) {
        let server = self.nodes[node].server;
        let parent = self.nodes[node].parent.map(|parent| self.nodes[parent].server);
        let first = self.bundles.len();
        for &flow in self.network.flows_at(server) {
            let path = &self.network.flows()[flow].path;
            let mut hop = self.network.hop(flow, server);
            if parent.is_some() && path.get(hop + 1).copied() == parent {
                continue;
            }
            let mut nodes = alloc::vec![node];
            while hop > 0
                && let Some(child) = self.child(nodes[nodes.len() - 1], path[hop - 1])
            {
                nodes.push(child);
                hop -= 1;
            }
            let before = hop.checked_sub(1).map(|hop| path[hop]);
            let of_interest = parent.is_none() && flow == interest;
            let same = |bundle: &&mut Bundle| bundle.nodes == nodes && bundle.before == before;
            if let Some(bundle) = self.bundles[first..].iter_mut().find(same) {
                bundle.flows.push((flow, hop));
                bundle.interest |= of_interest;
                continue;
            }
            let (flows, values) = (alloc::vec![(flow, hop)], self.variables);
            self.variables += self.nodes[nodes[nodes.len() - 1]].depth + 2;
            self.bundles.push(Bundle { nodes, before, flows, values, interest: of_interest });
        }
    }

    /// Whether a server stands at more than one node.
    fn has_copies(&self) -> bool {
        let mut servers: Vec<usize> = self.nodes.iter().map(|node| node.server).collect();
        servers.sort_unstable();
        servers.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Curve of a bundle's flows together, `hops` after the entering node; `None` if unbounded.
    fn curve(&self, bundle: &Bundle, hops: usize) -> Option<Envelope> {
        let own = |&(flow, first): &(usize, usize)| self.per_hop.arrival[flow].get(first + hops);
        let own = bundle.flows.iter().map(own).collect::<Option<Vec<_>>>()?;
        Some(Envelope::sum(own).thinned(PIECES_KEPT))
    }

    /// Variable of the date at which the bits of date number `number` leave a node.
    fn leaves(&self, node: usize, number: usize) -> usize {
        self.nodes[node].parent.map_or(0, |parent| self.nodes[parent].dates + number)
    }

    fn program(&self, unit: &Unit) -> Option<Program> {
        let mut program = Program::new(self.variables);
        let interest = self.bundles.iter().find(|bundle| bundle.interest)?;
        let entry = interest.nodes[interest.nodes.len() - 1];
        program.maximise(&[(0, 1), (self.nodes[entry].dates, -1)]);
        for node in 0..self.nodes.len() {
            self.date_rows(&mut program, node, unit);
            self.service_row(&mut program, node, unit);
            self.line_rows(&mut program, node, unit);
        }
        let copies = self.has_copies();
        for bundle in &self.bundles {
            self.bundle_rows(&mut program, bundle, unit, copies);
            self.delay_rows(&mut program, bundle, unit);
        }
        Some(program)
    }

    /// Dates of a node fall, lie before those at which the bits leave, and not longer before than
    /// the server's delay.
    fn date_rows(&self, program: &mut Program, node: usize, unit: &Unit) {
        let Node { server, depth, dates, .. } = self.nodes[node];
        for number in 0..=depth {
            program.add(less(dates + number + 1, dates + number), Rational::ZERO);
            program.add(less(dates + number, self.leaves(node, number)), Rational::ZERO);
            if let Some(delay) = &self.per_hop.delay[server] {
                let terms = less(self.leaves(node, number), dates + number);
                program.add(terms, delay / &unit.time);
            }
        }
    }

    /// What left by the last date is at least what had come by the start of service plus
    /// R · (time since − T).
    fn service_row(&self, program: &mut Program, node: usize, unit: &Unit) {
        let Node { server, depth, dates, .. } = self.nodes[node];
        let RateLatency { rate, latency } = &self.network.servers()[server].service;
        let share = rate / &unit.rate;
        let mut terms =
            alloc::vec![(self.leaves(node, depth), share.clone()), (dates + depth + 1, -&share),];
        for bundle in self.bundles.iter().filter(|bundle| bundle.nodes.contains(&node)) {
            terms.extend(less(bundle.values + depth + 1, bundle.values + depth));
        }
        program.add(terms, &(rate * latency) / &unit.data);
    }

    /// What comes into a node from one server never exceeds the line between them.
    fn line_rows(&self, program: &mut Program, node: usize, unit: &Unit) {
        let Node { server, depth, dates, .. } = self.nodes[node];
        let flows = self.network.flows_at(server).iter();
        let mut before: Vec<usize> =
            flows.filter_map(|&flow| self.network.before(flow, server)).collect();
        before.sort_unstable();
        before.dedup();
        for before in before {
            let Some(line) = &self.network.servers()[before].line else { continue };
            let child = self.child(node, before);
            let comes = |bundle: &&Bundle| {
                let place = bundle.nodes.iter().position(|&passed| passed == node);
                place.is_some_and(|place| match child {
                    Some(child) => bundle.nodes.get(place + 1) == Some(&child),
                    None => place + 1 == bundle.nodes.len() && bundle.before == Some(before),
                })
            };
            let passing: Vec<usize> =
                self.bundles.iter().filter(comes).map(|bundle| bundle.values).collect();
            window_rows(program, &passing, (dates, depth), line, unit);
        }
    }

    /// A flow's values fall with the date number and obey its curve where it enters. Its curves at
    /// later nodes follow from that, except where copies have lost what they share.
    fn bundle_rows(&self, program: &mut Program, bundle: &Bundle, unit: &Unit, copies: bool) {
        for (hops, &node) in bundle.nodes.iter().rev().enumerate() {
            let Node { dates, depth, .. } = self.nodes[node];
            if hops == 0 {
                for number in bundle.values..=bundle.values + depth {
                    program.add(less(number + 1, number), Rational::ZERO);
                }
            }
            if hops > 0 && !copies {
                break;
            }
            let Some(curve) = self.curve(bundle, hops) else { continue };
            for piece in curve.pieces() {
                window_rows(program, &[bundle.values], (dates, depth), piece, unit);
            }
        }
    }

    /// On every stretch of its way a flow's bits are not longer under way than its delay there.
    fn delay_rows(&self, program: &mut Program, bundle: &Bundle, unit: &Unit) {
        let length = bundle.nodes.len();
        for from in 0..length {
            for to in from + 1..length {
                // Nodes go up the tree, hops down the path.
                let (entry, exit) =
                    (bundle.nodes[length - 1 - from], bundle.nodes[length - 1 - to]);
                let Some(delay) = self.delay_of_stretch(bundle, from, to) else { continue };
                for number in 0..=self.nodes[exit].depth {
                    let entered = self.nodes[entry].dates + number;
                    let terms = less(self.leaves(exit, number), entered);
                    program.add(terms, &delay / &unit.time);
                }
            }
        }
    }

    /// Delay of a bundle's flows from `from` to `to` hops after they entered, by separated flow
    /// analysis; they share their way, so the least over them holds for all.
    fn delay_of_stretch(&self, bundle: &Bundle, from: usize, to: usize) -> Option<Rational> {
        let of_flow = |&(flow, first): &(usize, usize)| {
            let mut services = (first + from..=first + to)
                .map(|hop| self.per_hop.left_over(self.network, flow, hop));
            let start = services.next()??;
            let whole = services.try_fold(start, |before, next| Some(before.then(&next?)))?;
            self.per_hop.arrival[flow].get(first + from)?.delay(&whole)
        };
        bundle.flows.iter().filter_map(of_flow).min()
    }
}

/// Between any two of a node's dates, the columns of values together grow by no more than `cap`
/// admits.
fn window_rows(
    program: &mut Program,
    columns: &[usize],
    (dates, depth): (usize, usize),
    cap: &TokenBucket,
    unit: &Unit,
) {
    let (share, burst) = (&cap.rate / &unit.rate, &cap.burst / &unit.data);
    for later in 0..=depth {
        for earlier in later + 1..=depth + 1 {
            let mut terms = alloc::vec![(dates + later, -&share), (dates + earlier, share.clone())];
            for values in columns {
                terms.extend(less(values + later, values + earlier));
            }
            program.add(terms, burst.clone());
        }
    }
}

/// Terms of `smaller − larger`.
fn less(smaller: usize, larger: usize) -> Vec<(usize, Rational)> {
    alloc::vec![(smaller, Rational::ONE), (larger, Rational::integer(-1))]
}
