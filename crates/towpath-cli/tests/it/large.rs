//! What the commands of admission take where channels are many: `make nightly`. Each prints what it
//! measured: `cargo test --workspace --profile ci --test it large:: -- --ignored --nocapture`.

use std::fmt::Write as _;
use std::io::Read;
use std::process::Stdio;

use crate::support::Vm;

/// What a process took.
#[derive(Debug)]
struct Taken {
    user_s: f64,
    /// Most of it in memory at once.
    resident_kb: u64,
    printed: usize,
}

/// Runs a command to its end; its figures are those of `/proc`, read while it is not waited for.
fn taken(vm: &Vm, args: &[&str]) -> Taken {
    let mut command = vm.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let pid = child.id();
    let proc = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}"));
    let (mut resident_kb, mut printed, mut chunk) = (0, 0, vec![0; 1 << 16]);
    let mut out = child.stdout.take().unwrap();
    loop {
        // It waits for whoever reads, so that what it takes to print is seen.
        let status = proc("status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|kb| kb.trim().trim_end_matches(" kB").parse().ok());
        resident_kb = resident_kb.max(peak.unwrap_or(0));
        let read = out.read(&mut chunk).unwrap();
        printed += read;
        if read == 0 {
            break;
        }
    }
    let stat = proc("stat").unwrap();
    // Behind the name, which ends with the last parenthesis: the 14th field is ticks of 10 ms.
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let user_s = fields.clone().nth(11).unwrap().parse::<f64>().unwrap() / 100.0;
    assert!(child.wait().unwrap().success(), "{args:?}");
    Taken { user_s, resident_kb, printed }
}

/// Channels between five hosts, each link half full; so many different rates.
fn between_five(channels: u64, rates: u64) -> String {
    let mut text = "[framing]\ncounts = \"wire\"\n".to_string();
    for k in 0..channels {
        let (from, to) = (k % 5, (k % 5 + 1 + k / 5 % 4) % 5);
        let base = 125_000_000 / channels;
        let rate = base + k * 7 % rates * (base / rates);
        write!(
            text,
            "[[request]]\nname = \"c{k}\"\nfrom = \"h{}\"\nto = \"h{}\"\ndelay_ns = 1_000_000_000\n\
             message_min_bytes = 1500\n\
             tspec = {{ kind = \"sigma_rho\", sigma_bytes = 1500, rho_bps = {rate} }}\n",
            from + 1,
            to + 1
        )
        .unwrap();
    }
    text
}

#[test]
#[ignore = "seconds of a processor each: `make nightly`"]
fn bounds_of_thousands_of_unlike_channels_take_seconds() {
    let vm = Vm::new();
    let net = format!("{}/../../scenarios/topology/two-switches.toml", env!("CARGO_MANIFEST_DIR"));
    for (channels, rates, most_s) in [(1000, 977, 1.0), (3000, 3000, 4.0)] {
        std::fs::write(vm.file("flows.toml"), between_five(channels, rates)).unwrap();
        let args = ["bound", "--topology", &net, "--flows", "flows.toml", "--method", "tfa"];
        let taken = taken(&vm, &args);
        println!("bound, total flow: {channels} channels of {rates} rates: {taken:?}");
        assert!(taken.user_s <= most_s, "{taken:?}, at most {most_s} s");
    }
}

/// Twenty hosts at one switch, 10 000 channels from each to the next.
#[test]
#[ignore = "seconds of a processor and 400 MB each: `make nightly`"]
fn two_hundred_thousand_channels_are_told_as_json_in_the_memory_of_the_text() {
    let vm = Vm::new();
    // The memory of ports is large, so that all are admitted.
    let port = |k: u32| format!("{{ name = \"p{k}\", queue_bytes = 1_000_000_000 }}");
    let ports: Vec<String> = (0..20).map(port).collect();
    let mut net = format!("[[switch]]\nname = \"s\"\nport = [{}]\n", ports.join(", "));
    let mut asked = "[framing]\ncounts = \"wire\"\n".to_string();
    for k in 0..20 {
        writeln!(net, "[[host]]\nname = \"h{k}\"\ninterface = [{}]", port(k)).unwrap();
        let ends = format!("[\"h{k}:p{k}\", \"s:p{k}\"]");
        writeln!(net, "[[link]]\nends = {ends}\nrate_bps = 100_000_000_000").unwrap();
        writeln!(
            asked,
            "[[request]]\nname = \"c{k}\"\nfrom = \"h{k}\"\nto = \"h{}\"\ncount = 10_000\n\
             delay_ns = 50_000_000\n\
             tspec = {{ kind = \"token_bucket\", rate_bps = 1_000_000, burst_bytes = 3000, \
             peak_bps = 5_000_000, min_bytes = 1500, max_bytes = 1500 }}",
            (k + 1) % 20
        )
        .unwrap();
    }
    std::fs::write(vm.file("net.toml"), net).unwrap();
    std::fs::write(vm.file("asked.toml"), asked).unwrap();
    let args = ["reserve", "--topology", "net.toml", "--what-if", "asked.toml"];
    let text = taken(&vm, &args);
    let json = taken(&vm, &[&args[..], &["--json"]].concat());
    println!("reserve, 200 000 channels: text {text:?}, JSON {json:?}");
    assert!(text.printed > 200_000 && json.printed > text.printed);
    assert!(json.resident_kb <= 400_000, "{json:?}, at most 400 MB");
    assert!(json.resident_kb * 10 <= text.resident_kb * 11, "{json:?} beside {text:?}");
}
