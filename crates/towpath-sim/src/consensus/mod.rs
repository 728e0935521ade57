//! The replicated log under faults: replicas on disks that forget, clients that repeat, and what
//! must hold whatever happens.
//!
//! | checked | how |
//! |---|---|
//! | one leader in a term | at every step |
//! | no committed entry lost or changed | every entry that a replica gives out, every new leader |
//! | equal logs | every half second, of all that are up |
//! | equal states | after every entry |
//! | linearizable | each register's history of swaps and fresh reads, at the end |
//! | available again | from the last fault's end on, each client is answered within a stated time |
//! | a journal that a power cut tore | is read again, by the daemon's own parser |
//!
//! Disks lose and tear what was not synced; networks lose, repeat, delay and cut, also one way;
//! clocks run at different rates, jump, and stand still; disks are slow or take nothing; replicas
//! are killed, and lose their disks, one at a time, to be replaced by newcomers.

mod asking;
mod checks;
mod client;
mod cluster;
mod disk;
mod faults;
mod history;
mod host;
mod mending;
mod register;
mod scenario;

pub use cluster::{run, run_with};
pub use scenario::{AVAILABLE_AGAIN, ConsensusOutcome, ConsensusScenario, HOSTS};
