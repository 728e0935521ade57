//! What the exchange in shared memory costs beside what the machine can do at best: bare flags
//! that are spun on, and bare futex exchanges.
//!
//! Two processes, pinned; floors and ours take turns in one run, since the floor itself moves
//! (two virtual processors may or may not share a core). Every figure is a median of rounds, each
//! the median of its batches.
//!
//! ```text
//! cargo run --release -p towpath-io --example shared_floor [ROUNDS]
//! ```

mod bare;
mod end;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use bare::Bare;
use end::{End, Way};

/// What one side asks the other to echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Flags in shared memory.
    Flags,
    /// Words in shared memory with a futex each.
    Futex,
    /// Our ring, spinning, payloads of this many bytes.
    Ring(usize),
    /// The same, each of the last eight blocks still held, so that nine take turns.
    Rotating(usize),
    /// 16 bytes through our ring, this many other rings looked at as well.
    Among(usize),
    /// Our ring, sleeping at once.
    Asleep,
    /// Loans of a block of this many bytes, of which none is touched.
    Loan(usize),
    /// The same, first and last byte written and read.
    Touched(usize),
}

impl Task {
    fn name(self) -> (&'static str, usize) {
        match self {
            Self::Flags => ("flags", 16),
            Self::Futex => ("futex", 16),
            Self::Ring(size) => ("ring", size),
            Self::Rotating(size) => ("rotating", size),
            Self::Among(others) => ("among", others),
            Self::Asleep => ("asleep", 16),
            Self::Loan(size) => ("loan", size),
            Self::Touched(size) => ("touched", size),
        }
    }

    fn of(name: &str, size: usize) -> Self {
        match name {
            "flags" => Self::Flags,
            "futex" => Self::Futex,
            "ring" => Self::Ring(size),
            "rotating" => Self::Rotating(size),
            "among" => Self::Among(size),
            "asleep" => Self::Asleep,
            "loan" => Self::Loan(size),
            "touched" => Self::Touched(size),
            other => panic!("no such task: {other}"),
        }
    }
}

/// One process: how it does each task.
struct Side {
    bare: Bare,
    end: End,
    buffer: Vec<u8>,
}

impl Side {
    fn send(&mut self, task: Task) {
        match task {
            Task::Flags => self.bare.set(),
            Task::Futex => self.bare.wake(),
            Task::Ring(size) | Task::Rotating(size) => self.end.send(&self.buffer[..size]),
            Task::Among(_) | Task::Asleep => self.end.send(&self.buffer[..16]),
            Task::Loan(size) => self.end.loan(size, false),
            Task::Touched(size) => self.end.loan(size, true),
        }
    }

    fn receive(&mut self, task: Task) {
        match task {
            Task::Flags => self.bare.spin(),
            Task::Futex => self.bare.sleep(),
            Task::Ring(size) => self.end.receive(&mut self.buffer[..size], Way::SPIN),
            Task::Rotating(size) => self.end.receive(&mut self.buffer[..size], Way::KEEP),
            Task::Among(others) => {
                self.end.receive(&mut self.buffer[..16], Way::among(others));
            }
            Task::Asleep => self.end.receive(&mut self.buffer[..16], Way::SLEEP),
            Task::Loan(_) => self.end.borrow(false),
            Task::Touched(_) => self.end.borrow(true),
        }
    }
}

const BUFFER: usize = 4 << 20;

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("echo") => echo(&args.next().expect("descriptors")),
        rounds => ask(rounds.map_or(5, |rounds| rounds.parse().expect("a number of rounds"))),
    }
}

/// The other process: does what it is told over its standard input.
fn echo(fds: &str) {
    let (bare, fds) = end::inherit(fds);
    let mut side = Side { bare: Bare::new(&bare, 1), end: End::open(fds), buffer: vec![7; BUFFER] };
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<_> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<usize>().expect("a number");
        if words[0] == "pin" {
            end::pin(number(1));
            continue;
        }
        let task = Task::of(words[0], number(1));
        for _ in 0..number(2) {
            side.receive(task);
            side.send(task);
        }
    }
}

struct Asker {
    side: Side,
    child: Child,
    orders: ChildStdin,
}

impl Asker {
    fn new() -> Self {
        let (bare, near, far) = end::make();
        let fds = end::pass(&bare, &far);
        let program = std::env::current_exe().expect("own path");
        let mut command = Command::new(program);
        let mut child = command.args(["echo", &fds]).stdin(Stdio::piped()).spawn().expect("starts");
        let orders = child.stdin.take().expect("piped");
        let side =
            Side { bare: Bare::new(&bare, 0), end: End::open(near), buffer: vec![7; BUFFER] };
        Self { side, child, orders }
    }

    fn pin(&mut self, near: usize, far: usize) {
        end::pin(near);
        writeln!(self.orders, "pin {far}").expect("the other process reads");
    }

