//! One task of a virtual machine as a rank: collectives are the machine's own.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use towpath::task::collective::Lengths;
use towpath::task::{SendError, Subject, Team, TeamError, WatchEvent};
use towpath::{Event, Plain, Task, TaskId, Wanted};

use super::arrays::joined;
use super::pool::Pool;
use super::{Arrays, Exchange, ExchangeError, Result};

/// A task, and the team of all tasks of its job.
pub(crate) struct Machine {
    task: Task,
    team: Team,
    members: Vec<TaskId>,
    standing: Vec<Standing>,
    looked: Instant,
}

fn machine(error: impl std::fmt::Display) -> ExchangeError {
    ExchangeError::Machine(error.to_string())
}

/// How one stands to the work of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Works,
    /// It has done its part.
    Left,
    /// It ended otherwise: there will be no answer.
    Lost,
}

/// So often a task that works looks whether all are there.
const LOOK: Duration = Duration::from_millis(20);

impl Machine {
    /// Enrols; waits for all tasks of the job. None: no job started this process.
    pub(crate) fn enrol(name: &str) -> anyhow::Result<Option<Self>> {
        let Some(size) = Task::size() else { return Ok(None) };
        let mut task = Task::enrol().context("no task of a virtual machine")?;
        // Groups are the whole virtual machine's: the job's name keeps two runs apart.
        let group = format!("{name} of {}", Task::job().unwrap_or_default());
        let team = task.team(&group, size)?;
        let members = team.members().to_vec();
        let own = task.id();
        for member in members.iter().filter(|member| **member != own) {
            task.watch(Subject::Task(*member))?;
        }
        let standing = vec![Standing::Works; members.len()];
        Ok(Some(Self { task, team, members, standing, looked: Instant::now() }))
    }

    /// Ends in order: what was sent has left.
    pub(crate) fn leave(self) -> anyhow::Result<()> {
        drop(self.team);
        Ok(self.task.leave()?)
    }

    fn rank_of(&self, task: TaskId) -> Option<usize> {
        self.members.iter().position(|member| *member == task)
    }

    /// Notes who has ended; whether anything happened.
    fn hear(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(event) = self.task.next_event() {
            any = true;
            match event {
                Event::Notice { event: WatchEvent::TaskEnded { task, ending }, .. } => {
                    if let Some(rank) = self.rank_of(task) {
                        let done = ending.is_none_or(|ending| ending.is_success());
                        self.standing[rank] = if done { Standing::Left } else { Standing::Lost };
                    }
                }
                Event::End(why) => return Err(ExchangeError::Machine(why)),
                _ => {}
            }
        }
        Ok(any)
    }
}

/// All ranks have as many values, so that they can be received where they shall be.
fn are_equal(counts: &[usize]) -> bool {
    counts.windows(2).all(|pair| pair[0] == pair[1])
}

impl Machine {
    /// Whoever waits for one of the others waits in vain once some other is lost, too: what that
    /// one was to do is missing.
    fn all_are_there(&self) -> Result<()> {
        match self.standing.iter().position(|standing| *standing == Standing::Lost) {
            Some(rank) => Err(ExchangeError::Ended { rank }),
            None => Ok(()),
        }
    }

    fn of_send(&self, error: SendError) -> ExchangeError {
        match error {
            SendError::NoTask(task) => match self.rank_of(task) {
                Some(rank) => ExchangeError::Ended { rank },
                None => machine(error),
            },
            _ => machine(error),
        }
    }

    /// What a team says of a member that is lost has its own words.
    fn of_team<T>(&self, done: std::result::Result<T, TeamError>) -> Result<T> {
        done.map_err(|error| match error {
            TeamError::Send(error) => self.of_send(error),
            _ => machine(error),
        })
    }
}

impl<T: Plain> Arrays<T> for Machine {
    fn broadcast_slice(&mut self, root: usize, values: &mut [T]) -> Result<()> {
        let done = self.team.broadcast_slice(&mut self.task, root as u32, values);
        self.of_team(done)
    }

    fn gather_parts(&mut self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        let done = self.team.gather_slice(&mut self.task, root as u32, values);
        self.of_team(done)
    }

    fn all_gather_parts(&mut self, values: &[T]) -> Result<Vec<Vec<T>>> {
        let done = self.team.all_gather_parts(&mut self.task, values);
        self.of_team(done)
    }

