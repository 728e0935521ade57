//! One cell: machines, what runs on them, the fault, and what must hold.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::machine::{Machine, PROMPT, signal};
use super::namespaces::{Net, number, pass};
use super::table::{After, Cell, Fate, Fault, Role};
use super::work::{Checked, Work, until};
use crate::support::{built::built, processes_with, roles, text};

/// Items that a farm may take before the fault: the others wait for it, on a slow machine, too.
const BEFORE: usize = 30;

/// Items of a farm that outlives a fault of so long: on six job slots, 0.3 s each.
fn items(fault: Fault) -> usize {
    let (Fault::Stop(time) | Fault::Cut(time)) = fault else { return 100 };
    60 + 20 * usize::try_from(time.as_secs()).expect("seconds")
}

/// How long a fault lasts that has no length of its own.
const SHORT: Duration = Duration::from_secs(2);
/// How long a cut one way, or a stolen address, lasts.
const LONGER: Duration = Duration::from_secs(3);
/// What vanishes on a path that drops long packets: the header of IP counts.
const LONG: &str = "meta length gt 1300";

/// What the founder says then.
const NOT_KEPT: &str = "the table of hosts cannot be written";

/// PVM's program, where Debian's examples are.
pub(super) const PVM: &str = "/usr/bin/hello.pvm";

/// Fields are dropped in this order.
pub(super) struct Scene<'a> {
    cell: &'a Cell,
    farm: Work,
    team: Work,
    others: Work,
    pvm: Option<Work>,
    /// A token that was given out before the fault.
    token: String,
    machines: Vec<Machine>,
    net: Net,
    dir: tempfile::TempDir,
}

fn numbers(range: std::ops::RangeInclusive<usize>) -> String {
    range.map(|n| n.to_string() + "\n").collect()
}

fn pvm_is_there() -> bool {
    std::path::Path::new(PVM).is_file()
}

fn signal_all(processes: &[u32], name: &str) {
    for pid in processes {
        signal(*pid, name);
    }
}

fn host(machine: &str) -> String {
    format!("h{}", number(machine))
}

/// The machines that the fault does not meet; the first has the clients of what must go on.
fn bystanders(cell: &Cell) -> Vec<&'static str> {
    let met = cell.role.victims();
    cell.role.machines().iter().copied().filter(|name| !met.contains(name)).collect()
}

fn machine<'m>(machines: &'m [Machine], name: &str) -> &'m Machine {
    &machines[usize::from(number(name) - 1)]
}

/// The daemons, in contact, and a token for more.
fn together(net: &Net, cell: &Cell, dir: &tempfile::TempDir) -> Checked<(Vec<Machine>, String)> {
    let new = |name: &&'static str| {
        let of_disk = matches!(cell.fault, Fault::FullDisk | Fault::ReadOnlyDisk);
        let small = of_disk && cell.role.machine() == *name;
        Machine::new(net, name, dir.path(), small)
    };
    let machines = cell.role.machines().iter().map(new).collect::<Checked<Vec<Machine>>>()?;
    machines[0].up(cell.role.voters())?;
    let token = machines[0].token(&["--ttl", "600"])?;
    machines[1..].iter().try_for_each(|machine| machine.join(&token))?;
    // A host hears of another's joining a moment after that one has joined.
    let all: Vec<String> = machines.iter().map(|it| format!("{} up", host(it.name))).collect();
    for machine in &machines {
        until(PROMPT, || same_hosts(&machine.hosts()?, &all))?;
    }
    if cell.role.voters() == 1 {
        return Ok((machines, token));
    }
    for machine in &machines {
        until(PROMPT, || machine.keeps_log_with(cell.role.voters()))?;
    }
    // One from before names the founder alone.
    let token = machines[0].token(&["--ttl", "600"])?;
    Ok((machines, token))
}

