//! Whoever counts ticks late, but before the one that is due, sees what whoever counts each sees.

use std::format;

use proptest::prelude::*;

use super::*;

/// Settings in which some ticks lie between beats.
fn apart() -> Config {
    Config { beat_ticks: 3, election_ticks: 10, disk_ticks: 5, ..Config::default() }
}

/// What happens to three replicas.
#[derive(Clone, Debug)]
enum Step {
    /// So many ticks of one of them.
    Ticks(u64, u32),
    /// Of what is under way, this one arrives, or is lost.
    Arrives(usize),
    Lost(usize),
    Propose(u64),
    HandOver(u64, u64),
    /// Its disk takes nothing, or what it was given, from now on.
    Stalls(u64),
    Takes(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 1..4u64;
    let step = prop_oneof![
        12 => (id(), 1..6u32).prop_map(|(id, ticks)| Step::Ticks(id, ticks)),
        24 => (0..64usize).prop_map(Step::Arrives),
        2 => (0..64usize).prop_map(Step::Lost),
        2 => id().prop_map(Step::Propose),
        1 => (id(), id()).prop_map(|(id, to)| Step::HandOver(id, to)),
        1 => id().prop_map(Step::Stalls),
        2 => id().prop_map(Step::Takes),
    ];
    proptest::collection::vec(step, 0..400)
}

/// A net whose replicas' owners count each tick, or sleep until one is due.
struct Watched {
    net: Net,
    sleeps: bool,
    /// By replica: ticks that have gone by and are not counted, and how many it sleeps for.
    slept: BTreeMap<u64, (u32, u32)>,
    woken: u64,
}

impl Watched {
    /// The first one leads.
    fn new(sleeps: bool) -> Self {
        let mut net = Net::of(3);
        net.replicas.values_mut().for_each(|replica| replica.config = apart());
        net.elect(1);
        let mut watched = Self { net, sleeps, slept: BTreeMap::new(), woken: 0 };
        (1..=3).for_each(|id| watched.turn(id));
        watched
    }

    /// Counts the ticks that have gone by.
    fn count(&mut self, id: u64) -> &mut Replica {
        let slept = self.slept.get_mut(&id).expect("it is there");
        for _ in 0..core::mem::take(&mut slept.0) {
            // The draw is the same, whenever it is made.
            self.net.at(id).tick(id);
        }
        self.net.at(id)
    }

    /// What follows is taken, and it sleeps again.
    fn turn(&mut self, id: u64) {
        self.net.take(id);
        let ahead = self.net.at(id).ticks_ahead();
        self.slept.insert(id, (0, ahead));
    }

    fn tick(&mut self, id: u64) {
        let slept = self.slept.get_mut(&id).expect("it is there");
        slept.0 += 1;
        let is_due = slept.0 == slept.1;
        if is_due || !self.sleeps {
            self.woken += 1;
            let before = self.net.at(id).role();
            let after = self.count(id).role();
            assert!(is_due || before == after, "{id} was {before:?}, and is {after:?}");
            self.turn(id);
        }
    }

    fn happens(&mut self, step: &Step) {
        match *step {
            Step::Ticks(id, ticks) => (0..ticks).for_each(|_| self.tick(id)),
            Step::Arrives(at) | Step::Lost(at) => {
                let waiting = self.net.under_way.len();
                if waiting > 0 {
                    let message = self.net.under_way.remove(at % waiting);
                    if matches!(step, Step::Arrives(_)) {
                        let to = message.to.0;
                        self.count(to).step(message);
                        self.turn(to);
                    }
                }
            }
            Step::Propose(id) => {
                let _ = self.count(id).propose(Proposal::Open { nonce: 7 });
                self.turn(id);
            }
            Step::HandOver(id, to) => {
                let _ = self.count(id).hand_over(ReplicaId(to));
                self.turn(id);
            }
            Step::Stalls(id) => _ = self.net.stalled.entry(id).or_insert(0),
            Step::Takes(id) => {
                if let Some(last) = self.net.stalled.remove(&id) {
                    self.count(id).durable(last);
                    self.turn(id);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn who_sleeps_until_a_tick_is_due_misses_nothing(steps in steps()) {
        let (mut awake, mut asleep) = (Watched::new(false), Watched::new(true));
        for step in &steps {
            awake.happens(step);
            asleep.happens(step);
            prop_assert_eq!(&awake.net.under_way, &asleep.net.under_way, "after {:?}", step);
        }
        (1..=3).for_each(|id| _ = asleep.count(id));
        for id in 1..=3 {
            let state = |of: &mut Watched| format!("{:?}", of.net.at(id));
            prop_assert_eq!(state(&mut awake), state(&mut asleep));
        }
        prop_assert!(asleep.woken <= awake.woken);
    }
}

#[test]
fn a_leader_wakes_for_beats_and_who_hears_them_for_none_of_its_own() {
    let mut net = Watched::new(true);
    for _ in 0..20 {
        (1..=3).for_each(|id| net.tick(id));
        while !net.net.under_way.is_empty() {
            net.happens(&Step::Arrives(0));
        }
    }
    net.woken = 0;
    for _ in 0..30 {
        (1..=3).for_each(|id| net.tick(id));
        while !net.net.under_way.is_empty() {
            net.happens(&Step::Arrives(0));
        }
    }
    assert!((10..=13).contains(&net.woken), "{} of 90 ticks", net.woken);
    // No beat comes any more: each tick counts once it is overdue.
    net.woken = 0;
    (0..8).for_each(|_| net.tick(2));
    assert!((5..=7).contains(&net.woken), "{} of 8 ticks", net.woken);
    assert!(net.net.at(1).is_level(ReplicaId(2)) && !net.net.at(2).is_level(ReplicaId(1)));
    net.net.propose(1, "more");
    assert!(!net.net.at(1).is_level(ReplicaId(2)));
}
