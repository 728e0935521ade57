//! The files of the repository, as git sees them: tracked, or new and not ignored.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::report::WithHint;

/// Folders that are never part of the repository, for trees without git.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", ".venv", "__pycache__"];

/// Paths relative to `root`, with `/`, sorted. Files deleted but still in the index are left out.
pub(crate) fn list(root: &Path) -> Result<Vec<String>> {
    let mut paths = if root.join(".git").exists() { ask_git(root)? } else { walk(root)? };
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn ask_git(root: &Path) -> Result<Vec<String>> {
    let output = process::stdout_of(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    Ok(output.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .hint(|| format!("cannot list {}", root.join(&folder).display()), "check --root")?;
        for entry in entries {
            let entry = entry.hint(|| format!("cannot list {folder}"), "try again")?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder {
                found.push(path);
            } else if !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            }
        }
    }
    Ok(found)
}
