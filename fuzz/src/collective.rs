//! One member of a team among others that send anything.

use arbitrary::Arbitrary;
use towpath_vm::collective::{
    Collective, CollectiveError, Element, Function, Lengths, Operation, Operator, Output, Payload,
    Reach, Settings, Standing, Step, Team,
};

/// Largest part that the member takes, in bytes.
const BYTES_MAX: u64 = 4096;
/// Members at most.
const SIZE_MAX: usize = 24;
/// Hosts at most.
const HOSTS_MAX: u64 = 6;
/// Events looked at.
const EVENTS: usize = 200;
/// Number of the member's operation.
const NUMBER: u32 = 1;

/// What the member takes part in.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Kind {
    /// A barrier.
    Barrier,
    /// A broadcast.
    Broadcast,
    /// A reduce.
    Reduce,
    /// An allreduce.
    AllReduce,
    /// A gather.
    Gather,
    /// An allgather.
    AllGather,
    /// A scatter.
    Scatter,
    /// An all-to-all.
    AllToAll,
    /// A scan.
    Scan,
    /// An exclusive scan.
    ExclusiveScan,
}

/// The team, the member, the operation.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    hosts: Vec<u8>,
    rank: u8,
    root: u8,
    bytes: u8,
    reach: u8,
    host_stage: bool,
    local_fan: u8,
    equal: bool,
    kind: Kind,
}

/// What happens to the member.
#[derive(Arbitrary, Clone, Debug)]
pub enum Event {
    /// A message comes.
    Message {
        /// Who sends it.
        from: u8,
        /// Another format than that of the operation.
        format: Option<u32>,
        /// Its bytes.
        body: Vec<u8>,
        /// Rows of a bundle that follow them.
        rows: Vec<(u8, bool, u8)>,
        /// Words that follow those.
        words: Vec<u16>,
    },
    /// A member tells that the team is broken.
    Failed(u8, Vec<u8>),
    /// A member is lost.
    Lost(u8),
    /// The members of the host have arrived.
    Arrived,
    /// The host is released.
    Released,
}

impl Case {
    fn team(&self) -> std::rc::Rc<Team> {
        let mut hosts: Vec<u32> =
            self.hosts.iter().map(|host| u32::from(*host) % HOSTS_MAX as u32).collect();
        hosts.truncate(SIZE_MAX);
        hosts.push(0);
        let settings = Settings {
            multicast: [Reach::Nowhere, Reach::Host, Reach::Everywhere][self.reach as usize % 3],
            host_stage: self.host_stage,
            local_fan: 1 + u32::from(self.local_fan % 9),
            pipeline_from: 16,
            segment_min: 1,
            split_from: 16,
            share_min: 1,
            direct_from: 16,
            bytes_max: BYTES_MAX,
        };
        let rank = u32::from(self.rank) % hosts.len() as u32;
        Team::new(rank, &hosts, settings).expect("one member or more")
    }

    fn operation(&self, team: &Team) -> Operation {
        let root = u32::from(self.root) % team.size();
        let is_root = root == team.rank();
        let lengths = if self.equal { Lengths::Equal } else { Lengths::Any };
        let data = Payload::from(vec![3; self.bytes.into()]);
        let parts = || vec![data.clone(); team.size() as usize];
        let operator = Operator::built_in(Function::Sum, Element::U8).expect("defined");
        match self.kind {
            Kind::Barrier => Operation::Barrier,
            Kind::Broadcast => Operation::Broadcast { root, data: is_root.then_some(data) },
            Kind::Reduce => Operation::Reduce { root, data, operator },
            Kind::AllReduce => Operation::AllReduce { data, operator },
            Kind::Gather => Operation::Gather { root, data, lengths },
            Kind::AllGather => Operation::AllGather { data, lengths },
            Kind::Scatter => Operation::Scatter { root, parts: is_root.then(parts) },
            Kind::AllToAll => Operation::AllToAll { parts: parts(), lengths },
            Kind::Scan => Operation::Scan { data, operator },
            Kind::ExclusiveScan => Operation::ExclusiveScan { data, operator },
        }
    }

