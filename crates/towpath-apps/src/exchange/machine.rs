//! One task of a virtual machine as a rank: collectives are the machine's own.

use anyhow::Context as _;
use towpath::task::collective::Lengths;
use towpath::task::{Subject, Team, TeamError, WatchEvent};
use towpath::{Event, Plain, Task, TaskId, Wanted};

use super::arrays::joined;
use super::{Arrays, Exchange, ExchangeError, Pool, Result};

/// A task, and the team of all tasks of its job.
pub(crate) struct Machine {
    task: Task,
    team: Team,
    members: Vec<TaskId>,
    is_over: Vec<bool>,
}

fn machine(error: impl std::fmt::Display) -> ExchangeError {
    ExchangeError::Machine(error.to_string())
}

fn teams(error: TeamError) -> ExchangeError {
    machine(error)
}

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
        let is_over = vec![false; members.len()];
        Ok(Some(Self { task, team, members, is_over }))
    }

    /// Ends in order: what was sent has left.
    pub(crate) fn leave(self) -> anyhow::Result<()> {
        drop(self.team);
        Ok(self.task.leave()?)
    }

    fn rank_of(&self, task: TaskId) -> Option<usize> {
        self.members.iter().position(|member| *member == task)
    }

    /// Notes who has ended.
    fn hear(&mut self) -> Result<()> {
        while let Some(event) = self.task.next_event() {
            match event {
                Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. } => {
                    if let Some(rank) = self.rank_of(task) {
                        self.is_over[rank] = true;
                    }
                }
                Event::End(why) => return Err(ExchangeError::Machine(why)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// All ranks have as many values, so that they can be received where they shall be.
fn are_equal(counts: &[usize]) -> bool {
    counts.windows(2).all(|pair| pair[0] == pair[1])
}

impl<T: Plain> Arrays<T> for Machine {
    fn broadcast_slice(&mut self, root: usize, values: &mut [T]) -> Result<()> {
        self.team.broadcast_slice(&mut self.task, root as u32, values).map_err(teams)
    }

    fn gather_parts(&mut self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        self.team.gather_slice(&mut self.task, root as u32, values).map_err(teams)
    }

    fn all_gather_parts(&mut self, values: &[T]) -> Result<Vec<Vec<T>>> {
        self.team.all_gather_parts(&mut self.task, values).map_err(teams)
    }

    fn all_to_all_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>> {
        self.team.all_to_all_counts(&mut self.task, values, counts).map_err(teams)
    }

    fn gather_counts(
        &mut self,
        root: usize,
        values: &[T],
        counts: &[usize],
    ) -> Result<Option<Vec<T>>> {
        if !are_equal(counts) {
            let parts = self.gather_parts(root, values)?;
            return parts.map(|parts| joined(parts, counts)).transpose();
        }
        let mut all = (self.rank() == root).then(|| vec![T::ZERO; counts.iter().sum()]);
        let into = all.as_deref_mut();
        self.team.gather_into(&mut self.task, root as u32, values, into).map_err(teams)?;
        Ok(all)
    }

    fn all_gather_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<T>> {
        if !are_equal(counts) {
            return joined(self.all_gather_parts(values)?, counts);
        }
        let mut all = vec![T::ZERO; counts.iter().sum()];
        self.team.all_gather_slice(&mut self.task, values, &mut all).map_err(teams)?;
        Ok(all)
    }
}

impl Exchange for Machine {
    fn rank(&self) -> usize {
        self.team.rank() as usize
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        self.task.send(self.members[to], tag, bytes).map_err(machine)
    }

    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
        loop {
            // Events come in order with messages: an end is told after the last message.
            self.hear()?;
            if let Some(got) = self.try_recv(from, tag)? {
                return Ok(got);
            }
            if let Some(rank) = from.filter(|from| self.is_over[*from]) {
                return Err(ExchangeError::Ended { rank });
            }
            let others = |rank: &usize| *rank != self.rank();
            if (0..self.size()).filter(others).all(|rank| self.is_over[rank]) {
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
        self.team.broadcast(&mut self.task, root as u32, data).map_err(teams)
    }

    fn gather(&mut self, root: usize, data: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>> {
        self.team.gather(&mut self.task, root as u32, data, Lengths::Any).map_err(teams)
    }

    fn all_to_all(&mut self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        self.team.all_to_all(&mut self.task, parts, Lengths::Any).map_err(teams)
    }

    fn all_gather(&mut self, data: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.team.all_gather(&mut self.task, data, Lengths::Any).map_err(teams)
    }

    fn pool(&mut self, items: u64) -> Pool {
        Pool::Machine(towpath::Pool::new(&self.team, items))
    }

    fn next_item(&mut self, pool: &mut Pool) -> Result<Option<u64>> {
        match pool {
            Pool::Machine(pool) => pool.next(&mut self.task, &mut self.team).map_err(teams),
            Pool::Messages(_) => unreachable!("a pool is asked through the exchange that made it"),
        }
    }
}
