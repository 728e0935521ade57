//! Receiving values.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use super::code::{ContentError, Order, check};
use super::{Plain, TileMut};
use crate::error::RecvError;
use crate::message::{Message, Received};
use crate::receive::Deadline;
use crate::task::Task;

/// Values of a message, with what is known of it: used as the slice that they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Values<T> {
    about: Received,
    values: Vec<T>,
}

impl<T> Values<T> {
    /// Who sent it, its tag and context.
    pub const fn about(&self) -> Received {
        self.about
    }

    /// Who sent it.
    pub const fn src(&self) -> TaskId {
        self.about.src
    }

    /// Its tag.
    pub const fn tag(&self) -> Tag {
        self.about.tag
    }

    /// The values alone.
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }

    pub(crate) const fn new(about: Received, values: Vec<T>) -> Self {
        Self { about, values }
    }
}

impl<T> Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T> DerefMut for Values<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T> IntoIterator for Values<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

/// The values of a message's bytes.
pub(crate) fn read<T: Plain>(bytes: &[u8], count: usize, order: Order) -> Vec<T> {
    let mut values = vec![T::ZERO; count];
    T::read(bytes, order, &mut values);
    values
}

impl Message {
    /// Its values, where they are if this machine reads them as they lie there. Other than bytes
    /// sent by [`Task::send`], they say of which type they are.
    pub fn values<T: Plain + bytemuck::AnyBitPattern>(&self) -> Result<Cow<'_, [T]>, ContentError> {
        let (count, order) = check::<T>(self.format(), self.len())?;
        if order == Order::NATIVE
            && let Ok(values) = bytemuck::try_cast_slice(self.bytes())
        {
            return Ok(Cow::Borrowed(values));
        }
        Ok(Cow::Owned(read(self.bytes(), count, order)))
    }

    /// Its values, copied.
    pub fn to_values<T: Plain>(&self) -> Result<Values<T>, ContentError> {
        let (count, order) = check::<T>(self.format(), self.len())?;
        Ok(Values::new(self.about(), read(self.bytes(), count, order)))
    }
}

impl Received {
    /// How many values of type `T` it has.
    pub const fn count<T: Plain>(&self) -> usize {
        self.len / T::SIZE
    }
}

/// Whether a message holds whole values of type `T`.
fn holds<T: Plain>(about: &Received) -> Result<(), RecvError> {
    check::<T>(about.format, about.len)?;
    Ok(())
}

/// Turns values round that were received as they were sent.
fn settle<T: Plain>(about: Received, out: &mut [T]) {
    let order = check::<T>(about.format, about.len).map(|(_, order)| order);
    if order != Ok(Order::NATIVE) {
        T::turn(&mut out[..about.len / T::SIZE]);
    }
}

impl Task {
    /// Receives the values of the earliest message that fits; waits for it. A message that holds
    /// others stays where it is, and the error names both types.
    pub fn recv_slice<T: Plain>(&mut self, wanted: &Wanted) -> Result<Values<T>, RecvError> {
        let got = self.values_until(wanted, Deadline::NEVER)?;
        Ok(got.expect("a wait without end ends with a message"))
    }

    /// The same, but waits no longer than `timeout`; with none, what is there.
    pub fn recv_slice_timeout<T: Plain>(
        &mut self,
        wanted: &Wanted,
        timeout: Duration,
    ) -> Result<Option<Values<T>>, RecvError> {
        self.values_until(wanted, Deadline::after(Some(timeout)))
    }

    fn values_until<T: Plain>(
        &mut self,
        wanted: &Wanted,
        deadline: Deadline,
    ) -> Result<Option<Values<T>>, RecvError> {
        let got = self.message_until(wanted, deadline, &holds::<T>)?;
        got.map(|message| Ok(message.to_values()?)).transpose()
    }

    /// Receives a message of one value.
    pub fn recv_value<T: Plain>(&mut self, wanted: &Wanted) -> Result<T, RecvError> {
        let one = |about: &Received| match check::<T>(about.format, about.len)? {
            (1, _) => Ok(()),
            (got, _) => Err(ContentError::Count { got, expected: 1, wanted: T::CODE }.into()),
        };
        let mut value = [T::ZERO];
        let got = self.slice_until(wanted, &mut value, Deadline::NEVER, &one)?;
        got.expect("a wait without end ends with a message");
        Ok(value[0])
    }

    /// Receives values straight into `out`; waits for them. How many there were, the answer says
    /// ([`Received::count`]). A message that holds others, or more, stays where it is; the error
    /// says so.
    #[inline]
    pub fn recv_slice_into<T: Plain>(
        &mut self,
        wanted: &Wanted,
        out: &mut [T],
    ) -> Result<Received, RecvError> {
        let got = self.slice_until(wanted, out, Deadline::NEVER, &holds::<T>)?;
        Ok(got.expect("a wait without end ends with a message"))
    }

    /// The same, but waits no longer than `timeout`. What `out` holds when nothing came in time is
    /// not said.
    pub fn recv_slice_into_timeout<T: Plain>(
        &mut self,
        wanted: &Wanted,
        out: &mut [T],
        timeout: Duration,
    ) -> Result<Option<Received>, RecvError> {
        self.slice_until(wanted, out, Deadline::after(Some(timeout)), &holds::<T>)
    }

    #[inline]
    fn slice_until<T: Plain>(
        &mut self,
        wanted: &Wanted,
        out: &mut [T],
        deadline: Deadline,
        check: &impl Fn(&Received) -> Result<(), RecvError>,
    ) -> Result<Option<Received>, RecvError> {
        if let Some(room) = T::bytes_mut(out) {
            let got = self.fill_until(wanted, room, deadline, check)?;
            if let Some(about) = got {
                settle(about, out);
            }
            return Ok(got);
        }
        let room = out.len() * T::SIZE;
        let fits = |about: &Received| {
            check(about)?;
            let len = about.len;
            if len > room { Err(RecvError::TooLong { len, room }) } else { Ok(()) }
        };
        let Some(message) = self.message_until(wanted, deadline, &fits)? else { return Ok(None) };
        let values = message.to_values::<T>()?;
        out[..values.len()].copy_from_slice(&values);
        Ok(Some(message.about()))
    }

    /// Receives a message of as many values as `tile` has into its rows, without another copy;
    /// waits for it.
    pub fn recv_tile<T: Plain>(
        &mut self,
        wanted: &Wanted,
        mut tile: TileMut<'_, T>,
    ) -> Result<Received, RecvError> {
        let expected = tile.len();
        let fits = |about: &Received| match check::<T>(about.format, about.len)? {
            (got, _) if got == expected => Ok(()),
            (got, _) => Err(ContentError::Count { got, expected, wanted: T::CODE }.into()),
        };
        let got = self.message_until(wanted, Deadline::NEVER, &fits)?;
        let message = got.expect("a wait without end ends with a message");
        let (_, order) = check::<T>(message.format(), message.len())?;
        let mut bytes = message.bytes();
        for row in tile.rows() {
            let part;
            (part, bytes) = bytes.split_at(row.len() * T::SIZE);
            T::read(part, order, row);
        }
        Ok(message.about())
    }
}
