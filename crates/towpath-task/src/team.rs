//! Teams: tasks that do the same things together in the same order.

pub use crate::team_error::TeamError;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use towpath_vm::collective::{
    Lengths, Operation, Operator, Output, Payload, Reach, Settings, Team as Layout,
};
use towpath_vm::talk::Subject;
use towpath_wire::TaskId;
use towpath_wire::talk::{CONTEXT_OWN, Tag};

use crate::error::{AskError, SendError};
use crate::meeting::Meeting;
use crate::message::Envelope;
use crate::peers::Peers;
pub use crate::peers::Sent;
use crate::pending::Underway;
use crate::task::Task;

/// This bit is set in contexts of teams that no registry made.
const CONTEXT_LISTED: u32 = CONTEXT_OWN | 1 << 30;

/// Offset basis of FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), the same on every host.
const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(mix: u64, value: u64) -> u64 {
    let byte = |mix: u64, byte: &u8| (mix ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    value.to_le_bytes().iter().fold(mix, byte)
}

/// A fixed list of tasks, as one of them sees it.
///
/// All members begin the same operations in the same order; what one of them starts
/// ([`Team::start`]), another may wait in. Bytes of one function's result are the same in each run
/// (docs of `towpath_vm::collective`). When one member ends, whoever needs something of it gets an
/// error instead of waiting, and the team is broken: all that is under way or begins later fails
/// for all members, but what they had all done their part in. Whoever wants to go on makes another
/// team of those that are left.
///
/// ```no_run
/// # use towpath_task::Task;
/// # use towpath_task::collective::{Element, Function, Operator};
/// let mut task = Task::enrol()?;
/// let mut team = task.team("solvers", 4)?;
/// let sum = Operator::built_in(Function::Sum, Element::F64)?;
/// let residual = 0.5_f64.to_le_bytes().to_vec();
/// let total = team.all_reduce(&mut task, residual, sum)?;
/// team.barrier(&mut task)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Team {
    pub(crate) layout: Rc<Layout>,
    pub(crate) peers: Peers,
    /// Number of the next operation.
    pub(crate) next: u32,
    /// Operations that are not over, or whose result nobody has asked for yet.
    pub(crate) underway: Vec<Underway>,
    /// An operation failed: what still comes of it, or of a later one that is over, is dropped.
    pub(crate) has_failed: bool,
    /// Barriers begun.
    pub(crate) barriers: u32,
    /// How members of one host meet without messages, once they do, and the layout for it.
    pub(crate) meeting: Option<(Meeting, Rc<Layout>)>,
}

impl Task {
    /// Joins `group`, waits until it has `size` members, and makes a team of them; ranks are
    /// instance numbers. The group stays frozen as long as it has members.
    pub fn team(&mut self, group: &str, size: u32) -> Result<Team, TeamError> {
        self.join_group(group)?;
        let frozen = self.freeze_group(group, size)?;
        let size = frozen.members.len();
        let member = |(instance, task): (usize, &Option<TaskId>)| {
            task.ok_or(TeamError::Hole { instance, size })
        };
        let members = frozen.members.iter().enumerate().map(member);
        let members = members.collect::<Result<Vec<_>, _>>()?;
        self.make_team(members, frozen.context | CONTEXT_OWN)
    }

    /// Makes a team of these tasks; every member gives the same list, and makes as many teams of
    /// it. Ranks are places in the list.
    pub fn team_of(&mut self, members: &[TaskId]) -> Result<Team, TeamError> {
        let list = members.iter().fold(FNV, |mix, member| fnv(mix, member.to_raw()));
        let times = self.ends.listed.entry(list).or_default();
        *times += 1;
        // Every member counts alike, so that all come to the same context.
        let mix = fnv(list, u64::from(*times));
        let context = (mix ^ mix >> 32) as u32 | CONTEXT_LISTED;
        self.make_team(members.to_vec(), context)
    }

    fn make_team(&mut self, members: Vec<TaskId>, context: u32) -> Result<Team, TeamError> {
        let own = self.id();
        let rank = members.iter().position(|m| *m == own).map_or(u32::MAX, |r| r as u32);
        let hosts: Vec<u32> = members.iter().map(|m| u32::from(m.host().slot())).collect();
        let layout = Layout::new(rank, &hosts, settings(false))?;
        for (instance, member) in members.iter().enumerate() {
            if members[..instance].contains(member) {
                return Err(TeamError::Hole { instance, size: members.len() });
            }
        }
        let mut over = Vec::with_capacity(members.len());
        for member in &members {
            over.push(if *member == own { Arc::default() } else { self.watch_member(*member)? });
        }
        Ok(Team {
            layout,
            peers: Peers::new(members, over, context),
            next: 0,
            underway: Vec::new(),
            has_failed: false,
            barriers: 0,
            meeting: None,
        })
    }

