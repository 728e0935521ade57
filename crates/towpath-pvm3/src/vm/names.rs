//! PVM's names for architectures, and where it looks for programs, as a task sees them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use towpath_pvm::names as pvm;

pub(super) use towpath_pvm::names::arch_to_pvm as to_pvm;

/// Towpath's name of an architecture; one that PVM has no name for keeps its own.
pub(super) fn from_pvm(arch: &str) -> &str {
    pvm::arch_from_pvm(arch).unwrap_or(arch)
}

/// A program as it is to be started: by its path where the folders of this task's variables have
/// it, else as it was named, for the host to look up.
pub(super) fn program(name: &[u8]) -> Vec<u8> {
    found(name, &|variable| std::env::var_os(variable).filter(|value| !value.is_empty()))
}

fn found(name: &[u8], variable: pvm::Variable<'_>) -> Vec<u8> {
    let path = if name.contains(&b'/') {
        None
    } else {
        pvm::program(OsStr::from_bytes(name), variable, &|_| None)
    };
    path.map_or_else(|| name.to_vec(), |path| OsString::from(path).into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_are_found_where_pvm_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin/LINUX64");
        std::fs::create_dir_all(&bin).unwrap();
        for (name, mode) in [("slave", 0o755), ("text", 0o644)] {
            std::fs::write(bin.join(name), "").unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(bin.join(name), mode).unwrap();
        }
        let variable = |name: &str| match name {
            "PVM_ROOT" => Some(folder.path().as_os_str().to_owned()),
            "PVM_ARCH" => Some("LINUX64".into()),
            _ => None,
        };
        let path = bin.join("slave").into_os_string().into_vec();
        assert_eq!(found(b"slave", &variable), path);
        assert_eq!(found(b"/bin/slave", &variable), b"/bin/slave");
        // What cannot be run is no program.
        assert_eq!(found(b"text", &variable), b"text");
        assert_eq!((from_pvm("LINUX64"), from_pvm("vax")), ("x86_64-linux", "vax"));
    }
}
