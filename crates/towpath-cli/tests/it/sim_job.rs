//! `towpath sim job`: recorded jobs over simulated networks.

use serde_json::Value;

use crate::support::{Vm, built, text};

const NETWORK: &str = "kind = 'shared'\n[link]\nrate_bps = 10_000_000\n[processor]\n\
                       send_message_ns = 1000\nreceive_message_ns = 2000\n";
const TWO: &str = "towpath-job,1,2,test\nrank,0,2\nw,4000000\ns,1,0,1460\n\
                   rank,1,2\nr,0,0,1460\nw,1000000\nend\n";
const ONE: &str = "towpath-job,1,1,test\nrank,0,1\nw,5000000\nend\n";

struct Files(Vm);

impl Files {
    fn new() -> Self {
        let vm = Vm::new();
        for (name, content) in [("net.toml", NETWORK), ("two", TWO), ("one", ONE)] {
            std::fs::write(vm.file(name), content).unwrap();
        }
        Self(vm)
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let out = self.0.towpath(&[&["sim", "job"], args].concat());
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    }

    fn fault(&self, name: &str, content: &str, more: &[&str]) -> String {
        std::fs::write(self.0.file(name), content).unwrap();
        let (code, _, fault) = self.run(&[&["two", "--network", "net.toml"], more].concat());
        assert_eq!(code, Some(255), "{fault}");
        fault
    }
}

#[test]
fn a_record_is_a_table_of_ranks_and_several_a_table_of_their_numbers() {
    let files = Files::new();
    let (code, shown, fault) = files.run(&["two", "--network", "net.toml", "--csv", "out.csv"]);
    assert_eq!((code, fault.as_str()), (Some(0), ""), "{shown}");
    // 4 ms, two processors' costs, a frame of 1538 bytes, 1 ms.
    assert!(shown.starts_with("test on net: 2 ranks end after 6.234 ms"), "{shown}");
    assert!(shown.contains("link medium: 1 messages, 1.46 kB, busy 19.7 %"), "{shown}");
    let csv = std::fs::read_to_string(files.0.file("out.csv")).unwrap();
    let last = csv.lines().last().unwrap();
    assert_eq!(last, "1,6233400,1000000,2000,5231400,0,0,1,1460");

    let (_, shown, _) = files.run(&["two", "one", "--network", "net.toml", "--one-rank", "5s"]);
    let row =
        |at: usize| -> Vec<&str> { shown.lines().nth(at).unwrap().split_whitespace().collect() };
    assert_eq!(row(2)[..4], ["net", "1", "5", "s"], "{shown}");
    assert_eq!((row(3)[1], row(3)[4], row(3)[5]), ("2", "1.00", "0.50"), "{shown}");

    let (_, json, _) = files.run(&["two", "--network", "net.toml", "--slower", "2", "--json"]);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["makespan_ns"].as_u64(), Some(11_233_400), "{json}");
    assert_eq!((&value["network"], &value["slower"]), (&"net".into(), &2.0.into()));
}

#[test]
fn faults_of_records_and_networks_are_told_with_line_and_hint() {
    let files = Files::new();
    let said = files.fault("two", &TWO[..60], &[]);
    assert!(said.contains("two, line 5: ") && said.contains("hint: the record was cut"), "{said}");
    let said = files.fault("two", "towpath-job,1,1000000000,x\n", &[]);
    assert!(said.contains("ranks is \"1000000000\", must be 1 to 1024"), "{said}");
    let said = files.fault("two", &TWO.replace("s,1,0,1460", "w,1"), &[]);
    assert!(said.contains("line 6: rank 1 waits for a message of rank 0"), "{said}");
    let said = files.fault("two", TWO, &["--slower", "0"]);
    assert!(said.contains("takes 0 times as long, must be above 0"), "{said}");
    let said = files.fault("two", TWO, &["--one-rank", "3s"]);
    assert!(said.contains("--one-rank needs a record of one rank"), "{said}");
    let said = files.fault("net.toml", "kind = 'shared'\n\nrate = 3\n", &[]);
    assert!(said.contains("line 3: unknown field `rate`"), "{said}");
    let said = files.fault("net.toml", "kind = 'switched'\n[link]\nrate_bps = 5\n", &[]);
    assert!(said.contains("link.rate_bps is 5, must be between 1000 and 10^12"), "{said}");
}

/// Threads, and tasks of a virtual machine: the same messages.
#[test]
fn an_application_that_was_recorded_runs_again_over_each_network_that_comes_along() {
    let program = built::built(&["towpath-apps"], &["-p", "towpath-apps", "--bin", "towpath-apps"]);
    let vm = Vm::up(2);
    let words = ["tracker", "--targets", "8", "--sharing", "ssdp"];
    let record = |name: &str, run: &mut std::process::Command| {
        let out = run.arg("--record").arg(vm.file(name)).args(words).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        std::fs::read_to_string(vm.file(name)).unwrap()
    };
    let threads = record("threads", std::process::Command::new(&program).args(["--tasks", "3"]));
    let job = record("job", vm.command(&["run", "-n", "3", "--"]).arg(&program));
    let messages = |text: &str| -> Vec<String> {
        let is_message = |line: &&str| !line.starts_with("w,") && !line.starts_with("rank,");
        text.lines().filter(is_message).map(str::to_owned).collect()
    };
    assert!(messages(&threads).len() > 100);
    assert_eq!(messages(&threads), messages(&job));
    let networks = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/job");
    let mut seen = 0;
    for entry in std::fs::read_dir(networks).unwrap() {
        let path = entry.unwrap().path();
        let mut run = vm.command(&["sim", "job", "threads", "--json", "--network"]);
        let out = run.arg(&path).output().unwrap();
        assert!(out.status.success(), "{}{}", path.display(), text(&out.stderr));
        let value: Value = serde_json::from_str(&text(&out.stdout)).unwrap();
        assert_eq!(
            (&value["application"], &value["unreceived"]),
            (&"tracker ssdp".into(), &0.into())
        );
        seen += 1;
    }
    assert!(seen >= 5);
}