    /// Sends what can be told apart at every size, and sees that it comes back as it was.
    fn check(&mut self) {
        for size in SIZES {
            let (name, _) = Task::Ring(size).name();
            writeln!(self.orders, "{name} {size} 1").expect("the other process reads");
            let sent: Vec<u8> = (0..size).map(|i| (i ^ i >> 8) as u8).collect();
            self.side.buffer[..size].copy_from_slice(&sent);
            self.side.send(Task::Ring(size));
            self.side.buffer[..size].fill(0);
            self.side.receive(Task::Ring(size));
            assert!(self.side.buffer[..size] == sent, "{size} bytes come back as they were");
        }
    }

    /// Seconds of a round trip: the median of `batches` of `each` round trips.
    fn time(&mut self, task: Task, batches: usize, each: usize) -> f64 {
        let (name, size) = task.name();
        let warm = each.min(200);
        let count = warm + batches * each;
        writeln!(self.orders, "{name} {size} {count}").expect("the other process reads");
        let mut trip = || {
            self.side.send(task);
            self.side.receive(task);
        };
        (0..warm).for_each(|_| trip());
        let batch = |_| {
            let start = Instant::now();
            (0..each).for_each(|_| trip());
            start.elapsed().as_secs_f64() / each as f64
        };
        median((0..batches).map(batch).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const SIZES: [usize; 13] = [
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
];

fn ask(rounds: usize) {
    let mut asker = Asker::new();
    let mut spin = [const { Vec::new() }; 4];
    let mut two = [Vec::new(), Vec::new()];
    let mut one = [Vec::new(), Vec::new()];
    let mut among = [const { Vec::new() }; 2];
    let mut sizes = vec![Vec::new(); SIZES.len()];
    let mut rotating = Vec::new();
    for _ in 0..rounds {
        asker.pin(0, 1);
        let tasks = [Task::Flags, Task::Ring(16), Task::Loan(1 << 20), Task::Touched(1 << 20)];
        for (task, times) in tasks.into_iter().zip(&mut spin) {
            times.push(asker.time(task, 401, 200));
        }
        for (task, times) in [Task::Futex, Task::Asleep].into_iter().zip(&mut two) {
            times.push(asker.time(task, 401, 4));
        }
        for (size, times) in SIZES.into_iter().zip(&mut sizes) {
            times.push(asker.time(Task::Ring(size), 401, ((512 << 10) / size).clamp(1, 200)));
        }
        rotating.push(asker.time(Task::Rotating(1 << 20), 101, 1));
        for (others, times) in [16, 256].into_iter().zip(&mut among) {
            times.push(asker.time(Task::Among(others), 401, 100));
        }
        asker.pin(0, 0);
        for (task, times) in [Task::Futex, Task::Asleep].into_iter().zip(&mut one) {
            times.push(asker.time(task, 401, 10));
        }
    }
    asker.check();
    let sleeps = asker.side.end.sleeps();
    drop(asker.orders);
    asker.child.wait().expect("the other process ends");
    let [sixteen, many] = among.map(median);
    let [flags, ring, loan, touched] = spin.map(median);
    println!("{}; {rounds} rounds, two processes, no encryption", machine());
    let line = |what: &str, time: f64, floor: f64| {
        println!("{what:<44} {:>9.3} us {:>6.2} x", time * 1e6, time / floor);
    };
    line("16 B round trip, bare flags, processors 0 1", flags, flags);
    line("  ours", ring, flags);
    line("  ours, 16 other rings looked at", sixteen, flags);
    line("  ours, 256 other rings looked at", many, flags);
    line("  loan of 1 MiB, untouched (x of ours)", loan, ring);
    line("  loan of 1 MiB, both ends touched", touched, ring);
    for (what, times) in [("processors 0 1", two), ("processor 0 both", one)] {
        let [futex, asleep] = times.map(median);
        line(&format!("16 B, both asleep, bare futex, {what}"), futex, futex);
        line("  ours", asleep, futex);
    }
    println!("sleeps a trip and side while both sleep {sleeps:>22.3}");
    let rate = |what: &str, size: usize, time: f64| {
        let rate = size as f64 / (time / 2.0) / 1e9;
        println!("{:>5} KiB one way{what:<30} {rate:>9.2} GB/s", size >> 10);
    };
    for (size, times) in SIZES.into_iter().zip(sizes) {
        rate("", size, median(times));
    }
    rate(", nine blocks in turn", 1 << 20, median(rotating));
}

const _: () = assert!(SIZES[SIZES.len() - 1] <= BUFFER);

fn machine() -> String {
    let info = std::fs::File::open("/proc/cpuinfo").map(BufReader::new);
    let mut lines = info.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
    let model = lines.find_map(|l| Some(l.strip_prefix("model name")?.to_owned()));
    let model = model.unwrap_or_default();
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}
