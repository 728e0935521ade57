//! The tasks that tests run. No example of anything: an example because cargo builds those with the
//! tests.

mod jobs;
mod memory;
mod rounds;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("leaves-two-behind") => jobs::leaves_two_behind(),
        Some("one-that-waits") => jobs::one_that_waits(),
        Some("one-that-outlives-it") => jobs::one_that_outlives_it(),
        Some("exchange") => memory::exchange(),
        Some("eat") => memory::eat(),
        Some("rounds") => rounds::rounds(),
        role => panic!("no role of ours: {role:?}"),
    }
}
