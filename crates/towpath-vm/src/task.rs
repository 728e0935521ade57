//! What a task is started with, and how it ends.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use towpath_wire::{HostId, TaskId};

/// A command to run. Strings are bytes, as the operating system has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Program: a path, or a name that the host looks up in its `PATH`.
    pub program: Vec<u8>,
    /// Arguments after the program's name.
    pub args: Vec<Vec<u8>>,
    /// Variables added to the daemon's environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory; empty: the daemon's.
    pub cwd: Vec<u8>,
    /// Wait for one of the host's job slots instead of starting at once.
    pub queued: bool,
    /// Milliseconds from its start after which it is ended; 0: never.
    pub timeout_ms: u32,
    /// Bytes of output that may be under way to the requester.
    pub output_window: u32,
    /// Bytes of standard input that the requester may have under way; 0: it is empty.
    pub input_window: u32,
    /// Nothing may take its place before it is over: its host starts it once it knows that it is
    /// part of the virtual machine, and ends it before it could be declared lost.
    pub unique: bool,
}

/// Which output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It ran longer than it may and was ended.
    TimedOut,
    /// It could not be started.
    NotStarted {
        /// Error number of the operating system (2: no such program), 0 when there is none.
        errno: i32,
        /// What went wrong.
        text: String,
    },
    /// Its host, or the connection to it, was lost. It was ended there, or will be.
    HostLost,
    /// The host did not take it.
    Refused(String),
    /// It is unique, and its host could not be sure any more that it was not declared lost.
    Unsure,
}

impl Ending {
    /// Exited with status 0.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// Exit status as a shell would give it: 128 + n for signal n, 124 for a time-out, 127 where
    /// its program or its working directory is not there, 126 where it could not be started for
    /// another reason, 255 when its host was lost or refused it.
    pub const fn shell_status(&self) -> u8 {
        match self {
            Self::Exited(code) => *code as u8,
            Self::Signalled(signal) => 128u8.wrapping_add(*signal as u8),
            Self::TimedOut => 124,
            Self::NotStarted { errno: 2, .. } => 127,
            Self::NotStarted { .. } => 126,
            Self::HostLost | Self::Refused(_) | Self::Unsure => 255,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status {code}"),
            Self::Signalled(signal) => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::NotStarted { text, .. } => write!(f, "could not be started: {text}"),
            Self::HostLost => f.write_str("host lost"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unsure => f.write_str(
                "ended by its host, which had not heard for long enough that it is a member still",
            ),
        }
    }
}

/// How a task ended and what it used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskExit {
    /// How.
    pub ending: Ending,
    /// Microseconds from start to end.
    pub wall_us: u64,
}

impl TaskExit {
    /// An end without a run.
    pub const fn without_run(ending: Ending) -> Self {
        Self { ending, wall_us: 0 }
    }
}

/// A task as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// Who asked for it.
    pub requester: HostId,
    /// Process id on its host; 0 while it waits for a slot or is being started.
    pub pid: u32,
    /// Microseconds since it was accepted.
    pub age_us: u64,
    /// Program and arguments, cut at 200 bytes.
    pub command: String,
    /// The task that spawned it, if one did.
    pub parent: Option<TaskId>,
    /// It is part of the virtual machine now.
    pub enrolled: bool,
    /// Its daemon started its process; else it enrolled by itself.
    pub started: bool,
    /// Channels of its own that it has.
    pub channels: u32,
    /// Of these, what is reserved for what it sends on them, in bits of messages a second.
    pub reserved_bps: u64,
}

/// Longest command text in a [`TaskInfo`], in bytes.
pub(crate) const COMMAND_MAX: usize = 200;
/// Longest text of an [`Ending`] or a fault that a daemon keeps or passes on, in bytes.
pub const TEXT_MAX: usize = 200;
/// What stands for the middle of a longer one.
const GAP: &str = " ... ";

