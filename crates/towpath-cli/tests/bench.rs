//! `towpath bench`: what it measures is on whatever machine runs the tests, so that only the
//! shape of its answers is asked for here, and that every byte arrives.

use std::process::{Command, Output};

fn towpath(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_towpath")).args(args).output();
    output.expect("the binary was built")
}

/// True where this user may make network namespaces.
fn namespaces() -> bool {
    let made = Command::new("unshare").args(["-r", "-n", "ip", "link", "show"]).output();
    let can = made.is_ok_and(|out| out.status.success());
    if !can {
        eprintln!("SKIPPED: no network namespaces here (unshare, ip)");
    }
    can
}

fn link(args: &[&str], row: &str) -> serde_json::Value {
    let all = ["bench", "link", "--json", "--seconds", "0.05", "--runs", "1", "--only", row];
    let out = towpath(&[&all[..], args].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    let rows = said["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{said}");
    assert_eq!(rows[0]["name"].as_str(), Some(row), "{said}");
    rows[0]["median"].clone()
}

#[test]
fn loopback_carries_longer_datagrams_than_ethernet() {
    let median = link(&["--pin", "none"], "encrypted, messages of 1 MiB");
    assert!(median["bytes_per_s"].as_f64() > Some(0.0), "{median}");
    assert!(median["datagram_bytes"].as_u64() > Some(1472), "{median}");
}

#[test]
fn a_round_trip_has_its_time_and_its_processor_time() {
    let median = link(&["--pin", "none"], "trusted, 16 B and back, blocking");
    for figure in ["rtt_us_p50", "rtt_us_p99", "trip_cpu_us"] {
        assert!(median[figure].as_f64() > Some(0.0), "{figure}: {median}");
    }
}

#[test]
fn between_namespaces_datagrams_are_those_of_ethernet() {
    if !namespaces() {
        return;
    }
    let median = link(&["--pin", "none", "--netns"], "trusted, messages of 1 MiB");
    assert_eq!(median["datagram_bytes"].as_u64(), Some(1472), "{median}");
}

#[test]
fn a_row_that_is_not_there_is_an_error_that_names_it() {
    let out = towpath(&["bench", "link", "--only", "pigeons"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&out.stderr).contains("pigeons"));
}

#[test]
fn everything_arrives_through_a_relay_that_loses_and_reorders() {
    if !namespaces() {
        return;
    }
    let out = towpath(&["bench", "relay", "--bytes", "3000000"]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("3000000 bytes in") && said.contains("byte-identical"), "{said}");
    assert!(said.contains("the relay's own ceiling"), "{said}");
}

/// A gigabyte through 300 Mbit/s with 5 % loss each way takes half a minute at best.
#[test]
#[ignore = "half a minute and more"]
fn a_gigabyte_arrives_through_a_relay_that_loses_and_reorders() {
    if !namespaces() {
        return;
    }
    let out = towpath(&["bench", "relay"]);
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{said}");
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("1000000000 bytes in") && said.contains("byte-identical"), "{said}");
}
