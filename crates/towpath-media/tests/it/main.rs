//! Readers, schedules and pacers against real and damaged bytes.

mod any_bytes;
mod clip;
mod clips;
mod containers;
mod count;
mod ffprobe;
mod garbage;
mod inspect;
mod log;
mod play;
mod real_clips;
mod reference;
mod splice;
mod whole;
