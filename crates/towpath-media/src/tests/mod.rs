//! Readers, inspectors and pacers with whole files, shipped and made here, as their users see them.

mod any_bytes;
mod avi;
mod clips;
mod containers;
mod count;
mod garbage;
mod log;
mod play;
mod splice;
mod whole;
