//! docs/faults.md, made from the table.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::table::{ALL_UP, After, Cell, Fate, Role, cells};

/// What stands before the cells.
const HEAD: &str = "\
# Faults by role

Made from `crates/towpath-cli/tests/it/faults/cells.toml` by `make faults PAGE=1`; a test compares.
Do not edit it.

What must hold when a fault meets a role. Three machines at one switch (network namespaces): **a** has the
founder, **b** the serving daemon, that which clients talk to, and the clients, **c** the worker and its
guard. The founder leads: there is no other leader yet, so \"leader\" is no role of its own. Meanwhile
there run

- *farm*: a hundred items and more, 0.3 s each, on all hosts, client on b;
- *team*: tasks on all three hosts round which a token of 4 kB goes, started from b;
- *others*: the same on the two hosts that the fault does not meet, which must always go on;
- *PVM*: Debian's `hello.pvm` over and over, which spawns a task each time (left out without that program).

Where a column says nothing else: a farm has the result of each item once and status 0; a team and PVM's
program go on after the fault, make new rounds, and end with 0 when they are told to. *hosts* is what
`towpath hosts` shows within the time given, counted from the fault or, where it passes, from its end, on a
machine that it does not meet (`frozen`: no leader; `h4`: one that was lost and is back as another; `b`, `c`:
by name, whichever life). *Ends* is: within that time, with status 255 and the reason; with 137 where
a task was killed. *Open* asks nothing: a program of PVM's that waits for a task that is gone waits for ever,
there as here. When all is over, a new farm, a team (`heat`, checked bit by bit) and `hello.pvm` must work (only
the farm, where it says so), and `towpath down` on each machine must leave no process.

`make faults` runs every cell, and so does `make nightly`; `make faults FAULTS=founder/kill-engine` runs
one, `FAULTS=worker/` one role's; the ordinary tests run those in **bold**, one of each role and
kind. A cell that does not hold is run as well, and must still fail.

| fault | does |
|---|---|
| kill-engine, -guard, -both | SIGKILL; both at one instant, so that neither sees the other's end |
| stop-N | SIGSTOP, and SIGCONT after N |
| cut-N | the cable is out for N |
| one-way-in-3s, -out-3s | for 3 s nothing comes in, or nothing that is sent arrives |
| long-packets | packets of more than 1300 bytes vanish between it and the others, without a word |
| long-packets-probing | the same, where the machines have `net.ipv4.tcp_mtu_probing=1` |
| duplicate-address-3s | for 3 s another machine has its address, and gets what the others send to it |
| restart | both processes are killed, then it is started as docs/hosts.md says: `up`, `join`, `farm --resume` |
| full-disk | not a byte is left where its `TOWPATH_HOME` is, or its job log |
| no-descriptors | it may open nothing more (`prlimit`), for 2 s |
| clock-forth, -back | the wall clock that it reads is an hour wrong from now on |
";

const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::GoesOn => "goes on",
        Fate::Ends => "ends",
        Fate::Open => "open",
    }
}

fn section(text: &mut String, role: Role, cells: &[Cell]) {
    let _ = write!(
        text,
        "\n## {}\n\n| cell | must hold | farm | team | PVM | hosts | within | |\n\
         |---|---|---|---|---|---|---|---|\n",
        role.name()
    );
    for cell in cells.iter().filter(|cell| cell.role == role) {
        let name = if cell.ordinary { format!("**{}**", cell.name) } else { cell.name.clone() };
        let hosts = match cell.hosts == ALL_UP {
            true => "all up".to_owned(),
            false => cell.hosts.join(", "),
        };
        let farm_only = if cell.after == After::Farm { "; then only farms" } else { "" };
        let holds = match &cell.fails {
            Some(failing) => format!("**does not hold**: {}", failing.why),
            None => "holds".to_owned(),
        };
        let (farm, team, pvm) = (fate(cell.farm), fate(cell.team), fate(cell.pvm));
        let (must, within) = (&cell.must, cell.within.as_secs());
        let _ = writeln!(
            text,
            "| {name} | {must}{farm_only} | {farm} | {team} | {pvm} | {hosts} | {within} s | {holds} |"
        );
    }
}

/// The page as the table has it.
pub(super) fn page() -> String {
    let (mut text, cells) = (HEAD.to_owned(), cells());
    for role in Role::ALL {
        section(&mut text, role, &cells);
    }
    let failing = cells.iter().filter(|cell| cell.fails.is_some()).count();
    let _ = write!(text, "\n{} cells, of which {failing} do not hold yet.\n", cells.len());
    text
}

pub(super) fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md"))
}
