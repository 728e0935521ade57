//! Sending values.

use towpath_wire::TaskId;

use super::{Plain, Tile};
use crate::error::SendError;
use crate::message::Envelope;
use crate::task::Task;

/// Rows of a tile from this length on, in bytes, go as parts of their own; shorter ones are packed.
const PART_MIN: usize = 256;

fn of<T: Plain>(envelope: impl Into<Envelope>) -> Envelope {
    Envelope { format: T::CODE.format(), ..envelope.into() }
}

impl Task {
    /// Sends an array of numbers, or of what else is [`Plain`]; `envelope` is a tag, or tag and
    /// context (its format is the values' type). Waits as [`Task::send`] does, and costs as much.
    ///
    /// ```no_run
    /// # use towpath_task::{Task, Wanted};
    /// # let mut task = Task::enrol()?;
    /// # let next = task.id();
    /// task.send_slice(next, 7, &[1.5_f64, 2.5])?;
    /// let sums = task.recv_slice::<f64>(&Wanted::any().tag(7))?;
    /// assert_eq!(sums[1], 2.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn send_slice<T: Plain>(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        values: &[T],
    ) -> Result<(), SendError> {
        self.send_with(to, of::<T>(envelope), &T::bytes(values))
    }

    /// Sends one value.
    #[inline]
    pub fn send_value<T: Plain>(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        value: T,
    ) -> Result<(), SendError> {
        self.send_slice(to, envelope, &[value])
    }

    /// Sends part of an array as one message, row by row. It is copied once, into memory that its
    /// receiver reads, where the two share any; where it lies in one piece it is sent from there.
    pub fn send_tile<T: Plain>(
        &mut self,
        to: TaskId,
        envelope: impl Into<Envelope>,
        tile: Tile<'_, T>,
    ) -> Result<(), SendError> {
        if let Some(whole) = tile.as_slice() {
            return self.send_slice(to, envelope, whole);
        }
        let envelope = of::<T>(envelope);
        let row_bytes = tile.len() / tile.rows().count().max(1) * T::SIZE;
        if row_bytes >= PART_MIN {
            let rows: Vec<_> = tile.rows().map(T::bytes).collect();
            let parts: Vec<&[u8]> = rows.iter().map(|row| &**row).collect();
            return self.send_parts(to, envelope, &parts);
        }
        let mut loan = self.loan(tile.len() * T::SIZE)?;
        let mut at = 0;
        for row in tile.rows() {
            let bytes = T::bytes(row);
            loan[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
        }
        self.send_loan(to, envelope, loan)
    }

    /// Sends the same values to several tasks, as [`Task::multicast`] does.
    pub fn multicast_slice<T: Plain>(
        &mut self,
        to: &[TaskId],
        envelope: impl Into<Envelope>,
        values: &[T],
    ) -> Result<(), SendError> {
        self.multicast(to, of::<T>(envelope), &[&T::bytes(values)])
    }
}
