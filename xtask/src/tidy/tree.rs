//! The tree as the checks see it: every text file, and every Rust file read once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::source::Source;
use crate::listing;
use crate::report::Violation;

pub(super) struct TextFile {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

pub(super) struct RustFile {
    pub(super) path: String,
    pub(super) source: Source,
    /// The whole file is test code: `tests.rs`, under a `tests/` folder, or declared elsewhere as
    /// `#[cfg(test)] mod name;`.
    pub(super) is_test: bool,
}

pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) texts: Vec<TextFile>,
    pub(super) rust: Vec<RustFile>,
    pub(super) unreadable: Vec<Violation>,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut texts = Vec::new();
        for path in listing::list(root)? {
            // What is not UTF-8 is data, not text.
            if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                texts.push(TextFile { path, text });
            }
        }
        Ok(Self::from_texts(root.to_path_buf(), texts))
    }

    pub(super) fn from_texts(root: PathBuf, texts: Vec<TextFile>) -> Self {
        let mut rust = Vec::new();
        let mut unreadable = Vec::new();
        for file in texts.iter().filter(|file| has_extension(&file.path, "rs")) {
            match Source::read(&file.text) {
                Ok(source) => {
                    let is_test = is_test_path(&file.path);
                    rust.push(RustFile { path: file.path.clone(), source, is_test });
                }
                Err((line, error)) => {
                    let what = format!("cannot be read as Rust: {error}");
                    unreadable.push(Violation::new(&file.path, line, what));
                }
            }
        }
        mark_declared_tests(&mut rust);
        Self { root, texts, rust, unreadable }
    }

    pub(super) fn text(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.text(path).is_some()
    }

    pub(super) fn has_crate(&self, name: &str) -> bool {
        self.exists(&format!("crates/{name}/Cargo.toml"))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let texts = files
            .iter()
            .map(|(path, text)| TextFile { path: (*path).into(), text: (*text).into() })
            .collect();
        Self::from_texts(PathBuf::new(), texts)
    }
}

pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Whether a path alone says that its file is test code.
pub(super) fn is_test_path(path: &str) -> bool {
    path.rsplit('/').next() == Some("tests.rs") || under_tests(path)
}

/// Whether a file is in a `tests/` folder, at any depth.
pub(super) fn under_tests(path: &str) -> bool {
    path.rsplit('/').skip(1).any(|folder| folder == "tests")
}

fn mark_declared_tests(rust: &mut [RustFile]) {
    let mut declared = BTreeSet::new();
    for file in rust.iter() {
        for module in &file.source.shape.test_files {
            declared.extend(module_paths(&file.path, module));
        }
    }
    for file in rust {
        let below = |path: &String| {
            path.strip_suffix("/mod.rs").is_some_and(|dir| file.path.starts_with(dir))
        };
        file.is_test |= declared.contains(&file.path) || declared.iter().any(below);
    }
}

/// Where `mod name;` in `path` may live. A name with a `.` came from `#[path = "..."]`.
fn module_paths(path: &str, name: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if name.contains('.') {
        return vec![format!("{folder}/{name}")];
    }
    let folder = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_name_folder_or_declaration() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod laws;\nmod real;"),
            ("crates/a/src/laws.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)]\n#[path = \"odd_tests.rs\"]\nmod tests;"),
            ("crates/a/src/odd_tests.rs", ""),
            ("crates/a/src/x/tests.rs", ""),
            ("crates/a/tests/whole.rs", ""),
        ]);
        let tests: Vec<_> =
            tree.rust.iter().filter(|file| file.is_test).map(|file| &*file.path).collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/laws.rs",
                "crates/a/src/odd_tests.rs",
                "crates/a/src/x/tests.rs",
                "crates/a/tests/whole.rs"
            ]
        );
    }
}
