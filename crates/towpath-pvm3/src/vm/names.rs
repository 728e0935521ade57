//! PVM's names for architectures, and where it looks for programs.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Towpath's names and PVM's.
const ARCHS: [(&str, &str); 2] = [("x86_64-linux", "LINUX64"), ("aarch64-linux", "LINUXARM64")];

/// PVM's name of an architecture.
pub(super) fn to_pvm(arch: &str) -> &str {
    ARCHS.iter().find(|(ours, _)| *ours == arch).map_or(arch, |(_, theirs)| theirs)
}

/// Towpath's name of an architecture.
pub(super) fn from_pvm(arch: &str) -> &str {
    ARCHS.iter().find(|(_, theirs)| *theirs == arch).map_or(arch, |(ours, _)| ours)
}

/// Name of this machine's architecture.
fn here() -> &'static str {
    if cfg!(target_arch = "x86_64") { ARCHS[0].1 } else { ARCHS[1].1 }
}

/// Variables by which PVM's folders of programs are found.
struct Folders<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Folders<'_> {
    /// In the order in which they are looked through: `PVM_PATH`, then the user's and the
    /// system's programs for this architecture.
    fn list(&self) -> Vec<PathBuf> {
        let mut list: Vec<PathBuf> = Vec::new();
        if let Some(path) = (self.0)("PVM_PATH") {
            list.extend(std::env::split_paths(&path));
        }
        let arch = (self.0)("PVM_ARCH").unwrap_or_else(|| here().into());
        if let Some(home) = (self.0)("HOME") {
            list.push(Path::new(&home).join("pvm3/bin").join(&arch));
        }
        if let Some(root) = (self.0)("PVM_ROOT") {
            list.push(Path::new(&root).join("bin").join(&arch));
        }
        list
    }
}

/// A program as it is to be started: by its path where PVM's folders have it, else as it was
/// named, for the host to look up.
pub(super) fn program(name: &[u8]) -> Vec<u8> {
    found(name, &|variable| std::env::var_os(variable).filter(|value| !value.is_empty()))
}

fn found(name: &[u8], variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<u8> {
    if name.contains(&b'/') {
        return name.to_vec();
    }
    let of = |folder: PathBuf| folder.join(std::ffi::OsStr::from_bytes(name));
    let path = Folders(variable).list().into_iter().map(of).find(|path| path.is_file());
    path.map_or_else(|| name.to_vec(), |path| path.into_os_string().into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_two_names() {
        assert_eq!(to_pvm("x86_64-linux"), "LINUX64");
        assert_eq!(from_pvm("LINUX64"), "x86_64-linux");
        assert_eq!(from_pvm(to_pvm("vax")), "vax");
    }

    #[test]
    fn programs_are_found_where_pvm_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin/LINUX64");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("slave"), "").unwrap();
        let variable = |name: &str| match name {
            "PVM_ROOT" => Some(folder.path().as_os_str().to_owned()),
            "PVM_ARCH" => Some("LINUX64".into()),
            _ => None,
        };
        let path = bin.join("slave").into_os_string().into_vec();
        assert_eq!(found(b"slave", &variable), path);
        assert_eq!(found(b"other", &variable), b"other");
        assert_eq!(found(b"/bin/slave", &variable), b"/bin/slave");
    }
}
