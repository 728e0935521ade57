//! Tasks killed at random moments, on real daemons: whatever they were doing, every message is
//! whole or absent, everything whose sending had returned arrives before the end is told, order is
//! kept, and nothing is left of them at the daemons.
//!
//! Each worker keeps a book in a file, which outlives it: to whom it has sent how many messages,
//! and a hash of their numbers. Whoever is told of its end compares.
//!
//! `TOWPATH_KILLS=10000` kills so many (default 200).

#[path = "../../towpath-cli/tests/it/support/built.rs"]
mod built;
#[path = "../roles/kills.rs"]
#[allow(dead_code, reason = "the worker's own part")]
mod kills;
#[path = "it/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kills::{BOOKS, Book, DRIVER, PEERS, Rng, SEED, STOP};
use support::{ANY, LONG, Vm};
use towpath::task::{Event, SendError, Subject, WatchEvent};
use towpath::{Client, Task, TaskId};

/// Workers at once, half of them on each host.
const WORKERS: usize = 8;

/// Descriptors are counted of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A process of the driver's, which ends with it.
struct Worker {
    child: Child,
    task: Option<TaskId>,
}

impl Worker {
    fn start(vm: &Vm, host: usize, driver: TaskId, books: &Path, seed: u64) -> Self {
        let role =
            built::built(&["examples/task-roles"], &["-p", "towpath", "--example", "task-roles"]);
        let mut command = Command::new(role);
        command.arg("work");
        command.env("TOWPATH_TASK_SOCKET", vm.socket(host)).env(BOOKS, books);
        command.env(DRIVER, driver.to_raw().to_string()).env(SEED, seed.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, task: None }
    }

    /// How it ended, if it did: it was not to.
    fn check(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "worker {:?} ended by itself: {ended:?}", self.task);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts workers, kills them, and hears of their ends.
struct Driver<'a> {
    vm: &'a Vm,
    task: Task,
    books: &'a Path,
    workers: Vec<Worker>,
    started: u64,
    /// Killed and not told of yet, with when.
    killed: BTreeMap<TaskId, Instant>,
    took: Vec<Duration>,
    rng: Rng,
}

impl Driver<'_> {
    fn start(&mut self) {
        self.started += 1;
        let host = 1 + self.started as usize % 2;
        let worker = Worker::start(self.vm, host, self.task.id(), self.books, self.started);
        self.workers.push(worker);
    }

    /// Hears for as long as `pause`; what workers say, and whose end is told.
    fn hear(&mut self, pause: Duration) {
        self.task.wait(Some(pause)).unwrap();
        let mut came = false;
        while let Some(message) = self.task.try_recv(&ANY).unwrap() {
            let pid = u32::from_le_bytes(message.bytes().try_into().expect("a pid"));
            let Some(worker) = self.workers.iter_mut().find(|w| w.child.id() == pid) else {
                continue; // killed after it said so
            };
            worker.task = Some(message.src());
            self.task.watch(Subject::Task(message.src())).unwrap();
            came = true;
        }
        while let Some(event) = self.task.next_event() {
            let Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. } = event else {
                panic!("{event:?}");
            };
            let at = self.killed.remove(&task).expect("only killed ones end");
            self.took.push(at.elapsed());
        }
        if came {
            let living: Vec<TaskId> = self.workers.iter().filter_map(|w| w.task).collect();
            let list: Vec<u8> = living.iter().flat_map(|t| t.to_raw().to_le_bytes()).collect();
            for to in living {
                let sent = self.task.send(to, PEERS, &list);
                assert!(matches!(sent, Ok(()) | Err(SendError::NoTask(_))), "{sent:?}");
            }
        }
    }

    /// Kills one of them, whatever it does just now.
    fn kill(&mut self) {
        let index = self.rng.below(self.workers.len() as u64) as usize;
        self.workers[index].check();
        let mut worker = self.workers.swap_remove(index);
        if let Some(task) = worker.task {
            self.killed.insert(task, Instant::now());
        }
        worker.child.kill().unwrap();
    }

    fn stop(mut self) -> Vec<Duration> {
        let begin = Instant::now();
        while !self.killed.is_empty() || self.workers.iter().any(|w| w.task.is_none()) {
            self.workers.iter_mut().for_each(Worker::check);
            self.hear(Duration::from_millis(50));
            assert!(begin.elapsed() < LONG, "not told of {:?}", self.killed);
        }
        for worker in &self.workers {
            self.task.send(worker.task.expect("it said hello"), STOP, b"").unwrap();
        }
        for mut worker in self.workers.drain(..) {
            let status = worker.child.wait().unwrap();
            assert!(status.success(), "{status}");
        }
        self.task.leave().unwrap();
        self.took
    }
}

