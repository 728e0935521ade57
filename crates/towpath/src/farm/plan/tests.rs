use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use towpath_vm::{Ending, TaskExit};
use towpath_wire::{HostId, Instant};

use super::*;

fn host(slot: u16) -> HostId {
    HostId::new(slot, 1).unwrap()
}

fn ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn options() -> PlanOptions {
    PlanOptions { jobs: None, retries: 3, retry_failed: 0, program_varies: false, no_queue: false }
}

fn exit(ending: Ending) -> TaskExit {
    TaskExit { ending, wall_us: 1000 }
}

fn absent() -> TaskExit {
    let text = "No such file or directory".to_string();
    TaskExit::without_run(Ending::NotStarted { errno: 2, text })
}

fn no_room() -> TaskExit {
    let text = "Too many open files".to_string();
    TaskExit::without_run(Ending::NotStarted { errno: 24, text })
}

fn refused() -> TaskExit {
    TaskExit::without_run(Ending::Refused("queue full".into()))
}

fn launches(plan: &mut Plan, now: Instant) -> Vec<Launch> {
    std::iter::from_fn(|| plan.poll_launch(now)).collect()
}

fn finished(plan: &mut Plan) -> Vec<(u32, Ending)> {
    let mut out = vec![];
    while let Some(event) = plan.poll_event() {
        if let PlanEvent::Finished { item, exit, .. } = event {
            out.push((item, exit.ending));
        }
    }
    out
}

/// Ends attempts with `end(host)` until nothing is under way, and gives all results.
fn play(plan: &mut Plan, end: impl Fn(HostId) -> TaskExit) -> Vec<(u32, Ending)> {
    let mut now = ms(0);
    let mut out = vec![];
    loop {
        let batch = launches(plan, now);
        let Some(last) = batch.len().checked_sub(1) else {
            let Some(at) = plan.poll_timeout(now) else { break };
            now = at;
            continue;
        };
        assert!(last < 100_000);
        for l in batch {
            plan.ended(now, l.tag, end(l.host));
        }
        out.extend(finished(plan));
    }
    out
}

