//! The real drivers: sockets, streams and shared memory.

#[path = "../../../towpath-cli/tests/it/support/built.rs"]
mod built;
mod direct;
mod links;
mod neighbours;
mod rekey;
mod shared;
mod shared_hostile;
mod udp;
