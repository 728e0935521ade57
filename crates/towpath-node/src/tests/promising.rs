//! Channels whose time counts until they arrive: promised by whoever leads, taken up by their own
//! host, given back, and never promised twice.
#![allow(clippy::format_push_string, reason = "a test's topology, written once")]

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::HostState;
use towpath_vm::channel::{ChannelSpec, ChannelStatus, Reserve, Until};
use towpath_vm::promises::HOLD;
use towpath_vm::talk::{Answer, Fault, Question, ToDaemon, ToTask};
use towpath_wire::{HostId, Rate, TaskId};

use super::net::{Net, config};
use super::returns::Lives;
use super::voting::{leader, leaders, sharing};
use crate::egress::Reservation;
use crate::event::NodeEvent;

/// So many hosts at 100 Mbit/s around one switch.
pub(super) fn star(hosts: usize) -> String {
    let mut text = String::from(
        "[[switch]]\nname = \"s\"\nscheduler = \"priority\"\nbudgets_ns = [3_000_000]\n",
    );
    for h in 0..hosts {
        text += &format!("[[host]]\nname = \"h{h}\"\n");
        text += &format!("[[link]]\nends = [\"h{h}\", \"s\"]\nrate_bps = 100_000_000\n");
    }
    text
}

/// A message of 1000 bytes every so many microseconds.
fn spec(every_us: u64) -> ChannelSpec {
    let reserve = Some(Reserve {
        bytes: 1000,
        every: Duration::from_micros(every_us),
        burst: 2,
        within: Duration::from_millis(10),
        until: Until::Arrived,
    });
    ChannelSpec { reserve, ..ChannelSpec::default() }
}

