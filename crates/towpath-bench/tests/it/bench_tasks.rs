//! `towpath bench echo`, `barrier`, `multicast`, `exchange`, `spawn`: what they measure is of
//! whatever machine runs the tests, so that only the shape of their answers is asked for, and that
//! every row is held to its floor. That every byte arrives is checked by the benches themselves.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use towpath_skip::skip;

fn bench(args: &[&str]) -> Output {
    let mut c = Command::new(crate::command());
    c.arg("bench").args(args).output().expect("the binary was built")
}

/// All that a bench says.
fn said(args: &[&str]) -> Value {
    let out = bench(&[args, &["--cpus", "none", "--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("one JSON object")
}

/// The rows by name; each has a median, and one that is held to a floor its ratio.
fn rows(args: &[&str]) -> Vec<(String, Value)> {
    rows_of(&said(args))
}

fn rows_of(said: &Value) -> Vec<(String, Value)> {
    let rows = said["rows"].as_array().expect("rows");
    for row in rows {
        let p50 = row["median"]["us_p50"].as_f64();
        assert!(p50 > Some(0.0) && p50 <= row["median"]["us_p99"].as_f64(), "{row}");
        assert_eq!(row["samples"].as_array().map(Vec::len), Some(5), "{row}");
        assert_eq!(row["floor"].is_null(), row["of_floor"].is_null(), "{row}");
    }
    let named = |row: &Value| (row["name"].as_str().expect("a name").to_string(), row.clone());
    rows.iter().map(named).collect()
}

fn has(rows: &[(String, Value)], name: &str) -> Value {
    let row = rows.iter().find(|(n, _)| n == name);
    row.unwrap_or_else(|| panic!("no {name:?} in {rows:?}")).1.clone()
}

#[test]
fn echo_on_one_host_has_each_route_beside_its_floor() {
    let rows = rows(&["echo", "--sizes", "16,64KiB", "--seconds", "0.02"]);
    let direct = has(&rows, "tasks, direct, 16 B");
    assert_eq!(direct["floor"], "floor: shared memory, spinning, 16 B");
    assert!(direct["median"]["sleeps"].is_number());
    let daemon = has(&rows, "tasks, by the daemon, 64 KiB");
    assert_eq!((&daemon["processes"], &daemon["size_bytes"]), (&3.into(), &65_536.into()));
    assert_eq!(daemon["floor"], "floor: Unix streams by a process, 64 KiB");
    assert!(daemon["median"]["bytes_per_s"].as_f64() > Some(0.0));
}

#[test]
fn what_lengths_say_together_is_of_their_rows() {
    let sizes = "16,4KiB,64KiB";
    let said = said(&["echo", "--sizes", sizes, "--seconds", "0.02", "--only", "tasks, direct"]);
    let rows = rows_of(&said);
    let lengths = said["metrics"]["lengths"].as_array().expect("lengths");
    let direct = lengths.iter().find(|l| l["name"] == "tasks, direct").expect("a way of messages");
    assert_eq!(direct["t0_us"], has(&rows, "tasks, direct, 16 B")["median"]["us_p50"]);
    let rate = |size| {
        has(&rows, &format!("tasks, direct, {size}"))["median"]["bytes_per_s"].as_f64().unwrap()
    };
    let most = ["16 B", "4 KiB", "64 KiB"].map(rate).into_iter().fold(0.0, f64::max);
    assert_eq!(direct["r_max_bytes_per_s"].as_f64(), Some(most));
    assert!(direct["n_half_bytes"].as_f64() > Some(16.0), "{direct}");
}

#[test]
fn the_gain_of_a_multicast_is_of_its_rows() {
    let said = said(&["multicast", "--tasks", "2", "--sizes", "4KiB", "--casts", "5"]);
    let rows = rows_of(&said);
    let time = |name| has(&rows, name)["median"]["us_p50"].as_f64().unwrap();
    let gains = said["metrics"]["gains"].as_array().expect("gains");
    assert_eq!(gains.len(), 2, "{gains:?}");
    let gain = time("sends, direct, 4 KiB") / time("multicast, direct, 4 KiB");
    assert!((gains[0]["gain"].as_f64().unwrap() - gain).abs() < 1e-9, "{gains:?}");
}

#[test]
fn echo_between_hosts_passes_four_processes() {
    let rows = rows(&["echo", "--hosts", "2", "--sizes", "16", "--seconds", "0.02"]);
    let row = has(&rows, "tasks, by the daemons, 16 B");
    assert_eq!((&row["processes"], &row["route"]), (&4.into(), &"daemons, sealed".into()));
    assert_eq!(row["floor"], "floor: Unix, UDP, Unix by two processes, 16 B");
}

/// True where this user may make network namespaces.
fn namespaces() -> bool {
    let add = ["-r", "-n", "ip", "link", "add", "tp9", "type", "bridge"];
    let made = Command::new("unshare").args(add).output();
    let can = made.is_ok_and(|out| out.status.success());
    if !can {
        skip("no network namespaces here (unshare, ip)");
    }
    can
}

#[test]
fn between_namespaces_each_way_is_held_to_its_floor() {
    if !namespaces() {
        return;
    }
    let at = ["--hosts", "2", "--netns", "--seconds", "0.02"];
    let echoes = rows(&[&["echo", "--sizes", "16"], &at[..]].concat());
    assert_eq!(has(&echoes, "tasks, direct, 16 B")["floor"], "floor: TCP, blocking, 16 B");
    let stream = rows(&[&["echo", "--sizes", "64KiB", "--one-way"], &at[..]].concat());
    assert_eq!(has(&stream, "tasks, by the daemons, 64 KiB")["processes"], 4);
    let args = ["multicast", "--tasks", "2", "--casts", "5", "--sizes", "64KiB"];
    let cast = rows(&[&args[..], &["--hosts", "3", "--netns", "--rate", "100mbit"]].concat());
    let to_all = has(&cast, "multicast, by the daemons, 64 KiB");
    assert_eq!(to_all["floor"], "floor: to one task, by the daemons, 64 KiB");
    // 64 KiB at 100 Mbit/s are 5.2 ms, less what a link passes at once.
    assert!(to_all["median"]["us_p50"].as_f64() > Some(4000.0), "{to_all}");
    let out = bench(&["echo", "--rate", "100mbit"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("--netns"));
}

#[test]
fn barriers_of_teams_are_held_to_a_futex() {
    let rows = rows(&["barrier", "--tasks", "3", "--barriers", "20", "--only", "team"]);
    for name in ["team, direct", "team, by the daemons"] {
        assert_eq!(has(&rows, name)["floor"], "floor: shared memory, bare futex");
    }
}

#[test]
fn multicasts_arrive_whole() {
    let rows = rows(&["multicast", "--tasks", "3", "--casts", "5", "--sizes", "16,64KiB"]);
    has(&rows, "multicast, direct, 64 KiB");
    has(&rows, "sends, by the daemons, 16 B");
}

#[test]
fn what_kernels_exchange_arrives_whole() {
    // Contents are compared within.
    let args = ["exchange", "--tasks", "3", "--exchanges", "20", "--daemons"];
    let far = rows(&[&args[..], &["--hosts", "2"]].concat());
    for kernel in ["fft", "lu", "matmul", "nbody", "ep", "sort", "tsp", "hough"] {
        has(&far, &format!("{kernel}, direct"));
        has(&far, &format!("{kernel}, by the daemons"));
    }
    for kernel in ["hough", "lu"] {
        let near = rows(&[&args[..], &["--only", kernel]].concat());
        has(&near, &format!("{kernel}, direct"));
    }
}

#[test]
fn spawned_tasks_are_heard_and_reaped() {
    let rows = rows(&["spawn", "--counts", "3"]);
    let first = has(&rows, "tasks, 3, first message");
    let reaped = has(&rows, "tasks, 3, reaped");
    assert!(first["median"]["us_p50"].as_f64() < reaped["median"]["us_p50"].as_f64());
}

#[test]
fn what_is_not_there_is_named() {
    let out = bench(&["barrier", "--only", "pigeons", "--tasks", "2"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&out.stderr).contains("pigeons"));
}

/// The daemon's socket of the bench's virtual machine, once it is there.
fn socket_in(dir: &std::path::Path) -> Option<PathBuf> {
    let home = std::fs::read_dir(dir).ok()?.next()?.ok()?.path();
    Some(home.join("bench/hosts/1/sock")).filter(|socket| socket.exists())
}

/// A bench that is interrupted as soon as its daemon can be reached: its exit status.
fn interrupted(dir: &std::path::Path, meanwhile: impl Fn(&std::path::Path)) -> Option<i32> {
    let mut bench = Command::new(crate::command())
        .args(["bench", "echo", "--sizes", "16", "--seconds", "60", "--cpus", "none"])
        .env("TMPDIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = loop {
        assert_eq!(bench.try_wait().unwrap(), None, "it runs for minutes");
        match socket_in(dir) {
            Some(socket) => break socket,
            None => std::thread::yield_now(),
        }
    };
    let pid = rustix::process::Pid::from_child(&bench);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    meanwhile(&socket);
    let status = bench.wait().unwrap().code();
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_err(), "its daemon goes on");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "its files are left");
    status
}

#[test]
fn an_interrupted_bench_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(interrupted(dir.path(), |_| ()), Some(130));
}

#[test]
fn what_fails_because_of_an_interrupt_is_no_result() {
    let dir = tempfile::tempdir().unwrap();
    // The bench finds its daemon gone before it could end it itself.
    let kill = |socket: &std::path::Path| {
        let Ok(info) = towpath::Client::connect(socket).and_then(|mut client| client.info()) else {
            return;
        };
        let pid = rustix::process::Pid::from_raw(info.pid.cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    };
    assert_eq!(interrupted(dir.path(), kill), Some(130));
}
