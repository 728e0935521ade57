//! The scheduler's state and its transitions.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use towpath_vm::{Ending, TaskExit};
use towpath_wire::{HostId, Instant};

use super::host::{HostCounts, HostLoad, HostStanding, pause};
use crate::farm::bits::Bits;

/// Argument list too long, and file name too long: the item's fault, not the host's.
const ITEM_FAULTS: [i32; 2] = [7, 36];
/// Too many open files (of the daemon, of the machine), no process more, no memory: the host has
/// no room at the moment, and will have again.
const NO_ROOM: [i32; 4] = [24, 23, 11, 12];
/// Times that an item is run again because no host had room; the pauses between them double up to
/// 6.4 s, so that it is about half a minute.
const NO_ROOM_MAX: u32 = 10;

/// How the plan decides.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Exactly so many items at once on each host; none: by the hosts' job slots.
    pub jobs: Option<u16>,
    /// Times that an item is run again because its host was lost or refused it.
    pub retries: u32,
    /// Times that an item is run again because it failed.
    pub retry_failed: u32,
    /// The program depends on the item: a program that is not there is the item's fault.
    pub program_varies: bool,
    /// Nothing waits at a host: what is launched is started at once.
    pub no_queue: bool,
}

/// An item to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Names the attempt; never used twice.
    pub tag: u64,
    /// Index of the item from 0.
    pub item: u32,
    /// Where.
    pub host: HostId,
    /// Waits for one of the host's job slots.
    pub queued: bool,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanEvent {
    /// The item has its result, the only one it gets.
    Finished {
        /// The item.
        item: u32,
        /// The attempt that gave it.
        tag: u64,
        /// Where.
        host: HostId,
        /// How it ended.
        exit: TaskExit,
        /// Attempts that it took.
        attempts: u32,
    },
    /// The attempt counts for nothing: its output is to be dropped.
    Dropped {
        /// The item.
        item: u32,
        /// The attempt.
        tag: u64,
        /// Where.
        host: HostId,
        /// How it ended.
        ending: Ending,
    },
    /// A host had no room for an attempt, for the first time: what it cannot take runs elsewhere,
    /// or there later.
    NoRoom {
        /// The host.
        host: HostId,
        /// What it lacks.
        why: String,
    },
    /// A host could not start the program several times in a row and gets nothing more.
    Excluded {
        /// The host.
        host: HostId,
        /// What went wrong the last time.
        why: String,
    },
}

/// An attempt under way.
#[derive(Debug)]
struct Flight {
    item: u32,
    host: HostId,
    past: Past,
    is_started: bool,
    /// It was taken back before it was started: unless it succeeds all the same, it counts for
    /// nothing.
    is_withdrawn: bool,
}

/// What an item went through before.
#[derive(Clone, Debug, Default)]
struct Past {
    attempts: u32,
    /// Host lost or refused.
    setbacks: u32,
    refused: u32,
    no_room: u32,
    failed: u32,
    /// Hosts that had no room for it or refused it: others are tried first.
    full: Vec<HostId>,
    /// Hosts that could not start it, and how that ended the last time.
    tried: Vec<HostId>,
    not_started: Option<Box<(u64, HostId, TaskExit)>>,
}

/// An item that runs again.
#[derive(Debug)]
struct Again {
    item: u32,
    not_before: Instant,
    past: Past,
}

/// The scheduler. Invariants: each item is skipped, fresh (`next..total`), in `again`, in
/// `flights` or done, and in one of them only; a host's `in_flight` is the number of its flights.
#[derive(Debug)]
pub struct Plan {
    options: PlanOptions,
    total: u32,
    /// First fresh item.
    next: u32,
    /// Fresh items that are not skipped.
    fresh: u32,
    skipped: Bits,
    done: Bits,
    again: VecDeque<Again>,
    flights: HashMap<u64, Flight>,
    hosts: BTreeMap<HostId, HostLoad>,
    /// Hosts that leave everything unanswered and get nothing new, known here or not.
    silent: BTreeSet<HostId>,
    next_tag: u64,
    stopped: bool,
    /// Nothing more is launched, but what is under way counts.
    held: bool,
    events: VecDeque<PlanEvent>,
}

