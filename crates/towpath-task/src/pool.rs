//! A pool of work: numbered items that the members of a team do, whoever has time.
//!
//! Each member begins with its share of the numbers. One that has done its own asks the others, in
//! an order of its own, for half of what they have left. Nothing is made or lost on the way, so
//! each item is done once; the pool is over for a member when none of the others had anything, and
//! for all of them when that is so for all.

use std::ops::Range;

use towpath_vm::collective::Operation;
use towpath_vm::matching::Wanted;
use towpath_wire::talk::Tag;

use crate::task::Task;
use crate::team::Team;
use crate::team_error::TeamError;

/// In the team's own context, apart from operations, which count from 0, and from notices.
const ASK: Tag = i32::MIN as Tag + 0x10;
const GIVE: Tag = i32::MIN as Tag + 0x11;

/// What a member has left of a pool of numbered items.
///
/// ```no_run
/// use towpath_task::{Job, Pool};
/// let mut job = Job::enrol()?;
/// let mut pool = Pool::new(&job.team, 1000);
/// let mut mine = 0_u64;
/// while let Some(item) = pool.next(&mut job.task, &mut job.team)? {
///     mine += item * item; // whatever there is to do
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    /// What is left here, behind the item that is being done.
    own: Range<u64>,
    /// How many were asked since the last that had something.
    asked: u32,
    is_over: bool,
    /// Items that came from others.
    stolen: u64,
}

impl Pool {
    /// A pool of the items 0 to `items` − 1; every member makes it alike.
    pub fn new(team: &Team, items: u64) -> Self {
        let (rank, size) = (u128::from(team.rank()), u128::from(team.size()));
        let share = |rank: u128| (u128::from(items) * rank / size) as u64;
        let own = share(rank)..share(rank + 1);
        Self { own, asked: 0, is_over: false, stolen: 0 }
    }

    /// Items that this member took from others so far.
    pub const fn stolen(&self) -> u64 {
        self.stolen
    }

