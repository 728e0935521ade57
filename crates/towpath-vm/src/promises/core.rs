//! The promises themselves.

use ::core::ops::Bound;
use ::core::time::Duration;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_qos::admission::{
    Admission, KeptHop, Refusal, Request, ReservationId, Resource, Shortage, Wish,
};
use towpath_qos::spec::wire::Demand;
use towpath_qos::spec::{SigmaRho, TSpec};
use towpath_qos::topology::NodeId;
use towpath_wire::{ByteSize, HostId, Instant, Rate, TaskId};

use super::network::{name_in, topology};
use crate::channel::RESERVE_MAX;
use crate::host::{HostState, HostTable};
use crate::talk::Fault;

/// Most promises at once.
pub const PROMISES_MAX: usize = 16_384;
/// Most promises of one host.
pub const PROMISES_OF_HOST_MAX: usize = 1024;
/// Most promises of one task.
pub const PROMISES_OF_TASK_MAX: usize = 256;
/// How long a host keeps what it was promised while nobody leads that it hears of.
pub const HOLD: Duration = Duration::from_mins(1);
/// The shortest frame with its gap. A port that is reckoned slower than it is sends it as fast as
/// that, so it is below the shortest that there is by more than that part.
const SENT_MIN: ByteSize = ByteSize::from_bytes(84);
/// What the shortest datagram of a channel takes with its frame: 57 bytes of UDP payload over IPv4.
const COUNTED_MIN: ByteSize = ByteSize::from_bytes(123);

/// Why what a host had is not taken up again.
const TAKEN: &str = "what it was promised is not to be had any more";

/// What a channel is to be carried with, in wire bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// In the long run.
    pub rate: Rate,
    /// At once after a while without.
    pub burst: ByteSize,
    /// The longest datagram with the frame around it.
    pub packet: ByteSize,
    /// From when a datagram conforms until its last bit is in at the other host, and both
    /// processors have done what the topology says that they take.
    pub within: Duration,
}

/// A host asks for a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// It sends.
    pub host: HostId,
    /// Its number for it, higher than all before.
    pub number: u64,
    /// For whom.
    pub task: TaskId,
    /// It receives.
    pub to: HostId,
    /// What.
    pub terms: Terms,
}

/// A promise that a host has, and whoever leads does not know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// What was asked for.
    pub promise: Promise,
    /// [`Granted::hops`].
    pub hops: Vec<KeptHop>,
}

/// A host has no use for a promise any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Which host.
    pub host: HostId,
    /// Its number for the promise.
    pub number: u64,
}

/// A host says what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Which host.
    pub host: HostId,
    /// The last number that it has used.
    pub last: u64,
    /// Of these, those of promises that it has or has to give back.
    pub numbers: BTreeSet<u64>,
}

/// What is promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The bound: at most what was asked for.
    pub delay: Duration,
    /// Of this, what a datagram may take at the sender's own port.
    pub first: Duration,
    /// That port's rate in the topology.
    pub rate: Rate,
    /// What was chosen at each port: for a state that has lost it.
    pub hops: Vec<KeptHop>,
}

/// One promise, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    promise: Promise,
    /// The hosts' names in the topology.
    ends: (String, String),
    hops: Vec<KeptHop>,
}

/// A topology, and what is promised in it. Invariants: `ids` names each of `held` at `admission`,
/// and there is nothing else.
#[derive(Clone, Debug)]
struct Network {
    text: String,
    /// Rates of the hosts' own ports, as the text has them.
    own: BTreeMap<u32, u64>,
    admission: Admission,
    held: BTreeMap<(HostId, u64), Held>,
    ids: BTreeMap<(HostId, u64), ReservationId>,
    /// The last number that each host was heard to use.
    last: BTreeMap<HostId, u64>,
    /// Hosts that may have what is not known here.
    unsure: BTreeSet<HostId>,
}

/// What is kept of it.
#[derive(Default, Serialize, Deserialize)]
struct Form {
    text: String,
    held: Vec<Held>,
    last: BTreeMap<HostId, u64>,
    unsure: BTreeSet<HostId>,
}

