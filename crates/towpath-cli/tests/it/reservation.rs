//! Topologies, requests, bounds, specifications and schedulers on the command line.

use crate::support::requests::{NET, WIRE, json, request, reserve};
use crate::support::{Vm, text};
use serde_json::Value;

fn sigma_rho(sigma_bytes: u64, rho_bps: u64) -> String {
    format!(
        "tspec = {{ kind = \"sigma_rho\", sigma_bytes = {sigma_bytes}, rho_bps = {rho_bps} }}\n\
         message_min_bytes = 1500"
    )
}

/// What is said about a topology that is none.
fn fault(net: &str) -> String {
    let vm = Vm::new();
    std::fs::write(vm.file("net.toml"), net).unwrap();
    let out = vm.towpath(&["topology", "show", "net.toml"]);
    assert_eq!(out.status.code(), Some(255), "{}", text(&out.stdout));
    assert_eq!(text(&out.stdout), "");
    text(&out.stderr)
}

fn root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_topology_is_drawn_in_text_and_as_a_picture() {
    let vm = Vm::new();
    std::fs::write(vm.file("net.toml"), NET).unwrap();
    let out = vm.towpath(&["topology", "show", "net.toml", "--svg", "net.svg"]);
    let shown = text(&out.stdout);
    assert!(shown.starts_with("3 hosts, 1 switch, 3 links\n"), "{shown}");
    assert!(shown.contains("└─ h3  host    100 Mbit/s, 500 ns"), "{shown}");
    let svg = std::fs::read_to_string(vm.file("net.svg")).unwrap();
    assert!(svg.contains(">h3<") && svg.ends_with("</svg>\n"));
    let out = vm.towpath(&["topology", "show", "net.toml", "--json", "--route", "h1", "h3"]);
    let ports = json(&out)["ports"].as_array().unwrap().clone();
    assert_eq!(ports.iter().map(|p| p["to"].as_str().unwrap()).collect::<Vec<_>>(), ["s1", "h3"]);
    let out = vm.towpath(&["topology", "show", "net.toml", "--route", "h1", "h9"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("unknown host \"h9\"\nhint: hosts are h1, h2, h3"));
}

#[test]
fn a_fault_of_a_topology_is_named_with_its_line_and_what_to_do() {
    let unknown = fault(&NET.replace("\"h3\", \"s1\"", "\"h3\", \"s2\""));
    assert!(unknown.contains("net.toml, line 22: unknown node \"s2\""), "{unknown}");
    assert!(unknown.contains("22 | ends = [\"h3\", \"s2\"]") && unknown.contains("\nhint: "));
    let twice = fault(&NET.replace("name = \"h3\"", "name = \"h1\""));
    assert!(twice.contains("line 7: duplicate name \"h1\""), "{twice}");
    let third = fault(&NET.replace("\"h3\", \"s1\"", "\"h3\", \"s1\", \"h1\""));
    assert!(third.contains("line 22: a link has 3 ends, must have 2"), "{third}");
    let itself = fault(&NET.replace("\"h3\", \"s1\"", "\"s1\", \"s1\""));
    assert!(itself.contains("link from \"s1\" to itself"), "{itself}");
    let apart = fault(&format!("{NET}[[host]]\nname = \"h4\"\n"));
    assert!(apart.contains("no route") && apart.contains("h4"), "{apart}");
    for rate in ["0", "-1", "99999999999999999999", "2000000000000000000"] {
        let rate = fault(&NET.replacen("100_000_000", rate, 1));
        assert!(rate.contains("line 1") && rate.contains("hint: "), "{rate}");
    }
    assert!(fault("[[host]\n").contains("line 1"));
    assert!(fault(&NET.replace("latency_ns", "latency")).contains("unknown field `latency`"));
}

#[test]
fn switches_in_a_ring_are_a_topology() {
    let ring = NET
        .replace("[[switch]]", "[[switch]]\nname = \"s2\"\n[[switch]]\nname = \"s3\"\n[[switch]]")
        + "[[link]]\nends = [\"s1\", \"s2\"]\nrate_bps = 1000000\n\
           [[link]]\nends = [\"s2\", \"s3\"]\nrate_bps = 1000000\n\
           [[link]]\nends = [\"s3\", \"s1\"]\nrate_bps = 1000000\n";
    let vm = Vm::new();
    std::fs::write(vm.file("net.toml"), ring).unwrap();
    let out = vm.towpath(&["topology", "show", "net.toml"]);
    let shown = text(&out.stdout);
    assert!(shown.contains("with cycles") && shown.contains("\nand s2 to s3"), "{shown}");
}

#[test]
fn an_admitted_channel_is_told_its_bound_hop_by_hop() {
    let asked = request("a", "h1", "h3", &(sigma_rho(1500, 10_000_000) + "\ndelay_ns = 2_000_000"));
    let out = reserve(NET, &format!("{WIRE}{asked}"), &["--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let answer = json(&out);
    let promise = &answer["requests"][0]["promise"];
    assert_eq!(answer["requests"][0]["answer"], "admitted");
    let hops = promise["hops"].as_array().unwrap();
    assert_eq!(
        hops.iter().map(|h| h["port"].as_str().unwrap()).collect::<Vec<_>>(),
        ["h1:0", "s1:2"]
    );
    let ns = |v: &Value| v.as_u64().unwrap();
    let sum: u64 = hops.iter().map(|h| ns(&h["delay_ns"]) + ns(&h["fixed_ns"])).sum();
    assert_eq!(sum, ns(&promise["delay_ns"]));
    assert!(sum <= 2_000_000);
    // Each hop takes at least what the packet itself and one in its way take.
    assert!(hops.iter().all(|h| ns(&h["delay_ns"]) >= 120_000 + 123_040), "{promise}");
    assert_eq!(answer["ports"][0]["reserved_bps"], 10_000_000);
    let shown = text(&reserve(NET, &format!("{WIRE}{asked}"), &[]).stdout);
    assert!(shown.contains("a: no packet later than 2 ms") && shown.contains("s1:2"), "{shown}");
}

#[test]
fn what_a_refusal_says_would_pass_does_pass() {
    let with = |delay: u64| {
        let a = format!(
            "tspec = {{ kind = \"token_bucket\", rate_bps = 10_000_000, burst_bytes = 150_000, \
             peak_bps = 400_000_000, min_bytes = 1500, max_bytes = 1500 }}\ndelay_ns = {delay}"
        );
        format!("{WIRE}{}", request("a", "h1", "h3", &a))
    };
    let out = reserve(NET, &with(2_000_000), &["--json"]);
    assert_eq!(out.status.code(), Some(1));
    let refusal = json(&out)["requests"][0]["refusal"].clone();
    let nearest = refusal["nearest"]["delay_ns"].as_u64().unwrap_or_else(|| panic!("{refusal}"));
    assert!(nearest > 2_000_000);
    let out = reserve(NET, &with(nearest), &[]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stdout));
    let shown = text(&reserve(NET, &with(2_000_000), &[]).stdout);
    for part in ["a: refused by", "bottleneck", "short", &format!("delay_ns = {nearest}")] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

/// Half of the link is free, and each kind asks for more: the line that is named, put in the place
/// of its own, passes.
#[test]
fn the_traffic_that_a_refusal_names_passes_as_it_is_written() {
    let half = request(
        "half",
        "h1",
        "h3",
        "tspec = { kind = \"sigma_rho\", sigma_bytes = 1400, rho_bps = 45_000_000 }\n\
         message_min_bytes = 1400\nservice = \"share\"",
    );
    let bounded = "message_min_bytes = 1400\ndelay_ns = 40_000_000";
    for kind in [
        "kind = \"token_bucket\", rate_bps = 60_000_000, burst_bytes = 60_000, \
         peak_bps = 200_000_000, min_bytes = 1000, max_bytes = 1400",
        "kind = \"d_bind\", pairs = [[80_000_000, 1_000_000], [65_000_000, 7_000_000], \
         [60_000_000, 20_000_000]], max_bytes = 1400",
        "kind = \"peak_mean\", peak_bps = 200_000_000, mean_bps = 60_000_000, \
         burst_bytes = 50_000, max_bytes = 1400",
        "kind = \"averaged\", xmin_ns = 100_000, xave_ns = 190_000, interval_ns = 2_000_000, \
         smax_bytes = 1400",
        "kind = \"spaced\", xmin_ns = 180_000, smax_bytes = 1400",
        "kind = \"sigma_rho\", sigma_bytes = 60_000, rho_bps = 60_000_000",
    ] {
        let with = |line: &str| format!("{half}{}", request("x", "h1", "h3", line));
        let asked = with(&format!("tspec = {{ {kind} }}\n{bounded}"));
        let out = reserve(NET, &asked, &[]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        let shown = text(&out.stdout);
        let line = shown.lines().find_map(|l| l.strip_prefix("  with        "));
        let line = line.unwrap_or_else(|| panic!("{shown}"));
        let told = reserve(NET, &with(&format!("{line}\n{bounded}")), &[]);
        assert_eq!(told.status.code(), Some(0), "{kind}\n{line}\n{}", text(&told.stdout));
        let answer = json(&reserve(NET, &asked, &["--json"]));
        let refusal = &answer["requests"][1]["refusal"];
        assert_eq!(refusal["nothing_passes"], false);
        assert!(refusal["nearest_tspec"]["kind"].is_string(), "{refusal}");
    }
}

#[test]
fn a_full_link_is_said_to_let_nothing_pass() {
    let all = sigma_rho(1500, 100_000_000) + "\nservice = \"share\"";
    let one = sigma_rho(1500, 1_000_000) + "\ndelay_ns = 5_000_000";
    let asked = [request("all", "h1", "h3", &all), request("one", "h2", "h3", &one)].concat();
    let shown = text(&reserve(NET, &format!("{WIRE}{asked}"), &[]).stdout);
    assert!(shown.contains("  passes      nothing of the kind passes\n"), "{shown}");
    assert!(!shown.contains("  with  "), "{shown}");
}

#[test]
fn rates_up_to_exactly_the_link_are_shared_out_and_no_bit_more() {
    let four = |last: u64| {
        let share = |k: u64, rate| {
            request(
                &format!("c{k}"),
                "h1",
                "h3",
                &(sigma_rho(1500, rate) + "\nservice = \"share\""),
            )
        };
        let all: String = (0..3).map(|k| share(k, 25_000_000)).collect();
        format!("{WIRE}{all}{}", share(3, last))
    };
    assert_eq!(reserve(NET, &four(25_000_000), &[]).status.code(), Some(0));
    let out = reserve(NET, &four(25_000_001), &["--json"]);
    assert_eq!(out.status.code(), Some(1));
    let answer = json(&out);
    assert_eq!((&answer["admitted"], &answer["refused"]), (&3.into(), &1.into()));
    let short = &answer["requests"][3]["refusal"]["shortage"]["rate_bps"];
    assert_eq!(
        (&short["asked"], &short["free"]),
        (&25_000_001.into(), &25_000_000.into()),
        "{answer}"
    );
}

#[test]
fn a_set_is_reserved_together_or_not_at_all() {
    let share = |name: &str, rate, more: &str| {
        request(name, "h1", "h3", &(sigma_rho(1500, rate) + "\nservice = \"share\"\n" + more))
    };
    let requests = WIRE.to_string()
        + &share("a", 60_000_000, "set = \"x\"")
        + &share("b", 30_000_000, "")
        + &share("c", 60_000_000, "set = \"x\"");
    let out = reserve(NET, &requests, &["--json"]);
    let answers: Vec<Value> =
        json(&out)["requests"].as_array().unwrap().iter().map(|r| r["answer"].clone()).collect();
    let refused = answers.iter().filter(|a| *a == "refused").count();
    assert_eq!((refused, &answers[1]), (1, &"admitted".into()), "{answers:?}");
    assert!(answers.iter().any(|a| a == "not reserved"), "{answers:?}");
    let out = reserve(NET, &requests, &["--collective", "--json"]);
    assert_eq!(json(&out)["admitted"], 0);
}

#[test]
fn requests_that_cannot_be_are_errors_or_refusals() {
    let bounded = sigma_rho(1500, 1_000_000) + "\ndelay_ns = 5_000_000";
    let itself = reserve(NET, &format!("{WIRE}{}", request("a", "h1", "h1", &bounded)), &[]);
    assert_eq!(itself.status.code(), Some(1));
    assert!(text(&itself.stdout).contains("a channel to oneself"), "{}", text(&itself.stdout));
    let error = |request: &str| {
        let out = reserve(NET, &format!("{WIRE}{request}"), &["--json"]);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(255), 0));
        text(&out.stderr)
    };
    let unknown = error(&request("a", "h1", "h8", &bounded));
    assert!(unknown.contains("hint: hosts are h1, h2, h3"), "{unknown}");
    assert!(unknown.contains("line 6") && unknown.contains("unknown host \"h8\""), "{unknown}");
    for (lines, part) in [
        (sigma_rho(1500, 0), "rho_bps is zero"),
        (sigma_rho(u64::MAX / 2, 1), "sigma_bytes is 9223372036854775807, must be at most"),
        (bounded.replace("1000000", "-5"), "-5"),
        (
            bounded.replace("delay_ns = 5_000_000", "delay_ns = 5_000_000_000_000_000_000_000"),
            "delay_ns is 5000000000000000000000, must be 0 to",
        ),
        (
            "delay_ns = 1\ntspec = { kind = \"token_bucket\", rate_bps = 9, burst_bytes = 1, \
          peak_bps = 8, min_bytes = 1, max_bytes = 1 }"
                .to_string(),
            "peak_bps is 8",
        ),
    ] {
        let said = error(&request("a", "h1", "h3", &lines));
        assert!(said.contains(part), "{part} in {said}");
    }
    let none = reserve(
        NET,
        &format!("{WIRE}{}", request("a", "h1", "h3", &bounded.replace("= 5_000_000", "= 1"))),
        &[],
    );
    assert_eq!(none.status.code(), Some(1), "a bound below a packet's own time is refused");
}

#[test]
fn the_example_of_requests_has_every_kind_and_one_refusal() {
    let vm = Vm::new();
    let (net, requests) =
        (root("scenarios/topology/two-switches.toml"), root("scenarios/topology/requests.toml"));
    let args =
        ["reserve", "--topology", &net, "--what-if", &requests, "--svg", "net.svg", "--json"];
    let out = vm.towpath(&args);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let answer = json(&out);
    assert_eq!(answer["refused"], 1, "{answer}");
    let svg = std::fs::read_to_string(vm.file("net.svg")).unwrap();
    assert!(svg.contains(" % "), "loads are written on links");
    // What the calculus says of the admitted set is never above what was promised to it.
    let args = ["bound", "--topology", &net, "--flows", &requests, "--admitted", "--json"];
    let bounds = json(&vm.towpath(&args));
    for flow in bounds["flows"].as_array().unwrap() {
        let promise =
            answer["requests"].as_array().unwrap().iter().find(|r| r["name"] == flow["flow"]);
        assert!(promise.unwrap()["promise"]["delay_ns"].is_u64());
        let least = flow["least"]["ns"].as_u64().unwrap();
        assert!(least > 0, "{flow}");
        assert!(flow["jitter"]["ns"].as_u64().unwrap() <= least, "{flow}");
        assert!(flow["under_way"]["bits"].as_u64().unwrap() > 0, "{flow}");
    }
    // All of them are more than a port sends.
    let out = vm.towpath(&["bound", "--topology", &net, "--flows", &requests]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(255), "{said}");
    assert!(said.contains("port h3:0: its channels send 22.29 Mbit/s more"), "{said}");
    assert!(said.contains("\nhint: --admitted"), "{said}");
}

#[test]
fn bounds_of_a_tandem_are_those_published() {
    let vm = Vm::new();
    let tandem = root("scenarios/bound/tandem.toml");
    let least = |args: &[&str]| {
        let out = vm.towpath(&[&["bound", &tandem, "--json"], args].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        json(&out)["flows"][0]["least"]["exact"].as_str().unwrap().to_string()
    };
    assert_eq!(least(&[]), "125/2");
    assert_eq!(least(&["--method", "plp"]), "125/2");
    assert_eq!(least(&["--method", "tfa"]), "195/2");
    let out = vm.towpath(&["bound", &tandem, "--explain"]);
    let shown = text(&out.stdout);
    assert!(shown.contains("f0: 62.5 by FIFO linear program") && shown.contains("s1: "), "{shown}");
}

#[test]
fn a_network_in_json_with_cases_is_bound_and_faults_are_named() {
    let vm = Vm::new();
    let case = r#"{"id": "one", "kind": "network",
        "servers": [{"id": "s0", "rate": "10", "latency": 0.5}],
        "flows": [{"id": "f0", "rate": "25/5", "burst": 25, "path": ["s0"]}]}"#;
    let bound = |text: &str, args: &[&str]| {
        std::fs::write(vm.file("n.json"), text).unwrap();
        vm.towpath(&[&["bound", "n.json"], args].concat())
    };
    let cases = format!("{{\"cases\": [{case}, {{\"id\": \"two\", \"kind\": \"edf\"}}]}}");
    let out = bound(&cases, &["--case", "one", "--json"]);
    assert_eq!(json(&out)["flows"][0]["least"]["exact"], "3");
    assert!(text(&bound(case, &[]).stdout).contains("f0"));
    let again = case.replace(
        "[{\"id\": \"f0\"",
        "[{\"id\": \"f0\", \"rate\": 1, \"burst\": 1, \
        \"path\": [\"s0\"]},\n{\"id\": \"f0\"",
    );
    for (text_of, part, line) in [
        (case.replace("[\"s0\"]", "[\"s7\"]"), "unknown server \"s7\"", "line 3"),
        (case.replace("25/5", "11"), "unstable: server s0 by 1", "line 2"),
        (case.replace("25/5", "-1"), "must not be negative", "line 3"),
        (case.replace("25/5", "1/0"), "denominator is zero", "line 3"),
        (case.replace("[\"s0\"]", "[\"s0\", \"s0\"]"), "twice", "line 3"),
        (again, "duplicate flow \"f0\"", "line 4"),
        (case.replace("0.5", &"7".repeat(50)), "write it as a text", "line "),
        (cases.replace("25/5", "11"), "case one: unstable", "line 2"),
        (cases.replace("one", "other"), "has no case \"one\"", ""),
    ] {
        let args: &[&str] = if text_of.contains("cases") { &["--case", "one"] } else { &[] };
        let out = bound(&text_of, args);
        assert_eq!(out.status.code(), Some(255));
        let said = text(&out.stderr);
        assert!(said.contains(part) && said.contains(line), "{part}, {line} in {said}");
        assert!(line.is_empty() || said.contains("hint: "), "{said}");
    }
}

/// Where a method bounds nothing, which methods would; a fault of JSON is one of JSON.
#[test]
fn methods_and_formats_are_told_apart() {
    let vm = Vm::new();
    let tandem = root("scenarios/bound/tandem.toml");
    let said = |args: &[&str]| {
        let out = vm.towpath(&[&["bound"], args].concat());
        assert_eq!((out.status.code(), out.stdout.len()), (Some(255), 0));
        text(&out.stderr)
    };
    let plp = said(&[&tandem, "--method", "plp", "--multiplexing", "blind"]);
    assert!(plp.contains("plp has no bound here") && plp.contains("hint: plp is for"), "{plp}");
    std::fs::write(vm.file("n"), "[\n  {\"servers\": }\n]").unwrap();
    let broken = said(&["n"]);
    assert!(broken.contains("n, line 1: no JSON of a network: invalid type: sequence"), "{broken}");
    std::fs::write(vm.file("n"), "{\n  \"servers\":\n}").unwrap();
    let broken = said(&["n"]);
    assert!(broken.contains("n, line 3: no JSON") && !broken.contains("TOML"), "{broken}");
    std::fs::write(vm.file("n"), "\n[[server]\n").unwrap();
    let broken = said(&["n"]);
    assert!(broken.contains("n, line 2: no TOML"), "{broken}");
    let line = "[[server]]\nid = \"s\"\nrate = 1\nlatency = 0\nline = [1, 1, 1]\n\
                [[flow]]\nid = \"f\"\nrate = 1\nburst = 1\npath = [\"s\"]\n";
    std::fs::write(vm.file("n"), line).unwrap();
    assert!(said(&["n"]).contains("server s: line has 3 numbers, must have 2"));
}

/// Files of experiments and loads: one line of what is wrong, however long the file's own is.
#[test]
fn faults_of_experiments_are_short_and_name_their_line() {
    let vm = Vm::new();
    let long = format!("name = \"x\"\nduration_ms = {}\n", "9".repeat(5000));
    std::fs::write(vm.file("x.toml"), long).unwrap();
    for args in [&["sim", "qos", "x.toml"][..], &["schedulers", "compare", "--scenario", "x.toml"]]
    {
        let out = vm.towpath(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255));
        assert!(said.contains("x.toml, line ") && said.len() < 1000, "{said}");
    }
    std::fs::write(vm.file("x.toml"), "#".repeat((4 << 20) + 1)).unwrap();
    for args in [
        &["sim", "qos", "x.toml"][..],
        &["schedulers", "compare", "--scenario", "x.toml"],
        &["topology", "show", "x.toml"],
    ] {
        let said = text(&vm.towpath(args).stderr);
        assert!(said.contains("x.toml is longer than 4194304 bytes, the limit"), "{said}");
    }
}

/// A processor's load stands beside the ports', and what is refused by fixed budgets says by how
/// much.
#[test]
fn processors_and_fixed_budgets_have_figures() {
    let net = NET
        .replacen("name = \"h1\"", "name = \"h1\"\ncpu = { packet_ns = 10_000, byte_ps = 0 }", 1)
        .replace("name = \"h2\"", "name = \"h2\"\nscheduler = \"fcfs\"")
        + "";
    // 1500 bytes at 12 Mbit/s are 1000 packets a second of 10 µs each: 1 %.
    let asked = request("a", "h1", "h3", &(sigma_rho(1500, 12_000_000) + "\ndelay_ns = 9_000_000"));
    let out = reserve(&net, &format!("{WIRE}{asked}"), &["--json"]);
    let cpu = &json(&out)["processors"][0];
    assert_eq!((&cpu["host"], &cpu["reserved_ppm"]), (&"h1".into(), &10_000.into()), "{cpu}");
    let shown = text(&reserve(&net, &format!("{WIRE}{asked}"), &[]).stdout);
    assert!(shown.contains("PROCESSOR OF") && shown.contains("1.0 %"), "{shown}");
    // The queue of 1 MiB drains in 83.9 ms, and the burst takes 16 ms to come: two megabytes do
    // not go out in that time.
    let big = "tspec = { kind = \"token_bucket\", rate_bps = 1000, burst_bytes = 2_000_000, \
               peak_bps = 1_000_000_000, min_bytes = 1500, max_bytes = 1500 }\n\
               delay_ns = 900_000_000";
    let big = request("b", "h2", "h3", big);
    let shown = text(&reserve(&net, &format!("{WIRE}{big}"), &[]).stdout);
    let short = "short       bursts: 2.001 MB due within 99.88 ms with it, 1.249 MB can be sent";
    assert!(shown.contains(short) && shown.contains("passes      the same"), "{shown}");
}

/// What stands indented in a command's help.
fn example(help: &str, from: &str) -> String {
    let lines = help.lines().skip_while(|l| !l.starts_with(from)).skip(1);
    let lines = lines.take_while(|l| l.is_empty() || l.starts_with("  "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_examples_of_the_help_are_taken() {
    let vm = Vm::new();
    let help = text(&vm.towpath(&["schedulers", "compare", "--help"]).stdout);
    std::fs::write(vm.file("load.toml"), example(&help, "A load (--scenario)")).unwrap();
    let compare = ["schedulers", "compare", "--no-cost", "--json", "--discipline", "fcfs"];
    let out = vm.towpath(&[&compare[..], &["--scenario", "load.toml"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(out.stdout, vm.towpath(&compare).stdout, "they are the defaults");
    let help = text(&vm.towpath(&["sim", "qos", "--help"]).stdout);
    std::fs::write(vm.file("x.toml"), example(&help, "An experiment is")).unwrap();
    let out = vm.towpath(&["sim", "qos", "x.toml", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(json(&out)["channels"][0]["delivered"].as_u64().unwrap() > 100);
    for args in [&["sim", "qos"][..], &["schedulers", "compare", "--scenario"]] {
        std::fs::write(vm.file("bad.toml"), "nothing = 1\n").unwrap();
        let said = text(&vm.towpath(&[args, &["bad.toml"]].concat()).stderr);
        let command = args[..2].join(" ");
        assert!(said.contains(&format!("hint: `towpath {command} --help` has an example")));
    }
}

#[test]
fn schedulers_are_compared_alike_twice() {
    let vm = Vm::new();
    let load = "duration_ms = 20\nhops = 1\nregion_max = [2, 4]\n";
    std::fs::write(vm.file("load.toml"), load).unwrap();
    let args = ["schedulers", "compare", "--scenario", "load.toml", "--no-cost", "--json"];
    let some = ["--discipline", "fcfs", "--discipline", "edf"];
    let out = vm.towpath(&[&args[..], &some].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(out.stdout, vm.towpath(&[&args[..], &some].concat()).stdout);
    let rows = json(&out)["rows"].as_array().unwrap().clone();
    let late = |row: &Value| -> u64 {
        row["classes"].as_array().unwrap().iter().map(|c| c["beyond"].as_u64().unwrap()).sum()
    };
    assert_eq!((&rows[0]["name"], late(&rows[1])), (&"fcfs".into(), 0));
    assert!(late(&rows[0]) > 0, "bulk delays everything under fcfs");
    let out = vm.towpath(&["schedulers", "compare", "--discipline", "lifo"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("unknown discipline \"lifo\"\nhint: there are fcfs"));
    let files = ["--csv", "out", "--svg", "out", "--html", "page.html", "--discipline", "drr"];
    let out = vm.towpath(&[&args[..5], &files].concat());
    assert!(text(&out.stdout).contains("REGION"), "{}", text(&out.stdout));
    assert!(vm.file("out/summary.csv").exists() && vm.file("out/region.svg").exists());
    assert!(std::fs::read_to_string(vm.file("page.html")).unwrap().contains("<svg"));
}

#[test]
fn an_experiment_stands_beside_its_source() {
    let vm = Vm::new();
    let file = root("scenarios/qos/8021p-2.toml");
    let out =
        vm.towpath(&["sim", "qos", &file, "--svg", "out", "--csv", "out", "--html", "page.html"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let shown = text(&out.stdout);
    assert!(shown.contains("Beside the source") && shown.contains("Table A.2"), "{shown}");
    assert!(
        vm.file("out/8021p-2-delay.svg").exists() && vm.file("out/8021p-2-channels.csv").exists()
    );
    let out = vm.towpath(&["sim", "qos", &file, "--json"]);
    let report = json(&out);
    let rate = |k: usize| report["channels"][k]["wire_bps"].as_u64().unwrap();
    assert!(
        rate(0) > 20 * rate(1),
        "a low class starves behind a high one: {} {}",
        rate(0),
        rate(1)
    );
    let out = vm.towpath(&["sim", "qos", &root("scenarios/topology/requests.toml")]);
    assert_eq!(out.status.code(), Some(255));
}

/// Names are whatever a file says, but for control characters: what turns the line round reaches no
/// terminal as it is, and JSON stays JSON.
#[test]
fn names_of_requests_steer_no_terminal() {
    let vm = Vm::new();
    let net = root("scenarios/topology/two-switches.toml");
    let spec = "tspec = { kind = \"sigma_rho\", rho_bps = 1000000, sigma_bytes = 4000 }";
    let request = "name = \"a\\u202eb\"\nfrom = \"h1\"\nto = \"h2\"";
    let file = format!("[[request]]\n{request}\ndelay_ns = 50000000\n{spec}\n");
    std::fs::write(vm.file("odd.toml"), file).unwrap();
    for json in [&["--json"][..], &[]] {
        let args = ["reserve", "--topology", &net, "--what-if", "odd.toml"];
        let out = vm.towpath(&[&args, json].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let said = text(&out.stdout);
        assert!(said.contains("\\u202eb") && !said.contains('\u{202e}'), "{said:?}");
        if !json.is_empty() {
            let value: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(value["requests"][0]["name"], "a\u{202e}b");
        }
    }
}

/// The refusal that docs/admission.md reads aloud is what the command prints.
#[test]
fn the_documented_refusal_is_the_one_that_is_printed() {
    let documented = include_str!("../../../../docs/admission.md");
    let (_, block) = documented.split_once("## Reading a refusal\n\n```text\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let (net, requests) =
        (root("scenarios/topology/two-switches.toml"), root("scenarios/topology/requests.toml"));
    let out = Vm::new().towpath(&["reserve", "--topology", &net, "--what-if", &requests]);
    let printed = text(&out.stdout);
    assert!(printed.contains(block), "documented:\n{block}\nprinted:\n{printed}");
}
