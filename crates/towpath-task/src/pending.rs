//! Operations of a team that are under way: one that its caller waits for, and those that were
//! started and go on while the task does other things.
//!
//! An operation's number is the tag of all its messages, so those of several do not mix. Whichever
//! call of the team comes takes all of them on.
//!
//! **Failure.** When one of them fails, all do that are not over, and all later ones; the other
//! members are told ([`Standing`](towpath_vm::collective::Standing)).
//!
//! **Barriers** of tasks of one host come to do without messages (`meeting`). The members agree on
//! that in one of them, which is an allreduce of what they have to offer; whether its caller waits
//! for it or not, as with any other. Until a member knows what came of it, those barriers that it
//! begins meanwhile are put off.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use towpath_vm::collective::{
    Collective, CollectiveError, Element, Function, Operation, Operator, Output, Payload, Standing,
    Step, Team as Layout,
};
use towpath_vm::matching::{Ticket, Wanted};
use towpath_wire::talk::Tag;

use crate::deadline::Deadline;
use crate::error::SendError;
use crate::meeting::{MEMBERS_MAX, Meeting, Offer, PRACTICE, is_due};
use crate::message::Message;
use crate::parts::words::Meets;
use crate::peers::Peers;
use crate::task::Task;
use crate::team::{Team, settings};
use crate::team_error::TeamError;

/// Operations of one team that may be started and not finished yet.
pub const STARTED_MAX: usize = 64;

/// An operation that was started ([`Team::start`]) and is to be finished ([`Team::finish`]).
/// Dropped, it goes on for the sake of the other members, and its result is thrown away.
#[derive(Debug)]
#[must_use = "whoever does not want the result drops it"]
pub struct Pending {
    token: Arc<()>,
}

/// Ends that one operation knows of.
#[derive(Debug, Default)]
struct Known {
    ranks: HashSet<u32>,
    /// Ends of all tasks when they were last looked for.
    over: u64,
}

/// What a wait brought.
enum Came {
    Message(Message),
    /// All members of this host are here.
    Host,
    /// Members that have ended, by rank.
    Ends(Vec<u32>),
}

/// Which operation there is something for.
enum News {
    Of(usize, Came),
    /// All of them: a member tells how the team stands.
    Notice,
}

/// One operation of a team.
#[derive(Debug)]
pub(crate) struct Underway {
    number: u32,
    /// None: a barrier that is put off.
    machine: Option<Collective>,
    /// Which of the team's barriers it is, from 1; 0: another operation.
    barrier: u32,
    /// By this barrier the members agree on words.
    offer: Option<Offer>,
    /// By this barrier they meet by words.
    meets: Option<Meets>,
    known: Known,
    /// Once it is over.
    result: Option<Result<Output, TeamError>>,
    /// Shared with who started it; none: the caller waits.
    token: Option<Arc<()>>,
}

struct Bytes(Message);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Gives a machine a message of a member.
fn hand(machine: &mut Collective, peers: &Peers, message: Message) {
    let Some(from) = peers.rank_of(message.src()) else { return };
    let format = message.format();
    machine.handle(from, format, Payload::shared(Arc::new(Bytes(message))));
}

impl Underway {
    const fn wanted(&self, context: u32) -> Wanted {
        Wanted { source: None, tag: Some(self.number.cast_signed() as Tag), context }
    }

    /// Nobody can ask for its result.
    fn is_dropped(&self) -> bool {
        self.token.as_ref().is_some_and(|token| Arc::strong_count(token) == 1)
    }

    /// What there is for this operation.
    fn news(&mut self, task: &mut Task, peers: &Peers) -> Option<Came> {
        if self.result.is_some() || self.machine.is_none() {
            return None;
        }
        if let Some(meets) = self.meets.take_if(|meets| meets.all_there()) {
            task.ends.words.is_known(&meets);
            return Some(Came::Host);
        }
        if let Some(waiting) = task.endpoint.take(&self.wanted(peers.context)) {
            return Some(Came::Message(Message::new(waiting)));
        }
        if self.known.over == task.ends.over {
            return None;
        }
        self.known.over = task.ends.over;
        let ranks = (0..peers.members.len() as u32).filter(|rank| peers.has_ended(*rank));
        let new: Vec<u32> = ranks.filter(|rank| self.known.ranks.insert(*rank)).collect();
        (!new.is_empty()).then_some(Came::Ends(new))
    }

