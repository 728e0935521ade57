//! The state machine that a caller drives, around the program of one member.
//!
//! Each operation is written down as the sequence of what one member does, in an `async fn` that
//! waits only for messages; the compiler makes the states. No executor is involved: the machine
//! runs the program whenever something has come.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::error::{CollectiveError, StartError};
use super::format::{Call, DATA};
use super::operation::{Operation, Output};
use super::payload::Payload;
use super::team::Team;

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Goes in the header's `format` field.
    pub format: u32,
    /// The body: these bytes, one part behind the other.
    pub parts: Vec<Payload>,
}

/// How the members of one host meet without messages, where the caller can let them
/// ([`Settings::host_stage`](super::Settings::host_stage)): by words in memory that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStage {
    /// Show that this member has arrived. When all members of the host have, call
    /// [`Collective::host_arrived`].
    Arrive,
    /// Show, as the member of the host with the lowest rank, that the others may go on: they are
    /// to get [`Collective::host_released`].
    Release,
}

/// What the caller is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send to one member.
    Send {
        /// Its rank.
        to: u32,
        /// What to send.
        message: Message,
    },
    /// Send the same to several members: one after the other, unless there is a better way.
    Multicast {
        /// Their ranks, two or more.
        to: Rc<[u32]>,
        /// What to send.
        message: Message,
    },
    /// Meet the other members of the host.
    Host(HostStage),
}

/// What has come, and what is to go. Invariant: `failed` is set once.
#[derive(Debug, Default)]
struct Traffic {
    out: VecDeque<Step>,
    /// Whom the program waits for. Nothing of theirs is in `inbox` then.
    awaited: Option<u32>,
    /// The first message of `awaited` since.
    given: Option<Payload>,
    /// What else has come and is not used yet, by sender and number.
    inbox: BTreeMap<(u32, u64), Payload>,
    /// Messages that have come; the number of the next.
    arrived: u64,
    /// Those from whom nothing more comes.
    ended: BTreeSet<u32>,
    /// Why nothing can go on, whoever is waited for.
    failed: Option<CollectiveError>,
    /// Every message of a reduction ends with this: the length of the whole vector.
    trailer: Option<Payload>,
    host_arrived: bool,
    host_released: bool,
}

/// One member's view of one operation, for its program.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) team: Rc<Team>,
    call: Call,
    traffic: Rc<RefCell<Traffic>>,
}

impl Member {
    fn message(&self, mut parts: Vec<Payload>) -> Message {
        parts.extend(self.traffic.borrow().trailer.clone());
        Message { format: self.call.format(DATA), parts }
    }

    pub(super) fn send(&self, to: u32, parts: Vec<Payload>) {
        let message = self.message(parts);
        self.traffic.borrow_mut().out.push_back(Step::Send { to, message });
    }

    pub(super) fn multicast(&self, to: &[u32], parts: Vec<Payload>) {
        match *to {
            [] => {}
            [to] => self.send(to, parts),
            _ => {
                let message = self.message(parts);
                self.traffic.borrow_mut().out.push_back(Step::Multicast { to: to.into(), message });
            }
        }
    }

    /// The next message of `from`.
    pub(super) async fn receive(&self, from: u32) -> Result<Payload, CollectiveError> {
        poll_fn(|_| {
            let traffic = &mut *self.traffic.borrow_mut();
            if let Some(error) = traffic.failed {
                return Poll::Ready(Err(error));
            }
            if let Some(body) = traffic.next_of(from) {
                traffic.awaited = None;
                return Poll::Ready(Ok(body));
            }
            traffic.awaited = Some(from);
            if traffic.ended.contains(&from) {
                return Poll::Ready(Err(CollectiveError::MemberLost { rank: from }));
            }
            Poll::Pending
        })
        .await
    }

    /// Shows that this member has arrived and waits for the others of its host.
    pub(super) async fn meet_on_host(&self) -> Result<(), CollectiveError> {
        self.traffic.borrow_mut().out.push_back(Step::Host(HostStage::Arrive));
        self.host_stage(|traffic| traffic.host_arrived, self.team.host_members()).await
    }

    /// Lets the others of the host go on.
    pub(super) fn release_host(&self) {
        self.traffic.borrow_mut().out.push_back(Step::Host(HostStage::Release));
    }

    /// Waits until the host's first member lets the others go on.
    pub(super) async fn wait_for_release(&self) -> Result<(), CollectiveError> {
        self.host_stage(|traffic| traffic.host_released, &self.team.host_members()[..1]).await
    }

