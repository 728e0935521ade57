//! Starting hosts on other machines, by an ssh that is none: each "machine" is a directory of its
//! own on a loopback address of its own.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::support::{Vm, processes_with, text};
use serde_json::Value;

/// Runs the words for a shell as ssh would, with a home of its own for each host. Some hosts
/// behave as hosts do.
const SSH: &str = r#"#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1
case $host in
hang*) exec tail -f "$FAKE/mark" ;;
refuse*) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
without*) exec sh -c "PATH=/nowhere; $2" ;;
esac
TOWPATH_HOME=$FAKE/$host; export TOWPATH_HOME
echo "welcome to $host"
exec sh -c "$2"
"#;

struct Machines {
    vm: Vm,
}

impl Machines {
    fn new(hostfile: &str) -> Self {
        let vm = Vm::new();
        std::fs::write(vm.file("ssh"), SSH).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(vm.file("ssh"), mode).unwrap();
        std::fs::write(vm.file("mark"), "").unwrap();
        std::fs::write(vm.file("hosts"), hostfile).unwrap();
        Self { vm }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.vm.command(args);
        command
            .env("TOWPATH_SSH", self.vm.file("ssh"))
            .env("TOWPATH_REMOTE", env!("CARGO_BIN_EXE_towpath"))
            .env("FAKE", self.vm.dir.path());
        for name in ["TOWPATH_HOSTS", "SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
            command.env_remove(name);
        }
        command
    }

