//! Applications and benchmark kernels that run as tasks of Towpath.
//!
//! Each is written against [`exchange::Exchange`]; what it computes, how it is split and what is
//! checked stands in docs/applications.md.
#![deny(clippy::print_stdout)]
// which ends the program where output is closed
// Numbers of the field: short names are the papers', literals and tables stand beside their use.
#![allow(clippy::many_single_char_names, clippy::unreadable_literal, clippy::doc_markdown)]
#![allow(clippy::items_after_statements, clippy::needless_range_loop)]
#![allow(clippy::inline_always)] // what must become part of a loop of vector instructions
#![allow(clippy::float_cmp)] // the same bits are asked for
#![allow(clippy::cast_possible_wrap)] // ranks and indices are small
#![allow(clippy::match_bool, clippy::single_match_else)] // two answers side by side
#![allow(clippy::format_push_string)] // pages are short

mod command;
mod demos;
mod examples;
mod exchange;
mod field;
mod jpeg;
mod kernels;
mod options;
mod picture;
mod rated;
mod rates;
mod report;
mod steering;
mod tracker;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::run()
}
