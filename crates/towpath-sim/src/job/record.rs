//! What each rank of a job did.

/// Ranks at most.
pub const RANKS_MAX: usize = 1024;
/// Steps of a rank at most; one of an all-to-all counts as many as there are ranks.
pub const STEPS_MAX: usize = 1 << 20;
/// Longest message.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 28;
/// Longest work between two messages: eleven days, in nanoseconds.
pub const WORK_NS_MAX: u64 = 1_000_000_000_000_000;

/// One thing that a rank did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It computed so many nanoseconds of processor time.
    Work(u64),
    /// It sent a message.
    Send {
        /// To which rank.
        to: usize,
        /// With which tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// It waited for a message and took it.
    Receive {
        /// Of which rank.
        from: usize,
        /// With which tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// It took part in a broadcast.
    Broadcast {
        /// Who had the bytes.
        root: usize,
        /// How many.
        bytes: u64,
    },
    /// It gave its part to a root.
    Gather {
        /// To whom.
        root: usize,
        /// Its own part's length.
        bytes: u64,
    },
    /// It gave everyone its part, of so many bytes.
    AllGather(u64),
    /// It gave each rank a part: their lengths, by rank.
    AllToAll(Vec<u64>),
}

impl Step {
    /// Whether all ranks take part in it.
    pub const fn is_collective(&self) -> bool {
        !matches!(self, Self::Work(_) | Self::Send { .. } | Self::Receive { .. })
    }

    /// What it counts among [`STEPS_MAX`].
    pub(super) const fn weight(&self) -> usize {
        match self {
            Self::AllToAll(parts) => parts.len(),
            _ => 1,
        }
    }
}

/// A job as it was recorded. Invariants, where it was parsed: 1 ≤ ranks ≤ [`RANKS_MAX`]; every rank
/// named in a step is one of them; an all-to-all has a part for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which application, in printable ASCII without commas.
    pub application: String,
    /// Steps by rank.
    pub ranks: Vec<Vec<Step>>,
}

impl Record {
    /// Processor time of all ranks together, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        let work = |step: &Step| if let Step::Work(ns) = step { *ns } else { 0 };
        self.ranks.iter().flatten().map(work).fold(0, u64::saturating_add)
    }

    /// Of two runs of one job what disturbed neither: where their messages are the same, the least
    /// work of each step; otherwise the one with less work in all.
    pub fn lessen(&mut self, other: Self) {
        let [own, others] = [&*self, &other].map(Self::without_work);
        if own != others {
            if other.work_ns() < self.work_ns() {
                *self = other;
            }
            return;
        }
        for (steps, others) in self.ranks.iter_mut().zip(&other.ranks) {
            for (step, other) in steps.iter_mut().zip(others) {
                if let (Step::Work(ns), Step::Work(other)) = (step, other) {
                    *ns = (*ns).min(*other);
                }
            }
        }
    }

    /// Where there is work, and everything else.
    fn without_work(&self) -> Vec<Vec<Step>> {
        let blank = |step: &Step| match step {
            Step::Work(_) => Step::Work(0),
            other => other.clone(),
        };
        self.ranks.iter().map(|steps| steps.iter().map(blank).collect()).collect()
    }

    /// The line of the record as a file that holds a step; behind a rank's last step, the line
    /// after it.
    pub(super) fn line(&self, rank: usize, step: usize) -> usize {
        let before: usize = self.ranks[..rank].iter().map(|steps| steps.len() + 1).sum();
        before + step + 3
    }
}

/// A rank's steps as they are noted. Work next to work becomes one step. What is beyond
/// [`STEPS_MAX`] is not kept, and the log says so.
#[derive(Clone, Debug, Default)]
pub struct Log {
    steps: Vec<Step>,
    weight: usize,
    is_full: bool,
}

impl Log {
    /// Notes a step.
    pub fn note(&mut self, step: Step) {
        if let (Step::Work(ns), Some(Step::Work(before))) = (&step, self.steps.last_mut())
            && !self.is_full
        {
            *before = before.saturating_add(*ns).min(WORK_NS_MAX);
            return;
        }
        if matches!(step, Step::Work(0)) || self.is_full {
            return;
        }
        self.weight += step.weight();
        self.is_full = self.weight > STEPS_MAX;
        if !self.is_full {
            self.steps.push(step);
        }
    }

    /// Whether there were more steps than are kept.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}
