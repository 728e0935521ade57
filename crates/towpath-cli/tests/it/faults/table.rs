//! The table of cells: which fault meets which role, what must hold, and what shows it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// The one table; docs/faults.md is made from it.
const TABLE: &str = include_str!("cells.toml");

/// Whom a fault meets.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// The daemon that founded the virtual machine and leads it.
    Founder,
    /// The daemon that the farm's client and the team's talk to.
    Serving,
    /// A daemon whose host only works.
    Worker,
    /// The worker's guard.
    Guard,
    /// The farm's client.
    Client,
    /// The team's task on the worker's host.
    Task,
    /// The founder, where all three keep the log.
    Leader,
    /// The worker, where it keeps the log with two others and does not lead.
    Voter,
    /// Three of five that keep the log, one of which leads.
    Most,
}

impl Role {
    pub(super) const ALL: [Self; 9] = [
        Self::Founder,
        Self::Serving,
        Self::Worker,
        Self::Guard,
        Self::Client,
        Self::Task,
        Self::Leader,
        Self::Voter,
        Self::Most,
    ];

    /// The machines of its cells.
    pub(super) const fn machines(self) -> &'static [&'static str] {
        match self {
            Self::Most => &["a", "b", "c", "d", "e"],
            _ => &["a", "b", "c"],
        }
    }

    /// The machines that it is on.
    pub(super) const fn victims(self) -> &'static [&'static str] {
        match self {
            Self::Founder | Self::Leader => &["a"],
            Self::Serving | Self::Client => &["b"],
            Self::Worker | Self::Guard | Self::Task | Self::Voter => &["c"],
            Self::Most => &["a", "d", "e"],
        }
    }

    /// The first of these.
    pub(super) const fn machine(self) -> &'static str {
        self.victims()[0]
    }

    /// How many keep the log.
    pub(super) const fn voters(self) -> usize {
        match self {
            Self::Leader | Self::Voter => 3,
            Self::Most => 5,
            _ => 1,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Founder => "founder",
            Self::Serving => "serving",
            Self::Worker => "worker",
            Self::Guard => "guard",
            Self::Client => "client",
            Self::Task => "task",
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Most => "most",
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL to the role's process; of a daemon, to its engine.
    Kill,
    KillGuard,
    KillBoth,
    /// SIGSTOP, and SIGCONT so much later.
    Stop(Duration),
    /// The cable is out for so long.
    Cut(Duration),
    /// Nothing gets in, what it sends does.
    OneWayIn,
    /// Nothing that it sends arrives.
    OneWayOut,
    /// With the kernel looking for a shorter length, or without.
    LongPackets {
        probing: bool,
    },
    DuplicateAddress,
    Restart,
    FullDisk,
    ReadOnlyDisk,
    NoDescriptors,
    /// The wall clock is wrong by so many seconds.
    Clock(i64),
}

const HOUR_S: i64 = 3600;
const YEAR_S: i64 = 31_557_600;

/// Names of faults, the kind before a colon.
const FAULTS: [(&str, Fault); 27] = [
    ("kill", Fault::Kill),
    ("kill-engine", Fault::Kill),
    ("kill-guard", Fault::KillGuard),
    ("kill-both", Fault::KillBoth),
    ("stop-0.5s", Fault::Stop(Duration::from_millis(500))),
    ("stop-1s", Fault::Stop(Duration::from_secs(1))),
    ("stop-3s", Fault::Stop(Duration::from_secs(3))),
    ("stop-5s", Fault::Stop(Duration::from_secs(5))),
    ("stop-30s", Fault::Stop(Duration::from_secs(30))),
    ("cut-0.5s", Fault::Cut(Duration::from_millis(500))),
    ("cut-1s", Fault::Cut(Duration::from_secs(1))),
    ("cut-3s", Fault::Cut(Duration::from_secs(3))),
    ("cut-5s", Fault::Cut(Duration::from_secs(5))),
    ("cut-30s", Fault::Cut(Duration::from_secs(30))),
    ("one-way-in-3s", Fault::OneWayIn),
    ("one-way-out-3s", Fault::OneWayOut),
    ("long-packets", Fault::LongPackets { probing: false }),
    ("long-packets-probing", Fault::LongPackets { probing: true }),
    ("duplicate-address-3s", Fault::DuplicateAddress),
    ("restart", Fault::Restart),
    ("full-disk", Fault::FullDisk),
    ("read-only-disk", Fault::ReadOnlyDisk),
    ("no-descriptors", Fault::NoDescriptors),
    ("clock-forth", Fault::Clock(HOUR_S)),
    ("clock-back", Fault::Clock(-HOUR_S)),
    ("clock-years-forth", Fault::Clock(5 * YEAR_S)),
    ("clock-years-back", Fault::Clock(-5 * YEAR_S)),
];

impl Fault {
    fn named(name: &str) -> Self {
        let found = FAULTS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("cells.toml: no fault `{name}`")).1
    }
}