/// Whether a host could not start something for want of what it will have again.
fn has_no_room(ending: &Ending) -> bool {
    matches!(ending, Ending::NotStarted { errno, .. } if NO_ROOM.contains(errno))
}

impl Plan {
    /// A plan for `total` items.
    pub fn new(options: PlanOptions, total: u32) -> Self {
        Self {
            options,
            total,
            next: 0,
            fresh: total,
            skipped: Bits::new(total),
            done: Bits::new(total),
            again: VecDeque::new(),
            flights: HashMap::new(),
            hosts: BTreeMap::new(),
            silent: BTreeSet::new(),
            next_tag: 0,
            stopped: false,
            held: false,
            events: VecDeque::new(),
        }
    }

    /// Leaves an item out. Before anything is launched.
    pub fn skip(&mut self, item: u32) {
        assert!(self.next_tag == 0, "items are skipped before the first launch");
        self.fresh -= u32::from(self.skipped.insert(item));
    }

    /// A host takes part (again), with so many job slots. One that was excluded stays so.
    pub fn add_host(&mut self, host: HostId, slots: u16) {
        let jobs = self.options.jobs;
        let load = self.hosts.entry(host).or_insert_with(|| HostLoad::new(slots, jobs));
        if load.standing == HostStanding::Lost {
            load.back();
        }
    }

    /// A host leaves everything unanswered. What runs there goes on: only nothing new is given to
    /// it.
    pub fn host_is_silent(&mut self, host: HostId) {
        self.silent.insert(host);
    }

    /// A host is to be given nothing new, or is to be again.
    pub fn host_drains(&mut self, host: HostId, on: bool) {
        if let Some(load) = self.hosts.get_mut(&host) {
            load.drains = on;
        }
    }

    /// A host is heard again: one that led, and was lost with that, too.
    pub fn host_is_heard(&mut self, host: HostId) {
        self.silent.remove(&host);
        if let Some(load) = self.hosts.get_mut(&host).filter(|h| h.standing == HostStanding::Lost) {
            load.back();
        }
    }

    /// A host is gone, and with it what runs there.
    pub fn lose_host(&mut self, now: Instant, host: HostId) {
        self.silent.remove(&host);
        if let Some(load) = self.hosts.get_mut(&host).filter(|h| h.is_up()) {
            load.standing = HostStanding::Lost;
        }
        self.lose_flights(now, |h| h == host);
        self.give_up_unstartable();
    }

    /// Whether a host is given work.
    pub fn is_up(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(HostLoad::is_up)
    }

    /// The daemon is gone: nothing is known of any host, and what runs is lost.
    pub fn lose_daemon(&mut self, now: Instant) {
        self.silent.clear();
        for load in self.hosts.values_mut().filter(|h| h.is_up()) {
            load.standing = HostStanding::Lost;
        }
        self.lose_flights(now, |_| true);
    }

    fn lose_flights(&mut self, now: Instant, on: impl Fn(HostId) -> bool) {
        let mut tags: Vec<(u32, u64)> =
            self.flights.iter().filter(|(_, f)| on(f.host)).map(|(t, f)| (f.item, *t)).collect();
        // Each goes to the front: the last one first, so that they stay in order.
        tags.sort_unstable_by(|a, b| b.cmp(a));
        for (_, tag) in tags {
            self.ended(now, tag, TaskExit::without_run(Ending::HostLost));
        }
    }

