//! The log that several hosts keep together: consensus after Raft (Ongaro and Ousterhout 2014;
//! Ongaro 2014), without IO, clock or randomness.
//!
//! ```text
//!            propose, read, change                    decided
//!  owner ───────────────────────────▶  Replica  ───────────────────▶  Replicated<state machine>
//!            tick, step, durable          │  ▲
//!                                   take  ▼  │ durable(n)
//!                          messages ◀── Write n ──▶ journal (a thread with a disk)
//! ```
//!
//! - **What is promised is on the disk first.** A replica hands out numbered writes and goes on; a
//!   vote, or the answer that entries have arrived, leaves when the write that holds it is durable.
//! - **Elections**: pre-vote; no vote while a leader is heard; a leader steps down when no majority
//!   answered for an election's time, or its own disk takes nothing.
//! - **Members** change by one at a time, after an entry of the leader's term is committed;
//!   newcomers are learners until they have caught up.
//! - **Reads** ask a majority; there are no leases, and no clock has a part in safety.
//! - **Repeated proposals** are answered from a table that is part of the state ([`sessions`]).
//! - **One identity, one process**: a boot counter and a number drawn at each start tell twins.
//!
//! | module | what it holds |
//! |---|---|
//! | `replica` | one replica: what it is asked, told and asks for |
//! | `election`, `leading`, `receiving` | what it does as a candidate, a leader, a follower |
//! | `entry`, `log`, `disk` | entries, members; the log in memory; what waits for the disk |
//! | `progress`, `quorum`, `reads` | a leader's view of the others, majorities, fresh reads |
//! | `ahead` | how long nothing is due |
//! | `message` | what replicas tell each other, as bytes |
//! | `journal` | the log on a disk, as bytes |
//! | `sessions` | the state machine, and each command once |
//! | `config` | settings and limits |

mod ahead;
pub mod checksum;
pub mod config;
mod disk;
mod election;
pub mod entry;
pub mod journal;
mod leading;
mod log;
pub mod message;
mod progress;
mod quorum;
mod reads;
mod receiving;
mod replica;
pub mod sessions;

pub use config::Config;
pub use disk::{Record, Write};
pub use entry::{Body, Command, Entry, Members, ReplicaId};
pub use leading::{Change, ChangeError};
pub use log::Snapshot;
pub use message::{Message, Payload};
pub use reads::Read;
pub use replica::{
    Decided, Halt, Identity, Place, Proposal, ProposeError, Refused, Replica, ReplicatedLog,
    RoleName, Stored, Taken,
};
pub use sessions::{Applied, Replicated, SessionError, StateMachine};

#[cfg(test)]
mod tests;