    /// What becomes true when a member of a team ends.
    pub(crate) fn watch_member(&mut self, member: TaskId) -> Result<Arc<AtomicBool>, AskError> {
        let ends = &mut self.ends;
        if let Some(over) = ends.watched.get(&member).and_then(Weak::upgrade) {
            return Ok(over);
        }
        let over = Arc::new(AtomicBool::new(false));
        // A team that is gone may have watched it.
        if !ends.watched.contains_key(&member) {
            let watch = self.watch(Subject::Task(member))?;
            self.ends.watches.insert(watch, member);
        }
        self.ends.watched.insert(member, Arc::downgrade(&over));
        Ok(over)
    }
}

/// What operations are done by, the same for all members; `host_stage`: barriers meet by words.
///
/// A multicast reaches all neighbours by one block, or one frame to the daemon, so there is no tree
/// on the way down within a host. Up to 9 members that makes no difference; a broadcast of 64 KiB
/// to 16 or 32 others on 2 processors took 0.9 or 0.7 times as long as down a tree, and the blocks
/// of memory are one instead of 2 or 4.
pub(crate) fn settings(host_stage: bool) -> Settings {
    Settings { multicast: Reach::Host, host_stage, ..Settings::default() }
}

impl Team {
    /// Says something of a pool of work to a member.
    pub(crate) fn tell_pool(
        &self,
        task: &mut Task,
        to: TaskId,
        tag: Tag,
        values: &[u64],
    ) -> Result<(), TeamError> {
        match task.send_slice(to, Envelope { tag, context: self.peers.context, format: 0 }, values)
        {
            // The watch tells of its end.
            Err(SendError::NoTask(_)) => Ok(()),
            other => Ok(other?),
        }
    }

    /// This task's rank.
    pub fn rank(&self) -> u32 {
        self.layout.rank()
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.layout.size()
    }

    /// The members by rank.
    pub fn members(&self) -> &[TaskId] {
        &self.peers.members
    }

    /// The member of a rank. Panics where there is none.
    pub fn member(&self, rank: u32) -> TaskId {
        self.peers.members[rank as usize]
    }

    /// What this member has sent in the team's operations so far.
    pub fn sent(&self) -> Sent {
        self.peers.sent
    }

    /// Whether barriers go without messages.
    #[cfg(test)]
    pub(crate) const fn meets_by_words(&self) -> bool {
        self.meeting.is_some()
    }

    /// Does one operation together with all other members. The functions below are this one for
    /// each kind.
    pub fn perform(&mut self, task: &mut Task, operation: Operation) -> Result<Output, TeamError> {
        self.perform_of(task, operation, 0)
    }

    /// The same with a type of data that members compare.
    pub(crate) fn perform_of(
        &mut self,
        task: &mut Task,
        operation: Operation,
        kind: u8,
    ) -> Result<Output, TeamError> {
        let at = self.begin(task, operation, kind, None)?;
        self.end(task, at)
    }

    /// Waits until all members have come here.
    pub fn barrier(&mut self, task: &mut Task) -> Result<(), TeamError> {
        self.perform(task, Operation::Barrier).map(drop)
    }

