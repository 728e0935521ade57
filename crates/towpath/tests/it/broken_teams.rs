//! Teams that lose a member: whoever lives gives up at the first error, and lives on; nobody waits
//! for ever.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};

use crate::support::{LONG, Vm};
use towpath::task::collective::{
    CollectiveError, Element, Function, Lengths, Operation, Operator, Payload,
};
use towpath::task::{Pending, Team, TeamError};
use towpath::{Task, TaskId};

const HOSTS: usize = 2;
const MEMBERS: usize = 5;
const CASES: u64 = 40;

/// The same numbers for the same seed (Knuth's 64-bit linear congruence, its upper half).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 33) % limit
    }
}

/// One operation, the same for all members.
#[derive(Clone, Copy)]
struct Step {
    kind: u64,
    root: u32,
    bytes: usize,
}

impl Step {
    fn by(chance: &mut Chance) -> Self {
        let bytes = [0, 16, 3000, 40_000, 200_000][chance.below(5) as usize];
        Self { kind: chance.below(13), root: chance.below(MEMBERS as u64) as u32, bytes }
    }

    fn operation(self, rank: u32) -> Operation {
        let Self { root, bytes, .. } = self;
        let (data, is_root) = (|| Payload::from(vec![rank as u8; bytes]), rank == root);
        let operator = || Operator::built_in(Function::Sum, Element::U64).unwrap();
        let (parts, lengths) = (|| vec![data(); MEMBERS], Lengths::Any);
        match self.kind {
            0 => Operation::Broadcast { root, data: is_root.then(data) },
            1 => Operation::Reduce { root, data: data(), operator: operator() },
            2 => Operation::AllReduce { data: data(), operator: operator() },
            3 => Operation::Gather { root, data: data(), lengths },
            4 => Operation::AllGather { data: data(), lengths },
            5 => Operation::Scatter { root, parts: is_root.then(parts) },
            6 => Operation::AllToAll { parts: parts(), lengths },
            7 => Operation::Scan { data: data(), operator: operator() },
            8 => Operation::ExclusiveScan { data: data(), operator: operator() },
            _ => Operation::Barrier,
        }
    }
}

/// What a member does: its operations, of which it starts some and waits for others.
struct Member {
    steps: Vec<Step>,
    chance: Chance,
    /// It ends with so many operations begun.
    life: usize,
}

impl Member {
    fn run(mut self, task: &mut Task, team: &mut Team) -> Result<(), TeamError> {
        let mut started: Vec<Pending> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            if number == self.life {
                return Ok(());
            }
            let operation = step.operation(team.rank());
            // Who dies does so in the midst of it, or not having begun it.
            if number + 1 == self.life || self.chance.below(2) == 0 {
                started.push(team.start(task, operation)?);
            } else {
                team.perform(task, operation)?;
            }
            if !started.is_empty() && self.chance.below(3) == 0 {
                let at = self.chance.below(started.len() as u64) as usize;
                team.test(task, &started[at])?;
                if number + 1 < self.life {
                    team.finish(task, started.swap_remove(at))?;
                }
            }
        }
        started.into_iter().try_for_each(|pending| team.finish(task, pending).map(drop))
    }
}

/// A team with one member that dies: what the others say. Panics when one of them does not come
/// back.
fn play(vm: &Vm, seed: u64) -> Vec<Result<(), TeamError>> {
    let mut chance = Chance(seed);
    let steps: Vec<Step> = (0..12).map(|_| Step::by(&mut chance)).collect();
    let (dies, life) = (chance.below(MEMBERS as u64) as usize, 1 + chance.below(12) as usize);
    let hosts = 1 + chance.below(HOSTS as u64) as usize;
    let tasks: Vec<Task> = (0..MEMBERS).map(|n| vm.task(1 + n % hosts)).collect();
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let all_back = Arc::new(Barrier::new(MEMBERS));
    let (tell, told) = channel();
    for (rank, mut task) in tasks.into_iter().enumerate() {
        let life = if rank == dies { life } else { usize::MAX };
        let chance = Chance(seed ^ (rank as u64 + 1) << 40);
        let member = Member { steps: steps.clone(), chance, life };
        let (ids, all_back, tell): (_, _, Sender<_>) =
            (ids.clone(), Arc::clone(&all_back), tell.clone());
        std::thread::spawn(move || {
            let mut team = task.team_of(&ids).unwrap();
            let ended = member.run(&mut task, &mut team);
            if rank == dies {
                drop(task); // It ends, with nothing said.
            } else {
                tell.send(ended).unwrap();
                all_back.wait();
            }
        });
    }
    let back = |_| told.recv_timeout(LONG).unwrap_or_else(|_| panic!("seed {seed}: one waits"));
    let ended: Vec<Result<(), TeamError>> = (1..MEMBERS).map(back).collect();
    all_back.wait();
    for result in &ended {
        if let Err(e) = result {
            let lost = CollectiveError::MemberLost { rank: dies as u32 };
            let by_it = matches!(e, TeamError::Collective(error) if error == &lost);
            assert!(by_it, "seed {seed}: {e}");
        }
    }
    ended
}

fn play_all(seeds: std::ops::Range<u64>) {
    let vm = Vm::up(HOSTS);
    let half = seeds.clone().count() / 2;
    let failed = seeds.filter(|seed| play(&vm, *seed).iter().any(Result::is_err)).count();
    assert!(failed > half, "only {failed} teams lost somebody they needed");
}

#[test]
fn every_call_returns_when_a_member_dies_at_any_point() {
    play_all(0..CASES);
}

#[test]
#[ignore = "nightly: a minute, 1960 lives"]
fn every_call_returns_when_a_member_dies_in_many_lives() {
    play_all(CASES..50 * CASES);
}

#[test]
fn who_got_its_part_of_one_operation_is_told_in_the_next() {
    let vm = Vm::up(1);
    let reduce = Step { kind: 1, root: 0, bytes: 8 };
    let broadcast = Step { kind: 0, root: 0, bytes: 8 };
    let tasks: Vec<Task> = (0..3).map(|_| vm.task(1)).collect();
    let ids: Vec<TaskId> = tasks.iter().map(Task::id).collect();
    let (tell, told) = channel();
    let both_back = Arc::new(Barrier::new(3));
    for (rank, mut task) in tasks.into_iter().enumerate() {
        let (ids, tell, both_back) = (ids.clone(), tell.clone(), Arc::clone(&both_back));
        std::thread::spawn(move || {
            let mut team = task.team_of(&ids).unwrap();
            if rank == 2 {
                return;
            }
            let ended = [reduce, broadcast].into_iter().try_for_each(|step| {
                team.perform(&mut task, step.operation(rank as u32)).map(drop)
            });
            tell.send(ended.is_err()).unwrap();
            both_back.wait();
        });
    }
    // Rank 0 gives up after the reduce; rank 1, whose part in it is done at once, waits for it.
    let failed = [(); 2].map(|()| told.recv_timeout(LONG).expect("nobody waits for ever"));
    both_back.wait();
    assert_eq!(failed, [true; 2]);
}
