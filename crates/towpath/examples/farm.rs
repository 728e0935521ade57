//! A master hands out work to workers and loses one of them on the way.
//!
//! ```text
//! cargo build --release --example farm && towpath up --hosts 2
//! towpath run -- target/release/examples/farm
//! ```
//!
//! The work: for each block of numbers, how many of them are prime. Worker 0 ends itself in the
//! middle of its third block; the master is told so after the last result that the worker sent,
//! and gives its open blocks to others. The sum is compared with what the master counts alone:
//! exit status 0 says that they agree and that a worker was indeed lost.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::process::ExitCode;

use towpath::task::{Event, SpawnTasks, Subject, Task, TaskId, Wanted, WatchEvent};

const WORKERS: u32 = 4;
/// Blocks of numbers, and numbers in a block.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 5_000;
/// How many blocks worker 0 finishes before it ends.
const ENDS_AFTER: u64 = 2;

/// Tags: what the numbers in a message mean.
const WORK: i64 = 1;
const RESULT: i64 = 2;
const STOP: i64 = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run() -> Outcome<ExitCode> {
    let mut task = Task::enrol()?;
    match (task.parent(), std::env::args().nth(1)) {
        (Some(master), Some(number)) => work(&mut task, master, number.parse()?)?,
        _ => return master(&mut task),
    }
    task.leave()?;
    Ok(ExitCode::SUCCESS)
}

fn primes(block: u64) -> u64 {
    let is_prime = |n: u64| n > 1 && (2..=n.isqrt()).all(|d| !n.is_multiple_of(d));
    (block * BLOCK..(block + 1) * BLOCK).filter(|n| is_prime(*n)).count() as u64
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
}

fn work(task: &mut Task, master: TaskId, number: u64) -> Outcome<()> {
    for done in 0.. {
        let message = task.recv(&Wanted { source: Some(master), tag: None, context: 0 })?;
        if message.tag() == STOP {
            break;
        }
        if number == 0 && done == ENDS_AFTER {
            // As if it crashed: nothing is said, nothing is closed.
            std::process::abort();
        }
        let block = numbers(message.bytes())[0];
        task.send(master, RESULT, &bytes(&[block, primes(block)]))?;
    }
    Ok(())
}

/// One question per worker, so that each learns its own number.
fn spawn(task: &mut Task) -> Outcome<Vec<TaskId>> {
    let program = std::env::current_exe()?.into_os_string().into_encoded_bytes();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let args = vec![number.to_string().into_bytes()];
        let spawn = SpawnTasks { program: program.clone(), args, count: 1, ..Default::default() };
        let spawned = task.spawn(spawn)?;
        for worker in spawned {
            workers.push(worker?);
        }
    }
    Ok(workers)
}

/// What the master knows.
struct Farm {
    open: VecDeque<u64>,
    /// What each worker has: a second block waits while it computes the first.
    given: BTreeMap<TaskId, Vec<u64>>,
    /// Primes by block.
    found: BTreeMap<u64, u64>,
    lost: u32,
}

impl Farm {
    fn give(&mut self, task: &mut Task) {
        for (worker, blocks) in &mut self.given {
            while blocks.len() < 2 {
                let Some(block) = self.open.pop_front() else { break };
                blocks.push(block);
                // That it has ended is said by its event, which gives the block back.
                let _ = task.send(*worker, WORK, &bytes(&[block]));
            }
        }
    }

    fn take(&mut self, task: &mut Task) -> Outcome<()> {
        let results = Wanted { source: None, tag: Some(RESULT), context: 0 };
        while let Some(message) = task.try_recv(&results)? {
            let result = numbers(message.bytes());
            let blocks = self.given.get_mut(&message.src()).ok_or("a result from nobody")?;
            blocks.retain(|block| *block != result[0]);
            if self.found.insert(result[0], result[1]).is_some() {
                return Err(format!("block {} was computed twice", result[0]).into());
            }
        }
        while let Some(event) = task.next_event() {
            if let Event::Notice { event: WatchEvent::TaskEnded { task: ended, .. }, .. } = event {
                let blocks = self.given.remove(&ended).unwrap_or_default();
                eprintln!("worker {ended} is lost; {} blocks go to others", blocks.len());
                self.open.extend(blocks);
                self.lost += 1;
            }
        }
        Ok(())
    }
}

fn master(task: &mut Task) -> Outcome<ExitCode> {
    let workers = spawn(task)?;
    for worker in &workers {
        task.watch(Subject::Task(*worker))?;
    }
    let given = workers.iter().map(|worker| (*worker, Vec::new())).collect();
    let mut farm = Farm { open: (0..BLOCKS).collect(), given, found: BTreeMap::new(), lost: 0 };
    while farm.found.len() < BLOCKS as usize {
        if farm.given.is_empty() {
            return Err("every worker was lost".into());
        }
        farm.give(task);
        task.wait(None)?;
        farm.take(task)?;
    }
    for worker in farm.given.keys() {
        task.send(*worker, STOP, &[])?;
    }
    let (sum, alone) = (farm.found.values().sum::<u64>(), (0..BLOCKS).map(primes).sum::<u64>());
    println!("{sum} primes below {} by {WORKERS} workers, {} lost", BLOCKS * BLOCK, farm.lost);
    let right = sum == alone && farm.lost == 1;
    if !right {
        eprintln!("error: alone it is {alone} primes, and 1 worker should have been lost");
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
