//! Recorded jobs over simulated networks: when would this run have ended elsewhere?
//!
//! A [`Record`] says what each rank of a job did: how long it computed between its messages, and
//! what it sent and received (`towpath-apps APP --record FILE` writes one). A [`JobNetwork`] says
//! what messages cost elsewhere. [`replay`] runs the one over the other in virtual time.
//!
//! **What is modelled.** One rank a host, with one processor: it works, or spends the overhead of
//! a message of its own, or waits. A send costs its overhead and does not wait for the network; a
//! receive takes the message that was received then, waits until the last frame of it has arrived,
//! and costs its overhead after that. A host's messages leave in order, cut into frames; hosts
//! that share a medium send one frame each, first come, first served, so that they take turns.
//!
//! **What is not.** Work is what it was when recorded, times a factor: caches and memory of another
//! processor are not modelled. Who took what from whom is as recorded: a job that hands out its
//! work as ranks get done would hand out other parts elsewhere. Frames are not lost, processors
//! spend nothing on messages that arrive while they work.
//!
//! | module | what it holds |
//! |---|---|
//! | `record` | steps of ranks, and a log that is bounded |
//! | `format` | the record as a file |
//! | `network` | the network as a file |
//! | `program` | collectives as messages |
//! | `wire` | frames over the medium, or a switch's ports |
//! | `run`, `fault` | the replay, and why there is none |
//! | `outcome`, `scaling` | what came of one, and of several with different numbers of ranks |
//!
//! ```
//! use towpath_sim::job::{JobNetwork, Record, replay};
//!
//! let text = "towpath-job,1,2,example\nrank,0,2\nw,1000000\ns,1,7,1460\n\
//!             rank,1,1\nr,0,7,1460\nend\n";
//! let record = Record::parse(text).expect("a record");
//! let network = JobNetwork::parse("kind = 'switched'\n[link]\nrate_bps = 10_000_000").unwrap();
//! let outcome = replay(&record, &network).expect("it ends");
//! // The work, and a frame of 1538 bytes on the link to the switch and on the one from there.
//! assert_eq!(outcome.makespan_ns, 1_000_000 + 2 * 1538 * 800);
//! ```

mod fault;
mod format;
mod network;
mod outcome;
mod program;
mod record;
mod run;
mod scaling;
#[cfg(test)]
mod tests;
mod wire;

pub use fault::ReplayError;
pub use format::{FILE_BYTES_MAX, RecordError};
pub use network::{Collectives, JobNetwork, LinkCost, Medium, ProcessorCost};
pub use outcome::{LinkOutcome, Outcome, RankOutcome};
pub use record::{Log, MESSAGE_BYTES_MAX, RANKS_MAX, Record, STEPS_MAX, Step, WORK_NS_MAX};
pub use run::{FRAMES_MAX, replay};
pub use scaling::{Row, ScalingError, scaling};
