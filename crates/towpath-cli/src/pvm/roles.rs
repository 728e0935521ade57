//! Hosters and taskers: tasks written for PVM that start hosts and tasks, and how they are asked.
//!
//! What they are asked are messages of PVM's, in the form in which libraries exchange them:
//!
//! ```text
//! 0 kind | 4 tag | 8 wait id | 12 host | 16 the message's own bytes
//! ```
//! The first four ints are little-endian (crates/towpath-pvm3/src/library/system.rs); the rest has
//! XDR's layout in the byte order of this machine.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use towpath::task::{Envelope, SpawnTasks, Subject, Wanted, WatchEvent};
use towpath::{Event, Task};
use towpath_wire::TaskId;

const CONTEXT: u32 = 0x7_ffff;
const TAG: i64 = 0x8003_0004_u32.cast_signed() as i64;
/// Header's format: XDR's layout, by a machine of this byte order.
const FORMAT: u32 = 0x1000_0000 | cfg!(target_endian = "little") as u32;
/// Kinds: a question of a daemon, an answer.
const OF_DAEMON: i32 = 1;
const ANSWER: i32 = 2;
/// The only question that this task asks.
const WAIT: i32 = 1;
/// Tags of what is asked.
pub(super) const START_HOST: i32 = 0x8004_000f_u32.cast_signed();
pub(super) const START_TASK: i32 = 0x8004_0011_u32.cast_signed();
const HEADER: usize = 16;

/// Mailboxes of hosters and taskers.
const HOSTERS: &str = "###_PVM_HOSTER_###";
const TASKERS: &str = "###_PVM_TASKER_###";

/// Ints and texts as PVM packs them.
#[derive(Debug, Default)]
pub(super) struct Packed(Vec<u8>);

impl Packed {
    pub(super) fn int(&mut self, int: i32) -> &mut Self {
        self.0.extend_from_slice(&int.to_ne_bytes());
        self
    }

    /// A length or number of things. Command lines are far shorter than an int can say.
    pub(super) fn count(&mut self, count: usize) -> &mut Self {
        self.int(i32::try_from(count).unwrap_or(i32::MAX))
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.count(text.len() + 1);
        self.0.extend_from_slice(text);
        self.0.push(0);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// What a task answered.
#[derive(Debug)]
pub(super) struct Answered(Vec<u8>);

impl Answered {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(HEADER)?;
        let int = |at: usize| header[at..at + 4].try_into().map(i32::from_le_bytes).ok();
        (int(0)? == ANSWER && int(8)? == WAIT).then(|| Self(body.to_vec()))
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        let (int, rest) = self.0.split_at_checked(4)?;
        let int = i32::from_ne_bytes(int.try_into().ok()?);
        self.0 = rest.to_vec();
        Some(int)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.int()?).ok()?;
        let text = self.0.get(..len)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        self.0.drain(..len.next_multiple_of(4).min(self.0.len()));
        Some(text)
    }
}

/// What came of waiting for an answer.
#[derive(Debug)]
pub(super) enum Came {
    Answer(Answered),
    /// The task that was asked has ended.
    Ended,
    Nothing,
}

/// A question that was asked.
pub(super) struct Question {
    pub(super) task: Task,
    to: TaskId,
}

impl Question {
    /// Asks a task, as PVM's daemon would.
    pub(super) fn ask(
        mut task: Task,
        to: TaskId,
        tag: i32,
        question: &Packed,
    ) -> anyhow::Result<Self> {
        task.watch(Subject::Task(to))?;
        let host = (task.id().pvm_tid() & 0x3ffc_0000).cast_signed();
        let mut bytes = Vec::with_capacity(HEADER + question.0.len());
        for int in [OF_DAEMON, tag, WAIT, host] {
            bytes.extend_from_slice(&int.to_le_bytes());
        }
        bytes.extend_from_slice(&question.0);
        let envelope = Envelope { tag: TAG, context: CONTEXT, format: FORMAT };
        // Whether it is still there, the watch tells.
        let _ = task.send_parts(to, envelope, &[&bytes]);
        Ok(Self { task, to })
    }

