//! What a trace file says, in a table: calls of each task, the time in them, bytes of messages.
//!
//! Trace files are those that PVM's `tracer` and console write (a form of SDDF): descriptions of
//! events, then events, one a line.
//!
//! ```text
//! #2095: "send(1.1)"          0.0 a call begins, 1.1 it has ended, 0 it is no call
//! {
//!     int "TS";                values of each such event: here when, ...
//! };;
//! "send(1.1)" { 1795310754, 79259, 262148, 0 };;
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::{BufRead, Read};

use anyhow::{Context, bail};

/// Longest line, in bytes.
const LINE_MAX: u64 = 1 << 20;
/// Most pairs of a task and a call.
const ROWS_MAX: usize = 100_000;
/// Most kinds of events, and of values of one.
const KINDS_MAX: usize = 4096;

/// Calls of one kind of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Calls {
    begun: u64,
    ended: u64,
    micros: i64,
    /// Bytes of messages.
    bytes: i64,
    /// When the last one began.
    since: Option<i64>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// By event, the names of its values.
    kinds: HashMap<String, Vec<String>>,
    programs: BTreeMap<i64, String>,
    /// By task and call.
    calls: BTreeMap<(i64, String), Calls>,
    first: Option<i64>,
    last: i64,
    events: u64,
}

/// The text between the first two quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.split_once('"')?.1.split_once('"')
}

/// The whole numbers in front of anything else in an event's braces.
fn numbers(text: &str) -> Vec<i64> {
    let text = text.trim_start().strip_prefix('{').unwrap_or_default();
    let words = text.split(',').map(|word| word.trim().trim_end_matches("};;").trim());
    words.map_while(|word| word.parse().ok()).take(KINDS_MAX).collect()
}

