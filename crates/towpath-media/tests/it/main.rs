//! Readers and schedules against clips and traces that are not shipped.

mod clip;
#[path = "../../src/tests/count.rs"]
mod count;
mod ffprobe;
mod inspect;
mod real_clips;
mod reference;
