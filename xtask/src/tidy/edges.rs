//! Who may use whom: the dependencies in the manifests against the table in `rules`.

use anyhow::Result;
use toml::{Table, Value};

use super::tree::{TextFile, Tree};
use crate::report::{Violation, WithHint};
use crate::rules;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Normal and build dependencies.
    Normal,
    Dev,
}

struct Dependency {
    kind: Use,
    /// As the manifest calls it.
    key: String,
    /// As the package calls itself.
    package: String,
}

pub(super) fn check(tree: &Tree) -> Result<Vec<Violation>> {
    let shared = match tree.text("Cargo.toml") {
        Some(file) => workspace_dependencies(&parse(file)?),
        None => Table::new(),
    };
    let mut violations = Vec::new();
    for file in &tree.texts {
        let folder = file
            .path
            .strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
            .filter(|folder| !folder.contains('/'));
        if let Some(folder) = folder {
            check_crate(file, folder, &shared, &mut violations)?;
        } else if file.path == rules::TESTS_MANIFEST {
            check_tests(file, &shared, &mut violations)?;
        }
    }
    Ok(violations)
}

fn check_crate(
    file: &TextFile,
    folder: &str,
    shared: &Table,
    violations: &mut Vec<Violation>,
) -> Result<()> {
    let manifest = parse(file)?;
    let package = manifest.get("package").and_then(|package| package.get("name"));
    let name = package.and_then(Value::as_str).unwrap_or(folder);
    if name != folder {
        let what = format!("package `{name}` lives in the folder `{folder}`: name both alike");
        violations.push(Violation::new(&file.path, line_of(&file.text, "name"), what));
    }
    let Some(rule) = rules::rule(name) else {
        let what = format!("crate `{name}` is not in the table of xtask/src/rules.rs");
        violations.push(Violation::new(&file.path, line_of(&file.text, "name"), what));
        return Ok(());
    };
    for dependency in internal(&manifest, shared) {
        let used = dependency.package.as_str();
        let allowed = rule.uses.contains(&used)
            || (dependency.kind == Use::Dev
                && (rules::DEV_USES.contains(&used) || rules::DEV_PAIRS.contains(&(name, used))));
        if !allowed || rules::NEVER.contains(&(name, used)) {
            violations.push(forbidden(file, name, &dependency, rule.uses));
        }
    }
    Ok(())
}

fn check_tests(file: &TextFile, shared: &Table, violations: &mut Vec<Violation>) -> Result<()> {
    for dependency in internal(&parse(file)?, shared) {
        if !rules::TESTS_USES.contains(&dependency.package.as_str()) {
            violations.push(forbidden(file, "tests", &dependency, rules::TESTS_USES));
        }
    }
    Ok(())
}

fn forbidden(file: &TextFile, name: &str, dependency: &Dependency, uses: &[&str]) -> Violation {
    let dev = if dependency.kind == Use::Dev { " in its tests" } else { "" };
    let uses = if uses.is_empty() { "no crate of ours".to_owned() } else { uses.join(", ") };
    let what = format!("{name} may not use {}{dev} (it may use {uses})", dependency.package);
    Violation::new(&file.path, line_of(&file.text, &dependency.key), what)
}

/// The dependencies on crates of this workspace, in every table that can hold one.
fn internal(manifest: &Table, shared: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    collect(manifest, shared, &mut found);
    let targets = manifest.get("target").and_then(Value::as_table);
    for target in targets.into_iter().flat_map(Table::values).filter_map(Value::as_table) {
        collect(target, shared, &mut found);
    }
    found.retain(|dependency| {
        dependency.package == rules::FACADE || dependency.package.starts_with("towpath-")
    });
    found
}

fn collect(table: &Table, shared: &Table, found: &mut Vec<Dependency>) {
    let sections = [
        ("dependencies", Use::Normal),
        ("build-dependencies", Use::Normal),
        ("dev-dependencies", Use::Dev),
    ];
    for (section, kind) in sections {
        let entries = table.get(section).and_then(Value::as_table);
        for (key, value) in entries.into_iter().flatten() {
            let inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
            let definition = if inherited { shared.get(key) } else { Some(value) };
            let package = definition.and_then(|value| value.get("package")).and_then(Value::as_str);
            let package = package.unwrap_or(key).to_owned();
            found.push(Dependency { kind, key: key.clone(), package });
        }
    }
}

fn workspace_dependencies(root: &Table) -> Table {
    let workspace = root.get("workspace");
    let shared = workspace.and_then(|workspace| workspace.get("dependencies"));
    shared.and_then(Value::as_table).cloned().unwrap_or_default()
}

fn parse(file: &TextFile) -> Result<Table> {
    file.text.parse().hint(|| format!("cannot read {}", file.path), "correct the manifest's TOML")
}

/// The first line that defines `key`, as `key = ...`, `key.x = ...` or `[table.key]`.
fn line_of(text: &str, key: &str) -> usize {
    let defines = |line: &str| {
        let after = line.trim().strip_prefix(key).map(str::trim_start);
        after.is_some_and(|rest| rest.starts_with(['=', '.']))
            || line.trim().ends_with(&format!(".{key}]"))
    };
    text.lines().position(defines).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, manifest: &str) -> Vec<String> {
        let root = "[workspace.dependencies]\nhidden = { package = \"towpath-io\", path = \"x\" }";
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = format!("[package]\nname = \"{name}\"\n{manifest}");
        let tree = Tree::of(&[("Cargo.toml", root), (&path, &manifest)]);
        let violations = check(&tree).expect("readable manifests");
        violations
            .iter()
            .map(|violation| format!("{}: {}", violation.line, violation.what))
            .collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let manifest = "[dependencies]\ntowpath-wire.workspace = true\nserde = \"1\"\n\
                        [dev-dependencies]\ntowpath-sim.workspace = true\n";
        assert!(found("towpath-vm", manifest).is_empty());
    }

    #[test]
    fn forbidden_edges_are_named_with_their_line() {
        let found = found("towpath-vm", "[dependencies]\ntowpath-proto = { path = \"x\" }\n");
        assert_eq!(
            found,
            ["4: towpath-vm may not use towpath-proto (it may use towpath-qos, towpath-wire)"]
        );
    }

    #[test]
    fn renames_targets_and_build_dependencies_do_not_hide_an_edge() {
        for manifest in [
            "[dependencies]\nhidden.workspace = true",
            "[dependencies]\nother = { package = \"towpath-io\", path = \"x\" }",
            "[target.'cfg(unix)'.dependencies.towpath-io]\npath = \"x\"",
            "[build-dependencies]\ntowpath-io.workspace = true",
        ] {
            assert_eq!(found("towpath-wire", manifest).len(), 1, "{manifest}");
        }
    }

    #[test]
    fn the_simulator_may_not_use_io_even_in_tests() {
        let manifest = "[dev-dependencies]\ntowpath-io.workspace = true";
        assert_eq!(found("towpath-sim", manifest).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_an_error() {
        assert!(found("towpath-extra", "")[0].contains("not in the table"));
    }
}
