//! How a test says that it did not run.
//!
//! The test runner counts a test that returns early as passed, and keeps what it printed to
//! itself. So whoever skips writes a line to the file that `TOWPATH_SKIPS` names; `make test`
//! prints that file last and counts its lines, and CI fails on a line that `.ci/skips` does not
//! allow.
//!
//! ```no_run
//! fn compares_with_a_peer() {
//!     if !std::path::Path::new("/usr/bin/peer").exists() {
//!         return towpath_skip::skip("/usr/bin/peer is not installed");
//!     }
//! }
//! # compares_with_a_peer();
//! ```
#![forbid(unsafe_code)]

mod record;

pub use record::skip;