    /// Waits for the answer, not longer than `limit`.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> anyhow::Result<Came> {
        let until = limit.map(|limit| Instant::now() + limit);
        let wanted = Wanted { source: Some(self.to), tag: Some(TAG), context: CONTEXT };
        loop {
            while let Some(message) = self.task.try_recv(&wanted)? {
                if let Some(answer) = Answered::read(message.bytes()) {
                    return Ok(Came::Answer(answer));
                }
            }
            while let Some(event) = self.task.next_event() {
                match event {
                    Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. }
                        if task == self.to =>
                    {
                        return Ok(Came::Ended);
                    }
                    Event::End(_) => bail!("the daemon is gone"),
                    _ => {}
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Came::Nothing);
            }
            self.task.wait(left)?;
        }
    }
}

/// The hoster, if a task is.
pub(super) fn hoster(task: &mut Task) -> Option<TaskId> {
    // Without a leader there are no mailboxes, and no hosts are added.
    let boxes = task.mailboxes(HOSTERS).ok()?;
    boxes.iter().flat_map(|one| &one.entries).find_map(|(_, owner, _)| *owner)
}

/// Tasks are started by taskers, on hosts that have one: this program asks them.
pub(super) fn by_taskers(task: &mut Task, tasks: &mut SpawnTasks) {
    let boxes = task.mailboxes(TASKERS).unwrap_or_default();
    let taskers = boxes.iter().flat_map(|one| &one.entries).filter_map(|entry| entry.1);
    let taskers: Vec<String> = taskers.map(|task| task.to_raw().to_string()).collect();
    if taskers.is_empty() {
        return;
    }
    let words =
        ["pvm", "--by-tasker", &taskers.join(","), "--"].map(|word| word.as_bytes().to_vec());
    let program = std::mem::replace(&mut tasks.program, b"towpath".to_vec());
    tasks.args.splice(..0, words.into_iter().chain([program]));
}

/// Has a hoster start a host: `login` is `[user@]machine`, `command` what is to be run there, and
/// `token` what it is to read. Gives what the command said.
pub(super) fn ask_hoster(
    task: Task,
    hoster: TaskId,
    [login, command]: [&str; 2],
    token: &str,
) -> anyhow::Result<String> {
    let command = to_run(command, token);
    let mut question = Packed::default();
    // The host gets its number when it joins: who starts one host alone needs none.
    question.int(1).int(0x3ffc_0000).text(b"").text(login.as_bytes()).text(command.as_bytes());
    question.text(b"").text(b"");
    match Question::ask(task, hoster, START_HOST, &question)?.wait(None)? {
        Came::Answer(mut answer) => {
            answer.int();
            let said = answer.text().context("the hoster's answer says nothing")?;
            match said.strip_prefix(GREETING) {
                Some(said) => Ok(said.trim().into()),
                None => bail!("the hoster says {said}"),
            }
        }
        Came::Ended | Came::Nothing => bail!("the hoster has ended"),
    }
}

/// What hosters look for at the beginning of a daemon's line.
const GREETING: &str = "ddpro<2316> ";

/// One line for any shell: the command with its token, whose answer begins as PVM's daemons do.
fn to_run(command: &str, token: &str) -> String {
    let token = token.trim();
    let script = format!("printf %s {token} | {{ printf '{GREETING}'; {command}; }}");
    format!("sh -c '{}'", script.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_is_packed_is_read() {
        let mut packed = Packed::default();
        packed.int(-7).text(b"four").text(b"").int(9);
        let mut header = Vec::new();
        for int in [ANSWER, 5, WAIT, 0] {
            header.extend_from_slice(&i32::to_le_bytes(int));
        }
        let bytes = [header.as_slice(), &packed.0].concat();
        let mut answer = Answered::read(&bytes).unwrap();
        assert_eq!(answer.int(), Some(-7));
        assert_eq!(answer.text().as_deref(), Some("four"));
        assert_eq!(answer.text().as_deref(), Some(""));
        assert_eq!((answer.int(), answer.int()), (Some(9), None));
        assert!(Answered::read(&bytes[..HEADER - 1]).is_none());
    }

    #[test]
    fn a_shell_gives_the_command_its_token() {
        let line = to_run("echo 'it is' $(cat)", "tow1-x\n");
        let out = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "ddpro<2316> it is tow1-x\n");
    }
}
