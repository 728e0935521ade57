//! What a team does together with arrays of its members.
//!
//! Arrays are borrowed, and results go into arrays that are borrowed, too. Members compare of which
//! type their values are: one that disagrees gets an error.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use towpath_vm::collective::{Function, Lengths, Operation, Operator, Output, Payload};

use crate::pending::Pending;
use crate::plain::{ContentError, Order, Plain};
use crate::task::Task;
use crate::team::Team;
use crate::team_error::TeamError;

/// An operation on values that was started: [`Team::finish_values`] gives its result.
#[derive(Debug)]
#[must_use = "whoever does not want the result drops it"]
pub struct PendingValues<T> {
    pending: Pending,
    values: PhantomData<fn() -> T>,
}

impl<T> AsRef<Pending> for PendingValues<T> {
    fn as_ref(&self) -> &Pending {
        &self.pending
    }
}

/// The bytes of values, the least significant of each number first: as operators want them.
fn payload<T: Plain>(values: &[T]) -> Payload {
    if Order::NATIVE == Order::Little {
        return T::bytes(values).into_owned().into();
    }
    let mut turned = values.to_vec();
    T::turn(&mut turned);
    let bytes: Cow<'_, [u8]> = T::bytes(&turned);
    bytes.into_owned().into()
}

/// The same where members of this host read them, if they are many: what takes them has no need to
/// write them once more.
fn given<T: Plain>(task: &mut Task, values: &[T]) -> Payload {
    let len = values.len() * T::SIZE;
    if Order::NATIVE != Order::Little {
        return payload(values);
    }
    let Some(mut loan) = task.spare_loan(len) else { return payload(values) };
    // By way of the caches: whoever reads it does so at once.
    loan[..len].copy_from_slice(&T::bytes(values));
    Payload::shared(Arc::new(loan.seal(len)))
}

/// Reads exactly as many values as `out` has.
fn fill<T: Plain>(out: &mut [T], bytes: &[u8]) -> Result<(), TeamError> {
    let (got, expected, wanted) = (bytes.len() / T::SIZE, out.len(), T::CODE);
    if bytes.len() != expected * T::SIZE {
        return Err(ContentError::Count { got, expected, wanted }.into());
    }
    T::read(bytes, Order::Little, out);
    Ok(())
}

fn read<T: Plain>(bytes: &[u8]) -> Result<Vec<T>, TeamError> {
    let (len, size, wanted) = (bytes.len(), T::SIZE, T::CODE);
    if !len.is_multiple_of(size) {
        return Err(ContentError::Ragged { len, size, wanted }.into());
    }
    let mut values = vec![T::ZERO; len / size];
    T::read(bytes, Order::Little, &mut values);
    Ok(values)
}

/// The only part of a result.
fn one(output: &Output) -> &[u8] {
    match output {
        Output::One(part) => part,
        _ => &[],
    }
}

fn parts(output: &Output) -> &[Payload] {
    match output {
        Output::Many(parts) => parts,
        _ => &[],
    }
}

/// Parts of one length into `out`, one behind the other.
fn fill_all<T: Plain>(out: &mut [T], parts: &[Payload]) -> Result<(), TeamError> {
    let expected = out.len();
    let len = expected / parts.len().max(1);
    if len * parts.len() != expected {
        let got = parts.iter().map(|part| part.len() / T::SIZE).sum();
        return Err(ContentError::Count { got, expected, wanted: T::CODE }.into());
    }
    for (number, part) in parts.iter().enumerate() {
        fill(&mut out[number * len..(number + 1) * len], part)?;
    }
    Ok(())
}

/// A built-in operator on values of type `T`.
fn operator<T: Plain>(function: Function) -> Result<Operator, TeamError> {
    let element =
        T::CODE.as_element().ok_or(ContentError::Type { wanted: f64::CODE, got: T::CODE })?;
    Ok(Operator::built_in(function, element)?)
}

/// One part for each rank, of as many values as `counts` says; that of `kept` is left empty.
fn cut<T: Plain>(
    task: &mut Task,
    values: &[T],
    counts: &[usize],
    kept: Option<usize>,
) -> Result<Vec<Payload>, TeamError> {
    let expected = counts.iter().sum();
    if values.len() != expected {
        return Err(ContentError::Count { got: values.len(), expected, wanted: T::CODE }.into());
    }
    let mut rest = values;
    let part = |(rank, count): (usize, &usize)| {
        let part;
        (part, rest) = rest.split_at(*count);
        if kept == Some(rank) { Payload::EMPTY } else { given(task, part) }
    };
    Ok(counts.iter().enumerate().map(part).collect())
}

