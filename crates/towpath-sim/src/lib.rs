//! Deterministic simulator: runs the very node that the daemon runs, in virtual time.
//!
//! Same seed, same trace hash, on every machine and in every build. A failed run prints the one
//! command that replays it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`kernel`] | the event queue |
//! | [`job`] | recorded jobs over other networks: when each rank would end |
//! | [`link`] | links with rate, delay, queue and faults |
//! | [`network`] | links, routes over them, datagrams under way |
//! | [`world`] | hosts, their clocks, links and processes, driven together |
//! | [`scenario`] | an experiment as a file |
//! | [`transfer`] | associations over shared links: rate, fairness, cost, packets over time |
//! | [`segments`] | the reference of 1997, for comparison |
//! | [`repair`] | the scheme of 1997 and an association over the same lossy link |
//! | [`stream`] | video to a client with a processor: feedback off, after, before |
//! | [`parallel`] | the fifth source's node of many processors over many rings |
//! | [`swarm`] | random runs of a scenario with faults, and the checkers |
//! | [`tap`] | frames of a real link: what becomes of them, and when |
//! | [`qos`] | switches with packet schedulers, hosts with processors, what was promised them |
//! | [`vm`] | virtual machines with tasks that do what tasks do, and a checker |
//! | [`consensus`] | the replicated log alone, under faults, and its checkers |
//! | [`memory`], [`crypto`], [`hash`] | stand-ins for message memory, cryptography and traces |
//!
//! ```
//! use towpath_sim::{Scenario, run, swarm::stand_in};
//!
//! let text = "hosts = [2, 2]\nflows = [1, 1]\nflow_bytes = [1000, 2000]\n\
//!             tasks = [0, 0]\nfaults = [0, 0]\n";
//! let scenario = Scenario::parse(text).expect("a scenario");
//! let once = run(&scenario, 7, &stand_in, &|_| {});
//! let again = run(&scenario, 7, &stand_in, &|_| {});
//! assert!(once.bytes >= 1000);
//! assert_eq!(once.trace_hash, again.trace_hash, "the same seed, the same run");
//! ```
#![forbid(unsafe_code)]

pub mod apart;
pub mod clock;
pub mod consensus;
pub mod crypto;
pub mod disk;
pub mod hash;
pub mod job;
pub mod kernel;
pub mod link;
pub mod memory;
pub mod network;
pub mod parallel;
pub mod process;
pub mod qos;
pub mod repair;
pub mod scenario;
pub mod segments;
pub mod stream;
pub mod swarm;
pub mod tap;
pub mod transfer;
pub mod vm;
pub mod world;

pub use scenario::Scenario;
pub use swarm::{Outcome, Violation, run};
pub use world::World;
