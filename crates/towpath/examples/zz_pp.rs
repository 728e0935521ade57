//! scratch
use std::time::Instant;
use towpath::{Task, Wanted};
fn main() {
    let socket = std::env::args().nth(1).unwrap();
    let size: usize = std::env::args().nth(2).map_or(16, |s| s.parse().unwrap());
    let n: u32 = std::env::args().nth(3).map_or(20000, |s| s.parse().unwrap());
    let direct = std::env::args().nth(4).is_none();
    let mut a = Task::enrol_at(socket.as_ref(), None).unwrap();
    let mut b = Task::enrol_at(socket.as_ref(), None).unwrap();
    a.allow_direct(direct);
    b.allow_direct(direct);
    let (ia, ib) = (a.id(), b.id());
    let pin = |cpu: usize| {
        let mut s = rustix::thread::CpuSet::new();
        s.set(cpu);
        rustix::thread::sched_setaffinity(None, &s).unwrap();
    };
    if std::env::var_os("ONE").is_some() {
        let mut buf = vec![0u8; size];
        let w = Wanted { source: Some(ia), tag: None, context: 0 };
        let wb = Wanted { source: Some(ib), tag: None, context: 0 };
        for _ in 0..100 {
            a.send(ib, 0, &buf).unwrap();
            b.recv_into(&w, &mut buf).unwrap();
            b.send(ia, 0, &buf).unwrap();
            a.recv_into(&wb, &mut buf).unwrap();
        }
        for _ in 0..5 {
            let s = Instant::now();
            for _ in 0..n {
                a.send(ib, 0, &buf).unwrap();
                b.recv_into(&w, &mut buf).unwrap();
            }
            println!("{size}: {} ns", s.elapsed().as_nanos() as u64 / u64::from(n));
        }
        return;
    }
    let t = std::thread::spawn(move || {
        pin(1);
        let mut buf = vec![0u8; size];
        let w = Wanted { source: Some(ia), tag: None, context: 0 };
        for _ in 0..n {
            b.recv_into(&w, &mut buf).unwrap();
            b.send(ia, 0, &buf).unwrap();
        }
        println!("{:?}", b.counters());
    });
    pin(0);
    let mut buf = vec![0u8; size];
    let w = Wanted { source: Some(ib), tag: None, context: 0 };
    let mut times = Vec::new();
    for _ in 0..n {
        let s = Instant::now();
        a.send(ib, 0, &buf).unwrap();
        a.recv_into(&w, &mut buf).unwrap();
        times.push(s.elapsed().as_nanos() as u64);
    }
    t.join().unwrap();
    times.sort();
    println!(
        "{size} B: p10 {} p50 {} p90 {} ns",
        times[times.len() / 10],
        times[times.len() / 2],
        times[times.len() * 9 / 10]
    );
    println!("{:?}", a.counters());
}
