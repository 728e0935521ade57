//! The real drivers: sockets, streams and shared memory.

mod direct;
mod links;
mod neighbours;
mod rekey;
mod shared;
mod shared_hostile;
mod udp;