/// What becomes of a program meanwhile.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fate {
    /// It goes on, and ends well when it is told to: a farm with each result once and status 0.
    GoesOn,
    /// It ends with the stated status and error.
    Ends,
    /// Nothing is asked: a program of PVM's that waits for one that is gone waits for ever.
    Open,
}

/// Programs that can be started when all is over.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum After {
    /// A farm, a team and one of PVM's.
    All,
    /// A farm: teams need the leader.
    Farm,
}

/// All hosts, each in its first life.
pub(super) const ALL_UP: [&str; 3] = ["h1 up", "h2 up", "h3 up"];

const fn goes_on() -> Fate {
    Fate::GoesOn
}
const fn all() -> After {
    After::All
}
fn all_up() -> Vec<String> {
    ALL_UP.map(str::to_owned).into()
}
const fn prompt() -> u64 {
    15
}

/// How a cell does not hold yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failing {
    /// How what is seen begins: another failure is not this one.
    pub(super) seen: String,
    pub(super) why: String,
}

/// Faults of one role of which the same must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    role: Role,
    faults: Vec<String>,
    must: String,
    #[serde(default = "goes_on")]
    farm: Fate,
    #[serde(default = "goes_on")]
    team: Fate,
    #[serde(default = "goes_on")]
    pvm: Fate,
    #[serde(default = "all_up")]
    hosts: Vec<String>,
    #[serde(default = "prompt")]
    within_s: u64,
    #[serde(default = "all")]
    after: After,
    /// The cells of it that `make test` runs.
    #[serde(default)]
    test: Vec<String>,
    /// Cells that do not hold yet.
    #[serde(default)]
    fails: BTreeMap<String, Failing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    cell: Vec<Row>,
}

/// A fault that meets a role.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) role: Role,
    pub(super) fault: Fault,
    /// The fault's name.
    pub(super) name: String,
    /// In one sentence.
    pub(super) must: String,
    pub(super) farm: Fate,
    pub(super) team: Fate,
    pub(super) pvm: Fate,
    /// Hosts and states, `frozen` where there is no leader.
    pub(super) hosts: Vec<String>,
    /// From the fault, or its end, to all this.
    pub(super) within: Duration,
    pub(super) after: After,
    /// It is one of those in `make test`.
    pub(super) ordinary: bool,
    pub(super) fails: Option<Failing>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role.name(), self.name)
    }
}

/// All cells, in the table's order.
pub(super) fn cells() -> Vec<Cell> {
    let table: Table = toml::from_str(TABLE).unwrap_or_else(|e| panic!("cells.toml: {e}"));
    let mut cells = Vec::new();
    for row in table.cell {
        for name in row.test.iter().chain(row.fails.keys()) {
            assert!(row.faults.contains(name), "cells.toml: `{name}` is not in its row");
        }
        for name in &row.faults {
            cells.push(Cell {
                role: row.role,
                fault: Fault::named(name),
                name: name.clone(),
                must: row.must.clone(),
                farm: row.farm,
                team: row.team,
                pvm: row.pvm,
                hosts: row.hosts.clone(),
                within: Duration::from_secs(row.within_s),
                after: row.after,
                ordinary: row.test.contains(name),
                fails: row.fails.get(name).cloned(),
            });
        }
    }
    cells
}
