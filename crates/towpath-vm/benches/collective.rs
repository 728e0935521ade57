//! What a collective operation costs by itself, without any network or waiting.
//!
//! `cargo bench -p towpath-vm --bench collective`: nanoseconds for each member, median of 61 runs,
//! of whole operations of teams whose messages go from hand to hand.
//!
//! `... -- one KIND MEMBERS HOSTS OPERATIONS`: only that one (kinds: barrier, stage, broadcast,
//! allreduce, allgather, alltoall, scan), to count instructions under callgrind: the difference of
//! two runs over the difference of their operations is the count of an operation of all members.

use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use towpath_vm::collective::{
    Collective, Element, Function, HostStage, Lengths, Message, Operation, Operator, Payload,
    Reach, Settings, Step, Team,
};

const RUNS: usize = 61;
/// Short beside a time slice, so that most runs are whole on a machine with other work.
const RUN: Duration = Duration::from_millis(2);
const KINDS: [&str; 7] =
    ["barrier", "stage", "broadcast", "allreduce", "allgather", "alltoall", "scan"];
/// Members and hosts.
const TEAMS: [(u32, u32); 5] = [(2, 1), (8, 1), (8, 8), (64, 1), (64, 8)];

struct Load {
    kind: String,
    teams: Vec<Rc<Team>>,
    machines: Vec<Collective>,
    under_way: VecDeque<(u32, u32, Message)>,
    word: Payload,
}

impl Load {
    fn new(kind: &str, members: u32, hosts: u32) -> Self {
        assert!(KINDS.contains(&kind), "kinds: {KINDS:?}");
        let settings =
            Settings { multicast: Reach::Host, host_stage: kind == "stage", ..Settings::default() };
        let placement: Vec<u32> = (0..members).map(|rank| rank * hosts / members).collect();
        let team = |rank| Team::new(rank, &placement, settings.clone()).expect("a team");
        Self {
            kind: kind.to_owned(),
            teams: (0..members).map(team).collect(),
            machines: Vec::new(),
            under_way: VecDeque::new(),
            word: vec![1; 8].into(),
        }
    }

    fn operation(&self, rank: u32) -> Operation {
        let data = self.word.clone();
        let sum = || Operator::built_in(Function::Sum, Element::F64).expect("defined");
        match self.kind.as_str() {
            "barrier" | "stage" => Operation::Barrier,
            "broadcast" => Operation::Broadcast { root: 0, data: (rank == 0).then_some(data) },
            "allreduce" => Operation::AllReduce { data, operator: sum() },
            "allgather" => Operation::AllGather { data, lengths: Lengths::Equal },
            "alltoall" => {
                let parts = vec![data; self.teams.len()];
                Operation::AllToAll { parts, lengths: Lengths::Equal }
            }
            _ => Operation::Scan { data, operator: sum() },
        }
    }

    fn drain(&mut self, rank: u32) {
        while let Some(step) = self.machines[rank as usize].poll_send() {
            match step {
                Step::Send { to, message } => self.under_way.push_back((rank, to, message)),
                Step::Multicast { to, message } => {
                    let each = to.iter().map(|to| (rank, *to, message.clone()));
                    self.under_way.extend(each);
                }
                Step::Host(HostStage::Arrive) => self.machines[rank as usize].host_arrived(),
                Step::Host(HostStage::Release) => {
                    let members = self.teams[rank as usize].host_members().to_vec();
                    for member in members {
                        self.machines[member as usize].host_released();
                    }
                }
            }
        }
    }

    /// One operation of all members.
    fn run(&mut self) {
        let start = |(rank, team): (u32, &Rc<Team>)| {
            Collective::new(team, self.operation(rank)).expect("fair")
        };
        self.machines = (0..).zip(&self.teams).map(start).collect();
        (0..self.teams.len() as u32).for_each(|rank| self.drain(rank));
        while let Some((from, to, message)) = self.under_way.pop_front() {
            let body = match message.parts.as_slice() {
                [] => Payload::EMPTY,
                [part] => part.clone(),
                parts => {
                    let mut whole = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
                    for part in parts.iter() {
                        whole.extend_from_slice(part);
                    }
                    whole.into()
                }
            };
            self.machines[to as usize].handle(from, message.format, body);
            self.drain(to);
        }
        for machine in &mut self.machines {
            black_box(machine.poll_result().expect("ended").expect("well"));
        }
    }

    fn nanoseconds(&mut self) -> f64 {
        let (start, mut operations) = (Instant::now(), 0);
        loop {
            self.run();
            operations += 1;
            let passed = start.elapsed();
            if passed > RUN {
                let each = f64::from(operations) * self.teams.len() as f64;
                return passed.as_nanos() as f64 / each;
            }
        }
    }
}

fn median(mut load: Load) -> f64 {
    let mut runs: Vec<f64> = (0..RUNS).map(|_| load.nanoseconds()).collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [one, kind, figures @ ..] = arguments.as_slice() {
        let figures: Vec<u32> = figures.iter().map(|f| f.parse().expect("a number")).collect();
        let [members, hosts, operations] = figures[..] else { panic!("KIND MEMBERS HOSTS COUNT") };
        assert_eq!(one, "one");
        let mut load = Load::new(kind, members, hosts);
        (0..operations).for_each(|_| load.run());
        return;
    }
    println!("nanoseconds for each member, by members/hosts, median of {RUNS} runs");
    print!("{:>10}", "");
    for (members, hosts) in TEAMS {
        print!("{:>9}", format!("{members}/{hosts}"));
    }
    println!();
    for kind in KINDS {
        print!("{kind:>10}");
        for (members, hosts) in TEAMS {
            print!("{:>9.0}", median(Load::new(kind, members, hosts)));
        }
        println!();
    }
}