#[test]
fn few_items_are_spread_over_all_slots_before_any_waits() {
    let mut plan = Plan::new(options(), 6);
    (1..=3).for_each(|h| plan.add_host(host(h), 2));
    let mut per_host: BTreeMap<HostId, u32> = BTreeMap::new();
    for l in launches(&mut plan, ms(0)) {
        *per_host.entry(l.host).or_default() += 1;
        assert!(l.queued);
    }
    assert_eq!(per_host.into_values().collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn explicit_jobs_run_at_once_and_exactly_so_many() {
    let mut plan = Plan::new(PlanOptions { jobs: Some(5), ..options() }, 100);
    (1..=2).for_each(|h| plan.add_host(host(h), 2));
    let batch = launches(&mut plan, ms(0));
    assert_eq!(batch.len(), 10);
    assert!(batch.iter().all(|l| !l.queued));
}

#[test]
fn items_of_a_lost_host_run_elsewhere_first_and_in_order() {
    let mut plan = Plan::new(options(), 100);
    plan.add_host(host(1), 2);
    assert_eq!(launches(&mut plan, ms(0)).len(), 3);
    plan.add_host(host(2), 2);
    plan.lose_host(ms(1), host(1));
    let items: Vec<u32> = launches(&mut plan, ms(1)).iter().map(|l| l.item).collect();
    assert_eq!(items, [0, 1, 2]);
}

#[test]
fn a_silent_host_keeps_its_items_and_gets_no_more_until_it_is_heard() {
    let mut plan = Plan::new(options(), 100);
    (1..=2).for_each(|h| plan.add_host(host(h), 2));
    let first = launches(&mut plan, ms(0));
    plan.host_is_silent(host(1));
    for l in &first {
        plan.ended(ms(1), l.tag, exit(Ending::Exited(0)));
    }
    assert_eq!(finished(&mut plan).len(), first.len(), "what it ran counts");
    let more = launches(&mut plan, ms(1));
    assert!(!more.is_empty() && more.iter().all(|l| l.host == host(2)));
    plan.lose_host(ms(2), host(2));
    assert!(launches(&mut plan, ms(2)).is_empty());
    assert!(!plan.is_stranded() && plan.poll_timeout(ms(2)).is_none_or(|at| at > ms(2)));
    plan.host_is_heard(host(1));
    assert!(launches(&mut plan, ms(2)).iter().all(|l| l.host == host(1)));
    // One that led was lost with that, and is there all the same.
    plan.host_is_heard(host(2));
    plan.host_is_heard(host(3));
    let back = launches(&mut plan, ms(2));
    assert!(!back.is_empty() && back.iter().all(|l| l.host == host(2)));
}

#[test]
fn a_late_end_of_a_lost_attempt_counts_for_nothing() {
    let mut plan = Plan::new(options(), 1);
    plan.add_host(host(1), 1);
    let first = launches(&mut plan, ms(0))[0];
    plan.lose_host(ms(1), host(1));
    plan.ended(ms(2), first.tag, exit(Ending::Exited(0)));
    assert_eq!(finished(&mut plan), []);
    assert!(plan.is_stranded());
    plan.add_host(host(2), 1);
    let second = launches(&mut plan, ms(2))[0];
    plan.ended(ms(3), second.tag, exit(Ending::Exited(0)));
    assert_eq!(finished(&mut plan), [(0, Ending::Exited(0))]);
    assert!(plan.is_finished());
}

#[test]
fn after_its_retries_an_item_counts_as_lost_with_its_host() {
    let mut plan = Plan::new(options(), 1);
    plan.add_host(host(1), 1);
    let runs = std::cell::Cell::new(0);
    let end = |_| {
        runs.set(runs.get() + 1);
        TaskExit::without_run(Ending::HostLost)
    };
    assert_eq!(play(&mut plan, end), [(0, Ending::HostLost)]);
    assert_eq!(runs.get(), 4, "once and three retries");
}

#[test]
fn a_refusing_host_is_asked_again_after_growing_pauses() {
    let mut plan = Plan::new(options(), 1);
    plan.add_host(host(1), 1);
    let mut now = ms(0);
    for pause_ms in [100, 200, 400] {
        let l = launches(&mut plan, now)[0];
        plan.ended(now, l.tag, refused());
        assert!(launches(&mut plan, now + Duration::from_millis(pause_ms - 1)).is_empty());
        assert_eq!(plan.poll_timeout(now), Some(now + Duration::from_millis(pause_ms)));
        now += Duration::from_millis(pause_ms);
    }
    let l = launches(&mut plan, now)[0];
    plan.ended(now, l.tag, refused());
    assert!(matches!(finished(&mut plan)[..], [(0, Ending::Refused(_))]));
}

#[test]
fn a_host_whose_loss_is_not_known_yet_costs_no_item() {
    let mut plan = Plan::new(PlanOptions { retries: 1, ..options() }, 500);
    (1..=3).for_each(|h| plan.add_host(host(h), 2));
    let lost = TaskExit::without_run(Ending::HostLost);
    let end = |h| if h == host(2) { lost.clone() } else { exit(Ending::Exited(0)) };
    let results = play(&mut plan, end);
    assert_eq!(results.len(), 500);
    assert!(results.iter().all(|(_, e)| e.is_success()));
}

#[test]
fn failed_items_run_again_only_when_asked_to() {
    for (retry_failed, runs_expected) in [(0, 1), (2, 3)] {
        let mut plan = Plan::new(PlanOptions { retry_failed, ..options() }, 1);
        plan.add_host(host(1), 1);
        let runs = std::cell::Cell::new(0);
        let end = |_| {
            runs.set(runs.get() + 1);
            exit(Ending::TimedOut)
        };
        assert_eq!(play(&mut plan, end), [(0, Ending::TimedOut)]);
        assert_eq!(runs.get(), runs_expected);
    }
}

#[test]
fn a_program_absent_on_one_host_costs_no_item() {
    let mut plan = Plan::new(options(), 50);
    (1..=3).for_each(|h| plan.add_host(host(h), 2));
    let end = |h| if h == host(2) { absent() } else { exit(Ending::Exited(0)) };
    let results = play(&mut plan, end);
    assert_eq!(results.len(), 50);
    assert!(results.iter().all(|(_, e)| e.is_success()));
    let standing: Vec<HostStanding> = plan.hosts().map(|(_, s, ..)| s).collect();
    assert_eq!(standing, [HostStanding::Up, HostStanding::Excluded, HostStanding::Up]);
}

#[test]
fn a_host_without_descriptors_is_asked_again_and_costs_no_item() {
    let mut plan = Plan::new(options(), 40);
    plan.add_host(host(1), 4);
    let mut now = ms(0);
    let mut refusals = 0;
    // It has none for five seconds.
    let results: usize = std::iter::from_fn(|| {
        let batch = launches(&mut plan, now);
        for launch in &batch {
            if now < ms(5000) {
                refusals += 1;
                plan.ended(now, launch.tag, no_room());
            } else {
                plan.ended(now, launch.tag, exit(Ending::Exited(0)));
            }
        }
        if batch.is_empty() {
            now = plan.poll_timeout(now)?;
        }
        let done = finished(&mut plan);
        assert!(done.iter().all(|(_, ending)| ending.is_success()), "{done:?}");
        Some(done.len())
    })
    .sum();
    assert_eq!(results, 40);
    assert!(now < ms(12_000) && refusals < 20, "{now:?}, {refusals}");
    assert_eq!(plan.hosts().next().unwrap().1, HostStanding::Up);
}

#[test]
fn a_host_that_never_has_descriptors_again_fails_an_item_in_the_end() {
    let mut plan = Plan::new(options(), 1);
    plan.add_host(host(1), 1);
    let results = play(&mut plan, |_| no_room());
    assert!(matches!(results[..], [(0, Ending::NotStarted { errno: 24, .. })]), "{results:?}");
}

#[test]
fn a_farm_whose_hosts_have_no_room_for_long_is_stranded() {
    let mut plan = Plan::new(options(), 1000);
    (1..=2).for_each(|h| plan.add_host(host(h), 2));
    let mut now = ms(0);
    while !plan.is_stranded() {
        let batch = launches(&mut plan, now);
        for launch in &batch {
            plan.ended(now, launch.tag, no_room());
        }
        if batch.is_empty() {
            now = plan.poll_timeout(now).expect("something is due");
        }
        assert!(now < ms(60_000), "it waits for each item");
    }
    assert!(now > ms(25_000), "{now:?}");
    let standing: Vec<HostStanding> = plan.hosts().map(|(_, s, ..)| s).collect();
    assert_eq!(standing, [HostStanding::Excluded; 2]);
    assert!(plan.waiting() > 990, "{}", plan.waiting());
}

#[test]
fn what_a_host_has_no_room_for_runs_elsewhere_at_once() {
    for end_of_first in [no_room, refused] {
        for items in [1, 2, 40] {
            let mut plan = Plan::new(options(), items);
            (1..=2).for_each(|h| plan.add_host(host(h), 2));
            let mut now = ms(0);
            let mut done = vec![];
            while !plan.is_finished() {
                let batch = launches(&mut plan, now);
                for launch in &batch {
                    let first = launch.host == host(1);
                    let end = if first { end_of_first() } else { exit(Ending::Exited(0)) };
                    plan.ended(now, launch.tag, end);
                }
                if batch.is_empty() {
                    now = plan.poll_timeout(now).expect("something is due");
                }
                done.extend(finished(&mut plan));
            }
            assert_eq!(done.len(), items as usize);
            assert!(done.iter().all(|(_, ending)| ending.is_success()), "{done:?}");
            assert_eq!(now, ms(0), "nobody waits for the first host");
        }
    }
}

#[test]
fn a_held_plan_waits_for_what_runs_and_takes_back_what_does_not() {
    let mut plan = Plan::new(PlanOptions { retry_failed: 2, ..options() }, 10);
    plan.add_host(host(1), 2);
    let batch = launches(&mut plan, ms(0));
    assert_eq!(batch.len(), 3, "two slots and one behind them");
    plan.started(batch[0].tag);
    plan.started(batch[1].tag);
    assert_eq!(plan.hold(), [batch[2].tag]);
    plan.ended(ms(1), batch[0].tag, exit(Ending::Exited(3)));
    plan.ended(ms(1), batch[2].tag, exit(Ending::Signalled(15)));
    assert!(!plan.is_finished() && launches(&mut plan, ms(9)).is_empty());
    plan.ended(ms(2), batch[1].tag, exit(Ending::Exited(0)));
    assert_eq!(finished(&mut plan), [(0, Ending::Exited(3)), (1, Ending::Exited(0))]);
    assert!(plan.is_finished() && !plan.is_stranded());
    assert_eq!((plan.poll_timeout(ms(9)), plan.waiting()), (None, 8));
}

#[test]
fn without_a_queue_no_host_gets_more_than_it_runs() {
    let mut plan = Plan::new(PlanOptions { no_queue: true, ..options() }, 100);
    plan.add_host(host(1), 4);
    assert_eq!(launches(&mut plan, ms(0)).len(), 4);
}

#[test]
fn a_program_absent_everywhere_strands_the_farm_soon() {
    let mut plan = Plan::new(options(), 1000);
    (1..=3).for_each(|h| plan.add_host(host(h), 2));
    let results = play(&mut plan, |_| absent());
    assert!(plan.is_stranded());
    assert!(results.len() < 30, "{}", results.len());
    assert!(plan.waiting() > 900);
}

#[test]
fn an_item_that_no_host_can_start_fails_alone() {
    let too_long = || TaskExit::without_run(Ending::NotStarted { errno: 7, text: "long".into() });
    let mut plan = Plan::new(options(), 100);
    (1..=2).for_each(|h| plan.add_host(host(h), 1));
    let results = play(&mut plan, |_| too_long());
    assert_eq!(results.len(), 100);
    assert!(!plan.is_stranded());
}

#[test]
fn an_item_whose_last_untried_host_goes_away_gets_its_result() {
    let mut plan = Plan::new(PlanOptions { program_varies: true, ..options() }, 1);
    plan.add_host(host(1), 1);
    plan.add_host(host(2), 1);
    let l = launches(&mut plan, ms(0))[0];
    plan.ended(ms(0), l.tag, absent());
    assert_eq!(finished(&mut plan), []);
    let other = if l.host == host(1) { host(2) } else { host(1) };
    plan.lose_host(ms(0), other);
    assert!(matches!(finished(&mut plan)[..], [(0, Ending::NotStarted { .. })]));
}

#[test]
fn skipped_items_are_never_launched() {
    let mut plan = Plan::new(options(), 5);
    for skipped in [0, 1, 4] {
        plan.skip(skipped);
    }
    plan.add_host(host(1), 8);
    let items: Vec<u32> =
        play(&mut plan, |_| exit(Ending::Exited(0))).iter().map(|r| r.0).collect();
    assert_eq!(items, [2, 3]);
    assert!(plan.is_finished());
}

#[test]
fn a_stopped_plan_launches_nothing_and_keeps_late_successes() {
    let mut plan = Plan::new(options(), 10);
    plan.add_host(host(1), 2);
    let batch = launches(&mut plan, ms(0));
    plan.stop();
    plan.ended(ms(1), batch[0].tag, exit(Ending::Exited(0)));
    plan.ended(ms(1), batch[1].tag, exit(Ending::Signalled(15)));
    plan.ended(ms(1), batch[2].tag, exit(Ending::Signalled(15)));
    assert_eq!(finished(&mut plan), [(0, Ending::Exited(0))]);
    assert!(plan.is_finished() && launches(&mut plan, ms(9)).is_empty());
    assert_eq!(plan.waiting(), 9);
}

/// Hosts with job slots and queues of their own, one time per item, in simulated time.
struct World {
    plan: Plan,
    /// By slot number: free job slots, queued tags, time of an item in µs.
    hosts: BTreeMap<u16, (u32, VecDeque<u64>, u64)>,
    ends: BinaryHeap<std::cmp::Reverse<(u64, u64, u16)>>,
    now_us: u64,
}

impl World {
    fn new(hosts: &[(u16, u64)], items: u32) -> Self {
        let mut plan = Plan::new(options(), items);
        let mut table = BTreeMap::new();
        for (slot, (slots, item_us)) in (1..).zip(hosts) {
            plan.add_host(host(slot), *slots);
            table.insert(slot, (u32::from(*slots), VecDeque::new(), *item_us));
        }
        Self { plan, hosts: table, ends: BinaryHeap::new(), now_us: 0 }
    }

    fn start(&mut self, slot: u16) {
        let (free, queue, item_us) = self.hosts.get_mut(&slot).unwrap();
        while *free > 0
            && let Some(tag) = queue.pop_front()
        {
            *free -= 1;
            self.ends.push(std::cmp::Reverse((self.now_us + *item_us, tag, slot)));
        }
    }

    /// Runs to the end; `watch` looks at every state in which all launches were made.
    fn run(&mut self, watch: impl Fn(&Self)) -> u64 {
        loop {
            let now = Instant::from_nanos(self.now_us * 1000);
            while let Some(l) = self.plan.poll_launch(now) {
                self.hosts.get_mut(&l.host.slot()).unwrap().1.push_back(l.tag);
                self.start(l.host.slot());
            }
            watch(self);
            let Some(std::cmp::Reverse((at_us, tag, slot))) = self.ends.pop() else { break };
            self.now_us = at_us;
            let wall_us = self.hosts[&slot].2;
            self.hosts.get_mut(&slot).unwrap().0 += 1;
            self.start(slot);
            let exit = TaskExit { ending: Ending::Exited(0), wall_us };
            self.plan.ended(Instant::from_nanos(at_us * 1000), tag, exit);
        }
        assert!(self.plan.is_finished());
        self.now_us
    }
}

proptest! {
    /// The makespan stays within one item and one queue of the slowest host of the ideal one.
    #[test]
    fn no_host_is_idle_for_long_while_another_has_a_queue(
        hosts in proptest::collection::vec((1u16..5, 500u64..2_000_000), 1..6),
        items in 1u32..600,
    ) {
        let rate: f64 = hosts.iter().map(|(s, us)| f64::from(*s) / *us as f64).sum();
        let slowest_us = hosts.iter().map(|(_, us)| *us).max().unwrap();
        let makespan_us = World::new(&hosts, items).run(|_| ()) as f64;
        // One item under way, and one behind it from before anything was measured.
        let bound = f64::from(items) / rate + 2.0 * slowest_us as f64 + 250_000.0;
        prop_assert!(makespan_us <= bound, "{makespan_us} > {bound}");
    }
}

/// Hosts that are alike end together: nearly always exactly, and where a queue was handed out just
/// before the tail, within the 250 ms of work that a queue holds.
#[test]
fn equal_hosts_end_together() {
    let (mut runs, mut uneven) = (0, 0);
    for (count, slots) in (1u16..6).flat_map(|c| (1u16..5).map(move |s| (c, s))) {
        for item_us in [500, 1_000, 5_000, 30_000, 60_000, 99_999] {
            for items in (1u32..200).step_by(3) {
                let makespan_us =
                    World::new(&vec![(slots, item_us); count.into()], items).run(|_| ());
                let at_once = u32::from(slots) * u32::from(count);
                let ideal_us = u64::from(items.div_ceil(at_once)) * item_us;
                let late_us = makespan_us - ideal_us;
                assert!(late_us <= 250_000, "{count}x{slots}, {items} of {item_us}: {late_us}");
                runs += 1;
                uneven += u32::from(late_us > 0);
            }
        }
    }
    assert!(uneven * 100 <= runs, "{uneven} of {runs} runs end unevenly");
}

#[derive(Clone, Debug)]
enum Op {
    LaunchAll,
    LaunchOne,
    Started(usize),
    End(usize, Ending),
    AddHost(u16),
    LoseHost(u16),
    LoseDaemon,
    Wait(u64),
    Stale(u64),
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        4 => Just(Ending::Exited(0)),
        1 => Just(Ending::Exited(3)),
        1 => Just(Ending::Signalled(9)),
        1 => Just(Ending::TimedOut),
        2 => Just(Ending::NotStarted { errno: 2, text: "absent".into() }),
        1 => Just(no_room().ending),
        1 => Just(Ending::HostLost),
        1 => Just(Ending::Refused("full".into())),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::LaunchAll),
        2 => Just(Op::LaunchOne),
        2 => any::<usize>().prop_map(Op::Started),
        12 => (any::<usize>(), ending()).prop_map(|(n, e)| Op::End(n, e)),
        2 => (1u16..6).prop_map(Op::AddHost),
        2 => (1u16..6).prop_map(Op::LoseHost),
        1 => Just(Op::LoseDaemon),
        3 => (0u64..500).prop_map(Op::Wait),
        1 => (0u64..100).prop_map(Op::Stale),
    ]
}

