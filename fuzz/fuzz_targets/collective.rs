//! Anything that other members may send into one member of a team. See
//! [`towpath_fuzz::collective`] for what is checked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::collective::{Case, Event, run};

fuzz_target!(|input: (Case, Vec<Event>)| run(&input.0, &input.1));
