//! How associations end, and how the peer is told.

use ::core::fmt;
use ::core::time::Duration;
use alloc::string::String;

use towpath_wire::Instant;

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// We closed it.
    Closed,
    /// The peer closed it.
    ByPeer {
        /// The peer's reason as a number.
        reason: u16,
        /// The peer's reason for people.
        text: String,
    },
    /// Nothing was heard of the peer since we began to ask.
    Silent {
        /// For how long, own stalls subtracted.
        for_: Duration,
        /// Packets of ours that went unanswered, spread over that time.
        asks: u32,
        /// Our own stalls meanwhile.
        excused: Duration,
    },
    /// The peer was heard, but acknowledged nothing of what we sent.
    NoProgress {
        /// For how long, own stalls subtracted.
        for_: Duration,
        /// Our own stalls meanwhile.
        excused: Duration,
    },
    /// Our own link let nothing out.
    Unsent {
        /// For how long, own stalls subtracted.
        for_: Duration,
        /// Our own stalls meanwhile.
        excused: Duration,
    },
    /// The peer broke the protocol.
    Fault(&'static str),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let excused = match self {
            Self::Closed => return f.write_str("closed"),
            Self::ByPeer { reason, text } => {
                return write!(f, "closed by the peer for reason {reason}: {text}");
            }
            Self::Fault(what) => return write!(f, "the peer broke the protocol: {what}"),
            Self::Silent { for_, asks, excused } => {
                write!(f, "silent: {asks} asks unanswered in {for_:.1?}")?;
                excused
            }
            Self::NoProgress { for_, excused } => {
                write!(f, "no progress: heard, but nothing acknowledged for {for_:.1?}")?;
                excused
            }
            Self::Unsent { for_, excused } => {
                write!(f, "unsent: the own link let nothing out for {for_:.1?}")?;
                excused
            }
        };
        if excused.is_zero() { Ok(()) } else { write!(f, ", own stalls of {excused:.1?} apart") }
    }
}

/// Reason number of an association ended by a protocol fault. Numbers above 255 belong to the
/// layers above.
pub const REASON_FAULT: u16 = 1;
/// Reason number of an association whose peer was given up: what it hears when it is back.
pub const REASON_LOST: u16 = 2;

/// CLOSE is sent this often before a closed association is forgotten.
const CLOSE_REPEATS: u8 = 3;
/// Time between two of them.
const CLOSE_INTERVAL: Duration = Duration::from_millis(30);
/// How long a closed association answers a peer that has not understood.
pub(super) const LINGER: Duration = Duration::from_millis(300);

/// We ended it: CLOSE goes out `left` more times, the next at `at`; then until `until` as an answer
/// to whatever still comes, at most one in [`CLOSE_INTERVAL`].
#[derive(Clone, Debug)]
pub(super) struct Closing {
    pub(super) reason: u16,
    pub(super) text: String,
    left: u8,
    at: Instant,
    /// The next one is to go out when the driver asks.
    pub(super) due: bool,
    until: Instant,
}

impl Closing {
    pub(super) fn new(now: Instant, reason: u16, text: String, linger: Duration) -> Self {
        let until = now + CLOSE_INTERVAL * CLOSE_REPEATS.into() + linger;
        Self { reason, text, left: CLOSE_REPEATS, at: now, due: true, until }
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(1);
        self.due = false;
        self.at = now + CLOSE_INTERVAL;
    }

    /// The peer has not understood yet.
    pub(super) fn answer(&mut self, now: Instant) {
        self.due |= now >= self.at;
    }

    pub(super) const fn poll_timeout(&self) -> Instant {
        if self.left > 0 && !self.due { self.at } else { self.until }
    }

    /// False once it is over.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.due |= self.left > 0 && now >= self.at;
        now < self.until
    }
}
