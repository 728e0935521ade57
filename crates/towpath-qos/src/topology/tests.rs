//! Faults with their lines, and routes.
#![allow(clippy::format_push_string, reason = "a test's topology, written once")]

use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::spec::limits::RATE_BPS_MAX;

const STAR: &str = r#"
[[host]]
name = "h1"
cpu = { packet_ns = 2000, byte_ps = 500 }
[[host]]
name = "h2"
interface = [{ name = "eth0", rate_bps = 10_000_000 }]
[[switch]]
name = "s1"
latency_ns = 1000
[[link]]
ends = ["h1", "s1:to1"]
rate_bps = 100_000_000
[[link]]
ends = ["h2:eth0", "s1"]
rate_bps = 100_000_000
delay_ns = 50
"#;

fn fault(text: &str) -> String {
    Topology::parse(text).expect_err("faulty").to_string()
}

#[test]
fn a_star_by_hand() {
    let star = Topology::parse(STAR).expect("valid");
    let (h1, h2) = (star.host_named("h1").expect("host"), star.host_named("h2").expect("host"));
    let names: Vec<String> = star.route(h1, h2).map(|p| star.port_name(p).to_string()).collect();
    assert_eq!(names, ["h1:0", "s1:1"]);
    assert_eq!(star.route(h1, h1).count(), 0);
    // The slow interface limits both directions of its link.
    let rates: Vec<u64> = star
        .route(h1, h2)
        .chain(star.route(h2, h1))
        .map(|p| star.ports()[p.0 as usize].rate_bps)
        .collect();
    assert_eq!(rates, [100_000_000, 10_000_000, 10_000_000, 100_000_000]);
    assert!(star.to_string().contains("1 -> h2  10.0 Mbit/s, 50 ns, edf, queue 1024.0 KiB"));
    assert_eq!(star.host_named("s1"), None, "a switch is no host");
}

#[test]
fn each_fault_names_its_line() {
    assert_eq!(fault(&STAR.replace("\"h2\"", "\"h1\"")), "line 6: duplicate name \"h1\"");
    assert_eq!(fault(&STAR.replace("\"s1\"]", "\"s9\"]")), "line 15: unknown node \"s9\"");
    assert_eq!(
        fault(&STAR.replace("\"h2:eth0\", \"s1\"", "\"s1\", \"s1:x\"")),
        "line 15: link from \"s1\" to itself"
    );
    assert_eq!(fault(&STAR.replace("h2:eth0", "h2")), "line 15: unknown interface \"h2\"");
    assert_eq!(
        fault(&STAR.replace("rate_bps = 100_000_000\ndelay_ns", "rate_bps = 0\ndelay_ns")),
        "line 15: rate_bps is 0, must be 1 to 1125899906842624"
    );
    assert_eq!(
        fault(&STAR.replace("latency_ns = 1000", "latency = 1000")),
        "line 10: unknown field `latency`, expected one of `name`, `latency_ns`, `fabric_bps`, \
         `memory_bytes`, `port`, `scheduler`, `budgets_ns`"
    );
    assert_eq!(
        fault(&STAR.replace("latency_ns = 1000", "scheduler = \"magic\"")).split(',').next(),
        Some("line 10: unknown variant `magic`")
    );
    assert_eq!(
        fault("[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n"),
        "line 4: no route of at most 32 hops from \"b\" to \"a\""
    );
    assert_eq!(
        fault(&STAR.replace("s1:to1", "s1:1").replace("\"s1\"]", "\"s1:1\"]")),
        "line 15: interface \"s1:1\" is in 2 links, must be in one"
    );
    assert_eq!(
        fault(&STAR.replace("rate_bps = 10_000_000", "packet_bytes = 0")),
        "line 7: packet_bytes is 0, must be 1 to 140737488355328"
    );
    assert_eq!(
        fault(&STAR.replace("rate_bps = 10_000_000", "scheduler = \"rcsp\", budgets_ns = [5, 5]")),
        "line 7: budgets_ns: must rise from level to level"
    );
    assert_eq!(
        fault(&STAR.replace("\"s1\"]", "\"s1\", \"h1\"]")),
        "line 15: a link has 3 ends, must have 2"
    );
    assert_eq!(fault(&STAR.replace(", \"s1\"]", "]")), "line 15: a link has 1 ends, must have 2");
    assert!(fault("x = ").starts_with("line 1: "));
}