/// The same, to be written.
#[derive(Serialize)]
struct Shown<'a> {
    text: &'a str,
    held: Vec<&'a Held>,
    last: &'a BTreeMap<HostId, u64>,
    unsure: &'a BTreeSet<HostId>,
}

/// What the virtual machine has promised. Without a topology it promises nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Form")]
pub struct Promises(Option<Box<Network>>);

impl PartialEq for Promises {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                (&a.text, &a.held) == (&b.text, &b.held)
                    && (&a.last, &a.unsure) == (&b.last, &b.unsure)
            }
            _ => false,
        }
    }
}

impl Eq for Promises {}

impl Serialize for Promises {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(network) = &self.0 else { return Form::default().serialize(serializer) };
        let Network { text, held, last, unsure, .. } = &**network;
        Shown { text, held: held.values().collect(), last, unsure }.serialize(serializer)
    }
}

impl From<Form> for Promises {
    /// What does not follow any more from what was asked, in another build, is left out: its host
    /// says that it has it, and hears that it has not.
    fn from(form: Form) -> Self {
        let Form { text, held, last, unsure } = form;
        if text.is_empty() {
            return Self::default();
        }
        let Ok(mut network) = Network::new(text) else { return Self::default() };
        (network.last, network.unsure) = (last, unsure);
        for held in held {
            let _ = network.take_up(held);
        }
        Self(Some(Box::new(network)))
    }
}

/// A promise as it is asked of the network.
fn request((from, to): (NodeId, NodeId), promise: &Promise) -> Result<Request, Fault> {
    let Terms { rate, burst, packet, within } = promise.terms;
    if within > RESERVE_MAX {
        return Err(Fault::NotReserved(format!("within {within:?}, at most {RESERVE_MAX:?}")));
    }
    let spec = SigmaRho::new(burst, rate).map_err(|e| Fault::NotReserved(e.to_string()))?;
    let buckets = TSpec::SigmaRho(spec).buckets();
    // Its longest packet that ever conforms is no longer than all that does at once.
    let demand = Demand::of_wire(buckets, SENT_MIN, packet.min(burst));
    Ok(Request {
        owner: promise.host.to_raw(),
        from,
        to,
        demand: Demand { counted_bits: COUNTED_MIN.as_bytes() * 8, ..demand },
        wish: Wish::Bounded { delay: within, jitter: None },
        lease: Instant::NEVER,
    })
}

impl Network {
    fn new(text: String) -> Result<Self, String> {
        let (topology, own) = topology(&text)?;
        let admission = Admission::new(topology);
        let (held, ids, last, unsure) = Default::default();
        Ok(Self { text, own, admission, held, ids, last, unsure })
    }

    /// What a promise's hosts, which are up, are called there.
    fn ends(&self, table: &HostTable, promise: &Promise) -> Result<(String, String), Fault> {
        let topology = self.admission.topology();
        let name = |id: HostId| {
            let host = table.get(id).filter(|h| h.state == HostState::Up).ok_or(Fault::NoHost)?;
            let name = name_in(topology, host);
            let same = table.up().find(|h| h.id != id && name_in(topology, h) == name);
            match same {
                None => Ok(name),
                Some(other) => Err(Fault::NotReserved(format!(
                    "hosts {id} and {} are both {name} in the topology\n\
                     hint: give one of them another name there",
                    other.id
                ))),
            }
        };
        Ok((name(promise.host)?, name(promise.to)?))
    }

    fn nodes(&self, (from, to): (&str, &str)) -> Result<(NodeId, NodeId), Fault> {
        let node = |name: &str| {
            self.admission.topology().host_named(name).ok_or_else(|| {
                Fault::NotReserved(format!(
                    "the topology has no host {name}\n\
                     hint: hosts are called there as `towpath hosts` shows, or h1, h2, ..."
                ))
            })
        };
        Ok((node(from)?, node(to)?))
    }

