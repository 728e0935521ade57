//! A topology file of any bytes: an error with its line, or a sub-network whose routes all end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_qos::topology::{HOPS_MAX, Topology};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    match Topology::parse(text) {
        Err(error) => assert!((1..=lines).contains(&error.line), "{error}"),
        Ok(topology) => {
            for from in topology.hosts() {
                for to in topology.hosts() {
                    let hops = topology.route(from, to).count();
                    assert!(hops <= HOPS_MAX && (hops == 0) == (from == to));
                }
            }
            assert!(!topology.to_string().is_empty() || topology.nodes().is_empty());
        }
    }
});
