//! `towpath plan` as a process: its help, files as editors leave them, and interrupts while it
//! waits.

use std::process::{Command, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_virtual_machine_is_in_the_help_of_commands_that_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let towpath = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_towpath")).args(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    for command in [&["plan"][..], &["media", "info"], &["sim", "run"], &["reserve"], &["tspec"]] {
        let help = towpath(&[command, &["--help"]].concat());
        assert!(!help.contains("--vm"), "{help}");
    }
    for command in ["hosts", "run", "up", "farm"] {
        assert!(towpath(&[command, "--help"]).contains("--vm"), "{command}");
    }
    let path = dir.path().join("t.csv");
    std::fs::write(&path, "1000\n9000\n1000\n").unwrap();
    towpath(&["--vm", "x", "plan", path.to_str().unwrap()]);
}

/// Spreadsheets put a byte order mark before the first byte.
#[test]
fn a_trace_with_a_byte_order_mark_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let schemes = |mark: &str| {
        std::fs::write(dir.path().join("t.csv"), format!("{mark}bytes\n700\n500\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(["plan", "t.csv", "--fps", "25", "--json"]).current_dir(dir.path());
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    assert_eq!(schemes("\u{feff}"), schemes(""));
}

/// One interrupt ends a command that waits for input, with nothing said about what was not read.
#[test]
fn an_interrupt_ends_a_read_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let start = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("plan").args(args).current_dir(dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let interrupted = |child: std::process::Child| {
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
        assert_eq!((text(&out.stdout), text(&out.stderr)), (String::new(), String::new()));
    };
    // More than a pipe holds: once it is written the command reads.
    let mut child = start(&["-", "--html", "p.html"]);
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, "1000\n".repeat(50_000).as_bytes()).unwrap();
    interrupted(child);
    drop(stdin);
    assert!(!dir.path().join("p.html").exists());
    // A pipe that nobody ever writes to.
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = start(&["pipe", "pipe"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    let opened = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        open.filter_map(|fd| fd.path().read_link().ok()).any(|target| target == pipe)
    };
    while !opened() {
        assert!(std::time::Instant::now() < deadline, "the pipe is not even opened");
        std::thread::yield_now();
    }
    interrupted(child);
}

/// Ticks of the clock (10 ms) that a process computed for, and whether it ended.
fn computed(pid: u32) -> (u64, bool) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |k: usize| fields[k].parse::<u64>().unwrap();
    (ticks(11) + ticks(12), fields[0] == "Z")
}

/// A film of a million frames, of every shape: whatever is being computed, an interrupt ends it
/// before 0.3 s of computing are over.
#[test]
fn an_interrupt_ends_a_plan_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let size = |k: u64| 1000 + (1_000_000 - k) / 7 + k * 2_654_435_761 % 4096;
    let rows: Vec<String> = (0..1_000_000).map(|k| size(k).to_string()).collect();
    std::fs::write(dir.path().join("t.csv"), rows.join("\n")).unwrap();
    let page = &["--html", "p.html", "--buffer", "1MB"][..];
    let cba = &["--scheme", "cba", "--scheme", "mcba", "--rate", "30Mbps", "--startup", "1s"][..];
    let grid = &["--scheme", "pdcbr", "--scheme", "pcrtt"][..];
    let mut interrupted = 0;
    for (asked, ticks) in
        [(cba, 40), (cba, 60), (grid, 40), (page, 50), (page, 90), (page, 130), (page, 200)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(["plan", "t.csv", "--fps", "25"]).args(asked).current_dir(dir.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while computed(child.id()).0 < ticks && !computed(child.id()).1 {
            std::thread::yield_now();
        }
        // A fast machine may be done with a scheme by then; with a page none is.
        if computed(child.id()).1 {
            assert!(child.wait().unwrap().code() != Some(130) && asked != page, "{asked:?}");
            continue;
        }
        interrupted += 1;
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let before = computed(child.id()).0;
        let mut now = (before, false);
        while !now.1 {
            now = computed(child.id());
            std::thread::yield_now();
        }
        assert_eq!(child.wait().unwrap().code(), Some(130), "{asked:?}");
        assert!(now.0 - before <= 30, "{asked:?} went on for {} ticks of 10 ms", now.0 - before);
    }
    assert!(interrupted >= 4, "{interrupted}");
}