    fn granted(&self, place: (HostId, u64)) -> Option<Granted> {
        let said = self.admission.promise(*self.ids.get(&place)?)?;
        let first = said.hops.first()?;
        Some(Granted {
            delay: Duration::from_nanos(said.delay_ns?),
            first: Duration::from_nanos(first.delay_ns),
            rate: Rate::from_bps(*self.own.get(&first.port_id)?),
            hops: self.held.get(&place)?.hops.clone(),
        })
    }

    /// Why a host is not promised anything more.
    fn is_full(&self, promise: &Promise) -> Result<(), Fault> {
        let of_host = self.held.range((promise.host, 0)..=(promise.host, u64::MAX));
        let (mut host, mut task) = (0, 0);
        for (_, held) in of_host {
            host += 1;
            task += usize::from(held.promise.task == promise.task);
        }
        for (what, has, most) in [
            ("promises of one task", task, PROMISES_OF_TASK_MAX),
            ("promises of one host", host, PROMISES_OF_HOST_MAX),
            ("promises of the virtual machine", self.held.len(), PROMISES_MAX),
        ] {
            if has >= most {
                return Err(Fault::Limit { what: what.into(), limit: most as u64 });
            }
        }
        Ok(())
    }

    fn promise(&mut self, table: &HostTable, promise: &Promise) -> Result<Granted, Fault> {
        let place = (promise.host, promise.number);
        if let Some(granted) = self.granted(place) {
            return Ok(granted);
        }
        let last = self.last.entry(promise.host).or_default();
        if promise.number <= *last {
            return Err(Fault::NotReserved("it was asked for too late".into()));
        }
        *last = promise.number;
        if let Some(host) = self.unsure.first() {
            return Err(Fault::NotReserved(format!(
                "what host {host} was promised before is not known yet\n\
                 hint: try again in a moment; where that host says nothing, in {} s at most",
                (HOLD + RESERVE_MAX).as_secs() + 2
            )));
        }
        self.is_full(promise)?;
        let ends = self.ends(table, promise)?;
        let asked = request(self.nodes((&ends.0, &ends.1))?, promise)?;
        let admitted = self.admission.admit_least(&asked);
        let admitted = admitted.map_err(|e| Fault::NotReserved(told(&e)))?;
        let hops = self.admission.kept(admitted.id).unwrap_or_default();
        self.ids.insert(place, admitted.id);
        self.held.insert(place, Held { promise: *promise, ends, hops });
        self.granted(place).ok_or(Fault::NoHost)
    }

    /// What is promised already is taken up as it is: whether it can be kept beside all else.
    fn take_up(&mut self, held: Held) -> Result<(), Fault> {
        let Held { promise, ends, hops } = &held;
        let place = (promise.host, promise.number);
        if self.held.contains_key(&place) {
            return Ok(());
        }
        let asked = request(self.nodes((&ends.0, &ends.1))?, promise)?;
        let id = self.admission.readmit(&asked, hops);
        let id = id.ok_or_else(|| Fault::NotReserved(TAKEN.into()))?;
        self.ids.insert(place, id);
        self.held.insert(place, held);
        Ok(())
    }

    fn again(&mut self, table: &HostTable, again: Again) -> Result<Granted, Fault> {
        let Again { promise, hops } = again;
        let place = (promise.host, promise.number);
        if let Some(granted) = self.granted(place) {
            return Ok(granted);
        }
        // Of all others it is known what they have.
        if !self.unsure.contains(&promise.host) {
            return Err(Fault::NotReserved(TAKEN.into()));
        }
        let last = self.last.entry(promise.host).or_default();
        *last = promise.number.max(*last);
        self.is_full(&promise)?;
        let ends = self.ends(table, &promise)?;
        self.take_up(Held { promise, ends, hops })?;
        self.granted(place).ok_or(Fault::NoHost)
    }

    fn release(&mut self, place: (HostId, u64)) {
        if self.held.remove(&place).is_some()
            && let Some(id) = self.ids.remove(&place)
        {
            self.admission.end(id);
        }
    }

