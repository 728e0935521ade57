//! Bounds against simulation: no cell of a simulated network is ever later than its bound, and the
//! analyses keep the order that theory gives them.
//!
//! The simulation is exact: cells of one unit of data, times in integer ticks. A cell reaches the
//! next server when its last bit has left, so the bounds are asked of store-and-forward servers
//! with frames of one unit.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use towpath_bound::{
    Analysis, BoundError, CrossTraffic, Envelope, Flow, Method, Multiplexing, Network, Rational,
    Server,
};

/// Ticks in one unit of time; every rate below divides it.
const TICKS: u64 = 60;
const RATES: [u64; 5] = [4, 5, 6, 10, 12];

#[derive(Clone, Debug)]
struct ServerPlan {
    rate: u64,
    /// Units of time.
    latency: u64,
}

#[derive(Clone, Debug)]
struct FlowPlan {
    /// Cells per unit of time; 60 must be a multiple.
    rate: u64,
    burst: u64,
    path: Vec<usize>,
    class: u8,
}

#[derive(Clone, Debug)]
struct Plan {
    servers: Vec<ServerPlan>,
    flows: Vec<FlowPlan>,
    order: Multiplexing,
    /// Whether the analyses know that a server sends no faster than its own rate.
    lines: bool,
}

impl Plan {
    fn network(&self) -> Network {
        let cell = Rational::ONE;
        let servers = self.servers.iter().enumerate().map(|(index, server)| {
            let (rate, latency) = (Rational::whole(server.rate), Rational::whole(server.latency));
            let plain = Server::new(&format!("s{index}"), rate.clone(), latency, self.order);
            let plain = plain.store_and_forward(&cell);
            if self.lines { plain.with_line(rate, cell.clone()) } else { plain }
        });
        let flows = self.flows.iter().enumerate().map(|(index, flow)| {
            let (rate, burst) = (Rational::whole(flow.rate), Rational::whole(flow.burst));
            let envelope = Envelope::token_bucket(rate, burst);
            let plain = Flow::new(&format!("f{index}"), envelope, flow.path.clone());
            Flow { class: flow.class, frame: cell.clone(), ..plain }
        });
        Network::new(servers.collect(), flows.collect()).expect("a stable plan")
    }
}

/// Networks whose servers are numbered along the paths: tandems, trees and anything feed-forward.
fn plan(order: Multiplexing) -> impl Strategy<Value = Plan> {
    let server = (0..RATES.len(), 0_u64..3)
        .prop_map(|(rate, latency)| ServerPlan { rate: RATES[rate], latency });
    let servers = proptest::collection::vec(server, 1..5);
    let flow = (1_u64..3, 1_u64..6, 1_u8..16, 0_u8..3);
    let flows = proptest::collection::vec(flow, 1..6);
    (servers, flows, any::<bool>()).prop_map(move |(servers, flows, lines)| {
        let mut load = vec![0; servers.len()];
        let mut kept = Vec::new();
        for (rate, burst, mask, class) in flows {
            let path: Vec<usize> = (0..servers.len()).filter(|s| mask >> s & 1 == 1).collect();
            let fits = path.iter().all(|&s| load[s] + rate <= servers[s].rate);
            if path.is_empty() || !fits {
                continue;
            }
            for &s in &path {
                load[s] += rate;
            }
            kept.push(FlowPlan { rate, burst, path, class });
        }
        Plan { servers, flows: kept, order, lines }
    })
}

/// A small generator: the same seed gives the same run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

#[derive(Clone, Copy)]
struct Cell {
    flow: usize,
    hop: usize,
    born: u64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Cell>,
    /// The cell in service and when it leaves.
    serving: Option<(u64, Cell)>,
    /// When the present backlogged period began to be served.
    ready: u64,
}