/// Shortens a text to [`TEXT_MAX`] bytes: its middle goes, since what it is about stands at its
/// beginning and why at its end.
pub(crate) fn cut(text: &mut String) {
    if text.len() <= TEXT_MAX {
        return;
    }
    let half = (TEXT_MAX - GAP.len()) / 2;
    let (first, last) =
        (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    text.replace_range(first..last, GAP);
}

impl Ending {
    /// Shortens what it says to [`TEXT_MAX`] bytes: it is kept, and told to many.
    pub fn cut(&mut self) {
        match self {
            Self::NotStarted { text, .. } | Self::Refused(text) => cut(text),
            _ => {}
        }
    }
}

impl TaskInfo {
    /// Shortens its command, which another host may have said, to what it is to be.
    pub fn cut(&mut self) {
        self.command.truncate(self.command.floor_char_boundary(COMMAND_MAX));
    }
}

impl TaskSpec {
    /// Program and arguments for people.
    pub fn command(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.program).into_owned();
        for arg in &self.args {
            if text.len() >= COMMAND_MAX {
                break;
            }
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(arg));
        }
        text.truncate(text.floor_char_boundary(COMMAND_MAX));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end_and_its_letters_whole() {
        let path = "\u{e9}".repeat(2000);
        let mut ending =
            Ending::NotStarted { errno: 2, text: alloc::format!("/{path}: no such file") };
        ending.cut();
        let Ending::NotStarted { text, .. } = &ending else { panic!("{ending:?}") };
        assert!(text.len() <= TEXT_MAX && text.len() > TEXT_MAX - 8, "{}", text.len());
        assert!(text.starts_with("/\u{e9}") && text.ends_with("\u{e9}: no such file"), "{text}");
        let before = Ending::Refused("x".repeat(TEXT_MAX));
        let mut same = before.clone();
        same.cut();
        assert_eq!(same, before);
    }

    #[test]
    fn what_another_host_says_of_a_task_is_cut_to_its_length() {
        let host = towpath_wire::HostId::new(1, 1).unwrap();
        let mut info = TaskInfo {
            id: host.task(1).unwrap(),
            requester: host,
            pid: 0,
            age_us: 0,
            command: "a".repeat(COMMAND_MAX),
            parent: None,
            enrolled: false,
            started: true,
            channels: 0,
            reserved_bps: 0,
        };
        let whole = info.clone();
        info.cut();
        assert_eq!(info, whole);
        info.command.push('b');
        info.cut();
        assert_eq!(info, whole);
        // A letter of two bytes is there whole or not at all.
        info.command = alloc::format!("{}\u{e4}", "a".repeat(COMMAND_MAX - 1));
        info.cut();
        assert_eq!(info.command, "a".repeat(COMMAND_MAX - 1));
        let long = || "x".repeat(TEXT_MAX + 1);
        let mut answer =
            Ok(crate::talk::Answer::Tasks(alloc::vec![TaskInfo { command: long(), ..info }]));
        crate::talk::cut_answer(&mut answer);
        let Ok(crate::talk::Answer::Tasks(tasks)) = answer else { panic!("another answer") };
        assert_eq!(tasks[0].command.len(), COMMAND_MAX);
        let fault = || crate::talk::Fault::Bad(long());
        let length = |fault: &crate::talk::Fault| match fault {
            crate::talk::Fault::Bad(text) => text.len(),
            _ => 0,
        };
        for mut answer in [
            Ok(crate::talk::Answer::Spawned(alloc::vec![Err(fault())])),
            Ok(crate::talk::Answer::Each(alloc::vec![Ok(()), Err(fault())])),
            Err(fault()),
        ] {
            crate::talk::cut_answer(&mut answer);
            let fault = match &answer {
                Ok(crate::talk::Answer::Spawned(all)) => all[0].as_ref().unwrap_err(),
                Ok(crate::talk::Answer::Each(all)) => all[1].as_ref().unwrap_err(),
                Err(fault) => fault,
                Ok(_) => panic!("another answer"),
            };
            assert!((TEXT_MAX - 1..=TEXT_MAX).contains(&length(fault)), "{}", length(fault));
        }
    }
}
