//! Any text as a host file of PVM's: names that are safe to hand to ssh come out, or an error does,
//! and memory is bounded by the text, the most names and the longest values.
//!
//! The sources are taken in as they stand: see the `client` target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

#[path = "../../crates/towpath/src/pvm/hostfile.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the parser is driven")]
mod hostfile;
#[path = "../../crates/towpath/src/start/hostlist.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the names are driven")]
mod hostlist;
#[path = "../../crates/towpath/src/start/hostfile.rs"]
#[allow(dead_code, unreachable_pub, reason = "only its limit is used")]
mod start_hostfile;
/// Where the parser looks for them.
mod start {
    pub(crate) use super::{hostlist, start_hostfile as hostfile};
}

/// Names of the longest length and notes, in vectors that double.
const FLOOR: usize = 16 << 20;
/// Values with their variables put in are copied to each of the lines below.
const FACTOR: usize = 2 * hostlist::NAMES_MAX;

fuzz_target!(|text: &str| {
    let variable = |name: &str| (name.len() % 2 == 1).then(|| format!("/{name}"));
    let ((), heap) = allocation::during(|| {
        let Ok(found) = hostfile::parse(text, &variable) else { return };
        assert!(found.hosts.len() <= hostlist::NAMES_MAX);
        assert!(found.notes.len() <= hostfile::NOTES_MAX);
        for host in &found.hosts {
            assert!(hostlist::is_name(&host.name));
            let options = &host.options;
            assert!(options.user.as_ref().is_none_or(|user| !user.starts_with('-')));
            assert!(options.speed.is_none_or(|speed| (1..=1_000_000).contains(&speed)));
            let values = [&options.programs, &options.folder, &options.debugger];
            assert!(values.iter().all(|value| {
                value.as_ref().is_none_or(|value| value.len() <= hostfile::VALUE_BYTES_MAX)
            }));
        }
    });
    assert!(heap <= FACTOR * text.len() + FLOOR, "{heap} B for {} B", text.len());
});
