//! `metrics` of real daemons.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use towpath::Task;
use towpath::protocol::{Reply, Request};
use towpath::task::Wanted;

use crate::support::{Vm, text};

const TAG: i64 = 5;
const LONG: Duration = Duration::from_mins(1);

fn printed(vm: &Vm, args: &[&str]) -> String {
    let out = vm.towpath(args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

/// What a sample's line in Prometheus' format says: its name with labels, its value.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let one = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_string(), value.parse().expect("a number"))
    };
    lines.map(one).collect()
}

fn follow(vm: &Vm, args: &[&str]) -> Child {
    let mut command: Command = vm.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

#[test]
fn all_that_a_host_measures_is_printed_with_its_tasks_and_peers() {
    let vm = Vm::up(2);
    let task = |host| Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap();
    let (mut a, mut b) = (task(1), task(2));
    a.send(b.id(), TAG, &[7; 5000]).unwrap();
    let from = Wanted { source: Some(a.id()), tag: Some(TAG), context: 0 };
    assert!(b.recv_timeout(&from, LONG).unwrap().is_some());
    let of = samples(&printed(&vm, &["metrics", "--host", "h1"]));
    let (one, two) = (a.id().host(), b.id().host());
    let at = |name: &str| *of.get(name).unwrap_or_else(|| panic!("{name} is not in {of:#?}"));
    assert!(at(&format!("towpath_bytes_sent_total{{host=\"{one}\"}}")) > 5000.0);
    let of_peer =
        |name| at(&format!("towpath_association_{name}{{host=\"{one}\",peer=\"{two}\"}}"));
    assert!(of_peer("bytes_sent_total") > 5000.0);
    assert!((1e-6..1.0).contains(&of_peer("rtt_seconds")));
    assert!(at(&format!("towpath_link_datagrams_sent_total{{host=\"{one}\",link=\"0\"}}")) > 3.0);
    let peers = at(&format!("towpath_task_peers{{host=\"{one}\",task=\"{}\"}}", a.id()));
    assert!((0.9..1.1).contains(&peers), "{peers}");
    assert!(of.keys().all(|name| name.contains(&format!("host=\"{one}\""))));
    // Both daemons: twice as many of the host's own.
    let all = samples(&printed(&vm, &["metrics"]));
    let of_hosts = |of: &BTreeMap<_, _>| of.keys().filter(|n: &&String| !n.contains(',')).count();
    assert_eq!(of_hosts(&all), 2 * of_hosts(&of));
    let none = vm.towpath(&["metrics", "--host", "h9"]);
    assert_eq!(none.status.code(), Some(255));
    assert!(text(&none.stderr).contains("no host `h9`"), "{}", text(&none.stderr));
}

#[test]
fn a_daemon_that_is_killed_is_said_so_of_and_the_others_go_on() {
    let vm = Vm::up(2);
    let mut reader = follow(&vm, &["metrics", "--every", "100ms", "--json"]);
    let mut lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
    let mut host = || -> Option<String> {
        let line = lines.next()?.expect("it can be read");
        let told: Value = serde_json::from_str(&line).expect("one JSON object");
        Some(told["host"].as_str().expect("a host").to_string())
    };
    let first = host().expect("the first one's");
    let second = host().expect("the other's");
    assert_ne!(first, second);
    Vm::signal(vm.pid(2), "-KILL");
    // From now on each line is of the one that is left.
    let mut in_a_row = 0;
    while in_a_row < 5 {
        in_a_row = if host().expect("the other goes on") == first { in_a_row + 1 } else { 0 };
    }
    Vm::signal(vm.pid(1), "-KILL");
    while host().is_some() {}
    let mut said = String::new();
    reader.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(reader.wait().expect("it ends").code(), Some(255), "{said}");
    let gone = |kind, host| said.contains(&format!("{kind}: {host}: the daemon has ended"));
    assert!(gone("warning", second) && gone("error", first), "{said}");
}

#[test]
fn a_daemon_that_is_stopped_is_said_so_of() {
    let vm = Vm::up(2);
    let pid = vm.pid(2);
    Vm::signal(pid, "-STOP");
    let out = vm.towpath(&["metrics", "--json"]);
    Vm::signal(pid, "-CONT");
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout).lines().count(), 1);
    let said = text(&out.stderr);
    assert!(said.contains("warning: daemon 2") && said.contains("is stopped\nhint:"), "{said}");
}