fn set(net: &mut Net, host: usize, text: String) -> Result<(), String> {
    let asked = net.call(host, |node, now, memory| node.set_network(now, 7, text, memory));
    assert!(asked, "it leads");
    net.run(300);
    let decided = |event: &NodeEvent| match event {
        NodeEvent::Network { number: 7, outcome } => Some(outcome.clone()),
        _ => None,
    };
    let all: Vec<_> = net.events(host).iter().filter_map(decided).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// What hosts ask of their own links, each of which has room.
fn links_agree(net: &mut Net) -> Vec<Reservation> {
    let mut asked = Vec::new();
    for host in 0..net.seats.len() {
        for event in core::mem::take(&mut net.seats[host].events) {
            match event {
                NodeEvent::Reserve(wish) if net.seats[host].node.is_some() => {
                    asked.push(wish);
                    net.call(host, |node, now, m| node.reserved(now, wish.of, Ok(()), m));
                }
                NodeEvent::Reserve(_) => {}
                other => net.seats[host].events.push(other),
            }
        }
    }
    asked
}

/// Opens a channel, with an answer within so many milliseconds.
fn open(
    net: &mut Net,
    (from, to): ((usize, TaskId), TaskId),
    number: u32,
    every_us: u64,
    ms: u64,
) -> Option<Result<(), Fault>> {
    let spec = spec(every_us);
    net.says(from.0, from.1, ToDaemon::OpenChannel { number, to, spec });
    for _ in 0..ms.div_ceil(20) {
        net.run(20);
        links_agree(net);
    }
    net.told(from.0, from.1).into_iter().find_map(|told| match told {
        ToTask::ChannelOpen { number: n, outcome } if n == number => Some(outcome),
        _ => None,
    })
}

fn why(outcome: Option<Result<(), Fault>>) -> String {
    match outcome {
        Some(Err(Fault::NotReserved(why))) => why,
        other => panic!("{other:?}"),
    }
}

fn status(net: &mut Net, host: usize, task: TaskId, number: u32) -> ChannelStatus {
    match net.ask(host, task, Question::Channel(number)) {
        Ok(Answer::Channel(status)) => *status,
        other => panic!("{other:?}"),
    }
}

fn promised(net: &mut Net, host: usize) -> usize {
    net.node(host).promised().map_or(0, towpath_vm::promises::Promises::len)
}

#[test]
fn what_is_promised_of_the_way_is_taken_up_by_the_own_link_and_given_back_when_it_is_over() {
    let mut net = Net::new(3);
    let (one, two) = (net.enrol(1), net.enrol(2));
    let refused = why(open(&mut net, ((1, one), two), 0, 400, 100));
    assert!(refused.starts_with("this virtual machine knows no topology"), "{refused}");
    assert!(set(&mut net, 0, "[[host]]".into()).is_err());
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    net.says(1, one, ToDaemon::OpenChannel { number: 2, to: two, spec: spec(400) });
    net.run(100);
    assert_eq!(net.told(1, one), [], "its own link has not said yes");
    let asked = links_agree(&mut net);
    let [own] = &asked[..] else { panic!("{asked:?}") };
    // Of ten milliseconds the switch has three, and the driver may be late.
    assert!(own.within < Duration::from_millis(7), "{own:?}");
    assert_eq!((own.port, own.task), (Some(Rate::from_mbps(100)), one));
    net.run(100);
    assert_eq!(net.told(1, one), [ToTask::ChannelOpen { number: 2, outcome: Ok(()) }]);
    let of = status(&mut net, 1, one, 2);
    let bound = of.promised.expect("it is");
    assert!(of.reserved && bound <= Duration::from_millis(10), "{of:?}");
    assert_eq!(promised(&mut net, 0), 1);
    // Of two that send to one, the third has no room, whoever asks.
    let zero = net.enrol(0);
    assert_eq!(open(&mut net, ((0, zero), two), 0, 400, 100), Some(Ok(())));
    let refused = why(open(&mut net, ((1, one), two), 4, 150, 100));
    assert!(refused.starts_with("port s:2: "), "{refused}");
    net.says(1, one, ToDaemon::CloseChannel { number: 2 });
    net.run(50);
    assert_eq!(promised(&mut net, 0), 2, "what it sent may be on its way");
    net.run(200);
    assert_eq!(promised(&mut net, 0), 1);
    // Nor does anything stay when a task goes.
    for (host, task) in [(0, zero), (1, one), (2, two)] {
        net.left(host, task);
    }
    net.run(1000);
    net.nothing_is_left();
}

#[test]
fn a_link_that_says_no_and_a_task_that_is_not_there_give_the_promise_back() {
    let mut net = Net::new(3);
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    let one = net.enrol(1);
    let nobody = net.id(2).task(99).unwrap();
    assert_eq!(open(&mut net, ((1, one), nobody), 0, 400, 100), Some(Err(Fault::NoTask)));
    let two = net.enrol(2);
    net.says(1, one, ToDaemon::OpenChannel { number: 2, to: two, spec: spec(400) });
    net.run(100);
    let wish = |event: &NodeEvent| match event {
        NodeEvent::Reserve(wish) => Some(*wish),
        _ => None,
    };
    let wish = net.events(1).iter().find_map(wish).expect("its link is asked");
    let no = Err(crate::egress::NotReserved::NoRate);
    net.call(1, |node, now, m| node.reserved(now, wish.of, no, m));
    net.run(100);
    let told = net.told(1, one);
    assert!(
        matches!(&told[..], [ToTask::ChannelOpen { outcome: Err(Fault::NotReserved(_)), .. }]),
        "{told:?}"
    );
    net.run(1000);
    assert_eq!(promised(&mut net, 0), 0);
}

#[test]
fn who_comes_to_lead_knows_what_is_promised_and_answers_what_was_asked() {
    let mut net = Net::founded(sharing(0));
    for index in 1..5 {
        net.add(sharing(index));
        net.run(100);
    }
    net.run(1000);
    assert_eq!(set(&mut net, 0, star(5)), Ok(()));
    let (three, four) = (net.enrol(3), net.enrol(4));
    assert_eq!(open(&mut net, ((3, three), four), 0, 200, 200), Some(Ok(())));
    net.crash(0);
    // Asked for while nobody leads: it waits, and is refused for the right reason.
    let refused = why(open(&mut net, ((3, three), four), 2, 200, 8000));
    assert!(refused.starts_with("port h3:0: "), "{refused}");
    let leads = leader(&mut net);
    assert_eq!(promised(&mut net, leads), 1);
    let other = net.enrol(leads);
    let refused = why(open(&mut net, ((leads, other), four), 0, 150, 1000));
    assert!(refused.starts_with("port s:4: "), "{refused}");
    assert_eq!(open(&mut net, ((leads, other), four), 2, 400, 1000), Some(Ok(())));
    assert_eq!(promised(&mut net, leads), 2);
    assert!(status(&mut net, 3, three, 0).promised.is_some(), "as before");
}

/// However little is said meanwhile: a host whose tasks are quiet hears its leader all the same.
#[test]
fn what_is_promised_stays_while_somebody_leads_and_nothing_is_said() {
    for shared in [false, true] {
        let founder = if shared { sharing(0) } else { config(0, "h0") };
        let mut net = Net::founded(founder);
        for index in 1..5 {
            let config = config(index, &format!("h{index}"));
            net.add(if shared { sharing(index) } else { config });
            net.run(100);
        }
        net.run(1000);
        assert_eq!(set(&mut net, 0, star(5)), Ok(()));
        let (three, four) = (net.enrol(3), net.enrol(4));
        assert_eq!(open(&mut net, ((3, three), four), 0, 400, 200), Some(Ok(())));
        net.run(10 * HOLD.as_millis() as u64);
        let of = status(&mut net, 3, three, 0);
        assert!(of.reserved && of.promised.is_some(), "{shared}: {of:?}");
        assert_eq!(promised(&mut net, 0), 1, "{shared}");
    }
}

/// Two that were cut off go on with each other as before, until others may count on what was
/// promised to them, and then without.
#[test]
fn what_a_host_had_that_is_lost_and_lives_is_free_only_when_it_has_given_it_up() {
    let mut net = Net::new(4);
    assert_eq!(set(&mut net, 0, star(4)), Ok(()));
    let (one, two) = (net.enrol(1), net.enrol(2));
    assert_eq!(open(&mut net, ((1, one), two), 0, 200, 200), Some(Ok(())));
    let id = net.id(1);
    for (a, b) in [(0, 1), (3, 1), (0, 2), (3, 2)] {
        net.cut(a, b);
    }
    let (mut gave_up, mut free, cut) = (None, None, net.now);
    for _ in 0..200 {
        net.run(1000);
        if gave_up.is_none() && status(&mut net, 1, one, 0).promised.is_none() {
            gave_up = Some(net.now.since(cut));
        }
        if free.is_none() && promised(&mut net, 0) == 0 {
            free = Some(net.now.since(cut));
        }
    }
    let gave_up = gave_up.expect("it hears of nobody who leads");
    assert!(gave_up >= HOLD, "after {gave_up:?}");
    let of = status(&mut net, 1, one, 0);
    assert!(!of.reserved && of.promised.is_none(), "the channel goes on: {of:?}");
    assert!(net.node(0).hosts().any(|h| h.id == id && h.state == HostState::Lost));
    let free = free.expect("it is free in the end");
    assert!(free >= gave_up, "free after {free:?}, given up after {gave_up:?}");
}

#[test]
fn a_host_that_is_killed_frees_what_it_had_as_soon_as_nothing_of_it_is_on_its_way() {
    let mut net = Net::new(3);
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    let (one, two, zero) = (net.enrol(1), net.enrol(2), net.enrol(0));
    assert_eq!(open(&mut net, ((1, one), two), 0, 200, 200), Some(Ok(())));
    net.crash(1);
    net.run(80_000);
    let refused = open(&mut net, ((0, zero), two), 0, 200, 200);
    assert_eq!(refused, Some(Ok(())), "{:?}", net.node(0).promised());
}

#[test]
fn a_network_that_is_set_anew_learns_what_hosts_were_promised_before() {
    let mut net = Net::new(3);
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    let (one, two, zero) = (net.enrol(1), net.enrol(2), net.enrol(0));
    assert_eq!(open(&mut net, ((1, one), two), 0, 150, 200), Some(Ok(())));
    // As a leader that has begun again without its journal.
    net.call(0, |node, _, _| {
        let log = node.log.as_mut().expect("it leads");
        let hosts = towpath_vm::ControlLog::from_snapshot(log.snapshot().clone());
        *log = towpath_vm::control::ControlState::new(hosts);
    });
    assert_eq!(promised(&mut net, 0), 0);
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    net.run(300);
    assert_eq!(promised(&mut net, 0), 1, "it was told");
    let refused = why(open(&mut net, ((0, zero), two), 0, 150, 200));
    assert!(refused.starts_with("port s:2: "), "{refused}");
    assert!(status(&mut net, 1, one, 0).promised.is_some());
}

/// Random lives with promises. Whatever crashes, starts again and leads: what live hosts send by
/// promises fits together, and in the end as much is promised as they send.
struct Reserving {
    lives: Lives,
    tasks: BTreeMap<usize, (HostId, TaskId)>,
    open: u64,
    number: u32,
}

impl Reserving {
    fn new(seed: u64) -> Self {
        let mut lives = Lives::new(seed);
        let hosts = lives.net.seats.len();
        let leader = leaders(&lives.net)[0];
        let _ = set(&mut lives.net, leader, star(hosts));
        lives.run(500);
        Self { lives, tasks: BTreeMap::new(), open: 0, number: 0 }
    }

    /// The task of a host that channels begin and end at, if there is one.
    fn task(&mut self, host: usize) -> Option<TaskId> {
        let me = self.lives.net.node(host).me()?;
        match self.tasks.get(&host) {
            Some((of, task)) if *of == me => Some(*task),
            _ => {
                let task = self.lives.net.enrol_by(host, None).ok()?;
                self.tasks.insert(host, (me, task));
                Some(task)
            }
        }
    }

    fn act(&mut self) {
        let up = self.lives.up();
        if up.len() > 1 && self.lives.rng.below(2) == 0 {
            let mut one = || up[self.lives.rng.below(up.len() as u64) as usize];
            let (from, to) = (one(), one());
            let ends = self.task(from).zip(self.task(to)).filter(|_| from != to);
            if let Some((ours, theirs)) = ends {
                if self.lives.rng.below(3) == 0 && self.number > 2 {
                    let number = 2 * self.lives.rng.below(u64::from(self.number / 2)) as u32;
                    self.lives.net.says(from, ours, ToDaemon::CloseChannel { number });
                } else {
                    self.number += 2;
                    let every = 200 + 100 * self.lives.rng.below(6);
                    let ms = [20, 100, 500][self.lives.rng.below(3) as usize];
                    let ends = ((from, ours), theirs);
                    let opened = open(&mut self.lives.net, ends, self.number, every, ms);
                    self.open += u64::from(opened == Some(Ok(())));
                }
            }
        } else {
            self.lives.act();
        }
        links_agree(&mut self.lives.net);
        self.check();
    }

    /// No port carries more promised data than it has, by what hosts really send.
    fn check(&mut self) {
        let mut to: BTreeMap<String, u64> = BTreeMap::new();
        for host in self.lives.up() {
            let node = self.lives.net.node(host);
            let sends: Vec<_> = node.local.promising.sends().copied().collect();
            for promise in sends {
                let hosts: Vec<_> = node.hosts().map(|h| (h.id, h.name.clone())).collect();
                let name = hosts.into_iter().find(|(id, _)| *id == promise.to);
                // One that is in no table any more has another id by now; its port is the same.
                let Some((_, name)) = name else { continue };
                *to.entry(name).or_default() += promise.terms.rate.as_bps();
            }
            if let Some(promises) = node.promised() {
                assert_eq!(promises.check(), Ok(()));
            }
        }
        for (port, bps) in to {
            assert!(bps <= 100_000_000, "{bps} bit/s are sent to {port} by promises");
        }
    }

    fn end(&mut self, all: bool) {
        self.lives.end(all);
        for _ in 0..20 {
            links_agree(&mut self.lives.net);
            self.lives.run(10_000);
        }
        self.check();
        let [leader] = leaders(&self.lives.net)[..] else { panic!("one leads") };
        let sent: usize = self
            .lives
            .up()
            .into_iter()
            .map(|host| self.lives.net.node(host).local.promising.sends().count())
            .sum();
        assert_eq!(promised(&mut self.lives.net, leader), sent, "no more is promised than is sent");
    }
}

#[test]
fn whatever_crashes_no_more_is_sent_by_promises_than_fits_and_none_is_kept_for_nobody() {
    let opened: u64 = (0..50)
        .map(|seed| {
            let mut reserving = Reserving::new(seed);
            for _ in 0..40 {
                reserving.act();
            }
            reserving.end(seed.is_multiple_of(2));
            reserving.open
        })
        .sum();
    assert!(opened > 100, "{opened} channels were promised");
}

#[test]
fn what_a_host_says_in_the_name_of_another_is_not_heard() {
    use towpath_vm::message::Promised;
    use towpath_vm::promises::{Holds, Release};
    let mut net = Net::founded(config(0, "h0"));
    for index in 1..3 {
        net.add(config(index, &format!("h{index}")));
        net.run(100);
    }
    assert_eq!(set(&mut net, 0, star(3)), Ok(()));
    let (one, two) = (net.enrol(1), net.enrol(2));
    assert_eq!(open(&mut net, ((1, one), two), 0, 200, 200), Some(Ok(())));
    let (first, third) = (net.id(1), net.id(2));
    net.call(0, |node, now, _| {
        node.handle_release(now, third, Release { host: first, number: 1 });
        let numbers = BTreeSet::new();
        node.handle_holds(now, third, Holds { host: first, last: 9, numbers });
    });
    assert_eq!((promised(&mut net, 0), net.node(0).malformed()), (1, 2));
    // Nor what one says that does not lead.
    net.call(1, |node, now, _| {
        let outcome = Err(Fault::NoHost);
        node.handle_promised(now, third, Promised { number: 1, outcome });
    });
    assert!(status(&mut net, 1, one, 0).promised.is_some());
}
