//! Programs that run meanwhile: what they say, line by line, and how they end, each wait bounded.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::namespaces::pass;

/// Where a check failed, why.
pub(super) type Checked<T> = Result<T, String>;

/// A program that runs.
pub(super) struct Work {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it has said, as far as it was read.
    pub(super) seen: Vec<String>,
    complaints: Arc<Mutex<String>>,
}

/// How a program ended.
pub(super) struct Ended {
    /// Its exit status; none: a signal ended it.
    pub(super) code: Option<i32>,
    /// What it said on standard output.
    pub(super) out: Vec<String>,
    /// What it said on standard error.
    pub(super) said: String,
}

impl Work {
    pub(super) fn start(name: &'static str, command: &mut Command) -> Checked<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            let lines = out.split(b'\n').map_while(Result::ok);
            for line in lines {
                let _ = tell.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let complaints = Arc::new(Mutex::new(String::new()));
        let mut err = child.stderr.take().expect("a pipe");
        let kept = Arc::clone(&complaints);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = err.read(&mut bytes) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        let stdin = child.stdin.take();
        Ok(Self { name, child, stdin, lines, seen: Vec::new(), complaints })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said on standard error so far.
    pub(super) fn said(&self) -> String {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it lines to read.
    pub(super) fn feed(&mut self, lines: &str) {
        // One that has ended meanwhile is judged by how it ended.
        let _ = self.stdin.as_mut().map(|stdin| stdin.write_all(lines.as_bytes()));
    }

    /// There is no more to read.
    pub(super) fn no_more(&mut self) {
        self.stdin = None;
    }

    /// Takes in what it has said already.
    pub(super) fn catch_up(&mut self) {
        self.seen.extend(self.lines.try_iter());
    }

    /// Waits until it has said `count` more lines.
    pub(super) fn more(&mut self, count: usize, within: Duration) -> Checked<()> {
        let (until, wanted) = (Instant::now() + within, self.seen.len() + count);
        while self.seen.len() < wanted {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let (name, seen, said) = (self.name, self.seen.len(), self.said());
                return Err(format!(
                    "{name}: {seen} lines of {wanted} within {within:?}; it says: {said}"
                ));
            };
            self.seen.push(line);
        }
        Ok(())
    }

    /// Waits until it has ended.
    pub(super) fn end(&mut self, within: Duration) -> Checked<Ended> {
        self.no_more();
        let until = Instant::now() + within;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => {
                    pass(Duration::from_millis(10));
                }
                _ => {
                    let (name, said) = (self.name, self.said());
                    return Err(format!(
                        "{name}: has not ended within {within:?}; it says: {said}"
                    ));
                }
            }
        };
        // What still holds its output (none should) is not waited for.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(2)) {
            self.seen.push(line);
        }
        Ok(Ended { code: status.code(), out: self.seen.clone(), said: self.said() })
    }

    /// It ends with this status.
    pub(super) fn end_with(&mut self, code: i32, within: Duration) -> Checked<Ended> {
        let ended = self.end(within)?;
        let name = self.name;
        match ended.code {
            Some(it) if it == code => Ok(ended),
            it => Err(format!("{name}: ended with {it:?}, not {code}; it says: {}", ended.said)),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again until the answer is good.
pub(super) fn until<T>(within: Duration, mut ask: impl FnMut() -> Checked<T>) -> Checked<T> {
    let end = Instant::now() + within;
    loop {
        match ask() {
            Err(why) if Instant::now() >= end => return Err(format!("after {within:?}: {why}")),
            Err(_) => pass(Duration::from_millis(50)),
            good => return good,
        }
    }
}
