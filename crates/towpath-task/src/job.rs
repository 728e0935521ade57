//! The job that a task is part of: who else there is, in one line.

use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use crate::error::{EnrolError, RecvError, SendError};
use crate::message::Envelope;
use crate::plain::{Plain, Values};
use crate::task::Task;
use crate::team::Team;
use crate::team_error::TeamError;

/// Why a process is not part of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It could not become a task.
    #[error(transparent)]
    Enrol(#[from] EnrolError),
    /// The job's tasks did not come together.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// A task together with the team of all tasks that one `towpath run -n` has started, in the order
/// of their ranks. A process that was started otherwise (`TOWPATH_SIZE` is not set, or 1) is a job
/// of one.
///
/// ```no_run
/// use towpath_task::Job;
/// use towpath_task::collective::Function;
///
/// let mut job = Job::enrol()?;
/// let mine = f64::from(job.rank());
/// let sum = job.team.all_reduce_value(&mut job.task, mine, Function::Sum)?;
/// if job.is_first() {
///     println!("{} tasks, their ranks add up to {sum}", job.size());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Job {
    /// This task.
    pub task: Task,
    /// All tasks of the job.
    pub team: Team,
}

impl Job {
    /// Becomes a task, and waits until the others have.
    pub fn enrol() -> Result<Self, JobError> {
        let mut task = Task::enrol()?;
        let team = match Task::size() {
            Some(size) if size > 1 => {
                // Groups are the whole virtual machine's: the job's name keeps two runs apart.
                let group = format!("job {}", Task::job().unwrap_or_default());
                Self::meet(&mut task, &group, Task::rank().unwrap_or(0), size)?
            }
            _ => {
                let own = task.id();
                task.team_of(&[own])?
            }
        };
        Ok(Self { task, team })
    }

    /// The team of `size` tasks that meet in `group`, in the order of the ranks that they give;
    /// equal ones as they come.
    pub fn meet(task: &mut Task, group: &str, rank: u32, size: u32) -> Result<Team, TeamError> {
        // In the order in which they came, which is any.
        let mut arrived = task.team(group, size)?;
        let team = arrived.split(task, Some(0), rank)?;
        Ok(team.expect("all have one colour"))
    }

    /// This task's place among the others.
    pub fn rank(&self) -> u32 {
        self.team.rank()
    }

    /// How many there are.
    pub fn size(&self) -> u32 {
        self.team.size()
    }

    /// Whether it is the one that says what only one should.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The task of a rank. Panics where there is none.
    pub fn member(&self, rank: u32) -> TaskId {
        self.team.member(rank)
    }

    /// Sends values to a rank.
    pub fn send_slice<T: Plain>(
        &mut self,
        rank: u32,
        envelope: impl Into<Envelope>,
        values: &[T],
    ) -> Result<(), SendError> {
        let to = self.member(rank);
        self.task.send_slice(to, envelope, values)
    }

    /// Receives values of a rank.
    pub fn recv_slice<T: Plain>(
        &mut self,
        rank: u32,
        tag: impl Into<Tag>,
    ) -> Result<Values<T>, RecvError> {
        let wanted = self.wanted(rank).tag(tag);
        self.task.recv_slice(&wanted)
    }

    /// Messages of a rank.
    pub fn wanted(&self, rank: u32) -> Wanted {
        Wanted::any().from(self.member(rank))
    }

    /// Waits until all have come here.
    pub fn barrier(&mut self) -> Result<(), TeamError> {
        self.team.barrier(&mut self.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::actors::crowd;

    #[test]
    fn tasks_of_a_job_know_each_other_by_ranks() {
        let (tasks, _sides) = crowd(3);
        let members: Vec<TaskId> = tasks.iter().map(Task::id).collect();
        let of = |mut task: Task| {
            let team = task.team_of(&members).unwrap();
            let mut job = Job { task, team };
            let (rank, size) = (job.rank(), job.size());
            assert_eq!((size, job.is_first(), job.member(rank)), (3, rank == 0, job.task.id()));
            let next = (rank + 1) % size;
            job.send_slice(next, 5, &[rank, 7]).unwrap();
            let before = (rank + 2) % size;
            assert_eq!(job.wanted(before), Wanted::any().from(members[before as usize]));
            let came = job.recv_slice::<u32>(before, 5).unwrap();
            assert_eq!(*came, [before, 7]);
            // Nobody goes on before the last one has come.
            if rank == 0 {
                (1..size).for_each(|to| job.send_slice(to, 6, &[0_u8]).unwrap());
                job.barrier().unwrap();
            } else {
                job.barrier().unwrap();
                assert!(job.task.probe(&job.wanted(0).tag(6)).unwrap().is_some());
            }
            rank
        };
        let ranks: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(|| of(task))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ranks, [0, 1, 2]);
    }
}
