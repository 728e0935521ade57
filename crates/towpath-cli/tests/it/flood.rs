//! Garbage, truncated, forged and replayed datagrams beside a transfer: it loses nothing, and the
//! daemons' memory does not grow.
//!
//! `TOWPATH_FLOOD_S` sets how many seconds the flood lasts (10 by default).

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::support::{Vm, resident_kib, text};

/// Datagrams per second.
const RATE: u64 = 200_000;
/// Fewer are no flood.
const FEW: u64 = 200_000;
/// Datagrams kept for replay.
const KEPT: usize = 512;
/// What the daemons may grow by, in KiB.
const GROWTH_MAX_KIB: u64 = 1024;

/// Datagrams seen on their way to a daemon.
type Kept = Arc<Mutex<Vec<(SocketAddr, Vec<u8>)>>>;

/// Stands between the newcomer and the founder, passes everything on and keeps some of it.
fn relay(founder: SocketAddr, kept: Kept, stop: Arc<AtomicBool>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    std::thread::spawn(move || {
        let (mut newcomer, mut buf, mut seen) = (None, vec![0; 65_536], 0usize);
        while !stop.load(Ordering::Relaxed) {
            let Ok((n, from)) = socket.recv_from(&mut buf) else { continue };
            if from != founder {
                newcomer = Some(from);
            }
            let Some(to) = (if from == founder { newcomer } else { Some(founder) }) else {
                continue;
            };
            let _ = socket.send_to(&buf[..n], to);
            let mut kept = kept.lock().unwrap();
            if kept.len() < KEPT {
                kept.push((to, buf[..n].to_vec()));
            } else if seen % 61 == 0 {
                let at = seen / 61 % KEPT;
                kept[at] = (to, buf[..n].to_vec());
            }
            seen += 1;
        }
    });
    addr
}

/// Sends `RATE` bad datagrams per second for `time`, and on a machine that cannot until there were
/// `FEW`; returns how many were sent.
fn flood(targets: &[SocketAddr], kept: &Kept, time: Duration) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // A receiver that never gets anything: a timer that is not a sleep.
    let (_keep, timer) = mpsc::channel::<()>();
    let (begin, mut sent, mut x) = (Instant::now(), 0u64, 1u64);
    let mut garbage = vec![0u8; 65_536];
    let mut replay: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    while begin.elapsed() < time || (sent < FEW && begin.elapsed() < 20 * time) {
        let due = (begin.elapsed().as_secs_f64() * RATE as f64) as u64;
        if sent >= due {
            let _ = timer.recv_timeout(Duration::from_micros(500));
            continue;
        }
        if sent % 50_000 < 200 {
            replay.clone_from(&kept.lock().unwrap());
        }
        for _ in 0..(due - sent).min(200) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = (x >> 33) as usize;
            // Not what was cut too short to have anything behind its header.
            let known = (!replay.is_empty()).then(|| &replay[pick % replay.len()]);
            let known = known.filter(|(_, data)| data.len() > 8);
            let _ = match (pick % 5, known) {
                // Exactly as it was.
                (0, Some((to, data))) => socket.send_to(data, to),
                // Cut short.
                (1, Some((to, data))) => socket.send_to(&data[..pick / 7 % data.len()], to),
                // A valid header with one bit changed behind it.
                (2 | 3, Some((to, data))) => {
                    garbage[..data.len()].copy_from_slice(data);
                    let bit = 64 + pick / 5 % (8 * data.len() - 64);
                    garbage[bit / 8] ^= 1 << (bit % 8);
                    socket.send_to(&garbage[..data.len()], to)
                }
                _ => {
                    let n = 1 + pick % 1400;
                    garbage[..8].copy_from_slice(&x.to_le_bytes());
                    garbage[0] = pick as u8 % 8;
                    socket.send_to(&garbage[..n], targets[pick % targets.len()])
                }
            };
            sent += 1;
        }
    }
    sent
}