    fn all_to_all_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>> {
        let done = self.team.all_to_all_counts(&mut self.task, values, counts);
        self.of_team(done)
    }

    fn gather_counts(
        &mut self,
        root: usize,
        values: &[T],
        counts: &[usize],
    ) -> Result<Option<Vec<T>>> {
        if !are_equal(counts) {
            let parts = self.gather_parts(root, values)?;
            return parts.map(|parts| joined(&parts, counts)).transpose();
        }
        let mut all = (self.rank() == root).then(|| vec![T::ZERO; counts.iter().sum()]);
        let into = all.as_deref_mut();
        let done = self.team.gather_into(&mut self.task, root as u32, values, into);
        self.of_team(done)?;
        Ok(all)
    }

    fn all_gather_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<T>> {
        if !are_equal(counts) {
            return joined(&self.all_gather_parts(values)?, counts);
        }
        let mut all = vec![T::ZERO; counts.iter().sum()];
        let done = self.team.all_gather_slice(&mut self.task, values, &mut all);
        self.of_team(done)?;
        Ok(all)
    }
}

impl Exchange for Machine {
    fn task(&mut self) -> Option<&mut Task> {
        Some(&mut self.task)
    }

    fn rest(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.task.wait(Some(left)).map_err(machine)?;
        }
    }

    fn rank(&self) -> usize {
        self.team.rank() as usize
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        let sent = self.task.send(self.members[to], tag, bytes);
        sent.map_err(|error| self.of_send(error))
    }

    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
        loop {
            if let Some(got) = self.try_recv(from, tag)? {
                return Ok(got);
            }
            // That has also taken in events, for which a wait would not end. They come in order
            // with messages: an end is told after the last message, for which to look once more.
            if self.hear()? {
                continue;
            }
            self.all_are_there()?;
            let is_over = |rank: usize| self.standing[rank] != Standing::Works;
            if let Some(rank) = from.filter(|from| is_over(*from)) {
                return Err(ExchangeError::Ended { rank });
            }
            let others = |rank: &usize| *rank != self.rank();
            if (0..self.size()).filter(others).all(is_over) {
                return Err(ExchangeError::Ended { rank: usize::from(self.rank() == 0) });
            }
            self.task.wait(None).map_err(machine)?;
        }
    }

    fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>> {
        let source = from.map(|from| self.members[from]);
        let wanted = Wanted { source, tag: Some(tag.into()), context: 0 };
        let Some(message) = self.task.try_recv(&wanted).map_err(machine)? else { return Ok(None) };
        let rank = self.rank_of(message.about().src);
        let rank = rank.ok_or_else(|| machine("a message of a task of another job"))?;
        Ok(Some((rank, message.into_bytes())))
    }

    fn broadcast(&mut self, root: usize, data: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let data = data.filter(|_| self.rank() == root);
        let done = self.team.broadcast(&mut self.task, root as u32, data);
        self.of_team(done)
    }

    fn gather(&mut self, root: usize, data: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>> {
        let done = self.team.gather(&mut self.task, root as u32, data, Lengths::Any);
        self.of_team(done)
    }

    fn all_to_all(&mut self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let done = self.team.all_to_all(&mut self.task, parts, Lengths::Any);
        self.of_team(done)
    }

    fn all_gather(&mut self, data: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let done = self.team.all_gather(&mut self.task, data, Lengths::Any);
        self.of_team(done)
    }

    fn pool(&mut self, items: u64) -> Pool {
        Pool::Machine(towpath::Pool::new(&self.team, items))
    }

    fn next_item(&mut self, pool: &mut Pool) -> Result<Option<u64>> {
        self.check()?;
        match pool {
            Pool::Machine(pool) => {
                let next = pool.next(&mut self.task, &mut self.team);
                self.of_team(next)
            }
            Pool::Messages(_) => unreachable!("a pool is asked through the exchange that made it"),
        }
    }

    fn check(&mut self) -> Result<()> {
        let now = Instant::now();
        if now - self.looked < LOOK {
            return Ok(());
        }
        self.looked = now;
        self.task.poll().map_err(machine)?;
        self.hear()?;
        self.all_are_there()
    }
}
