//! Parallel JPEG in five stages: strips are read, compressed, carried over, decompressed,
//! assembled.
//!
//! The root reads and assembles; half of the other tasks compress, half decompress; with one other
//! task it does both, with none the root does all. Strips follow each other, so that all stages are
//! busy at once; as many are under way as keep everybody busy, no more. The result is one JPEG, the
//! same bytes for any number of tasks.

mod coder;
mod image;
mod pipeline;
#[cfg(not(feature = "turbo"))]
mod pure;
mod rated;
#[cfg(feature = "turbo")]
mod turbo;

pub(crate) use pipeline::{JpegArgs, jpeg};
pub(crate) use rated::rated;
