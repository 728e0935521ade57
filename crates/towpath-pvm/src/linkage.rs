//! How a program is linked with PVM's library, from its ELF file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::names as search;
use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, SHT_SYMTAB};
use object::read::elf::{Dyn, FileHeader, Sym};

/// Names of PVM's libraries, as programs ask for them.
pub const NAMES: [&str; 2] = ["libpvm3.so.3", "libgpvm3.so.3"];
/// Largest program looked at, in bytes; a larger one gets the library by `LD_LIBRARY_PATH` alone.
pub const PROGRAM_MAX: u64 = 16 << 20;
/// A function of PVM's library that every program with it linked in has.
const MARK: &[u8] = b"pvm_mytid";

/// How a program is linked with PVM's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Not at all, as far as can be seen.
    None,
    /// It asks for the library, and `LD_LIBRARY_PATH` says which.
    Shared,
    /// It asks for the library and says itself where that is (`DT_RPATH`), before
    /// `LD_LIBRARY_PATH` is looked at.
    Fixed,
    /// The library is part of it.
    Static,
}

/// The file of a program, as a host finds it: by its path from `folder`, else in the folders of
/// PVM's programs, else by `PATH`. `own` gives variables of the host, `given` those of the task.
pub fn file(
    name: &OsStr,
    folder: Option<&OsStr>,
    own: search::Variable<'_>,
    given: search::Variable<'_>,
) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(folder.map_or_else(|| name.into(), |folder| Path::new(folder).join(name)));
    }
    let path = || given("PATH").or_else(|| own("PATH"));
    search::program(name, own, given).or_else(|| search::in_path(name, &path()?))
}

/// Looks at a file; what is no ELF file, or cannot be read, has no linkage.
pub fn at(path: &Path) -> Linkage {
    let read = || -> std::io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let mut bytes = Vec::new();
        if file.metadata()?.len() <= PROGRAM_MAX {
            file.take(PROGRAM_MAX).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    read().map_or(Linkage::None, |bytes| of(&bytes))
}

/// Looks at a program.
pub fn of(program: &[u8]) -> Linkage {
    read(program).unwrap_or(Linkage::None)
}

fn read(program: &[u8]) -> object::Result<Linkage> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let (mut asked, mut fixed, mut movable) = (false, false, false);
    if let Some((entries, strings)) = sections.dynamic(endian, program)? {
        let strings = sections.strings(endian, program, strings)?;
        for entry in entries {
            match entry.tag32(endian) {
                Some(DT_NEEDED) => {
                    let name = entry.string(endian, strings).unwrap_or_default();
                    asked |= NAMES.iter().any(|ours| ours.as_bytes() == name);
                }
                Some(DT_RPATH) => fixed = true,
                Some(DT_RUNPATH) => movable = true,
                _ => {}
            }
        }
    }
    if asked {
        return Ok(if fixed && !movable { Linkage::Fixed } else { Linkage::Shared });
    }
    let symbols = sections.symbols(endian, program, SHT_SYMTAB)?;
    let is_mark = |symbol: &<FileHeader64<Endianness> as FileHeader>::Sym| {
        !symbol.is_undefined(endian) && symbols.symbol_name(endian, symbol) == Ok(MARK)
    };
    Ok(if symbols.iter().any(is_mark) { Linkage::Static } else { Linkage::None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// Compiles a C program; `None` where there is no compiler.
    fn compile(dir: &Path, source: &str, args: &[&str]) -> Option<PathBuf> {
        std::fs::write(dir.join("a.c"), source).unwrap();
        let out = dir.join(format!("out{}", args.len()));
        let mut cc = Command::new("cc");
        cc.current_dir(dir).arg("-o").arg(&out).arg("a.c").args(args);
        match cc.output() {
            Ok(done) => {
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                Some(out)
            }
            Err(e) => {
                towpath_skip::skip(&format!("no C compiler: {e}"));
                None
            }
        }
    }

    #[test]
    fn programs_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let function = "int pvm_mytid(void) { return 1; }";
        let soname = "-Wl,-soname,libpvm3.so.3";
        let Some(library) = compile(dir, function, &["-shared", "-fPIC", soname]) else { return };
        std::fs::rename(library, dir.join("libpvm3.so")).unwrap();
        let user = "int pvm_mytid(void); int main(void) { return pvm_mytid(); }";
        let linked = |args: &[&str]| {
            let args = [args, &["-L.", "-lpvm3"]].concat();
            at(&compile(dir, user, &args).unwrap())
        };
        assert_eq!(linked(&[]), Linkage::Shared);
        assert_eq!(linked(&["-Wl,--disable-new-dtags,-rpath,/usr/lib"]), Linkage::Fixed);
        assert_eq!(linked(&["-g", "-Wl,--enable-new-dtags,-rpath,/usr/lib"]), Linkage::Shared);
        let whole = format!("{function} int main(void) {{ return pvm_mytid(); }}");
        assert_eq!(at(&compile(dir, &whole, &[]).unwrap()), Linkage::Static);
        let other = compile(dir, "int main(void) { return 0; }", &[]).unwrap();
        assert_eq!(at(&other), Linkage::None);
        assert_eq!(at(&dir.join("a.c")), Linkage::None);
        assert_eq!(at(dir), Linkage::None);
    }

    proptest! {
        /// A program with bytes of it changed: any answer will do, but there is one.
        #[test]
        fn a_broken_program_is_harmless(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
            cut: prop::sample::Index,
        ) {
            let mut bytes = std::fs::read("/bin/true").unwrap();
            // Most of what counts is at its ends.
            let len = bytes.len();
            for (at, byte) in changes {
                let at = at.index(2 * 4096);
                let at = if at < 4096 { at } else { len.saturating_sub(at - 4095) };
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
            }
            bytes.truncate(len - cut.index(len) / 2);
            of(&bytes);
        }
    }
}