    fn release_all(&mut self, host: HostId, gone: impl Fn(u64) -> bool) {
        let of_host = self.held.range((host, 0)..=(host, u64::MAX));
        let gone: Vec<_> = of_host.map(|(place, _)| *place).filter(|(_, n)| gone(*n)).collect();
        for place in gone {
            self.release(place);
        }
    }
}

/// A refusal in words.
fn told(refusal: &Refusal) -> String {
    let at = match &refusal.resource {
        Resource::Cpu(host) => format!("the processor of {host}"),
        Resource::Port(port) => format!("port {port}"),
        Resource::Fabric(switch) => format!("the fabric of {switch}"),
        Resource::Memory(of) => format!("the memory of {of}"),
        Resource::Route(ends) => format!("the way from {ends}"),
        Resource::Table => "the network".into(),
    };
    let ns = Duration::from_nanos;
    let lacks = match refusal.shortage {
        Shortage::RateBps { asked, free } => {
            format!(
                "{} asked with all headers, {} left",
                Rate::from_bps(asked),
                Rate::from_bps(free)
            )
        }
        Shortage::DelayNs { asked, least } => {
            format!("within {:?} asked, {:?} is the least", ns(asked), ns(least))
        }
        Shortage::Unreachable { asked, fixed } => format!(
            "within {:?} asked, propagation and processors alone take {:?}",
            ns(asked),
            ns(fixed)
        ),
        Shortage::PacketBits { asked, limit } => format!(
            "datagrams of {} bytes with their frames, where {} go in one piece\n\
             hint: packet_bytes of the port, in the topology",
            asked.div_ceil(8),
            limit / 8
        ),
        ref other => other.to_string(),
    };
    format!("{at}: {lacks}")
}

impl Promises {
    /// Another topology, or none; refused while anything is promised that cannot be kept there.
    pub(crate) fn set(&mut self, table: &HostTable, text: String) -> Result<(), String> {
        if self.0.as_ref().is_some_and(|network| network.text == text) {
            return Ok(());
        }
        if text.is_empty() {
            return match self.len() {
                0 => {
                    self.0 = None;
                    Ok(())
                }
                held => Err(format!(
                    "{held} promises stand\n\
                     hint: close these channels first, `towpath channels` shows them"
                )),
            };
        }
        let mut network = Network::new(text)?;
        let Some(before) = &self.0 else {
            // Before it had one, or lost it, hosts may have been promised something.
            network.unsure = table.iter().map(|host| host.id).collect();
            self.0 = Some(Box::new(network));
            return Ok(());
        };
        (network.last, network.unsure) = (before.last.clone(), before.unsure.clone());
        for ((host, number), held) in &before.held {
            network.take_up(held.clone()).map_err(|why| {
                format!("promise {number} of {host}, which stands, is not to be had there: {why}")
            })?;
        }
        self.0 = Some(Box::new(network));
        Ok(())
    }

    /// Decides.
    pub(crate) fn promise(
        &mut self,
        table: &HostTable,
        promise: &Promise,
    ) -> Result<Granted, Fault> {
        let network = self.0.as_mut().ok_or_else(no_network)?;
        network.promise(table, promise)
    }

    /// Takes up what a host has, and nobody knew of.
    pub(crate) fn again(&mut self, table: &HostTable, again: Again) -> Result<Granted, Fault> {
        self.0.as_mut().ok_or_else(no_network)?.again(table, again)
    }

    /// A host has no use for a promise any more, or never had it.
    pub(crate) fn release(&mut self, host: HostId, number: u64) {
        if let Some(network) = &mut self.0 {
            network.release((host, number));
        }
    }

    /// A host says what it has: all else that it had, or may have asked for, is over. Which of
    /// these are not known here.
    pub(crate) fn holds(&mut self, holds: &Holds) -> Vec<u64> {
        let Some(network) = &mut self.0 else { return Vec::new() };
        let Holds { host, last, numbers } = holds;
        let heard = network.last.entry(*host).or_default();
        *heard = (*last).max(*heard);
        network.release_all(*host, |n| n <= *last && !numbers.contains(&n));
        let is_known = |n: &&u64| network.held.contains_key(&(*host, **n));
        let unknown: Vec<u64> = numbers.iter().filter(|n| !is_known(n)).copied().collect();
        if unknown.is_empty() {
            network.unsure.remove(host);
        }
        unknown
    }

