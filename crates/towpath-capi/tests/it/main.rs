//! The C interface.

#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod c;
