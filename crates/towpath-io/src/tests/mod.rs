//! The real drivers on loopback and in shared memory, as their users see them.

mod direct;
mod links;
mod neighbours;
mod shared;
mod shared_hostile;
mod udp;
