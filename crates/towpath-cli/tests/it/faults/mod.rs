//! Faults by role: docs/faults.md says what must hold, [`table`] has it, [`scene`] shows it.

mod apart;
mod machine;
mod namespaces;
mod page;
mod scene;
mod table;
mod two_links;
mod work;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use namespaces::Net;
use scene::{PVM, Scene};
use table::{Cell, Failing, cells};
use work::Checked;

/// Cells at once: most of a cell is waiting.
const AT_ONCE: usize = 4;

/// Whether a program is installed.
fn there(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        towpath_skip::skip(&format!("{program} is not installed"));
    }
    found
}

/// False, and loudly, where no cell can be run.
fn ready() -> bool {
    if !(there("nft") && there("prlimit") && there("ip")) {
        return false;
    }
    let net = Net::new(0, &["a"]);
    if net.is_none() {
        towpath_skip::skip("no network namespaces can be made here");
    }
    if !std::path::Path::new(PVM).is_file() {
        towpath_skip::skip(&format!("{PVM} is not installed"));
    }
    net.is_some()
}

fn run(number: usize, cell: &Cell) -> Checked<()> {
    let net = Net::new(number, cell.role.machines()).ok_or("no network namespaces can be made")?;
    let mut scene = Scene::set(net, cell).map_err(|why| format!("before: {why}"))?;
    scene.strike().map_err(|why| format!("the fault: {why}"))?;
    scene.judge()?;
    scene.afterwards().map_err(|why| format!("afterwards: {why}"))
}

/// What is wrong with how a cell went: one that is known to fail must.
fn wrong(cell: &Cell, outcome: &Checked<()>) -> Option<String> {
    match (outcome, &cell.fails) {
        (Ok(()), None) => None,
        (Err(seen), Some(known)) if seen.starts_with(&known.seen) => None,
        (Err(seen), _) => Some(format!("{cell}: {seen}")),
        (Ok(()), Some(_)) => Some(format!("{cell} holds: take it out of `fails` in cells.toml")),
    }
}

/// Runs cells, and fails with all that is wrong.
fn run_all(cells: &[Cell]) {
    if !ready() {
        return;
    }
    // Before they are looked for from several sides.
    crate::support::roles();
    crate::support::built::built(&["libpvm3.so", "deps/libpvm3.so"], &["-p", "towpath-pvm3"]);
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(cell) = cells.get(number) else { return };
            let begin = Instant::now();
            let outcome = run(number + 1, cell);
            let took = begin.elapsed().as_secs_f64();
            let told = outcome.as_ref().map_or_else(String::as_str, |()| "holds");
            println!("{cell} ({took:.1} s): {told}");
            faults.lock().expect("no thread panics").extend(wrong(cell, &outcome));
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let faults = faults.into_inner().expect("no thread panics");
    assert!(faults.is_empty(), "{} of {} cells:\n{}", faults.len(), cells.len(), faults.join("\n"));
}

#[test]
fn one_cell_of_each_role_and_kind_holds() {
    let ordinary: Vec<Cell> = cells().into_iter().filter(|cell| cell.ordinary).collect();
    run_all(&ordinary);
}

/// All cells, or those whose name begins with one of the words in `TOWPATH_FAULTS`.
#[test]
#[ignore = "takes a quarter of an hour: `make faults`, `make nightly`"]
fn every_cell_holds() {
    let words = std::env::var("TOWPATH_FAULTS").unwrap_or_else(|_| "all".into());
    let chosen = |cell: &Cell| {
        let name = cell.to_string();
        words == "all" || words.split([',', ' ']).any(|w| !w.is_empty() && name.starts_with(w))
    };
    let cells: Vec<Cell> = cells().into_iter().filter(chosen).collect();
    assert!(!cells.is_empty(), "TOWPATH_FAULTS={words} names no cell");
    run_all(&cells);
}

/// Written anew where `TOWPATH_FAULTS_PAGE` is set.
#[test]
fn the_page_is_what_the_table_says() {
    let page = page::page();
    if std::env::var_os("TOWPATH_FAULTS_PAGE").is_some() {
        std::fs::write(page::path(), &page).unwrap();
    }
    let there = std::fs::read_to_string(page::path()).unwrap_or_default();
    assert!(there == page, "docs/faults.md is not what cells.toml says\nhint: make faults PAGE=1");
}

#[test]
fn a_cell_known_to_fail_that_holds_is_told_and_one_that_fails_is_not() {
    let mut cell = cells().remove(0);
    let is_wrong = |cell: &Cell, outcome: Checked<()>| wrong(cell, &outcome).is_some();
    let (team, farm) = (|| Err("team: stuck".to_owned()), || Err("farm: stuck".to_owned()));
    assert!(!is_wrong(&cell, Ok(())) && is_wrong(&cell, team()));
    cell.fails = Some(Failing { seen: "team: ".into(), why: "known".into() });
    assert!(is_wrong(&cell, Ok(())) && !is_wrong(&cell, team()) && is_wrong(&cell, farm()));
}

/// The ordinary tests have each kind of fault that a role meets, once at least; where several keep
/// the log, one fault that each role meets: the others are `make nightly`'s.
#[test]
fn each_role_and_kind_is_among_the_ordinary_cells() {
    let kind = |cell: &Cell| {
        let first = cell.name.split('-').next().filter(|_| cell.role.voters() == 1);
        (cell.role.name(), first.unwrap_or("any").to_owned())
    };
    let ordinary: Vec<_> = cells().iter().filter(|cell| cell.ordinary).map(kind).collect();
    for cell in cells() {
        assert!(ordinary.contains(&kind(&cell)), "none of {:?} in `test`", kind(&cell));
    }
}
