//! A token goes round a ring of tasks, each of which adds its rank.
//!
//! ```text
//! cargo build --release --example ring && towpath up --hosts 2
//! towpath run -n 4 -- target/release/examples/ring 1000
//! ```

use std::error::Error;
use std::process::ExitCode;

use towpath::Task;
use towpath::task::Wanted;

const TOKEN: i32 = 1;

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
    let mut task = Task::enrol()?;
    let size = Task::size().ok_or("TOWPATH_SIZE is not set\nhint: towpath run -n 4 -- …")?;
    // The instance number in the group, not TOWPATH_RANK, names a task's place: any order will do.
    // Groups are the whole virtual machine's: the job's name keeps two runs apart.
    let group = format!("ring of {}", Task::job().unwrap_or_default());
    let rank = task.join_group(&group)?;
    let members = task.freeze_group(&group, size)?.members;
    let next = members[(rank as usize + 1) % members.len()].ok_or("a member is missing")?;
    let wanted = Wanted { source: None, tag: Some(TOKEN), context: 0 };
    let mut sum = 0;
    for round in 0..rounds {
        if rank == 0 {
            task.send(next, TOKEN, &(sum + u64::from(rank)).to_le_bytes())?;
        }
        let token = task.recv(&wanted)?;
        sum = u64::from_le_bytes(token.bytes().try_into()?);
        if rank != 0 {
            task.send(next, TOKEN, &(sum + u64::from(rank)).to_le_bytes())?;
        } else if round + 1 == rounds {
            println!("{rounds} rounds of {size} tasks: {sum}");
        }
    }
    Ok(())
}