    /// What to start next; `None` when no host has room, or nothing waits.
    pub fn poll_launch(&mut self, now: Instant) -> Option<Launch> {
        let waiting = self.waiting();
        if self.stopped || self.held || waiting == 0 {
            return None;
        }
        let tail = self.options.no_queue || waiting < self.capacity();
        let best = self.best_host(now, tail, &[])?;
        for index in 0..self.again.len() {
            let again = &self.again[index];
            if again.not_before > now {
                continue;
            }
            let host = if again.past.tried.is_empty() && again.past.full.is_empty() {
                Some(best)
            } else {
                self.best_host(now, tail, &self.shunned(&again.past))
            };
            if let Some(host) = host {
                let again = self.again.remove(index)?;
                return Some(self.launch(again.item, host, again.past));
            }
        }
        if self.fresh == 0 {
            return None;
        }
        while self.skipped.contains(self.next) {
            self.next += 1;
        }
        let item = self.next;
        self.next += 1;
        self.fresh -= 1;
        Some(self.launch(item, best, Past::default()))
    }

    /// Where an item is not to run: on hosts that cannot start it, nor on those that had no room
    /// for it while there are others.
    fn shunned(&self, past: &Past) -> Vec<HostId> {
        let mut shunned = past.tried.clone();
        let elsewhere = |h: HostId| !past.tried.contains(&h) && !past.full.contains(&h);
        if self.usable().any(elsewhere) {
            shunned.extend(&past.full);
        }
        shunned
    }

    fn launch(&mut self, item: u32, host: HostId, mut past: Past) -> Launch {
        assert!(!self.done.contains(item), "item {item} has its result");
        past.attempts += 1;
        let tag = self.next_tag;
        self.next_tag += 1;
        if let Some(load) = self.hosts.get_mut(&host) {
            load.in_flight += 1;
        }
        let flight = Flight { item, host, past, is_started: false, is_withdrawn: false };
        self.flights.insert(tag, flight);
        Launch { tag, item, host, queued: self.options.jobs.is_none() }
    }

    /// The host with the least load among those with room.
    fn best_host(&self, now: Instant, tail: bool, without: &[HostId]) -> Option<HostId> {
        let room = |(id, h): &(&HostId, &HostLoad)| {
            h.in_flight < h.allowed(now, tail) && !without.contains(id) && !self.silent.contains(id)
        };
        let (host, _) = self.hosts.iter().filter(room).min_by(|(_, a), (_, b)| {
            let load = |h: &HostLoad, other: &HostLoad| {
                u64::from(h.in_flight) * u64::from(other.at_once())
            };
            load(a, b).cmp(&load(b, a))
        })?;
        Some(*host)
    }

    /// An attempt runs.
    pub fn started(&mut self, tag: u64) {
        let Some(flight) = self.flights.get_mut(&tag) else { return };
        flight.is_started = true;
        if let Some(load) = self.hosts.get_mut(&flight.host) {
            load.started();
        }
    }

    /// An attempt ended. One that is not under way any more is ignored.
    pub fn ended(&mut self, now: Instant, tag: u64, exit: TaskExit) {
        let Some(flight) = self.flights.remove(&tag) else { return };
        let host = flight.host;
        let blame = match &exit.ending {
            Ending::NotStarted { errno, .. } => {
                let of_item = self.options.program_varies || ITEM_FAULTS.contains(errno);
                !of_item && !has_no_room(&exit.ending)
            }
            _ => false,
        };
        let exclude = if has_no_room(&exit.ending) {
            self.end_without_room(now, host, &exit.ending);
            if self.nobody_has_room() { self.usable().collect() } else { vec![] }
        } else {
            let end = |load: &mut HostLoad| load.ended(now, &exit.ending, exit.wall_us, blame);
            if self.hosts.get_mut(&host).is_some_and(end) { vec![host] } else { vec![] }
        };
        let why = exit.ending.to_string();
        self.settle(now, tag, flight, exit);
        for host in &exclude {
            if let Some(load) = self.hosts.get_mut(host) {
                load.standing = HostStanding::Excluded;
            }
            self.events.push_back(PlanEvent::Excluded { host: *host, why: why.clone() });
        }
        if !exclude.is_empty() {
            self.give_up_unstartable();
        }
    }

