//! Tasks killed at random moments, on real daemons: whatever they were doing, every message is
//! whole or absent, everything whose sending had returned arrives before the end is told, order is
//! kept, and nothing is left of them at the daemons.
//!
//! Each worker keeps a book in a file, which outlives it: to whom it has sent how many messages,
//! and a hash of their numbers. Whoever is told of its end compares.
//!
//! `TOWPATH_KILLS=10000` kills so many (default 200).

#[path = "it/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, process};

use support::{ANY, LONG, Vm, pattern};
use towpath::task::{Event, SendError, Subject, WatchEvent};
use towpath::{Client, Envelope, Message, Task, TaskId};

/// What a process started by [`Worker::start`] finds in its environment.
const BOOKS: &str = "TP_TEST_BOOKS";
const DRIVER: &str = "TP_TEST_DRIVER";
const SEED: &str = "TP_TEST_SEED";

/// Tags of messages between driver and workers; workers among each other use 0.
const HELLO: i32 = 1;
const PEERS: i32 = 2;
const STOP: i32 = 3;

/// Workers at once, half of them on each host.
const WORKERS: usize = 8;
/// Bytes of one entry of a book: receiver, count, hash, and none left over at the end of a page.
const ENTRY: usize = 32;

/// Descriptors are counted of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Rng(u64);

impl Rng {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// How many messages went one way, and a hash of their numbers in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    messages: u64,
    hash: u64,
}

impl Count {
    const fn add(self, serial: u64) -> Self {
        let hash = (self.hash.rotate_left(5) ^ serial).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { messages: self.messages + 1, hash }
    }
}

/// What a worker has sent, in a file.
struct Book {
    file: File,
    entries: BTreeMap<TaskId, (u64, Count)>,
}

impl Book {
    fn path(books: &Path, task: TaskId) -> PathBuf {
        books.join(format!("{:016x}", task.to_raw()))
    }

    fn sent(&mut self, to: TaskId, serial: u64) {
        let next = self.entries.len() as u64;
        let (slot, count) = self.entries.entry(to).or_insert((next, Count::default()));
        *count = count.add(serial);
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&to.to_raw().to_le_bytes());
        entry[8..16].copy_from_slice(&count.messages.to_le_bytes());
        entry[16..24].copy_from_slice(&count.hash.to_le_bytes());
        self.file.write_all_at(&entry, *slot * ENTRY as u64).unwrap();
    }

    /// How many messages all workers have sent.
    fn all(books: &Path) -> u64 {
        let books = std::fs::read_dir(books).unwrap().map(|book| book.unwrap().path());
        let entries = books.flat_map(|book| std::fs::read(book).unwrap());
        let bytes: Vec<u8> = entries.collect();
        let messages = |e: &[u8]| u64::from_le_bytes(e[8..16].try_into().expect("8 bytes"));
        bytes.chunks_exact(ENTRY).map(messages).sum()
    }

    /// What `from`, which has ended, had sent to `to`.
    fn read(books: &Path, from: TaskId, to: TaskId) -> Count {
        let bytes = std::fs::read(Self::path(books, from)).unwrap_or_default();
        let word = |entry: &[u8], at: usize| {
            u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"))
        };
        let own = bytes.chunks_exact(ENTRY).find(|entry| word(entry, 0) == to.to_raw());
        own.map_or(Count::default(), |e| Count { messages: word(e, 8), hash: word(e, 16) })
    }
}

/// What a worker has received from another.
#[derive(Default)]
struct Heard {
    last: u64,
    count: Count,
    /// [`Heard::count`] as it was before the last message.
    before: Count,
    gone: bool,
}

/// One process among those that are killed: sends to the others in every way.
struct Work {
    task: Task,
    driver: TaskId,
    books: PathBuf,
    book: Book,
    rng: Rng,
    peers: Vec<TaskId>,
    heard: BTreeMap<TaskId, Heard>,
    serial: u64,
    stop: bool,
}

