//! Requests put to an empty network, in their order.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant as Clock;

use towpath_qos::admission::file::{Asked, Want};
use towpath_qos::admission::{Admission, CpuLoad, Promise, Refusal, Request, ReservationId, Wish};
use towpath_qos::topology::{NodeId, PortId, Topology};
use towpath_wire::Instant;

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// [`Decided::promise`] tells what is promised.
    Admitted(ReservationId),
    Refused(Refusal),
    /// Not reserved since another member of its set was refused: which one, and why.
    WithSet(usize, Refusal),
    /// Nothing to reserve.
    BestEffort,
}

/// Answers to all requests, and what they make of the network.
pub(super) struct Decided {
    pub(super) asked: Vec<Asked>,
    /// One per request.
    pub(super) answers: Vec<Answer>,
    /// Holds every promise once: told hop by hop, those of many channels are far larger.
    admission: Admission,
    /// What is reserved at ports, in the order of the topology; idle ports are left out.
    pub(super) ports: Vec<PortLoad>,
    /// What is reserved of processors; idle ones are left out.
    pub(super) cpus: Vec<(NodeId, CpuLoad)>,
    /// Time that the decisions took, all together.
    pub(super) took_ns: u128,
}

/// What is reserved at a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortLoad {
    pub(super) port: PortId,
    pub(super) channels: usize,
    pub(super) rate_bps: u64,
    pub(super) buffer_bits: u64,
}

/// A request as the library takes it; `None` for best effort.
fn request(asked: &Asked) -> Option<Request> {
    let wish = match asked.want {
        Want::Bounded { delay, jitter } => Wish::Bounded { delay, jitter },
        Want::Statistical { delay, late_ppm } => Wish::Statistical { delay, late_ppm },
        Want::Share { priority } => Wish::Share { priority },
        Want::BestEffort => return None,
    };
    let (owner, from, to, demand) = (asked.owner, asked.from, asked.to, asked.demand);
    Some(Request { owner, from, to, demand, wish, lease: Instant::NEVER })
}

/// Puts every request to an empty network; a set is decided where its first member stands.
/// `together`: all requests are one set.
pub(super) fn decide(topology: Topology, asked: Vec<Asked>, together: bool) -> Decided {
    let mut admission = Admission::new(topology);
    let mut answers: Vec<Option<Answer>> = vec![None; asked.len()];
    // With `together`, all are one set without a name.
    let key = |index: usize| if together { Some("") } else { asked[index].set.as_deref() };
    let mut sets: HashMap<&str, Vec<usize>> = HashMap::new();
    for index in 0..asked.len() {
        if let Some(set) = key(index) {
            sets.entry(set).or_default().push(index);
        }
    }
    let mut took_ns = 0;
    for index in 0..asked.len() {
        if answers[index].is_some() {
            continue;
        }
        let alone = vec![index];
        let set = key(index).and_then(|set| sets.get(set)).unwrap_or(&alone);
        let members: Vec<(usize, Request)> =
            set.iter().filter_map(|k| Some((*k, request(&asked[*k])?))).collect();
        if request(&asked[index]).is_none() {
            answers[index] = Some(Answer::BestEffort);
            continue;
        }
        let requests: Vec<Request> = members.iter().map(|m| m.1).collect();
        let started = Clock::now();
        let decided = match requests.as_slice() {
            [one] => admission.admit(one).map(|a| vec![a]).map_err(|refusal| (0, refusal)),
            all => admission.admit_all(all).map_err(|e| (e.index, e.refusal)),
        };
        let decided = decided.map_err(|(bad, mut refusal)| {
            let refused = members.get(bad).map_or(index, |m| m.0);
            if asked[refused].units.is_some() {
                // In the units of the file: what is named is decided as it would be asked for.
                let share = |parts| asked[refused].share(parts).map(|(_, demand)| demand);
                admission.tell(&requests, bad, &mut refusal, &share);
            }
            (refused, refusal)
        });
        took_ns += started.elapsed().as_nanos();
        match decided {
            Ok(admitted) => {
                for ((k, _), admitted) in members.iter().zip(admitted) {
                    answers[*k] = Some(Answer::Admitted(admitted.id));
                }
            }
            Err((culprit, refusal)) => {
                for (k, _) in &members {
                    answers[*k] = Some(if *k == culprit {
                        Answer::Refused(refusal.clone())
                    } else {
                        Answer::WithSet(culprit, refusal.clone())
                    });
                }
            }
        }
    }
    let answers: Vec<Answer> =
        answers.into_iter().map(|a| a.unwrap_or(Answer::BestEffort)).collect();
    let cpus = admission.processors().filter(|(_, load)| load.reserved_ppm > 0).collect();
    Decided { ports: loads(&admission, &answers), cpus, asked, answers, admission, took_ns }
}

/// Those of the requests that an empty network admits in their order.
pub(crate) fn admitted(topology: &Topology, asked: Vec<Asked>) -> Vec<Asked> {
    let decided = decide(topology.clone(), asked, false);
    let pairs = decided.asked.into_iter().zip(decided.answers);
    pairs.filter(|(_, a)| matches!(a, Answer::Admitted(_))).map(|(asked, _)| asked).collect()
}

fn loads(admission: &Admission, answers: &[Answer]) -> Vec<PortLoad> {
    let mut loads: BTreeMap<u32, PortLoad> = BTreeMap::new();
    for answer in answers {
        let Answer::Admitted(id) = answer else { continue };
        let Some(promise) = admission.promise(*id) else { continue };
        for hop in &promise.hops {
            let none =
                PortLoad { port: PortId(hop.port_id), channels: 0, rate_bps: 0, buffer_bits: 0 };
            let load = loads.entry(hop.port_id).or_insert(none);
            load.channels += 1;
            load.rate_bps = load.rate_bps.saturating_add(hop.rate_bps);
            load.buffer_bits = load.buffer_bits.saturating_add(hop.buffer_bits);
        }
    }
    loads.into_values().collect()
}

impl Decided {
    /// What is promised to a request that is admitted.
    pub(super) fn promise(&self, answer: &Answer) -> Option<Promise> {
        match answer {
            Answer::Admitted(id) => self.admission.promise(*id),
            Answer::Refused(_) | Answer::WithSet(..) | Answer::BestEffort => None,
        }
    }

    /// Requests that were refused, members of their sets counted.
    pub(super) fn refused(&self) -> usize {
        let refused = |a: &&Answer| matches!(a, Answer::Refused(_) | Answer::WithSet(..));
        self.answers.iter().filter(refused).count()
    }

    pub(super) fn admitted(&self) -> usize {
        self.answers.iter().filter(|a| matches!(a, Answer::Admitted(_))).count()
    }

    /// Reserved share of a port.
    pub(super) fn share(&self, topology: &Topology, port: PortId) -> f64 {
        let reserved = self.ports.iter().find(|l| l.port == port).map_or(0, |l| l.rate_bps);
        topology.port(port).map_or(0.0, |p| reserved as f64 / p.rate_bps as f64)
    }
}