    /// The next item to do; `None`, to all members at the same time, when all are done or being
    /// done.
    /// Others are served here: while an item is being done they wait.
    pub fn next(&mut self, task: &mut Task, team: &mut Team) -> Result<Option<u64>, TeamError> {
        task.poll()?;
        self.serve(task, team)?;
        loop {
            if let Some(item) = self.own.next() {
                return Ok(Some(item));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.asked + 1 < team.size() {
                self.ask(task, team)?;
            } else {
                self.end(task, team)?;
            }
        }
    }

    /// Answers those that ask for work.
    fn serve(&mut self, task: &mut Task, team: &Team) -> Result<(), TeamError> {
        let wanted = Wanted::any().tag(ASK).context(team.peers.context);
        while let Some(asked) = task.endpoint.take(&wanted) {
            let left = self.own.end - self.own.start;
            // One item less than half where it is odd: it may be soon done here.
            let given = self.own.end - left / 2..self.own.end;
            self.own.end = given.start;
            team.tell_pool(task, asked.key.source, GIVE, &[given.start, given.end])?;
        }
        Ok(())
    }

    /// Asks the next of the others.
    fn ask(&mut self, task: &mut Task, team: &mut Team) -> Result<(), TeamError> {
        self.asked += 1;
        let (rank, size) = (u64::from(team.rank()), u64::from(team.size()));
        let victim = (rank + u64::from(self.asked)) % size;
        let to = team.member(victim as u32);
        team.tell_pool(task, to, ASK, &[])?;
        let given = Wanted::any().from(to).tag(GIVE).context(team.peers.context);
        let asks = Wanted::any().tag(ASK).context(team.peers.context);
        loop {
            let over = &team.peers;
            let came = task.wait_for(crate::deadline::Deadline::NEVER, &mut |task| {
                let is_here = task.endpoint.probe(&given).is_some();
                let has_ended = over.has_ended(victim as u32) || over.has_news(task);
                (is_here || has_ended || task.endpoint.probe(&asks).is_some()).then_some(())
            })?;
            debug_assert!(came.is_some(), "a wait without end");
            self.serve(task, team)?;
            if let Some(message) = task.endpoint.take(&given) {
                let message = crate::message::Message::new(message);
                if let [start, end] = *message.to_values::<u64>()?
                    && start < end
                {
                    self.stolen += end - start;
                    self.own = start..end;
                    self.asked = 0;
                }
                return Ok(());
            }
            // What it had is lost with it. Not by a barrier: that waits for those who wait here.
            if let Some(error) = team.breaks(task, victim as u32) {
                return Err(error);
            }
        }
    }

    /// Nobody has anything: waits until that is so for all.
    fn end(&mut self, task: &mut Task, team: &mut Team) -> Result<(), TeamError> {
        let pending = team.start(task, Operation::Barrier)?;
        let asks = Wanted::any().tag(ASK).context(team.peers.context);
        loop {
            self.serve(task, team)?;
            if team.test(task, &pending)? {
                team.finish(task, pending)?;
                self.is_over = true;
                return Ok(());
            }
            // What came meanwhile does not end a wait.
            if task.endpoint.probe(&asks).is_none() {
                task.wait(None)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use towpath_wire::HostId;

    use super::*;
    use crate::message::Envelope;
    use crate::plain::Plain;
    use crate::tests::actors::{all, crowd, enrol, sent};
    use crate::tests::stage::Stage;

    #[test]
    fn one_that_has_done_its_own_asks_the_next_for_half_of_the_rest() {
        let (mut tasks, _sides) = crowd(3);
        let members: Vec<_> = tasks.iter().map(Task::id).collect();
        let done = all(&mut tasks, |n, task| {
            let mut team = task.team_of(&members).unwrap();
            let mut pool = Pool::new(&team, 300);
            assert_eq!(pool.own, 100 * n as u64..100 * (n as u64 + 1));
            if n > 0 {
                // Nothing is done here before somebody asks.
                let asks = Wanted::any().tag(ASK).context(team.peers.context);
                let asked = |task: &mut Task| task.endpoint.probe(&asks).map(|_| ());
                task.wait_for(crate::deadline::Deadline::NEVER, &mut { asked }).unwrap();
            }
            let mut items = Vec::new();
            while let Some(item) = pool.next(task, &mut team).unwrap() {
                items.push(item);
            }
            assert_eq!(pool.asked, 2, "each of the others, and nobody else");
            (items, pool.stolen())
        });
        assert!(done[0].0[..101].iter().copied().eq((0..100).chain([150])));
        assert!(done[0].1 >= 50 && done[1].0[0] == 100 && done[2].0[0] == 200);
        let stolen: u64 = done.iter().map(|(_, stolen)| stolen).sum();
        let mut items: Vec<u64> = done.into_iter().flat_map(|(items, _)| items).collect();
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..300), "each is done once");
        assert!(stolen >= 100, "of both others");
    }

    #[test]
    fn half_of_what_is_left_is_given_to_who_asks_and_what_is_given_is_taken() {
        let (mut task, mut side) = enrol(&mut Stage::new(), 1);
        let peer = HostId::new(2, 1).unwrap().task(1).unwrap();
        let mut team = task.team_of(&[peer, task.id()]).unwrap();
        let mut pool = Pool::new(&team, 10);
        assert_eq!(pool.own, 5..10);
        let context = team.peers.context;
        let say = |task: &mut Task, tag, values: &[u64]| {
            let format = u64::CODE.format();
            task.post(peer, Envelope { tag, context, format }, u64::bytes(values).into_owned());
        };
        say(&mut task, ASK, &[]);
        pool.serve(&mut task, &team).unwrap();
        assert_eq!(pool.own, 5..8);
        let given = [8_u64, 10].map(u64::to_ne_bytes).concat();
        assert_eq!(sent(&mut side, peer), [(0, GIVE, given)]);
        for (given, own, stolen) in [([20, 50], 20..50, 30), ([60, 61], 60..61, 31)] {
            say(&mut task, GIVE, &given);
            pool.ask(&mut task, &mut team).unwrap();
            assert_eq!((&pool.own, pool.stolen(), pool.asked), (&own, stolen, 0));
        }
        // Nothing, or what is no part of a pool.
        for given in [[7, 7], [9, 3]] {
            pool.asked = 0;
            say(&mut task, GIVE, &given);
            pool.ask(&mut task, &mut team).unwrap();
            assert_eq!((&pool.own, pool.stolen(), pool.asked), (&(60..61), 31, 1));
        }
        pool.asked = 0;
        // What it had is lost with it.
        team.peers.over[0].store(true, std::sync::atomic::Ordering::Relaxed);
        let lost = pool.ask(&mut task, &mut team).unwrap_err();
        assert!(matches!(lost, TeamError::Collective(_)), "{lost}");
    }
}
