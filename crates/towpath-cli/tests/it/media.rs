//! `towpath media info` through the binary: reports, damaged files, mistakes, interrupts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Two seconds of our own making: MPEG-2 video, 50 frames, in a transport stream.
fn clip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../towpath-media/data/mpeg2.ts")
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.args(["media", "info"]).args(args).current_dir(dir).stdin(Stdio::null());
    command
}

fn info(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn objects(out: &Output) -> Vec<Value> {
    text(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A directory with the clip in it as `clip.ts`.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(clip(), dir.path().join("clip.ts")).unwrap();
    dir
}

#[test]
fn a_report_tells_streams_frames_clocks_and_checks() {
    let dir = place();
    let out = info(dir.path(), &["clip.ts"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let report = text(&out.stdout);
    assert!(report.starts_with("clip.ts: MPEG transport stream, 126.1 kB, "), "{report}");
    for part in ["MPEG-2 video", "Frame sizes", "PCR of PID", "TS_sync_loss", "transport", "PMT"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert!(!report.contains("Faults"), "{report}");
    assert!(report.contains("44.1 kHz"), "{report}");
    assert!(report.contains("PAT, CAT and map of 1"), "{report}");
    let longest = report.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 100, "{longest} columns: {report}");
    assert_eq!(text(&out.stderr), "");
    let json = info(dir.path(), &["--json", "clip.ts"]);
    let report = &objects(&json)[0]["report"];
    assert_eq!(report["streams"][0]["frames"], 50);
    assert_eq!(report["streams"][0]["info"]["codec"], "mpeg2_video");
    let sound = &report["streams"][1]["info"]["audio"];
    assert_eq!((&sound["layer"], &sound["sample_rate_hz"]), (&2.into(), &44_100.into()));
    assert_eq!((&sound["channels"], &sound["rate_bps"]), (&1.into(), &64_000.into()));
    assert_eq!(report["size_bytes"], std::fs::metadata(clip()).unwrap().len());
    let sizes = report["streams"][0]["sizes"].as_array().unwrap();
    let frames: u64 = sizes.iter().map(|kind| kind["count"].as_u64().unwrap()).sum();
    assert_eq!(frames, 50);
}

#[test]
fn standard_input_is_read_as_a_file_is() {
    let dir = place();
    let file = objects(&info(dir.path(), &["--json", "clip.ts"])).remove(0);
    let mut child = command(dir.path(), &["--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(clip()).unwrap()).unwrap();
    let piped = objects(&child.wait_with_output().unwrap()).remove(0);
    assert_eq!(piped["file"], "standard input");
    assert_eq!(piped["report"], file["report"]);
}

#[test]
fn pictures_and_a_page_are_written() {
    let dir = place();
    let out = info(dir.path(), &["--svg", "pictures", "--html", "page.html", "clip.ts"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for name in ["rate", "frame-sizes", "pcr-interval", "transport-buffers"] {
        let path = dir.path().join(format!("pictures/clip-{name}.svg"));
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg ") && !svg.contains("NaN"), "{name}");
    }
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("<h2>clip.ts</h2>") && page.matches("<svg").count() >= 4);
}

#[test]
fn a_damaged_file_gives_what_can_be_used_and_where_the_damage_is() {
    let dir = place();
    let mut bytes = std::fs::read(clip()).unwrap();
    bytes[188 * 200..188 * 203].fill(0xff);
    bytes.truncate(188 * 600 + 100);
    std::fs::write(dir.path().join("bad.ts"), &bytes).unwrap();
    let out = info(dir.path(), &["--json", "bad.ts"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let report = &objects(&out)[0]["report"];
    assert!(report["streams"][0]["frames"].as_u64().unwrap() > 20, "{report}");
    let faults = report["faults"]["kinds"].as_array().unwrap();
    let sync = faults.iter().find(|fault| fault["kind"] == "sync_loss").unwrap();
    assert_eq!(sync["first_offsets"][0], 188 * 200);
    assert!(faults.iter().any(|fault| fault["kind"] == "truncated"), "{faults:?}");
    let said = text(&info(dir.path(), &["bad.ts"]).stdout);
    assert!(said.contains("Faults") && said.contains("37600"), "{said}");
}

#[test]
fn strict_counts_broken_rules_too() {
    let dir = place();
    let json = objects(&info(dir.path(), &["--json", "clip.ts"])).remove(0);
    let checks = json["report"]["checks"].as_array().unwrap();
    let broken = checks.iter().any(|check| check["count"] != 0);
    let strict = info(dir.path(), &["--strict", "clip.ts"]).status.code();
    if broken {
        assert_eq!(strict, Some(1));
    }
    let plain = info(dir.path(), &["clip.ts"]).status.code();
    assert_eq!(plain, Some(0));
    // Without its second half second of tables it breaks one for sure.
    let bytes = std::fs::read(clip()).unwrap();
    let pid = |packet: &[u8]| u16::from_be_bytes([packet[1], packet[2]]) & 0x1fff;
    let first: Vec<&[u8]> = bytes.chunks(188).collect();
    let kept = |(k, packet): &(usize, &&[u8])| *k < 20 || pid(packet) != 0;
    let few: Vec<u8> =
        first.iter().enumerate().filter(kept).flat_map(|(_, packet)| packet.to_vec()).collect();
    std::fs::write(dir.path().join("few.ts"), few).unwrap();
    assert_eq!(info(dir.path(), &["--strict", "few.ts"]).status.code(), Some(1));
    assert_eq!(info(dir.path(), &["few.ts"]).status.code(), Some(0), "a rule, not damage");
}

#[test]
fn one_bad_file_does_not_stop_the_others_and_order_is_kept() {
    let dir = place();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    std::fs::write(dir.path().join("words"), "hello world\n").unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let names = ["empty", "clip.ts", "words", "dir", "none", "clip.ts"];
    let out = info(dir.path(), &[&["--json"], &names[..]].concat());
    assert_eq!(out.status.code(), Some(255));
    let told = objects(&out);
    let files: Vec<&str> = told.iter().map(|o| o["file"].as_str().unwrap()).collect();
    assert_eq!(files, names);
    let good: Vec<bool> = told.iter().map(|o| o["report"].is_object()).collect();
    assert_eq!(good, [false, true, false, false, false, true]);
    for (k, part) in [(0, "empty"), (2, "no known format"), (3, "directory"), (4, "cannot open")] {
        assert!(told[k]["error"].as_str().unwrap().contains(part), "{}", told[k]);
    }
    assert!(told[2]["error"].as_str().unwrap().contains("hint: it is text: frame traces are for"));
    assert!(!text(&out.stderr).contains("panicked"));
}

#[test]
fn a_limit_ends_the_reading() {
    let dir = place();
    let out = info(dir.path(), &["--json", "--limit", "37600", "clip.ts"]);
    assert_eq!(objects(&out)[0]["report"]["size_bytes"], 37_600);
    let zero = info(dir.path(), &["--limit", "0", "clip.ts"]);
    assert_eq!(zero.status.code(), Some(255));
    assert!(text(&zero.stderr).contains("--limit 0"), "{}", text(&zero.stderr));
}

/// Whoever ends the reading inside of a packet is told of no fault; where the file ends there, he
/// is.
#[test]
fn a_limit_inside_a_packet_is_no_fault() {
    let dir = place();
    let cut = info(dir.path(), &["--json", "--limit", "37650", "clip.ts"]);
    assert_eq!(cut.status.code(), Some(0), "{}", text(&cut.stdout));
    let bytes = std::fs::read(clip()).unwrap();
    std::fs::write(dir.path().join("cut.ts"), &bytes[..37_650]).unwrap();
    for limit in ["37650", "1MB"] {
        let out = info(dir.path(), &["--json", "--limit", limit, "cut.ts"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
        assert!(text(&out.stdout).contains("truncated"), "{}", text(&out.stdout));
    }
}

#[test]
fn an_endless_input_is_reported_on_when_interrupted() {
    let dir = place();
    let mut child = command(dir.path(), &["--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = std::fs::read(clip()).unwrap();
    let pid = child.id().to_string();
    let writer = std::thread::spawn(move || {
        for round in 0.. {
            // It ends when the reader does.
            if stdin.write_all(&bytes).is_err() {
                break;
            }
            if round == 50 {
                Command::new("kill").args(["-INT", &pid]).status().unwrap();
            }
        }
    });
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(out.status.code(), Some(130));
    let report = &objects(&out)[0]["report"];
    assert!(report["size_bytes"].as_u64().unwrap() >= 50 * 126_148, "{}", report["size_bytes"]);
}

/// The input stalls: one interrupt, and what has come is reported.
#[test]
fn a_stalled_input_is_reported_on_when_interrupted() {
    let dir = place();
    let mut child = command(dir.path(), &["--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: once it is written the command reads.
    stdin.write_all(&std::fs::read(clip()).unwrap()).unwrap();
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let out = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(out.status.code(), Some(130));
    let read = objects(&out)[0]["report"]["size_bytes"].as_u64().unwrap();
    assert!(read >= 126_148 - 65_536, "{read}");
}

#[test]
fn a_closed_output_is_no_crash() {
    let dir = place();
    let script =
        format!("{} media info clip.ts clip.ts | head -n 1", env!("CARGO_BIN_EXE_towpath"));
    let out = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    assert!(!text(&out.stderr).contains("panicked"), "{}", text(&out.stderr));
}
