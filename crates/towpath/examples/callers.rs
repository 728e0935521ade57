//! How many decisions a second a virtual machine takes: so many callers each put an entry into a
//! mailbox, wait for the answer, and put the next one.
//!
//! ```text
//! cargo build --release --example callers && towpath up --hosts 3 --voters 3
//! target/release/examples/callers 64 5
//! ```
//! Prints the decisions a second, and how long one took: the median and the 99th percentile. Every
//! entry is 200 bytes, in place of the caller's last one.

use std::error::Error;
use std::time::{Duration, Instant};

use towpath::task::{MailRules, Task};

const BYTES: usize = 200;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let callers: usize = args.next().map_or(Ok(64), |word| word.parse())?;
    let seconds: u64 = args.next().map_or(Ok(5), |word| word.parse())?;
    let length = Duration::from_secs(seconds);
    let begin = Instant::now();
    let call = |caller: usize| move || calls(caller, begin, length);
    let threads: Vec<_> = (0..callers).map(|caller| std::thread::spawn(call(caller))).collect();
    let mut took = Vec::new();
    for thread in threads {
        took.extend(thread.join().map_err(|_| "a caller panicked")??);
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
    let rate = took.len() as f64 / length.as_secs_f64();
    println!("{callers} callers: {rate:.0} decisions/s, {:?} median, {:?} p99", at(50), at(99));
    Ok(())
}

/// How long each of a caller's calls took that began after the first tenth of the time.
fn calls(caller: usize, begin: Instant, length: Duration) -> Outcome<Vec<Duration>> {
    let mut task = Task::enrol()?;
    let rules = MailRules { overwritable: true, ..MailRules::default() };
    let (name, mut took) = (format!("caller {caller}"), Vec::new());
    while begin.elapsed() < length + length / 10 {
        let asked = Instant::now();
        task.mail_put(&name, Some(0), rules, 0, vec![caller as u8; BYTES])?;
        if asked.duration_since(begin) > length / 10 {
            took.push(asked.elapsed());
        }
    }
    task.leave()?;
    Ok(took)
}
