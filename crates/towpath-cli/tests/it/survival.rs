//! What daemons live through: a founder that is killed and started again, as its unit would, a
//! leader that stands still, refusals. Real processes on loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PROMPT, Vm, text, wait_for, watch};
use towpath::protocol::{HostEvent, Reply};
use towpath::task::Wanted;
use towpath::{Client, Task};
use towpath_vm::talk::MailRules;

const ANY: Wanted = Wanted { source: None, tag: None, context: 0 };

/// The founder, as `towpath unit` starts it: in the foreground, and always the same way.
struct Founder {
    child: Child,
    /// Where it receives.
    addr: String,
}

impl Founder {
    fn command(vm: &Vm, listen: &str) -> Command {
        let mut command =
            vm.command(&["daemon", "--number", "1", "--listen", listen, "--name", "first"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(vm: &Vm) -> Self {
        Self::start_at(vm, "127.0.0.1:0")
    }

    fn start_at(vm: &Vm, listen: &str) -> Self {
        Self::of(Self::command(vm, listen))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let addr = said["started"]["addr"].as_str().expect("it has started").to_string();
        Self { child, addr }
    }

    /// Its engine dies; its exit status makes systemd start it again.
    fn die(mut self, vm: &Vm) {
        Vm::signal(vm.pid(1), "-KILL");
        let status = self.child.wait().unwrap();
        assert!(status.code().is_some_and(|code| code != 0), "{status}: Restart=on-failure");
    }
}

/// A virtual machine whose founder is a unit, with two more hosts, and a task on each of these.
fn three() -> (Vm, Founder, Task, Task) {
    let vm = Vm::new();
    assert!(vm.towpath(&["init"]).status.success());
    let founder = Founder::start(&vm);
    for _ in 0..2 {
        join(&vm);
    }
    let (a, b) = (task(&vm, 2), task(&vm, 3));
    (vm, founder, a, b)
}

fn join(vm: &Vm) {
    let token = text(&vm.towpath(&["token"]).stdout);
    let out = vm.with_input(&["join", "-"], token.as_bytes());
    assert!(out.status.success(), "{}", text(&out.stderr));
}

fn task(vm: &Vm, host: usize) -> Task {
    Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap()
}

/// Both send each other something, and have it.
fn talk(a: &mut Task, b: &mut Task, tag: i64) {
    let (to_a, to_b) = (a.id(), b.id());
    a.send(to_b, tag, b"there").unwrap();
    b.send(to_a, tag, b"back").unwrap();
    for (task, bytes) in [(b, &b"there"[..]), (a, b"back")] {
        let got = task.recv_timeout(&ANY, PROMPT).unwrap().expect("a message");
        assert_eq!((got.tag(), got.bytes()), (tag, bytes));
    }
}

/// Identifiers, states and names of all hosts, as a daemon of this machine tells them.
fn hosts(vm: &Vm) -> Vec<(String, String, String)> {
    let out = vm.towpath(&["hosts", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |h: &serde_json::Value, what: &str| h[what].as_str().unwrap().to_string();
    let hosts = list["hosts"].as_array().unwrap().iter();
    hosts.map(|h| (of(h, "id"), of(h, "state"), of(h, "name"))).collect()
}

/// Waits until a daemon's host is in contact with its leader, or is not.
fn wait_until_frozen(vm: &Vm, host: usize, frozen: bool) {
    let begin = Instant::now();
    while vm.client(host).info().unwrap().frozen != frozen {
        assert!(begin.elapsed() < PROMPT, "host {host} is not frozen: {frozen}");
        std::thread::yield_now();
    }
}

/// What a client is told of hosts for so long.
fn events(client: &mut Client, most: Duration) -> Vec<HostEvent> {
    let until = Instant::now() + most;
    let mut news = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return news;
        }
        if let Some(Reply::HostEvent(event)) = client.receiver.next(Some(left)).unwrap() {
            news.push(event);
        }
    }
}

#[test]
fn a_founder_that_was_killed_and_starts_again_has_its_hosts_and_tasks_go_on() {
    let (vm, founder, mut a, mut b) = three();
    talk(&mut a, &mut b, 1);
    let before = hosts(&vm);
    founder.die(&vm);
    talk(&mut a, &mut b, 2);
    let mut founder = Founder::start(&vm);
    for host in 2..=3 {
        wait_until_frozen(&vm, host, false);
    }
    let after = hosts(&vm);
    assert_eq!(before[1..], after[1..], "they are who they were");
    assert_ne!(before[0].0, after[0].0, "the founder is in its next life");
    assert_eq!((&before[0].2, after.len()), (&after[0].2, 3));
    talk(&mut a, &mut b, 3);
    // It leads, and again after that.
    join(&vm);
    assert_eq!(hosts(&vm).len(), 4);
    let out = vm.towpath(&["run", "--host", "h3", "--", "echo", "there"]);
    assert_eq!(text(&out.stdout), "there\n", "{}", text(&out.stderr));
    founder.die(&vm);
    founder = Founder::start(&vm);
    for host in 2..=4 {
        wait_until_frozen(&vm, host, false);
    }
    assert_eq!(hosts(&vm).len(), 4);
    talk(&mut a, &mut b, 4);
    // What is ended in order leaves nothing to come back to.
    drop((a, b));
    assert!(vm.towpath(&["down"]).status.success());
    assert!(founder.child.wait().unwrap().success());
    let left = ["table", "term", "control"].map(|name| vm.vm_dir().host(1).join(name).exists());
    assert_eq!(left, [false; 3]);
}

#[test]
fn hosts_that_a_founder_which_starts_again_does_not_hear_from_are_shown_as_such() {
    let vm = Vm::new();
    assert!(vm.towpath(&["init"]).status.success());
    let founder = Founder::start(&vm);
    join(&vm);
    let far = vm.pid(2);
    Vm::signal(far, "-STOP");
    // Nobody else can tell it of the second one.
    let name = format!("{}/2", rustix::system::uname().nodename().to_string_lossy());
    let table = vm.vm_dir().host(1).join("table");
    let kept = |bytes: Vec<u8>| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    let begin = Instant::now();
    while !std::fs::read(&table).is_ok_and(kept) {
        assert!(begin.elapsed() < PROMPT, "it is not on the disk");
    }
    founder.die(&vm);
    let mut founder = Founder::start(&vm);
    let shown = || text(&vm.towpath(&["hosts"]).stdout);
    let before = shown();
    let line = before.lines().find(|line| line.starts_with("h2")).expect("it is known");
    assert!(line.ends_with("  not heard from") && !line.contains(" up"), "{before}");
    let json = vm.towpath(&["hosts", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let heard = list["hosts"].as_array().unwrap().iter().map(|host| host["heard"].as_bool());
    assert_eq!(heard.collect::<Vec<_>>(), [Some(true), Some(false)], "{list}");
    let ps = vm.towpath(&["ps"]);
    let said = text(&ps.stderr);
    assert_eq!(ps.status.code(), Some(1), "{said}");
    assert!(said.starts_with("h2") && said.contains("not heard from"), "{said}");
    let top = vm.towpath(&["top", "--once"]);
    assert_eq!(top.status.code(), Some(0), "{}", text(&top.stderr));
    assert!(text(&top.stdout).contains("1 hosts did not tell"), "{}", text(&top.stdout));
    let run = vm.towpath(&["run", "-n", "4", "--", "echo", "here"]);
    assert_eq!(text(&run.stdout).matches("here").count(), 4, "{}", text(&run.stderr));
    let run = vm.towpath(&["run", "--host", "h2", "--", "true"]);
    assert_eq!(run.status.code(), Some(255));
    assert!(text(&run.stderr).contains("not heard from"), "{}", text(&run.stderr));
    Vm::signal(far, "-CONT");
    let begin = Instant::now();
    while shown().contains("not heard from") {
        assert!(begin.elapsed() < PROMPT, "{}", shown());
    }
    let run = vm.towpath(&["run", "--host", "h2", "--", "echo", "there"]);
    assert_eq!(text(&run.stdout), "there\n", "{}", text(&run.stderr));
    assert!(vm.towpath(&["down"]).status.success());
    assert!(founder.child.wait().unwrap().success());
}

#[test]
fn deleted_hosts_are_remembered_over_an_ordinary_restart_of_a_founder_that_is_alone() {
    let vm = Vm::new();
    assert!(vm.towpath(&["init"]).status.success());
    let table = vm.vm_dir().host(1).join("table");
    let restart = |mut founder: Founder| {
        Vm::signal(vm.pid(1), "-TERM");
        assert!(founder.child.wait().unwrap().success());
        let is_kept = table.exists();
        (is_kept, Founder::start(&vm))
    };
    let (is_kept, founder) = restart(Founder::start(&vm));
    assert!(!is_kept, "there is nobody to come back to");
    join(&vm);
    assert!(vm.towpath(&["host", "delete", "h2"]).status.success());
    // Once, and in its next life, which knows it from the table only.
    let (is_kept, founder) = restart(founder);
    assert!(is_kept, "the deleted host may not have heard of it");
    let (is_kept, mut founder) = restart(founder);
    assert!(is_kept, "nor by now");
    // The end of the virtual machine is the end of that, too.
    assert!(vm.towpath(&["down"]).status.success());
    assert!(founder.child.wait().unwrap().success());
    assert!(!table.exists());
}

#[test]
fn down_says_which_hosts_did_not_hear_of_it_and_they_do_once_the_founder_is_up_again() {
    let vm = Vm::up(2);
    let far = vm.pid(2);
    // As if it were another machine's: nobody here sees its socket.
    let (dir, away) = (vm.vm_dir().host(2), vm.vm_dir().path.join("away"));
    std::fs::rename(&dir, &away).unwrap();
    Vm::signal(far, "-STOP");
    let out = vm.towpath(&["down"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let said = text(&out.stderr);
    assert!(said.contains("1 host down") && said.contains("left: h2"), "{said}");
    assert!(said.contains("does not answer, and may run on"), "{said}");
    Vm::signal(far, "-CONT");
    let out = vm.towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (limit, pid) = (PROMPT.as_secs().to_string(), format!("--pid={far}"));
    let ended = Command::new("timeout").args([&limit, "tail", &pid, "-f", "/dev/null"]).status();
    assert!(ended.unwrap().success(), "it was deleted, and runs on");
    // Now nobody is left who has to hear of anything.
    let out = vm.towpath(&["down"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(!vm.vm_dir().host(1).join("table").exists());
}

#[test]
fn up_brings_a_killed_founder_back_to_hosts_that_still_run() {
    let vm = Vm::up(3);
    let (mut a, mut b) = (task(&vm, 2), task(&vm, 3));
    let before = hosts(&vm);
    let mut client = watch(&vm, 2);
    Vm::signal(vm.pid(1), "-KILL");
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::LeaderLost(_))));
    let out = vm.towpath(&["up", "--hosts", "3"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(wait_for(&mut client, |e| matches!(e, HostEvent::LeaderBack(_))));
    assert_eq!(before[1..], hosts(&vm)[1..]);
    talk(&mut a, &mut b, 1);
}

#[test]
fn a_founder_that_lost_its_table_ends_nobody_and_hosts_say_what_is_wrong() {
    let (vm, founder, mut a, mut b) = three();
    // Without its table it does not know where it received either.
    let addr = founder.addr.clone();
    founder.die(&vm);
    let table = vm.vm_dir().host(1).join("table");
    let kept = std::fs::read(&table).unwrap();
    std::fs::remove_file(&table).unwrap();
    let founder = Founder::start_at(&vm, &addr);
    let begin = Instant::now();
    let trouble = |client: &mut Client| client.info().unwrap().trouble.join("\n");
    while trouble(&mut vm.client(2)).is_empty() {
        assert!(begin.elapsed() < PROMPT, "nothing is told");
        std::thread::yield_now();
    }
    let said = text(&vm.towpath(&["hosts"]).stderr);
    assert!(said.contains("does not take this host back") && said.contains("hint:"), "{said}");
    let log = std::fs::read_to_string(vm.vm_dir().host(2).join("daemon.log")).unwrap();
    assert_eq!(log.matches("does not take this host back").count(), 1, "{log}");
    talk(&mut a, &mut b, 1);
    // With its table, they are one again.
    founder.die(&vm);
    std::fs::write(&table, &kept[..kept.len() - 1]).unwrap();
    let out = Founder::command(&vm, &addr).output().unwrap();
    let said = text(&out.stderr);
    assert!(!out.status.success() && said.contains("is damaged"), "{said}");
    assert!(said.contains("hint: put back a copy of it"), "{said}");
    std::fs::write(&table, &kept).unwrap();
    let mut founder = Founder::start(&vm);
    for host in 2..=3 {
        wait_until_frozen(&vm, host, false);
    }
    assert_eq!(hosts(&vm).len(), 3);
    talk(&mut a, &mut b, 2);
    drop((a, b));
    assert!(vm.towpath(&["down"]).status.success());
    founder.child.wait().unwrap();
}

#[test]
fn a_leader_that_stood_still_ends_nobody() {
    let vm = Vm::up(3);
    let (mut a, mut b) = (task(&vm, 2), task(&vm, 3));
    talk(&mut a, &mut b, 1);
    let before = hosts(&vm);
    let mut clients = [watch(&vm, 2), watch(&vm, 3)];
    let leader = vm.pid(1);
    Vm::signal(leader, "-STOP");
    for client in &mut clients {
        assert!(wait_for(client, |e| matches!(e, HostEvent::LeaderLost(_))));
    }
    talk(&mut a, &mut b, 2);
    Vm::signal(leader, "-CONT");
    for client in &mut clients {
        assert!(wait_for(client, |e| matches!(e, HostEvent::LeaderBack(_))));
    }
    // Longer than anybody is given to come back.
    let mut news = events(&mut clients[0], Duration::from_secs(5));
    // Where the machine is busy it may be out of contact once more, for a moment.
    news.retain(|e| !matches!(e, HostEvent::LeaderLost(_) | HostEvent::LeaderBack(_)));
    news.retain(|e| !matches!(e, HostEvent::Silent(_) | HostEvent::Heard(_)));
    assert_eq!(news, [], "nobody goes, and nobody comes");
    assert_eq!(hosts(&vm), before);
    talk(&mut a, &mut b, 3);
}

#[test]
fn how_long_a_silent_host_is_waited_for_is_the_founders_to_say() {
    let vm = Vm::new();
    let up = vm.towpath(&["up", "--lost-after-ms", "400"]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let token = text(&vm.towpath(&["token"]).stdout);
    for (said, told) in [(&["--lost-after-ms", "600"][..], true), (&[], false)] {
        let out = vm.towpath(&[&["join", token.trim()], said].concat());
        let text = text(&out.stderr);
        assert!(out.status.success(), "{text}");
        assert_eq!(text.contains("--lost-after-ms 600 does not count"), told, "{text}");
    }
}

/// The hosts of one machine that is far too busy are not taken for dead. `TOWPATH_CROWD` hosts
/// (200 if it is not set), watched for 20 s.
#[test]
#[ignore = "takes minutes of both processors: `make nightly`"]
fn a_crowd_of_daemons_on_a_busy_machine_loses_nobody() {
    let crowd = std::env::var("TOWPATH_CROWD").unwrap_or_else(|_| "200".into());
    let vm = Vm::new();
    let up = vm.towpath(&["up", "--hosts", &crowd]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let mut client = watch(&vm, 1);
    let news = events(&mut client, Duration::from_secs(20));
    let lost = |e: &&HostEvent| matches!(e, HostEvent::Lost(_) | HostEvent::LeaderLost(_));
    let lost = news.iter().filter(lost).count();
    assert_eq!((lost, hosts(&vm).len()), (0, crowd.parse().unwrap()));
}

/// A copy of all that the hosts of a machine have on their disks.
fn copy_of(vm: &Vm) -> Vm {
    let copy = Vm::new();
    let all = vm.dir.path().join(".");
    let copied = Command::new("cp").arg("-r").arg(all).arg(copy.dir.path()).status().unwrap();
    assert!(copied.success());
    for name in ["sock", "task.sock", "lock"] {
        std::fs::remove_file(copy.vm_dir().host(1).join(name)).unwrap();
    }
    let private = Command::new("chmod").args(["-R", "go-rwx"]).arg(copy.dir.path()).status();
    assert!(private.unwrap().success());
    copy
}

#[test]
fn a_copy_of_a_directory_is_not_let_in_while_its_host_is_there_and_says_so() {
    for voters in ["1", "3"] {
        let vm = Vm::new();
        assert!(vm.towpath(&["init"]).status.success());
        let mut founder = Founder::command(&vm, "127.0.0.1:0");
        founder.args(["--voters", voters]);
        let founder = Founder::of(founder);
        join(&vm);
        join(&vm);
        let (mut a, mut b) = (task(&vm, 2), task(&vm, 3));
        let before = hosts(&vm);
        let (begin, count) = (Instant::now(), voters.parse().unwrap());
        while vm.client(1).info().unwrap().voters.len() < count && count > 1 {
            assert!(begin.elapsed() < PROMPT);
            std::thread::yield_now();
        }
        let copy = copy_of(&vm);
        let mut second = Founder::command(&copy, "127.0.0.1:0");
        let mut second = second.args(["--voters", voters]).spawn().unwrap();
        let begin = Instant::now();
        while second.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < PROMPT || second.kill().is_err(), "it runs");
            std::thread::yield_now();
        }
        let out = second.wait_with_output().unwrap();
        let said = text(&out.stderr);
        let at = format!("runs at {}, and answers", founder.addr);
        assert!(!out.status.success() && said.contains(&at), "{voters}: {said}");
        assert!(said.contains("hint: one of the two runs from a copy"), "{said}");
        assert_eq!(hosts(&vm), before, "nobody was lost");
        talk(&mut a, &mut b, 1);
        let log = std::fs::read_to_string(vm.vm_dir().host(2).join("daemon.log")).unwrap();
        assert!(log.contains("another daemon with its key asks to be let in"), "{log}");
        founder.die(&vm);
    }
}

/// What is in the mailbox `m` for all to take.
fn entries(task: &mut Task) -> usize {
    task.mailboxes("m").unwrap().iter().map(|mailbox| mailbox.entries.len()).sum()
}

#[test]
fn groups_and_mailboxes_outlive_a_founder_that_leads_alone_and_the_whole_machine() {
    let (vm, mut founder, mut a, mut b) = three();
    let rules = MailRules { persistent: true, many: true, ..MailRules::default() };
    assert_eq!(a.join_group("g").unwrap(), 0);
    for round in 1..=3 {
        b.mail_put("m", None, rules, 0, vec![round; 100]).unwrap();
        // At once behind the answer: what was answered is written.
        founder.die(&vm);
        founder = Founder::start(&vm);
        for host in 2..=3 {
            wait_until_frozen(&vm, host, false);
        }
        assert_eq!(entries(&mut a), usize::from(round));
        assert_eq!(a.group_members("g").unwrap().members, [Some(a.id())]);
    }
    assert_eq!(b.join_group("g").unwrap(), 1, "as if nothing had been");
    // All die at once: tasks have ended, and what outlives them is there.
    drop((a, b));
    for host in 2..=3 {
        Vm::signal(vm.pid(host), "-KILL");
    }
    founder.die(&vm);
    let founder = Founder::start(&vm);
    let mut own = task(&vm, 1);
    let begin = Instant::now();
    let count = loop {
        // Not before it leads again.
        match own.mailboxes("m") {
            Ok(boxes) => break boxes.iter().map(|mailbox| mailbox.entries.len()).sum::<usize>(),
            Err(why) => assert!(begin.elapsed() < PROMPT, "{why}"),
        }
    };
    assert_eq!(count, 3);
    drop(own);
    founder.die(&vm);
    // One that is damaged is named, and nothing is made of it.
    let log = vm.vm_dir().host(1).join("control/log");
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, [&[0; 4], &whole[4..]].concat()).unwrap();
    let out = Founder::command(&vm, "127.0.0.1:0").output().unwrap();
    let said = text(&out.stderr);
    assert!(
        !out.status.success() && said.contains("control/log") && said.contains("hint:"),
        "{said}"
    );
    std::fs::write(&log, whole).unwrap();
    Founder::start(&vm).die(&vm);
}
