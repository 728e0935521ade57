//! The smallest parallel program: the first task spawns others, and each of them greets it.
//!
//! ```text
//! cargo build --release --example hello && towpath up --hosts 3
//! towpath run -- target/release/examples/hello 6
//! ```

use std::error::Error;
use std::process::ExitCode;

use towpath::Task;
use towpath::task::{Place, SpawnTasks, Wanted};

const GREETING: i64 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut task = Task::enrol()?;
    match task.parent() {
        Some(parent) => greet(&mut task, parent),
        None => lead(&mut task, std::env::args().nth(1).map_or(Ok(4), |n| n.parse())?),
    }
}

fn greet(task: &mut Task, parent: towpath::TaskId) -> Result<(), Box<dyn Error>> {
    let text = format!("hello from {}, process {}", task.id(), std::process::id());
    task.send(parent, GREETING, text.as_bytes())?;
    Ok(())
}

fn lead(task: &mut Task, count: u32) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?.into_os_string().into_encoded_bytes();
    let (place, context) = (Place::Any, task.context());
    let spawn = SpawnTasks { program, place, count, context, ..SpawnTasks::default() };
    let started = task.spawn(spawn)?;
    for failed in started.iter().filter_map(|s| s.as_ref().err()) {
        eprintln!("a task was not started: {failed}");
    }
    for _ in started.iter().filter(|s| s.is_ok()) {
        let greeting = task.recv(&Wanted::any().tag(GREETING).context(context))?;
        println!("{}", String::from_utf8_lossy(greeting.bytes()));
    }
    Ok(())
}
