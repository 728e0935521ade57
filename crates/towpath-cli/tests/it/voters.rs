//! A virtual machine whose log three hosts keep: any one of them may be killed. Real processes on
//! loopback.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use towpath::Task;
use towpath::task::Wanted;
use towpath_vm::talk::{MailRules, RegistryOp};
use towpath_wire::HostId;

use crate::pvm::{compiled, library};
use crate::support::{PROMPT, Vm, text};

const ANY: Wanted = Wanted { source: None, tag: None, context: 0 };
/// How long control may stand still: an election is 1 to 2 s after the last word of a leader, and
/// the machine is busy.
const GAP: Duration = Duration::from_secs(6);

pub(crate) fn up(hosts: &str) -> Vm {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", hosts]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    wait_for_voters(&vm);
    vm
}

/// Hosts as `towpath hosts --json` tells them.
fn hosts(vm: &Vm) -> Vec<serde_json::Value> {
    let out = vm.towpath(&["hosts", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    list["hosts"].as_array().cloned().unwrap_or_default()
}

/// Three vote that are up, and nobody else: whoever leads knows it.
fn wait_for_voters(vm: &Vm) {
    let begin = Instant::now();
    loop {
        let leader = wait_for_leader(vm);
        let voters = vm.client(leader).info().unwrap().voters;
        let up =
            |id: &HostId| hosts(vm).iter().any(|h| h["id"] == id.to_string() && h["state"] == "up");
        if voters.len() == 3 && voters.iter().all(up) {
            return;
        }
        assert!(begin.elapsed() < PROMPT, "{voters:?}");
    }
}

fn wait_until(vm: &Vm, is: impl Fn(&[serde_json::Value]) -> bool) -> Vec<serde_json::Value> {
    let begin = Instant::now();
    loop {
        let hosts = hosts(vm);
        if is(&hosts) {
            return hosts;
        }
        assert!(begin.elapsed() < PROMPT, "{hosts:#?}");
    }
}

/// Which of this machine's daemons leads, as that sees it itself.
fn leader(vm: &Vm) -> Option<usize> {
    let numbers = vm.vm_dir().local_hosts().unwrap();
    numbers.into_iter().find(|n| {
        let socket = vm.vm_dir().host(*n).join("sock");
        let info = towpath::Client::connect(&socket).ok().and_then(|mut c| c.info().ok());
        info.is_some_and(|info| info.me.is_some() && info.me == info.leader && !info.frozen)
    })
}

fn wait_for_leader(vm: &Vm) -> usize {
    let begin = Instant::now();
    loop {
        if let Some(leader) = leader(vm) {
            return leader;
        }
        assert!(begin.elapsed() < PROMPT, "nobody leads");
    }
}

fn kill(vm: &Vm, host: usize) {
    Vm::signal(vm.pid(host), "-KILL");
}

pub(crate) fn task(vm: &Vm, host: usize) -> Task {
    Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap()
}

/// A farm over so many numbers, each of which takes so long. Its daemon is the first: it goes on
/// through another.
pub(crate) fn farm(vm: &Vm, items: u32, sleep: &str) -> JoinHandle<()> {
    let script = format!("sleep {sleep}; echo $1");
    let mut farm = vm.command(&["farm", "--retries", "20", "--", "sh", "-c", &script, "sh", "{}"]);
    farm.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let numbers: Vec<String> = (1..=items).map(|n| n.to_string()).collect();
    std::thread::spawn(move || {
        let mut child = farm.spawn().unwrap();
        child.stdin.take().unwrap().write_all(numbers.join("\n").as_bytes()).unwrap();
        let farmed = child.wait_with_output().unwrap();
        assert!(farmed.status.success(), "{}", text(&farmed.stderr));
        let mut lines: Vec<u32> =
            text(&farmed.stdout).lines().map(|l| l.parse().unwrap()).collect();
        lines.sort_unstable();
        assert!(lines.into_iter().eq(1..=items), "each item has one result");
    })
}

/// The leader is killed so many times, each time replaced by a host that joins, while two tasks of
/// the fifth host use groups and mailboxes. That one is not to lead.
pub(crate) fn kill_leaders(vm: &Vm, kills: usize) {
    let out = vm.towpath(&["host", "drain", "--no-wait", "h5"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let up = || hosts(vm).iter().filter(|h| h["state"] == "up").count();
    let all = up();
    let (mut a, mut b) = (task(vm, 5), task(vm, 5));
    let both = [&mut a, &mut b].map(|task| task.join_group("g").is_ok());
    assert_eq!(both, [true; 2]);
    let mut gaps = Vec::new();
    // Each second one is too long for the log.
    let content = |round: usize| round.to_le_bytes().repeat(1 + round % 2 * 10_000);
    for round in 0..kills {
        let killed = wait_for_leader(vm);
        assert!(!(5..=6).contains(&killed), "it is drained");
        kill(vm, killed);
        let begin = Instant::now();
        // What is asked while nobody leads is answered by the next one.
        let rules = MailRules { many: true, ..MailRules::default() };
        a.mail_put("m", None, rules, 0, content(round)).unwrap();
        gaps.push(begin.elapsed());
        let barrier = std::thread::spawn(move || {
            b.group_barrier("g", 2).unwrap();
            b
        });
        a.group_barrier("g", 2).unwrap();
        b = barrier.join().unwrap();
        assert_ne!(wait_for_leader(vm), killed);
        let token = text(&vm.towpath(&["token"]).stdout);
        let out = vm.with_input(&["join", "-"], token.as_bytes());
        assert!(out.status.success(), "{}", text(&out.stderr));
        wait_for_voters(vm);
        assert_eq!(up(), all, "joined once");
    }
    gaps.sort_unstable();
    println!("control stood still for {:?} in the median of {gaps:?}", gaps[kills / 2]);
    assert!(gaps.iter().all(|gap| *gap < GAP), "{gaps:?}");
    let boxes = a.mailboxes("m").unwrap();
    assert_eq!(boxes[0].entries.len(), kills, "each was put once");
    assert_eq!(a.group_members("g").unwrap().members.len(), 2);
    for round in 0..kills {
        let (index, name) = (None, "m".into());
        let get = RegistryOp::Get { name, index, from: 0, delete: true, wait: false };
        assert_eq!(a.mail_get(get).unwrap().content, content(round));
    }
    // Neither has heard anything else.
    assert!(a.recv_timeout(&ANY, Duration::ZERO).unwrap().is_none());
}

#[test]
fn the_leader_is_killed_again_and_again_and_nothing_is_lost_that_was_elsewhere() {
    let vm = up("5");
    let farm = farm(&vm, 200, "0.1");
    kill_leaders(&vm, 10);
    farm.join().unwrap();
}

/// Two of them: rounds of a barrier and of a number there and back, until a file is there.
const ROUNDS: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <pvm3.h>
static int there(int other, int *said, int wanted, int go) {
    pvm_initsend(PvmDataDefault);
    pvm_pkint(said, 1, 1);
    pvm_pkint(&go, 1, 1);
    return wanted < 0 ? wanted : pvm_send(other, 7);
}
int main(void) {
    int me = pvm_joingroup("p"), round = 0, go = 1, got, other;
    while (pvm_gsize("p") < 2)
        usleep(10000);
    other = pvm_gettid("p", 1 - me);
    for (; go; round++) {
        int barrier = pvm_barrier("p", 2);
        if (me == 0) {
            go = access("stop", F_OK) != 0;
            barrier = there(other, &round, barrier, go);
        }
        if (barrier < 0 || pvm_recv(other, 7) < 0) {
            printf("%d in round %d\n", barrier, round);
            return 1;
        }
        pvm_upkint(&got, 1, 1);
        pvm_upkint(&go, 1, 1);
        if (got != round || (me == 1 && there(other, &round, 0, go) < 0)) {
            printf("%d instead of %d\n", got, round);
            return 1;
        }
    }
    printf("%d rounds\n", round);
    return pvm_exit();
}"#;

/// `TOWPATH_KILLS` of leaders (100 if it is not set), while three farms and a program of PVM's
/// run: minutes.
#[test]
#[ignore = "takes minutes: `make nightly`"]
fn a_hundred_leaders_are_killed_while_farms_and_a_program_of_pvms_run() {
    let kills = std::env::var("TOWPATH_KILLS").map_or(100, |n| n.parse().unwrap());
    let vm = up("5");
    let farms: Vec<_> = (0..3).map(|_| farm(&vm, 10 * kills as u32, "0.5")).collect();
    let pvm = compiled(&vm, "rounds", ROUNDS).then(|| {
        for name in ["libpvm3.so.3", "libgpvm3.so.3"] {
            symlink(library(), vm.file(name)).unwrap();
        }
        let start = || {
            let mut program = Command::new("./rounds");
            program.current_dir(vm.dir.path()).env("LD_LIBRARY_PATH", vm.dir.path());
            program.env("TOWPATH_TASK_SOCKET", vm.vm_dir().host(5).join("task.sock"));
            program.stdout(Stdio::piped()).spawn().unwrap()
        };
        [start(), start()]
    });
    kill_leaders(&vm, kills);
    std::fs::write(vm.file("stop"), "").unwrap();
    for program in pvm.into_iter().flatten() {
        let out = program.wait_with_output().unwrap();
        let said = text(&out.stdout);
        println!("a program of PVM's: {said}");
        assert!(out.status.success() && said.ends_with(" rounds\n"), "{said}");
    }
    for farm in farms {
        farm.join().unwrap();
    }
}

#[test]
fn a_token_admits_hosts_after_the_one_that_issued_it_was_killed_as_often_as_it_was_made_for() {
    let vm = up("4");
    let token = |uses: &str| text(&vm.towpath(&["token", "--uses", uses]).stdout);
    let (twice, once, ended) = (token("2"), token("1"), token("9"));
    let named = |token: &str| token.parse::<towpath::Token>().unwrap().leaders.len();
    assert_eq!(named(&twice), 3, "all that may lead");
    let join = |token: &str| vm.with_input(&["join", "-"], token.as_bytes());
    let is_in = |out: &std::process::Output| {
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    is_in(&join(&once));
    let id = ended.parse::<towpath::Token>().unwrap().id();
    assert!(vm.towpath(&["token", "--revoke", &id]).status.success());
    let killed = wait_for_leader(&vm);
    kill(&vm, killed);
    // Hosts with keys of their own: whoever has that of the killed one comes back without a token.
    let other = Vm::new();
    let join = |token: &str| other.with_input(&["join", "-"], token.as_bytes());
    // Nobody waits for the next one: a newcomer asks one after the other, until one of them leads.
    is_in(&join(&twice));
    assert_ne!(wait_for_leader(&vm), killed);
    for (token, why) in [(&once, "as many hosts as it was good for"), (&ended, "been revoked")] {
        let out = join(token);
        assert_eq!(out.status.code(), Some(255));
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
    let out = vm.towpath(&["token", "--list", "--all", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let used = |token: &str| {
        let id = token.parse::<towpath::Token>().unwrap().id();
        let all = list["tokens"].as_array().unwrap();
        all.iter().find(|t| t["id"] == id).map(|t| t["uses"].as_u64().unwrap())
    };
    assert_eq!([used(&once), used(&twice), used(&ended)], [Some(1), Some(1), None]);
    is_in(&join(&twice));
    let out = join(&twice);
    assert!(text(&out.stderr).contains("as many hosts"), "{}", text(&out.stderr));
}

#[test]
fn a_founder_that_was_killed_and_starts_again_follows_whoever_leads() {
    let vm = up("4");
    let mut task = task(&vm, 4);
    task.join_group("g").unwrap();
    kill(&vm, 1);
    assert_ne!(wait_for_leader(&vm), 1);
    let out = vm.towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let up = |h: &&serde_json::Value| h["state"] == "up";
    wait_until(&vm, |hosts| hosts.iter().filter(up).count() == 4);
    wait_for_voters(&vm);
    let info = vm.client(1).info().unwrap();
    assert!(info.me.is_some() && info.me != info.leader, "it follows");
    assert_eq!(task.group_members("g").unwrap().members.len(), 1, "the group is there");
    // All of it ends.
    let out = vm.towpath(&["down"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(hosts(&vm).is_empty());
}

#[test]
fn where_most_of_those_that_voted_are_gone_the_founder_leads_again_when_told_to() {
    let vm = up("3");
    for host in [2, 3] {
        kill(&vm, host);
    }
    let frozen = |vm: &Vm| vm.client(1).info().unwrap().frozen;
    let begin = Instant::now();
    while !frozen(&vm) {
        assert!(begin.elapsed() < PROMPT, "it can have nothing decided");
    }
    let out = vm.towpath(&["hosts"]);
    assert!(text(&out.stderr).contains("until another one leads"), "{}", text(&out.stderr));
    kill(&vm, 1);
    // The machine of one of them is gone for good: of the last one, since the other may have been
    // lost before that died, and is not waited for then.
    std::fs::rename(vm.vm_dir().host(3), vm.file("gone")).unwrap();
    // Not told so, it asks those that are gone, and says what can be done.
    let out = vm.towpath(&["up"]);
    let said = text(&out.stderr);
    assert!(!out.status.success() && said.contains("`towpath up --recover` leads"), "{said}");
    let out = vm.towpath(&["up", "--recover"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(leader(&vm), Some(1));
    // It takes hosts in again, and these keep the log with it.
    for _ in 0..2 {
        let token = text(&vm.towpath(&["token"]).stdout);
        let out = vm.with_input(&["join", "-"], token.as_bytes());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    wait_for_voters(&vm);
}

/// Hosts are told to end, all at once; done once they have.
fn end(vm: &Vm, hosts: &[usize]) {
    let pids: Vec<u32> = hosts.iter().map(|host| vm.pid(*host)).collect();
    for pid in pids {
        Vm::signal(pid, "-TERM");
    }
    let begin = Instant::now();
    while hosts.iter().any(|host| towpath::lock::is_locked(&vm.vm_dir().host(*host))) {
        assert!(begin.elapsed() < PROMPT, "they end");
    }
}

#[test]
fn two_of_three_that_are_ended_on_their_machines_leave_one_that_goes_on() {
    let all = [1, 2, 3];
    for (ended, together) in [([2, 3], true), ([1, 2], true), ([2, 3], false)] {
        let vm = up("3");
        // Its host takes a while to end.
        let script = "trap '' TERM; echo runs; while :; do sleep 0.1; done";
        let mut stays_on = vm.command(&["run", "--host", "h2", "--", "sh", "-c", script]);
        let mut stays_on = stays_on.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        BufReader::new(stays_on.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        for hosts in ended.chunks(if together { 2 } else { 1 }) {
            end(&vm, hosts);
        }
        let stays = *all.iter().find(|host| !ended.contains(host)).unwrap();
        assert_eq!(wait_for_leader(&vm), stays);
        task(&vm, stays).join_group("g").unwrap();
        stays_on.wait().unwrap();
        // They come back, and three keep the log again.
        for host in ended {
            assert!(vm.vm_dir().host(host).join("control/log").is_file(), "it keeps what it had");
            let token = text(&vm.towpath(&["token"]).stdout);
            let out = vm.with_input(&["join", "-"], token.as_bytes());
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
        wait_for_voters(&vm);
        // The last one goes with nobody to decide anything, and all of it comes back from disks.
        end(&vm, &all);
        let out = vm.towpath(&["up", "--hosts", "3"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        wait_for_voters(&vm);
    }
}

#[test]
fn a_virtual_machine_that_was_founded_with_one_keeps_to_it() {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", "3", "--voters", "1"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let alone = |vm: &Vm, host: String| {
        text(&vm.towpath(&["status"]).stdout).contains(&format!("{host} alone keeps the log"))
    };
    assert!(alone(&vm, "h1.1".to_string()));
    kill(&vm, 1);
    let out = vm.towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    wait_until(&vm, |hosts| hosts.iter().filter(|h| h["state"] == "up").count() == 3);
    // Three would vote after a fifth of that.
    let (begin, leads) = (Instant::now(), vm.client(1).info().unwrap().me.unwrap());
    while begin.elapsed() < Duration::from_secs(1) {
        assert!(alone(&vm, leads.to_string()), "{}", text(&vm.towpath(&["status"]).stdout));
    }
}

/// Mailboxes, once somebody leads.
fn mailboxes(vm: &Vm, host: usize) -> Vec<String> {
    let (mut task, begin) = (task(vm, host), Instant::now());
    loop {
        match task.mailboxes("*") {
            Ok(boxes) => return boxes.into_iter().map(|mailbox| mailbox.name).collect(),
            Err(why) => assert!(begin.elapsed() < PROMPT, "{why}"),
        }
    }
}

fn put(vm: &Vm, host: usize, name: &str) {
    let rules = MailRules { persistent: true, ..MailRules::default() };
    task(vm, host).mail_put(name, None, rules, 0, vec![7; 100]).unwrap();
}

#[test]
fn all_hosts_of_a_machine_are_killed_and_come_back_with_what_they_had_decided() {
    let vm = up("4");
    for round in ["a", "b"] {
        put(&vm, 2, round);
        // At once behind the answer.
        for host in 1..=4 {
            kill(&vm, host);
        }
        let out = vm.towpath(&["up", "--hosts", "4"]);
        let said = text(&out.stderr);
        assert!(out.status.success() && said.contains("leads again from what it kept"), "{said}");
        wait_for_voters(&vm);
    }
    assert_eq!(mailboxes(&vm, 4), ["a", "b"]);
    // It is over, and nothing of it comes back.
    let out = vm.towpath(&["down"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for host in 1..=4 {
        let dir = vm.vm_dir().host(host);
        assert!(!dir.join("control").exists() && !dir.join("table").exists(), "host {host}");
    }
    let out = vm.towpath(&["up", "--hosts", "3", "--voters", "3"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(mailboxes(&vm, 1).is_empty());
}

/// Three machines with a host each, all of which vote.
fn machines() -> [Vm; 3] {
    let all = [Vm::new(), Vm::new(), Vm::new()];
    let out = all[0].towpath(&["up", "--voters", "3"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for vm in &all[1..] {
        let token = all[0].towpath(&["token"]).stdout;
        let out = vm.with_input(&["join", "-"], &token);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let begin = Instant::now();
    while all[0].client(1).info().unwrap().voters.len() < 3 {
        assert!(begin.elapsed() < PROMPT);
    }
    // What the last one keeps is on its disk, too.
    for vm in &all {
        let dir = vm.vm_dir().host(1);
        while !["table", "control/log"].iter().all(|name| dir.join(name).exists()) {
            assert!(begin.elapsed() < PROMPT);
        }
    }
    all
}

/// Whichever of them leads.
fn leading(all: &[Vm]) -> &Vm {
    let begin = Instant::now();
    loop {
        if let Some(vm) = all.iter().find(|vm| leader(vm).is_some()) {
            return vm;
        }
        assert!(begin.elapsed() < PROMPT, "nobody leads");
    }
}

/// Of what a host kept that may lead, each part is looked at before it is used, and left as it is.
fn a_damaged_copy_is_refused(vm: &Vm) {
    let dir = vm.vm_dir().host(1);
    for (name, at) in [("control/log", 3), ("control/log", 20), ("control/log", 150), ("table", 40)]
    {
        let path = dir.join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let out = vm.towpath(&["up"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(255), "{name}, byte {at}: {said}");
        assert!(said.contains(name) && said.contains("hint: "), "{name}, byte {at}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn machines_that_lose_their_power_together_come_back_together() {
    let all = machines();
    let key = |vm: &Vm| std::fs::read(vm.vm_dir().host(1).join("vm.key")).ok();
    let founders = std::fs::read(all[0].vm_dir().path.join("vm.key")).unwrap();
    assert_eq!(
        all[1..].iter().map(key).collect::<Vec<_>>(),
        [(); 2].map(|()| Some(founders.clone()))
    );
    put(&all[2], 1, "left behind");
    for vm in &all {
        kill(vm, 1);
    }
    a_damaged_copy_is_refused(&all[2]);
    std::thread::scope(|scope| {
        let starts = all.each_ref().map(|vm| scope.spawn(|| vm.towpath(&["up"])));
        for out in starts.map(|start| start.join().unwrap()) {
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
    });
    assert_eq!(mailboxes(leading(&all), 1), ["left behind"]);
    // Two of them start again, and the third still runs: it goes on, with what runs there.
    let begin = Instant::now();
    while all.iter().any(|vm| vm.client(1).info().unwrap().voters.len() < 3) {
        assert!(begin.elapsed() < PROMPT);
    }
    let mut there = task(&all[2], 1);
    there.join_group("g").unwrap();
    for vm in &all[..2] {
        kill(vm, 1);
    }
    std::thread::scope(|scope| {
        let starts = [&all[0], &all[1]].map(|vm| scope.spawn(|| vm.towpath(&["up"])));
        for out in starts.map(|start| start.join().unwrap()) {
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
    });
    assert_eq!(leader(&all[2]), Some(1));
    assert_eq!(there.group_members("g").unwrap().members, [Some(there.id())]);
    drop(there);
    // One of them is gone for good, and with it the certainty: the other two do not begin, until
    // one is told to. Which one that is does not matter: each has everything.
    put(&all[0], 1, "after it");
    let begin = Instant::now();
    while all.iter().any(|vm| vm.client(1).info().unwrap().voters.len() < 3) {
        assert!(begin.elapsed() < PROMPT);
    }
    for vm in &all {
        kill(vm, 1);
    }
    let out = all[2].towpath(&["up", "--recover"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let mut found = mailboxes(&all[2], 1);
    found.sort();
    assert_eq!(found, ["after it", "left behind"]);
    let out = all[1].towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // Its system ends it, as for a restart: it comes back. It is told to leave while it asks, too,
    // and nothing is gone that might be the only copy.
    let dir = all[1].vm_dir().host(1);
    let begin = Instant::now();
    while !dir.join("control/log").exists() {
        assert!(begin.elapsed() < PROMPT);
    }
    let pid = all[1].pid(1);
    Vm::signal(pid, "-TERM");
    let out = all[1].towpath(&["up"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    // One that leaves lets go of all of it.
    let begin = Instant::now();
    while !dir.join("control/log").exists() {
        assert!(begin.elapsed() < PROMPT);
    }
    let out = all[1].towpath(&["down"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(!["table", "vm.key", "control"].iter().any(|name| dir.join(name).exists()));
}
