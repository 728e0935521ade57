//! Tasks that do a part of the system's work are asked for it: C programs play them (manager.c,
//! hoster.c, tasker.c).

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::Machine;

/// Compiles a program against the installed headers.
fn compiled(machine: &Machine, name: &str) -> PathBuf {
    let folder = machine.folder.path();
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-O1", "-o"]).arg(&program);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{name}.c")));
    cc.arg(format!("-I{}/include/towpath-pvm3", folder.display()));
    cc.arg(format!("-L{}/lib/towpath", folder.display())).args(["-lgpvm3", "-lpvm3"]);
    assert!(cc.status().expect("a C compiler").success());
    program
}

/// A program that runs beside others; its lines as they come.
struct Beside {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Beside {
    fn start(machine: &Machine, program: &str, args: &[&str]) -> Self {
        Self::start_with(machine.command(Path::new("timeout")), program, args)
    }

    fn start_with(mut command: Command, program: &str, args: &[&str]) -> Self {
        command.arg("60").arg(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("coreutils");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("another line").expect("text")
    }

    fn end(mut self) {
        let mut kill = Command::new("kill");
        assert!(kill.arg(self.child.id().to_string()).status().expect("kill").success());
        self.child.wait().expect("its end");
    }

    /// The lines until its end, which is a good one.
    fn rest(mut self) -> Vec<String> {
        let rest = self.lines.by_ref().map(|line| line.expect("text")).collect();
        assert!(self.child.wait().expect("its end").success());
        rest
    }
}

#[test]
fn a_manager_decides_for_the_others() {
    let Some(machine) = Machine::new(2, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "manager").display().to_string();
    let mut manager = Beside::start(&machine, &program, &["manage"]);
    assert_eq!(manager.line(), "no manager: 0");
    assert_eq!(manager.line(), "first host: 1");
    let mut user = machine.command(Path::new("timeout"));
    user.args(["60", &program, "use", "3"]).env("PVM_EXPORT", "NUMBER").env("NUMBER", "42");
    let user = user.output().expect("coreutils");
    let text = String::from_utf8_lossy(&user.stdout);
    assert_eq!(
        text,
        "started 3\nhere: 0\nall ended\n1 host, managed\n1 task, invented\ndelhosts 0, -8\n\
         addhosts 0, -29\n"
    );
    let over = machine.run(&program, &["over"], "");
    assert_eq!(over, "allowed: 0\nagain the task itself: 1\n");
    let told = manager.rest();
    let ended = "a task ended with 3";
    let spawned = "spawn 3 of manager, argument child";
    let came = "a task came";
    let heard = told.iter().filter(|line| *line != came).collect::<Vec<_>>();
    assert_eq!(heard, [spawned, "notify 1 of 3", ended, ended, ended, "a task ended with 0"]);
    // The user, and who takes over.
    assert_eq!(told.len() - heard.len(), 2, "{told:?}");
    // Nobody manages any more.
    let mut alone = machine.command(Path::new("timeout"));
    alone.args(["60", &program, "use", "1"]).env("PVM_EXPORT", "NUMBER").env("NUMBER", "42");
    let alone = alone.output().expect("coreutils");
    let text = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(text.contains("2 host, "), "{text}");
}

/// A manager that is killed with a question before it: the question goes straight.
#[test]
fn a_manager_that_dies_is_not_waited_for() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "manager").display().to_string();
    let mut manager = Beside::start(&machine, &program, &["hang"]);
    assert_eq!(manager.line(), "no manager: 0");
    let mut user = Beside::start(&machine, &program, &["config"]);
    assert_eq!(manager.line(), "asked");
    manager.end();
    assert_eq!(user.line(), "1 hosts");
    assert!(user.rest().is_empty());
}

/// PVM's own sample manager.
#[test]
fn the_sample_manager_of_pvm() {
    let Some(machine) = Machine::new(1, "/usr/bin/srm.pvm") else { return };
    let manager = Beside::start(&machine, "/usr/bin/srm.pvm", &[]);
    for _ in 0..1000 {
        if machine.run("/usr/bin/gmbi", &[], "").contains("###_PVM_RM_###") {
            break;
        }
    }
    let hello = machine.run("/usr/bin/hello.pvm", &[], "");
    assert!(hello.contains("hello, world from"), "{hello}");
    manager.end();
}

