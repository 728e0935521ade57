//! What came of a replay.

use serde::Serialize;

/// One rank: it has ended after `busy_ns + overhead_ns + waiting_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankOutcome {
    /// When it had done all, in nanoseconds from the beginning.
    pub end_ns: u64,
    /// It worked.
    pub busy_ns: u64,
    /// Its processor sent and received.
    pub overhead_ns: u64,
    /// It waited for messages.
    pub waiting_ns: u64,
    /// Messages that it sent.
    pub messages_sent: u64,
    /// Bytes of these.
    pub bytes_sent: u64,
    /// Messages that it received.
    pub messages_received: u64,
    /// Bytes of these.
    pub bytes_received: u64,
}

/// What passed one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkOutcome {
    /// `medium`, `3 to switch`, `switch to 3`.
    pub name: String,
    /// Messages.
    pub messages: u64,
    /// Their frames.
    pub frames: u64,
    /// Their bytes, without what frames cost beside them.
    pub bytes: u64,
    /// Time in which frames passed, those costs included.
    pub busy_ns: u64,
}

impl LinkOutcome {
    pub(super) fn named(name: String) -> Self {
        Self { name, ..Self::default() }
    }
}

/// A job as it would have run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Which application.
    pub application: String,
    /// By rank.
    pub ranks: Vec<RankOutcome>,
    /// The medium; or by host, to the switch, then by host, from there.
    pub links: Vec<LinkOutcome>,
    /// When the last rank had done all.
    pub makespan_ns: u64,
    /// Messages that nobody received.
    pub unreceived: u64,
}

impl Outcome {
    /// Work of all ranks together, in nanoseconds of the processors it ran on.
    pub fn busy_ns(&self) -> u64 {
        self.sum(|rank| rank.busy_ns)
    }

    /// Parts of all processors' time until the end, in parts per million: work, overhead of
    /// messages, and waiting or done.
    pub fn shares_ppm(&self) -> [u64; 3] {
        let all = (self.makespan_ns as f64 * self.ranks.len() as f64).max(1.0);
        let part = |ns: u64| (ns as f64 * 1e6 / all).round() as u64;
        let (busy, overhead) = (part(self.busy_ns()), part(self.sum(|rank| rank.overhead_ns)));
        [busy, overhead, 1_000_000_u64.saturating_sub(busy + overhead)]
    }

    fn sum(&self, of: impl Fn(&RankOutcome) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }
}
