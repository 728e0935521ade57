//! `trace`: which calls of tasks that are spawned with `-@` are traced, and how.

use std::fmt::Write;

use towpath_pvm::trace::{EVENT, EVENTS};

use super::console::wrong_args;

/// Events that are no calls: no mask names them.
const NO_CALLS: [&str; 5] = ["newtask", "endtask", "spntask", "timing", "profiling"];
/// What XPVM shows, and what is traced unless told otherwise.
const XPVM: [&str; 24] = [
    "addmhf",
    "barrier",
    "bcast",
    "delmhf",
    "exit",
    "joingroup",
    "kill",
    "lvgroup",
    "mcast",
    "mhf_invoke",
    "mytid",
    "nrecv",
    "parent",
    "precv",
    "probe",
    "psend",
    "recv",
    "recvf",
    "send",
    "sendsig",
    "siblings",
    "spawn",
    "trecv",
    "user_defined",
];
/// Values of `PvmTraceOptions`, from 1.
const OPTIONS: [&str; 3] = ["full", "time", "count"];
/// Columns of the list of calls.
const COLUMNS: usize = 4;
/// Letters of a mask as PVM hands it on: four events each.
const MASK: usize = 35;

/// Name of an event.
pub(super) fn name(event: usize) -> &'static str {
    EVENT[event].to_str().unwrap_or_default()
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mask {
    wanted: [bool; EVENTS],
    /// Bytes of events that a task gathers before it sends them.
    buffer: i32,
    /// Index of an option.
    option: usize,
}

impl Default for Mask {
    fn default() -> Self {
        let mut mask = Self { wanted: [false; EVENTS], buffer: 0, option: 0 };
        mask.set(&XPVM, true);
        mask
    }
}

impl Mask {
    /// The command.
    pub(super) fn command(&mut self, args: &[&str]) -> anyhow::Result<String> {
        match args {
            [] => return Ok(self.list()),
            ["xpvm"] => self.wanted = Self::default().wanted,
            ["buf"] => return Ok(format!("\nTrace Buffering set to {} bytes\n\n", self.buffer)),
            ["buf", bytes] => match bytes.parse() {
                Ok(bytes) if bytes >= 0 => self.buffer = bytes,
                _ => anyhow::bail!("`{bytes}` is no number of bytes"),
            },
            ["opt"] => {
                return Ok(format!("\nTrace Options set to \"{}\"\n\n", OPTIONS[self.option]));
            }
            ["opt", wanted] => match OPTIONS.iter().position(|option| option == wanted) {
                Some(option) => self.option = option,
                None => return Ok(format!("\nError:  Unknown Trace Option \"{wanted}\"\n\n")),
            },
            ["buf" | "opt", ..] => return wrong_args(),
            ["-", names @ ..] => return Ok(self.set(names, false)),
            ["+", names @ ..] | names => return Ok(self.set(names, true)),
        }
        Ok(String::new())
    }

    /// Names calls, or all by `*`; what is said of names that are none.
    fn set(&mut self, names: &[&str], wanted: bool) -> String {
        let mut said = String::new();
        for wanted_name in names {
            let plain = wanted_name.strip_prefix("pvm_").unwrap_or(wanted_name);
            let mut found = false;
            for event in calls().filter(|event| *wanted_name == "*" || name(*event) == plain) {
                self.wanted[event] = wanted;
                found = true;
            }
            if !found {
                let _ = writeln!(said, "no such event \"{wanted_name}\"");
            }
        }
        said
    }

    /// All calls in columns, by name; those that are traced have a star.
    fn list(&self) -> String {
        let mut sorted: Vec<usize> = calls().collect();
        sorted.sort_by_key(|event| name(*event));
        let rows = sorted.len().div_ceil(COLUMNS);
        let mut out = String::new();
        for row in 0..rows {
            let events = sorted.iter().skip(row).step_by(rows);
            let cell = |event: &usize| {
                format!(" {} {:<15}", if self.wanted[*event] { '*' } else { ' ' }, name(*event))
            };
            let _ = writeln!(out, "{}", events.map(cell).collect::<Vec<_>>().join(" "));
        }
        out
    }

    /// The variables by which tasks know that they are traced: by whom, with this tag.
    pub(super) fn variables(
        &self,
        tracer: u32,
        context: u32,
        tag: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut mask = vec![b'@'; MASK];
        for event in calls().filter(|event| self.wanted[*event]) {
            mask[event / 4] |= 1 << (event % 4);
        }
        vec![
            (b"TOWPATH_PVM_TRACER".to_vec(), format!("{tracer}:{context}:{tag}").into_bytes()),
            (b"PVMTMASK".to_vec(), mask),
            (b"PVMTRCBUF".to_vec(), self.buffer.to_string().into_bytes()),
            (b"PVMTRCOPT".to_vec(), (self.option + 1).to_string().into_bytes()),
        ]
    }
}

/// The events that are calls.
fn calls() -> impl Iterator<Item = usize> {
    (0..EVENTS).filter(|event| !NO_CALLS.contains(&name(*event)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mask: &Mask) -> Vec<&'static str> {
        calls().filter(|event| mask.wanted[*event]).map(name).collect()
    }

    #[test]
    fn calls_are_named_and_listed_as_pvm_does() {
        let mut mask = Mask::default();
        let list = mask.list();
        assert_eq!(list.lines().count(), 26);
        let first = "   addhosts           gettid             pkfloat            setopt         ";
        assert_eq!(list.lines().next(), Some(first));
        assert_eq!(list.matches('*').count(), 24);
        mask.command(&["-", "*"]).unwrap();
        let said = mask.command(&["nosuch", "send", "pvm_recv", "newtask"]).unwrap();
        assert_eq!(said, "no such event \"nosuch\"\nno such event \"newtask\"\n");
        assert_eq!(names(&mask), ["recv", "send"]);
        mask.command(&["-", "send"]).unwrap();
        mask.command(&["+", "exit"]).unwrap();
        assert_eq!(names(&mask), ["exit", "recv"]);
        let mut all = vec![(b"x".to_vec(), Vec::new())];
        all.extend(mask.variables(0x4_0002, 7, 3));
        let text = |at: usize| String::from_utf8(all[at].1.clone()).unwrap();
        assert_eq!(text(1), "262146:7:3");
        // Call 7 and call 45: bits 3 and 1 of the second and twelfth letter.
        assert_eq!(text(2), format!("@H{}B{}", "@".repeat(9), "@".repeat(23)));
        assert_eq!((text(3).as_str(), text(4).as_str()), ("0", "1"));
        mask.command(&["xpvm"]).unwrap();
        assert_eq!(names(&mask), names(&Mask::default()));
    }

    #[test]
    fn buffers_and_options_are_set_and_shown() {
        let mut mask = Mask::default();
        assert_eq!(mask.command(&["buf"]).unwrap(), "\nTrace Buffering set to 0 bytes\n\n");
        mask.command(&["buf", "2000"]).unwrap();
        assert_eq!(mask.command(&["buf"]).unwrap(), "\nTrace Buffering set to 2000 bytes\n\n");
        assert!(mask.command(&["buf", "x"]).is_err() && mask.command(&["buf", "-1"]).is_err());
        mask.command(&["opt", "count"]).unwrap();
        assert_eq!(mask.command(&["opt"]).unwrap(), "\nTrace Options set to \"count\"\n\n");
        let said = mask.command(&["opt", "much"]).unwrap();
        assert_eq!(said, "\nError:  Unknown Trace Option \"much\"\n\n");
        assert!(mask.command(&["opt", "time", "x"]).is_err());
    }
}
