//! Any bytes decode as a message between daemons, a command or control state, or fail; what decodes
//! comes back from its encoding; and what is allocated for a message or a command is bounded by the
//! bytes' length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_fuzz::allocation::{self, PeakAlloc};
use towpath_vm::Message;
use towpath_vm::control::{Command, ControlState};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of input at most: an element of a list takes at least one byte, and
/// the largest element in memory (a host, with its key and names) 24 words, doubled by growth.
const FACTOR: usize = 512;
/// What serde reserves for a list before it has seen an element (`size_hint::cautious`).
const FLOOR: usize = 2 << 20;

fuzz_target!(|bytes: &[u8]| {
    let most = FACTOR * bytes.len() + FLOOR;
    let (message, allocated) = allocation::during(|| Message::decode(bytes));
    assert!(allocated <= most, "{allocated} B for {} B", bytes.len());
    if let Ok(message) = message {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let (command, allocated) = allocation::during(|| Command::decode(bytes));
    assert!(allocated <= most, "{allocated} B for {} B of a command", bytes.len());
    if let Ok(command) = command {
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
    if let Ok(state) = ControlState::decode(bytes) {
        assert_eq!(ControlState::decode(&state.encode()), Ok(state));
    }
});
