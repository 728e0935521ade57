//! Traces of what was spawned with `-@`: tasks tell of their calls in messages, which are written
//! down as PVM's console does (a form of SDDF; `summary` reads it).
//!
//! Messages are rows of ints in the byte order of the task's machine, texts among them
//! (crates/towpath-pvm3/src/library/events.rs):
//!
//! ```text
//! first of its kind   −5 | event | name | (datum, type, value) … | −6
//! others              −7 | event | value … | −8
//! several at once     −1 | of either … | −2
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use towpath::TaskId;
use towpath_pvm::names::arch_to_pvm;
use towpath_pvm::trace::{DATUM, EVENTS};
use towpath_vm::Host;

use super::mask;
use super::tids::Tid;

const BUFFER: [i32; 2] = [-1, -2];
const DESCRIBED: i32 = -5;
const DESCRIBED_END: i32 = -6;
const PLAIN: i32 = -7;
const PLAIN_END: i32 = -8;
/// Bits of an event's number: a call begins, a call has ended.
const ENTRY: i32 = 0x4000;
const EXIT: i32 = 0x8000;

/// Types of data.
const INT: i32 = 6;
const LONG: i32 = 8;
const TEXT: i32 = 12;
const ROW: i32 = 0x80;

/// Longest record of a task, in bytes, as it is written.
const RECORD_MAX: usize = 1 << 20;

/// Names of data, with their types.
type Description = Vec<(&'static str, &'static str, i32)>;

/// A trace. Invariant: what is in `written` has been described in the text that was given out.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By task and event, what the task's records of it hold.
    known: BTreeMap<(TaskId, i32), Description>,
    written: BTreeSet<i32>,
}

/// What is left of a message.
struct Ints<'a>(&'a [u8]);

impl<'a> Ints<'a> {
    fn int(&mut self) -> Option<i32> {
        let (int, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_ne_bytes(*int))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.int()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len.checked_next_multiple_of(4)?)?;
        self.0 = rest;
        text[..len].split_last().map(|(_, text)| text)
    }

    /// A value as it is written; `None`: there is none of this type.
    fn value(&mut self, kind: i32, out: &mut String) -> Option<()> {
        if kind & ROW == 0 {
            return match kind {
                // Texts stand in rows by themselves: of letters.
                TEXT => {
                    let text = self.text()?;
                    put(out, format_args!("[{}] {{ {} }}", text.len() + 1, quoted(text)))
                }
                _ => self.element(kind, out),
            };
        }
        let count = self.int().filter(|count| *count >= 0)?;
        let kind = kind & !ROW;
        put(out, format_args!("[{count}] "))?;
        let (mut elements, mut longest) = (String::new(), 0);
        for at in 0..count {
            elements += if at > 0 { ", " } else { "" };
            let begin = elements.len();
            self.element(kind, &mut elements)?;
            longest = longest.max(elements.len() - begin);
            (out.len() + elements.len() <= RECORD_MAX).then_some(())?;
        }
        if kind == TEXT {
            put(out, format_args!("[{}] ", longest.saturating_sub(1)))?;
        }
        put(out, format_args!("{{ {elements} }}"))
    }

    fn element(&mut self, kind: i32, out: &mut String) -> Option<()> {
        match kind {
            INT => put(out, format_args!("{}", self.int()?)),
            LONG => put(out, format_args!("{}", self.int()?.cast_unsigned())),
            TEXT => put(out, format_args!("{}", quoted(self.text()?))),
            _ => None,
        }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) -> Option<()> {
    out.write_fmt(text).ok()
}

/// A text between quotes, on one line.
fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let letter = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        '\n' => "\\n".into(),
        letter => letter.to_string(),
    };
    format!("\"{}\"", text.chars().map(letter).collect::<String>())
}

/// Number and name of an event as they are written.
fn names(event: i32) -> Option<(i32, String)> {
    let number = event & (ENTRY - 1);
    let name = usize::try_from(number).ok().filter(|number| *number < EVENTS).map(mask::name)?;
    Some(match event - number {
        0 => (1000 + 2 * number, format!("{name}(0)")),
        ENTRY => (1000 + 2 * number, format!("{name}(0.0)")),
        EXIT => (2001 + 2 * number, format!("{name}(1.1)")),
        _ => return None,
    })
}

fn datum(name: &str, kind: i32) -> Option<(&'static str, &'static str, i32)> {
    let found = DATUM.iter().find(|(datum, _)| datum.to_bytes() == name.as_bytes())?;
    Some((found.0.to_str().ok()?, found.1.to_str().ok()?, kind))
}

