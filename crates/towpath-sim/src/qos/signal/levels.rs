//! Managers on three levels (node, sub-network, group of sub-networks) against one master.
//!
//! Node and group managers beside the sub-network's are the second source's future work (Cui 1999,
//! chapter VI). A group here is sub-networks of hosts behind one backbone. A node manager owns its
//! host's two directions, a sub-network's its two directions to the backbone, the group's the
//! backbone. A request walks from its source's node up as far as it must and down to its
//! destination, each manager testing and holding what it owns, and the answer walks back; a refusal
//! gives back what was held. With one master all tests are made in one place, after both ends have
//! been asked.
//!
//! This models rates and messages; the tests of a sub-network's ports are
//! `towpath_qos::admission`'s, whose cost goes into [`Work::test_ns`].

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;
use towpath_wire::Instant;

use super::network::SignalError;
use crate::kernel::Kernel;
use crate::qos::histogram::{Histogram, Summary};
use crate::scenario::between;

/// A group of like sub-networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// Sub-networks, 1 to 1000.
    pub subnets: u32,
    /// Hosts of each, 2 to 1000.
    pub hosts: u32,
    /// What each host may send, and receive.
    pub host_bps: u64,
    /// What each sub-network may send to the backbone, and receive from it.
    pub uplink_bps: u64,
    /// What the backbone carries.
    pub backbone_bps: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            subnets: 20,
            hosts: 50,
            host_bps: 1_000_000_000,
            uplink_bps: 10_000_000_000,
            backbone_bps: 100_000_000_000,
        }
    }
}

/// Channels that are asked for, evenly drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    /// How many, at most a million.
    pub channels: u32,
    /// Mean time between two; drawn evenly from half of it to one and a half.
    pub every_us: u64,
    /// Those that stay within a sub-network, in a million.
    pub local_ppm: u32,
    /// Least and greatest rate.
    pub rate_bps: [u64; 2],
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            channels: 100_000,
            every_us: 100,
            local_ppm: 800_000,
            rate_bps: [64_000, 10_000_000],
        }
    }
}

/// What messages and tests cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Work {
    /// A message within a sub-network.
    pub near_us: u64,
    /// A message to or from the group's manager, or to another sub-network.
    pub far_us: u64,
    /// A manager's work for a message.
    pub message_us: u64,
    /// Its work for each test.
    pub test_ns: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self { near_us: 20, far_us: 500, message_us: 20, test_ns: 10_000 }
    }
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrangement {
    /// One master for all, in the first sub-network.
    OneMaster,
    /// Node, sub-network, group.
    ThreeLevels,
}

/// Managers of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelReport {
    /// How many there are.
    pub managers: u32,
    /// Requests refused at this level.
    pub refused: u64,
    /// Most channels that one of them keeps.
    pub channels_max: u64,
    /// Most work of one of them, as time.
    pub busy_us_max: u64,
}

/// What came of the requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelsReport {
    /// Who decided.
    pub arrangement: Arrangement,
    /// Channels admitted.
    pub admitted: u64,
    /// Messages between managers.
    pub messages: u64,
    /// Messages that crossed the backbone or reached the group's manager.
    pub far_messages: u64,
    /// From asking to the answer, of those admitted.
    pub setup: Summary,
    /// Nodes, sub-networks, group; with one master, nodes, none, the master.
    pub levels: [LevelReport; 3],
    /// Which requests were admitted.
    #[serde(skip)]
    pub verdicts: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    at_ns: u64,
    from: u32,
    to: u32,
    rate_bps: u64,
}

/// A manager with what it owns.
#[derive(Clone, Debug, Default)]
struct Manager {
    /// Owned capacities that are left; see `Run::owned`.
    free_bps: [u64; 2],
    free_at_ns: u64,
    busy_ns: u64,
    channels: u64,
    channels_max: u64,
}

/// A stop on a request's way: a manager, which of its capacities, and its level.
#[derive(Clone, Copy, Debug)]
struct Stop {
    manager: u32,
    /// Index of `free_bps`; 2: it only passes on.
    owned: u8,
    level: u8,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The request is at stop number so.
    Forward { request: u32, stop: u8 },
    /// The answer is at stop number so.
    Back { request: u32, stop: u8, admitted: bool },
}

struct Run {
    group: Group,
    work: Work,
    arrangement: Arrangement,
    requests: Vec<Request>,
    managers: Vec<Manager>,
    kernel: Kernel<Event>,
    report: LevelsReport,
    setup: Histogram,
}

