//! Any text as a list of hosts and as a host file: names that are safe to hand to ssh come out,
//! or an error does, and memory is bounded by the text and the most names there may be.
//!
//! The sources are taken in as they stand: see the `client` target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

#[path = "../../crates/towpath/src/start/hostfile.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the parser is driven")]
mod hostfile;
#[path = "../../crates/towpath/src/start/hostlist.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the parser is driven")]
mod hostlist;

/// Names of the longest length, each with its options, in vectors that double.
const FLOOR: usize = 16 << 20;
/// Options are copied to each name of a line.
const FACTOR: usize = 2 * hostlist::NAMES_MAX;

fuzz_target!(|text: &str| {
    let ((), heap) = allocation::during(|| {
        if let Ok(names) = hostlist::expand(text) {
            assert!(names.len() <= hostlist::NAMES_MAX);
            assert!(names.iter().all(|n| hostlist::is_name(n)));
            // A list of plain names stands for itself, if it can be a list.
            let list = names.join(",");
            if list.len() <= hostlist::LIST_BYTES_MAX {
                assert_eq!(hostlist::expand(&list).as_ref().ok(), Some(&names));
            }
        }
        if let Ok(machines) = hostfile::parse(text) {
            assert!(machines.len() <= hostlist::NAMES_MAX);
            for m in &machines {
                assert!(hostlist::is_name(&m.name));
                assert!(m.options.user.as_ref().is_none_or(|u| !u.starts_with('-')));
                assert!(m.options.slots.is_none_or(|n| (1..=1024).contains(&n)));
            }
        }
    });
    assert!(heap <= FACTOR * text.len() + FLOOR, "{heap} B for {} B", text.len());
});
