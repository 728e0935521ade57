//! Which faults there are, and when they end.

use std::time::Duration;

use towpath_proto::Rng;

use super::disk::End;

/// One fault. Hosts are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A host ends, and starts again after a while.
    Crash(usize, End, Duration),
    /// All do.
    CrashAll(End, Duration),
    /// A host's disk is lost.
    Wipe(usize),
    /// Packets from one host to another are lost.
    Cut(Vec<(usize, usize)>, Duration),
    /// More packets are lost than usual.
    Lossy(Duration),
    /// A disk takes long.
    SlowDisk(usize, Duration),
    /// A disk takes nothing.
    DeadDisk(usize, Duration),
    /// A host stands still.
    Stop(usize, Duration),
    /// A clock jumps ahead by so many ticks.
    Jump(usize, u32),
    /// The leader gives way.
    HandOver(usize),
}

fn millis(rng: &mut Rng, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + rng.below(most - least))
}

const ENDS: [End; 2] = [End::PowerCut, End::Killed];

/// Draws one. The leader is hit half of the time.
pub(super) fn draw(nodes: usize, leader: Option<usize>, rng: &mut Rng) -> Fault {
    let any = rng.below(nodes as u64) as usize;
    let victim = leader.filter(|_| rng.below(2) == 0).unwrap_or(any);
    let end = ENDS[rng.below(2) as usize];
    match rng.below(100) {
        0..30 => Fault::Crash(victim, end, millis(rng, 20, 1500)),
        30..34 => Fault::CrashAll(end, millis(rng, 20, 600)),
        34..42 => Fault::Wipe(victim),
        42..64 => Fault::Cut(cut(nodes, victim, rng), millis(rng, 50, 2500)),
        64..70 => Fault::Lossy(millis(rng, 100, 2000)),
        70..76 => Fault::SlowDisk(victim, millis(rng, 100, 2000)),
        76..82 => Fault::DeadDisk(victim, millis(rng, 100, 2500)),
        82..89 => Fault::Stop(victim, millis(rng, 50, 2000)),
        89..96 => Fault::Jump(victim, 1 + rng.below(80) as u32),
        _ => Fault::HandOver(any),
    }
}

/// Which ways are cut: those from a host, to it, or between two parts.
fn cut(nodes: usize, victim: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    let all = |f: &dyn Fn(usize, usize) -> bool| {
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b && f(*a, *b)).collect()
    };
    match rng.below(4) {
        0 => all(&|a, _| a == victim),
        1 => all(&|_, b| b == victim),
        2 => {
            let part = rng.u64();
            all(&|a, b| (part >> a & 1) != (part >> b & 1))
        }
        _ => {
            let ways = rng.u64();
            all(&|a, b| ways >> ((a * nodes + b) % 64) & 1 == 1)
        }
    }
}
