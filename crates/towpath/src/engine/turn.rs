//! What a turn of the engine does, and when it ends.
//!
//! Whoever has something (a task, a client, the control thread) is a *job* with a deadline: how
//! long its kind may wait from the moment that it was seen. A turn takes jobs by their deadlines,
//! a bounded piece of each, until its time or its bytes are used up; what is left keeps its
//! deadline for the next turn. So nobody waits for ever, however much others have. Timers of the
//! node and links that are held back have deadlines, too: the moment they are due.
//!
//! Between two turns datagrams are received and sent, which links bound by themselves: no task, and
//! no number of them, keeps the network waiting for longer than a turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem;
use std::time::Duration;

use towpath_proto::Machine;
use towpath_wire::Instant;
use towpath_wire::histogram::Histogram;

use super::core::{Engine, EngineError};
use super::held::KEY_HELD;
use super::tasks::KEY_TASKS;

/// A turn takes no further job after so long.
pub(super) const TURN_TIME: Duration = Duration::from_micros(500);
/// A turn takes no further job after so many bytes of them.
pub(super) const TURN_BYTES: u64 = 1 << 20;
/// How long tasks may wait while others are served, and how long clients and the rest.
const TASKS_WAIT: Duration = Duration::from_micros(500);
const OTHERS_WAIT: Duration = Duration::from_millis(2);

/// Something that is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) key: u64,
    /// It can be written to.
    pub(super) writable: bool,
    pub(super) deadline: Instant,
}

/// What serving a job came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) bytes: u64,
    /// There is more of it that nobody will report: it is a job again, behind those that wait.
    pub(super) more: bool,
}

