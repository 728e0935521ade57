//! A pair of tasks paced at 50 Mbit/s, beside leaders that are killed: what it notices of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use towpath::Task;
use towpath::task::Wanted;

use crate::support::text;
use crate::voters::{farm, kill_leaders, task, up};

/// One message of `BYTES` each `EVERY`: 50 Mbit/s.
const EVERY: Duration = Duration::from_millis(1);
const BYTES: usize = 6250;
/// What a kill may add to the longest gap.
const MORE: Duration = Duration::from_millis(50);
const TAG: i32 = 5;

/// Two tasks of hosts that nobody kills, until they are told to stop.
struct Pair {
    stop: Arc<AtomicBool>,
    sends: JoinHandle<(Task, u64)>,
    receives: JoinHandle<(Task, u64, Duration)>,
}

impl Pair {
    fn start(mut from: Task, mut to: Task) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (target, ends) = (to.id(), Arc::clone(&stop));
        let sends = std::thread::spawn(move || {
            let nothing = Wanted { source: None, tag: None, context: 0 };
            let (begin, mut count) = (Instant::now(), 0_u64);
            while !ends.load(Ordering::Relaxed) {
                let due = begin + EVERY * count as u32;
                let left = due.saturating_duration_since(Instant::now());
                assert!(from.recv_timeout(&nothing, left).unwrap().is_none());
                let mut content = [0; BYTES];
                content[..8].copy_from_slice(&count.to_le_bytes());
                from.send(target, TAG, &content).unwrap();
                count += 1;
            }
            // The last one has no content.
            from.send(target, TAG, &[]).unwrap();
            (from, count)
        });
        let receives = std::thread::spawn(move || {
            let wanted = Wanted { source: None, tag: Some(TAG.into()), context: 0 };
            let (mut count, mut last, mut gap) = (0_u64, None::<Instant>, Duration::ZERO);
            loop {
                let message = to.recv(&wanted).unwrap();
                if message.bytes().is_empty() {
                    return (to, count, gap);
                }
                let now = Instant::now();
                gap = gap.max(last.map_or(Duration::ZERO, |last| now - last));
                last = Some(now);
                let number: [u8; 8] = message.bytes()[..8].try_into().unwrap();
                assert_eq!(u64::from_le_bytes(number), count, "each one comes, in order");
                count += 1;
            }
        });
        Self { stop, sends, receives }
    }

    /// The tasks again, how many messages came, and the longest time without one.
    fn stop(self) -> (Task, Task, u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (from, sent) = self.sends.join().unwrap();
        let (to, came, gap) = self.receives.join().unwrap();
        assert_eq!(sent, came);
        (from, to, came, gap)
    }
}

/// `TOWPATH_KILLS` of leaders (20 if it is not set), by the daemons and by a direct stream.
#[test]
#[ignore = "takes minutes: `make nightly`"]
fn a_paced_pair_notices_no_leader_that_is_killed() {
    let kills = std::env::var("TOWPATH_KILLS").map_or(20, |n| n.parse().unwrap());
    for direct in [false, true] {
        let vm = up("6");
        for host in ["h5", "h6"] {
            let out = vm.towpath(&["host", "drain", "--no-wait", host]);
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
        let (mut from, mut to) = (task(&vm, 5), task(&vm, 6));
        from.allow_direct(direct);
        to.allow_direct(direct);
        let farms: Vec<_> = (0..3).map(|_| farm(&vm, 10 * kills as u32, "0.5")).collect();
        // As long as the kills take, or nearly: three farms run beside both.
        let pair = Pair::start(from, to);
        let quiet = Instant::now();
        let mut idle = task(&vm, 5);
        let nothing = Wanted { source: None, tag: None, context: 0 };
        let while_quiet = Duration::from_secs(3) * kills as u32;
        assert!(idle.recv_timeout(&nothing, while_quiet).unwrap().is_none());
        drop(idle);
        let (from, to, count, without) = pair.stop();
        let seconds = quiet.elapsed().as_secs_f64();
        let pair = Pair::start(from, to);
        let begin = Instant::now();
        kill_leaders(&vm, kills);
        let (_, _, killed_count, with) = pair.stop();
        let way = if direct { "direct" } else { "by the daemons" };
        println!(
            "{way}: at most {without:?} without a message in {seconds:.0} s ({count} messages), \
             {with:?} in the {:.0} s of {kills} kills ({killed_count})",
            begin.elapsed().as_secs_f64(),
        );
        assert!(with <= without + MORE, "{way}: {with:?}, without kills {without:?}");
        for farm in farms {
            farm.join().unwrap();
        }
    }
}