    /// The format of the operation's messages, as the crate documents it.
    fn format(&self, team: &Team) -> u32 {
        let with_operator =
            matches!(self.kind, Kind::Reduce | Kind::AllReduce | Kind::Scan | Kind::ExclusiveScan);
        let operator = if with_operator { 0x11 } else { 0 };
        let with_root =
            matches!(self.kind, Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter);
        let root = if with_root { u32::from(self.root) % team.size() } else { 0 };
        (self.kind as u32) << 4 | operator << 8 | root << 16
    }
}

fn send(team: &Team, step: Step, sent: &mut u64) {
    let mut to = |rank: u32| {
        assert!(rank < team.size() && rank != team.rank(), "sends to {rank}");
        *sent += 1;
    };
    match step {
        Step::Send { to: rank, .. } => to(rank),
        Step::Multicast { to: ranks, .. } => ranks.iter().copied().for_each(to),
        Step::Host(_) => {}
    }
}

/// Whatever comes, the member sends to others only, ends at most once, and what it gets is
/// within its limits.
pub fn run(case: &Case, events: &[Event]) {
    let team = case.team();
    let mut member = Collective::new(&team, case.operation(&team)).expect("a fair operation");
    let mut standing = Standing::default();
    let (mut ended, mut sent) = (false, 0);
    for event in events.iter().take(EVENTS) {
        let rank = |number: u8| u32::from(number) % team.size();
        match event {
            Event::Message { from, format, body, rows, words } => {
                let mut bytes = body.clone();
                for (rank, direct, bytes_of) in rows {
                    bytes.extend(u32::from(*rank).to_le_bytes());
                    bytes.extend(u32::from(*direct).to_le_bytes());
                    bytes.extend(u64::from(*bytes_of).to_le_bytes());
                }
                bytes.extend(words.iter().flat_map(|word| u64::from(*word).to_le_bytes()));
                let format = format.unwrap_or(case.format(&team));
                member.handle(rank(*from), format, bytes.into());
            }
            Event::Failed(from, why) => {
                standing.heard(rank(*from), why);
                if let Some(error) = standing.error_of(NUMBER) {
                    return pass_on(&mut standing, error);
                }
            }
            Event::Lost(lost) => member.member_lost(rank(*lost)),
            Event::Arrived => member.host_arrived(),
            Event::Released => member.host_released(),
        }
        while let Some(step) = member.poll_send() {
            send(&team, step, &mut sent);
        }
        if let Some(result) = member.poll_result() {
            assert!(!ended, "ended twice");
            ended = true;
            check(&team, result.unwrap_or(Output::None));
        }
    }
    // A root sends eight segments for each host, others pass on what came; all else is a few
    // messages for each member.
    let most = u64::from(team.size()) * (8 * HOSTS_MAX + 8 + events.len() as u64);
    assert!(sent <= most, "{sent} messages to {} members", team.size());
}

/// Whoever a member that was told tells in turn knows the same.
fn pass_on(standing: &mut Standing, error: CollectiveError) {
    let told = standing.fail(NUMBER, error).expect("it had not told anybody");
    let mut next = Standing::default();
    next.heard(0, &told.parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>());
    for number in [0, NUMBER, NUMBER + 1] {
        assert_eq!(next.error_of(number), standing.error_of(number));
    }
}

fn check(team: &Team, output: Output) {
    match output {
        Output::None => {}
        Output::One(part) => assert!(part.len() as u64 <= BYTES_MAX),
        Output::Many(parts) => {
            assert_eq!(parts.len(), team.size() as usize);
            assert!(parts.iter().all(|part| part.len() as u64 <= BYTES_MAX));
        }
    }
}