/// Jobs by their deadlines. Invariant: `order` has an entry for each of `jobs`, and no other.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    jobs: HashMap<u64, Job>,
    order: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Agenda {
    /// `key` has something. Where it waits already its deadline stays.
    pub(super) fn add(&mut self, key: u64, writable: bool, deadline: Instant) {
        let order = &mut self.order;
        let job = self.jobs.entry(key).or_insert_with(|| {
            order.push(Reverse((deadline, key)));
            Job { key, writable, deadline }
        });
        job.writable |= writable;
    }

    fn first(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((deadline, _))| *deadline)
    }

    fn pop(&mut self) -> Option<Job> {
        let Reverse((_, key)) = self.order.pop()?;
        self.jobs.remove(&key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Whose turns these are.
pub(super) trait Works {
    /// What ends everything.
    type Error;
    fn now(&self) -> Instant;
    /// When something is due that is no job.
    fn due(&self) -> Option<Instant>;
    /// It is time for that.
    fn keep_time(&mut self) -> Result<(), Self::Error>;
    /// Serves a piece of a job.
    fn serve(&mut self, job: Job) -> Served;
    /// How long a job may wait from now on.
    fn patience(&self, key: u64) -> Duration;
}

/// Serves jobs, earliest deadline first, until the turn that began at `began` is over: bytes of
/// them, and whether that was for want of jobs. One is served at least.
pub(super) fn serve<W: Works>(
    agenda: &mut Agenda,
    works: &mut W,
    began: Instant,
) -> Result<(u64, bool), W::Error> {
    let (until, mut bytes) = (began + TURN_TIME, 0);
    while let Some(deadline) = agenda.first() {
        let due = works.due().filter(|due| *due <= deadline && *due <= works.now());
        if due.is_some() {
            works.keep_time()?;
        }
        let Some(job) = agenda.pop() else { break };
        let served = works.serve(job);
        bytes += served.bytes;
        let now = works.now();
        if served.more {
            agenda.add(job.key, false, now + works.patience(job.key));
        }
        if (now >= until || bytes >= TURN_BYTES) && !agenda.is_empty() {
            return Ok((bytes, false));
        }
    }
    Ok((bytes, true))
}

/// What waits for a turn, and the present one.
#[derive(Debug, Default)]
pub(super) struct Pending {
    agenda: Agenda,
    pub(super) turns: Turns,
    /// The node wanted more than was carried out.
    pub(super) rushed: bool,
    /// When the wall clock is to be read again.
    pub(super) follow_at: Instant,
    /// Whoever leads has taken this host out.
    pub(super) is_deleted: bool,
    /// It is to end, at the latest then.
    pub(super) ends_by: Option<Instant>,
    /// When the present turn began.
    began: Instant,
    /// Bytes of all links until the last turn was over.
    moved: u64,
    /// Bytes of jobs in the present turn.
    bytes: u64,
}

impl Works for Engine {
    type Error = EngineError;

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn due(&self) -> Option<Instant> {
        let timer = self.node.poll_timeout().map(|(at, _)| at);
        timer.into_iter().chain(self.network.held_until()).min()
    }

    fn keep_time(&mut self) -> Result<(), EngineError> {
        self.fire_timers(self.clock.now());
        self.transmit()
    }

    fn serve(&mut self, job: Job) -> Served {
        self.serve_key(job)
    }

    fn patience(&self, key: u64) -> Duration {
        if (KEY_TASKS..KEY_HELD).contains(&key) { TASKS_WAIT } else { OTHERS_WAIT }
    }
}

impl Engine {
    /// Something waits at `key`.
    pub(super) fn is_ready(&mut self, key: u64, writable: bool) {
        let deadline = self.pending.began + self.patience(key);
        self.pending.agenda.add(key, writable, deadline);
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.pending.agenda.is_empty()
    }

    pub(super) fn turn_begins(&mut self) {
        self.pending.began = self.clock.now();
        self.pending.bytes = 0;
    }

    /// Serves what waits, as much as fits into the present turn.
    pub(super) fn serve_jobs(&mut self) -> Result<(), EngineError> {
        let (mut agenda, began) = (mem::take(&mut self.pending.agenda), self.pending.began);
        let served = serve(&mut agenda, self, began);
        // Nothing becomes ready while jobs are served.
        self.pending.agenda = agenda;
        let (bytes, all) = served?;
        self.pending.bytes = bytes;
        self.pending.turns.cut += u64::from(!all);
        Ok(())
    }

    /// All that belongs to the present turn is done.
    pub(super) fn turn_over(&mut self) {
        let (now, moved) = (self.clock.now(), self.network.moved());
        let Pending { began, bytes, moved: before, .. } = self.pending;
        self.pending.turns.over(now.since(began), moved - before + bytes);
        self.pending.moved = moved;
    }
}

/// What turns have cost so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Microseconds of each, without waiting.
    pub(super) time: Histogram,
    /// Bytes that each moved: of links, tasks and clients.
    pub(super) bytes: Histogram,
    /// Those that ended before everything was done.
    pub(super) cut: u64,
}

impl Turns {
    /// One is over.
    pub(super) fn over(&mut self, time: Duration, bytes: u64) {
        self.time.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        self.bytes.record(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + us(n)
    }

    /// Serving a piece takes 40 us and is `piece` bytes; some have more pieces than one.
    #[derive(Default)]
    struct Played {
        now: Instant,
        piece: u64,
        pieces: HashMap<u64, u32>,
        due: Option<Instant>,
        done: Vec<(u64, Instant)>,
        /// When timers were looked after.
        kept: Vec<Instant>,
    }

    impl Works for Played {
        type Error = ();
        fn now(&self) -> Instant {
            self.now
        }
        fn due(&self) -> Option<Instant> {
            self.due
        }
        fn keep_time(&mut self) -> Result<(), ()> {
            self.due = None;
            self.kept.push(self.now);
            Ok(())
        }
        fn serve(&mut self, job: Job) -> Served {
            self.now += us(40);
            self.done.push((job.key, self.now));
            let left = self.pieces.entry(job.key).or_insert(1);
            *left -= 1;
            Served { bytes: self.piece, more: *left > 0 }
        }
        fn patience(&self, _: u64) -> Duration {
            us(1000)
        }
    }

    fn keys(works: &Played) -> Vec<u64> {
        works.done.iter().map(|(key, _)| *key).collect()
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_what_is_left_keeps_its_own() {
        let mut agenda = Agenda::default();
        for (key, deadline) in [(1, 900), (2, 300), (3, 600)] {
            agenda.add(key, false, at(deadline));
        }
        // Said again: it does not go behind, and what can be done with it is kept.
        agenda.add(2, true, at(5000));
        assert_eq!(agenda.jobs[&2], Job { key: 2, writable: true, deadline: at(300) });
        let mut works = Played { piece: TURN_BYTES / 2, ..Played::default() };
        assert_eq!(serve(&mut agenda, &mut works, at(0)), Ok((TURN_BYTES, false)));
        assert_eq!(keys(&works), [2, 3]);
        // One that came later with an earlier deadline overtakes; the older one is served, too.
        agenda.add(4, false, at(700));
        assert_eq!(serve(&mut agenda, &mut works, at(80)), Ok((TURN_BYTES, true)));
        assert_eq!(keys(&works), [2, 3, 4, 1]);
        assert!(agenda.is_empty() && agenda.jobs.is_empty());
    }

    #[test]
    fn a_turn_ends_in_time_however_much_there_is() {
        let mut agenda = Agenda::default();
        (0..1000).for_each(|key| agenda.add(key, false, at(1000)));
        let mut works = Played::default();
        let mut turns = 0;
        while !agenda.is_empty() {
            let began = works.now;
            assert!(serve(&mut agenda, &mut works, began).is_ok());
            assert!(works.now.since(began) <= TURN_TIME + us(40), "a piece beyond it at most");
            turns += 1;
        }
        assert_eq!((turns, works.done.len()), (1000 / 13 + 1, 1000));
    }

    #[test]
    fn one_with_much_does_not_keep_others_waiting() {
        let mut agenda = Agenda::default();
        let mut works = Played::default();
        works.pieces.insert(1, 200);
        agenda.add(1, false, at(0));
        // Each turn another one comes.
        for turn in 0..10 {
            let began = works.now;
            agenda.add(10 + turn, false, began + us(1000));
            assert!(serve(&mut agenda, &mut works, began).is_ok());
        }
        for turn in 0..10 {
            let key = 10 + turn;
            let (_, done) = works.done.iter().find(|(k, _)| *k == key).expect("it was served");
            // It came when the turn began: its patience, and the piece that was under way.
            let came = at(turn * 520);
            assert!(done.since(came) <= us(1000 + 80), "{key} waited {:?}", done.since(came));
        }
    }

    #[test]
    fn timers_that_are_due_go_before_jobs_that_can_wait() {
        let mut agenda = Agenda::default();
        agenda.add(1, false, at(50));
        agenda.add(2, false, at(500));
        let mut works = Played { due: Some(at(60)), ..Played::default() };
        // Not due yet, and later than the first: it waits for 1, then goes before 2.
        assert_eq!(serve(&mut agenda, &mut works, at(0)).map(|(_, all)| all), Ok(true));
        assert_eq!((keys(&works), works.kept), (vec![1, 2], vec![]), "40 us: not due");
        let mut works = Played { now: at(60), due: Some(at(60)), ..Played::default() };
        agenda.add(1, false, at(50));
        agenda.add(2, false, at(500));
        assert!(serve(&mut agenda, &mut works, at(60)).is_ok());
        assert_eq!((keys(&works), works.kept), (vec![1, 2], vec![at(100)]));
    }

    #[test]
    fn turns_are_counted_with_their_time_and_bytes() {
        let mut turns = Turns::default();
        turns.over(us(30), 1000);
        turns.over(us(70), 3000);
        assert_eq!((turns.time.count(), turns.time.sum(), turns.bytes.sum()), (2, 100, 4000));
        assert_eq!(turns.time.quantile(1000), 79);
    }
}