#[test]
fn a_transfer_beside_a_flood_loses_nothing_and_memory_stays() {
    let seconds = std::env::var("TOWPATH_FLOOD_S").ok().and_then(|s| s.parse().ok()).unwrap_or(10);
    let (a, b) = (Vm::up(1), Vm::new());
    let mut token: towpath::Token = text(&a.towpath(&["token"]).stdout).parse().expect("a token");
    let founder = token.leaders[0].addrs[0];
    let (kept, stop) = (Kept::default(), Arc::new(AtomicBool::new(false)));
    token.leaders[0].addrs[0] = relay(founder, kept.clone(), stop.clone());
    let out = b.with_input(&["join", "-"], token.to_string().as_bytes());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&b.towpath(&["up"]).stderr);
    assert!(table.contains("up already"), "{table}");
    let newcomer = newcomer_addr(&kept, founder);

    // Transfers alone first, so that buffers have the size that transfers need.
    transfer(&a, Duration::from_secs(2), &AtomicU64::new(0));
    let pids = [a.pid(1), b.pid(1)];
    let before = pids.map(resident_kib);
    let peak = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let watch = watch_memory(pids, peak.clone(), stop.clone());
    let moved = Arc::new(AtomicU64::new(0));
    let (moved_too, time) = (moved.clone(), Duration::from_secs(seconds));
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| flood(&[founder, newcomer], &kept, time));
        transfer(&a, time, &moved_too);
        sender.join().unwrap()
    });
    stop.store(true, Ordering::Relaxed);
    watch.join().unwrap();

    let rejected = |vm: &Vm| {
        [
            "datagrams_garbage",
            "datagrams_unknown",
            "packets_forged",
            "packets_duplicate",
            "handshakes_forged",
        ]
        .map(|name| (name, vm.counter(1, name)))
    };
    let (ra, rb) = (rejected(&a), rejected(&b));
    let total: u64 = ra.iter().chain(&rb).map(|(_, n)| n).sum();
    let rate = sent / seconds.max(1);
    println!(
        "{sent} bad datagrams in {seconds} s ({rate}/s), {total} of them turned away by the daemons"
    );
    println!("founder {ra:?}\nnewcomer {rb:?}");
    println!("{} MB moved beside them", moved.load(Ordering::Relaxed) / 1_000_000);
    for (i, before) in before.iter().enumerate() {
        let peak = peak[i].load(Ordering::Relaxed);
        println!("daemon {i}: {before} KiB before, {peak} KiB at most");
        assert!(peak <= before + GROWTH_MAX_KIB, "daemon {i} grew from {before} to {peak} KiB");
    }
    // How many a machine can send, and how many of them its kernel drops at full sockets, is the
    // machine's affair: the floors below only tell that there was a flood at all.
    if rate < RATE * 9 / 10 {
        println!("NOTE: aimed at {RATE} datagrams/s, this machine sent {rate}/s");
    }
    assert!(sent >= FEW, "only {sent} datagrams were sent");
    assert!(total >= sent / 10, "only {total} of {sent} reached the daemons");
}

/// Where the founder's answers to the newcomer went.
fn newcomer_addr(kept: &Kept, founder: SocketAddr) -> SocketAddr {
    let kept = kept.lock().unwrap();
    kept.iter().map(|(to, _)| *to).find(|to| *to != founder).unwrap()
}

fn watch_memory(
    pids: [u32; 2],
    peak: Arc<[AtomicU64; 2]>,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let (_keep, timer) = mpsc::channel::<()>();
        while !stop.load(Ordering::Relaxed) {
            for (pid, peak) in pids.iter().zip(peak.iter()) {
                peak.fetch_max(resident_kib(*pid), Ordering::Relaxed);
            }
            let _ = timer.recv_timeout(Duration::from_millis(100));
        }
    })
}

/// Moves numbered lines from the newcomer to the founder for at least `time`, and checks each.
fn transfer(a: &Vm, time: Duration, moved: &AtomicU64) {
    let begin = Instant::now();
    loop {
        let mut run = a.command(&["run", "--host", "h2", "--", "seq", "100000", "999999"]);
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut bytes = Vec::new();
        run.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        let out = run.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        let whole =
            bytes.chunks(7).zip(100_000..).all(|(line, n)| line == format!("{n}\n").as_bytes());
        assert!(whole && bytes.len() == 7 * 900_000, "the transfer is not what was sent");
        moved.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if begin.elapsed() >= time {
            return;
        }
    }
}
