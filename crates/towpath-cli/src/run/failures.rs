//! Ends of tasks that are told: equal ones that come together on one line.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long an end waits for others like it.
pub(super) const TOGETHER: Duration = Duration::from_millis(100);
/// Ranges of numbers shown on one line.
const RANGES_MAX: usize = 12;

/// Whose end it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The only task, on this host.
    Alone(String),
    /// The task of this number.
    Task(usize),
    /// A task that was spawned, of this program.
    Program(String),
}

/// Ends that wait to be told. Invariant: those of `Who::Task` with equal words are one entry.
#[derive(Debug, Default)]
pub(super) struct Failures {
    waiting: Vec<Entry>,
    since: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    who: Who,
    /// Host's name of the first.
    host: String,
    words: String,
    /// Numbers of tasks.
    numbers: BTreeSet<usize>,
    count: usize,
}

impl Failures {
    pub(super) fn add(&mut self, now: Instant, who: Who, host: &str, words: String) {
        self.since.get_or_insert(now);
        let is_like = |entry: &&mut Entry| {
            let same = match (&entry.who, &who) {
                (Who::Task(_), Who::Task(_)) => true,
                (one, other) => one == other,
            };
            same && entry.words == words
        };
        let numbers = if let Who::Task(number) = who { Some(number) } else { None };
        if let Some(entry) = self.waiting.iter_mut().find(is_like) {
            entry.numbers.extend(numbers);
            entry.count += 1;
            return;
        }
        let (host, numbers) = (host.to_string(), numbers.into_iter().collect());
        self.waiting.push(Entry { who, host, words, numbers, count: 1 });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first of them has waited long enough.
    pub(super) fn are_due(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= TOGETHER)
    }

    /// A line for each kind.
    pub(super) fn take(&mut self) -> Vec<String> {
        self.since = None;
        std::mem::take(&mut self.waiting).iter().map(Entry::line).collect()
    }
}

impl Entry {
    fn line(&self) -> String {
        let Self { who, host, words, count, .. } = self;
        match who {
            Who::Alone(host) => format!("{host}: {words}"),
            Who::Task(number) if *count == 1 => {
                format!("towpath: task {number} on {host}: {words}")
            }
            Who::Task(_) => format!("towpath: {count} tasks ({}): {words}", ranges(&self.numbers)),
            Who::Program(program) if *count == 1 => {
                format!("towpath: {program} on {host}: {words}")
            }
            Who::Program(program) => format!("towpath: {count} of {program}: {words}"),
        }
    }
}

/// `0-5, 7, 9-31`.
fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = vec![];
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let more = ranges.len() > RANGES_MAX;
    let shown = ranges.iter().take(RANGES_MAX).map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    let shown: Vec<String> = shown.chain(more.then(|| "…".to_string())).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ends_are_one_line() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        assert!(!failures.are_due(now) && failures.is_empty());
        for number in (0..32).filter(|n| *n != 6) {
            failures.add(now, Who::Task(number), "h", "exit status 1".into());
        }
        failures.add(now, Who::Task(6), "h", "ended by signal 11".into());
        for _ in 0..3 {
            failures.add(now, Who::Program("slave".into()), "h", "host lost".into());
        }
        assert!(!failures.are_due(now) && failures.are_due(now + TOGETHER));
        let lines = failures.take();
        let expected = [
            "towpath: 31 tasks (0-5, 7-31): exit status 1",
            "towpath: task 6 on h: ended by signal 11",
            "towpath: 3 of slave: host lost",
        ];
        assert_eq!(lines, expected);
        assert!(failures.is_empty() && !failures.are_due(now + 2 * TOGETHER));
    }

    #[test]
    fn a_line_does_not_grow_without_end() {
        let line = ranges(&(0..1000).step_by(2).collect());
        assert!(line.starts_with("0, 2, 4") && line.ends_with("…") && line.len() < 80, "{line}");
    }
}
