//! What a virtual machine is told of its network, and what it says of promises there.
#![allow(clippy::format_push_string, reason = "a test's topology, written once")]

use serde_json::Value;

use crate::support::{Vm, text};

fn star(hosts: &[&str]) -> String {
    let mut topology = String::from(
        "[[switch]]\nname = \"s\"\nscheduler = \"priority\"\nbudgets_ns = [3_000_000]\n",
    );
    for host in hosts {
        topology += &format!("[[host]]\nname = \"{host}\"\n");
        topology += &format!("[[link]]\nends = [\"{host}\", \"s\"]\nrate_bps = 100_000_000\n");
    }
    topology
}

fn json(vm: &Vm, args: &[&str]) -> Value {
    let out = vm.towpath(args);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
}

/// What is said, with the exit status.
fn said(vm: &Vm, args: &[&str]) -> (Option<i32>, String) {
    let out = vm.towpath(args);
    (out.status.code(), text(&out.stdout) + &text(&out.stderr))
}

#[test]
fn a_network_is_set_shown_and_forgotten_and_outlives_all_daemons() {
    let vm = Vm::new();
    std::fs::write(vm.file("net.toml"), star(&["h1", "h2", "printer"])).unwrap();
    let up = ["up", "--hosts", "2", "--link-rate", "100Mbit/s", "--topology", "net.toml"];
    let (code, told) = said(&vm, &up);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("network of 3 hosts and 1 switch: promises count on it"), "{told}");
    assert!(told.contains("in it, and no hosts that are up: printer"), "{told}");
    let shown = text(&vm.towpath(&["network", "show"]).stdout);
    assert_eq!(shown.trim_end(), star(&["h1", "h2", "printer"]).trim_end());
    let listed = json(&vm, &["channels", "--json"]);
    assert_eq!(
        (&listed["network"], &listed["channels"]),
        (&true.into(), &Vec::<Value>::new().into())
    );
    let (code, told) = said(&vm, &["channels"]);
    assert!(code == Some(0) && told.starts_with("FROM "), "{told}");
    // Killed and started again, it knows what it knew.
    for pid in [vm.pid(1), vm.pid(2)] {
        Vm::signal(pid, "-KILL");
    }
    let (code, told) = said(&vm, &["up"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(!json(&vm, &["network", "show", "--json"])["topology"].is_null());
    let (code, told) = said(&vm, &["network", "clear"]);
    assert!(code == Some(0) && told.contains("nothing is known"), "{told}");
    let (code, told) = said(&vm, &["network", "show"]);
    assert!(code == Some(0) && told.contains("hint: `towpath network set FILE`"), "{told}");
}

#[test]
fn a_network_that_nothing_can_be_promised_in_is_refused_before_anything_is_started() {
    let vm = Vm::new();
    let good = star(&["h1", "h2"]);
    for (name, topology, why) in [
        ("edf.toml", good.replace("\"priority\"", "\"edf\"").replace("budgets_ns", "#"), "edf"),
        ("line.toml", good.replace("rate_bps", "rate"), "line"),
        ("none.toml", " \n".into(), "is empty"),
        ("long.toml", "#".repeat(60_001), "60000 at most"),
    ] {
        std::fs::write(vm.file(name), topology).unwrap();
        for args in [&["network", "set", name][..], &["up", "--topology", name]] {
            let (code, told) = said(&vm, args);
            assert_eq!(code, Some(255), "{told}");
            assert!(told.contains(name) && told.contains(why), "{told}");
        }
    }
    let (code, told) = said(&vm, &["network", "set", "nowhere.toml"]);
    assert!(code == Some(255) && told.contains("cannot read nowhere.toml"), "{told}");
    let (code, told) = said(&vm, &["hosts"]);
    assert!(code == Some(255) && told.contains("hint"), "nothing was started: {told}");
}