impl<'a> Scene<'a> {
    /// Everything runs.
    pub(super) fn set(net: Net, cell: &'a Cell) -> Checked<Self> {
        let dir = tempfile::Builder::new().prefix("tp").tempdir().map_err(|e| e.to_string())?;
        let (machines, token) = together(&net, cell, &dir)?;
        let (end, roles) = (dir.path().join("end").display().to_string(), roles());
        let rounds = [roles.to_str().unwrap_or_default(), "rounds", &end];
        let [first, second] = [0, 1].map(|n| bystanders(cell)[n]);
        let both = format!("{},{}", host(first), host(second));
        let on = |name| machine(&machines, name);
        let farm = Work::start("farm", &mut farm_command(on("b"), cell, &dir, false))?;
        let args = ["run", "--no-tag", "--no-stdin", "--spread", "-n"];
        let three = ["3", "--host", "h1,h2,h3", "--"];
        let mut command = on("b").command(&[&args[..], &three, &rounds].concat());
        let team = Work::start("team", &mut command)?;
        let few = ["2", "--host", &both, "--"];
        let mut command = on(first).command(&[&args[..], &few, &rounds].concat());
        let others = Work::start("others", &mut command)?;
        let script = format!("while [ ! -e {end} ]; do {PVM} || exit 1; done");
        let args = ["run", "--no-tag", "--no-stdin", "--host", &host(first), "--"];
        let mut command = on(first).command(&[&args[..], &["sh", "-c", &script]].concat());
        let pvm = if pvm_is_there() { Some(Work::start("pvm", &mut command)?) } else { None };
        let mut scene = Self { cell, farm, team, others, pvm, token, machines, net, dir };
        scene.all_items();
        scene.farm.more(3, PROMPT)?;
        scene.team.more(3, PROMPT)?;
        scene.others.more(3, PROMPT)?;
        scene.pvm.as_mut().map_or(Ok(()), |pvm| pvm.more(2, PROMPT))?;
        Ok(scene)
    }

    fn on(&self, name: &str) -> &Machine {
        machine(&self.machines, name)
    }

    fn victim(&self) -> &Machine {
        self.on(self.cell.role.machine())
    }

    /// The processes that a signal or a limit meets.
    fn processes(&self) -> Checked<Vec<u32>> {
        let all = self.cell.role.victims().iter().map(|name| self.processes_on(self.on(name)));
        all.collect::<Checked<Vec<_>>>().map(|all| all.concat())
    }

    fn processes_on(&self, victim: &Machine) -> Checked<Vec<u32>> {
        let [engine, guard] = victim.daemon()?;
        Ok(match (self.cell.role, self.cell.fault) {
            (Role::Client, _) => vec![self.farm.pid()],
            (Role::Task, _) => {
                let there = self.net.processes("c");
                let mut tasks = processes_with(" rounds ").into_iter().map(|(pid, _)| pid);
                let task = tasks.rfind(|pid| there.contains(pid));
                vec![task.ok_or("no task of the team on c")?]
            }
            (Role::Guard, _) | (_, Fault::KillGuard) => vec![guard],
            (_, Fault::KillBoth | Fault::Restart) => vec![guard, engine],
            _ => vec![engine],
        })
    }

    /// A farm reads all its items before it begins.
    fn all_items(&mut self) {
        self.farm.feed(&numbers(1..=items(self.cell.fault)));
        self.farm.no_more();
    }

    /// The fault, and its end where it passes.
    pub(super) fn strike(&mut self) -> Checked<()> {
        std::fs::write(begun(&self.dir), "").map_err(|e| e.to_string())?;
        let victim = self.cell.role.machine();
        match self.cell.fault {
            Fault::Kill | Fault::KillGuard | Fault::KillBoth => self.kill(),
            Fault::Stop(time) => {
                let stopped = self.processes()?;
                signal_all(&stopped, "-STOP");
                pass(time);
                signal_all(&stopped, "-CONT");
                Ok(())
            }
            Fault::Cut(time) => {
                self.net.plug(victim, false)?;
                pass(time);
                self.net.plug(victim, true)
            }
            Fault::OneWayIn | Fault::OneWayOut | Fault::LongPackets { .. } => self.filter(),
            Fault::DuplicateAddress => {
                self.net.double(victim, true)?;
                pass(LONGER);
                self.net.double(victim, false)
            }
            Fault::Restart => self.restart(),
            Fault::FullDisk | Fault::ReadOnlyDisk => self.no_disk(),
            Fault::NoDescriptors => self.no_descriptors(),
            Fault::Clock(by_s) => self.wrong_clock(by_s),
        }
    }