/// Draws the requests of a seed and has them decided.
pub fn run(
    group: Group,
    asked: Asked,
    work: Work,
    arrangement: Arrangement,
    seed: u64,
) -> Result<LevelsReport, SignalError> {
    check(&group, &asked, &work)?;
    let requests = draw(&group, &asked, seed);
    let manager = |bps| Manager { free_bps: [bps; 2], ..Manager::default() };
    let hosts = group.subnets * group.hosts;
    let mut managers = vec![manager(group.host_bps); hosts as usize];
    managers.extend(vec![manager(group.uplink_bps); group.subnets as usize]);
    managers.push(manager(group.backbone_bps));
    let report = LevelsReport {
        arrangement,
        admitted: 0,
        messages: 0,
        far_messages: 0,
        setup: Summary::default(),
        levels: [LevelReport::default(); 3],
        verdicts: vec![false; requests.len()],
    };
    let (kernel, setup) = (Kernel::new(), Histogram::new());
    let mut run = Run { group, work, arrangement, requests, managers, kernel, report, setup };
    for (i, r) in run.requests.iter().enumerate() {
        let event = Event::Forward { request: i as u32, stop: 0 };
        run.kernel.schedule(Instant::from_nanos(r.at_ns), event);
    }
    while let Some((now, event)) = run.kernel.pop() {
        match event {
            Event::Forward { request, stop } => run.forward(now.as_nanos(), request, stop),
            Event::Back { request, stop, admitted } => {
                run.back(now.as_nanos(), (request, stop), admitted);
            }
        }
    }
    Ok(run.finish())
}

fn check(group: &Group, asked: &Asked, work: &Work) -> Result<(), SignalError> {
    let limits = [
        ("subnets", u64::from(group.subnets), 1, 1000),
        ("hosts", u64::from(group.hosts), 2, 1000),
        ("host_bps", group.host_bps, 1, 1 << 50),
        ("uplink_bps", group.uplink_bps, 1, 1 << 50),
        ("backbone_bps", group.backbone_bps, 1, 1 << 50),
        ("channels", u64::from(asked.channels), 1, 1_000_000),
        ("every_us", asked.every_us, 1, 1_000_000_000),
        ("local_ppm", u64::from(asked.local_ppm), 0, 1_000_000),
        ("rate_bps", asked.rate_bps[1], 1, 1 << 50),
        ("near_us", work.near_us, 0, 1_000_000_000),
        ("far_us", work.far_us, 0, 1_000_000_000),
        ("message_us", work.message_us, 0, 1_000_000_000),
        ("test_ns", work.test_ns, 0, 1_000_000_000),
    ];
    match limits.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
        Some((what, value, least, _)) if value < least => {
            Err(SignalError::TooLittle { what, value, least })
        }
        Some((what, value, _, limit)) => Err(SignalError::TooMuch { what, value, limit }),
        None => Ok(()),
    }
}

fn draw(group: &Group, asked: &Asked, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed, 0x01e7_e15a);
    let mut at_ns = 0;
    let (hosts, subnets) = (u64::from(group.hosts), u64::from(group.subnets));
    let request = |_| {
        at_ns += asked.every_us * 500 + rng.below(asked.every_us * 1000);
        let from = rng.below(hosts * subnets);
        let (subnet, host) = (from / hosts, from % hosts);
        let local = subnets == 1 || rng.chance_ppm(asked.local_ppm);
        let to = if local {
            subnet * hosts + (host + 1 + rng.below(hosts - 1)) % hosts
        } else {
            (subnet + 1 + rng.below(subnets - 1)) % subnets * hosts + rng.below(hosts)
        };
        let rate_bps = between(&mut rng, asked.rate_bps[0], asked.rate_bps[1]);
        Request { at_ns, from: from as u32, to: to as u32, rate_bps }
    };
    (0..asked.channels).map(request).collect()
}

impl Run {
    /// The managers that a request passes, in order, and how many there are. Capacity 0 is
    /// sending, 1 receiving.
    fn stops(&self, request: u32) -> ([Stop; 5], u8) {
        let r = &self.requests[request as usize];
        let hosts = self.group.subnets * self.group.hosts;
        let (top, subnet) =
            (hosts + self.group.subnets, |host: u32| hosts + host / self.group.hosts);
        let stop = |manager, owned, level| Stop { manager, owned, level };
        let (first, last) = (stop(r.from, 0, 0), stop(r.to, 1, 0));
        let (a, b) = (subnet(r.from), subnet(r.to));
        match (self.arrangement, a == b) {
            (Arrangement::OneMaster, _) => {
                let through = stop(top, 2, 2);
                ([first, through, last, last, last], 3)
            }
            (Arrangement::ThreeLevels, true) => ([first, stop(a, 2, 1), last, last, last], 3),
            (Arrangement::ThreeLevels, false) => {
                ([first, stop(a, 0, 1), stop(top, 0, 2), stop(b, 1, 1), last], 5)
            }
        }
    }