/// What daemons and this process have open, and what the daemons keep for tasks.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    descriptors: usize,
    counters: Vec<(String, u64)>,
}

fn kept(clients: &mut [Client]) -> Kept {
    let names = ["kept_for_tasks", "tasks_connected", "streams_held", "message_memory_bytes"];
    let mut counters = Vec::new();
    for client in clients {
        let info = client.info().unwrap();
        let wanted = info.counters.into_iter().filter(|(name, _)| names.contains(&name.as_str()));
        counters.extend(wanted);
    }
    // The one through which they are counted is not among them.
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count() - 1;
    Kept { descriptors, counters }
}

fn summary(took: &mut [Duration]) -> String {
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    format!("{} ends told: median {:?}, p99 {:?}", took.len(), at(50), at(99))
}

#[test]
fn killed_at_random_they_leave_whole_messages_and_nothing_else() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kills = env::var("TOWPATH_KILLS").ok().map_or(200, |n| n.parse().expect("a number"));
    let vm = Vm::up(2);
    let mut clients = [vm.client(1), vm.client(2)];
    // What is made on first use stays.
    drop((vm.task(1), vm.task(2)));
    let books = tempfile::tempdir().unwrap();
    let mut before = settled(&mut clients, |kept| kept.counters.iter().all(|(_, n)| *n == 0));
    // What these two had is closed a moment after it is no longer counted.
    let mut looks = 0;
    while looks < 100 {
        let now = kept(&mut clients);
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
    }
    let mut driver = Driver {
        vm: &vm,
        task: vm.task(1),
        books: books.path(),
        workers: Vec::new(),
        started: 0,
        killed: BTreeMap::new(),
        took: Vec::new(),
        rng: Rng(0x1997),
    };
    (0..WORKERS).for_each(|_| driver.start());
    for _ in 0..kills {
        let us = driver.rng.below(4) * driver.rng.below(10_000);
        driver.hear(Duration::from_micros(us));
        driver.kill();
        driver.start();
    }
    let mut took = driver.stop();
    println!("{kills} kills under load; {}", summary(&mut took));
    let sent = Book::all(books.path());
    println!("{sent} messages were sent");
    assert!(sent > 0, "workers that say nothing show nothing");
    // On a busy machine something may have been closing when it was looked at before: no more is
    // left than then.
    let after = settled(&mut clients, |kept| {
        kept.descriptors <= before.descriptors && kept.counters == before.counters
    });
    println!("left as before: {after:?}");
}

/// Waits until what is kept is as it should be.
fn settled(clients: &mut [Client], right: impl Fn(&Kept) -> bool) -> Kept {
    let begin = Instant::now();
    loop {
        let kept = kept(clients);
        if right(&kept) {
            return kept;
        }
        assert!(begin.elapsed() < LONG, "still {kept:#?}");
        std::thread::yield_now();
    }
}

/// Twenty tasks (or `TOWPATH_ENDS`) killed on an otherwise idle virtual machine: when their watcher
/// knows. Prints figures; judges no machine.
#[test]
fn a_watcher_knows_of_a_killed_task() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let vm = Vm::up(2);
    let books = tempfile::tempdir().unwrap();
    let ends = env::var("TOWPATH_ENDS").ok().map_or(20, |n| n.parse().expect("a number"));
    for host in [1, 2] {
        let mut task = vm.task(1);
        let mut took = VecDeque::new();
        for seed in 0..ends {
            let mut worker = Worker::start(&vm, host, task.id(), books.path(), seed);
            let hello = task.recv_timeout(&ANY, LONG).unwrap().expect("it says hello");
            task.watch(Subject::Task(hello.src())).unwrap();
            // Answered after the watch has taken effect.
            task.hosts().unwrap();
            let begin = Instant::now();
            worker.child.kill().unwrap();
            assert!(task.wait(Some(LONG)).unwrap(), "the end is told");
            took.push_back(begin.elapsed());
            assert!(matches!(task.next_event(), Some(Event::Notice { .. })));
        }
        let far = if host == 1 { "the same host" } else { "another host" };
        println!("a task of {far} killed: {}", summary(took.make_contiguous()));
    }
}
