//! Each item's output in files of its own, where GNU parallel's `--results` puts it:
//!
//! ```text
//! DIR/1/<first column>/2/<second column>/{seq,stdout,stderr}
//! ```
//! In names, `\` is written `\\`, a tab `\t` and `/` is `\_`, as GNU parallel has it. What is no
//! name at all (nothing, `.`, `..`) gets a backslash before it; a name that would be too long, and
//! a place that an earlier item has taken, end with `\#` and the item's number.
//!
//! Each of the directories is to be ours, and nobody else may write into it: nothing is written
//! through links that others put there.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use towpath_vm::Stream;

use super::input::Item;
use super::output::{Capture, Store};
use crate::private::{PrivateError, ResultDir};

/// Longest name of ours, in bytes, before a number is put to it: file systems take 255.
const NAME_MAX: usize = 230;

/// Results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The operating system refused something.
    #[error(
        "cannot write results into {}: {os}\nhint: free space or make it writable, or give \
         another directory with --results",
        path.display()
    )]
    System {
        /// Where.
        path: PathBuf,
        /// What it says.
        os: io::Error,
    },
    /// Others could have them written elsewhere.
    #[error("cannot write results: {0}")]
    Exposed(PrivateError),
}

impl From<PrivateError> for ResultsError {
    fn from(why: PrivateError) -> Self {
        match why {
            PrivateError::System { path, why, .. } => Self::System { path, os: why },
            exposed @ PrivateError::Exposed { .. } => Self::Exposed(exposed),
        }
    }
}

/// A directory of results.
#[derive(Debug)]
pub(super) struct ResultsDir {
    dir: ResultDir,
    /// Places that were taken, by their hashes.
    taken: HashSet<u64>,
}

impl ResultsDir {
    /// Makes the directory: what cannot be made shows before anything runs.
    pub(super) fn create(dir: &Path) -> Result<Self, ResultsError> {
        Ok(Self { dir: ResultDir::make(dir)?, taken: HashSet::new() })
    }

    /// Writes what an item said.
    pub(super) fn write(
        &mut self,
        seq: u64,
        item: Item<'_>,
        (store, capture): (&Store, &Capture),
    ) -> Result<(), ResultsError> {
        let place = self.place(seq, item);
        let mut dir = None;
        for name in place.components().map(Component::as_os_str) {
            dir = Some(dir.as_ref().unwrap_or(&self.dir).below(name)?);
        }
        let dir = dir.as_ref().unwrap_or(&self.dir);
        let failed = |os| ResultsError::System { path: place.clone(), os };
        dir.create("seq")?.write_all(seq.to_string().as_bytes()).map_err(failed)?;
        for (name, stream) in [("stdout", Stream::Out), ("stderr", Stream::Err)] {
            let mut file = BufWriter::new(dir.create(name)?);
            let written = store.read(capture, stream, &mut |piece| file.write_all(piece));
            written.and_then(|()| file.flush()).map_err(failed)?;
        }
        Ok(())
    }

    fn place(&mut self, seq: u64, item: Item<'_>) -> PathBuf {
        let mut place = PathBuf::new();
        let last = item.columns().count();
        let mut own = vec![];
        for (number, column) in (1..).zip(item.columns()) {
            own = name(seq, column);
            place.push(number.to_string());
            if number < last {
                place.push(PathBuf::from(std::ffi::OsString::from_vec(std::mem::take(&mut own))));
            }
        }
        let mut hash = DefaultHasher::new();
        (&place, &own).hash(&mut hash);
        if !self.taken.insert(hash.finish()) && !own.ends_with(&numbered(seq)) {
            own.extend_from_slice(&numbered(seq));
        }
        place.join(std::ffi::OsString::from_vec(own))
    }
}

fn numbered(seq: u64) -> Vec<u8> {
    format!("\\#{seq}").into_bytes()
}