    async fn host_stage(
        &self,
        done: fn(&Traffic) -> bool,
        needed: &[u32],
    ) -> Result<(), CollectiveError> {
        poll_fn(|_| {
            let traffic = self.traffic.borrow();
            if let Some(error) = traffic.failed {
                return Poll::Ready(Err(error));
            }
            if done(&traffic) {
                return Poll::Ready(Ok(()));
            }
            match needed.iter().find(|rank| traffic.ended.contains(rank)) {
                Some(&rank) => Poll::Ready(Err(CollectiveError::MemberLost { rank })),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Makes every message carry `total`, the length that all members' vectors must have.
    pub(super) fn all_have(&self, total: usize) {
        let trailer = Payload::from((total as u64).to_le_bytes().to_vec());
        self.traffic.borrow_mut().trailer = Some(trailer);
    }
}

type Program = Pin<Box<dyn Future<Output = Result<Output, CollectiveError>>>>;

/// One collective operation, as one member takes part in it. See the [module](super) for how to
/// drive it.
pub struct Collective {
    team: Rc<Team>,
    call: Call,
    program: Option<Program>,
    traffic: Rc<RefCell<Traffic>>,
    result: Option<Result<Output, CollectiveError>>,
    /// Something has come that the program has not seen.
    news: bool,
}

impl Collective {
    /// Begins `operation`. Nothing is sent before the first [`Self::poll_send`].
    pub fn new(team: &Rc<Team>, operation: Operation) -> Result<Self, StartError> {
        Self::of_type(team, operation, 0)
    }

    /// The same where members compare of which type they say that their data are, too: `kind` is a
    /// number for it, 0 where nothing is said. Operators of elements say it already.
    pub fn of_type(team: &Rc<Team>, operation: Operation, kind: u8) -> Result<Self, StartError> {
        operation.check(team)?;
        let call = operation.call(team).of_type(kind);
        let traffic = Rc::new(RefCell::new(Traffic::default()));
        let member = Member { team: team.clone(), call, traffic: traffic.clone() };
        let program = Some(operation.program(member));
        let team = team.clone();
        let mut collective = Self { team, call, program, traffic, result: None, news: true };
        // So that it knows what to expect before anything comes.
        collective.run();
        Ok(collective)
    }

    fn run(&mut self) {
        let Some(program) = self.program.as_mut().filter(|_| self.news) else { return };
        self.news = false;
        let Poll::Ready(result) = program.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return;
        };
        self.program = None;
        let traffic = &mut *self.traffic.borrow_mut();
        traffic.inbox.clear();
        traffic.given = None;
        self.result = Some(result);
    }

    /// What is to be sent next; `None` until something more has come.
    pub fn poll_send(&mut self) -> Option<Step> {
        let next = self.traffic.borrow_mut().out.pop_front();
        if next.is_some() {
            return next;
        }
        self.run();
        self.traffic.borrow_mut().out.pop_front()
    }

    /// Takes a message of the member `from`. Panics when there is no such rank.
    pub fn handle(&mut self, from: u32, format: u32, body: Payload) {
        assert!(from < self.team.size(), "rank {from} in a team of {}", self.team.size());
        if self.program.is_none() {
            return;
        }
        self.news = true;
        let limit = 16 * u64::from(self.team.size()) + 256;
        let traffic = &mut *self.traffic.borrow_mut();
        if let Err(error) = traffic.take(from, format, body, self.call, limit) {
            traffic.failed.get_or_insert(error);
        }
    }

    /// Takes note that nothing more comes from `rank`: it has ended, and all that it had sent has
    /// been given to [`Self::handle`]. Who needs something of it fails; others go on.
    pub fn member_lost(&mut self, rank: u32) {
        self.news = true;
        self.traffic.borrow_mut().ended.insert(rank);
    }

    /// Takes note that all members of this host have arrived; see [`HostStage::Arrive`].
    pub fn host_arrived(&mut self) {
        self.news = true;
        self.traffic.borrow_mut().host_arrived = true;
    }

    /// Takes note that the host's first member lets the others go on; see [`HostStage::Release`].
    pub fn host_released(&mut self) {
        self.news = true;
        self.traffic.borrow_mut().host_released = true;
    }

    /// The result, once. [`Self::poll_send`] may still have something for others then. An error is
    /// for [`Standing::fail`](super::Standing::fail).
    pub fn poll_result(&mut self) -> Option<Result<Output, CollectiveError>> {
        self.run();
        self.result.take()
    }
}

impl Traffic {
    fn next_of(&mut self, from: u32) -> Option<Payload> {
        if self.awaited == Some(from) {
            return self.given.take();
        }
        if self.inbox.is_empty() {
            return None;
        }
        let (&key, _) = self.inbox.range((from, 0)..=(from, u64::MAX)).next()?;
        self.inbox.remove(&key)
    }

    fn take(
        &mut self,
        from: u32,
        format: u32,
        mut body: Payload,
        call: Call,
        limit: u64,
    ) -> Result<(), CollectiveError> {
        let malformed = CollectiveError::Malformed { rank: from };
        let (got, phase) = Call::parse(format);
        if got != call {
            return Err(CollectiveError::Operation { rank: from, got, expected: call });
        }
        if phase != DATA {
            return Err(malformed);
        }
        if let Some(trailer) = &self.trailer {
            let end = body.len().checked_sub(8).ok_or(malformed)?;
            let (total, expected) = (body.slice(end..body.len()), trailer);
            if total != *expected {
                let figure =
                    |p: &Payload| p.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let (got, expected) = (figure(&total), figure(expected));
                return Err(CollectiveError::Length { rank: from, got, expected });
            }
            body = body.slice(0..end);
        }
        if self.inbox.len() as u64 >= limit {
            return Err(CollectiveError::Flooded { rank: from, limit });
        }
        if self.awaited == Some(from) && self.given.is_none() {
            self.given = Some(body);
        } else {
            self.inbox.insert((from, self.arrived), body);
            self.arrived += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.program.is_some() { "open" } else { "ended" };
        write!(f, "{} at rank {}, {state}", self.call, self.team.rank)
    }
}