impl Team {
    fn do_values<T: Plain>(
        &mut self,
        task: &mut Task,
        operation: Operation,
    ) -> Result<Output, TeamError> {
        self.perform_of(task, operation, T::CODE.kind())
    }

    fn equal_counts<T>(&self, values: &[T]) -> Vec<usize> {
        let size = self.size() as usize;
        // Where they cannot be shared out evenly, the sum tells.
        vec![values.len() / size; size]
    }

    /// Gives everyone the root's values; all give an array of the same length.
    ///
    /// ```no_run
    /// # use towpath_task::{Task, collective::Function};
    /// # let mut task = Task::enrol()?;
    /// # let mut team = task.team("solvers", 4)?;
    /// let mut step = [0.01, 0.5];
    /// team.broadcast_slice(&mut task, 0, &mut step)?;
    /// let mut residual = [0.5_f64];
    /// team.all_reduce_slice(&mut task, &mut residual, Function::Max)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        values: &mut [T],
    ) -> Result<(), TeamError> {
        let is_root = self.rank() == root;
        let data = is_root.then(|| given(task, values));
        let output = self.do_values::<T>(task, Operation::Broadcast { root, data })?;
        if is_root { Ok(()) } else { fill(values, one(&output)) }
    }

    /// Combines all members' arrays, element by element; the root's holds the result afterwards.
    pub fn reduce_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        values: &mut [T],
        function: Function,
    ) -> Result<(), TeamError> {
        let operator = self.agreed(task, operator::<T>(function))?;
        let data = payload(values);
        match self.do_values::<T>(task, Operation::Reduce { root, data, operator })? {
            Output::One(combined) => fill(values, &combined),
            _ => Ok(()),
        }
    }

    /// Combines all members' arrays, element by element; everyone's holds the result afterwards,
    /// the same bits.
    pub fn all_reduce_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &mut [T],
        function: Function,
    ) -> Result<(), TeamError> {
        let operator = self.agreed(task, operator::<T>(function))?;
        let data = payload(values);
        let output = self.do_values::<T>(task, Operation::AllReduce { data, operator })?;
        fill(values, one(&output))
    }

    /// One value of each member combined: a sum, a maximum.
    pub fn all_reduce_value<T: Plain>(
        &mut self,
        task: &mut Task,
        value: T,
        function: Function,
    ) -> Result<T, TeamError> {
        let mut value = [value];
        self.all_reduce_slice(task, &mut value, function)?;
        Ok(value[0])
    }

    /// Combines the arrays of the ranks up to one's own, in their order.
    pub fn scan_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &mut [T],
        function: Function,
    ) -> Result<(), TeamError> {
        let operator = self.agreed(task, operator::<T>(function))?;
        let data = payload(values);
        let output = self.do_values::<T>(task, Operation::Scan { data, operator })?;
        fill(values, one(&output))
    }

    /// The same without one's own; rank 0 keeps what it has, and gets `false`.
    pub fn exclusive_scan_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &mut [T],
        function: Function,
    ) -> Result<bool, TeamError> {
        let operator = self.agreed(task, operator::<T>(function))?;
        let data = payload(values);
        match self.do_values::<T>(task, Operation::ExclusiveScan { data, operator })? {
            Output::One(combined) => fill(values, &combined).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Gives the root everyone's values, of whatever length: an array for each rank; others get
    /// nothing.
    pub fn gather_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        values: &[T],
    ) -> Result<Option<Vec<Vec<T>>>, TeamError> {
        let (data, lengths) = (given(task, values), Lengths::Any);
        let output = self.do_values::<T>(task, Operation::Gather { root, data, lengths })?;
        if self.rank() != root {
            return Ok(None);
        }
        parts(&output).iter().map(|part| read(part)).collect::<Result<_, _>>().map(Some)
    }

    /// Gives the root as many values of each member, in the order of ranks; the root's `all` has
    /// room for them. Others give none.
    pub fn gather_into<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        values: &[T],
        all: Option<&mut [T]>,
    ) -> Result<(), TeamError> {
        let (data, lengths) = (given(task, values), Lengths::Equal);
        let output = self.do_values::<T>(task, Operation::Gather { root, data, lengths })?;
        // Not before: the others wait for this member's part.
        if self.rank() == root { fill_all(all.unwrap_or_default(), parts(&output)) } else { Ok(()) }
    }

    /// Gives everyone everyone's values, in the order of ranks; `all` has room for as many of each
    /// member.
    pub fn all_gather_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
        all: &mut [T],
    ) -> Result<(), TeamError> {
        let (data, lengths) = (given(task, values), Lengths::Equal);
        let output = self.do_values::<T>(task, Operation::AllGather { data, lengths })?;
        fill_all(all, parts(&output))
    }

    /// The same with arrays of whatever length: an array for each rank.
    pub fn all_gather_parts<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
    ) -> Result<Vec<Vec<T>>, TeamError> {
        let (data, lengths) = (given(task, values), Lengths::Any);
        let output = self.do_values::<T>(task, Operation::AllGather { data, lengths })?;
        parts(&output).iter().map(|part| read(part)).collect()
    }

    /// Gives each member its part of the root's values, as many to each; `all` is the root's.
    pub fn scatter_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        all: Option<&[T]>,
        values: &mut [T],
    ) -> Result<(), TeamError> {
        let parts = all.map(|all| cut(task, all, &self.equal_counts(all), None)).transpose();
        let parts = self.agreed(task, parts)?;
        let output = self.do_values::<T>(task, Operation::Scatter { root, parts })?;
        fill(values, one(&output))
    }

    /// The same with as many for each rank as `counts` says.
    pub fn scatter_counts<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        all: Option<(&[T], &[usize])>,
    ) -> Result<Vec<T>, TeamError> {
        let parts = all.map(|(all, counts)| cut(task, all, counts, None)).transpose();
        let parts = self.agreed(task, parts)?;
        let output = self.do_values::<T>(task, Operation::Scatter { root, parts })?;
        read(one(&output))
    }

    /// Gives each member a part of each member: the k-th part of `values` goes to rank k, and from
    /// rank k comes the k-th of `out`; all parts have one length.
    pub fn all_to_all_slice<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
        out: &mut [T],
    ) -> Result<(), TeamError> {
        let (own, counts) = (self.rank() as usize, self.equal_counts(values));
        let parts = cut(task, values, &counts, Some(own));
        let parts = self.agreed(task, parts)?;
        let (lengths, len) = (Lengths::Equal, counts[own]);
        let output = self.do_values::<T>(task, Operation::AllToAll { parts, lengths })?;
        // Not before: the others wait for this member's part.
        if out.len() != values.len() {
            let (got, expected, wanted) = (values.len(), out.len(), T::CODE);
            return Err(ContentError::Count { got, expected, wanted }.into());
        }
        for (number, part) in self::parts(&output).iter().enumerate() {
            let place = number * len..(number + 1) * len;
            if number == own {
                out[place.clone()].copy_from_slice(&values[place]);
            } else {
                fill(&mut out[place], part)?;
            }
        }
        Ok(())
    }

    /// The same with as many values for each rank as `counts` says; an array from each rank.
    pub fn all_to_all_counts<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
        counts: &[usize],
    ) -> Result<Vec<Vec<T>>, TeamError> {
        let (parts, lengths) = (cut(task, values, counts, None), Lengths::Any);
        let parts = self.agreed(task, parts)?;
        let output = self.do_values::<T>(task, Operation::AllToAll { parts, lengths })?;
        self::parts(&output).iter().map(|part| read(part)).collect()
    }

    // What goes on while the task does other things.

    fn start_values<T: Plain>(
        &mut self,
        task: &mut Task,
        operation: Operation,
    ) -> Result<PendingValues<T>, TeamError> {
        let pending = self.start_of(task, operation, T::CODE.kind())?;
        Ok(PendingValues { pending, values: PhantomData })
    }

    /// Starts [`Team::broadcast_slice`]; only the root gives values. As for [`Team::start`].
    pub fn start_broadcast<T: Plain>(
        &mut self,
        task: &mut Task,
        root: u32,
        values: Option<&[T]>,
    ) -> Result<PendingValues<T>, TeamError> {
        self.start_values(task, Operation::Broadcast { root, data: values.map(payload) })
    }

    /// Starts [`Team::all_reduce_slice`].
    pub fn start_all_reduce<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
        function: Function,
    ) -> Result<PendingValues<T>, TeamError> {
        let operator = self.agreed(task, operator::<T>(function))?;
        let data = payload(values);
        self.start_values(task, Operation::AllReduce { data, operator })
    }

    /// Starts [`Team::all_gather_parts`].
    pub fn start_all_gather<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
    ) -> Result<PendingValues<T>, TeamError> {
        let (data, lengths) = (given(task, values), Lengths::Any);
        self.start_values(task, Operation::AllGather { data, lengths })
    }

    /// Starts [`Team::all_to_all_counts`].
    pub fn start_all_to_all<T: Plain>(
        &mut self,
        task: &mut Task,
        values: &[T],
        counts: &[usize],
    ) -> Result<PendingValues<T>, TeamError> {
        let (parts, lengths) = (cut(task, values, counts, None), Lengths::Any);
        let parts = self.agreed(task, parts)?;
        self.start_values(task, Operation::AllToAll { parts, lengths })
    }

    /// Waits until an operation on values is over: an array from each rank, or one.
    pub fn finish_values<T: Plain>(
        &mut self,
        task: &mut Task,
        pending: PendingValues<T>,
    ) -> Result<Vec<Vec<T>>, TeamError> {
        match self.finish(task, pending.pending)? {
            Output::None => Ok(Vec::new()),
            Output::One(part) => Ok(vec![read(&part)?]),
            Output::Many(parts) => parts.iter().map(|part| read(part)).collect(),
        }
    }

    /// Parts the team: members that give the same colour are a team, in the order of their keys,
    /// equal ones as they were. Whoever gives no colour takes part and gets no team.
    ///
    /// ```no_run
    /// # let mut task = towpath_task::Task::enrol()?;
    /// # let mut team = task.team("solvers", 4)?;
    /// let (row, column) = (team.rank() / 2, team.rank() % 2);
    /// let mut rows = team.split(&mut task, Some(row), column)?.expect("it has a colour");
    /// rows.barrier(&mut task)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn split(
        &mut self,
        task: &mut Task,
        colour: Option<u32>,
        key: u32,
    ) -> Result<Option<Self>, TeamError> {
        let own = [u32::from(colour.is_some()), colour.unwrap_or(0), key];
        let mut all = vec![[0_u32; 3]; self.size() as usize];
        self.all_gather_slice(task, &[own], &mut all)?;
        let mut mine: Vec<(u32, u32)> = (0..)
            .zip(&all)
            .filter(|(_, [takes_part, c, _])| *takes_part == 1 && Some(*c) == colour)
            .map(|(rank, [.., key])| (*key, rank))
            .collect();
        if mine.is_empty() {
            return Ok(None);
        }
        mine.sort_unstable();
        let members: Vec<_> = mine.iter().map(|(_, rank)| self.member(*rank)).collect();
        task.team_of(&members).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_values_as_there_is_room_for() {
        let bytes: Vec<u8> = [1_u16, 2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut out = [0_u16; 3];
        fill(&mut out, &bytes).unwrap();
        assert_eq!((out, read::<u16>(&bytes).unwrap()), ([1, 2, 3], vec![1, 2, 3]));
        let count = |result: Result<(), TeamError>| match result {
            Err(TeamError::Content(ContentError::Count { got, expected, .. })) => (got, expected),
            other => panic!("{other:?}"),
        };
        assert_eq!(count(fill(&mut [0_u16; 2], &bytes)), (3, 2));
        assert_eq!(count(fill(&mut [0_u16; 4], &bytes)), (3, 4));
        let ragged = read::<u32>(&bytes);
        let Err(TeamError::Content(ContentError::Ragged { len, size, .. })) = ragged else {
            panic!("{ragged:?}")
        };
        assert_eq!((len, size), (6, 4));
        let parts: [Payload; 2] = [bytes[..2].to_vec().into(), bytes[2..4].to_vec().into()];
        let mut both = [0_u16; 2];
        fill_all(&mut both, &parts).unwrap();
        assert_eq!(both, [1, 2]);
        assert_eq!(count(fill_all(&mut [0_u16; 3], &parts)), (2, 3), "of one length");
        assert_eq!(count(fill_all(&mut [0_u16; 4], &parts)), (1, 2), "each fills its part");
        assert_eq!(count(fill_all(&mut [0_u16; 1], &[])), (0, 1));
        fill_all(&mut [0_u16; 0], &[]).unwrap();
        let values = [1_u16, 0x0203];
        assert_eq!(&payload(&values)[..], [1, 0, 3, 2]);
    }
}