fn name(seq: u64, column: &[u8]) -> Vec<u8> {
    let mut name = vec![];
    if matches!(column, b"" | b"." | b"..") {
        name.push(b'\\');
    }
    for byte in column {
        match byte {
            b'\\' => name.extend_from_slice(b"\\\\"),
            b'\t' => name.extend_from_slice(b"\\t"),
            b'/' => name.extend_from_slice(b"\\_"),
            byte => name.push(*byte),
        }
    }
    if name.len() > NAME_MAX {
        name.truncate(NAME_MAX);
        name.extend_from_slice(&numbered(seq));
    }
    name
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::farm::input::Items;

    fn written(results: &mut ResultsDir, seq: u64, columns: &[&str]) {
        let mut store = Store::default();
        store.append(seq, Stream::Out, format!("out {seq}\n").into_bytes()).unwrap();
        store.append(seq, Stream::Err, b"oops".to_vec()).unwrap();
        let capture = store.take(seq);
        let mut items = Items::default();
        items.push_columns(columns.iter().map(|c| c.as_bytes())).unwrap();
        results.write(seq, items.at(0), (&store, &capture)).unwrap();
        store.release(capture);
    }

    #[test]
    fn every_item_has_files_of_its_own_within_the_directory() {
        let base = tempfile::tempdir().unwrap();
        let mut results = ResultsDir::create(&base.path().join("r")).unwrap();
        let long = "x".repeat(400);
        let items: [&[&str]; 9] =
            [&["a"], &["b", "2"], &["x/y\\z"], &[".."], &["."], &[""], &["a"], &[&long], &[&long]];
        for (seq, columns) in (1..).zip(items) {
            written(&mut results, seq, columns);
        }
        let cut = "x".repeat(NAME_MAX);
        let places = [
            "1/a".into(),
            "1/b/2/2".into(),
            "1/x\\_y\\\\z".into(),
            "1/\\..".into(),
            "1/\\.".into(),
            "1/\\".into(),
            "1/a\\#7".into(),
            format!("1/{cut}\\#8"),
            format!("1/{cut}\\#9"),
        ];
        for (seq, place) in (1..).zip(&places) {
            let at = base.path().join("r").join(place);
            let read = |name: &str| fs::read_to_string(at.join(name)).unwrap();
            assert_eq!(read("seq"), seq.to_string(), "{place}");
            assert_eq!((read("stdout"), read("stderr")), (format!("out {seq}\n"), "oops".into()));
        }
        assert_eq!(base.path().read_dir().unwrap().count(), 1, "nothing beside it");
    }

    #[test]
    fn what_others_could_lead_elsewhere_is_not_written_into() {
        let base = tempfile::tempdir().unwrap();
        let (dir, elsewhere) = (base.path().join("r"), base.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        // A link of one's own may stand for the directory, however it is written.
        symlink(&elsewhere, &dir).unwrap();
        for dir in [dir.clone(), dir.join("")] {
            written(&mut ResultsDir::create(&dir).unwrap(), 1, &["a"]);
            assert!(fs::remove_file(elsewhere.join("1/a/stdout")).is_ok());
        }
        fs::remove_file(&dir).unwrap();
        // Not within it: nobody made that but to have results elsewhere.
        let mut results = ResultsDir::create(&dir).unwrap();
        symlink(&elsewhere, dir.join("1")).unwrap();
        let said = refusal(&mut results);
        assert!(said.contains("r/1 (owner") && said.contains("is a symbolic link"), "{said}");
        assert!(said.contains("hint: give another directory with --results"), "{said}");
        assert!(!elsewhere.join("1/a/stdout").exists() && !elsewhere.join("b").exists());
        fs::remove_file(dir.join("1")).unwrap();
        fs::create_dir(dir.join("1")).unwrap();
        fs::set_permissions(dir.join("1"), fs::Permissions::from_mode(0o777)).unwrap();
        let said = refusal(&mut results);
        assert!(said.contains("mode 0777) can be written by others"), "{said}");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
        let said = ResultsDir::create(&dir).unwrap_err().to_string();
        assert!(said.contains("can be written by others") && said.contains("chmod go-w"), "{said}");
    }

    fn refusal(results: &mut ResultsDir) -> String {
        let mut store = Store::default();
        let capture = store.take(1);
        let mut items = Items::default();
        items.push_columns([b"b".as_slice()].into_iter()).unwrap();
        results.write(1, items.at(0), (&store, &capture)).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_made_is_named_with_a_hint() {
        let said = ResultsDir::create(Path::new("/dev/null/x")).unwrap_err().to_string();
        assert!(said.contains("/dev/null/x") && said.contains("hint:"), "{said}");
    }
}