#[test]
fn a_host_of_another_machine_is_asked_by_the_daemon_here() {
    let vm = Vm::up(2);
    // As if it were another machine's: nobody here sees its socket.
    let (far, away) = (vm.pid(2), vm.vm_dir().path.join("away"));
    std::fs::rename(vm.vm_dir().host(2), away).expect("it can be moved");
    let json = |args: &[&str]| -> Vec<Value> {
        let said = printed(&vm, args);
        said.lines().map(|line| serde_json::from_str(line).expect("one JSON object")).collect()
    };
    let number = |told: &Value, group: &str, metric: &str| -> u64 {
        let series = told["series"].as_array().expect("series");
        let of = series.iter().find(|s| s["group"] == group).expect("the group is told");
        of["values"][metric].as_u64().expect("a number")
    };
    assert_eq!(json(&["metrics", "--json"]).len(), 1);
    let [there] = &json(&["metrics", "--host", "h2", "--json"])[..] else { panic!("one host") };
    assert!(there["host"].as_str().expect("a host").starts_with("h2"), "{there}");
    assert!(number(there, "endpoint", "packets_sent") > 0, "{there}");
    assert_eq!(number(there, "daemon", "clients"), 0, "nobody is connected to it");
    assert_eq!(json(&["metrics", "--all", "--json"]).len(), 2);
    let text = printed(&vm, &["metrics", "--all"]);
    assert!(text.contains("host=\"h1.") && text.contains("host=\"h2."), "{text}");
    // It takes eight readers of one host.
    let h2 = vm.client(1).info().expect("an answer").me.and_then(|me| {
        let id = towpath_wire::HostId::new(2, 2)?;
        (me.slot() == 1).then_some(id)
    });
    let mut readers: Vec<_> = (0..9).map(|_| vm.client(1)).collect();
    for reader in &mut readers {
        reader.sender.send(&Request::Observe { host: h2, every_ms: Some(60_000) }).unwrap();
    }
    let refused = |reader: &mut towpath::Client| {
        let told = reader.receiver.next(Some(LONG)).unwrap();
        matches!(told, Some(Reply::Failed(why)) if why.contains("as many readers"))
    };
    assert_eq!(readers.iter_mut().filter_map(|r| refused(r).then_some(())).count(), 1);
    drop(readers);
    // Again and again, with what changed meanwhile; readers that end leave nothing.
    for _ in 0..3 {
        let mut reader = follow(&vm, &["metrics", "--host", "h2", "--every", "100ms", "--json"]);
        let lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
        let told: Vec<Value> = lines
            .take(4)
            .map(|line| serde_json::from_str(&line.expect("a line")).expect("one JSON object"))
            .collect();
        let sent = |told: &Value| number(told, "endpoint", "packets_sent");
        assert!(told.windows(2).all(|pair| sent(&pair[0]) <= sent(&pair[1])));
        assert!(sent(&told[0]) < sent(&told[3]), "what it tells takes packets");
        reader.kill().expect("it runs");
        reader.wait().expect("it ends");
    }
    // It dies: the reader is told.
    let mut reader = follow(&vm, &["metrics", "--host", "h2", "--every", "100ms", "--json"]);
    let mut lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
    lines.next().expect("a line").expect("it can be read");
    Vm::signal(far, "-KILL");
    while lines.next().is_some() {}
    let mut said = String::new();
    reader.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(reader.wait().expect("it ends").code(), Some(255), "{said}");
    assert!(said.contains("h2") && said.contains("is over"), "{said}");
}

#[test]
fn a_connection_is_told_once() {
    let vm = Vm::up(1);
    let mut client = vm.client(1);
    for _ in 0..2 {
        client.sender.send(&Request::Observe { host: None, every_ms: Some(0) }).unwrap();
    }
    let mut replies = Vec::new();
    while replies.len() < 4 {
        replies.push(client.receiver.next(Some(LONG)).unwrap().expect("a reply"));
    }
    let refused = |r: &Reply| matches!(r, Reply::Failed(why) if why.contains("already\nhint:"));
    assert_eq!(replies.iter().filter(|r| refused(r)).count(), 1, "{replies:?}");
    let told = replies.iter().filter(|r| matches!(r, Reply::Metrics(_))).count();
    assert_eq!(told, 3, "it goes on: {replies:?}");
}

