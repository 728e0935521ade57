//! How fast PVM programs are beside real PVM: one program (speed.c), compiled once, run by both in
//! turns.
//!
//! ```sh
//! cargo build --release -p towpath-cli && cargo bench -p towpath-pvm3 --bench beside_pvm
//! ```
//! It takes some six minutes. On a busy machine put `chrt -f 10` before it: other processes then
//! wait. Arguments behind `--`: `rounds=5`, `ms=40` (time for each kind of round trip and round),
//! `only=one,two,spawn,group`, `json=FILE`. Needs Debian's packages pvm and pvm-dev, and root for
//! two hosts.
//!
//! Each figure is the median of the rounds; in each round it is the median of what fits into the
//! time. Both tasks of a pair run on two processors ("apart") and, as PVM is faster so, on one
//! ("together"); what counts is the best of all ways that the program could be written: raw,
//! default, in place or `pvm_psend`, fragments of 4080, 65536 and 1 000 000 bytes, either
//! placement.
//!
//! `group`: what several tasks on hosts of their own do together, at one switch.

mod machines;
mod table;

#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::Path;

use machines::{HOSTS, Machines, System};
use table::{Figures, Key};

/// What to measure.
struct Wanted {
    rounds: u32,
    ms: u32,
    only: Option<String>,
    json: Option<String>,
}

impl Wanted {
    fn read() -> Self {
        let mut wanted = Self { rounds: 5, ms: 40, only: None, json: None };
        for arg in std::env::args().skip(1).filter(|arg| arg != "--bench") {
            let known = "rounds=N, ms=N, only=one,two,spawn,group or json=FILE";
            let (name, value) =
                arg.split_once('=').unwrap_or_else(|| panic!("{arg} is no {known}"));
            let number = || value.parse().unwrap_or_else(|_| panic!("{arg}: no number"));
            match name {
                "rounds" => wanted.rounds = number(),
                "ms" => wanted.ms = number(),
                "only" => wanted.only = Some(value.to_owned()),
                "json" => wanted.json = Some(value.to_owned()),
                _ => panic!("{arg} is no {known}"),
            }
        }
        wanted
    }

    fn has(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.split(',').any(|name| name == part))
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" and ")
}

/// One run of the program: its lines go into the figures.
fn measure(figures: &mut Figures, machines: &Machines, system: System, args: [&str; 4]) {
    let [what, route, host, number] = args;
    let group = [&["group", route][..], &HOSTS[1..]].concat();
    let words: &[&str] = match what {
        "echo" => &args,
        "group" => &group,
        _ => &[what, number, host],
    };
    let text = machines.run(system, words);
    let mut count = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (key, value) = match words[..] {
            ["echo", place, mode, fragment, bytes, value] => {
                let setting = format!("{mode} {fragment} {place}");
                (
                    Key {
                        system,
                        hosts: machines.hosts,
                        route: route.into(),
                        bytes: bytes.parse().expect("a size"),
                        setting,
                    },
                    value,
                )
            }
            ["spawn", count, value] => {
                let setting = "until the last one's message".to_owned();
                (
                    Key {
                        system,
                        hosts: machines.hosts,
                        route: "spawn".into(),
                        bytes: count.parse().expect("a count"),
                        setting,
                    },
                    value,
                )
            }
            [what, hosts, bytes, value] => (
                Key {
                    system,
                    hosts: hosts.parse().expect("a number of hosts"),
                    route: what.into(),
                    bytes: bytes.parse().expect("a size"),
                    setting: route.to_owned(),
                },
                value,
            ),
            _ => panic!("{system:?} {words:?}: {text}"),
        };
        figures.add(key, value.parse().expect("a time"));
        count += 1;
    }
    assert!(count > 0, "{system:?} {words:?}: {text}");
}

fn main() {
    let wanted = Wanted::read();
    if !Path::new("/usr/include/pvm3.h").exists() {
        return towpath_skip::skip(
            "Debian's pvm and pvm-dev are not installed: nothing was measured",
        );
    }
    let before = load();
    let mut figures = Figures::default();
    for (hosts, part) in [(1, "one"), (2, "two"), (4, "group")] {
        let parts = (wanted.has(part), hosts == 1 && wanted.has("spawn"));
        if parts == (false, false) {
            continue;
        }
        let what = if part == "group" { part } else { "echo" };
        let Some(machines) = Machines::new(hosts) else { continue };
        let there = if hosts == 1 { "." } else { "b" };
        for round in 0..wanted.rounds {
            eprintln!("{hosts} host(s), round {} of {}", round + 1, wanted.rounds);
            let mut systems = [System::Pvm, System::Towpath];
            systems.rotate_left(round as usize % 2);
            for system in systems {
                let ms = wanted.ms.to_string();
                for route in ["daemon", "direct"].into_iter().filter(|_| parts.0) {
                    measure(&mut figures, &machines, system, [what, route, there, &ms]);
                }
                for _ in (0..4).filter(|_| parts.1) {
                    measure(&mut figures, &machines, system, ["spawn", "", there, "16"]);
                }
            }
        }
    }
    figures.finish();
    print!("{}", figures.table());
    println!("\nload of the machine {before} before, {} after; {} rounds", load(), wanted.rounds);
    if let Some(path) = wanted.json {
        std::fs::write(&path, figures.json()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