    /// Gives everyone the root's bytes; whoever is not the root gives nothing.
    pub fn broadcast(
        &mut self,
        task: &mut Task,
        root: u32,
        data: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, TeamError> {
        let data = data.map(Payload::from);
        self.perform(task, Operation::Broadcast { root, data }).map(one)
    }

    /// Combines all members' vectors; the root gets the result, others nothing.
    pub fn reduce(
        &mut self,
        task: &mut Task,
        root: u32,
        data: Vec<u8>,
        operator: Operator,
    ) -> Result<Option<Vec<u8>>, TeamError> {
        let operation = Operation::Reduce { root, data: data.into(), operator };
        self.perform(task, operation).map(maybe)
    }

    /// Combines all members' vectors; everyone gets the result, the same bits.
    pub fn all_reduce(
        &mut self,
        task: &mut Task,
        data: Vec<u8>,
        operator: Operator,
    ) -> Result<Vec<u8>, TeamError> {
        self.perform(task, Operation::AllReduce { data: data.into(), operator }).map(one)
    }

    /// Gives the root everyone's part, by rank; others get nothing.
    pub fn gather(
        &mut self,
        task: &mut Task,
        root: u32,
        data: Vec<u8>,
        lengths: Lengths,
    ) -> Result<Option<Vec<Vec<u8>>>, TeamError> {
        let gathered =
            self.perform(task, Operation::Gather { root, data: data.into(), lengths })?;
        Ok(match gathered {
            Output::None => None,
            other => Some(many(other)),
        })
    }

    /// Gives everyone everyone's part, by rank.
    pub fn all_gather(
        &mut self,
        task: &mut Task,
        data: Vec<u8>,
        lengths: Lengths,
    ) -> Result<Vec<Vec<u8>>, TeamError> {
        self.perform(task, Operation::AllGather { data: data.into(), lengths }).map(many)
    }

    /// Gives each member its part, from the root, which gives one for each rank.
    pub fn scatter(
        &mut self,
        task: &mut Task,
        root: u32,
        parts: Option<Vec<Vec<u8>>>,
    ) -> Result<Vec<u8>, TeamError> {
        let parts = parts.map(|parts| parts.into_iter().map(Payload::from).collect());
        self.perform(task, Operation::Scatter { root, parts }).map(one)
    }

    /// Gives each member a part of each member: part k goes to rank k, and from rank k comes what
    /// is at place k of the result.
    pub fn all_to_all(
        &mut self,
        task: &mut Task,
        parts: Vec<Vec<u8>>,
        lengths: Lengths,
    ) -> Result<Vec<Vec<u8>>, TeamError> {
        let parts = parts.into_iter().map(Payload::from).collect();
        self.perform(task, Operation::AllToAll { parts, lengths }).map(many)
    }

    /// Combines the vectors of the ranks up to one's own, in their order.
    pub fn scan(
        &mut self,
        task: &mut Task,
        data: Vec<u8>,
        operator: Operator,
    ) -> Result<Vec<u8>, TeamError> {
        self.perform(task, Operation::Scan { data: data.into(), operator }).map(one)
    }

    /// Combines the vectors of the ranks below one's own; rank 0 gets nothing.
    pub fn exclusive_scan(
        &mut self,
        task: &mut Task,
        data: Vec<u8>,
        operator: Operator,
    ) -> Result<Option<Vec<u8>>, TeamError> {
        self.perform(task, Operation::ExclusiveScan { data: data.into(), operator }).map(maybe)
    }
}

fn maybe(output: Output) -> Option<Vec<u8>> {
    match output {
        Output::One(payload) => Some(payload.into_vec()),
        _ => None,
    }
}

fn one(output: Output) -> Vec<u8> {
    maybe(output).expect("an operation with one result for each member gives it")
}

fn many(output: Output) -> Vec<Vec<u8>> {
    match output {
        Output::Many(parts) => parts.into_iter().map(Payload::into_vec).collect(),
        _ => unreachable!("an operation with a part for each rank gives them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::actors::{all, crowd};

    /// Of the empty text, and of eight bytes, as FNV-1a gives them.
    #[test]
    fn lists_are_told_apart_by_a_published_hash() {
        assert_eq!(FNV, 0xcbf2_9ce4_8422_2325);
        // "foobarxx", the first of which is the least significant.
        let value = u64::from_le_bytes(*b"foobar\0\0");
        let six = [b'f', b'o', b'o', b'b', b'a', b'r']
            .iter()
            .fold(FNV, |mix, byte| (mix ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        assert_eq!(six, 0x8594_4171_f739_67e8, "of \"foobar\", as published");
        let two_zeros = (0..2).fold(six, |mix, _| mix.wrapping_mul(0x0100_0000_01b3));
        assert_eq!(fnv(FNV, value), two_zeros);
    }

    #[test]
    fn teams_of_one_list_have_contexts_that_all_members_know() {
        let (mut tasks, _sides) = crowd(2);
        let members: Vec<_> = tasks.iter().map(Task::id).collect();
        let contexts = all(&mut tasks, |_, task| {
            let turned: Vec<_> = members.iter().rev().copied().collect();
            [&members, &members, &turned].map(|list| task.team_of(list).unwrap().peers.context)
        });
        assert_eq!(contexts[0], contexts[1]);
        let [first, second, turned] = contexts[0];
        assert!(first != second && first != turned && second != turned);
        for context in contexts[0] {
            assert_eq!(context & CONTEXT_LISTED, CONTEXT_LISTED);
        }
        let list = members.iter().fold(FNV, |mix, member| fnv(mix, member.to_raw()));
        let mix = fnv(list, 1);
        assert_eq!(first, ((mix >> 32) as u32 ^ mix as u32) | CONTEXT_LISTED);
    }
}
