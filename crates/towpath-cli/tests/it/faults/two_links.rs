//! Two machines with two cables between them: both carry, and one of them alone goes on.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::namespaces::pass;
use super::there;

/// What takes longer than this, on a machine that runs other tests meanwhile, does not work.
const PROMPT: Duration = Duration::from_secs(30);
/// Bytes that a program of `b` prints at `a`.
const BYTES: usize = 40_000_000;

const MAKE: &str = "ip netns add PREFIX-a && ip netns add PREFIX-b &&
    for n in 0 1; do
        ip link add dev eth$n netns PREFIX-a type veth peer name eth$n netns PREFIX-b &&
        ip -n PREFIX-a addr add 10.213.9$n.1/24 dev eth$n &&
        ip -n PREFIX-b addr add 10.213.9$n.2/24 dev eth$n &&
        ip -n PREFIX-a link set dev eth$n up && ip -n PREFIX-b link set dev eth$n up || exit 1
    done &&
    ip -n PREFIX-a link set dev lo up && ip -n PREFIX-b link set dev lo up";

struct Two {
    prefix: String,
    folder: tempfile::TempDir,
}

impl Two {
    /// `None`: there can be no namespaces here (it takes root).
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let two = Self { prefix: format!("tp{}-two", std::process::id()), folder };
        two.sh(MAKE).then_some(two)
    }

    fn sh(&self, lines: &str) -> bool {
        let lines = lines.replace("PREFIX", &self.prefix);
        Command::new("sh").args(["-c", &lines]).output().is_ok_and(|out| out.status.success())
    }

    fn home(&self, host: &str) -> PathBuf {
        self.folder.path().join(host)
    }

    fn run(&self, host: &str, args: &[&str]) -> Output {
        let space = format!("{}-{host}", self.prefix);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &space, env!("CARGO_BIN_EXE_towpath")]).args(args);
        command.env("TOWPATH_HOME", self.home(host)).env_remove("TOWPATH_VM");
        command.output().expect("ip runs")
    }

    fn ok(&self, host: &str, args: &[&str]) -> String {
        let out = self.run(host, args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "towpath {args:?} on {host}: {said}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The paths of `host`, in the order of their numbers.
    fn paths(&self, host: &str) -> Vec<serde_json::Value> {
        let told: serde_json::Value =
            serde_json::from_str(&self.ok(host, &["links", "--json"])).expect("JSON");
        told["paths"].as_array().expect("paths").clone()
    }

    fn states(&self, host: &str) -> Vec<String> {
        let state = |path: &serde_json::Value| path["state"].as_str().unwrap_or("?").to_owned();
        self.paths(host).iter().map(state).collect()
    }

    /// Waits until all paths of both hosts stand so.
    fn until(&self, states: [&str; 2]) {
        let since = Instant::now();
        loop {
            let now = ["a", "b"].map(|host| self.states(host));
            if now.iter().all(|of| of == &states) {
                return;
            }
            assert!(since.elapsed() < PROMPT, "{now:?}, not {states:?}");
            pass(Duration::from_millis(100));
        }
    }

    /// A program of `b` prints much at `a`; bytes that each path of `b` sent meanwhile.
    fn carry(&self) -> Vec<u64> {
        let sent = |two: &Self| -> Vec<u64> {
            two.paths("b").iter().map(|p| p["bytes_sent"].as_u64().unwrap_or(0)).collect()
        };
        let before = sent(self);
        let print = format!("head -c {BYTES} /dev/zero");
        let out = self.run("a", &["run", "--host", "h2", "--", "sh", "-c", &print]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.stdout.len(), BYTES);
        sent(self).into_iter().zip(before).map(|(now, before)| now - before).collect()
    }

    /// What comes in by the second cable is dropped without a word, at both ends; or not any more.
    fn deaf(&self, deaf: bool) {
        for host in ["a", "b"] {
            let rule = if deaf {
                "add chain ip two in { type filter hook input priority 0; };
                 add rule ip two in iifname eth1 drop"
            } else {
                "delete table ip two"
            };
            let done = format!("ip netns exec PREFIX-{host} nft 'add table ip two; {rule}'");
            assert!(self.sh(&done), "nft on {host}");
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        for host in ["a", "b"] {
            // One that never came up cannot be taken down.
            let _ = self.run(host, &["down"]);
        }
        self.sh("ip netns del PREFIX-a; ip netns del PREFIX-b");
    }
}

#[test]
fn two_cables_carry_together_and_either_alone_without_any_further_command() {
    if !(there("nft") && there("ip")) {
        return;
    }
    let Some(two) = Two::new() else {
        towpath_skip::skip("no network namespaces can be made here");
        return;
    };
    crate::support::roles();
    let listen = |n: u8| [0, 1].map(|cable| format!("10.213.9{cable}.{n}:7077"));
    let [first, second] = listen(1);
    two.ok("a", &["up", "--listen", &first, "--listen", &second, "--slots", "2"]);
    let token = two.ok("a", &["token"]);
    let [first, second] = listen(2);
    let join = ["join", token.trim(), "--listen", &first, "--listen", &second, "--slots", "2"];
    two.ok("b", &join);
    two.until(["carries", "carries"]);
    let both = two.carry();
    // These cables have no rate: how much goes by each is the processors' affair.
    assert!(both.iter().all(|bytes| *bytes > 100_000), "{both:?} bytes by the two of them");
    // The second cable falls silent while much goes by it.
    two.deaf(true);
    let one = two.carry();
    assert!(one[0] > BYTES as u64 && one[1] < BYTES as u64 / 10, "{one:?}");
    two.until(["carries", "silent"]);
    two.deaf(false);
    two.until(["carries", "carries"]);
    let both = two.carry();
    assert!(both[1] > 100_000, "{both:?} bytes after the silence");
    // It is pulled out, which the kernel tells both: nothing has to be sent to know it.
    assert!(two.sh("ip -n PREFIX-a link set dev eth1 down"));
    two.until(["carries", "down"]);
    let one = two.carry();
    assert!(one[0] > BYTES as u64, "{one:?}");
    assert!(two.sh("ip -n PREFIX-a link set dev eth1 up"));
    two.until(["carries", "carries"]);
    let counted = |p: &serde_json::Value| (p["left"].as_u64(), p["returned"].as_u64());
    let switches: Vec<_> = two.paths("b").iter().map(counted).collect();
    assert!(switches[1].0 >= Some(2) && switches[1].0 == switches[1].1, "{switches:?}");
    assert!(two.ok("a", &["links"]).contains("carries"));
}
