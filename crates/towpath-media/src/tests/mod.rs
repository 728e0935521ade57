//! Readers, inspectors and pacers with whole files, shipped and made here, as their users see them.

mod any_bytes;
mod avi;
mod clips;
mod containers;
mod count;
mod garbage;
mod log;
mod plans;
mod play;
mod program_streams;
mod splice;
mod whole;