/// The description of a kind of record.
fn described(number: i32, name: &str, data: &Description) -> String {
    let mut out = format!("\n#{number}: \"{name}\"\n{{\n");
    for (datum, meaning, kind) in data {
        let of = if kind & !ROW == TEXT { "char" } else { "int" };
        let text = if kind & !ROW == TEXT { "[]" } else { "" };
        let row = if kind & ROW == 0 { "" } else { "[]" };
        let _ = writeln!(out, "\t// \"{datum}\" \"{meaning}\"\n\t{of} \"{datum}\"{row}{text};");
    }
    out + "};;\n\n"
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Trace {
    /// What a trace begins with: the hosts there are.
    pub(super) fn begin(&mut self, hosts: &[Host]) -> String {
        let mut out = format!("/*\n * \"Machine\" \"Console 3.4.6 (Towpath {})\"\n */ ;;\n", {
            towpath::VERSION
        });
        for host in hosts {
            let name = quoted(host.name.as_bytes());
            let arch = arch_to_pvm(&host.arch);
            let own = format!(
                "[{0}] {{ {name} }}, [{0}] {{ {name} }}, [{1}] {{ {2} }}, {3}",
                host.name.len() + 1,
                arch.len() + 1,
                quoted(arch.as_bytes()),
                host.speed
            );
            let data = [("HN", TEXT), ("HNA", TEXT), ("HA", TEXT), ("HSP", INT)];
            out += &self.of_console((1802, "host_add(0)"), Tid::from(host.id), &data, &own);
        }
        out
    }

    /// A line that a task has printed.
    pub(super) fn printed(&mut self, task: TaskId, line: &[u8]) -> String {
        let own = format!("[{}] {{ {} }}", line.len() + 1, quoted(line));
        self.of_console((1808, "output(0)"), Tid::from(task), &[("OS", TEXT)], &own)
    }

    /// A record that no task has sent.
    fn of_console(
        &mut self,
        (number, name): (i32, &str),
        of: Tid,
        data: &[(&str, i32)],
        own: &str,
    ) -> String {
        let mut out = String::new();
        if self.written.insert(number) {
            let head = [("TS", INT), ("TU", INT), ("TID", INT)];
            let data = head.iter().chain(data).filter_map(|(name, kind)| datum(name, *kind));
            out += &described(number, name, &data.collect());
        }
        let (time, tid) = (now(), of.0);
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        let _ = writeln!(out, "\"{name}\" {{ {seconds}, {micros}, {tid}, {own} }};;");
        out
    }

    /// What a task's message says; `None` as the second: its end is none that a task sends.
    pub(super) fn message(&mut self, from: TaskId, bytes: &[u8]) -> (String, Option<()>) {
        let (mut out, mut ints) = (String::new(), Ints(bytes));
        while !ints.0.is_empty() {
            if self.record(from, &mut ints, &mut out).is_none() {
                return (out, None);
            }
        }
        (out, Some(()))
    }

    fn record(&mut self, from: TaskId, ints: &mut Ints<'_>, out: &mut String) -> Option<()> {
        let kind = ints.int()?;
        if BUFFER.contains(&kind) {
            return Some(());
        }
        let event = ints.int()?;
        let (number, name) = names(event)?;
        let mut values = Vec::new();
        match kind {
            DESCRIBED => {
                ints.text()?;
                let mut data = Description::new();
                loop {
                    let kind = ints.int()?;
                    if kind == DESCRIBED_END {
                        break;
                    }
                    let (datum, meaning) = DATUM.get(usize::try_from(kind).ok()?)?;
                    let kind = ints.int()?;
                    data.push((datum.to_str().ok()?, meaning.to_str().ok()?, kind));
                    let mut value = String::new();
                    ints.value(kind, &mut value)?;
                    values.push(value);
                }
                self.known.insert((from, event), data);
            }
            PLAIN => {
                for (.., kind) in self.known.get(&(from, event))? {
                    let mut value = String::new();
                    ints.value(*kind, &mut value)?;
                    values.push(value);
                }
                (ints.int()? == PLAIN_END).then_some(())?;
            }
            _ => return None,
        }
        if self.written.insert(number) {
            *out += &described(number, &name, self.known.get(&(from, event))?);
        }
        put(out, format_args!("\"{name}\" {{ {} }};;\n", values.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;
    use towpath_wire::HostId;

    use crate::pvm::summary::Summary;

    fn task(number: u32) -> TaskId {
        HostId::new(1, 1).unwrap().task(number).unwrap()
    }

    /// Ints, and texts between them.
    fn message(parts: &[Result<i32, &str>]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            match part {
                Ok(int) => out.extend(int.to_ne_bytes()),
                Err(text) => {
                    let len = i32::try_from(text.len() + 1).unwrap();
                    out.extend(len.to_ne_bytes());
                    out.extend(text.as_bytes());
                    out.resize((out.len() + 1).next_multiple_of(4), 0);
                }
            }
        }
        out
    }

    /// Number of what is told when `send` begins.
    const SEND: i32 = ENTRY | 0x2f;

    /// It begins, at this second.
    fn send(described: bool, second: i32) -> Vec<Result<i32, &'static str>> {
        let values = [(106, second), (107, 5), (88, 0x4_0003), (48, 28)];
        let mut parts = vec![Ok(if described { -5 } else { -7 }), Ok(SEND)];
        if described {
            parts.push(Err("send"));
        }
        for (datum, value) in values {
            if described {
                parts.extend([Ok(datum), Ok(INT)]);
            }
            parts.push(Ok(value));
        }
        parts.push(Ok(if described { -6 } else { -8 }));
        parts
    }

    #[test]
    fn records_are_described_once_for_all_tasks() {
        let mut trace = Trace::default();
        let both = [vec![Ok(-1)], send(true, 7), send(false, 8), vec![Ok(-2)]].concat();
        let (text, whole) = trace.message(task(3), &message(&both));
        assert_eq!(whole, Some(()));
        let head = "\n#1094: \"send(0.0)\"\n{\n\t// \"TS\" \"Time Seconds\"\n\tint \"TS\";\n";
        assert!(text.starts_with(head), "{text}");
        let records =
            "\"send(0.0)\" { 7, 5, 262147, 28 };;\n\"send(0.0)\" { 8, 5, 262147, 28 };;\n";
        assert!(text.ends_with(&format!("}};;\n\n{records}")), "{text}");
        // Another task describes it again, for its own later ones.
        let (text, _) = trace.message(task(4), &message(&send(true, 9)));
        assert_eq!(text, "\"send(0.0)\" { 9, 5, 262147, 28 };;\n");
        let text = trace.printed(task(3), b"a \"b\"");
        assert!(text.ends_with(", 262147, [6] { \"a \\\"b\\\"\" } };;\n"), "{text}");
        assert!(text.contains("#1808: \"output(0)\""), "{text}");
    }

    #[test]
    fn rows_and_texts_are_written_as_pvms_tools_read_them() {
        let mut trace = Trace::default();
        let parts = [
            vec![Ok(-5), Ok(107), Err("profiling"), Ok(120), Ok(6), Ok(2)],
            vec![Ok(121), Ok(0x8c), Ok(2), Err("recv"), Err("barrier")],
            vec![Ok(77), Ok(0x86), Ok(2), Ok(1), Ok(-2), Ok(71), Ok(8), Ok(-1), Ok(-6)],
        ];
        let (text, whole) = trace.message(task(3), &message(&parts.concat()));
        assert_eq!(whole, Some(()), "{text}");
        let record = "{ 2, [2] [8] { \"recv\", \"barrier\" }, [2] { 1, -2 }, 4294967295 };;\n";
        assert!(text.ends_with(record), "{text}");
        assert!(
            text.contains("\tchar \"VID\"[][];") && text.contains("\tint \"PRF\"[];"),
            "{text}"
        );
    }

    #[test]
    fn a_trace_can_be_summed_up() {
        let mut trace = Trace::default();
        let mut text = trace.begin(&[]);
        text += &trace.message(task(3), &message(&send(true, 7))).0;
        text += &trace.printed(task(3), b"done");
        let table = Summary::read(BufReader::new(text.as_bytes())).unwrap().table();
        assert!(table.contains("send"), "{table}");
    }

    #[test]
    fn what_no_task_sends_is_refused_where_it_begins() {
        for parts in [
            vec![Ok(3)],
            vec![Ok(-7), Ok(SEND), Ok(1), Ok(-8)],
            vec![Ok(-5), Ok(i32::try_from(EVENTS).unwrap()), Err("x"), Ok(-6)],
            vec![Ok(-5), Ok(47), Err("send"), Ok(999), Ok(6), Ok(1), Ok(-6)],
            vec![Ok(-5), Ok(47), Err("send"), Ok(106), Ok(99), Ok(1), Ok(-6)],
            vec![Ok(-5), Ok(47), Err("send"), Ok(106), Ok(0x86), Ok(i32::MAX), Ok(1)],
            vec![Ok(-5), Ok(47), Ok(-1)],
        ] {
            let good = message(&send(true, 7));
            let bytes = [good, message(&parts)].concat();
            let (text, whole) = Trace::default().message(task(3), &bytes);
            assert_eq!(whole, None, "{parts:?}");
            assert_eq!(text.lines().filter(|line| line.starts_with("\"send")).count(), 1);
        }
    }
}
