//! `bench`: what this machine's links carry, beside what its kernel alone carries in the same run.
//!
//! One process (the coordinator) measures; the other (the peer) serves the far end of each
//! measurement. They agree over a TCP connection, one line of JSON each way at a time (`talk`),
//! and then do the same work over and over (`round`). What tasks of a virtual machine do to each
//! other is measured in `tasks`. Both processes are the `towpath` command, which starts itself.
#![deny(clippy::print_stdout)] // which ends the program where output is closed: `put!`, `putln!`

#[macro_use(put, putln)]
extern crate towpath_report;

mod args;
mod command;
mod content;
mod far;
mod figures;
mod floor;
mod line;
mod machine;
mod netns;
mod ours;
mod peer;
mod relay;
mod report;
mod row;
mod side;
mod talk;
pub mod tap;
mod tasks;
mod tun;
mod udp_train;
mod words;

pub use args::BenchArgs;
pub use command::run;
