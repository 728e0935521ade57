//! `sim`: the protocols of the daemon in a simulated network.
//!
//! | module | what it holds |
//! |---|---|
//! | `command` | arguments; which kind of scenario a file is |
//! | `swarm` | random runs with faults, and what came of them |
//! | `consensus` | the replicated log alone, under faults |
//! | `vm` | virtual machines with tasks, under faults |
//! | `transfer`, `report` | flows over links: runs, tables, charts |
//! | `job` | a recorded job over another network |
//! | `dump` | every datagram of a run in words |
//! | `stream` | video to a client with a processor: feedback off, after, before |
//! | `node` | the fifth source's tables beside what its nodes do here |
//! | `parallel` | one application over many processors and rings |
//! | `repair` | the scheme of 1997 beside the present one |

mod command;
mod consensus;
mod dump;
mod job;
mod node;
mod parallel;
mod repair;
mod report;
mod stream;
mod swarm;
mod transfer;
mod vm;

pub(crate) use command::{SimArgs, run};
