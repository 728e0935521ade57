//! `pvm`: PVM's console.
//!
//! | module | what it holds |
//! |---|---|
//! | `command` | the command line; bringing the virtual machine up |
//! | `console` | the loop: lines in, events in, commands by name |
//! | `input`, `words` | lines of standard input; words of a line |
//! | `tids` | task numbers as PVM writes them |
//! | `hosts`, `tasks`, `spawn`, `mail`, `settings` | what the commands do |
//! | `jobs` | output of what was spawned with `->` |
//! | `roles`, `starter` | hosters and taskers: what they are asked; programs that they start |
//! | `mask`, `trace` | which calls are traced; what traced tasks say, as it is written |
//! | `summary` | what a trace file says |
//! | `help` | what `help` says |

mod command;
mod console;
mod help;
mod hosts;
mod input;
mod jobs;
mod mail;
mod mask;
mod roles;
mod settings;
mod spawn;
mod starter;
mod summary;
mod tasks;
mod tids;
mod trace;
mod words;

pub(crate) use command::{PvmArgs, pvm};
