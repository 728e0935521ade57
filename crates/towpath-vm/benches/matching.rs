//! What it costs to keep a message and to take one, by kind of receive and by how many wait.
//!
//! `cargo bench -p towpath-vm --bench matching`: nanoseconds per pair (one insert, one take),
//! median of 61 runs, with 1, 100 and 100 000 messages that wait besides, of 1 000 senders, 100
//! tags and 3 contexts in random order; beside it the same with a list that is searched.
//!
//! `... -- one KIND WAITING PAIRS`: only that one (kinds: exact, source, tag, any, list), to count
//! instructions under callgrind: the difference of two runs over the difference of their pairs is
//! the count per pair.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use towpath_vm::matching::{Key, Limits, Store, Wanted};
use towpath_wire::{HostId, TaskId};

const RUNS: usize = 61;
/// Short beside a time slice, so that most runs are whole on a machine with other work.
const RUN: Duration = Duration::from_millis(2);
const KINDS: [&str; 5] = ["exact", "source", "tag", "any", "list"];

/// The same numbers every time (Knuth's 64-bit linear congruence, its upper half).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 32) as u32) % limit
    }

    fn key(&mut self) -> Key {
        let host = HostId::new(1 + self.below(10) as u16, 0).expect("slot");
        let source: TaskId = host.task(1 + self.below(100)).expect("task");
        Key { source, tag: self.below(100).into(), context: self.below(3) }
    }
}

/// What a receive of `kind` that a message of `key` answers asks for.
fn wanted(kind: &str, key: &Key) -> Wanted {
    Wanted {
        source: matches!(kind, "exact" | "source" | "list").then_some(key.source),
        tag: matches!(kind, "exact" | "tag" | "list").then_some(key.tag),
        context: key.context,
    }
}

/// A plain list: what one would write first.
struct Listed(VecDeque<(Key, u64)>);

enum Subject {
    Store(Box<Store<u64>>),
    List(Listed),
}

struct Load {
    subject: Subject,
    keys: Sequence,
    kind: String,
}

impl Load {
    fn new(kind: &str, waiting: u32) -> Self {
        let mut keys = Sequence(1);
        let subject = if kind == "list" {
            let number = |n| (keys.key(), n);
            Subject::List(Listed((0..u64::from(waiting)).map(number).collect()))
        } else {
            let mut store = Store::new(Limits::NONE, 5);
            for number in 0..waiting {
                store.insert(keys.key(), 16, u64::from(number)).expect("room");
            }
            Subject::Store(Box::new(store))
        };
        Self { subject, keys, kind: kind.to_owned() }
    }

    fn pair(&mut self) {
        let key = self.keys.key();
        let wanted = wanted(&self.kind, &key);
        match &mut self.subject {
            Subject::Store(store) => {
                store.insert(key, 16, 1).expect("room");
                black_box(store.take(&wanted).expect("one matches"));
            }
            Subject::List(list) => {
                list.0.push_back((key, 1));
                let at = list.0.iter().position(|(key, _)| wanted.matches(key)).expect("one");
                black_box(list.0.remove(at));
            }
        }
    }

    fn nanoseconds(&mut self) -> f64 {
        let (start, mut pairs) = (Instant::now(), 0);
        loop {
            for _ in 0..64 {
                self.pair();
            }
            pairs += 64;
            let passed = start.elapsed();
            if passed > RUN {
                return passed.as_nanos() as f64 / f64::from(pairs);
            }
        }
    }
}

fn median(mut load: Load) -> f64 {
    let mut runs: Vec<f64> = (0..RUNS).map(|_| load.nanoseconds()).collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [one, kind, waiting, pairs] = arguments.as_slice() {
        assert!(one == "one" && KINDS.contains(&kind.as_str()), "one KIND WAITING PAIRS");
        let mut load = Load::new(kind, waiting.parse().expect("number of messages"));
        for _ in 0..pairs.parse::<u64>().expect("number of pairs") {
            load.pair();
        }
        return;
    }
    println!("nanoseconds per pair of insert and take, median of {RUNS} runs");
    println!("{:>8} {:>10} {:>10} {:>10}", "kind", 1, 100, 100_000);
    for kind in KINDS {
        let [one, hundred, many] = [1, 100, 100_000].map(|n| median(Load::new(kind, n)));
        println!("{kind:>8} {one:>10.0} {hundred:>10.0} {many:>10.0}");
    }
}
