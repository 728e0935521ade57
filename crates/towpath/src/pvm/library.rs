//! Our library in the place of PVM's: tasks find it under PVM's names in a folder of its own.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use towpath_pvm::linkage::{self, Linkage, NAMES};

use crate::config::make_dir;

/// With the value `no` among a task's variables, it gets PVM's own library.
pub const SWITCH: &str = "TOWPATH_PVM";
/// Names a folder with our library under PVM's names.
pub const FOLDER_VAR: &str = "TOWPATH_PVM_LIB";
/// What our library has in it, and PVM's has not: the name of a variable that it reads.
const MARK: &str = towpath_task::place::SOCKET_VAR;
/// Most bytes of a library that are looked at.
const LIBRARY_MAX: u64 = 256 << 20;
/// Programs whose linkage is remembered.
const KNOWN_MAX: usize = 1024;

/// A program has PVM's library linked in.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{program} has PVM's own library linked in, so that Towpath cannot take its place: link it \
     with the shared one, `cc -o {name} OBJECTS -lpvm3`, or run it under PVM (`--no-pvm`)"
)]
pub struct LinkedIn {
    program: String,
    name: String,
}

/// What makes a file another one: device, number, length, time of its last change.
type FileKey = (u64, u64, u64, i64);

/// The folder with our library, and what is known of programs.
#[derive(Debug)]
pub struct Library {
    folder: PathBuf,
    known: HashMap<FileKey, Linkage>,
}

impl Library {
    /// In a folder that has it under PVM's names.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, known: HashMap::new() }
    }

    /// The one that belongs to this program: of `TOWPATH_PVM_LIB`, of the installation
    /// (`../lib/towpath`, `../lib`), or of the folder that it was built in; `dir` then gets a
    /// folder with PVM's names. `None`: there is none.
    pub fn find(dir: &Path) -> Option<Self> {
        match place()? {
            Place::Folder(folder) => Some(Self::at(folder)),
            Place::File(library) => {
                let folder = dir.join("pvm");
                named(&library, &folder).ok()?;
                Some(Self::at(folder))
            }
        }
    }

    /// Whether there is one that [`Library::find`] would find here.
    pub fn is_there() -> bool {
        place().is_some()
    }

    /// Variables that a program is to have so that it finds this library, given what it would
    /// have.
    pub fn variables(
        &mut self,
        program: &Path,
        value: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Vec<(&'static str, OsString)>, LinkedIn> {
        let linkage = self.linkage(program);
        if linkage == Linkage::Static {
            let name = program.file_name().unwrap_or_default();
            return Err(LinkedIn {
                program: program.display().to_string(),
                name: name.to_string_lossy().into_owned(),
            });
        }
        let mut set = Vec::new();
        let mut put = |name: &'static str, own: &Path| {
            let had = value(name).filter(|had| !had.is_empty());
            set.extend(with(own.as_os_str(), had).map(|value| (name, value)));
        };
        put("LD_LIBRARY_PATH", &self.folder);
        if linkage == Linkage::Fixed {
            put("LD_PRELOAD", &self.folder.join(NAMES[0]));
        }
        Ok(set)
    }

    fn linkage(&mut self, program: &Path) -> Linkage {
        // A FIFO would hold the daemon up.
        let Some(meta) = program.metadata().ok().filter(Metadata::is_file) else {
            return Linkage::None;
        };
        let changed = meta.mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec());
        let key = (meta.dev(), meta.ino(), meta.len(), changed);
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&key) {
            self.known.clear();
        }
        *self.known.entry(key).or_insert_with(|| linkage::at(program))
    }
}

/// Where the library is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Under PVM's names in a folder of theirs.
    Folder(PathBuf),
    /// Under one name.
    File(PathBuf),
}

fn place() -> Option<Place> {
    if let Some(folder) = std::env::var_os(FOLDER_VAR).filter(|folder| !folder.is_empty()) {
        return Some(Place::Folder(folder.into()));
    }
    // The program itself, where it was started by a symbolic link.
    let program = std::env::current_exe().ok()?;
    place_beside(&program.canonicalize().unwrap_or(program))
}

