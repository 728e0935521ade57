//! The processes that tests start. No example of anything: an example because cargo builds those
//! with the tests.

mod last_words;
#[path = "../src/tests/neighbours.rs"]
mod neighbours;
mod shared;
#[path = "../src/tests/direct/side.rs"]
#[allow(dead_code, reason = "the tests' own part")]
mod side;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sender"] => shared::sender(),
        ["receiver"] => shared::receiver(),
        ["last-words", port] => last_words::send_and_exit(port),
        _ => panic!("no role of ours: {args:?}"),
    }
}
