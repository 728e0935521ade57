//! Output of tasks that no client and no task takes: lines for the daemon's log, to a limit.

use std::collections::HashMap;

use towpath_vm::{RequestEvent, RequestId};
use towpath_wire::TaskId;

/// Most bytes that are logged in a daemon's life, as PVM's daemon has it.
const LOGGED_MAX: usize = 1 << 20;
/// Longest line, in bytes; a longer one is cut into several.
const LINE_MAX: usize = 1024;

/// What such tasks said. Invariant: no line that waits for its end is as long as [`LINE_MAX`].
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    /// Tasks that run, with the beginning of a line.
    tasks: HashMap<RequestId, (TaskId, Vec<u8>)>,
    logged: usize,
}

impl Unclaimed {
    /// What is to be logged of an event of a request without client.
    pub(super) fn take(&mut self, id: RequestId, event: &RequestEvent) -> Vec<String> {
        let mut lines = Vec::new();
        match event {
            RequestEvent::Started { task, .. } => {
                self.tasks.insert(id, (*task, Vec::new()));
            }
            RequestEvent::Output { bytes, .. } => self.said(id, bytes, &mut lines),
            RequestEvent::InputTaken(_) => {}
            RequestEvent::Ended(_) => {
                if self.tasks.get(&id).is_some_and(|(_, rest)| !rest.is_empty()) {
                    self.said(id, b"\n", &mut lines);
                }
                self.tasks.remove(&id);
            }
        }
        lines
    }

    fn said(&mut self, id: RequestId, bytes: &[u8], lines: &mut Vec<String>) {
        let Some((task, rest)) = self.tasks.get_mut(&id) else { return };
        for &byte in bytes {
            if byte != b'\n' {
                rest.push(byte);
            }
            if byte != b'\n' && rest.len() < LINE_MAX {
                continue;
            }
            if self.logged < LOGGED_MAX {
                // What it wrote is not for the terminal of whoever reads the log.
                let text = String::from_utf8_lossy(rest).replace(char::is_control, " ");
                lines.push(format!("[{task}] {text}"));
                self.logged += rest.len() + 1;
                if self.logged >= LOGGED_MAX {
                    lines.push(format!("output of tasks: no more than {LOGGED_MAX} B is logged"));
                }
            }
            rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_vm::{Ending, Stream, TaskExit};
    use towpath_wire::HostId;

    fn said(text: &[u8]) -> RequestEvent {
        RequestEvent::Output { stream: Stream::Out, bytes: text.to_vec() }
    }

    #[test]
    fn lines_are_whole_and_named() {
        let (mut unclaimed, id) = (Unclaimed::default(), RequestId(7));
        let task = HostId::new(1, 1).unwrap().task(3).unwrap();
        assert!(unclaimed.take(id, &said(b"of one that nobody started\n")).is_empty());
        assert!(unclaimed.take(id, &RequestEvent::Started { task, pid: 1 }).is_empty());
        assert_eq!(unclaimed.take(id, &said(b"a\x1b[1m\nb")), [format!("[{task}] a [1m")]);
        let ended = RequestEvent::Ended(TaskExit::without_run(Ending::Exited(0)));
        assert_eq!(unclaimed.take(id, &ended), [format!("[{task}] b")]);
        assert!(unclaimed.tasks.is_empty());
    }

    #[test]
    fn the_log_has_a_limit() {
        let (mut unclaimed, id) = (Unclaimed::default(), RequestId(7));
        let task = HostId::new(1, 1).unwrap().task(3).unwrap();
        unclaimed.take(id, &RequestEvent::Started { task, pid: 1 });
        let mut lines = Vec::new();
        for _ in 0..2 * LOGGED_MAX / LINE_MAX {
            lines.extend(unclaimed.take(id, &said(&[b'x'; LINE_MAX])));
        }
        assert!(lines.len() <= LOGGED_MAX / LINE_MAX + 1, "{}", lines.len());
        assert!(lines.last().unwrap().contains("no more than 1048576 B"));
    }
}