/// Does nothing as a test; in a process started by [`Worker::start`], works until it is killed.
#[test]
fn as_another_process() {
    let Some(books) = env::var_os(BOOKS).map(PathBuf::from) else { return };
    let number = |name| env::var(name).unwrap().parse::<u64>().unwrap();
    let driver = TaskId::try_from(number(DRIVER)).unwrap();
    let mut task = Task::enrol().unwrap();
    let rng = Rng(number(SEED).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // Some go by the daemons only.
    task.allow_direct(number(SEED) % 4 > 0);
    let file = File::create(Book::path(&books, task.id())).unwrap();
    let book = Book { file, entries: BTreeMap::new() };
    task.send(driver, HELLO, &process::id().to_le_bytes()).unwrap();
    let (peers, heard) = (Vec::new(), BTreeMap::new());
    let mut work = Work { task, driver, books, book, rng, peers, heard, serial: 0, stop: false };
    while !work.stop {
        work.take_in();
        work.act();
    }
    work.task.leave().unwrap();
}

impl Work {
    /// Messages and events come in order only together: an event is looked at when no message is
    /// left.
    fn take_in(&mut self) {
        while let Some(message) = self.task.try_recv(&ANY).unwrap() {
            if message.src() == self.driver {
                self.told(&message);
            } else {
                self.check(&message);
            }
        }
        while let Some(event) = self.task.next_event() {
            let Event::Notice { event: WatchEvent::TaskEnded { task, .. }, .. } = event else {
                panic!("{event:?}");
            };
            self.ended(task);
        }
    }

    fn told(&mut self, message: &Message) {
        if message.tag() == STOP {
            self.stop = true;
            return;
        }
        let raws = message.bytes().chunks_exact(8).map(|c| c.try_into().expect("8 bytes"));
        let all = raws.map(|raw| TaskId::try_from(u64::from_le_bytes(raw)).unwrap());
        let me = self.task.id();
        for peer in all.filter(|peer| *peer != me).collect::<Vec<_>>() {
            self.meet(peer);
        }
    }

    /// What is known of another; it is watched from now on.
    fn meet(&mut self, peer: TaskId) -> &mut Heard {
        self.heard.entry(peer).or_insert_with(|| {
            self.peers.push(peer);
            self.task.watch(Subject::Task(peer)).unwrap();
            Heard::default()
        })
    }

    fn check(&mut self, message: &Message) {
        let (me, src) = (self.task.id(), message.src());
        let heard = self.meet(src);
        let (serial, rest) = message.bytes().split_first_chunk::<8>().expect("a number");
        let serial = u64::from_le_bytes(*serial);
        assert!(serial > heard.last, "{me}: {serial} of {src} after {}", heard.last);
        assert!(rest == pattern(serial ^ src.to_raw(), rest.len()), "{me}: {serial} of {src}");
        assert!(!heard.gone, "{me}: {serial} of {src} after its end was told");
        heard.last = serial;
        heard.before = heard.count;
        heard.count = heard.count.add(serial);
    }

    /// A task's end was told: all that it had sent has come, and at most what it was sending.
    fn ended(&mut self, peer: TaskId) {
        let me = self.task.id();
        let heard = self.heard.get_mut(&peer).expect("it was watched");
        let sent = Book::read(&self.books, peer, me);
        assert!(
            heard.count == sent || heard.before == sent && sent.messages < heard.count.messages,
            "{me} has {:?} of {peer} (before: {:?}), which sent {sent:?}",
            heard.count,
            heard.before,
        );
        heard.gone = true;
        self.peers.retain(|p| *p != peer);
    }

    fn len(&mut self) -> usize {
        let len = match self.rng.below(20) {
            0..=9 => self.rng.below(200),
            10..=15 => self.rng.below(6000),
            16..=18 => self.rng.below(80_000),
            _ => self.rng.below(600_000),
        };
        len as usize
    }

    fn act(&mut self) {
        if self.peers.is_empty() || self.rng.below(8) == 0 {
            self.task.wait(Some(Duration::from_millis(self.rng.below(3)))).unwrap();
            return;
        }
        self.serial += 1;
        let (serial, to, len) = (self.serial, self.rng.pick(&self.peers), self.len());
        let mut bytes = serial.to_le_bytes().to_vec();
        bytes.extend(pattern(serial ^ self.task.id().to_raw(), len));
        let ended = |sent: Result<(), SendError>, to| match sent {
            Ok(()) => false,
            Err(SendError::NoTask(task)) if task == to => true,
            Err(e) => panic!("{e}"),
        };
        match self.rng.below(20) {
            0 => _ = self.task.join_group("some"),
            1 => _ = self.task.leave_group("some"),
            2..=3 => {
                let mut to: Vec<TaskId> = (0..3).map(|_| self.rng.pick(&self.peers)).collect();
                to.sort_unstable();
                to.dedup();
                // One that has ended is left out by itself.
                self.task.multicast(&to, Envelope::tag(0), &[&bytes]).unwrap();
                for to in to {
                    self.book.sent(to, serial);
                }
            }
            4..=5 => {
                let mut loan = self.task.loan(bytes.len()).unwrap();
                loan.copy_from_slice(&bytes);
                if !ended(self.task.send_loan(to, Envelope::tag(0), loan), to) {
                    self.book.sent(to, serial);
                }
            }
            _ => {
                if !ended(self.task.send(to, 0, &bytes), to) {
                    self.book.sent(to, serial);
                }
            }
        }
    }
}

/// A process of the driver's, which ends with it.
struct Worker {
    child: Child,
    task: Option<TaskId>,
}

impl Worker {
    fn start(vm: &Vm, host: usize, driver: TaskId, books: &Path, seed: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "as_another_process", "--nocapture"]);
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
    let before = settled(&mut clients, |kept| kept.counters.iter().all(|(_, n)| *n == 0));
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
    let after = settled(&mut clients, |kept| *kept == before);
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
