//! A worker that is killed at a random moment, and the book that outlives it: for `tests/kills.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, process};

use towpath::task::{Event, SendError, Subject, WatchEvent};
use towpath::{Envelope, Message, Task, TaskId};

use crate::support::{ANY, pattern};

/// What a process started by the test finds in its environment.
pub(crate) const BOOKS: &str = "TP_TEST_BOOKS";
pub(crate) const DRIVER: &str = "TP_TEST_DRIVER";
pub(crate) const SEED: &str = "TP_TEST_SEED";

/// Tags of messages between driver and workers; workers among each other use 0.
pub(crate) const HELLO: i64 = 1;
pub(crate) const PEERS: i64 = 2;
pub(crate) const STOP: i64 = 3;

/// Bytes of one entry of a book: receiver, count, hash, and none left over at the end of a page.
const ENTRY: usize = 32;

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) const fn below(&mut self, n: u64) -> u64 {
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
pub(crate) struct Book {
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
    pub(crate) fn all(books: &Path) -> u64 {
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

/// Works until it is killed, or told to stop.
pub(crate) fn work() {
    let books = env::var_os(BOOKS).map(PathBuf::from).expect("started by the test");
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