impl Summary {
    /// Reads a trace file.
    pub(super) fn read(mut input: impl BufRead) -> anyhow::Result<Self> {
        let mut summary = Self::default();
        let (mut line, mut number, mut described) = (Vec::new(), 0_u64, None);
        loop {
            line.clear();
            number += 1;
            let len = input.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line)?;
            if len == 0 {
                break;
            }
            if len as u64 > LINE_MAX {
                bail!("line {number} is longer than {LINE_MAX} bytes, the limit");
            }
            let text = String::from_utf8_lossy(&line);
            summary
                .line(text.trim_end(), &mut described)
                .with_context(|| format!("line {number}"))?;
        }
        if summary.events == 0 {
            bail!("no events: not a trace file of PVM's `tracer` or console");
        }
        Ok(summary)
    }

    /// `described`: the event whose description goes on.
    fn line(&mut self, line: &str, described: &mut Option<String>) -> anyhow::Result<()> {
        if line.starts_with('#') {
            let name = quoted(line).context("a description without a name")?.0;
            if self.kinds.len() == KINDS_MAX {
                bail!("more than {KINDS_MAX} kinds of events, the limit");
            }
            self.kinds.insert(name.into(), Vec::new());
            *described = Some(name.into());
        } else if line.starts_with("};;") {
            *described = None;
        } else if let Some(event) = described {
            let value = line.trim_start();
            if let (false, Some((name, _))) = (value.starts_with("//"), quoted(value))
                && let Some(values) = self.kinds.get_mut(event)
                && values.len() < KINDS_MAX
            {
                values.push(name.into());
            }
        } else if line.starts_with('"') {
            self.event(line)?;
        }
        Ok(())
    }

    fn event(&mut self, line: &str) -> anyhow::Result<()> {
        let (name, rest) = quoted(line).context("an event without a name")?;
        let Some(kinds) = self.kinds.get(name) else { bail!("`{name}` was not described") };
        let values = numbers(rest);
        let value = |kind: &str| {
            kinds.iter().position(|k| k == kind).and_then(|at| values.get(at)).copied()
        };
        let (Some(seconds), Some(micros), Some(task)) = (value("TS"), value("TU"), value("TID"))
        else {
            bail!("`{name}` has no time or no task")
        };
        let within = |value: i64| value.clamp(i32::MIN.into(), i32::MAX.into());
        let (task, bytes) = (within(task), within(value("MNB").unwrap_or(0)).max(0));
        let time = within(seconds) * 1_000_000 + within(micros);
        self.events += 1;
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(time);
        if name == "newtask(0)" {
            let program = quoted(rest).map_or("", |(program, _)| program);
            self.programs.insert(task, program.into());
        }
        let Some((call, moment)) = name.split_once('(') else { return Ok(()) };
        let key = (task, call.to_string());
        let begins = match moment {
            "0.0)" => true,
            "1.1)" => false,
            _ => return Ok(()),
        };
        if self.calls.len() >= ROWS_MAX && !self.calls.contains_key(&key) {
            bail!("more than {ROWS_MAX} pairs of task and call, the limit");
        }
        let calls = self.calls.entry(key).or_default();
        calls.bytes += bytes;
        if begins {
            calls.begun += 1;
            calls.since = Some(time);
        } else {
            calls.ended += 1;
            calls.micros += calls.since.take().map_or(0, |since| time - since);
        }
        Ok(())
    }

    /// The table, tasks by number, of each the longest calls first.
    pub(super) fn table(&self) -> String {
        let tasks: std::collections::BTreeSet<i64> = self.calls.keys().map(|key| key.0).collect();
        let span = self.last - self.first.unwrap_or(self.last);
        let mut out = format!(
            "{} events of {} tasks in {}.{:06} s\n{:>10} {:>16} {:>14} {:>8} {:>12} {:>12}\n",
            self.events,
            tasks.len(),
            span / 1_000_000,
            span % 1_000_000,
            "TASK",
            "PROGRAM",
            "CALL",
            "COUNT",
            "MICROS",
            "BYTES"
        );
        for task in tasks {
            let of = self.calls.range((task, String::new())..(task + 1, String::new()));
            let mut of: Vec<_> = of.collect();
            of.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.micros));
            let program = self.programs.get(&task).map_or("-", String::as_str);
            for ((_, call), calls) in of {
                let (name, count) = (format!("t{task:x}"), calls.begun.max(calls.ended));
                let _ = writeln!(
                    out,
                    "{name:>10} {program:>16} {call:>14} {count:>8} {:>12} {:>12}",
                    calls.micros, calls.bytes
                );
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Debian's tracer writes it.
    const TRACE: &str = "\
/*
 * \"Creation Date\" \"Sun Nov 22 01:25:54 2026\"
 */ ;;

#1150: \"newtask(0)\"
{
\t// \"TS\" \"Time Seconds\"
\tint \"TS\";
\tint \"TU\";
\tint \"TID\";
\tint \"PT\";
\tint \"TF\";
\tchar \"TN\"[];
};;

\"newtask(0)\" { 10, 5, 262147, -35, 64, [10] { \"hello.pvm\" } };;
#1: \"recv(0.0)\"
{
\tint \"TS\";
\tint \"TU\";
\tint \"TID\";
};;
#2: \"recv(1.1)\"
{
\tint \"TS\";
\tint \"TU\";
\tint \"TID\";
\tint \"MB\";
\tint \"MNB\";
};;
\"recv(0.0)\" { 10, 999990, 262147 };;
\"recv(1.1)\" { 11, 20, 262147, 7, 28 };;
\"recv(0.0)\" { 11, 30, 262147 };;
";

    #[test]
    fn calls_are_counted_and_timed() {
        let summary = Summary::read(TRACE.as_bytes()).unwrap();
        let key = (262_147, "recv".to_string());
        let expected = Calls { begun: 2, ended: 1, micros: 30, bytes: 28, since: Some(11_000_030) };
        assert_eq!(summary.calls[&key], expected);
        let table = summary.table();
        assert!(table.starts_with("4 events of 1 tasks in 1.000025 s\n"), "{table}");
        let row = "    t40003        hello.pvm           recv        2           30           28\n";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        for text in ["", "hello\n", "\"send(0.0)\" { 1, 2, 3 };;\n", "#1: x\n"] {
            assert!(Summary::read(text.as_bytes()).is_err(), "{text:?}");
        }
        let long = vec![b'x'; LINE_MAX as usize + 1];
        assert!(Summary::read(&long[..]).is_err());
    }

    proptest! {
        #[test]
        fn a_broken_file_is_harmless(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut bytes = TRACE.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(summary) = Summary::read(&bytes[..]) {
                summary.table();
            }
        }
    }
}