    /// What the master tests for itself once both ends have agreed: the ways between their
    /// sub-networks, as (manager, capacity).
    fn between(&self, request: u32) -> [Option<(u32, u8)>; 3] {
        let r = &self.requests[request as usize];
        let hosts = self.group.subnets * self.group.hosts;
        let (a, b) = (hosts + r.from / self.group.hosts, hosts + r.to / self.group.hosts);
        if self.arrangement == Arrangement::ThreeLevels || a == b {
            return [None; 3];
        }
        [Some((a, 0)), Some((hosts + self.group.subnets, 0)), Some((b, 1))]
    }

    /// A manager's work for a message and so many tests: when it is done.
    fn work(&mut self, now: u64, manager: u32, tests: u64) -> u64 {
        let cost = self.work.message_us * 1000 + self.work.test_ns * tests;
        let m = &mut self.managers[manager as usize];
        m.free_at_ns = m.free_at_ns.max(now) + cost;
        m.busy_ns += cost;
        m.free_at_ns
    }

    fn hold(&mut self, manager: u32, owned: u8, rate_bps: u64) -> bool {
        match self.managers[manager as usize].free_bps.get_mut(usize::from(owned)) {
            None => true,
            Some(free) if *free < rate_bps => false,
            Some(free) => {
                *free -= rate_bps;
                true
            }
        }
    }

    fn give_back(&mut self, manager: u32, owned: u8, rate_bps: u64) {
        let free = self.managers[manager as usize].free_bps.get_mut(usize::from(owned));
        if let Some(free) = free {
            *free += rate_bps;
        }
    }

    fn forward(&mut self, now: u64, request: u32, at: u8) {
        let (stops, count) = self.stops(request);
        let stop = stops[usize::from(at)];
        let rate = self.requests[request as usize].rate_bps;
        let done = self.work(now, stop.manager, u64::from(stop.owned < 2));
        if !self.hold(stop.manager, stop.owned, rate) {
            self.report.levels[usize::from(stop.level)].refused += 1;
            return self.answer(done, (request, at), false);
        }
        if at + 1 == count {
            return self.answer(done, (request, at), true);
        }
        let event = Event::Forward { request, stop: at + 1 };
        self.send(done, stop, stops[usize::from(at) + 1], event);
    }

    /// The answer leaves stop `at` for the one before.
    fn answer(&mut self, now: u64, (request, at): (u32, u8), admitted: bool) {
        let (stops, _) = self.stops(request);
        if admitted {
            self.keep(stops[usize::from(at)].manager);
        }
        let Some(before) = at.checked_sub(1) else {
            if admitted {
                self.report.admitted += 1;
                self.report.verdicts[request as usize] = true;
                self.setup.record(now - self.requests[request as usize].at_ns);
            }
            return;
        };
        let event = Event::Back { request, stop: before, admitted };
        self.send(now, stops[usize::from(at)], stops[usize::from(before)], event);
    }

    fn back(&mut self, now: u64, (request, at): (u32, u8), mut admitted: bool) {
        let (stops, _) = self.stops(request);
        let stop = stops[usize::from(at)];
        let rate = self.requests[request as usize].rate_bps;
        let own = if admitted && stop.level == 2 { self.between(request) } else { [None; 3] };
        let done = self.work(now, stop.manager, own.iter().flatten().count() as u64);
        let mut held = Vec::new();
        for (manager, owned) in own.into_iter().flatten() {
            admitted = admitted && self.hold(manager, owned, rate);
            if admitted {
                held.push((manager, owned));
            }
        }
        if !admitted && own[0].is_some() {
            // The master refuses what both ends had agreed to: the destination is told.
            for (manager, owned) in held {
                self.give_back(manager, owned, rate);
            }
            self.report.levels[2].refused += 1;
            let last = stops[2];
            self.give_back(last.manager, last.owned, rate);
            self.managers[last.manager as usize].channels -= 1;
            self.report.messages += 1;
        }
        if !admitted {
            self.give_back(stop.manager, stop.owned, rate);
        }
        self.answer(done, (request, at), admitted);
    }

    fn keep(&mut self, manager: u32) {
        let m = &mut self.managers[manager as usize];
        m.channels += 1;
        m.channels_max = m.channels_max.max(m.channels);
    }

    /// A message between two managers.
    fn send(&mut self, now: u64, from: Stop, to: Stop, event: Event) {
        let hosts = self.group.subnets * self.group.hosts;
        // The group's manager, or the one master, stands in the first sub-network.
        let home = |stop: Stop| match stop.manager.checked_sub(hosts) {
            None => stop.manager / self.group.hosts,
            Some(subnet) if subnet < self.group.subnets => subnet,
            Some(_) => 0,
        };
        let far = home(from) != home(to);
        self.report.messages += 1;
        self.report.far_messages += u64::from(far);
        let way_us = if far { self.work.far_us } else { self.work.near_us };
        self.kernel.schedule(Instant::from_nanos(now + way_us * 1000), event);
    }

