//! `towpath bench`: what it measures is on whatever machine runs the tests, so that only the
//! shape of its answers is asked for here, and that every byte arrives.

use std::process::{Command, Output};
use towpath_skip::skip;

fn towpath(args: &[&str]) -> Output {
    let output = Command::new(crate::command()).args(args).output();
    output.expect("the binary was built")
}

/// True where this user may make network namespaces.
fn namespaces() -> bool {
    let made = Command::new("unshare").args(["-r", "-n", "ip", "link", "show"]).output();
    let can = made.is_ok_and(|out| out.status.success());
    if !can {
        skip("no network namespaces here (unshare, ip)");
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

/// True where this user may make network namespaces and TUN devices.
fn tunnels() -> bool {
    let add = ["-r", "-n", "ip", "tuntap", "add", "tp9", "mode", "tun"];
    let made = Command::new("unshare").args(add).output();
    let can = made.is_ok_and(|out| out.status.success());
    if !can {
        skip("no network namespaces or TUN devices here (unshare, ip, /dev/net/tun)");
    }
    can
}

#[test]
fn everything_arrives_through_a_relay_that_loses_and_reorders() {
    if !tunnels() {
        return;
    }
    let path = ["--loss", "5%", "--reorder", "2%", "--delay", "1ms"];
    let what = ["bench", "relay", "--json", "--bytes", "3MB", "--only-bytes"];
    let out = towpath(&[&what[..], &path].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    assert_eq!(said["transfer"]["bytes"].as_u64(), Some(3_000_000), "{said}");
    assert!(said["transfer"]["repaired"].as_u64() > Some(0), "{said}");
    assert!(said["ceiling_bps"].as_f64() > Some(0.0), "{said}");
}

#[test]
fn a_path_is_shared_with_tcp() {
    if !tunnels() {
        return;
    }
    let what = ["bench", "relay", "--json", "--settle", "2.5", "--seconds", "0.5"];
    let out = towpath(&[&what[..], &["--rate", "20Mbps", "--tcp", "reno"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    let cases = said["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 4, "{said}");
    for case in cases {
        let through = ["ours_bps", "tcp_bps"].map(|who| case["share"][who].as_f64());
        // Neither is shut out, and no more than the path's rate comes through for both.
        assert!(through.iter().flatten().all(|bps| *bps > 0.0), "{case}");
        let sum: f64 = through.iter().flatten().sum();
        assert!(sum > 0.0 && sum < 1.15 * 20e6, "{case}");
    }
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_an_error_that_names_it() {
    if !tunnels() {
        return;
    }
    let what = ["bench", "relay", "--settle", "0.1", "--seconds", "0.1", "--tcp", "pigeon"];
    let out = towpath(&what);
    assert_eq!(out.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&out.stderr).contains("pigeon"));
}