    fn no_disk(&self) -> Checked<()> {
        let take = |on| match self.cell.fault {
            Fault::FullDisk => self.victim().fill(on),
            _ => self.victim().read_only(on),
        };
        take(true)?;
        let leader = self.meets_leader();
        if leader {
            self.one_more(&self.token)?;
        }
        pass(SHORT);
        let unkept = || self.on("a").ok(&["hosts"]).map(|it| it.said.contains(NOT_KEPT));
        if leader && !unkept()? {
            return Err("`towpath hosts` does not say that the table cannot be kept".into());
        }
        take(false)?;
        until(PROMPT, || {
            let kept = !(leader && unkept()?);
            kept.then_some(()).ok_or("the table is not kept again".to_owned())
        })
    }

    fn kill(&self) -> Checked<()> {
        let processes = self.processes()?;
        // At once: neither is to see the other's end.
        for name in ["-STOP", "-KILL"] {
            signal_all(&processes, name);
        }
        Ok(())
    }

    fn filter(&mut self) -> Checked<()> {
        let victim = self.cell.role.machine();
        let from = format!("ip saddr 10.213.80.{}", number(victim));
        let fault = self.cell.fault;
        let long = matches!(fault, Fault::LongPackets { .. });
        if long {
            let probing = fault == Fault::LongPackets { probing: true };
            let mut all = self.cell.role.machines().iter();
            all.try_for_each(|name| self.net.no_trains(name, probing))?;
            self.net.drop_incoming(victim, LONG)?;
        } else if fault == Fault::OneWayIn {
            self.net.drop_incoming(victim, "")?;
        }
        for other in bystanders(self.cell) {
            match fault {
                Fault::LongPackets { .. } => {
                    self.net.drop_incoming(other, &format!("{from} {LONG}"))?;
                }
                Fault::OneWayOut => self.net.drop_incoming(other, &from)?,
                _ => {}
            }
        }
        pass(LONGER);
        if long {
            return Ok(());
        }
        self.cell.role.machines().iter().try_for_each(|name| self.net.drop_nothing(name))
    }

