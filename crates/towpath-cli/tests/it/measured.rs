//! Traffic that a file holds: what is measured from it, and what is reserved for it.

use crate::support::requests::{NET, WIRE, json, request, reserve};
use crate::support::{Vm, text};

/// Two bare columns, a frame trace and a schedule of `towpath plan` are measured, and can stand
/// in a request in place of a specification.
#[test]
fn traces_and_schedules_are_measured_and_named_in_requests() {
    let vm = Vm::new();
    std::fs::write(vm.file("bare"), "5\t1000\n6\t200\n7\t1000\n").unwrap();
    let bare = json(&vm.towpath(&["tspec", "measure", "bare", "--json"]));
    assert_eq!((&bare["packets"], &bare["length_ns"]), (&3.into(), &2_000_000_000_u64.into()));
    let frames: Vec<String> = (0..300).map(|k| (2000 + 37 * (k % 60)).to_string()).collect();
    std::fs::write(vm.file("film.txt"), frames.join("\n")).unwrap();
    let plan = ["plan", "film.txt", "--fps", "25", "--buffer", "64KiB", "--scheme", "smooth"];
    let out = vm.towpath(&[&plan[..], &["--schedule", "film.sched"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let schedule = json(&vm.towpath(&["tspec", "measure", "film.sched", "--json"]));
    let trace = json(&vm.towpath(&["tspec", "measure", "film.txt", "--fps", "25", "--json"]));
    assert_eq!(schedule["bytes"], trace["bytes"], "a schedule sends the whole film");
    let asked = |name: &str, of: &str| {
        request(name, "h1", "h3", &format!("delay_ns = 50_000_000\nmeasured = {{ {of} }}"))
    };
    let requests = asked("a", "file = \"film.sched\"")
        + &asked("b", "file = \"film.sched\", kind = \"schedule\", packet_bytes = 500")
            .replace("name =", "count = 2\nname =")
        + &asked("c", "file = \"film.txt\", fps = 25, packet_bytes = 1400, kind = \"d_bind\"")
        + &asked("d", "file = \"bare\", kind = \"sigma_rho\"");
    let put = |requests: &str| {
        std::fs::write(vm.file("net.toml"), NET).unwrap();
        std::fs::write(vm.file("requests.toml"), requests).unwrap();
        let args = ["reserve", "--topology", "net.toml", "--what-if", "requests.toml", "--json"];
        vm.towpath(&args)
    };
    let out = put(&requests);
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    let answers = json(&out);
    let kinds: Vec<String> = answers["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["tspec"]["kind"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(kinds, ["d_bind", "schedule", "schedule", "d_bind", "sigma_rho"]);
    // Both channels name the one schedule.
    let named = |at: usize| &answers["requests"][at]["tspec"]["schedule"];
    assert_eq!((named(1), named(2)), (&0.into(), &0.into()));
    assert_eq!(answers["schedules"].as_array().unwrap().len(), 1);
    assert_eq!(answers["schedules"][0]["kind"], "schedule");
    let none = asked("a", "file = \"film.txt\", fps = 25, packet_bytes = 1400, kind = \"spaced\"");
    let none = text(&put(&none).stderr);
    assert!(none.contains("no spaced fits film.txt") && none.contains("hint: d_bind"), "{none}");
    let none = text(&put(&asked("a", "file = \"none\"")).stderr);
    assert!(none.contains("line 6: request \"a\": its traffic: cannot open"), "{none}");
    let fps = text(&put(&asked("a", "file = \"film.txt\"")).stderr);
    assert!(fps.contains("does not tell its frame rate") && fps.contains("hint: "), "{fps}");
}

#[test]
fn a_trace_is_measured_and_its_specification_is_admitted() {
    let vm = Vm::new();
    let line = |k: u32| format!("{}.{:03},{}", k / 50, k % 50 * 20, 100 + k % 7);
    let lines: Vec<String> = (0..200).map(line).collect();
    std::fs::write(vm.file("sent.csv"), format!("time_s,size_bytes\n{}\n", lines.join("\n")))
        .unwrap();
    let out = vm.towpath(&["tspec", "measure", "sent.csv", "--svg", "curve.svg", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let specs = json(&out)["specs"].as_array().unwrap().clone();
    let spaced = specs.iter().find(|s| s["name"] == "spaced").unwrap();
    assert_eq!(spaced["tspec"]["xmin_ns"], 20_000_000);
    assert_eq!(spaced["tspec"]["smax_bytes"], 106);
    assert!(std::fs::read_to_string(vm.file("curve.svg")).unwrap().contains("token_bucket"));
    let shown = text(&vm.towpath(&["tspec", "measure", "sent.csv"]).stdout);
    let ready: Vec<&str> = shown.lines().filter(|l| l.starts_with("tspec = ")).collect();
    assert!(ready.len() >= 4, "{shown}");
    for (k, line) in ready.iter().enumerate() {
        let asked =
            request(&format!("r{k}"), "h1", "h3", &format!("{line}\ndelay_ns = 50_000_000"));
        let out = reserve(NET, &asked, &[]);
        assert_eq!(
            out.status.code(),
            Some(0),
            "{line}: {}{}",
            text(&out.stdout),
            text(&out.stderr)
        );
    }
    let out = vm.with_input(&["tspec", "measure", "-"], b"time_s,size_bytes\n0.0,5\n");
    assert_eq!(out.status.code(), Some(255), "one packet has no rate");
}

/// A classic capture of 20 Ethernet frames of 60 bytes, one each 20 ms.
fn capture() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for k in 0..20 {
        bytes.extend(words(&[5, k * 20_000, 60, 60]));
        bytes.extend([0; 60]);
    }
    bytes
}

#[test]
fn a_capture_is_measured_from_a_file_a_pipe_and_a_request() {
    let vm = Vm::new();
    std::fs::write(vm.file("sent.pcap"), capture()).unwrap();
    let outs = [
        vm.towpath(&["tspec", "measure", "sent.pcap", "--json"]),
        vm.with_input(&["tspec", "measure", "-", "--json"], &capture()),
    ];
    for out in outs {
        assert!(out.status.success(), "{}", text(&out.stderr));
        let told = json(&out);
        assert_eq!((&told["packets"], &told["bytes"]), (&20.into(), &1200.into()), "{told}");
    }
    let file = vm.file("sent.pcap");
    let lines = format!("delay_ns = 50_000_000\nmeasured = {{ file = {file:?} }}");
    let out = reserve(NET, &request("a", "h1", "h3", &lines), &[]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

/// 1392 bytes each 10 ms are 1538 on the wire: 1.2304 Mbit/s, and 5 % above the mean is 1.29.
#[test]
fn measured_traffic_reserves_what_its_packets_are_on_the_wire() {
    let vm = Vm::new();
    let line = |k: u32| format!("{}.{:02},{}", k / 100, k % 100, if k < 300 { 1392 } else { 26 });
    let lines: Vec<String> = (0..301).map(line).collect();
    std::fs::write(vm.file("sent.csv"), format!("time_s,size_bytes\n{}\n", lines.join("\n")))
        .unwrap();
    let file = vm.file("sent.csv");
    for kind in ["token_bucket", "sigma_rho", "d_bind", "schedule", "peak_mean"] {
        let measured = format!("measured = {{ file = {file:?}, kind = \"{kind}\" }}");
        let asked = request("a", "h1", "h3", &format!("{measured}\ndelay_ns = 50_000_000"));
        let answer = json(&reserve(NET, &asked, &["--json"]));
        let bps = answer["ports"][0]["reserved_bps"].as_u64().unwrap();
        assert!((1_230_400..=1_310_000).contains(&bps), "{kind}: {bps}");
    }
    // Frames of 14 kB that are sent in packets of 1400 bytes are no packets of 14 kB.
    std::fs::write(vm.file("film.txt"), "14000\n".repeat(100)).unwrap();
    let film = vm.file("film.txt");
    let lines = format!(
        "measured = {{ file = {film:?}, fps = 29.97, packet_bytes = 1400 }}\n\
         delay_ns = 50_000_000"
    );
    let out = reserve(NET, &(WIRE.to_string() + &request("a", "h1", "h3", &lines)), &[]);
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    let out = reserve(NET, &request("a", "h1", "h3", &lines.replace("29.97", "0")), &[]);
    assert!(text(&out.stderr).contains("fps: "), "{}", text(&out.stderr));
}

#[test]
fn a_kind_that_does_not_fit_says_why() {
    let vm = Vm::new();
    let shown = |times: &[&str], more: &[&str]| {
        let input = format!("time_s,size_bytes\n{},100\n", times.join(",100\n"));
        let args = [&["tspec", "measure", "-"][..], more].concat();
        text(&vm.with_input(&args, input.as_bytes()).stdout)
    };
    // Two packets 0.7 s apart are in one second: Xave is half of it.
    let apart = shown(&["0.0", "0.7"], &[]);
    let why = "2 packets within 1 s make Xave 500 ms, below Xmin 700 ms";
    assert!(apart.contains(why) && !apart.contains("one instant"), "{apart}");
    let long = shown(&["0.0", "0.7"], &["--interval", "1000000h"]);
    assert!(long.contains("than a specification may have"), "{long}");
    assert!(shown(&["0.0", "0.0", "1.0"], &[]).contains("packets come at one instant"));
}

#[test]
fn the_summary_counts_every_request() {
    let wish = |rate: u64, more: &str| {
        let kind = "kind = \"sigma_rho\", sigma_bytes = 1500";
        format!("tspec = {{ {kind}, rho_bps = {rate} }}\nmessage_min_bytes = 1500\n{more}")
    };
    let share = "service = \"share\"";
    let set = "service = \"share\"\nset = \"pair\"";
    let asked = [
        request("fits", "h1", "h3", &wish(1_000_000, share)),
        request("one", "h2", "h3", &wish(1_000_000, set)),
        request("two", "h2", "h3", &wish(200_000_000, set)),
        request("rest", "h1", "h2", &wish(1_000_000, "service = \"best_effort\"")),
    ];
    let out = reserve(NET, &format!("{WIRE}{}", asked.concat()), &[]);
    let last = text(&out.stdout).lines().last().map(String::from);
    let wanted = "4 requests: 1 admitted, 1 refused, 1 not reserved with their sets, \
                  1 best effort, which are not counted";
    assert_eq!(last.as_deref(), Some(wanted), "{}", text(&out.stderr));
}
