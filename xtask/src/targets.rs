//! `cargo xtask targets`: the fuzz targets of what changed, for fuzzing that must end in minutes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::rules::{self, CrateRule, FuzzRule};

pub(crate) fn run(root: &Path, since: Option<&str>) -> Result<()> {
    let targets = match since {
        Some(since) => {
            let git = |args: &[&str]| {
                process::stdout_of(Command::new("git").args(args).current_dir(root))
            };
            let base = git(&["merge-base", since, "HEAD"])?;
            let changed = git(&["diff", "--name-only", base.trim()])?;
            of_changes(&changed.lines().collect::<Vec<_>>())
        }
        // Nothing to compare with.
        None => rules::FUZZED.iter().map(|row| row.target).collect(),
    };
    for target in targets {
        println!("{target}");
    }
    Ok(())
}

/// The targets that drive a changed file: its module's, its own, and those over sequences of
/// operations where any sans-IO crate changed; all, where what all share did.
fn of_changes(paths: &[&str]) -> BTreeSet<&'static str> {
    let is_shared = |path: &&str| {
        path.starts_with("fuzz/src/") || ["fuzz/Cargo.toml", "fuzz/Cargo.lock"].contains(path)
    };
    let all = paths.iter().any(is_shared);
    let rows = rules::FUZZED.iter().filter(|row| all || paths.iter().any(|path| drives(row, path)));
    rows.map(|row| row.target).collect()
}

fn drives(row: &FuzzRule, path: &str) -> bool {
    if path == format!("fuzz/fuzz_targets/{}.rs", row.target)
        || path.starts_with(&format!("fuzz/seeds/{}/", row.target))
    {
        return true;
    }
    let Some((name, module)) = row.module else {
        let is_pure = |rule: &CrateRule| rule.sans_io && rule.name != rules::MEDIA;
        return path.contains("/src/") && rules::rule_of_path(path).is_some_and(is_pure);
    };
    let module = format!("crates/{name}/src/{module}");
    path.strip_prefix(module.as_str())
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/') || rest.starts_with("_tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Vec<&'static str> {
        of_changes(&[path]).into_iter().collect()
    }

    #[test]
    fn a_module_s_targets_are_its_own_and_those_over_operations() {
        assert_eq!(of("crates/towpath-wire/src/packet.rs"), ["operations", "packet", "tasks"]);
        assert_eq!(of("crates/towpath-media/src/read/ts/psi.rs"), ["media_read", "media_ts"]);
        assert_eq!(of("crates/towpath/src/start/hostlist.rs"), ["start_hosts"]);
        assert!(of("crates/towpath-wire/src/packet_numbers.rs").contains(&"operations"));
        assert!(!of("crates/towpath-wire/src/packet_numbers.rs").contains(&"packet"));
    }

    #[test]
    fn what_no_target_drives_is_not_fuzzed() {
        assert!(of("docs/vm.md").is_empty());
        assert!(of("crates/towpath-cli/src/farm.rs").is_empty());
        assert!(of("crates/towpath-wire/tests/it/packet.rs").is_empty());
    }

    #[test]
    fn a_target_s_own_files_and_what_all_share_count() {
        assert_eq!(of("fuzz/fuzz_targets/hello.rs"), of("fuzz/seeds/hello/one"));
        let every: BTreeSet<_> = rules::FUZZED.iter().map(|row| row.target).collect();
        assert_eq!(of_changes(&["fuzz/src/emit.rs"]), every);
    }
}
