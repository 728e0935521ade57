//! What is promised is kept, once, whoever leads and whatever a state has lost.
#![allow(clippy::format_push_string, reason = "a test's topology, written once")]

use ::core::time::Duration;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use towpath_wire::{ByteSize, HostId, Rate};

use super::*;
use crate::Fields;
use crate::control::{Command, ControlState, Effect, Leave};
use crate::host::{Host, HostState};
use crate::log::ControlLog;
use crate::talk::Fault;

/// So many hosts at 100 Mbit/s around one switch.
pub(crate) fn star(hosts: usize) -> String {
    let mut text = String::from(
        "[[switch]]\nname = \"s\"\nscheduler = \"priority\"\nbudgets_ns = [3_000_000]\n",
    );
    for h in 0..hosts {
        text += &format!("[[host]]\nname = \"h{h}\"\n");
        text += &format!("[[link]]\nends = [\"h{h}\", \"s\"]\nrate_bps = 100_000_000\n");
    }
    text
}

fn host(n: u16) -> HostId {
    HostId::new(n + 1, u32::from(n) + 1).unwrap()
}

fn entry(n: u16) -> Host {
    Host {
        id: host(n),
        name: format!("h{n}"),
        addr: ([127, 0, 0, 1], 7000 + n).into(),
        key: [n as u8; 32],
        arch: "any".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        state: HostState::Up,
        fields: Fields::default(),
    }
}

fn join(n: u16) -> Command {
    let Host { key, name, addr, arch, speed, cpus, slots, fields, .. } = entry(n);
    let token = None;
    Command::Join(crate::control::Join { key, name, addr, arch, speed, cpus, slots, fields, token })
}

/// A machine, and the commands that it has had.
struct Machine {
    state: ControlState,
    at: u64,
    ids: Vec<HostId>,
}

impl Machine {
    fn new(hosts: u16) -> Self {
        let log = ControlLog::found(Host { id: HostId::new(1, 1).unwrap(), ..entry(0) }, 2000);
        let mut machine = Self { state: ControlState::new(log), at: 0, ids: Vec::new() };
        for n in 1..hosts {
            machine.apply(join(n));
        }
        machine.ids = machine.state.table().iter().map(|h| h.id).collect();
        machine
    }

    fn with_network(hosts: u16) -> Self {
        let mut machine = Self::new(hosts);
        assert_eq!(machine.set(star(hosts.into())), Ok(()));
        machine.all_say_nothing();
        machine
    }

    fn apply(&mut self, command: Command) -> Vec<Effect> {
        self.at += 1;
        let effects = self.state.apply(self.at, command.clone());
        assert_eq!(Command::decode(&command.encode()), Ok(command));
        assert_eq!(self.state.promises().check(), Ok(()));
        effects
    }