    fn finish(mut self) -> LevelsReport {
        let hosts = (self.group.subnets * self.group.hosts) as usize;
        let (nodes, rest) = self.managers.split_at(hosts);
        let (subnets, top) = rest.split_at(self.group.subnets as usize);
        for (level, managers) in self.report.levels.iter_mut().zip([nodes, subnets, top]) {
            level.managers = managers.len() as u32;
            level.channels_max = managers.iter().map(|m| m.channels_max).max().unwrap_or(0);
            level.busy_us_max = managers.iter().map(|m| m.busy_ns / 1000).max().unwrap_or(0);
        }
        if self.arrangement == Arrangement::OneMaster {
            self.report.levels[1].managers = 0;
        }
        self.report.setup = self.setup.summary();
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(group: Group, asked: Asked) -> [LevelsReport; 2] {
        let run = |arrangement| run(group, asked, Work::default(), arrangement, 1).expect("valid");
        [run(Arrangement::OneMaster), run(Arrangement::ThreeLevels)]
    }

    #[test]
    fn a_local_channel_takes_4_messages_and_a_far_one_8_where_the_master_takes_4_far_ones() {
        let group = Group::default();
        let one = |local_ppm| Asked { channels: 1, local_ppm, ..Asked::default() };
        let [_, local] = both(group, one(1_000_000));
        assert_eq!((local.messages, local.far_messages, local.admitted), (4, 0, 1));
        // By hand: five messages handled at 20 µs, two tests at 10 µs, four ways of 20 µs.
        assert_eq!(local.setup.max_ns, 200_000);
        let [_, far] = both(group, one(0));
        assert_eq!((far.messages, far.admitted), (8, 1));
        let [master, _] = both(group, one(0));
        assert_eq!((master.messages, master.admitted), (4, 1));
    }

    #[test]
    fn one_after_the_other_both_arrangements_admit_the_same() {
        // Tight everywhere, and slow enough that no two requests are under way at once.
        let group = Group {
            subnets: 4,
            hosts: 6,
            host_bps: 40_000_000,
            uplink_bps: 42_000_000,
            backbone_bps: 140_000_000,
        };
        let asked =
            Asked { channels: 1000, every_us: 20_000, local_ppm: 500_000, ..Asked::default() };
        let work = Work { far_us: 100, near_us: 10, message_us: 1, test_ns: 100 };
        let run = |arrangement| run(group, asked, work, arrangement, 7).expect("valid");
        let (flat, tree) = (run(Arrangement::OneMaster), run(Arrangement::ThreeLevels));
        assert_eq!(flat.verdicts, tree.verdicts);
        assert!(tree.levels.iter().all(|l| l.refused > 0), "{:?}", tree.levels);
        assert!((50..500).contains(&tree.admitted), "{}", tree.admitted);
    }

    #[test]
    fn at_100_000_channels_the_levels_share_the_work_that_drowns_one_master() {
        let [flat, tree] = both(Group::default(), Asked::default());
        for r in [&flat, &tree] {
            let refused: u64 = r.levels.iter().map(|l| l.refused).sum();
            assert_eq!(r.admitted + refused, 100_000);
        }
        // The master keeps every channel; of the three levels none keeps a quarter of them.
        assert_eq!(flat.levels[2].channels_max, flat.admitted);
        assert!(tree.levels.iter().all(|l| l.channels_max * 4 < tree.admitted + 3));
        assert!(tree.levels[2].busy_us_max * 2 < flat.levels[2].busy_us_max);
        // Four of five channels are local: their set-up never leaves the sub-network.
        assert!(tree.far_messages < flat.far_messages);
        assert!(tree.setup.p50_ns < flat.setup.p50_ns, "{:?} {:?}", tree.setup, flat.setup);
    }

    #[test]
    fn nothing_is_held_for_what_was_refused() {
        let group = Group { host_bps: 5_000_000, ..Group::default() };
        let asked = Asked { channels: 3000, rate_bps: [4_000_000, 5_000_000], ..Asked::default() };
        for report in both(group, asked) {
            // One channel fills a host's direction: nobody keeps more than two.
            assert!(report.levels[0].channels_max <= 2);
            assert!(report.admitted > 300, "{}", report.admitted);
        }
    }

    #[test]
    fn a_group_out_of_range_is_refused_with_value_and_limit() {
        let none = Group { hosts: 1, ..Group::default() };
        let error = run(none, Asked::default(), Work::default(), Arrangement::OneMaster, 1);
        assert_eq!(error.expect_err("one host").to_string(), "hosts is 1, at least 2");
    }
}
