//! Quality of service: traffic specifications, packet schedulers, topology, admission. No IO.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admission;
pub mod file;
pub mod scheduler;
pub mod spec;
pub mod topology;