    /// Sends what is to be sent; the result, if there is one now.
    fn go_on(
        &mut self,
        task: &mut Task,
        peers: &mut Peers,
        meeting: Option<&mut Meeting>,
    ) -> Result<Option<Output>, TeamError> {
        self.send_all(task, peers, meeting)?;
        let result = self.machine.as_mut().and_then(Collective::poll_result);
        let Some(result) = result else { return Ok(None) };
        self.send_all(task, peers, None)?;
        Ok(Some(result?))
    }

    fn send_all(
        &mut self,
        task: &mut Task,
        peers: &mut Peers,
        mut meeting: Option<&mut Meeting>,
    ) -> Result<(), TeamError> {
        while let Some(step) = self.machine.as_mut().and_then(Collective::poll_send) {
            match step {
                Step::Send { to, message } => peers.send(task, self.number, &[to], &message)?,
                Step::Multicast { to, message } => peers.send(task, self.number, &to, &message)?,
                Step::Host(_) => {
                    self.meets = meeting.as_mut().map(|meeting| meeting.arrive(task));
                }
            }
        }
        Ok(())
    }
}

impl Team {
    /// Starts an operation, which goes on while the task does other things; the others start it
    /// too, or wait in it. Several may be under way, at most [`STARTED_MAX`], and be finished in
    /// any order.
    ///
    /// It makes progress inside this team's calls, whichever they are: [`Self::test`],
    /// [`Self::wait`] and [`Self::finish`] of any operation, and those that wait for another one.
    /// What comes for it meanwhile is taken in by the task's own receives and waits as other
    /// messages do; [`Task::wait`] ends when it comes. A send waits as long as its receiver takes
    /// no more, here too.
    ///
    /// ```no_run
    /// # use towpath_task::{Task, Wanted};
    /// # use towpath_task::collective::Operation;
    /// # let mut task = Task::enrol()?;
    /// # let mut team = task.team("solvers", 4)?;
    /// let all_here = team.start(&mut task, Operation::Barrier)?;
    /// while !team.test(&mut task, &all_here)? {
    ///     // Compute something; or answer what comes, and wait for more:
    ///     while let Some(question) = task.try_recv(&Wanted::any())? {
    ///         task.send(question.src(), 1, b"not yet")?;
    ///     }
    ///     task.wait(None)?;
    /// }
    /// team.finish(&mut task, all_here)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(&mut self, task: &mut Task, operation: Operation) -> Result<Pending, TeamError> {
        self.start_of(task, operation, 0)
    }

    /// The same with a type of data that members compare.
    pub(crate) fn start_of(
        &mut self,
        task: &mut Task,
        operation: Operation,
        kind: u8,
    ) -> Result<Pending, TeamError> {
        self.throw_away();
        if self.underway.len() >= STARTED_MAX {
            return Err(TeamError::Started);
        }
        let token = Arc::new(());
        self.begin(task, operation, kind, Some(token.clone()))?;
        Ok(Pending { token })
    }

    /// Whether an operation is over, so that [`Self::finish`] does not wait: with a result, or an
    /// error. Takes on what is under way.
    pub fn test(&mut self, task: &mut Task, pending: &Pending) -> Result<bool, TeamError> {
        self.wait(task, pending, Duration::ZERO)
    }

    /// Waits until an operation is over; false: `timeout` was over first.
    pub fn wait(
        &mut self,
        task: &mut Task,
        pending: &Pending,
        timeout: Duration,
    ) -> Result<bool, TeamError> {
        let at = self.place_of(pending)?;
        self.drive(task, at, Deadline::after(Some(timeout)))
    }

    /// Waits until an operation is over; its result.
    pub fn finish(&mut self, task: &mut Task, pending: Pending) -> Result<Output, TeamError> {
        let at = self.place_of(&pending)?;
        drop(pending);
        self.end(task, at)
    }

    fn place_of(&self, pending: &Pending) -> Result<usize, TeamError> {
        let is_it =
            |op: &Underway| op.token.as_ref().is_some_and(|t| Arc::ptr_eq(t, &pending.token));
        self.underway.iter().position(is_it).ok_or(TeamError::Foreign)
    }

    /// Begins an operation; where it stands among those that are under way.
    pub(crate) fn begin(
        &mut self,
        task: &mut Task,
        operation: Operation,
        kind: u8,
        token: Option<Arc<()>>,
    ) -> Result<usize, TeamError> {
        self.throw_away();
        task.check().map_err(SendError::from)?;
        let (machine, barrier) = if matches!(operation, Operation::Barrier) {
            self.barriers = self.barriers.saturating_add(1);
            (None, self.barriers)
        } else {
            let machine = Collective::of_type(&self.layout, operation, kind);
            (Some(self.agreed(task, machine)?), 0)
        };
        let number = self.next;
        self.next = Standing::number_after(number);
        if self.has_failed {
            self.drop_old(task, number);
        }
        let (offer, meets, known, result) = (None, None, Known::default(), None);
        let at = self.underway.len();
        self.underway.push(Underway {
            number,
            machine,
            barrier,
            offer,
            meets,
            known,
            result,
            token,
        });
        if let Some(error) = self.peers.standing.error_of(number) {
            self.fail(task, number, error);
        } else if barrier == 0 {
            self.go_on(task, at);
        } else {
            self.begin_barriers(task);
        }
        Ok(at)
    }

    /// What this member needs to take part in the next operation. Where that cannot be, the
    /// operation fails for the others, too: they begin it, and would wait for this member's part.
    pub(crate) fn agreed<V, E: Into<TeamError>>(
        &mut self,
        task: &mut Task,
        needed: Result<V, E>,
    ) -> Result<V, TeamError> {
        needed.map_err(|why| {
            let number = self.next;
            self.next = Standing::number_after(number);
            if self.size() > 1 {
                self.fail(task, number, CollectiveError::GaveUp { rank: self.rank() });
            }
            why.into()
        })
    }

    /// Begins the barriers that were put off, as far as their members know how they meet.
    fn begin_barriers(&mut self, task: &mut Task) {
        let waits = |op: &Underway| op.machine.is_none() && op.result.is_none();
        while !self.underway.iter().any(|op| op.offer.is_some())
            && let Some(at) = self.underway.iter().position(waits)
        {
            match self.barrier_machine(task, self.underway[at].barrier) {
                Ok((machine, offer)) => {
                    let op = &mut self.underway[at];
                    (op.machine, op.offer) = (Some(machine), offer);
                    self.go_on(task, at);
                }
                Err(e) => self.fails_by(task, at, e),
            }
        }
    }

    /// How members meet for barrier number `count`.
    fn barrier_machine(
        &self,
        task: &mut Task,
        count: u32,
    ) -> Result<(Collective, Option<Offer>), TeamError> {
        let own = task.id();
        let may_agree = self.meeting.is_none()
            && (2..=MEMBERS_MAX).contains(&self.peers.members.len())
            && self.peers.members.iter().all(|member| member.host() == own.host());
        let peers = self.peers.members.iter().copied().filter(|member| *member != own);
        if may_agree && is_due(count) {
            let offer = task.offer_words(peers);
            let operator = Operator::built_in(Function::Max, Element::U64);
            let operator = operator.expect("integers have all functions");
            let data = offer.values().into();
            let machine = Collective::new(&self.layout, Operation::AllReduce { data, operator })?;
            return Ok((machine, Some(offer)));
        }
        if may_agree && count.saturating_add(1) == PRACTICE {
            peers.for_each(|peer| task.ask_ring(peer));
            task.flush().map_err(SendError::from)?;
        }
        let layout = self.meeting.as_ref().map_or(&self.layout, |(_, layout)| layout);
        Ok((Collective::new(layout, Operation::Barrier)?, None))
    }

    /// Members know what they agreed on: from the next barrier on, they need no messages if all
    /// have the same word to give.
    fn agree(&mut self, task: &mut Task, at: usize, offer: Offer) {
        if let Some(Ok(output)) = &mut self.underway[at].result {
            let combined = match std::mem::replace(output, Output::None) {
                Output::One(combined) => combined.into_vec(),
                _ => Vec::new(),
            };
            let hosts = vec![0; self.peers.members.len()];
            let layout = Layout::new(self.layout.rank(), &hosts, settings(true));
            let layout = layout.expect("the members are a team already");
            self.meeting = offer.take(&combined).map(|meeting| (meeting, layout));
        }
        self.begin_barriers(task);
    }

    /// Waits until an operation is over, and takes it out.
    pub(crate) fn end(&mut self, task: &mut Task, at: usize) -> Result<Output, TeamError> {
        if let Some(meets) = &self.underway[at].meets {
            task.waits.yields.let_others_run(|| meets.all_there());
        }
        if let Err(e) = self.drive(task, at, Deadline::NEVER)
            && self.underway[at].result.is_none()
        {
            self.fails_by(task, at, e);
        }
        self.underway.remove(at).result.expect("a wait without end ends with a result")
    }

    /// Takes operations on until the one at `at` is over; false: `deadline` was over first.
    fn drive(&mut self, task: &mut Task, at: usize, deadline: Deadline) -> Result<bool, TeamError> {
        task.waits.awaited = None;
        while self.underway[at].result.is_none() {
            let (underway, peers) = (&mut self.underway, &self.peers);
            let news = task.wait_for(deadline, &mut |task| {
                let mut all = underway.iter_mut().enumerate();
                let came = all.find_map(|(at, op)| Some(News::Of(at, op.news(task, peers)?)));
                came.or_else(|| peers.has_news(task).then_some(News::Notice))
            })?;
            let (at, came) = match news {
                Some(News::Of(at, came)) => (at, came),
                Some(News::Notice) => {
                    self.listen(task);
                    continue;
                }
                None => return Ok(false),
            };
            let Some(machine) = &mut self.underway[at].machine else { continue };
            match came {
                Came::Message(message) => hand(machine, &self.peers, message),
                Came::Host => machine.host_arrived(),
                // Ends come after the last message, and messages were looked for first.
                Came::Ends(ranks) => ranks.iter().for_each(|rank| machine.member_lost(*rank)),
            }
            self.go_on(task, at);
        }
        Ok(true)
    }

    fn go_on(&mut self, task: &mut Task, at: usize) {
        let op = &mut self.underway[at];
        let meeting = self.meeting.as_mut().map(|(meeting, _)| meeting);
        match op.go_on(task, &mut self.peers, meeting) {
            Ok(None) => {}
            Ok(Some(output)) => {
                op.result = Some(Ok(output));
                if let Some(offer) = op.offer.take() {
                    self.agree(task, at, offer);
                }
            }
            Err(e) => self.fails_by(task, at, e),
        }
    }

    /// Hears what members tell of the team.
    fn listen(&mut self, task: &mut Task) {
        self.peers.listen(task);
        self.peers.news = false;
        let standing = &self.peers.standing;
        let open = self.underway.iter().filter(|op| op.result.is_none());
        let broken = open.map(|op| op.number).find_map(|n| Some((n, standing.error_of(n)?)));
        if let Some((number, error)) = broken {
            self.fail(task, number, error);
        }
    }

    /// Why the team is broken from its next operation on, if a member tells so, or this one of them
    /// has ended: then all are told.
    pub(crate) fn breaks(&mut self, task: &mut Task, rank: u32) -> Option<TeamError> {
        self.listen(task);
        let number = self.next;
        let ended = || self.peers.has_ended(rank).then_some(CollectiveError::MemberLost { rank });
        let error = self.peers.standing.error_of(number).or_else(ended)?;
        self.fail(task, number, error);
        Some(error.into())
    }

    /// The operation at `at` fails by `why`, and so does the team.
    fn fails_by(&mut self, task: &mut Task, at: usize, why: TeamError) {
        let error = match why {
            TeamError::Collective(error) => error,
            _ => CollectiveError::GaveUp { rank: self.rank() },
        };
        let op = &mut self.underway[at];
        let number = op.number;
        op.result = Some(Err(why));
        self.fail(task, number, error);
    }

    /// Operation `number` fails by `error`: so does all that is not over, and the others are told.
    fn fail(&mut self, task: &mut Task, number: u32, error: CollectiveError) {
        self.has_failed = true;
        if let Some((meeting, _)) = &mut self.meeting {
            meeting.keep();
        }
        let mut first = None;
        for op in &mut self.underway {
            if op.result.is_none() || op.number == number {
                first.get_or_insert(op.number);
                (op.machine, op.meets) = (None, None);
                op.offer.take().into_iter().for_each(Offer::keep);
                op.result.get_or_insert(Err(error.into()));
            }
        }
        let own = self.rank();
        if let Some(say) = self.peers.standing.fail(first.unwrap_or(number), error) {
            self.peers.tell(task, own, &say);
        }
    }

    /// Throws results away that nobody can ask for.
    fn throw_away(&mut self) {
        self.underway.retain(|op| op.result.is_none() || !op.is_dropped());
    }

    /// Drops what came of operations before number `next`, which are all over since one failed.
    /// What is still under way of them is dropped by one of the next calls.
    fn drop_old(&self, task: &mut Task, next: u32) {
        let waiting = task.endpoint.store().iter_context(self.peers.context);
        let is_old = |tag: Tag| next.wrapping_sub(tag as u32).cast_signed() > 0;
        let old = waiting.filter(|(_, waiting)| is_old(waiting.key.tag));
        let old: Vec<Ticket> = old.map(|(ticket, _)| ticket).collect();
        for ticket in old {
            task.endpoint.take_ticket(ticket);
        }
    }
}
