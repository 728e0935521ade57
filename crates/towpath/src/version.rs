//! Which build this is.

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version and name of this build. Clients, daemons and hosts understand each other only if theirs
/// are equal.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TOWPATH_BUILD"), ")");
