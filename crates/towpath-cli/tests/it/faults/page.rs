//! docs/faults.md, made from the table.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::table::{ALL_UP, After, Cell, Fate, Role, cells};

/// What stands before the cells.
const HEAD: &str = include_str!("page.md");

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
        let hosts = if cell.hosts == ALL_UP { "all up".to_owned() } else { cell.hosts.join(", ") };
        let farm_only = if cell.after == After::Farm { "; then only farms" } else { "" };
        let holds = match &cell.fails {
            Some(failing) => format!("**does not hold**: {}", failing.why),
            None => "holds".to_owned(),
        };
        let (farm, team, pvm) = (fate(cell.farm), fate(cell.team), fate(cell.pvm));
        let (must, within) = (&cell.must, cell.within.as_secs());
        let _ = writeln!(
            text,
            "| {name} | {must}{farm_only} | {farm} | {team} | {pvm} | {hosts} | {within} s | \
             {holds} |"
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
