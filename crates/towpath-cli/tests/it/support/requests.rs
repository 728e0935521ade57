//! A network and requests to it.

use std::process::Output;

use serde_json::Value;

use super::{Vm, text};

/// Three hosts at a switch.
pub const NET: &str = r#"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[host]]
name = "h3"

[[switch]]
name = "s1"
latency_ns = 1000

[[link]]
ends = ["h1", "s1"]
rate_bps = 100_000_000
delay_ns = 500
[[link]]
ends = ["h2", "s1"]
rate_bps = 100_000_000
delay_ns = 500
[[link]]
ends = ["h3", "s1"]
rate_bps = 100_000_000
delay_ns = 500
"#;

/// A channel in wire bytes from `from` to `to` with lines of its own.
pub fn request(name: &str, from: &str, to: &str, lines: &str) -> String {
    format!("[[request]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{lines}\n")
}

/// Sizes count wire bytes.
pub const WIRE: &str = "[framing]\ncounts = \"wire\"\n";

/// Puts requests to a network.
pub fn reserve(net: &str, requests: &str, more: &[&str]) -> Output {
    let vm = Vm::new();
    std::fs::write(vm.file("net.toml"), net).unwrap();
    std::fs::write(vm.file("requests.toml"), requests).unwrap();
    let args = ["reserve", "--topology", "net.toml", "--what-if", "requests.toml"];
    vm.towpath(&[&args[..], more].concat())
}

/// What was printed as JSON.
pub fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)))
}
