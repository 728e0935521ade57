//! The reservations of a sub-network: the master's state machine.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_wire::Instant;

use super::cpu::CpuLoad;
use super::decide::check_request;
use super::plan::{Ask, Totals};
use super::port::{Slot, SlotKind};
use super::ports::Network;
use super::refusal::{ChangeError, Phase, Refusal, Resource, Shortage};
use super::request::{Admitted, Promise, PromisedHop, Request, ReservationId, Wish};
use crate::topology::{HOPS_MAX, NodeId, PortId, Topology};

/// Most reservations at once.
pub const CHANNELS_MAX: usize = 1 << 20;

/// One reservation.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) owner: u64,
    pub(super) ask: Ask,
    pub(super) totals: Totals,
    pub(super) slots: Box<[Slot]>,
    pub(super) lease: Instant,
    /// Deleted: resources return then.
    pub(super) drains: Option<Instant>,
    /// Granted less: the smaller reservation, from then on.
    pub(super) shrinks: Option<(Instant, Ask)>,
}

/// Admission for one sub-network: all resources, all reservations.
///
/// Every call decides at once and changes all or nothing. Memory: about 450 B per reservation and
/// 190 B per hop of it; a port's test at most 30 KiB, and at EDF and FCFS ports 50 to 170 B more
/// for each unlike channel that counts packets or has more than two buckets.
///
/// ```
/// use core::time::Duration;
/// use towpath_qos::admission::{Admission, Request, Wish};
/// use towpath_qos::spec::{SigmaRho, TSpec, wire::Framing};
/// use towpath_qos::topology::{DisciplineName, Topology, tree};
/// use towpath_wire::{ByteSize, Instant, Rate};
///
/// let text = tree::two_level(4, 2, 1_000_000_000, DisciplineName::Edf);
/// let mut admission = Admission::new(Topology::parse(&text).expect("valid"));
/// let spec = SigmaRho::new(ByteSize::from_bytes(1000), Rate::from_mbps(5)).expect("valid");
/// let host = |name| admission.topology().host_named(name).expect("host");
/// let request = Request {
///     owner: 1,
///     from: host("h0"),
///     to: host("h3"),
///     demand: Framing::default().demand(&TSpec::SigmaRho(spec), ByteSize::from_bytes(1000)),
///     wish: Wish::Bounded { delay: Duration::from_millis(5), jitter: None },
///     lease: Instant::NEVER,
/// };
/// let admitted = admission.admit(&request).expect("an empty network");
/// assert!(admitted.delay_ns.expect("bounded") <= 5_000_000);
/// assert_eq!(admission.promise(admitted.id).expect("reserved").hops.len(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    pub(super) topology: Topology,
    pub(super) network: Network,
    /// Place and generation make an id; a freed place's generation rises.
    pub(super) channels: Vec<(u32, Option<Channel>)>,
    pub(super) free: Vec<u32>,
    pub(super) count: usize,
    /// (time, place) of leases, drains and shrinks.
    pub(super) timers: BTreeSet<(Instant, u32)>,
    pub(super) scratch: Vec<Slot>,
}

/// A collective request of which one member does not pass with the others; nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {index} of the set: {refusal}")]
pub struct CollectiveRefusal {
    /// Which member, from 0.
    pub index: usize,
    /// What stands in its way when the others are reserved.
    pub refusal: Refusal,
}

impl Admission {
    /// Nothing is reserved yet.
    pub fn new(topology: Topology) -> Self {
        let network = Network::new(&topology);
        Self {
            topology,
            network,
            channels: Vec::new(),
            free: Vec::new(),
            count: 0,
            timers: BTreeSet::new(),
            scratch: Vec::new(),
        }
    }

