//! A wrapper that notes what a rank does, for `towpath sim job`.
//!
//! Between two calls of the exchange a rank works: that is measured in processor time of its
//! thread, so that ranks that share a processor do not count each other's. What the calls
//! themselves cost here is left out: a replay puts the costs of its own network in their place.
//! Collectives are noted as such; a replay makes messages of them. Those of a [`Part`](super::Part)
//! are messages already when they come here. A `try_recv` that finds nothing is not noted. Where
//! an application says that its work [begins](Exchange::begin) and is [done](Exchange::done), what
//! lies outside of that is left out.

use anyhow::ensure;
use rustix::time::{ClockId, clock_gettime};
use towpath_sim::job::{FILE_BYTES_MAX, Log, Record, STEPS_MAX, Step};

use super::{Arrays, Exchange, Number, Result};

/// Processor time of this thread, in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// An exchange whose steps are noted.
pub(crate) struct Recorder<'a> {
    inner: &'a mut dyn Exchange,
    clock: fn() -> u64,
    /// Work since then is not noted yet.
    since: u64,
    log: Log,
    is_done: bool,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(inner: &'a mut dyn Exchange, clock: fn() -> u64) -> Self {
        Self { inner, clock, since: clock(), log: Log::default(), is_done: false }
    }

    /// All steps of all ranks as a file, at rank 0; all ranks call it together.
    pub(crate) fn finish(mut self, application: &str) -> anyhow::Result<Option<String>> {
        self.done();
        let mut own = vec![u8::from(self.log.is_full())];
        if !self.log.is_full() {
            own.extend_from_slice(self.log.lines().as_bytes());
        }
        let Some(parts) = self.inner.gather(0, own)? else { return Ok(None) };
        let mut ranks = Vec::with_capacity(parts.len());
        for (rank, part) in parts.into_iter().enumerate() {
            let full = part.first() != Some(&0);
            ensure!(!full, "task {rank} made more than {STEPS_MAX} steps, the limit of a record");
            ranks.push(String::from_utf8(part[1..].to_vec())?);
        }
        let text = Log::assemble(application, &ranks);
        let limit = FILE_BYTES_MAX;
        ensure!(text.len() <= limit, "the record has {} bytes, at most {limit}", text.len());
        // What is written can be read.
        Record::parse(&text)?;
        Ok(Some(text))
    }

    /// Notes the work before a call, and what the call did.
    fn note<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Exchange) -> Result<T>,
        step: impl FnOnce(&T) -> Option<Step>,
    ) -> Result<T> {
        if self.is_done {
            return call(self.inner);
        }
        let begun = (self.clock)();
        let done = call(self.inner)?;
        if let Some(step) = step(&done) {
            self.log.note(Step::Work(begun.saturating_sub(self.since)));
            self.log.note(step);
            self.since = (self.clock)();
        } else {
            // Asking in vain is no work, and no step.
            self.since += (self.clock)().saturating_sub(begun);
        }
        Ok(done)
    }
}

impl<T: Number> Arrays<T> for Recorder<'_> {
    fn broadcast_slice(&mut self, root: usize, values: &mut [T]) -> Result<()> {
        let step = Step::Broadcast { root, bytes: size_of_val(values) as u64 };
        self.note(|inner| T::arrays(inner).broadcast_slice(root, values), |()| Some(step))
    }

    fn gather_parts(&mut self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        let step = Step::Gather { root, bytes: size_of_val(values) as u64 };
        self.note(|inner| T::arrays(inner).gather_parts(root, values), |_| Some(step))
    }

    fn all_gather_parts(&mut self, values: &[T]) -> Result<Vec<Vec<T>>> {
        let step = Step::AllGather(size_of_val(values) as u64);
        self.note(|inner| T::arrays(inner).all_gather_parts(values), |_| Some(step))
    }

    fn all_to_all_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>> {
        let step = Step::AllToAll(counts.iter().map(|count| (count * T::SIZE) as u64).collect());
        self.note(|inner| T::arrays(inner).all_to_all_counts(values, counts), |_| Some(step))
    }

    fn gather_counts(
        &mut self,
        root: usize,
        values: &[T],
        counts: &[usize],
    ) -> Result<Option<Vec<T>>> {
        let step = Step::Gather { root, bytes: size_of_val(values) as u64 };
        self.note(|inner| T::arrays(inner).gather_counts(root, values, counts), |_| Some(step))
    }

    fn all_gather_counts(&mut self, values: &[T], counts: &[usize]) -> Result<Vec<T>> {
        let step = Step::AllGather(size_of_val(values) as u64);
        self.note(|inner| T::arrays(inner).all_gather_counts(values, counts), |_| Some(step))
    }
}

fn received(tag: i32, got: &(usize, Vec<u8>)) -> Step {
    Step::Receive { from: got.0, tag, bytes: got.1.len() as u64 }
}