    /// An attempt ended for want of room, which is told once of each host.
    fn end_without_room(&mut self, now: Instant, host: HostId, ending: &Ending) {
        let Some(load) = self.hosts.get_mut(&host) else { return };
        load.ended_without_room(now);
        if !self.stopped && !std::mem::replace(&mut load.no_room_told, true) {
            self.events.push_back(PlanEvent::NoRoom { host, why: ending.to_string() });
        }
    }

    /// No host has had any for long, and nothing runs that could give some back: whoever waits
    /// would wait for as many turns as there are items.
    fn nobody_has_room(&self) -> bool {
        let mut up = self.hosts.values().filter(|h| h.is_up()).peekable();
        up.peek().is_some() && up.all(|h| h.in_flight == 0 && h.lacks_room_for(NO_ROOM_MAX))
    }

    /// Decides whether this end is the item's result.
    fn settle(&mut self, now: Instant, tag: u64, flight: Flight, exit: TaskExit) {
        let Flight { item, host, mut past, is_withdrawn, .. } = flight;
        let mut not_before = Instant::ZERO;
        let again = match &exit.ending {
            Ending::Exited(0) => false,
            _ if self.stopped || is_withdrawn => true,
            Ending::Exited(_) | Ending::Signalled(_) | Ending::TimedOut => {
                past.failed += 1;
                past.failed <= self.options.retry_failed && !self.held
            }
            Ending::HostLost | Ending::Unsure => {
                past.setbacks += 1;
                past.setbacks <= self.options.retries
            }
            Ending::Refused(_) => {
                past.setbacks += 1;
                past.refused += 1;
                if !self.is_elsewhere(&mut past, host) {
                    not_before = now + pause(past.refused);
                }
                past.setbacks <= self.options.retries
            }
            ending if has_no_room(ending) => {
                if !self.is_elsewhere(&mut past, host) {
                    past.no_room += 1;
                    not_before = now + pause(past.no_room);
                }
                past.no_room <= NO_ROOM_MAX
            }
            Ending::NotStarted { .. } => {
                past.tried.push(host);
                past.not_started = Some(Box::new((tag, host, exit.clone())));
                self.usable().any(|h| !past.tried.contains(&h))
            }
        };
        if again {
            self.count(host, |c| c.dropped += 1);
            let ending = exit.ending;
            self.events.push_back(PlanEvent::Dropped { item, tag, host, ending });
            self.again.push_front(Again { item, not_before, past });
        } else {
            self.finish(item, tag, host, exit, past.attempts);
        }
    }

    /// Notes that `host` had no room for an item; whether another one may have. Where all were
    /// asked, they are asked anew.
    fn is_elsewhere(&self, past: &mut Past, host: HostId) -> bool {
        past.full.push(host);
        let asked = |h: &HostId| past.full.contains(h) || past.tried.contains(h);
        let elsewhere = self.usable().any(|h| !asked(&h));
        if !elsewhere {
            past.full.clear();
        }
        elsewhere
    }

    fn finish(&mut self, item: u32, tag: u64, host: HostId, exit: TaskExit, attempts: u32) {
        assert!(self.done.insert(item), "item {item} gets one result");
        let success = exit.ending.is_success();
        self.count(host, |c| if success { c.succeeded += 1 } else { c.failed += 1 });
        self.events.push_back(PlanEvent::Finished { item, tag, host, exit, attempts });
    }

    fn count(&mut self, host: HostId, change: impl FnOnce(&mut HostCounts)) {
        if let Some(load) = self.hosts.get_mut(&host) {
            change(&mut load.counts);
        }
    }

