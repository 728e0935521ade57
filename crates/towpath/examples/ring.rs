//! A token goes round a ring of tasks, each of which adds its rank.
//!
//! ```text
//! cargo build --release --example ring && towpath up --hosts 2
//! towpath run -n 4 -- target/release/examples/ring 1000
//! ```

use std::error::Error;
use std::process::ExitCode;

use towpath::{Job, Wanted};

const TOKEN: i64 = 1;

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
    let rounds: u64 = std::env::args().nth(1).map_or(Ok(100), |n| n.parse())?;
    let mut job = Job::enrol()?;
    let (rank, size) = (job.rank(), job.size());
    let next = job.member((rank + 1) % size);
    let wanted = Wanted::any().tag(TOKEN);
    let task = &mut job.task;
    let mut sum = 0;
    for round in 0..rounds {
        if rank == 0 {
            task.send_value(next, TOKEN, sum + u64::from(rank))?;
        }
        sum = task.recv_value::<u64>(&wanted)?;
        if rank != 0 {
            task.send_value(next, TOKEN, sum + u64::from(rank))?;
        } else if round + 1 == rounds {
            println!("{rounds} rounds of {size} tasks: {sum}");
        }
    }
    Ok(())
}