impl Exchange for Recorder<'_> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        let step = Step::Send { to, tag, bytes: bytes.len() as u64 };
        self.note(|inner| inner.send(to, tag, bytes), |()| Some(step))
    }

    fn recv(&mut self, from: Option<usize>, tag: i32) -> Result<(usize, Vec<u8>)> {
        self.note(|inner| inner.recv(from, tag), |got| Some(received(tag, got)))
    }

    fn try_recv(&mut self, from: Option<usize>, tag: i32) -> Result<Option<(usize, Vec<u8>)>> {
        let step = |got: &Option<_>| got.as_ref().map(|got| received(tag, got));
        self.note(|inner| inner.try_recv(from, tag), step)
    }

    fn check(&mut self) -> Result<()> {
        self.inner.check()
    }

    fn begin(&mut self) {
        self.log = Log::default();
        self.since = (self.clock)();
    }

    fn done(&mut self) {
        if !self.is_done {
            let work = (self.clock)().saturating_sub(self.since);
            self.log.note(Step::Work(work));
        }
        self.is_done = true;
    }

    fn broadcast(&mut self, root: usize, data: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let step = |got: &Vec<u8>| Some(Step::Broadcast { root, bytes: got.len() as u64 });
        self.note(|inner| inner.broadcast(root, data), step)
    }

    fn gather(&mut self, root: usize, data: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>> {
        let step = Step::Gather { root, bytes: data.len() as u64 };
        self.note(|inner| inner.gather(root, data), |_| Some(step))
    }

    fn all_to_all(&mut self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let step = Step::AllToAll(parts.iter().map(|part| part.len() as u64).collect());
        self.note(|inner| inner.all_to_all(parts), |_| Some(step))
    }

    fn all_gather(&mut self, data: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let step = Step::AllGather(data.len() as u64);
        self.note(|inner| inner.all_gather(data), |_| Some(step))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rustfft::num_complex::Complex64;

    use super::super::local::run;
    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// A second more at each look.
    fn ticks() -> u64 {
        NOW.with(|now| {
            now.set(now.get() + 1_000_000_000);
            now.get()
        })
    }

    fn recorded(
        size: usize,
        work: impl Fn(&mut dyn Exchange) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<Record> {
        let all = run(size, |exchange| {
            NOW.with(|now| now.set(0));
            let mut recorder = Recorder::new(exchange, ticks);
            work(&mut recorder)?;
            recorder.finish("test")
        });
        let texts: Vec<_> = all.into_iter().collect::<anyhow::Result<_>>()?;
        assert!(texts[1..].iter().all(Option::is_none), "the root alone has the record");
        Ok(Record::parse(texts[0].as_ref().expect("the root's"))?)
    }

    #[test]
    fn every_call_is_noted_with_the_work_before_it() {
        let record = recorded(2, |exchange| {
            let other = 1 - exchange.rank();
            exchange.broadcast(0, Some(vec![0; 99]))?;
            exchange.begin();
            assert_eq!(exchange.try_recv(None, 9)?, None);
            exchange.send(other, 7, b"abc")?;
            assert_eq!(exchange.recv(Some(other), 7)?.1, b"abc");
            exchange.broadcast(1, Some(vec![0; 5]))?;
            exchange.gather(0, vec![0; 6 + exchange.rank()])?;
            exchange.all_gather(vec![0; 8])?;
            exchange.all_to_all(vec![vec![0; 1], vec![0; 2]])?;
            exchange.broadcast_slice(1, &mut [0_u64; 2])?;
            exchange.gather_counts(0, &[0.5], &[1, 1])?;
            exchange.gather_parts(0, &[0_u64; 3])?;
            exchange.all_gather_parts(&vec![0.5; exchange.rank()])?;
            exchange.all_gather_counts(&[7_u64], &[1, 1])?;
            exchange.all_to_all_counts(&[Complex64::ONE; 3], &[1, 2])?;
            exchange.done();
            exchange.all_gather(vec![0; 99])?;
            Ok(())
        })
        .unwrap();
        for (rank, steps) in record.ranks.iter().enumerate() {
            let other = 1 - rank;
            // A second passes from call to call, none within the one that found nothing.
            let work = Step::Work(1_000_000_000);
            let calls = [
                Step::Send { to: other, tag: 7, bytes: 3 },
                Step::Receive { from: other, tag: 7, bytes: 3 },
                Step::Broadcast { root: 1, bytes: 5 },
                Step::Gather { root: 0, bytes: 6 + rank as u64 },
                Step::AllGather(8),
                Step::AllToAll(vec![1, 2]),
                Step::Broadcast { root: 1, bytes: 16 },
                Step::Gather { root: 0, bytes: 8 },
                Step::Gather { root: 0, bytes: 24 },
                Step::AllGather(8 * rank as u64),
                Step::AllGather(8),
                Step::AllToAll(vec![16, 32]),
            ];
            let mut expected = vec![Step::Work(2_000_000_000)];
            for call in calls {
                expected.extend([call, work.clone()]);
            }
            assert_eq!(*steps, expected);
        }
    }

    #[test]
    fn a_record_that_grew_too_long_is_none() {
        let said = recorded(2, |exchange| {
            for _ in 0..=STEPS_MAX {
                exchange.send(1 - exchange.rank(), 1, &[])?;
                exchange.recv(None, 1)?;
            }
            Ok(())
        });
        let said = said.unwrap_err().to_string();
        assert_eq!(said, "task 0 made more than 1048576 steps, the limit of a record");
    }

    #[test]
    fn a_thread_has_a_processor_time_of_its_own() {
        let before = thread_ns();
        let mut sum = 0_u64;
        while thread_ns() < before + 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        let elsewhere = std::thread::spawn(thread_ns).join().unwrap();
        assert!(elsewhere < thread_ns(), "a new thread has worked less");
    }
}
