//! What can be wrong with a trace.

use alloc::string::String;

use thiserror::Error;

/// A trace that cannot be planned for. Lines and frames count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// No frame at all.
    #[error("the trace holds no frame")]
    Empty,
    /// Frames, but all of them empty: every schedule would be the empty one.
    #[error("the trace holds {frames} frames and not one byte")]
    NoBytes {
        /// Frames read.
        frames: usize,
    },
    /// More frames than a plan takes.
    #[error("the trace holds more than {limit} frames")]
    TooManyFrames {
        /// The limit.
        limit: usize,
    },
    /// One frame beyond the limit.
    #[error("frame {frame} has {bytes} bytes, more than the limit of {limit}")]
    FrameTooLarge {
        /// Which frame.
        frame: usize,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// All frames together beyond the limit.
    #[error("the first {frame} frames have more than {limit} bytes together")]
    TotalTooLarge {
        /// The frame that crossed the limit.
        frame: usize,
        /// The limit in bytes.
        limit: u64,
    },
    /// Lasts too long for exact arithmetic.
    #[error("frame {frame} is due after {ticks} ticks, more than the limit of {limit}")]
    TooLong {
        /// The frame that is due too late.
        frame: usize,
        /// When, in ticks after the first.
        ticks: u64,
        /// The limit in ticks.
        limit: u64,
    },
    /// Clock references or positions run backwards.
    #[error("clock reference {index} goes back: {what} {value} follows {before}")]
    Backwards {
        /// Which reference.
        index: usize,
        /// `time` or `position`.
        what: &'static str,
        /// The value at fault.
        value: u64,
        /// The one before it.
        before: u64,
    },
    /// A frame rate that is no rate.
    #[error("frame rate {num}/{den} is outside 1/1000 to 100000 frames per second")]
    FrameRate {
        /// Frames.
        num: u32,
        /// Per this many seconds.
        den: u32,
    },
    /// A line of a file that is not what its format says.
    #[error("line {line}: {what}: `{text}`")]
    Line {
        /// Which line.
        line: usize,
        /// What was expected.
        what: &'static str,
        /// The line's beginning (at most 60 characters).
        text: String,
    },
    /// A file in none of the known formats.
    #[error(
        "line {line}: not a frame trace: neither `frame,type,bytes` CSV, nor number/type/ms/bytes \
         columns, nor a list of frame sizes: `{text}`"
    )]
    UnknownFormat {
        /// The first line that tells.
        line: usize,
        /// The line's beginning (at most 60 characters).
        text: String,
    },
    /// A file larger than is read.
    #[error("the trace file has {bytes} bytes, more than the limit of {limit}")]
    FileTooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}
