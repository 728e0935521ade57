//! The very sources of `towpath_io::shared`, over memory that the model checker loom watches: it
//! runs every order of events and every value that a load may see (within a bound of switches
//! between threads), and finds what a fence or an ordering too few lets through.
//!
//! Only [`memory`] differs: words are loom's atomics, payload lies in cells that it watches for
//! reads and writes that nothing orders.
#![allow(dead_code)] // the ends that a task holds are not part of the model

#[path = "../../crates/towpath-io/src/shared/arena.rs"]
mod arena;
#[path = "../../crates/towpath-io/src/shared/buddy.rs"]
mod buddy;
#[path = "../../crates/towpath-io/src/shared/card.rs"]
mod card;
#[path = "../../crates/towpath-io/src/shared/error.rs"]
mod error;
#[path = "../../crates/towpath-io/src/shared/layout.rs"]
mod layout;
mod memory;
mod models;
#[path = "../../crates/towpath-io/src/shared/record.rs"]
mod record;
#[path = "../../crates/towpath-io/src/shared/returns.rs"]
mod returns;
#[path = "../../crates/towpath-io/src/shared/ring.rs"]
mod ring;

fn main() {
    for (name, model) in models::ALL {
        println!("{name}: {} runs", models::check(*model));
    }
}
