//! A sub-network drawn by its seed, filled through admission, attacked from all sides.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;
use towpath_qos::admission::Admission;
use towpath_qos::topology::Topology;
use towpath_wire::Instant;

use super::attack::{Attack, Plan};
use super::deploy::{Channel, Deployment, deploy};
use super::draw::{topology, wanted};
use crate::qos::network::{Miss, NetworkError};

/// A broken promise, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which promise: delay, jitter, or memory.
    pub promise: String,
    /// Number of the channel.
    pub channel: u32,
    /// What the sources did.
    pub plan: Plan,
    /// What was promised, ns; packets that may be lost, none, for memory.
    pub promised: u64,
    /// What was seen.
    pub seen: u64,
    /// The first packet too late.
    pub miss: Option<Miss>,
    /// The call that shows it.
    pub replay: String,
}

/// What became of one drawn sub-network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Everything follows from it.
    pub seed: u64,
    /// Schedulers of its ports, each once.
    pub schedulers: Vec<String>,
    /// Hosts and switches.
    pub nodes: u32,
    /// Channels admitted.
    pub channels: u32,
    /// Requests refused.
    pub refused: u32,
    /// Largest reserved share of a port, in millionths.
    pub load_ppm_max: u64,
    /// Packets of channels that arrived.
    pub packets: u64,
    /// Packets beyond the promised delay.
    pub beyond: u64,
    /// Broken promises, at most one of a kind per channel and attack.
    pub failures: Vec<Failure>,
    /// Bound / worst delay seen, in millionths, sorted: one per channel that sent.
    pub tightness_ppm: Vec<u64>,
    /// Packets sent by all ports.
    pub packet_hops: u64,
    /// Hash over every delivery of every attack, hexadecimal.
    pub trace: String,
}

/// Why a drawn network could not be run: an error of the simulator, not of admission.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The drawn topology is none.
    #[error("seed {seed}: {error}")]
    Topology {
        /// The seed.
        seed: u64,
        /// What is wrong.
        error: towpath_qos::topology::TopologyError,
    },
    /// A drawn specification is none.
    #[error("seed {seed}: {error}")]
    Spec {
        /// The seed.
        seed: u64,
        /// What is wrong.
        error: towpath_qos::spec::SpecError,
    },
    /// A promise that a scheduler does not take.
    #[error("seed {seed}: {error}")]
    Network {
        /// The seed.
        seed: u64,
        /// What is wrong.
        error: NetworkError,
    },
}

/// Requests tried per network.
const REQUESTS: u64 = 80;
/// Longest simulated time of an attack: unreserved packets of jitter-EDD stay least urgent for 4 s.
const LENGTH_NS_MAX: u64 = 1_500_000_000;

/// Draws the sub-network of a seed and admits what fits.
pub fn admitted(seed: u64) -> Result<(Topology, Vec<Channel>, u32), ProofError> {
    let mut rng = Rng::new(seed, 0x9700f);
    let text = topology(&mut rng);
    let topology = Topology::parse(&text).map_err(|error| ProofError::Topology { seed, error })?;
    let mut admission = Admission::new(topology.clone());
    let (mut channels, mut refused) = (Vec::new(), 0);
    for number in 0..REQUESTS {
        let wanted = wanted(&mut rng, &topology, number)
            .map_err(|error| ProofError::Spec { seed, error })?;
        match admission.admit(&wanted.request) {
            Ok(answer) => channels.push((answer.id, wanted)),
            Err(_) => refused += 1,
        }
    }
    // Promises as they stand at the end: none may have changed since it was given.
    let channels = channels.into_iter().filter_map(|(id, wanted)| {
        admission.promise(id).map(|promise| Channel { wanted, promise })
    });
    Ok((topology, channels.collect(), refused))
}

