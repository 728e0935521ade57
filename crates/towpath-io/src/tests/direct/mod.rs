//! Streams between tasks over real sockets on loopback.

mod faults;
mod rendezvous;
mod side;
mod streams;
