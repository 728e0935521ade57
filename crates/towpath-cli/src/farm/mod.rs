//! `farm`: one command over many inputs on all hosts, like a parallel `xargs`.

mod args;
mod command;
mod habits;
mod job;
mod screen;
mod words;

pub(crate) use args::FarmArgs;
pub(crate) use command::run;
pub(crate) use habits::hint;