    fn restart(&mut self) -> Checked<()> {
        self.kill()?;
        match self.cell.role {
            Role::Client => {
                self.farm.end(PROMPT)?;
                self.farm = Work::start(
                    "farm",
                    &mut farm_command(self.on("b"), self.cell, &self.dir, true),
                )?;
                self.all_items();
            }
            role => {
                let start = |machine: &Machine| match machine.name {
                    "a" => machine.up(role.voters()),
                    _ => machine.join(&self.token),
                };
                // Together, as after a power cut: some wait for the others.
                let met: Vec<&Machine> = role.victims().iter().map(|name| self.on(name)).collect();
                std::thread::scope(|scope| {
                    let each = |machine| scope.spawn(move || until(PROMPT, || start(machine)));
                    let all: Vec<_> = met.into_iter().map(each).collect();
                    let joined = |it: std::thread::ScopedJoinHandle<'_, Checked<()>>| {
                        it.join().unwrap_or_else(|_| Err("a start panicked".into()))
                    };
                    all.into_iter().map(joined).collect::<Checked<Vec<()>>>()
                })?;
            }
        }
        Ok(())
    }

    /// The fault meets the daemon that leads.
    fn meets_leader(&self) -> bool {
        matches!(self.cell.role, Role::Founder | Role::Leader)
    }

    fn no_descriptors(&mut self) -> Checked<()> {
        let processes = self.processes()?;
        let limit = |pid: u32, most: &str| {
            let args = ["--pid", &pid.to_string(), &format!("--nofile={most}:")];
            let out = Command::new("prlimit").args(args).output().map_err(|e| e.to_string())?;
            out.status.success().then_some(()).ok_or_else(|| text(&out.stderr))
        };
        processes.iter().try_for_each(|pid| limit(*pid, "3"))?;
        pass(SHORT);
        processes.iter().try_for_each(|pid| limit(*pid, "1024"))?;
        if matches!(self.cell.role, Role::Client | Role::Task) {
            return Ok(());
        }
        until(PROMPT, || self.victim().hosts().map(|_| ()))
    }

    fn wrong_clock(&mut self, by_s: i64) -> Checked<()> {
        std::fs::write(self.victim().clock(), by_s.to_string()).map_err(|e| e.to_string())?;
        // Daemons ask for the time once in a second.
        pass(SHORT);
        if self.cell.role.voters() > 1 {
            self.clock_is_shown(by_s)?;
        }
        if !self.meets_leader() {
            return Ok(());
        }
        if by_s > 0 && self.one_more(&self.token).is_ok() {
            return Err("a token that is over by the founder's clock admits a host".into());
        }
        let token = if by_s > 0 { self.on("a").token(&[])? } else { self.token.clone() };
        self.one_more(&token)
    }

    /// `towpath status` says that those that keep the log have clocks so far apart.
    fn clock_is_shown(&self, by_s: i64) -> Checked<()> {
        let told = self.on(bystanders(self.cell)[0]).run(&["status", "--json"])?;
        let told: serde_json::Value =
            serde_json::from_str(&told.out.concat()).map_err(|e| e.to_string())?;
        let voters = told["voters"].as_array().ok_or("no voters")?;
        let ahead: Vec<f64> = voters.iter().filter_map(|v| v["clock_ahead_s"].as_f64()).collect();
        // By whoever leads, which may be the one that is wrong.
        let shows = |ahead: &f64| (ahead.abs() - by_s.abs() as f64).abs() < 60.0;
        ahead.iter().any(shows).then_some(()).ok_or(format!("clocks are told as {ahead:?}"))
    }

    /// A second daemon on machine b joins.
    fn one_more(&self, token: &str) -> Checked<()> {
        self.on("b").ok(&["join", token.trim(), "--name", "more"]).map(|_| ())
    }

    /// Everything that the table says, once the fault has met.
    pub(super) fn judge(&mut self) -> Checked<()> {
        let until_then = Instant::now() + self.cell.within;
        let left = || until_then.saturating_duration_since(Instant::now()).max(SHORT);
        let observer = machine(&self.machines, bystanders(self.cell)[0]);
        until(left(), || same_hosts(&observer.hosts()?, &self.cell.hosts))?;
        for work in [Some(&mut self.team), Some(&mut self.others), self.pvm.as_mut()] {
            work.into_iter().for_each(Work::catch_up);
        }
        if self.cell.team == Fate::Ends {
            let code = if self.cell.role == Role::Task { 137 } else { 255 };
            self.team.end_with(code, left())?;
        } else {
            self.team.more(3, left())?;
        }
        self.others.more(3, left())?;
        let pvm = self.pvm.as_mut().filter(|_| self.cell.pvm == Fate::GoesOn);
        pvm.map_or(Ok(()), |pvm| pvm.more(3, left()))?;
        self.farm_ends(left())?;
        std::fs::write(self.dir.path().join("end"), "").map_err(|e| e.to_string())?;
        if self.cell.team == Fate::GoesOn {
            self.team.end_with(0, PROMPT)?;
        }
        self.others.end_with(0, PROMPT)?;
        if let Some(pvm) = self.pvm.as_mut().filter(|_| self.cell.pvm == Fate::GoesOn) {
            pvm.end_with(0, PROMPT)?;
        }
        // One that waits for ever is ended with its client.
        self.pvm = None;
        Ok(())
    }

    fn farm_ends(&mut self, left: Duration) -> Checked<()> {
        match self.cell.farm {
            Fate::GoesOn => {
                let ended = self.farm.end_with(0, self.farm_time())?;
                self.each_once(&ended.out)?;
            }
            Fate::Ends => {
                let ended = self.farm.end_with(255, left)?;
                let said = ended.said;
                said.contains("error: ").then_some(()).ok_or(format!("farm: no reason: {said}"))?;
            }
            Fate::Open => {}
        }
        let ledger = ledger(&self.dir).display().to_string();
        until(PROMPT, || match processes_with(&ledger) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("of the farm there are left: {left:?}")),
        })
    }

    /// How long the whole farm may take where nothing was done before: a daemon that stands still
    /// takes no items.
    fn farm_time(&self) -> Duration {
        PROMPT + Duration::from_millis(100) * u32::try_from(items(self.cell.fault)).expect("few")
    }

    /// Each item has succeeded, and once.
    fn each_once(&self, out: &[String]) -> Checked<()> {
        let mut done: Vec<usize> = if self.cell.role == Role::Client {
            // Over two lives of the client: its job log, whose seventh column is the status.
            let log = std::fs::read_to_string(job_log(self.on("b"), self.cell))
                .map_err(|e| e.to_string())?;
            let lines = log.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
            let good = lines.filter(|columns| columns.get(6) == Some(&"0"));
            good.filter_map(|columns| columns[0].parse().ok()).collect()
        } else {
            out.iter().filter_map(|line| line.strip_prefix("item ")?.parse().ok()).collect()
        };
        done.sort_unstable();
        done.iter()
            .copied()
            .eq(1..=items(self.cell.fault))
            .then_some(())
            .ok_or(format!("results of {done:?}"))
    }

    /// New programs work, and the end leaves nothing.
    pub(super) fn afterwards(&mut self) -> Checked<()> {
        let on = self.on(bystanders(self.cell)[0]);
        let items = ["1", "2", "3", "4", "5", "6"];
        let farm = on.ok(&[&["farm", "echo", "{}", ":::"], &items[..]].concat())?;
        let mut out = farm.out;
        out.sort();
        if out != items {
            return Err(format!("a new farm says {out:?}"));
        }
        if self.cell.after == After::All {
            let heat = built(&["examples/heat"], &["-p", "towpath", "--example", "heat"]);
            on.ok(&["run", "--spread", "-n", "3", "--", heat.to_str().unwrap_or_default()])?;
            if pvm_is_there() {
                let said = on.ok(&["run", "--timeout", "30s", "--", PVM])?.out.concat();
                let hello = said.contains("hello, world from");
                hello.then_some(()).ok_or(format!("hello.pvm says {said}"))?;
            }
        }
        // Where it is led: that ends all.
        let (mut first, rest): (Vec<&Machine>, Vec<&Machine>) =
            self.machines.iter().partition(|machine| machine.leads());
        first.extend(rest);
        first.into_iter().try_for_each(|machine| machine.down(&self.net))
    }
}

