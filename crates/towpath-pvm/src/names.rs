//! PVM's names of architectures, and where it looked for programs: the folders of `PVM_PATH`,
//! `$HOME/pvm3/bin/$PVM_ARCH`, `$PVM_ROOT/bin/$PVM_ARCH`. The same for daemons, the console and
//! the library that takes the place of PVM's.
//!
//! `PVM_PATH` may hold `$NAME` (PVM's host files do: `ep=$PVM_ROOT/bin/$PVM_ARCH`); a folder that
//! is not absolute is one of the home directory.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Towpath's names of architectures and PVM's.
const ARCHS: [(&str, &str); 2] = [("x86_64-linux", "LINUX64"), ("aarch64-linux", "LINUXARM64")];
/// PVM's name of the architecture that this machine has.
const HERE: &str = if cfg!(target_arch = "x86_64") { ARCHS[0].1 } else { ARCHS[1].1 };
/// Most folders of one `PVM_PATH`; more are not looked into.
const FOLDERS_MAX: usize = 64;

/// How the names of mailboxes begin in which the library keeps what is its own.
pub const OWN_MAILBOXES: &str = "###_TOWPATH_";

/// PVM's name of an architecture; one that PVM does not know keeps ours.
pub fn arch_to_pvm(arch: &str) -> &str {
    ARCHS.iter().find(|(ours, _)| *ours == arch).map_or(arch, |(_, theirs)| theirs)
}

/// Towpath's name of an architecture, where PVM has one for it.
pub fn arch_from_pvm(arch: &str) -> Option<&'static str> {
    ARCHS.iter().find(|(_, theirs)| *theirs == arch).map(|(ours, _)| *ours)
}

/// Value of a variable.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Finds a program by its name, which has no slash. The host's own `PVM_PATH` (`ep=` of its host
/// file) goes before the one that the task has.
pub fn program(name: &OsStr, host: Variable<'_>, task: Variable<'_>) -> Option<PathBuf> {
    let arch = || host("PVM_ARCH").unwrap_or_else(|| HERE.into());
    let value = |name: &str| match name {
        "PVM_ARCH" => Some(arch()),
        name => host(name).or_else(|| task(name)),
    };
    let own = |folder: &str| Some(Path::new(&value("HOME")?).join(folder).join(arch()));
    let root = || Some(Path::new(&value("PVM_ROOT")?).join("bin").join(arch()));
    let paths = [host("PVM_PATH"), task("PVM_PATH")].into_iter().flatten();
    let folders = paths.flat_map(|path| folders(&path, &value));
    let folders = folders.chain(own("pvm3/bin")).chain(root());
    first(folders, name)
}

/// Finds a program by `PATH`, as the operating system will.
pub fn in_path(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    first(env::split_paths(path), name)
}

fn first(folders: impl Iterator<Item = PathBuf>, name: &OsStr) -> Option<PathBuf> {
    folders.map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn folders(path: &OsStr, value: Variable<'_>) -> Vec<PathBuf> {
    let folders = path.as_bytes().split(|byte| *byte == b':').filter(|folder| !folder.is_empty());
    let home = value("HOME").map(PathBuf::from).unwrap_or_default();
    let full = |folder: &[u8]| home.join(OsString::from_vec(expand(folder, value)));
    folders.take(FOLDERS_MAX).map(full).collect()
}

/// Puts values in the place of `$NAME`; an unknown one is nothing.
fn expand(text: &[u8], value: Variable<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let fine = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = rest.iter().position(|byte| !fine(byte)).unwrap_or(rest.len());
        let name = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        out.extend(value(name).map(OsString::into_vec).unwrap_or_default());
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn executable(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn architectures_have_two_names() {
        assert_eq!(arch_to_pvm("x86_64-linux"), "LINUX64");
        assert_eq!(arch_from_pvm(arch_to_pvm("aarch64-linux")), Some("aarch64-linux"));
        assert_eq!((arch_to_pvm("vax"), arch_from_pvm("vax")), ("vax", None));
    }

    #[test]
    fn folders_are_looked_through_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let text = |path: &str| at(path).into_os_string();
        let host = |name: &str| match name {
            "PVM_PATH" => Some("ep".into()),
            "HOME" => Some(text("home")),
            "PVM_ARCH" => Some("CRAY".into()),
            _ => None,
        };
        let task = |name: &str| match name {
            "PVM_PATH" => Some(OsString::from(format!("{}/x:$PVM_ROOT/mine", text("").display()))),
            "PVM_ROOT" => Some(text("root")),
            _ => None,
        };
        let find = || program("slave".as_ref(), &host, &task);
        assert_eq!(find(), None);
        // From the last place to the first.
        for place in [
            "root/bin/CRAY/slave",
            "home/pvm3/bin/CRAY/slave",
            "root/mine/slave",
            "x/slave",
            "home/ep/slave",
        ] {
            executable(&at(place));
            assert_eq!(find(), Some(at(place)));
        }
    }

    #[test]
    fn only_what_can_be_run_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("text"), "").unwrap();
        executable(&dir.path().join("run"));
        let found = |name: &str| in_path(name.as_ref(), dir.path().as_os_str()).is_some();
        assert_eq!([found("folder"), found("text"), found("run")], [false, false, true]);
    }

    #[test]
    fn variables_are_put_in() {
        let value = |name: &str| (name == "A_1").then(|| "x".into());
        for (text, expanded) in [("$A_1/$B/c", "x//c"), ("a$", "a"), ("$$A_1", "x"), ("", "")] {
            assert_eq!(expand(text.as_bytes(), &value), expanded.as_bytes(), "{text}");
        }
    }
}