    /// Items that no usable host is left to try have failed. With no usable host at all they
    /// wait: the plan is stranded.
    fn give_up_unstartable(&mut self) {
        let usable: Vec<HostId> = self.usable().collect();
        if usable.is_empty() || self.stopped {
            return;
        }
        let hopeless = |a: &Again| usable.iter().all(|h| a.past.tried.contains(h));
        let (lost, kept) = std::mem::take(&mut self.again).into_iter().partition(hopeless);
        self.again = kept;
        let lost: VecDeque<Again> = lost;
        for again in lost {
            let Some(last) = again.past.not_started else { continue };
            let (tag, host, exit) = *last;
            self.finish(again.item, tag, host, exit, again.past.attempts);
        }
    }

    fn usable(&self) -> impl Iterator<Item = HostId> {
        self.hosts.iter().filter(|(_, h)| h.is_up()).map(|(id, _)| *id)
    }

    /// Nothing more is launched; attempts that do not succeed from now on are dropped.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Nothing more is launched; what runs goes on and counts. Gives the attempts that were not
    /// started yet, which are to be ended.
    pub fn hold(&mut self) -> Vec<u64> {
        self.held = true;
        let mut withdrawn = vec![];
        for (tag, flight) in self.flights.iter_mut().filter(|(_, flight)| !flight.is_started) {
            flight.is_withdrawn = true;
            withdrawn.push(*tag);
        }
        withdrawn
    }

    /// What became of attempts, in order.
    pub fn poll_event(&mut self) -> Option<PlanEvent> {
        self.events.pop_front()
    }

    /// When a launch may become possible without an event: a pause ends.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        if self.stopped || self.held || self.waiting() == 0 {
            return None;
        }
        let pauses = self.hosts.values().filter(|h| h.is_up()).map(|h| h.paused_until);
        self.again.iter().map(|a| a.not_before).chain(pauses).filter(|at| *at > now).min()
    }

    /// Nothing is under way and nothing will be.
    pub fn is_finished(&self) -> bool {
        self.flights.is_empty() && (self.stopped || self.held || self.waiting() == 0)
    }

    /// Items wait, and there is no host to run them.
    pub fn is_stranded(&self) -> bool {
        !self.stopped
            && !self.held
            && self.waiting() > 0
            && self.flights.is_empty()
            && self.usable().next().is_none()
    }

    /// Items that are neither done nor under way nor skipped.
    pub fn waiting(&self) -> u32 {
        self.fresh + self.again.len() as u32
    }

    /// Items with a result.
    pub const fn done(&self) -> u32 {
        self.done.count()
    }

    /// Items of the list, skipped ones included.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Attempts under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// What an attempt under way is at.
    pub fn item(&self, tag: u64) -> Option<u32> {
        self.flights.get(&tag).map(|flight| flight.item)
    }

    /// Whether an attempt is under way.
    pub fn is_in_flight(&self, tag: u64) -> bool {
        self.flights.contains_key(&tag)
    }

    /// Tags of all attempts under way.
    pub fn tags(&self) -> impl Iterator<Item = u64> {
        self.flights.keys().copied()
    }

    /// Attempts that all hosts together may have under way.
    pub fn capacity(&self) -> u32 {
        let takes =
            |(id, h): &(&HostId, &HostLoad)| h.is_up() && !h.drains && !self.silent.contains(id);
        self.hosts.iter().filter(takes).map(|(_, h)| h.limit()).sum()
    }

    /// Whether every host that is up is to be taken out: nothing is launched until one is given
    /// work again.
    pub fn is_drained(&self) -> bool {
        let mut up = self.hosts.values().filter(|h| h.is_up()).peekable();
        up.peek().is_some() && up.all(|h| h.drains)
    }

    /// Each host that took part, with its standing, attempts under way and counts.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, HostStanding, u32, HostCounts)> {
        self.hosts.iter().map(|(id, h)| (*id, h.standing, h.in_flight, h.counts))
    }
}
