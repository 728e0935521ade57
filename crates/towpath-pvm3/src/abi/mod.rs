//! The exported C functions: from the program's pointers to [`crate::library`] and back.

mod begin;
mod buffers;
mod entry;
mod groups;
mod hosts;
mod mailbox;
mod messages;
mod pack;
mod system;
mod tables;
mod tasks;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use buffers::*;
pub(crate) use entry::{Text, call, library, pvm_perror, traced};
pub(crate) use groups::*;
pub(crate) use hosts::*;
pub(crate) use mailbox::*;
pub(crate) use messages::*;
pub(crate) use pack::*;
pub(crate) use system::*;
pub(crate) use tasks::*;
