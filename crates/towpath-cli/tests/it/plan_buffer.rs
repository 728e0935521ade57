//! `towpath plan --buffer`: what is held, beside what may be.

use std::path::Path;
use std::process::{Command, Output};

/// 100 frames at 25 per second: 1000 bytes each, but 9000 in frame 51.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sizes = (1..=100).map(|n| if n == 51 { "9000\n" } else { "1000\n" });
    std::fs::write(dir.path().join("t.csv"), sizes.collect::<String>()).unwrap();
    dir
}

fn plan(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.args(["plan", "t.csv", "--fps", "25"]).args(args).current_dir(dir);
    command.output().unwrap()
}

/// A large buffer is not filled: what is told is what is held, in JSON, table and schedule file.
#[test]
fn a_buffer_that_is_not_filled_is_not_told_as_needed() {
    let dir = place();
    for given in [["--startup", "200ms"], ["--rate", "222kbit/s"]] {
        let given = [&given[..], &["--buffer", "1MB"]].concat();
        let out = plan(dir.path(), &[&given[..], &["--json"]].concat());
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let rows = told["schemes"].as_array().unwrap();
        let held = |name| {
            let row = rows.iter().find(|row| row["scheme"] == name).unwrap();
            row["buffer_bytes"].as_u64().unwrap()
        };
        assert!(held("cbr") < 50_000, "{told}");
        for name in ["window-pcbr", "smooth", "cba", "mcba"] {
            // One rate from beginning to end at the most, as cbr's.
            assert!(held(name) <= held("cbr"), "{name}: {told}");
            let args = [&given[..], &["--scheme", name, "--schedule", "s"]].concat();
            let table = String::from_utf8(plan(dir.path(), &args).stdout).unwrap();
            let row = table.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(!row.contains("MB"), "{table}");
            let file = std::fs::read_to_string(dir.path().join("s")).unwrap();
            assert!(file.contains(&format!("buffer_bytes,{}\n", held(name))), "{name}: {file}");
        }
    }
}

/// Without the largest frame's bytes no scheme does it; with them some still do not.
#[test]
fn the_buffer_that_every_scheme_needs_is_told_as_a_floor() {
    let dir = place();
    let out = plan(dir.path(), &["--buffer", "0", "--scheme", "pcrtt"]);
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(table.contains("needs a buffer of at least 9 kB"), "{table}");
}