/// Runs one random behaviour of the sources and servers; the worst delay of every flow in ticks.
fn simulate(plan: &Plan, dice: &mut Dice, last: usize) -> Vec<u64> {
    let horizon = 40 * TICKS;
    let mut arrivals = sources(plan, dice, horizon);
    let mut queues: Vec<Queue> = plan.servers.iter().map(|_| Queue::default()).collect();
    let mut worst = vec![0; plan.flows.len()];
    let lazy = dice.below(3);
    loop {
        let leaving = queues.iter().filter_map(|queue| queue.serving.map(|(time, _)| time)).min();
        let arriving = arrivals.keys().next().copied();
        let Some(now) = [leaving, arriving].into_iter().flatten().min() else { return worst };
        // What leaves at this tick arrives at the next server at this tick.
        for (server, queue) in queues.iter_mut().enumerate() {
            if let Some((time, cell)) = queue.serving
                && time == now
            {
                queue.serving = None;
                let path = &plan.flows[cell.flow].path;
                if cell.hop + 1 == path.len() {
                    worst[cell.flow] = worst[cell.flow].max(now - cell.born);
                } else {
                    let next = Cell { hop: cell.hop + 1, ..cell };
                    arrivals.entry(now).or_default().push(next);
                }
                // The period goes on only if something waits before new arrivals come.
                queue.ready = now;
                start(plan, queue, server, now, dice);
            }
        }
        if let Some(mut cells) = arrivals.remove(&now) {
            shuffle(&mut cells, dice);
            // Among cells of one tick the flow of interest comes last: the worst order for it.
            cells.sort_by_key(|cell| cell.flow == last);
            for cell in cells {
                let server = plan.flows[cell.flow].path[cell.hop];
                let queue = &mut queues[server];
                let idle = queue.serving.is_none() && queue.waiting.is_empty();
                if idle {
                    let latency = plan.servers[server].latency * TICKS;
                    let wait = if lazy == 0 { dice.below(latency + 1) } else { latency };
                    queue.ready = now + wait;
                }
                queue.waiting.push_back(cell);
            }
            for (server, queue) in queues.iter_mut().enumerate() {
                start(plan, queue, server, now, dice);
            }
        }
    }
}

/// Takes the next cell into service if the server is free.
fn start(plan: &Plan, queue: &mut Queue, server: usize, now: u64, dice: &mut Dice) {
    if queue.serving.is_some() || queue.waiting.is_empty() {
        return;
    }
    let index = match plan.order {
        Multiplexing::Fifo => 0,
        Multiplexing::Blind => {
            // Any flow's first cell.
            let pick = queue.waiting[dice.below(queue.waiting.len() as u64) as usize].flow;
            queue.waiting.iter().position(|cell| cell.flow == pick).unwrap()
        }
        Multiplexing::StaticPriority => {
            let class = |cell: &Cell| plan.flows[cell.flow].class;
            let first = queue.waiting.iter().map(class).min().unwrap();
            queue.waiting.iter().position(|cell| class(cell) == first).unwrap()
        }
    };
    let cell = queue.waiting.remove(index).unwrap();
    let begin = queue.ready.max(now);
    queue.serving = Some((begin + TICKS / plan.servers[server].rate, cell));
}

/// Cells of every flow by time: all it may send from a random start, or with random pauses.
fn sources(plan: &Plan, dice: &mut Dice, horizon: u64) -> BTreeMap<u64, Vec<Cell>> {
    let mut arrivals: BTreeMap<u64, Vec<Cell>> = BTreeMap::new();
    let together = dice.below(2) == 0;
    for (index, flow) in plan.flows.iter().enumerate() {
        let pauses = dice.below(3) == 0;
        let mut tokens = flow.burst * TICKS;
        let begin = if together { 0 } else { dice.below(12 * TICKS) };
        let mut silent_until = begin;
        for now in begin..horizon {
            while now >= silent_until && tokens >= TICKS {
                tokens -= TICKS;
                arrivals.entry(now).or_default().push(Cell { flow: index, hop: 0, born: now });
            }
            if pauses && now >= silent_until && dice.below(TICKS) == 0 {
                silent_until = now + dice.below(8 * TICKS);
            }
            tokens = (tokens + flow.rate).min(flow.burst * TICKS);
        }
    }
    arrivals
}

fn shuffle(cells: &mut [Cell], dice: &mut Dice) {
    for index in (1..cells.len()).rev() {
        cells.swap(index, dice.below(index as u64 + 1) as usize);
    }
}