#[test]
fn a_hoster_starts_hosts() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "hoster").display().to_string();
    let mut command = machine.command(Path::new("timeout"));
    let towpath = crate::support::towpath();
    let folder = towpath.parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path);
    let homes = machine.folder.path().display().to_string();
    let mut hoster = Beside::start_with(command, &program, &["serve", &homes]);
    assert_eq!(hoster.line(), "hoster: 0");
    let added = machine.run(&program, &["add", "alpha ip=127.0.0.2"], "");
    let expected = "a second one: -30\nadded 1, 1\non another host: -34\n1 host\n";
    assert_eq!(added, expected);
    assert_eq!(hoster.rest(), ["1 host, alpha", "ddpro<2316> ", "hoster no more: 0"]);
}

/// A tasker that serves so many tasks.
fn serving(machine: &Machine, program: &str, tasks: &str) -> Beside {
    let mut command = machine.command(Path::new("timeout"));
    command.env("BY_TASKER", "yes");
    let mut tasker = Beside::start_with(command, program, &["serve", tasks]);
    assert_eq!(tasker.line(), "tasker: 0");
    tasker
}

#[test]
fn a_tasker_starts_the_tasks_of_its_host() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "tasker").display().to_string();
    let tasker = serving(&machine, &program, "2");
    let used = machine.run(&program, &["use"], "");
    let mine = "by a tasker: 1, mine: 1";
    let expected = ["a second one: -30", "spawned 2", mine, mine];
    let expected = [&expected[..], &["2 of my children among 4 tasks", "killed: 1", "ended: 1"]];
    assert_eq!(used.lines().collect::<Vec<_>>(), expected.concat());
    let started = "start child, 0, of a daemon: 1";
    let told = tasker.rest();
    assert_eq!(told, [started, started, "end 15", "end 1280", "tasker no more: 0"]);
    machine.wait_for_end_of_tasks();
    // Daemons start tasks again.
    assert_eq!(machine.run(&program, &["try"], ""), "by a tasker: 0, mine: 1\n");
}

/// What stands for the task cannot pass this signal on.
#[test]
fn a_task_of_a_tasker_can_be_killed() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "tasker").display().to_string();
    let tasker = serving(&machine, &program, "1");
    let said = machine.run(&program, &["kill"], "");
    assert_eq!(said, "by a tasker: 1, mine: 1\nkilled: 0\n");
    assert_eq!(tasker.rest(), ["start endless, 0, of a daemon: 1", "end 9", "tasker no more: 0"]);
}

/// Tasks of the console are started by it too, and what they print is the tasker's.
#[test]
fn a_tasker_starts_tasks_of_the_console() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "tasker").display().to_string();
    let tasker = serving(&machine, &program, "1");
    let towpath = crate::support::towpath().display().to_string();
    let said = machine.run(&towpath, &["pvm"], &format!("spawn {program} say\nquit\n"));
    assert!(said.contains("1 successful"), "{said}");
    let told = tasker.rest();
    let said = "said by a child of the tasker: 1";
    assert_eq!(told, ["start say, 0, of a daemon: 1", said, "end 0", "tasker no more: 0"]);
}

/// A tasker that ends with a question before it: the task is started nevertheless.
#[test]
fn a_tasker_that_dies_is_not_waited_for() {
    let Some(machine) = Machine::new(1, "/usr/bin/cc") else { return };
    let program = compiled(&machine, "tasker").display().to_string();
    let mut tasker = Beside::start(&machine, &program, &["hang"]);
    assert_eq!(tasker.line(), "tasker: 0");
    let user = Beside::start(&machine, &program, &["try"]);
    assert_eq!(tasker.line(), "asked");
    tasker.end();
    assert_eq!(user.rest(), ["by a tasker: 0, mine: 1"]);
}