    fn set(&mut self, text: String) -> Result<(), String> {
        match &self.apply(Command::Network(text))[..] {
            [Effect::Network(outcome)] => outcome.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn all_say_nothing(&mut self) {
        for host in self.ids.clone() {
            self.apply(Command::Holds(Holds { host, last: 0, numbers: BTreeSet::new() }));
        }
    }

    fn promise(&mut self, promise: Promise) -> Result<Granted, Fault> {
        said(&self.apply(Command::Promise(promise)))
    }

    fn want(&self, from: usize, to: usize, number: u64, mbps: u64) -> Promise {
        let terms = Terms {
            rate: Rate::from_mbps(mbps),
            burst: ByteSize::from_bytes(3200),
            packet: ByteSize::from_bytes(1538),
            within: Duration::from_millis(10),
        };
        let (host, to) = (self.ids[from], self.ids[to]);
        Promise { host, number, task: host.task(1).unwrap(), to, terms }
    }
}

fn said(effects: &[Effect]) -> Result<Granted, Fault> {
    match effects {
        [Effect::Promised(_, _, outcome)] => outcome.clone(),
        other => panic!("{other:?}"),
    }
}

fn why(outcome: Result<Granted, Fault>) -> String {
    match outcome {
        Err(Fault::NotReserved(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_fits_is_promised_and_what_does_not_names_the_port() {
    let mut machine = Machine::with_network(3);
    let first = machine.promise(machine.want(0, 2, 1, 40)).expect("an empty network");
    assert!(first.delay <= Duration::from_millis(10) && first.first < first.delay);
    assert_eq!(first.rate, Rate::from_mbps(100), "as the topology has it");
    machine.promise(machine.want(1, 2, 1, 40)).expect("80 of 100");
    let refused = why(machine.promise(machine.want(0, 2, 2, 40)));
    assert_eq!(refused, "port s:2: 40.0 Mbit/s asked with all headers, 20.0 Mbit/s left");
    // A host's own port keeps 15 of 100 back.
    let refused = why(machine.promise(machine.want(0, 1, 3, 46)));
    assert_eq!(refused, "port h0:0: 46.0 Mbit/s asked with all headers, 45.0 Mbit/s left");
    machine.promise(machine.want(0, 1, 4, 35)).expect("75 of 85");
    assert_eq!(machine.state.promises().len(), 3);
    let ports = |of: &Standing| -> Vec<String> { of.hops.iter().map(|h| h.0.clone()).collect() };
    let all: Vec<_> = machine.state.promises().after(None).collect();
    assert_eq!(all.iter().map(ports).collect::<Vec<_>>()[0], ["h0:0", "s:2"]);
    let place = (all[0].promise.host, all[0].promise.number);
    assert_eq!(machine.state.promises().after(Some(place)).count(), 2);
    // Given back, it is there for another.
    let release = Release { host: machine.ids[1], number: 1 };
    assert_eq!(machine.apply(Command::Release(release)), []);
    machine.promise(machine.want(0, 2, 5, 1)).expect("its own port has ten megabits left");
    machine.promise(machine.want(1, 2, 6, 45)).expect("there is room again");
}

#[test]
fn each_is_decided_once_and_one_that_comes_late_is_refused() {
    let mut machine = Machine::with_network(3);
    let want = machine.want(0, 2, 5, 40);
    let first = machine.promise(want);
    assert!(first.is_ok());
    assert_eq!(machine.promise(want), first, "the same number is the same promise");
    assert_eq!(machine.state.promises().len(), 1);
    let late = why(machine.promise(machine.want(0, 2, 4, 1)));
    assert_eq!(late, "it was asked for too late");
    machine.apply(Command::Release(Release { host: want.host, number: 5 }));
    assert_eq!(why(machine.promise(want)), "it was asked for too late", "it was given back");
    assert!(machine.state.promises().is_empty());
}

#[test]
fn without_a_topology_or_in_one_that_nobody_keeps_nothing_is_promised() {
    let mut machine = Machine::new(3);
    let refused = why(machine.promise(machine.want(0, 2, 1, 1)));
    assert!(refused.contains("knows no topology"), "{refused}");
    for (text, said) in [
        (star(3).replace("\"priority\"", "\"edf\"").replace("budgets_ns", "#"), "scheduler edf"),
        (star(3).replace("[3_000_000]", "[1_000_000, 3_000_000]"), "scheduler priority"),
        (star(3).replace("\"h1\"\n", "\"h1\"\nscheduler = \"fcfs\"\n"), "scheduler fcfs"),
        (star(3) + "[[what]]\n", "what"),
        ("#".repeat(TOPOLOGY_MAX + 1), "limit 60000"),
        (star(NODES_MAX), "limit 512"),
    ] {
        let refused = machine.set(text).unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
    assert_eq!(machine.state.promises().topology(), None);
    // Whoever is not in it is promised nothing.
    assert_eq!(machine.set(star(2)), Ok(()));
    machine.all_say_nothing();
    let refused = why(machine.promise(machine.want(0, 2, 2, 1)));
    assert!(refused.starts_with("the topology has no host h2\n"), "{refused}");
    // By name, or else by number: host h2 is the third, and there is one of that number.
    let numbered = star(2).replace("h0", "h3").replace("h1", "h0");
    assert_eq!(machine.set(numbered), Ok(()));
    machine.promise(machine.want(0, 2, 3, 1)).expect("both are there");
    machine.apply(Command::Release(Release { host: machine.ids[0], number: 3 }));
    assert_eq!(machine.set(String::new()), Ok(()), "nothing is promised in it");
}

#[test]
fn absurd_terms_have_an_answer() {
    let mut machine = Machine::with_network(3);
    let want = machine.want(0, 2, 0, 1);
    let of = |terms| Promise { terms, ..want };
    let terms = want.terms;
    let huge = ByteSize::from_bytes(u64::MAX);
    for (n, terms) in [
        Terms { rate: Rate::from_bps(0), ..terms },
        Terms { rate: Rate::from_bps(u64::MAX), ..terms },
        Terms { burst: ByteSize::ZERO, ..terms },
        Terms { burst: huge, ..terms },
        Terms { packet: huge, burst: huge, ..terms },
        Terms { packet: ByteSize::from_bytes(9000), burst: ByteSize::from_bytes(9000), ..terms },
        Terms { within: Duration::ZERO, ..terms },
        Terms { within: Duration::from_secs(5), ..terms },
        Terms { within: Duration::from_nanos(1), ..terms },
    ]
    .into_iter()
    .enumerate()
    {
        let number = n as u64 + 1;
        why(machine.promise(Promise { number, ..of(terms) }));
    }
    let to_itself = Promise { to: want.host, number: 99, ..want };
    assert!(why(machine.promise(to_itself)).contains("oneself"));
    let gone = Promise { to: HostId::new(77, 77).unwrap(), number: 100, ..want };
    assert_eq!(machine.promise(gone), Err(Fault::NoHost));
    assert!(machine.state.promises().is_empty());
}

#[test]
fn a_task_a_host_and_all_together_have_so_many_at_most() {
    let mut machine = Machine::with_network(4);
    let roomy = star(4).replace("[3_000_000]", "[200_000_000]");
    let roomy = roomy.replace("\"s\"\n", "\"s\"\nmemory_bytes = 100_000_000\n");
    assert_eq!(machine.set(roomy), Ok(()));
    let tiny = |machine: &Machine, from, number, task| {
        let want = machine.want(from, 3, number, 1);
        let terms = Terms {
            rate: Rate::from_bps(8000),
            burst: ByteSize::from_bytes(200),
            packet: ByteSize::from_bytes(200),
            within: Duration::from_millis(400),
        };
        Promise { terms, task: want.host.task(task).unwrap(), ..want }
    };
    let mut number = 0;
    let mut fill = |machine: &mut Machine, from, task| loop {
        number += 1;
        match machine.state.apply_for_test(tiny(machine, from, number, task)) {
            Ok(_) => {}
            Err(fault) => return fault,
        }
    };
    let limit = |what: &str, limit: usize| Fault::Limit { what: what.into(), limit: limit as u64 };
    for task in 1..=4 {
        let full = fill(&mut machine, 0, task);
        assert_eq!(full, limit("promises of one task", PROMISES_OF_TASK_MAX));
    }
    assert_eq!(machine.state.promises().len(), PROMISES_OF_HOST_MAX);
    assert_eq!(fill(&mut machine, 0, 5), limit("promises of one host", PROMISES_OF_HOST_MAX));
    assert_eq!(machine.state.promises().check(), Ok(()));
    // All of them are within what a state may have.
    let bytes = machine.state.encode().len();
    assert!(bytes < 200 * PROMISES_OF_HOST_MAX, "{bytes} bytes for {PROMISES_OF_HOST_MAX}");
}

#[test]
fn another_topology_is_taken_where_all_that_stands_can_be_kept_there() {
    let mut machine = Machine::with_network(3);
    machine.promise(machine.want(0, 2, 1, 40)).expect("it fits");
    assert_eq!(machine.set(star(3)), Ok(()), "the same");
    assert_eq!(machine.set(star(4)), Ok(()), "with another host");
    let refused = machine.set(star(3).replace("100_000_000", "30_000_000")).unwrap_err();
    assert!(refused.contains("promise 1 of h1.1, which stands, is not to be had"), "{refused}");
    let refused = machine.set(star(2)).unwrap_err();
    assert!(refused.contains("has no host h2"), "{refused}");
    let refused = machine.set(String::new()).unwrap_err();
    assert!(refused.contains("1 promises stand"), "{refused}");
    assert_eq!(machine.state.promises().len(), 1);
}

#[test]
fn a_state_that_may_be_behind_promises_nothing_before_all_have_said_what_they_have() {
    let mut machine = Machine::with_network(3);
    let want = machine.want(0, 2, 7, 60);
    let granted = machine.promise(want).expect("it fits");
    // It begins again, and has lost that.
    let log = ControlLog::from_snapshot(machine.state.snapshot().clone());
    let mut behind = Machine { state: ControlState::new(log), at: 0, ids: machine.ids.clone() };
    assert_eq!(behind.set(star(3)), Ok(()));
    let refused = why(behind.promise(behind.want(1, 2, 1, 60)));
    assert!(refused.contains("is not known yet"), "{refused}");
    let nothing = |host, last| Holds { host, last, numbers: BTreeSet::new() };
    behind.apply(Command::Holds(nothing(behind.ids[1], 1)));
    behind.apply(Command::Holds(nothing(behind.ids[2], 0)));
    let holds = Holds { host: want.host, last: 9, numbers: [7].into() };
    let unknown = behind.apply(Command::Holds(holds.clone()));
    assert_eq!(unknown, [Effect::Promised(want.host, 7, Err(Fault::NotFound))]);
    assert!(why(behind.promise(behind.want(1, 2, 2, 60))).contains("is not known yet"));
    let again = Again { promise: want, hops: granted.hops.clone() };
    assert_eq!(said(&behind.apply(Command::Again(again.clone()))), Ok(granted));
    assert_eq!(behind.apply(Command::Holds(holds)), []);
    let refused = why(behind.promise(behind.want(1, 2, 3, 60)));
    assert!(refused.starts_with("port s:2: 60.0 Mbit/s asked"), "{refused}");
    // Where another has it by then, who comes late goes without.
    let mut machine = Machine::with_network(3);
    machine.promise(machine.want(1, 2, 1, 60)).expect("it fits");
    let refused = why(said(&machine.apply(Command::Again(again))));
    assert_eq!(refused, "what it was promised is not to be had any more");
    assert_eq!(machine.state.promises().len(), 1);
}

#[test]
fn what_a_host_had_that_is_gone_counts_until_that_is_over() {
    let mut machine = Machine::with_network(3);
    machine.promise(machine.want(0, 2, 1, 40)).expect("it fits");
    machine.promise(machine.want(1, 2, 1, 40)).expect("it fits");
    let gone = machine.ids[1];
    machine.apply(Command::Lost(gone));
    let orphans = |machine: &Machine| machine.state.promises().orphans(machine.state.table());
    assert_eq!(orphans(&machine), [(gone, Duration::from_millis(10))].into());
    assert!(why(machine.promise(machine.want(0, 2, 2, 40))).contains("20.0 Mbit/s left"));
    // Only of hosts that are gone.
    machine.apply(Command::FreeOrphans(vec![machine.ids[0]]));
    assert_eq!(machine.state.promises().len(), 2);
    machine.apply(Command::FreeOrphans(vec![gone]));
    assert_eq!((machine.state.promises().len(), orphans(&machine)), (1, BTreeMap::new()));
    machine.promise(machine.want(0, 2, 3, 40)).expect("there is room again");
    // To whom it leads has nothing to do with it: the sender gives it back.
    machine.apply(Command::Leave(Leave { host: machine.ids[2], deleted: false }));
    assert_eq!(machine.state.promises().len(), 2);
}

fn step(machine: &Machine, (op, from, to, number): (u8, usize, usize, u64)) -> Command {
    let host = machine.ids[from];
    match op {
        0..=4 => Command::Promise(machine.want(from, to, number, 5 + number * 3)),
        5 | 6 => Command::Release(Release { host, number }),
        7 => {
            let numbers = (0..number).filter(|n| n % 3 == 0).collect();
            Command::Holds(Holds { host, last: number, numbers })
        }
        8 => Command::Lost(host),
        9 => Command::FreeOrphans(machine.ids.clone()),
        10 => Command::Network(star(3 + to)),
        _ => Command::Lead(host),
    }
}

proptest! {
    /// Whatever comes, in whatever order, also twice: no port has more promised than it can keep,
    /// and a state that was written and read is the same and decides the same.
    #[test]
    fn nothing_is_promised_twice_and_a_state_that_is_read_decides_alike(
        ops in proptest::collection::vec((0..12u8, 0..4usize, 0..4usize, 1..20u64), 0..60),
        from in 0..60usize,
    ) {
        let mut machine = Machine::with_network(4);
        let mut other = None;
        for (i, op) in ops.into_iter().enumerate() {
            if i == from {
                let read = ControlState::decode(&machine.state.encode()).unwrap();
                prop_assert_eq!(&read, &machine.state);
                other = Some(read);
            }
            let command = step(&machine, op);
            let effects = machine.apply(command.clone());
            if let Some(other) = &mut other {
                prop_assert_eq!(other.apply(machine.at, command), effects);
                prop_assert_eq!(&*other, &machine.state);
            }
        }
    }
}

impl ControlState {
    /// Without the checks of [`Machine::apply`], which take longer the more there are.
    fn apply_for_test(&mut self, promise: Promise) -> Result<Granted, Fault> {
        let table = self.table().clone();
        self.promises_mut().promise(&table, &promise)
    }
}
