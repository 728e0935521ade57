//! A copy of the tree in `target/selfcheck/tree` that faults are planted in and taken out again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::report::WithHint;
use crate::{listing, process};

/// A change to one file. Paths are relative to the tree.
#[derive(Clone)]
pub(super) enum Edit {
    Write(String, String),
    Append(&'static str, String),
    Replace(&'static str, &'static str, String),
    Remove(&'static str),
}

impl Edit {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Write(path, _) => path,
            Self::Append(path, _) | Self::Replace(path, _, _) | Self::Remove(path) => path,
        }
    }
}

pub(super) struct Copy {
    pub(super) root: PathBuf,
}

impl Copy {
    /// Copies what git would, over what the last run left; build results of the copy are kept.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let copy = root.join("target/selfcheck/tree");
        clear(&copy)?;
        for path in listing::list(root)? {
            let to = copy.join(&path);
            create_parent(&to)?;
            fs::copy(root.join(&path), &to)
                .hint(|| format!("cannot copy {path}"), "check the disk")?;
        }
        Ok(Self { root: copy })
    }

    /// Does `work` with the edits in place and undoes them.
    pub(super) fn with<T>(&self, edits: &[Edit], work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut before = Vec::new();
        for edit in edits {
            let path = self.root.join(edit.path());
            before.push((path.clone(), fs::read_to_string(&path).ok()));
            apply(edit, &path)?;
        }
        let result = work();
        for (path, text) in before.into_iter().rev() {
            match text {
                Some(text) => write(&path, &text)?,
                None => remove(&path, &self.root),
            }
        }
        result
    }

    /// Makes the copy a git repository whose last commit is what it holds now.
    pub(super) fn commit(&self) -> Result<()> {
        let steps: [&[&str]; 3] = [
            &["init", "--quiet"],
            &["add", "--all"],
            &[
                "-c",
                "user.name=selfcheck",
                "-c",
                "user.email=selfcheck@example.invalid",
                "-c",
                "commit.gpgsign=false",
                "commit",
                "--quiet",
                "--message=selfcheck",
            ],
        ];
        for step in steps {
            process::stdout_of(Command::new("git").args(step).current_dir(&self.root))?;
        }
        Ok(())
    }

    pub(super) fn forget_commits(&self) -> Result<()> {
        fs::remove_dir_all(self.root.join(".git"))
            .hint(|| "cannot remove the copy's .git".into(), "remove target/selfcheck")
    }
}

/// Empties the copy, except for its build results.
fn clear(copy: &Path) -> Result<()> {
    fs::create_dir_all(copy)
        .hint(|| format!("cannot create {}", copy.display()), "check the disk")?;
    let entries =
        fs::read_dir(copy).hint(|| format!("cannot list {}", copy.display()), "check the disk")?;
    for entry in entries.flatten().filter(|entry| entry.file_name() != "target") {
        let path = entry.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.hint(|| format!("cannot remove {}", path.display()), "remove it by hand")?;
    }
    Ok(())
}

fn apply(edit: &Edit, path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).unwrap_or_default();
    match edit {
        Edit::Write(_, new) => write(path, new),
        Edit::Append(_, more) => write(path, &format!("{text}\n{more}")),
        Edit::Replace(name, from, to) => {
            if !text.contains(from) {
                bail!(
                    "cannot plant in {name}: no `{from}` there\nhint: correct selfcheck/faults.rs"
                );
            }
            write(path, &text.replacen(from, to, 1))
        }
        Edit::Remove(_) => {
            let _ = fs::remove_file(path);
            Ok(())
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    create_parent(path)?;
    fs::write(path, text).hint(|| format!("cannot write {}", path.display()), "check the disk")
}

/// Removes a planted file with the folders that are empty without it: cargo takes an empty folder
/// under `crates/` for a broken crate.
fn remove(path: &Path, root: &Path) {
    let _ = fs::remove_file(path);
    for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent)
        .hint(|| format!("cannot create {}", parent.display()), "check the disk")
}