/// Every state is there that should be, and no other host is up.
fn same_hosts(seen: &[String], wanted: &[String]) -> Checked<()> {
    // A host is seen twice: by number and by name.
    let up = |list: &[String]| list.iter().filter(|host| host.ends_with(" up")).count();
    let frozen = |list: &[String]| list.iter().any(|host| host == "frozen");
    let there = wanted.iter().all(|host| seen.contains(host));
    let same = there && up(seen) == 2 * up(wanted) && frozen(seen) == frozen(wanted);
    same.then_some(()).ok_or(format!("hosts are {seen:?}, not {wanted:?}"))
}

/// Where items write that they begin.
fn ledger(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("ledger")
}

/// What items wait for that the fault is to meet.
fn begun(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("begun")
}

/// On the client's disk, or beside the daemon's.
fn job_log(machine: &Machine, cell: &Cell) -> PathBuf {
    let full = cell.role == Role::Client && cell.fault == Fault::FullDisk;
    if full { machine.home().join("joblog") } else { machine.folder.join("joblog") }
}

fn farm_command(on: &Machine, cell: &Cell, dir: &tempfile::TempDir, again: bool) -> Command {
    let wait = format!(
        "while [ $1 -gt {BEFORE} ] && [ ! -e {} ]; do sleep 0.1; done",
        begun(dir).display()
    );
    let script = format!("{wait}; echo $1 >> {}; sleep 0.3; echo item $1", ledger(dir).display());
    let log = job_log(on, cell).display().to_string();
    let mut command = on.command(&["farm", "--joblog", &log]);
    command.args(again.then_some("--resume")).args(["--", "sh", "-c", &script, "sh", "{}"]);
    command
}

#[test]
fn hosts_are_those_that_the_table_wants_and_no_more() {
    let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    let wanted = list(&["h1 up", "h2 lost"]);
    let same = |seen: &[&str]| same_hosts(&list(seen), &wanted).is_ok();
    assert!(same(&["h1 up", "a up", "h2 lost", "b lost"]));
    assert!(!same(&["h1 up", "a up"]));
    assert!(!same(&["h1 up", "a up", "h2 lost", "b lost", "h3 up", "c up"]));
    assert!(!same(&["frozen", "h1 up", "a up", "h2 lost", "b lost"]));
}