#[test]
fn with_every_what_changed_is_told_and_a_ninth_reader_is_refused() {
    let vm = Vm::up(1);
    let args = ["metrics", "--every", "100ms", "--json"];
    let mut readers: Vec<Child> = (0..8).map(|_| follow(&vm, &args)).collect();
    let mut of_first = None;
    for (i, reader) in readers.iter_mut().enumerate() {
        let mut lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
        let mut next = || -> Value {
            let line = lines.next().expect("a line").expect("it can be read");
            serde_json::from_str(&line).expect("one JSON object")
        };
        let groups = |told: &Value| -> Vec<String> {
            let series = told["series"].as_array().expect("series").iter();
            let names = series.map(|s| s["group"].as_str().expect("a name").to_string());
            // How many turns there were, nobody knows.
            names.filter(|name| !name.starts_with("turn_")).collect()
        };
        let first = next();
        // Of the others, one that starts late may see the first one's task.
        assert_eq!(groups(&first)[..4], ["endpoint", "node", "daemon", "link"]);
        assert_eq!((&first["lost"], &first["untold"]), (&0.into(), &0.into()));
        if i == 0 {
            // A task comes, and goes.
            assert_eq!(groups(&first).len(), 4);
            let task = Task::enrol_at(&vm.vm_dir().host(1).join("task.sock"), None).unwrap();
            while groups(&next()).len() == 4 {}
            drop(task);
            while groups(&next()).len() > 4 {}
        }
        // All stay to the end.
        of_first.get_or_insert_with(Vec::new).push(lines);
    }
    let out = vm.towpath(&["metrics", "--every", "1s"]);
    assert_eq!(out.status.code(), Some(255));
    assert!(text(&out.stderr).contains("8 others are told"), "{}", text(&out.stderr));
    // Who asks once is told beside them, however many have done so before.
    for _ in 0..3 {
        let out = vm.towpath(&["metrics"]);
        let said = text(&out.stdout);
        assert!(out.status.success() && said.contains("towpath_turn_seconds_count"), "{said}");
    }
    // Those that ask once and do not read give their places up to others.
    let mut idle: Vec<_> = (0..9).map(|_| vm.client(1)).collect();
    for client in &mut idle {
        client.sender.send(&Request::Observe { host: None, every_ms: None }).unwrap();
    }
    assert!(vm.towpath(&["metrics"]).status.success());
    for reader in &mut readers {
        reader.kill().expect("it runs");
        reader.wait().expect("it ends");
    }
    // Their places are free again once the daemon has seen it.
    let until = std::time::Instant::now() + LONG;
    loop {
        let mut client = vm.client(1);
        client.sender.send(&Request::Observe { host: None, every_ms: Some(0) }).unwrap();
        if matches!(client.receiver.next(Some(LONG)).unwrap(), Some(Reply::Metrics(_))) {
            break;
        }
        assert!(std::time::Instant::now() < until, "no place is free");
    }
}

#[test]
fn what_goes_to_other_hosts_is_coded_where_it_is_asked_for() {
    let vm = Vm::new();
    let out = vm.towpath(&["up", "--hosts", "2", "--coding", "3+9"]);
    assert!(text(&out.stderr).contains("9 parities to a group, must be 1 to 4"), "{out:?}");
    printed(&vm, &["up", "--hosts", "2", "--coding", "3+1"]);
    let task = |host| Task::enrol_at(&vm.vm_dir().host(host).join("task.sock"), None).unwrap();
    let (mut a, mut b) = (task(1), task(2));
    a.allow_direct(false);
    for _ in 0..20 {
        a.send(b.id(), TAG, &vec![7; 50_000]).unwrap();
        assert!(b.recv_timeout(&Wanted::any().tag(TAG), LONG).unwrap().is_some());
    }
    let of = samples(&printed(&vm, &["metrics", "--host", "h1"]));
    let (one, two) = (a.id().host(), b.id().host());
    let name = format!("towpath_coding_parities_total{{host=\"{one}\",peer=\"{two}\"}}");
    assert!(of[&name] > 20.0, "{of:#?}");
    let links = printed(&vm, &["links"]);
    let [one, two] = [one, two].map(|host| host.to_string());
    assert!(links.contains(&format!("{one:<6} {two:<6} coded (3+1): ")), "{links}");
    let links: serde_json::Value =
        serde_json::from_str(&printed(&vm, &["links", "--json"])).unwrap();
    let of_one = |row: &&serde_json::Value| row["host"] == one;
    let row = links["coding"].as_array().unwrap().iter().find(of_one).unwrap();
    assert!(row["usual"] == "3+1" && row["parities_sent"].as_u64() > Some(20), "{row}");
}
