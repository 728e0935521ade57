//! `towpath plan` through the binary: tables, every combination of options, mistakes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory of its own.
pub(super) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A trace of frames of these sizes.
    pub(super) fn trace(&self, name: &str, sizes: &[u64]) -> PathBuf {
        let line = |(k, bytes): (usize, &u64)| format!("{},P,{bytes}\n", k + 1);
        let rows: String = sizes.iter().enumerate().map(line).collect();
        self.file(name, &format!("frame,type,bytes\n{rows}"))
    }

    pub(super) fn plan(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("plan").args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The one JSON object that is printed.
    pub(super) fn json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.plan(&[args, &["--json"]].concat());
        serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{e}: {} {}", text(&out.stdout), text(&out.stderr)))
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn scheme<'a>(plan: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let schemes = plan["schemes"].as_array().unwrap();
    schemes.iter().find(|row| row["scheme"] == name).unwrap()
}

/// 100 frames at 25 per second: 1000 bytes each, but 9000 in frame 51.
pub(super) fn bump() -> Vec<u64> {
    (1..=100).map(|n| if n == 51 { 9000 } else { 1000 }).collect()
}

const ALL: [&str; 9] =
    ["cbr", "pcbr", "pdcbr", "window-pcbr", "smooth", "cba", "mcba", "pcrtt", "ideal"];

#[test]
fn a_table_tells_all_schemes() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let out = place.plan(&["t.csv", "--fps", "25"]);
    let table = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(
        table.starts_with("t.csv: 100 frames of the trace at 25 per second, 108.0 kB, 4.000 s")
    );
    for name in ALL {
        assert!(table.lines().any(|line| line.starts_with(name)), "{name} in {table}");
    }
    assert_eq!(text(&out.stderr), "");
}

/// By hand: with 40 ms (a slot) of delay the first frame needs 1000 B in 40 ms, and the 59 000
/// bytes of the first 51 frames must be there after 51 slots: 1156.86 B each, or 231 373 bit/s.
#[test]
fn a_delay_alone_gives_least_rate_and_its_buffer() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let plan = place.json(&["t.csv", "--fps", "25", "--startup", "1 slot"]);
    for name in ["cbr", "window-pcbr", "smooth"] {
        let bps = scheme(&plan, name)["peak"]["bps"].as_f64().unwrap();
        assert!((bps - 59_000.0 / 51.0 * 200.0).abs() < 0.01, "{name}: {bps}");
    }
    // Just before frame 51 leaves, all of it is there.
    assert_eq!(scheme(&plan, "window-pcbr")["buffer_bytes"], 9000);
    // The same rate goes on to the end, at 157 bytes a slot more than is taken: 7588 before frame
    // 93 leaves, less than before frame 51.
    assert_eq!(scheme(&plan, "cbr")["buffer_bytes"], 9000);
    // Go and stop: frame 51 has its own slot only.
    let pcbr = scheme(&plan, "pcbr")["peak"]["bps"].as_f64().unwrap();
    assert!((pcbr - 9000.0 * 200.0).abs() < 1e-6, "{pcbr}");
    assert_eq!(plan["asked"]["delay"]["slots"], 1.0);
    assert_eq!(plan["asked"]["delay"]["slots_reference"], 0.0);
}

#[test]
fn any_two_give_the_third_and_agree() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let base = ["t.csv", "--fps", "25"];
    let rate = place.json(&[&base[..], &["--startup", "200ms", "--buffer", "10kB"]].concat());
    for name in ["window-pcbr", "smooth"] {
        let row = scheme(&rate, name);
        assert_eq!(row["feasible"], true, "{row}");
        let bps = row["peak"]["bps"].as_f64().unwrap().ceil().to_string();
        let buffer = place.json(&[&base[..], &["--startup", "200ms", "--rate", &bps]].concat());
        assert!(scheme(&buffer, name)["buffer_bytes"].as_u64().unwrap() <= 10_000);
        let delay = place.json(&[&base[..], &["--buffer", "10kB", "--rate", &bps]].concat());
        assert!(scheme(&delay, name)["delay"]["s"].as_f64().unwrap() <= 0.2);
        assert_eq!(scheme(&rate, name)["rate_over_least"], 1.0);
    }
}