    fn towpath(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> (Value, Option<i32>, String) {
        let out = self.towpath(&[args, &["--json"]].concat());
        let said = text(&out.stderr);
        let value = serde_json::from_slice(&out.stdout);
        (value.unwrap_or_else(|e| panic!("{e}: {said}")), out.status.code(), said)
    }

    /// Names and slots of the hosts that are up.
    fn hosts(&self) -> Vec<(String, u64)> {
        let (list, ..) = self.json(&["hosts"]);
        let up = list["hosts"].as_array().unwrap().iter().filter(|h| h["state"] == "up");
        up.map(|h| (h["name"].as_str().unwrap().into(), h["slots"].as_u64().unwrap())).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.hosts().into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// No process of ours is left, waiting a moment for those that are on their way out.
    fn nothing_left(&self) -> bool {
        let mark = self.vm.dir.path().to_str().unwrap().to_string();
        let deadline = std::time::Instant::now() + crate::support::PROMPT;
        while !processes_with(&mark).is_empty() {
            if std::time::Instant::now() > deadline {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.towpath(&["down"]);
    }
}

fn list<'a>(value: &'a Value, key: &str, field: &str) -> Vec<&'a str> {
    value[key].as_array().unwrap().iter().map(|v| v[field].as_str().unwrap()).collect()
}

#[test]
fn a_host_file_starts_them_all_and_down_ends_them_all() {
    let m = Machines::new(
        "# three, two of them by a range\n\
         localhost slots=5\n\
         * slots=2\n\
         alpha addr=127.0.0.2\n\
         b[1-2] addr=127.0.0.3 slots=3\n",
    );
    let (up, code, said) = m.json(&["up", "--hostfile", "hosts"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(list(&up, "hosts", "name"), ["localhost", "alpha", "b1", "b2"]);
    assert!(said.contains("[3/3]"), "{said}");
    let mut hosts = m.hosts();
    hosts.sort();
    let wanted = [("alpha", 2), ("b1", 3), ("b2", 3), ("localhost", 5)];
    assert_eq!(hosts, wanted.map(|(name, slots)| (name.to_string(), slots)));
    let out = m.towpath(&["run", "--host", "alpha", "--", "echo", "hello"]);
    assert_eq!(text(&out.stdout), "hello\n", "{}", text(&out.stderr));
    let addrs = list(&up, "hosts", "addr");
    assert!(addrs[1].starts_with("127.0.0.2:") && addrs[2].starts_with("127.0.0.3:"), "{addrs:?}");

    let (down, ..) = m.json(&["down"]);
    assert_eq!((&down["ended"], &down["deleted"]), (&1.into(), &3.into()));
    assert!(m.nothing_left());
}

#[test]
fn hosts_that_hang_refuse_or_lack_the_program_hold_nobody_up() {
    let m = Machines::new("good addr=127.0.0.2\nhang\nrefuse\nwithout towpath=towpath\n");
    let args = ["up", "--hostfile", "hosts", "--start-timeout", "3s"];
    let (up, code, said) = m.json(&args);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(list(&up, "failed", "name"), ["hang", "refuse", "without"]);
    let why = list(&up, "failed", "why");
    assert!(why[0].contains("no answer within 3 s"), "{why:?}");
    assert!(why[1].contains("Connection refused"), "{why:?}");
    assert!(why[2].contains("hint: where is towpath there?"), "{why:?}");
    assert_eq!(m.names().len(), 2);
    let mark = format!("tail -f {}", m.vm.file("mark").display());
    assert_eq!(processes_with(&mark), []);
}

#[test]
fn hosts_are_added_and_deleted_while_it_runs() {
    let m = Machines::new("a addr=127.0.0.2\n");
    let (_, code, said) = m.json(&["up", "--hostfile", "hosts"]);
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(m.vm.file("more"), "b addr=127.0.0.3\nc addr=127.0.0.4\n").unwrap();
    let (added, code, said) = m.json(&["host", "add", "a", "refuse", "--hostfile", "more"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(list(&added, "added", "name"), ["b", "c"]);
    let why = list(&added, "failed", "why");
    assert!(why[0].contains("already") && why[1].contains("Connection refused"), "{why:?}");
    assert_eq!(m.names().len(), 4);

    let b = m.vm.dir.path().join("b");
    let (gone, code, said) = m.json(&["host", "delete", "b", "nobody", "h1"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(list(&gone, "deleted", "name"), ["b"]);
    let why = list(&gone, "failed", "why");
    assert!(why[0].contains("no host `nobody`") && why[1].contains("leads"), "{why:?}");
    assert_eq!(m.names().len(), 3);
    // The deleted one was told, and ended.
    let deadline = std::time::Instant::now() + crate::support::PROMPT;
    while towpath::lock::is_locked(&b.join("default/hosts/1")) {
        assert!(std::time::Instant::now() < deadline, "it still runs");
        std::thread::yield_now();
    }
    // Its place is free for its next life.
    let (again, code, said) = m.json(&["host", "add", "b"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(list(&again, "added", "name"), ["b"]);
}

#[test]
fn names_come_from_the_environment_too() {
    let m = Machines::new("");
    let up = |name: &str, value: &str| {
        let mut command = m.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
        let out = command.env(name, value).env("TOWPATH_SRUN", "/nowhere/srun").output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        let up: Value = serde_json::from_slice(&out.stdout).unwrap();
        let names: Vec<String> =
            list(&up, "hosts", "name").iter().skip(1).map(|n| (*n).into()).collect();
        assert!(m.towpath(&["down"]).status.success());
        (names, text(&out.stderr))
    };
    let (names, said) = up("TOWPATH_HOSTS", "x,y[1-2]:3");
    assert_eq!(names, ["x", "y1", "y2"]);
    assert!(said.contains("hosts of TOWPATH_HOSTS"), "{said}");
    let (names, said) = up("SLURM_JOB_NODELIST", "n[01-02]");
    assert_eq!(names, ["n01", "n02"]);
    assert!(said.contains("hosts of Slurm"), "{said}");
}

#[test]
fn in_a_slurm_job_hosts_are_started_by_srun_which_stays() {
    let m = Machines::new("");
    let srun = "#!/bin/sh\n\
        while :; do case $1 in --nodelist=*) host=${1#*=} ;; -*) ;; *) break ;; esac; shift; done\n\
        echo $$ >> \"$FAKE/steps\"\n\
        TOWPATH_HOME=$FAKE/$host; export TOWPATH_HOME\n\
        \"$@\"\n\
        echo over >> \"$FAKE/over\"\n";
    std::fs::write(m.vm.file("srun"), srun).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(m.vm.file("srun"), mode).unwrap();
    let mut command = m.command(&["up", "--slurm", "--json", "--listen", "127.0.0.1:0"]);
    command.env("SLURM_JOB_NODELIST", "n[1-2]").env("SLURM_TASKS_PER_NODE", "3(x2)");
    let out = command.env("TOWPATH_SRUN", m.vm.file("srun")).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let hosts = m.hosts();
    assert!(hosts.contains(&("n1".into(), 3)) && hosts.contains(&("n2".into(), 3)), "{hosts:?}");
    // A step that ended would take its daemon along: both are still there.
    let steps = std::fs::read_to_string(m.vm.file("steps")).unwrap();
    assert_eq!(steps.lines().count(), 2);
    assert!(!m.vm.file("over").exists());
    assert!(m.towpath(&["down"]).status.success());
    assert!(m.nothing_left());
    assert_eq!(std::fs::read_to_string(m.vm.file("over")).unwrap(), "over\nover\n");
}

#[test]
fn two_hundred_hosts_are_asked_at_most_so_many_at_once() {
    let m = Machines::new("pretend[001-200]\n");
    // Each leaves a trace of how many there are, and fails: nothing but the bound is tried here.
    let script = "#!/bin/sh\n\
        mkdir \"$FAKE/now/$5\"; ls \"$FAKE/now\" | wc -l >> \"$FAKE/counts\"\n\
        rmdir \"$FAKE/now/$5\"; echo no >&2; exit 1\n";
    std::fs::write(m.vm.file("ssh"), script).unwrap();
    std::fs::create_dir(m.vm.file("now")).unwrap();
    let args = ["up", "--hostfile", "hosts", "--parallel", "7", "--listen", "127.0.0.1:0"];
    let (up, code, said) = m.json(&args);
    assert_eq!(code, Some(1));
    assert_eq!(up["failed"].as_array().unwrap().len(), 200);
    assert!(said.contains("[200/200]"), "{said}");
    let counts = std::fs::read_to_string(m.vm.file("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|l| l.trim().parse().unwrap()).collect();
    assert_eq!(counts.len(), 200);
    assert!(counts.iter().all(|n| *n <= 7), "{counts:?}");
}

#[test]
fn an_interrupted_start_leaves_nothing_behind() {
    let m = Machines::new("good addr=127.0.0.2\nhang\n");
    let mut command = m.command(&["up", "--hostfile", "hosts"]);
    let mut up = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|l| l.contains("[1/2] good")));
    Vm::signal(up.id(), "-INT");
    assert_eq!(up.wait().unwrap().code(), Some(130));
    assert!(m.nothing_left());
}

#[test]
fn faults_of_lists_are_named_before_anything_is_started() {
    let m = Machines::new("a\nb colour=red\n");
    let fails = |args: &[&str], words: &str| {
        let out = m.towpath(args);
        assert_eq!(out.status.code(), Some(255));
        let said = text(&out.stderr);
        assert!(said.contains(words), "{said}");
    };
    fails(&["up", "--hostfile", "hosts"], "hosts: line 2: unknown option `colour=red`");
    fails(&["up", "--hostfile", "nowhere"], "cannot read nowhere");
    fails(&["up", "--slurm"], "SLURM_JOB_NODELIST is not set");
    fails(&["host", "add", "a"], "is not up on this machine");
    fails(&["host", "delete", "a"], "is not up on this machine");
    let mut command = m.command(&["up"]);
    let out = command.env("TOWPATH_HOSTS", "n[3-1]").output().unwrap();
    assert!(text(&out.stderr).contains("TOWPATH_HOSTS: `n[3-1]`"), "{}", text(&out.stderr));
    assert!(m.nothing_left());
}
