//! The tasks that tests start as processes of their own. No example of anything: an example because
//! cargo builds those with the tests.

mod ends;
#[allow(dead_code, reason = "the driver's own part")]
mod kills;
mod spawn;
#[path = "../tests/it/support/mod.rs"]
mod support;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work"] => kills::work(),
        ["end", role] => ends::end(role),
        ["child", role] => spawn::child(role),
        _ => panic!("no role of ours: {args:?}"),
    }
}