/// Attacks the sub-network of a seed with every plan until about `packets` packets have arrived.
pub fn prove(seed: u64, packets: u64) -> Result<Proof, ProofError> {
    let (topology, channels, refused) = admitted(seed)?;
    let mut schedulers: Vec<String> =
        topology.ports().iter().map(|p| p.scheduler.to_string()).collect();
    schedulers.sort();
    schedulers.dedup();
    let mut reserved = vec![0u64; topology.ports().len()];
    for hop in channels.iter().flat_map(|c| &c.promise.hops) {
        reserved[hop.port_id as usize] += hop.rate_bps;
    }
    let share = |(port, bps): (usize, &u64)| {
        let rate = topology.ports()[port].rate_bps;
        (u128::from(*bps) * 1_000_000 / u128::from(rate)) as u64
    };
    let mut proof = Proof {
        seed,
        schedulers,
        nodes: topology.nodes().len() as u32,
        channels: channels.len() as u32,
        refused,
        load_ppm_max: reserved.iter().enumerate().map(share).max().unwrap_or(0),
        packets: 0,
        beyond: 0,
        failures: Vec::new(),
        tightness_ppm: Vec::new(),
        packet_hops: 0,
        trace: String::new(),
    };
    let busiest = reserved.iter().enumerate().max_by_key(|(_, bps)| **bps);
    let target = busiest.map_or(0, |(port, _)| port as u32);
    let mut worst = vec![0u64; channels.len()];
    let mut trace = crate::hash::Trace::new(seed);
    for (i, plan) in Plan::ALL.into_iter().enumerate() {
        let left = packets.saturating_sub(proof.packets) / (Plan::ALL.len() - i) as u64;
        let attack = Attack { plan, target, length_ns: length_ns(&channels, left) };
        let mut run = deploy(&topology, &channels, &attack, seed.wrapping_mul(31) + i as u64)
            .map_err(|error| ProofError::Network { seed, error })?;
        let end = Instant::from_nanos(attack.stop_ns()) + Duration::from_secs(1);
        run.net.run_until(end);
        proof.take(&run, &channels, plan, &mut worst);
        trace.word(run.net.trace());
    }
    proof.trace = format!("{:016x}", trace.value());
    for (channel, worst) in channels.iter().zip(worst).filter(|(_, worst)| *worst > 0) {
        let bound = channel.promise.delay_ns.unwrap_or(0);
        let tightness = u128::from(bound) * 1_000_000 / u128::from(worst);
        proof.tightness_ppm.push(tightness as u64);
    }
    proof.tightness_ppm.sort_unstable();
    Ok(proof)
}

/// How long an attack lasts so that about `packets` packets are sent.
fn length_ns(channels: &[Channel], packets: u64) -> u64 {
    let per_s = |c: &Channel| {
        let buckets = c.wanted.request.demand.buckets;
        let rate = buckets.as_slice().iter().map(|b| b.rate_bps).min().unwrap_or(0);
        rate / (u64::from(c.wanted.packets.1) * 8) + 1
    };
    let per_s: u64 = channels.iter().map(per_s).sum();
    (packets * 1_000_000_000 / per_s.max(1)).clamp(1_000_000, LENGTH_NS_MAX)
}

impl Proof {
    /// Counts a run, and whatever it broke.
    fn take(&mut self, run: &Deployment, channels: &[Channel], plan: Plan, worst: &mut [u64]) {
        self.packet_hops += run.net.packet_hops();
        for (i, (flow, channel)) in run.flows.iter().zip(channels).enumerate() {
            let Some(stats) = run.net.flow(*flow) else { continue };
            self.packets += stats.delivered;
            self.beyond += stats.beyond;
            worst[i] = worst[i].max(stats.delay.max());
            let promise = &channel.promise;
            let jitter = promise.jitter_ns.unwrap_or(u64::MAX);
            let broken = [
                ("delay", promise.delay_ns.unwrap_or(u64::MAX), stats.delay.max()),
                ("jitter", jitter, stats.jitter_ns()),
                ("memory", 0, stats.lost()),
                // What was sent has arrived when everything has stood still for a second.
                ("delivery", 0, stats.released - stats.delivered - stats.lost()),
            ];
            for (name, promised, seen) in broken.into_iter().filter(|(_, p, seen)| seen > p) {
                self.failures.push(Failure {
                    promise: name.into(),
                    channel: i as u32,
                    plan,
                    promised,
                    seen,
                    miss: stats.first_miss,
                    replay: format!("towpath_sim::qos::proof::prove({}, {})", self.seed, 100_000),
                });
            }
        }
    }

    /// Median of bound / worst seen, in millionths; 0 where nothing was sent.
    pub fn tightness_ppm_p50(&self) -> u64 {
        self.tightness_ppm.get(self.tightness_ppm.len() / 2).copied().unwrap_or(0)
    }
}
