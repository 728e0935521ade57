//! The real drivers: processes, and what the simulator says of real keys.

#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod last_words;
mod rekey;
#[allow(dead_code, reason = "one test uses a part of it")]
#[path = "../../src/tests/direct/side.rs"]
mod side;