    /// The sub-network.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Reservations, draining ones included.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// No reservations.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) const fn has_room(&self) -> bool {
        self.count < CHANNELS_MAX
    }

    /// Decides a request and reserves for it. A refusal names the bottleneck and what would pass.
    pub fn admit(&mut self, request: &Request) -> Result<Admitted, Refusal> {
        let ask = Ask::of(request);
        self.admit_ask(&ask, request.owner, request.lease)
    }

    /// Whether a request would pass, and its bound; nothing changes.
    pub fn what_if(&mut self, request: &Request) -> Result<(Option<u64>, Option<u64>), Refusal> {
        let ask = Ask::of(request);
        let totals = self.decide(&ask)?;
        Ok(bounds(&ask, &totals))
    }

    /// Decides a set of requests together: all are reserved, or none. They are tried in their
    /// order; if that fails, once more with the tightest bounds first.
    pub fn admit_all(&mut self, requests: &[Request]) -> Result<Vec<Admitted>, CollectiveRefusal> {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        let refused = match self.try_all(requests, &order) {
            Ok(admitted) => return Ok(admitted),
            Err(refused) => refused,
        };
        order.sort_by_key(|&index| match requests[index].wish {
            Wish::Bounded { delay, .. } => delay,
            Wish::Statistical { .. } | Wish::Share { .. } => Duration::MAX,
        });
        // What the caller is told is what stood in the way in his own order.
        self.try_all(requests, &order).map_err(|_| refused)
    }

    fn try_all(
        &mut self,
        requests: &[Request],
        order: &[usize],
    ) -> Result<Vec<Admitted>, CollectiveRefusal> {
        let mut admitted: Vec<Option<Admitted>> = alloc::vec![None; requests.len()];
        for &index in order {
            match self.admit(&requests[index]) {
                Ok(answer) => admitted[index] = Some(answer),
                Err(refusal) => {
                    for answer in admitted.into_iter().flatten() {
                        self.release(place_of(answer.id));
                    }
                    return Err(CollectiveRefusal { index, refusal });
                }
            }
        }
        Ok(admitted.into_iter().flatten().collect())
    }

    pub(super) fn decide(&mut self, ask: &Ask) -> Result<Totals, Refusal> {
        let mut slots = core::mem::take(&mut self.scratch);
        let decided = self.network.decide(&self.topology, ask, &mut slots);
        let answer = decided
            .map_err(|obstacle| self.network.refusal(&self.topology, ask, &obstacle, &mut slots));
        self.scratch = slots;
        answer
    }

    /// The same with the least budgets, where nobody is told what would pass: looking for that can
    /// take longer than all else. Least budgets bunch packets up least where ports have budgets of
    /// their own, and leave less room for who is more urgent where they have not.
    pub fn admit_least(&mut self, request: &Request) -> Result<Admitted, Refusal> {
        let ask = Ask::of(request);
        if !self.has_room() {
            return self.admit_ask(&ask, request.owner, request.lease);
        }
        let mut slots = core::mem::take(&mut self.scratch);
        let decided = self.network.decide_least(&self.topology, &ask, &mut slots);
        self.scratch = slots;
        let totals =
            decided.map_err(|obstacle| self.network.why(&self.topology, &ask, &obstacle))?;
        Ok(self.reserve(&ask, totals, request.owner, request.lease))
    }

    fn admit_ask(&mut self, ask: &Ask, owner: u64, lease: Instant) -> Result<Admitted, Refusal> {
        if !self.has_room() {
            let shortage = Shortage::Channels { limit: CHANNELS_MAX as u64 };
            let (phase, resource) = (Phase::Request, Resource::Table);
            let (nearest, nothing_passes) = (None, true);
            return Err(Refusal { phase, resource, shortage, nearest, nothing_passes });
        }
        let totals = self.decide(ask)?;
        Ok(self.reserve(ask, totals, owner, lease))
    }

    /// What was decided last, as the scratch slots have it.
    fn reserve(&mut self, ask: &Ask, totals: Totals, owner: u64, lease: Instant) -> Admitted {
        let slots = self.scratch.as_slice().into();
        let channel =
            Channel { owner, ask: *ask, totals, slots, lease, drains: None, shrinks: None };
        let (delay_ns, jitter_ns) = bounds(ask, &totals);
        Admitted { id: self.insert(channel), delay_ns, jitter_ns }
    }

    pub(super) fn insert(&mut self, channel: Channel) -> ReservationId {
        self.network.add(&channel.ask, &channel.totals, &channel.slots);
        self.count += 1;
        let lease = channel.lease;
        let place = if let Some(place) = self.free.pop() {
            self.channels[place as usize].1 = Some(channel);
            place
        } else {
            self.channels.push((0, Some(channel)));
            (self.channels.len() - 1) as u32
        };
        if lease < Instant::NEVER {
            self.timers.insert((lease, place));
        }
        id_of(self.channels[place as usize].0, place)
    }

    pub(super) fn release(&mut self, place: u32) {
        let Some(entry) = self.channels.get_mut(place as usize) else { return };
        let Some(channel) = entry.1.take() else { return };
        entry.0 = entry.0.wrapping_add(1);
        self.network.remove(&channel.ask, &channel.totals, &channel.slots);
        self.timers.remove(&(channel.lease, place));
        self.free.push(place);
        self.count -= 1;
    }

    pub(super) fn find(&self, id: ReservationId) -> Option<(u32, &Channel)> {
        let (generation, place) = ((id.0 >> 32) as u32, place_of(id));
        let (current, channel) = self.channels.get(place as usize)?;
        let channel = channel.as_ref().filter(|_| *current == generation)?;
        Some((place, channel))
    }

    /// The reservation of an id, if `owner` may change it now.
    pub(super) fn owned(
        &self,
        id: ReservationId,
        owner: u64,
    ) -> Result<(u32, &Channel), ChangeError> {
        let (place, channel) = self.find(id).ok_or(ChangeError::Unknown(id.0))?;
        if channel.owner != owner {
            return Err(ChangeError::NotOwner { id: id.0, owner: channel.owner });
        }
        if let Some(until) = channel.drains {
            return Err(ChangeError::Draining { id: id.0, until_ns: until.as_nanos() });
        }
        Ok((place, channel))
    }

    /// Everything promised to a reservation, hop by hop.
    pub fn promise(&self, id: ReservationId) -> Option<Promise> {
        let (_, channel) = self.find(id)?;
        let (delay_ns, jitter_ns) = bounds(&channel.ask, &channel.totals);
        let hop = |slot: &Slot| {
            let port = self.network.port(slot.port);
            let levels = port.has_levels() || slot.kind == SlotKind::Share;
            PromisedHop {
                port: self.topology.port_name(PortId(slot.port)).to_string(),
                port_id: slot.port,
                delay_ns: slot.budget_ns,
                fixed_ns: self.network.fixed_ns(slot.port),
                jitter_in_ns: slot.jitter_ns,
                burst_bits: channel.ask.load.after(slot.jitter_ns).slow.burst_bits,
                buffer_bits: slot.memory_bits,
                rate_bps: slot.rate_bps,
                level: levels.then_some(slot.level),
                weight: port.weight(slot),
                curve: port.curve(slot).filter(|_| slot.kind == SlotKind::Bounded),
            }
        };
        Some(Promise {
            id,
            delay_ns,
            jitter_ns,
            source_cpu_ns: self.network.cpu(channel.ask.from).budget_ns(),
            destination_cpu_ns: self.network.cpu(channel.ask.to).budget_ns(),
            hops: channel.slots.iter().map(hop).collect(),
        })
    }

    /// Plans everything anew from the requests and the budgets that were promised, and compares:
    /// hops, totals, and every port's sums are what they were found to be one by one, and every
    /// port's condition holds. For checkers, and after a restart.
    pub fn recompute(&self) -> Result<(), Broken> {
        let mut network = Network::new(&self.topology);
        let mut slots = Vec::new();
        for (place, (generation, channel)) in self.channels.iter().enumerate() {
            let Some(channel) = channel else { continue };
            let broken = || Broken::Plan(id_of(*generation, place as u32).0);
            let ask = &channel.ask;
            let mut route = [0_u32; HOPS_MAX];
            let route = check_request(&self.topology, ask, &mut route).map_err(|_| broken())?;
            let totals = network.replan(ask, route, &channel.slots, &mut slots);
            let totals = totals.ok_or_else(broken)?;
            if totals != channel.totals || slots != *channel.slots {
                return Err(broken());
            }
            network.add(ask, &totals, &slots);
        }
        if let Some(port) = network.broken_port() {
            return Err(Broken::Port(self.topology.port_name(PortId(port)).to_string()));
        }
        if network == self.network { Ok(()) } else { Err(Broken::Sum) }
    }

    #[cfg(test)]
    /// Every reservation that is not draining.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (ReservationId, &Ask, &[Slot])> {
        self.channels.iter().enumerate().filter_map(|(place, (generation, channel))| {
            let channel = channel.as_ref().filter(|channel| channel.drains.is_none())?;
            Some((id_of(*generation, place as u32), &channel.ask, &*channel.slots))
        })
    }

    /// What is reserved of the processors of hosts that are modelled.
    pub fn processors(&self) -> impl Iterator<Item = (NodeId, CpuLoad)> + '_ {
        let load = |node: NodeId| Some((node, self.network.cpu(node.0).load()?));
        self.topology.hosts().filter_map(load)
    }

    /// Points that each port's test passes over: (port, points), for reports.
    pub fn points(&self) -> impl Iterator<Item = (PortId, usize)> + '_ {
        (0..self.topology.ports().len() as u32)
            .map(|port| (PortId(port), self.network.port(port).points()))
    }
}

/// What a recomputation found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A port whose condition does not hold.
    #[error("port {0} breaks its promises")]
    Port(alloc::string::String),
    /// A reservation's hops do not follow from its request and budgets.
    #[error("reservation {0} does not follow from its request and budgets")]
    Plan(u64),
    /// The incremental sums are not what the reservations add up to.
    #[error("the sums are not those of the reservations")]
    Sum,
}

const fn id_of(generation: u32, place: u32) -> ReservationId {
    ReservationId((generation as u64) << 32 | place as u64)
}

pub(super) const fn place_of(id: ReservationId) -> u32 {
    id.0 as u32
}

pub(super) const fn bounds(ask: &Ask, totals: &Totals) -> (Option<u64>, Option<u64>) {
    match ask.wish {
        Wish::Share { .. } => (None, None),
        Wish::Bounded { .. } | Wish::Statistical { .. } => {
            (Some(totals.delay_ns), Some(totals.jitter_ns))
        }
    }
}