#[test]
fn all_three_are_judged() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let base = ["t.csv", "--fps", "25", "--startup", "200ms", "--buffer", "10kB"];
    let fits = place.plan(&[&base[..], &["--rate", "1Mbps"]].concat());
    assert_eq!(fits.status.code(), Some(0), "{}", text(&fits.stderr));
    let short = place.plan(&[&base[..], &["--rate", "150kbps"]].concat());
    assert_eq!(short.status.code(), Some(1));
    let (table, hint) = (text(&short.stdout), text(&short.stderr));
    assert!(hint.contains("no scheme does this") && hint.contains("hint: "), "{hint}");
    // The hint is true.
    let rate = hint.split("--rate ").nth(1).unwrap().split_whitespace().next().unwrap();
    let again = place.plan(&[&base[..], &["--rate", rate]].concat());
    assert_eq!(again.status.code(), Some(0), "{hint}\n{table}\n{}", text(&again.stderr));
    let below = (rate.parse::<u64>().unwrap() - 1).to_string();
    let below = place.plan(&[&base[..], &["--rate", &below]].concat());
    assert_eq!(below.status.code(), Some(1), "the hint is the least");
}

#[test]
fn a_schedule_is_written_that_the_library_accepts() {
    let place = Place::new();
    let path = place.trace("t.csv", &bump());
    let args = ["t.csv", "--fps", "25", "--startup", "200ms", "--buffer", "10kB"];
    let sizes = bump();
    let frame_rate = towpath_media::trace::FrameRate::TWENTY_FIVE;
    let trace = towpath_media::trace::Trace::uniform(sizes, frame_rate).unwrap();
    for name in ["window-pcbr", "smooth", "cba", "mcba", "pcrtt"] {
        let out = place.plan(&[&args[..], &["--scheme", name, "--schedule", "s"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let text = std::fs::read(place.path("s")).unwrap();
        let schedule = towpath_media::schedule::parse(&text).unwrap();
        let checked = schedule.check(&trace).unwrap();
        assert!(checked.buffer <= 10_000, "{name}: {checked:?}");
    }
    assert!(!place.path("s.part").exists());
    let two = place.plan(&["t.csv", "--schedule", "s"]);
    assert_eq!(two.status.code(), Some(255));
    assert!(text(&two.stderr).contains("hint: "), "{}", text(&two.stderr));
    drop(path);
}

#[test]
fn pictures_tables_and_a_page_are_written() {
    let place = Place::new();
    place.trace("a<b>.csv", &bump());
    let args = ["a<b>.csv", "--fps", "25", "--svg", "out", "--csv", "out", "--html", "p.html"];
    let out = place.plan(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for name in [
        "corridor",
        "cbr",
        "frame-sizes",
        "pcbr-working",
        "pdcbr-working",
        "window-pcbr-working",
        "rates",
        "rate-by-delay",
        "buffer-by-delay",
        "rate-within-buffer",
        "delay-by-rate",
    ] {
        let svg = std::fs::read_to_string(place.path(&format!("out/a<b>-{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{name}");
        assert!(!svg.contains("NaN") && svg.len() < 200_000, "{name}");
    }
    let curve = std::fs::read_to_string(place.path("out/a<b>-by-delay.csv")).unwrap();
    let first = "delay_s,delay_slots,cbr_bps,cbr_buffer_bytes,pcbr_bps,pcbr_buffer_bytes,";
    assert!(curve.starts_with(first), "{curve}");
    // One slot: the rates and buffers by hand, as above.
    assert!(curve.contains("\n0.040000000,1.0000,231372.549,9000,1800000.000,9000,"), "{curve}");
    let page = std::fs::read_to_string(place.path("p.html")).unwrap();
    assert!(page.contains("<h2>a&lt;b&gt;.csv</h2>") && !page.contains("a<b>"), "escaped");
    // The same input, the same bytes.
    let first = std::fs::read(place.path("p.html")).unwrap();
    place.plan(&args);
    assert!(first == std::fs::read(place.path("p.html")).unwrap());
}

/// The document's pictures are those that the program draws, as it says. To draw them anew:
/// `towpath plan crates/towpath-media/data/mix-mpeg1.csv --fps 30 --svg DIR`, then copy.
#[test]
fn the_document_shows_what_is_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = Place::new();
    let trace = root.join("crates/towpath-media/data/mix-mpeg1.csv");
    let out = place.plan(&[trace.to_str().unwrap(), "--fps", "30", "--svg", "out"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for (shown, drawn) in [("curves", "corridor"), ("delay", "rate-by-delay")] {
        let shown = root.join(format!("docs/video-schedules-{shown}.svg"));
        let drawn = place.path(&format!("out/mix-mpeg1-{drawn}.svg"));
        let same = std::fs::read(&shown).unwrap() == std::fs::read(&drawn).unwrap();
        assert!(same, "{} is not what is drawn now", shown.display());
    }
}

/// Where the buffer is no limit, schemes with few changes have none.
#[test]
fn what_can_be_constant_is_shown_constant() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let plan = place.json(&["t.csv", "--fps", "25", "--startup", "200ms", "--buffer", "1MB"]);
    for name in ["cbr", "cba", "mcba"] {
        let row = scheme(&plan, name);
        assert_eq!((&row["changes"], &row["rate_over_least"]), (&0.into(), &1.0.into()), "{row}");
    }
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let place = Place::new();
    place.trace("good.csv", &bump());
    place.file("bad.csv", "frame,type,bytes\n1,I,x\n");
    let out = place.plan(&["bad.csv", "good.csv", "none.csv", "good.csv", "--fps", "25", "--json"]);
    assert_eq!(out.status.code(), Some(255));
    let rows: Vec<serde_json::Value> =
        text(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let files: Vec<&str> = rows.iter().map(|row| row["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["bad.csv", "good.csv", "none.csv", "good.csv"]);
    assert!(rows[0]["error"].as_str().unwrap().contains("line 2"), "{}", rows[0]);
    assert!(rows[1]["schemes"].is_array() && rows[3]["schemes"].is_array());
    assert!(text(&out.stderr).contains("none.csv"));
}

#[test]
fn mistakes_are_told_with_what_would_do() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    place.file("empty", "");
    place.file("nonsense", "hello world\n");
    place.file("huge", "7\n18446744073709551616\n");
    place.file("avi", "RIFF\u{0}\u{0}\u{0}\u{0}AVI ");
    place.file("binary", "\u{0}\u{1}\u{2} not a film");
    std::fs::create_dir(place.path("dir")).unwrap();
    for (args, status, part) in [
        (&["t.csv", "--rate", "0"][..], 255, "no rate"),
        (&["t.csv", "--rate", "2Mb"], 255, "unknown unit"),
        (&["t.csv", "--rate", "2Mb"], 255, "did you mean Mbit/s?"),
        (&["t.csv", "--startup", "-1s"], 255, "-1s is less than nothing"),
        (&["t.csv", "--buffer", "-1MB"], 255, "-1MB is less than nothing"),
        (&["t.csv", "--buffer", "1mb"], 255, "did you mean MB?"),
        (&["t.csv", "--startup", "0"], 255, "hint: --startup"),
        (&["t.csv", "--startup", "900000000000h"], 255, "too large"),
        (&["t.csv", "--startup", "99999999999 slots"], 255, "limit"),
        (&["t.csv", "--buffer", "1"], 1, "frame 51 has 9000 bytes"),
        (&["t.csv", "--rate", "150kbps", "--startup", "1s", "--scheme", "cbr"], 1, "for cbr"),
        (&["t.csv", "--buffer", "1e30"], 255, "unknown unit"),
        (&["t.csv", "--buffer", "99999999999TB"], 255, "too large"),
        (&["t.csv", "--aggregate", "0"], 255, "--aggregate"),
        (&["t.csv", "--scheme", "x"], 255, "window-pcbr"),
        (&["t.csv", "--fps", "0"], 255, "frame rate"),
        (&["t.csv", "--pcr"], 255, "hint: "),
        (&["t.csv", "--program", "3"], 255, "leave --program out"),
        (&["t.csv", "--bits"], 255, "leave --bits out"),
        (&["avi", "--bits"], 255, "leave --bits out"),
        (&["t.csv", "--thesis", "--pcr"], 255, "--pcr"),
        (&["empty"], 255, "empty"),
        (&["nonsense"], 255, "line 1"),
        (&["binary"], 255, "format"),
        (&["dir"], 255, "directory"),
        (&["none"], 255, "none"),
        (&["huge"], 255, "line 2: a number beyond the limit of 2^64 - 1"),
        (&["t.csv", "--csv", "/proc/self"], 255, "cannot write into directory /proc/self"),
        (&["t.csv", "--svg", "t.csv"], 255, "t.csv"),
        (&["t.csv", "--verify", "t.csv"], 255, "t.csv is no schedule"),
        (&["t.csv", "--verify", "none"], 255, "none: cannot open it"),
        (&["t.csv", "--verify", "t.csv", "--rate", "1Mbps"], 255, "--verify"),
        (&["t.csv", "--html", "/dev/full"], 255, "No space left"),
        (&["t.csv", "--html", "nowhere/p.html"], 255, "cannot write into directory nowhere: "),
    ] {
        let out = place.plan(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn odd_traces_are_planned_for_exactly() {
    let place = Place::new();
    // One frame; empty frames; frames of 1 GB.
    place.trace("one.csv", &[700]);
    let plan = place.json(&["one.csv", "--fps", "25"]);
    assert_eq!(scheme(&plan, "cbr")["peak"]["bps"], 5600.0);
    assert_eq!(scheme(&plan, "smooth")["buffer_bytes"], 700);
    place.trace("empty.csv", &[0, 0, 500, 0, 0, 700, 0]);
    let plan = place.json(&["empty.csv", "--fps", "25", "--startup", "1 slot"]);
    // 500 in three slots, 1200 in six.
    assert_eq!(scheme(&plan, "cbr")["peak"]["bps"], 40_000.0);
    place.trace("giant.csv", &[1_000_000_000; 50]);
    let plan = place.json(&["giant.csv", "--fps", "25", "--startup", "1 slot"]);
    assert_eq!(scheme(&plan, "cbr")["peak"]["bps"], 2e11);
    assert_eq!(scheme(&plan, "window-pcbr")["buffer_bytes"], 1_000_000_000);
    for zero in ["0\n", "0\n0\n"] {
        place.file("zero", zero);
        let out = place.plan(&["zero"]);
        assert_eq!(out.status.code(), Some(255));
        assert!(text(&out.stderr).contains("not one byte"), "{}", text(&out.stderr));
    }
}

/// The cells of the table's rows: those of a row are two or more blanks apart.
fn cells(table: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(Into::into).collect()
    };
    let rows = table.lines().skip_while(|line| !line.starts_with("SCHEME")).skip(1);
    rows.filter(|line| !line.is_empty()).map(row).collect()
}

/// Whoever types what the table says gets what the table says.
#[test]
fn printed_figures_fed_back_are_feasible() {
    let place = Place::new();
    // Odd sizes, of a linear congruence.
    let next = |n: u64| (n * 1_103_515_245 + 12_345) % 65_537;
    let sizes: Vec<u64> = std::iter::successors(Some(1), |n| Some(next(*n))).take(400).collect();
    place.trace("t.csv", &sizes);
    let mut fed = 0;
    for ask in [
        &["--startup", "10 slots"][..],
        &["--startup", "333ms", "--buffer", "200kB"],
        &["--rate", "9.876Mbps"],
        &["--rate", "12345678", "--startup", "1.1s"],
        &["--rate", "9Mbps", "--buffer", "1MB"],
    ] {
        let out = place.plan(&[&["t.csv", "--fps", "29.97"], ask].concat());
        for row in cells(&text(&out.stdout)).iter().filter(|row| row[1] != "-") {
            let [scheme, rate, buffer, delay] = [0, 1, 2, 3].map(|k| row[k].as_str());
            let args = ["t.csv", "--fps", "29.97", "--scheme", scheme, "--rate", rate];
            let again =
                place.plan(&[&args[..], &["--buffer", buffer, "--startup", delay]].concat());
            assert!(again.status.success(), "{ask:?} {row:?}: {}", text(&again.stderr));
            fed += 1;
        }
    }
    assert!(fed >= 30, "only {fed} rows");
}

#[test]
fn one_frame_is_not_one_frames_and_the_grid_is_shown() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let table = text(&place.plan(&["t.csv", "--fps", "25", "--startup", "1 slot"]).stdout);
    assert!(table.contains("start-up delay 40 ms (1 slot):"), "{table}");
    // The least rate is 9000 B in 40 ms; 231 373 bit/s times 7.78 is the first hundredth above.
    assert!(table.contains("1 % grid 1.801 Mbit/s"), "{table}");
    let plan = place.json(&["t.csv", "--fps", "25", "--startup", "1 slot"]);
    let grid = scheme(&plan, "pcbr")["grid"]["bps"].as_f64().unwrap();
    assert!((grid - 59_000.0 / 51.0 * 200.0 * 7.78).abs() < 0.01, "{grid}");
    assert_eq!(scheme(&plan, "cbr")["grid"], serde_json::Value::Null);
    place.trace("one.csv", &[700]);
    let one = text(&place.plan(&["one.csv", "--fps", "25"]).stdout);
    assert!(one.starts_with("one.csv: 1 frame of the trace at 25"), "{one}");
    assert!(one.contains("a rate per 1 frame\n"), "{one}");
}

#[test]
fn a_schedule_file_is_judged() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let base = ["t.csv", "--fps", "25"];
    let args = ["--startup", "200ms", "--buffer", "10kB", "--scheme", "smooth", "--schedule", "s"];
    assert!(place.plan(&[&base[..], &args].concat()).status.success());
    let good = place.plan(&[&base[..], &["--verify", "s"]].concat());
    let said = text(&good.stdout);
    assert_eq!(good.status.code(), Some(0), "{said}{}", text(&good.stderr));
    assert!(said.contains("verdict               it does\n"), "{said}");
    let good = place.json(&[&base[..], &["--verify", "s"]].concat());
    assert_eq!((&good["feasible"], &good["scheme"]), (&true.into(), &"smooth".into()));
    assert!(good["least_buffer_bytes"].as_u64().unwrap() <= 10_000, "{good}");
    // A buffer of a byte less than it takes, a delay of a tick less: each fails where it must.
    let written = std::fs::read_to_string(place.path("s")).unwrap();
    for (what, least, part) in [
        ("buffer_bytes", good["least_buffer_bytes"].as_u64(), "the buffer overflows before frame"),
        ("delay_ticks", good["least_delay"]["ticks"].as_u64(), "starves"),
    ] {
        for (value, status) in [(least.unwrap(), 0), (least.unwrap() - 1, 1)] {
            let line = |l: &str| {
                if l.starts_with(what) { format!("{what},{value}\n") } else { format!("{l}\n") }
            };
            // A shorter wait must not be taken for a fuller buffer.
            let whole = |l: String| {
                if what == "delay_ticks" && l.starts_with("buffer") {
                    "buffer_bytes,108000\n".into()
                } else {
                    l
                }
            };
            place.file("x", &written.lines().map(line).map(whole).collect::<String>());
            let out = place.plan(&[&base[..], &["--verify", "x"]].concat());
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(status), "{what} {value}: {said}");
            assert_eq!(said.contains(part), status == 1, "{said}");
        }
    }
    // What is wrong is the buffer, and so the hint is about it; it is the least that does.
    let least = good["least_buffer_bytes"].as_u64().unwrap();
    let with = |bytes: u64| {
        let line = |l: &str| {
            let wanted = format!("buffer_bytes,{bytes}");
            format!("{}\n", if l.starts_with("buffer") { &wanted } else { l })
        };
        place.file("x", &written.lines().map(line).collect::<String>());
        let out = place.plan(&[&base[..], &["--verify", "x"]].concat());
        (out.status.code(), text(&out.stderr))
    };
    let (status, said) = with(least / 2);
    assert_eq!(status, Some(1));
    assert!(said.contains(&format!("hint: a buffer of {least} bytes does")), "{said}");
    assert!(!said.contains("--fps"), "{said}");
    assert_eq!(with(least).0, Some(0));
    let other = place.plan(&["t.csv", "--fps", "29.97", "--verify", "s"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("frame 43 starves"), "{}", text(&other.stderr));
    assert!(text(&other.stderr).contains("hint: it is judged at 29.97"), "{}", text(&other.stderr));
    place.trace("longer.csv", &[bump(), vec![1]].concat());
    let other = place.plan(&["longer.csv", "--fps", "25", "--verify", "s"]);
    assert!(text(&other.stderr).contains("delivers 108000 bytes, the video has 108001"));
}

/// The clip that ships with the project: 50 frames of MPEG-2 in a transport stream.
fn clip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../towpath-media/data/mpeg2.ts")
}

#[test]
fn a_video_is_planned_for_by_frames_or_by_clock_references() {
    let place = Place::new();
    std::fs::copy(clip(), place.path("clip.ts")).unwrap();
    let frames = place.json(&["clip.ts", "--startup", "200ms"]);
    assert_eq!((frames["groups"].as_u64(), &frames["notes"]), (Some(50), &serde_json::json!([])));
    assert_eq!(frames["frame_rate"], serde_json::json!({ "num": 25, "den": 1 }));
    let all = place.json(&["clip.ts", "--startup", "200ms", "--pcr"]);
    assert_eq!(all["bytes"], std::fs::metadata(clip()).unwrap().len());
    assert_eq!(all["frame_rate"], serde_json::Value::Null);
    assert!(frames["bytes"].as_u64() < all["bytes"].as_u64());
    for plan in [&frames, &all] {
        assert_eq!(scheme(plan, "smooth")["rate_over_least"], 1.0);
    }
    // Half of it lost: planned for what is left, and said so.
    let mut bytes = std::fs::read(clip()).unwrap();
    bytes[60_000..63_000].fill(0);
    bytes.truncate(100_000);
    std::fs::write(place.path("bad.ts"), bytes).unwrap();
    let out = place.plan(&["bad.ts"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("note: bad.ts: "), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("window-pcbr"));
    let none = place.plan(&["clip.ts", "--program", "9"]);
    assert_eq!(none.status.code(), Some(255));
    assert!(text(&none.stderr).contains("hint: there are: 1"), "{}", text(&none.stderr));
}

#[test]
fn pipes_and_odd_names_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.trace("t.csv", &bump());
    let odd = std::ffi::OsStr::from_bytes(b"od\xffd\n.csv");
    std::fs::copy(place.path("t.csv"), place.dir.path().join(odd)).unwrap();
    let towpath = env!("CARGO_BIN_EXE_towpath");
    let run = |script: &str, arg: &std::ffi::OsStr| {
        let mut command = Command::new("sh");
        command.args(["-c", script, towpath]).arg(arg).current_dir(place.dir.path());
        command.output().unwrap()
    };
    let odd = run("$0 plan \"$1\" --fps 25", odd);
    assert!(odd.status.success(), "{}", text(&odd.stderr));
    assert!(text(&odd.stdout).starts_with("od\u{fffd}d\\n.csv: 100 frames"), "one line");
    let pipe = "mkfifo p && (cat t.csv > p & $0 plan p --fps 25 && cat t.csv | $0 plan - --fps 25)";
    let piped = run(pipe, std::ffi::OsStr::new(""));
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    let said = text(&piped.stdout);
    assert!(said.starts_with("p: 100 ") && said.contains("standard input: 100 "), "{said}");
}

#[test]
fn an_unknown_frame_rate_is_assumed_aloud() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let out = place.plan(&["t.csv", "--json"]);
    assert!(text(&out.stderr).contains("25 frames per second assumed"), "{}", text(&out.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(plan["frame_rate"]["num"], 25);
    assert!(plan["notes"][0].as_str().unwrap().contains("assumed"));
}

#[test]
fn a_closed_output_is_no_crash() {
    let place = Place::new();
    place.trace("t.csv", &bump());
    let script = format!(
        "{} plan t.csv t.csv t.csv --fps 25 | head -n 1; echo",
        env!("CARGO_BIN_EXE_towpath")
    );
    let out =
        Command::new("sh").args(["-c", &script]).current_dir(place.dir.path()).output().unwrap();
    assert!(!text(&out.stderr).contains("panicked"), "{}", text(&out.stderr));
}

/// The traces of the project's notes, where they are.
#[test]
#[ignore = "nightly: traces of others, named by TOWPATH_TRACES"]
fn tables_of_real_films_agree_with_an_independent_computation() {
    let Some(dir) = std::env::var_os("TOWPATH_TRACES") else {
        return towpath_skip::skip("TOWPATH_TRACES names no folder of traces");
    };
    let place = Place::new();
    // Name, frames per second, rate of cbr, pcbr and pdcbr (high) in kbit/s at a delay of 11
    // slots, buffer of pdcbr in kB: an independent computation in rationals.
    for (name, fps, cbr, pcbr, high, kb) in [
        ("mix-mpeg2", "30", 2683.0, 6922.0, 3139.0, 9914.0),
        ("star-wars-iv", "25", 440.0, 775.0, 515.0, 46_574.0),
        ("lego_video", "24", 1094.0, 1105.0, 1105.0, 63.0),
    ] {
        let file = Path::new(&dir).join(format!("{name}.csv"));
        let file = file.to_str().unwrap();
        let plan = place.json(&[file, "--fps", fps, "--startup", "11 slots"]);
        let kbps = |name| scheme(&plan, name)["peak"]["bps"].as_f64().unwrap() / 1e3;
        assert!((kbps("cbr") - cbr).abs() < 0.6, "{name}: {}", kbps("cbr"));
        // That table has the source's grid of 1 %, this one the least rate.
        assert!(kbps("pcbr") <= pcbr + 0.6 && kbps("pcbr") > pcbr * 0.985, "{name}");
        assert!((kbps("pdcbr") - high).abs() < 0.6, "{name}: {}", kbps("pdcbr"));
        let buffer = scheme(&plan, "pdcbr")["buffer_bytes"].as_f64().unwrap() / 1e3;
        assert!((buffer - kb).abs() < 0.6, "{name}: {buffer}");
    }
}