/// Every method's bound holds in several random runs, each flow in turn being unlucky.
fn holds(plan: &Plan, seed: u64) -> Result<(), TestCaseError> {
    let network = plan.network();
    let analysis = Analysis::new(&network).unwrap();
    let bounds: Vec<_> = (0..plan.flows.len()).map(|flow| analysis.least(flow)).collect();
    let mut dice = Dice(seed | 1);
    for run in 0..6 {
        let unlucky = run % plan.flows.len().max(1);
        for (flow, ticks) in simulate(plan, &mut dice, unlucky).into_iter().enumerate() {
            let Ok(least) = &bounds[flow] else { continue };
            let seen = Rational::new(i128::from(ticks), i128::from(TICKS)).unwrap();
            prop_assert!(seen <= least.delay, "flow {flow}: {seen} beyond {least:?}");
            for bound in least.tried.iter().filter_map(|bound| bound.delay.as_ref()) {
                prop_assert!(seen <= *bound);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn fifo_bounds_hold(plan in plan(Multiplexing::Fifo), seed in any::<u64>()) {
        holds(&plan, seed)?;
    }

    #[test]
    fn blind_bounds_hold(plan in plan(Multiplexing::Blind), seed in any::<u64>()) {
        holds(&plan, seed)?;
    }

    #[test]
    fn static_priority_bounds_hold(
        plan in plan(Multiplexing::StaticPriority), seed in any::<u64>(),
    ) {
        holds(&plan, seed)?;
    }

    /// The linear program takes the delays of both per-hop analyses as constraints, so it is never
    /// above them; and it always finds its proof on networks of this size.
    #[test]
    fn the_program_is_never_above_what_it_contains(plan in plan(Multiplexing::Fifo)) {
        let network = plan.network();
        let analysis = Analysis::new(&network).unwrap();
        for flow in 0..plan.flows.len() {
            let delay = |method| analysis.bound(flow, method).delay;
            let program = delay(Method::FifoProgram);
            prop_assert!(program.is_some());
            for method in [Method::TfaPerHop, Method::SfaPerHop] {
                if let Some(other) = delay(method) {
                    prop_assert!(program.clone().unwrap() <= other, "{method}");
                }
            }
        }
    }

    /// More burst anywhere never makes a bound smaller.
    #[test]
    fn bounds_grow_with_bursts(plan in plan(Multiplexing::Fifo), which in 0_usize..6) {
        prop_assume!(!plan.flows.is_empty());
        let mut more = plan.clone();
        let grown = which % plan.flows.len();
        more.flows[grown].burst += 1;
        let (before, after) = (plan.network(), more.network());
        let (before, after) = (Analysis::new(&before).unwrap(), Analysis::new(&after).unwrap());
        for flow in 0..plan.flows.len() {
            let cross = CrossTraffic::SOUND;
            for method in [
                Method::TfaPerHop, Method::SfaPerHop, Method::FifoProgram, Method::Tfa(cross),
                Method::Sfa(cross), Method::Pmoo(cross),
            ] {
                let (small, large) = (before.bound(flow, method), after.bound(flow, method));
                if let (Some(small), Some(large)) = (small.delay, large.delay) {
                    prop_assert!(small <= large, "{method}: {small} then {large}");
                }
            }
        }
    }

    /// Whatever the numbers, the answer is a bound or a named error.
    #[test]
    fn absurd_networks_are_answered(
        servers in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..5),
        flows in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u8>()), 0..6),
        order in 0..3,
        small in any::<bool>(),
    ) {
        let order = [Multiplexing::Fifo, Multiplexing::Blind, Multiplexing::StaticPriority]
            [order as usize];
        let scale = |value: u64| Rational::whole(if small { value % 5 } else { value });
        let count = servers.len();
        let parts = servers.into_iter().map(|(rate, latency)| {
            let server = Server::new("s", scale(rate), scale(latency), order);
            server.with_line(scale(latency), scale(rate))
        });
        let flows = flows.into_iter().map(|(rate, burst, mask)| {
            let path = (0..count).filter(|server| mask >> server & 1 == 1).collect();
            // A fraction of the largest rate, so that some networks are stable.
            let rate = &scale(rate) / &Rational::integer(7);
            let envelope = Envelope::token_bucket(rate, scale(burst));
            Flow { class: mask % 3, ..Flow::new("f", envelope, path) }
        });
        let Ok(network) = Network::new(parts.collect(), flows.collect()) else { return Ok(()) };
        for answer in Analysis::new(&network).unwrap().least_of_all() {
            match answer {
                Ok(least) => prop_assert!(!least.delay.is_negative()),
                Err(BoundError::Unbounded { .. }) => {}
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}

/// One server, all bursts at once: the last cell of the flow of interest meets the bound exactly.
#[test]
fn a_single_fifo_server_is_tight() {
    let flow = |burst| FlowPlan { rate: 1, burst, path: vec![0], class: 0 };
    let servers = vec![ServerPlan { rate: 4, latency: 2 }];
    let flows = vec![flow(3), flow(5)];
    let plan = Plan { servers, flows, order: Multiplexing::Fifo, lines: false };
    let least = Analysis::new(&plan.network()).unwrap().least(0).unwrap();
    assert_eq!(least.delay, Rational::new(17, 4).unwrap(), "2 + 1/4 + 8/4");
    let mut dice = Dice(7);
    let worst = (0..50).map(|_| simulate(&plan, &mut dice, 0)[0]).max().unwrap();
    assert_eq!(worst, 4 * TICKS, "all but the packetiser's quarter");
}
