//! Engines of real daemons in this process, as their clients see them.

mod clients;
mod hosts;
mod members;
mod processes;

use std::collections::BTreeMap;
use std::time::Instant;

use towpath_vm::{Ending, Stream, TaskSpec};
use towpath_wire::{HostId, TaskId};

use crate::client::{Client, ClientError};
use crate::protocol::{Reply, Request, TaskEvent};
use crate::support::{LONG, Vm};

fn next(client: &mut Client) -> Reply {
    client.receiver.next(Some(LONG)).unwrap().expect("an answer comes")
}

fn ask(client: &mut Client, request: &Request) -> Reply {
    client.ask(request, LONG).unwrap()
}

/// Why a request is not carried out.
fn refusal(client: &mut Client, request: &Request) -> String {
    match client.ask(request, LONG) {
        Err(ClientError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Asks again until it is so.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "it does not come to be so");
        std::thread::yield_now();
    }
}

/// The founder.
fn first() -> HostId {
    HostId::new(1, 1).unwrap()
}

/// The host of the daemon that was started so many times later.
fn host(vm: &Vm, number: usize) -> HostId {
    vm.client(number).info().unwrap().me.expect("it has joined")
}

/// A host that there is not.
fn nowhere() -> HostId {
    HostId::new(77, 1).unwrap()
}

/// Whether a process runs: one that has ended and that nobody has asked about does not.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// A script, whose output may come as fast as it is taken.
fn script(text: &str) -> TaskSpec {
    let args = ["-c", text].map(|arg| arg.as_bytes().to_vec()).into();
    TaskSpec { program: b"sh".to_vec(), args, output_window: 1 << 16, ..TaskSpec::default() }
}

/// What a client hears of one task.
#[derive(Debug, Default)]
struct Heard {
    task: Option<TaskId>,
    pid: u32,
    out: Vec<u8>,
    err: Vec<u8>,
    taken: u32,
    ended: Option<(Ending, u64)>,
}

impl Heard {
    fn ending(&self) -> &Ending {
        &self.ended.as_ref().expect("it has ended").0
    }

    fn out(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    fn take(&mut self, event: TaskEvent) {
        assert!(self.ended.is_none(), "nothing comes after its end: {event:?}");
        match event {
            TaskEvent::Started { task, pid } => (self.task, self.pid) = (Some(task), pid),
            TaskEvent::Output { stream: Stream::Out, bytes } => self.out.extend(bytes),
            TaskEvent::Output { stream: Stream::Err, bytes } => self.err.extend(bytes),
            TaskEvent::InputTaken(bytes) => self.taken += bytes,
            TaskEvent::Ended(exit) => self.ended = Some((exit.ending, exit.wall_us)),
        }
    }
}

/// The tasks of a client, by tag.
struct Watcher {
    client: Client,
    tasks: BTreeMap<u64, Heard>,
}

impl Watcher {
    fn of(vm: &Vm, on: usize) -> Self {
        Self { client: vm.client(on), tasks: BTreeMap::new() }
    }

    fn spawn(&mut self, tag: u64, host: HostId, spec: TaskSpec) {
        self.client.sender.send(&Request::Spawn { tag, host, spec }).unwrap();
        self.tasks.insert(tag, Heard::default());
    }

    /// Takes in news until it is so, and gives output back as credit.
    fn until(&mut self, tag: u64, is: impl Fn(&Heard) -> bool) -> &Heard {
        while !is(&self.tasks[&tag]) {
            let Reply::Task { tag, event } = next(&mut self.client) else { panic!("no news") };
            if let TaskEvent::Output { bytes, .. } = &event {
                let credit = Request::Credit { tag, bytes: bytes.len() as u32 };
                self.client.sender.send(&credit).unwrap();
            }
            self.tasks.get_mut(&tag).expect("one of ours").take(event);
        }
        &self.tasks[&tag]
    }

    fn end(&mut self, tag: u64) -> &Heard {
        self.until(tag, |heard| heard.ended.is_some())
    }

    /// Runs one to its end.
    fn run(&mut self, tag: u64, host: HostId, spec: TaskSpec) -> &Heard {
        self.spawn(tag, host, spec);
        self.end(tag)
    }

    fn signal(&mut self, tag: u64, signal: i32) {
        self.client.sender.send(&Request::Kill { tag, signal }).unwrap();
    }

    fn input(&mut self, tag: u64, bytes: &[u8], end: bool) {
        let bytes = bytes.to_vec();
        self.client.sender.send(&Request::Input { tag, bytes, end }).unwrap();
    }
}