/// What the plan may do, known independently of it.
struct Model {
    options: PlanOptions,
    flights: Vec<Launch>,
    up: BTreeMap<HostId, u16>,
    attempts: HashMap<u32, u32>,
    results: HashMap<u32, Ending>,
    now: Instant,
}

impl Model {
    fn launched(&mut self, l: Launch) {
        let slots = self.up.get(&l.host).copied().map(u32::from);
        let slots = slots.expect("launched only where a host takes part");
        assert!(!self.results.contains_key(&l.item), "no attempt after the result");
        assert!(self.flights.iter().all(|f| f.item != l.item), "one attempt at a time");
        self.flights.push(l);
        let there = self.flights.iter().filter(|f| f.host == l.host).count() as u32;
        let limit = match self.options.jobs {
            Some(jobs) => jobs.into(),
            None => slots + (2 * slots).max(8),
        };
        assert!(there <= limit, "{there} on {:?}, limit {limit}", l.host);
        let attempts = self.attempts.entry(l.item).or_default();
        *attempts += 1;
        assert!(*attempts <= 1 + self.options.retries + self.options.retry_failed + 8 + 10);
    }

    fn drain(&mut self, plan: &mut Plan) {
        while let Some(event) = plan.poll_event() {
            match event {
                PlanEvent::Finished { item, exit, .. } => {
                    assert!(self.results.insert(item, exit.ending).is_none(), "one result");
                }
                PlanEvent::Dropped { .. } | PlanEvent::NoRoom { .. } => {}
                PlanEvent::Excluded { host, .. } => assert!(self.up.remove(&host).is_some()),
            }
        }
    }

