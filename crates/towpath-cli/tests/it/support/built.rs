//! What tests use that cargo does not build with them: programs and libraries of other crates.
//!
//! Test files of several crates include this file by its path.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|of| of.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When a source of any crate was last changed.
fn sources_changed() -> SystemTime {
    static CHANGED: OnceLock<SystemTime> = OnceLock::new();
    *CHANGED.get_or_init(|| {
        let mut last = changed(&Path::new(ROOT).join("Cargo.lock"));
        let mut folders = vec![Path::new(ROOT).join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().expect("a folder").flatten() {
                let path = entry.path();
                let name = entry.file_name();
                if path.is_dir() && name != "tests" {
                    folders.push(path);
                } else if name == "Cargo.toml" || path.extension().is_some_and(|e| e == "rs") {
                    last = last.max(changed(&path));
                }
            }
        }
        last
    })
}

/// The first of these files in the folder of this build, such as `towpath` or `examples/heat`.
/// A test of the whole workspace finds it there; where it is missing, or older than the sources,
/// it is built with these arguments first: a test must not judge what older sources gave.
pub(crate) fn built(names: &[&str], args: &[&str]) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().nth(2).expect("deps, and what it is in");
    let find = || names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    if let Some(path) = find().filter(|path| changed(path) >= sources_changed()) {
        return path;
    }
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("a profile");
    let profile = if profile == "debug" { "dev" } else { profile };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--profile", profile]).args(args);
    cargo.arg("--target-dir").arg(folder.parent().expect("a folder")).current_dir(ROOT);
    let out = cargo.output().unwrap_or_else(|e| panic!("{cargo:?}: {e}"));
    assert!(out.status.success(), "{cargo:?}: {}", String::from_utf8_lossy(&out.stderr));
    find().unwrap_or_else(|| panic!("{cargo:?} built none of {names:?}"))
}
