//! `towpath tap` between network namespaces.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use towpath_skip::skip;

use crate::support::text;

/// Namespaces of a test, gone when dropped.
struct Spaces(Vec<String>);

impl Spaces {
    fn new(test: &str, names: &[&str]) -> Option<Self> {
        let mut made = Self(Vec::new());
        for name in names {
            let name = format!("tp{}-{test}-{name}", std::process::id());
            let ok = sh(&format!("ip netns add {name} && ip -n {name} link set lo up")).is_ok();
            if !ok || !std::path::Path::new("/dev/net/tun").exists() {
                skip("no network namespaces or TUN devices here (root, ip, /dev/net/tun)");
                return None;
            }
            made.0.push(name);
        }
        Some(made)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = sh(&format!("ip netns del {name}"));
        }
    }
}

fn sh(line: &str) -> Result<String, String> {
    let out = Command::new("sh").args(["-c", line]).output().map_err(|e| e.to_string())?;
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

fn tap(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.arg("tap").args(["--ceiling", "0"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a tap; it runs when this comes back.
fn running(args: &[&str]) -> Child {
    use std::io::{BufRead, BufReader};
    let mut child = tap(args).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if line != "tap: runs\n" {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
        panic!("{line}{rest}");
    }
    child
}

/// Interrupts it; what it printed.
fn ended(child: Child) -> serde_json::Value {
    crate::support::Vm::signal(child.id(), "-INT");
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A socket at an address of a namespace, made by a process in it and used from here.
fn socket(space: &str, address: &str) -> UdpSocket {
    let namespace = towpath_bench::tap::Namespace::Named(space.to_owned());
    let address: SocketAddr = address.parse().unwrap();
    let socket = namespace.run(|| Ok(UdpSocket::bind(address)?)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Sends datagrams of one byte; those that come.
fn send(from: &UdpSocket, to: &UdpSocket, count: u8) -> Vec<u8> {
    for n in 0..count {
        from.send_to(&[n], to.local_addr().unwrap()).unwrap();
    }
    to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut byte = [0];
    std::iter::from_fn(|| to.recv(&mut byte).ok().map(|_| byte[0])).collect()
}

#[test]
fn a_tap_tells_what_became_of_each_frame_and_captures_them() {
    let Some(spaces) = Spaces::new("seen", &["a", "b"]) else { return };
    let [a, b] = [&spaces.0[0], &spaces.0[1]];
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("frames.pcapng");
    let (first, second) = (format!("{a}:t0=10.99.0.1/24"), format!("{b}:t0=10.99.0.2/24"));
    let file = capture.to_str().unwrap();
    let more = ["--loss", "30%", "--seed", "3", "--json", "--capture", file];
    let child = running(&[&[first.as_str(), &second][..], &more].concat());
    let (near, far) = (socket(a, "10.99.0.1:7077"), socket(b, "10.99.0.2:7078"));
    let came = send(&near, &far, 50);
    let said = ended(child);
    let frames = &said["there"]["frames"];
    assert_eq!(frames["lost"].as_u64(), Some(50 - came.len() as u64), "{said}");
    assert!((20..50).contains(&came.len()), "{came:?}");
    assert_eq!((said["failed"].as_u64(), said["not_captured"].as_u64()), (Some(0), Some(0)));
    assert!(said["lateness"]["samples"].as_u64() >= Some(came.len() as u64), "{said}");
    // All of them are in the file, those that were lost, too.
    let out = Command::new(env!("CARGO_BIN_EXE_towpath")).args(["dump", file]).output().unwrap();
    assert!(text(&out.stderr).contains("50 UDP datagrams"), "{}", text(&out.stderr));
    let bytes = std::fs::read(&capture).unwrap();
    let lost = bytes.windows(14).filter(|window| *window == b"lost by chance").count();
    assert_eq!(lost, 50 - came.len());
}

#[test]
fn frames_of_devices_that_are_there_pass_with_whole_checksums() {
    let Some(spaces) = Spaces::new("veth", &["a", "b", "m"]) else { return };
    let [a, b, m] = [&spaces.0[0], &spaces.0[1], &spaces.0[2]];
    for (host, number) in [(a, 1), (b, 2)] {
        sh(&format!(
            "ip -n {host} link add t0 type veth peer name m{number} netns {m} && \
             ip -n {host} addr add 10.99.1.{number}/24 dev t0 && \
             ip -n {host} link set t0 gso_max_segs 1 up"
        ))
        .unwrap();
    }
    let ends = [format!("{m}:m1"), format!("{m}:m2")];
    let child = running(&["--packet", &ends[0], &ends[1], "--delay", "5ms", "--json"]);
    let (near, far) = (socket(a, "10.99.1.1:7077"), socket(b, "10.99.1.2:7078"));
    // The kernel leaves checksums to the interface: one that is not put right is dropped.
    assert_eq!(send(&near, &far, 5), [0, 1, 2, 3, 4]);
    let said = ended(child);
    assert!(said["there"]["device"]["udp_frames"].as_u64() >= Some(5), "{said}");
    assert_eq!(said["there"]["device"]["trains"].as_u64(), Some(0), "{said}");
}

#[test]
fn a_tap_whose_device_goes_away_says_so() {
    let Some(spaces) = Spaces::new("gone", &["a", "b"]) else { return };
    let [a, b] = [&spaces.0[0], &spaces.0[1]];
    let child = running(&[&format!("{a}:t0"), &format!("{b}:t0"), "--ethernet"]);
    sh(&format!("ip -n {b} link del t0")).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(255), "{out:?}");
}

#[test]
fn what_cannot_be_is_told_with_what_to_do() {
    for (args, said) in [
        (&["nowhere:t0", "nowhere:t1"][..], "no network namespace /run/netns/nowhere"),
        (&["a:t0", "b:t0", "--script", "/nowhere.toml"], "cannot open /nowhere.toml"),
        (&["a:t0", "b:t0", "--set", "back.rate=3"], "unknown field `rate`"),
        (&["a:t0", "b:t0", "--delay", "2min"], "delay_us = 120000000, must be at most 60000000"),
    ] {
        let out = tap(args).output().unwrap();
        assert_eq!(out.status.code(), Some(255), "{args:?}");
        assert!(text(&out.stderr).contains(said), "{args:?}: {}", text(&out.stderr));
    }
}
