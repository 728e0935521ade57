//! Until what was started is over.

use std::time::Duration;

use super::table::{Operation, StartedError, What};
use crate::deadline::Deadline;
use crate::task::Task;

impl Task {
    /// Takes what was started on: rooms are filled, what is queued is sent. True: a send is over.
    /// Nothing is written to the daemon: the caller may be in the middle of a frame.
    pub(crate) fn advance(&mut self) -> bool {
        self.fill_rooms();
        if !self.started.has_queued() {
            return false;
        }
        let any = self.push_queued();
        if any {
            // Something is over that a wait of this task may be for.
            self.news.count += 1;
        }
        any
    }

    /// Whether a receive must let posted ones go first, or sends have to be taken on. Forgets that
    /// there is something to be attended to when there is not.
    #[cold]
    pub(crate) fn attends(&mut self) -> Result<bool, crate::error::Lost> {
        self.check_origin()?;
        if self.waits.armed {
            self.disarm();
        }
        let is_active = self.endpoint.posted() > 0 || self.started.has_queued();
        self.waits.attention = is_active;
        Ok(is_active)
    }

    /// Whether it is over, so that to finish it takes no wait. Takes in what is there.
    pub fn is_over(&mut self, operation: &impl AsRef<Operation>) -> Result<bool, StartedError> {
        self.wait_started(operation, Some(Duration::ZERO))
    }

    /// Waits until it is over; false: `timeout` was over first.
    pub fn wait_started(
        &mut self,
        operation: &impl AsRef<Operation>,
        timeout: Option<Duration>,
    ) -> Result<bool, StartedError> {
        Ok(self.wait_any(&[operation.as_ref()], timeout)?.is_some())
    }

    /// Waits until one of them is over; which, the one that was over first. `None`: `timeout` was
    /// over first.
    ///
    /// ```no_run
    /// # use towpath_task::{Task, Wanted};
    /// # let mut task = Task::enrol()?;
    /// let one = task.start_recv(Wanted::any().tag(1), vec![0_u64; 10])?;
    /// let other = task.start_recv(Wanted::any().tag(2), vec![0_u64; 10])?;
    /// match task.wait_any(&[one.as_ref(), other.as_ref()], None)? {
    ///     Some(0) => println!("{:?}", task.finish_recv(one)?),
    ///     _ => println!("{:?}", task.finish_recv(other)?),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_any(
        &mut self,
        operations: &[&Operation],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, StartedError> {
        for operation in operations {
            self.started.of(operation)?;
        }
        self.waits.awaited = match operations {
            [one] => match &self.started.of(one)?.what {
                What::Receive { source, .. } => *source,
                What::Send { .. } => None,
            },
            _ => None,
        };
        let deadline = Deadline::after(timeout);
        let first = self.wait_for(deadline, &mut |task| {
            let place = |(at, op): (usize, &&Operation)| {
                let over = task.started.of(op).ok()?.over.as_ref()?;
                Some((over.0, at))
            };
            operations.iter().enumerate().filter_map(place).min()
        })?;
        Ok(first.map(|(_, at)| at))
    }

    /// Waits until all of them are over; false: `timeout` was over first.
    pub fn wait_all(
        &mut self,
        operations: &[&Operation],
        timeout: Option<Duration>,
    ) -> Result<bool, StartedError> {
        for operation in operations {
            self.started.of(operation)?;
        }
        self.waits.awaited = None;
        let deadline = Deadline::after(timeout);
        let all = self.wait_for(deadline, &mut |task| {
            let is_over = |op: &&Operation| task.started.of(op).is_ok_and(|s| s.over.is_some());
            operations.iter().all(is_over).then_some(())
        })?;
        Ok(all.is_some())
    }
}