    /// Whoever leads has waited for long enough since these hosts are gone, or for their word.
    pub(crate) fn free_orphans(&mut self, table: &HostTable, hosts: &[HostId]) {
        let Some(network) = &mut self.0 else { return };
        for host in hosts {
            network.unsure.remove(host);
            if !is_up(table, *host) {
                network.release_all(*host, |_| true);
                network.last.remove(host);
            }
        }
    }

    /// This state may be behind what hosts have.
    pub(crate) fn may_be_behind(&mut self, table: &HostTable) {
        if let Some(network) = &mut self.0 {
            network.unsure.extend(table.iter().map(|host| host.id));
        }
    }

    /// Hosts that are gone, with how long what they sent may be on its way.
    pub fn orphans(&self, table: &HostTable) -> BTreeMap<HostId, Duration> {
        let mut orphans = BTreeMap::new();
        let Some(network) = &self.0 else { return orphans };
        for host in network.last.keys().filter(|host| !is_up(table, **host)) {
            orphans.insert(*host, Duration::ZERO);
        }
        for (host, held) in network.held.iter().map(|((host, _), held)| (host, held)) {
            if !is_up(table, *host) {
                let longest = orphans.entry(*host).or_default();
                *longest = held.promise.terms.within.max(*longest);
            }
        }
        for host in network.unsure.iter().filter(|host| !is_up(table, **host)) {
            orphans.insert(*host, RESERVE_MAX);
        }
        orphans
    }

    /// Hosts that have not said what they have, where that is needed.
    pub fn unsure(&self) -> impl Iterator<Item = HostId> + '_ {
        self.0.iter().flat_map(|network| network.unsure.iter().copied())
    }

    /// The topology's text, if there is one.
    pub fn topology(&self) -> Option<&str> {
        self.0.as_ref().map(|network| &*network.text)
    }

    /// How many promises stand.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |network| network.held.len())
    }

    /// None stands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All that stand behind one of these numbers, in order, with what each port on the way was
    /// given: its name, and at most how long.
    pub fn after(&self, last: Option<(HostId, u64)>) -> impl Iterator<Item = Standing> + '_ {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.iter().flat_map(move |network| {
            network.held.range((from, Bound::Unbounded)).filter_map(|(place, held)| {
                let said = network.admission.promise(*network.ids.get(place)?)?;
                let hop = |h: towpath_qos::admission::PromisedHop| {
                    (h.port, Duration::from_nanos(h.delay_ns))
                };
                Some(Standing {
                    promise: held.promise,
                    delay: Duration::from_nanos(said.delay_ns?),
                    hops: said.hops.into_iter().map(hop).collect(),
                })
            })
        })
    }

    /// Whether all that stands can be kept, summed anew: for checkers.
    pub fn check(&self) -> Result<(), String> {
        let Some(network) = &self.0 else { return Ok(()) };
        network.admission.recompute().map_err(|e| e.to_string())?;
        let [held, ids, all] = [network.held.len(), network.ids.len(), network.admission.len()];
        if held == ids && ids == all { Ok(()) } else { Err(format!("{held}, {ids}, {all}")) }
    }
}

fn no_network() -> Fault {
    Fault::NotReserved(
        "this virtual machine knows no topology, and so promises nothing on the way\n\
         hint: `towpath network set FILE`, or `towpath up --topology FILE`"
            .into(),
    )
}

fn is_up(table: &HostTable, host: HostId) -> bool {
    table.get(host).is_some_and(|h| h.state == HostState::Up)
}

/// A promise that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What was asked for.
    pub promise: Promise,
    /// The bound that was promised.
    pub delay: Duration,
    /// Hop by hop: the port, and what a datagram may take there.
    pub hops: Vec<(String, Duration)>,
}