    fn apply(&mut self, plan: &mut Plan, op: Op) {
        match op {
            Op::LaunchAll => {
                while let Some(l) = plan.poll_launch(self.now) {
                    self.launched(l);
                }
            }
            Op::LaunchOne => {
                if let Some(l) = plan.poll_launch(self.now) {
                    self.launched(l);
                }
            }
            Op::Started(n) if !self.flights.is_empty() => {
                plan.started(self.flights[n % self.flights.len()].tag);
            }
            Op::End(n, e) if !self.flights.is_empty() => {
                let l = self.flights.swap_remove(n % self.flights.len());
                plan.ended(self.now, l.tag, exit(e));
            }
            Op::AddHost(slot) => {
                plan.add_host(host(slot), slot);
                let (_, standing, ..) = plan.hosts().find(|h| h.0 == host(slot)).unwrap();
                if standing == HostStanding::Up {
                    self.up.insert(host(slot), slot);
                }
            }
            Op::LoseHost(slot) => {
                plan.lose_host(self.now, host(slot));
                self.up.remove(&host(slot));
                self.flights.retain(|f| f.host != host(slot));
            }
            Op::LoseDaemon => {
                plan.lose_daemon(self.now);
                self.up.clear();
                self.flights.clear();
            }
            Op::Wait(ms) => self.now += Duration::from_millis(ms),
            Op::Stale(tag) if self.flights.iter().all(|f| f.tag != tag) => {
                plan.ended(self.now, tag, exit(Ending::Exited(0)));
            }
            Op::Started(_) | Op::End(..) | Op::Stale(_) => {}
        }
        self.drain(plan);
        let in_flight: u32 = plan.hosts().map(|h| h.2).sum();
        assert_eq!(
            (in_flight as usize, plan.in_flight()),
            (self.flights.len(), self.flights.len())
        );
        assert_eq!(plan.done() as usize, self.results.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn whatever_happens_each_item_gets_exactly_one_result(
        items in 0u32..60,
        jobs in proptest::option::of(1u16..6),
        retries in 0u32..4,
        retry_failed in 0u32..3,
        program_varies: bool,
        no_queue: bool,
        ops in proptest::collection::vec(op(), 0..200),
    ) {
        let options = PlanOptions { jobs, retries, retry_failed, program_varies, no_queue };
        let mut plan = Plan::new(options, items);
        let mut model = Model {
            options,
            flights: vec![],
            up: BTreeMap::new(),
            attempts: HashMap::new(),
            results: HashMap::new(),
            now: Instant::ZERO,
        };
        for op in ops {
            model.apply(&mut plan, op);
        }
        // A host that takes everything joins, and all goes well from here.
        plan.add_host(host(9), 4);
        model.up.insert(host(9), 4);
        while !plan.is_finished() {
            model.apply(&mut plan, Op::LaunchAll);
            if model.flights.is_empty() && !plan.is_finished() {
                prop_assert!(plan.poll_timeout(model.now).is_some(), "no progress");
                model.apply(&mut plan, Op::Wait(10_000));
            }
            model.apply(&mut plan, Op::End(0, Ending::Exited(0)));
        }
        prop_assert_eq!(model.results.len() as u32, items);
    }
}

#[test]
fn a_drained_host_ends_what_it_has_and_gets_no_more() {
    let mut plan = Plan::new(options(), 100);
    (1..=2).for_each(|h| plan.add_host(host(h), 2));
    let first = launches(&mut plan, ms(0));
    let all = plan.capacity();
    plan.host_drains(host(1), true);
    assert_eq!(plan.capacity(), all / 2);
    assert!(!plan.is_drained());
    plan.host_drains(host(2), true);
    assert!(plan.is_drained());
    plan.host_drains(host(2), false);
    for l in &first {
        plan.ended(ms(1), l.tag, exit(Ending::Exited(0)));
    }
    assert_eq!(finished(&mut plan).len(), first.len());
    assert!(launches(&mut plan, ms(1)).iter().all(|l| l.host == host(2)));
    plan.host_drains(host(1), false);
    assert!(launches(&mut plan, ms(1)).iter().all(|l| l.host == host(1)));
}

#[test]
fn a_host_that_is_silent_before_it_is_known_gets_nothing_until_it_is_heard() {
    let mut plan = Plan::new(options(), 10);
    plan.host_is_silent(host(1));
    plan.add_host(host(1), 2);
    assert!(launches(&mut plan, ms(0)).is_empty());
    plan.host_is_heard(host(1));
    assert!(!launches(&mut plan, ms(0)).is_empty());
    plan.host_is_silent(host(1));
    plan.lose_daemon(ms(1));
    plan.add_host(host(1), 2);
    assert!(!launches(&mut plan, ms(1)).is_empty(), "another daemon says for itself who is");
}