/// In the installation that a program belongs to, or in the folder that it was built in.
fn place_beside(program: &Path) -> Option<Place> {
    let beside = program.parent()?;
    let installed = beside.parent().map(|prefix| prefix.join("lib/towpath"));
    if let Some(folder) = installed.filter(|folder| folder.join(NAMES[0]).is_file()) {
        return Some(Place::Folder(folder));
    }
    let built = ["libpvm3.so", "deps/libpvm3.so"].map(|name| beside.join(name));
    let built = built.into_iter().find(|path| path.is_file());
    let beside = ["../lib/libpvm3.so.3", "../lib/libpvm3.so"].map(|name| beside.join(name));
    let found = built.or_else(|| beside.into_iter().find(|path| is_ours(path)))?;
    Some(Place::File(found.canonicalize().unwrap_or(found)))
}

/// Whether a file is our library, and not that of PVM, which may stand in the same folder.
fn is_ours(path: &Path) -> bool {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        File::open(path)?.take(LIBRARY_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mark = MARK.as_bytes();
    path.is_file() && read().is_ok_and(|all| all.windows(mark.len()).any(|part| part == mark))
}

/// Puts `own` before a list with colons; `None`: it is in it already.
fn with(own: &OsStr, had: Option<OsString>) -> Option<OsString> {
    let Some(had) = had else { return Some(own.into()) };
    if had.as_bytes().split(|byte| *byte == b':').any(|part| part == own.as_bytes()) {
        return None;
    }
    let mut all = own.to_os_string();
    all.push(":");
    all.push(had);
    Some(all)
}

/// Makes a folder in which `library` has PVM's names. The dynamic linker sees that both are one
/// file.
fn named(library: &Path, folder: &Path) -> io::Result<()> {
    make_dir(folder).map_err(io::Error::other)?;
    for name in NAMES {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|there| there == library) {
            continue;
        }
        match std::fs::remove_file(&link) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => symlink(library, &link)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_first_and_once() {
        let own = OsStr::new("/ours");
        assert_eq!(with(own, None), Some("/ours".into()));
        assert_eq!(with(own, Some("/a:/b".into())), Some("/ours:/a:/b".into()));
        assert_eq!(with(own, Some("/a:/ours".into())), None);
        assert_eq!(with(own, Some("/ours2".into())), Some("/ours:/ours2".into()));
    }

    #[test]
    fn names_are_made_and_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        for target in ["one", "two", "two"] {
            let library = dir.path().join(target);
            std::fs::write(&library, target).unwrap();
            named(&library, &dir.path().join("pvm")).unwrap();
            for name in NAMES {
                let text = std::fs::read_to_string(dir.path().join("pvm").join(name)).unwrap();
                assert_eq!(text, target);
            }
        }
    }

    #[test]
    fn the_library_is_found_in_the_installation_and_pvms_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for folder in ["bin", "lib/towpath"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        let found = || place_beside(&at("bin/towpath"));
        assert_eq!(found(), None);
        std::fs::write(at("lib/libpvm3.so.3"), "PVM's own").unwrap();
        assert_eq!(found(), None);
        let ours = at("lib/libpvm3.so.3.4.6");
        std::fs::write(&ours, format!("\0\x7f{MARK}\0")).unwrap();
        std::fs::remove_file(at("lib/libpvm3.so.3")).unwrap();
        symlink("libpvm3.so.3.4.6", at("lib/libpvm3.so.3")).unwrap();
        let ours = ours.canonicalize().unwrap();
        assert_eq!(found(), Some(Place::File(ours)));
        std::fs::write(at("lib/towpath/libpvm3.so.3"), "").unwrap();
        let folder = at("bin").parent().map(|prefix| prefix.join("lib/towpath")).unwrap();
        assert_eq!(found(), Some(Place::Folder(folder)));
    }

    #[test]
    fn what_is_no_program_gets_the_folder_only() {
        let mut library = Library::at("/ours".into());
        let none = |_: &str| None;
        let script = library.variables(Path::new("/etc/passwd"), &none).unwrap();
        assert_eq!(script, [("LD_LIBRARY_PATH", "/ours".into())]);
    }
}
