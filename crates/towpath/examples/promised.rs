//! A channel that was promised the whole way between two hosts: sends on it, beside as much else
//! as there is, and tells how long messages took of what was promised.
//!
//! ```text
//! cargo build --release --example promised
//! towpath up --hosts 3 --link-rate 95Mbit/s --topology office.toml
//! towpath run --host h2 -- target/release/examples/promised h3 1000 400us 10ms 5s
//! ```
//! Messages of 1000 bytes, one every 400 µs or a little later, from h2 to h3 within 10 ms, for 5 s.
//! What is sent sooner than was promised for would wait, and that is not asked here. Without more
//! words nothing else is sent; `bulk` sends as much as goes to the same host on another channel,
//! and `unpromised` sends the same messages without a promise.
//!
//! Prints a line of JSON: what was promised, how long messages took by the sender's estimate, and
//! by the receiver's clock where both are of one machine.

use std::error::Error;
use std::time::{Duration, Instant};

use towpath::TaskId;
use towpath::task::{Channel, ChannelSpec, Class, Place, Reserve, SpawnTasks, Task, Until, Wanted};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const RESULT: i64 = 1;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut task = Task::enrol()?;
    match task.parent() {
        Some(parent) => receive(&mut task, parent)?,
        None => send(&mut task, &args)?,
    }
    task.leave()?;
    Ok(())
}

/// Nanoseconds by a clock that all processes of a machine have.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn time(text: &str) -> Outcome<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or("a time without a unit")?;
    let (number, unit) = text.split_at(at);
    let each = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => return Err(format!("{unit} is none of us, ms and s").into()),
    };
    Ok(each * number.parse()?)
}

fn start(task: &mut Task, host: &str) -> Outcome<TaskId> {
    let program = std::env::current_exe()?.into_os_string().into_encoded_bytes();
    let hosts = task.hosts()?;
    let mut hosts = hosts.iter();
    let found = hosts.find(|h| h.name == host || format!("h{}", h.id.slot()) == host);
    let place = Place::Host(found.ok_or("no such host")?.id);
    let spawn = SpawnTasks { program, place, count: 1, ..SpawnTasks::default() };
    Ok(task.spawn(spawn)?.remove(0)?)
}

fn send(task: &mut Task, args: &[String]) -> Outcome<()> {
    let [host, bytes, every, within, length, rest @ ..] = args else {
        return Err("promised HOST BYTES EVERY WITHIN LENGTH [bulk|unpromised]...".into());
    };
    let has = |word: &str| rest.iter().any(|w| w == word);
    let (bytes, every) = (bytes.parse()?, time(every)?);
    let (within, length) = (time(within)?, time(length)?);
    let there = start(task, host)?;
    let reserve = Reserve { bytes, every, burst: 2, within, until: Until::Arrived };
    let reserve = (!has("unpromised")).then_some(reserve);
    let spec = ChannelSpec { class: Class::Ordered, window: 1 << 20, reserve, ..<_>::default() };
    let channel = task.open_channel(there, &spec)?;
    let bulk = if has("bulk") {
        let spec = ChannelSpec { window: 4 << 20, ..ChannelSpec::default() };
        Some(task.open_channel(there, &spec)?)
    } else {
        None
    };
    let sent = stream(task, (channel, bulk), (bytes as usize, every), length)?;
    let status = task.channel_status(channel)?;
    task.close_channel(channel)?;
    if let Some(bulk) = bulk {
        task.close_channel(bulk)?;
    }
    let told = task.recv(&Wanted::any().tag(RESULT))?;
    let us = |time: Option<Duration>| {
        time.map_or_else(|| "null".into(), |t| format!("{:.1}", t.as_secs_f64() * 1e6))
    };
    println!(
        "{{\"sent\": {sent}, \"reserved\": {}, \"promised_us\": {}, \"took_p50_us\": {}, \
         \"took_p99_us\": {}, \"took_most_us\": {}, {}}}",
        status.reserved,
        us(status.promised),
        us(status.took.map(|t| t.p50)),
        us(status.took.map(|t| t.p99)),
        us(status.took.map(|t| t.most)),
        String::from_utf8_lossy(told.bytes())
    );
    Ok(())
}

/// A message whenever it is time for one, and between them what goes of the rest.
fn stream(
    task: &mut Task,
    (channel, bulk): (Channel, Option<Channel>),
    (bytes, every): (usize, Duration),
    length: Duration,
) -> Outcome<u64> {
    let (begin, mut sent, mut next) = (Instant::now(), 0, Duration::ZERO);
    let (mut message, filler) = (vec![0; bytes.max(8)], vec![0; 32 << 10]);
    while begin.elapsed() < length {
        if begin.elapsed() >= next {
            message[..8].copy_from_slice(&now_ns().to_le_bytes());
            task.send_on(channel, &message[..bytes.max(8)])?;
            sent += 1;
            // No sooner than was promised for, also where this one was late.
            next = begin.elapsed().max(next) + every;
        } else if let Some(bulk) = bulk {
            if !task.try_send_on(bulk, &filler)? {
                task.poll()?;
                std::thread::sleep(Duration::from_micros(50));
            }
        } else {
            std::thread::sleep(next.saturating_sub(begin.elapsed()));
        }
    }
    Ok(sent)
}

/// Takes what comes, and tells how long it took.
fn receive(task: &mut Task, parent: TaskId) -> Outcome<()> {
    let (mut took, mut bulk_bytes, mut over) = (Vec::new(), 0_u64, 0);
    let wait = Some(Duration::from_secs(20));
    let Some((channel, _)) = task.accept_channel(wait)? else { return Ok(()) };
    let mut bulk = None;
    let brief = Some(Duration::from_micros(500));
    while over < 1 {
        match task.recv_on(channel, brief) {
            Ok(Some(bytes)) => {
                let at = u64::from_le_bytes(bytes[..8].try_into()?);
                took.push(now_ns().saturating_sub(at));
            }
            Ok(None) => {}
            Err(_) => over += 1,
        }
        if bulk.is_none() {
            bulk = task.accept_channel(Some(Duration::ZERO))?.map(|(channel, _)| channel);
        }
        while let Some(of) = bulk
            && let Ok(Some(bytes)) = task.recv_on(of, Some(Duration::ZERO))
        {
            bulk_bytes += bytes.len() as u64;
        }
    }
    took.sort_unstable();
    let at = |per_mille: usize| {
        let ns = took.get((took.len() * per_mille / 1000).min(took.len().saturating_sub(1)));
        ns.map_or(0.0, |ns| *ns as f64 / 1000.0)
    };
    let told = format!(
        "\"received\": {}, \"p50_us\": {:.1}, \"p90_us\": {:.1}, \"p99_us\": {:.1}, \
         \"most_us\": {:.1}, \"bulk_bytes\": {bulk_bytes}",
        took.len(),
        at(500),
        at(900),
        at(990),
        at(1000)
    );
    task.send(parent, RESULT, told.as_bytes())?;
    Ok(())
}