/// A ring of switches is a cycle and is allowed; both ways round are as short, and the port that
/// stands first in the file wins.
#[test]
fn a_ring_has_one_route_each_way() {
    let mut text = String::new();
    for i in 0..4 {
        text += &std::format!("[[host]]\nname = \"h{i}\"\n[[switch]]\nname = \"s{i}\"\n");
    }
    for i in 0..4 {
        text += &std::format!("[[link]]\nends = [\"h{i}\", \"s{i}\"]\nrate_bps = 1000\n");
    }
    for i in 0..4 {
        let next = (i + 1) % 4;
        text += &std::format!("[[link]]\nends = [\"s{i}\", \"s{next}\"]\nrate_bps = 1000\n");
    }
    let ring = Topology::parse(&text).expect("valid");
    let host = |name| ring.host_named(name).expect("host");
    let names: Vec<String> =
        ring.route(host("h0"), host("h2")).map(|p| ring.port_name(p).to_string()).collect();
    assert_eq!(names, ["h0:0", "s0:1", "s1:2", "s2:0"]);
}

#[test]
fn hosts_do_not_forward() {
    let text = r#"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"
[[link]]
ends = ["a", "b"]
rate_bps = 1
[[link]]
ends = ["b", "c"]
rate_bps = 1
"#;
    assert!(fault(text).contains("no route"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        let _ = Topology::parse(&text);
        let mixed = STAR.replace("1000", &text);
        let _ = Topology::parse(&mixed);
    }

    #[test]
    fn absurd_numbers_give_an_error_or_a_topology(a: u64, b: u64, c: u64) {
        let text = STAR
            .replace("2000", &a.to_string())
            .replace("10_000_000 ", &b.to_string())
            .replace("latency_ns = 1000", &std::format!("latency_ns = {c}"));
        match Topology::parse(&text) {
            Ok(topology) => {
                let cpu = topology.nodes().iter().any(|n| {
                    let (fabric_bps, memory_bits) = (None, None);
                    n.kind == NodeKind::Switch { latency_ns: c, fabric_bps, memory_bits }
                });
                prop_assert!(cpu, "{c} ns of latency are kept");
                prop_assert!((1..=RATE_BPS_MAX).contains(&b));
                let link = topology.ports().iter().any(|port| port.rate_bps == b);
                prop_assert!(link, "{b} bit/s are kept");
            }
            // h1 and its processor, h2 and its port, s1 and its latency.
            Err(e) => prop_assert!([3, 4, 6, 7, 9, 10].contains(&e.line), "{e}"),
        }
    }
}

#[test]
fn a_switch_s_budgets_are_those_of_its_ports_that_have_none_of_their_own() {
    let text = "\
[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n
[[switch]]\nname = \"s\"\nscheduler = \"priority\"\nbudgets_ns = [5, 9]
port = [{ name = \"x\", budgets_ns = [7] }, { name = \"y\", scheduler = \"fcfs\" }]
[[link]]\nends = [\"a\", \"s\"]\nrate_bps = 1000\n
[[link]]\nends = [\"b\", \"s:x\"]\nrate_bps = 1000\n
[[link]]\nends = [\"c\", \"s:y\"]\nrate_bps = 1000\n";
    let topology = Topology::parse(text).expect("valid");
    let of = |name: &str| {
        let is = |port: &&Port| topology.port_name(port_id(&topology, port)).to_string() == name;
        topology.ports().iter().find(is).expect("a port").discipline.clone()
    };
    assert_eq!(of("s:0"), Discipline::StaticPriority([5, 9].into()));
    assert_eq!(of("s:x"), Discipline::StaticPriority([7].into()));
    assert!(matches!(of("s:y"), Discipline::Fcfs(drain) if drain > 9), "what its queue takes");
    let faulty = text.replace("[5, 9]", "[9, 5]");
    assert!(Topology::parse(&faulty).is_err(), "they do not rise");
}

fn port_id(topology: &Topology, port: &Port) -> PortId {
    let at = topology.ports().iter().position(|p| core::ptr::eq(p, port)).expect("one of them");
    PortId(at as u32)
}
