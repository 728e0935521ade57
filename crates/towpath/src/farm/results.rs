//! Each item's output in files of its own, where GNU parallel's `--results` puts it:
//!
//! ```text
//! DIR/1/<first column>/2/<second column>/{seq,stdout,stderr}
//! ```
//! In names, `\` is written `\\`, a tab `\t` and `/` is `\_`, as GNU parallel has it. What is no
//! name at all (nothing, `.`, `..`) gets a backslash before it; a name that would be too long, and
//! a place that an earlier item has taken, end with `\#` and the item's number.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use towpath_vm::Stream;

use super::input::Item;
use super::output::{Capture, Store};
use crate::private::create_result;

/// Longest name of ours, in bytes, before a number is put to it: file systems take 255.
const NAME_MAX: usize = 230;

/// Results cannot be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write results into {}: {os}\nhint: free space or make it writable, or give another \
     directory with --results",
    path.display()
)]
pub struct ResultsError {
    path: PathBuf,
    os: io::Error,
}

/// A directory of results.
#[derive(Debug)]
pub(super) struct ResultsDir {
    dir: PathBuf,
    /// Places that were taken, by their hashes.
    taken: HashSet<u64>,
}

impl ResultsDir {
    /// Makes the directory: what cannot be made shows before anything runs.
    pub(super) fn create(dir: &Path) -> Result<Self, ResultsError> {
        let error = |os| ResultsError { path: dir.to_path_buf(), os };
        fs::create_dir_all(dir).map_err(error)?;
        Ok(Self { dir: dir.to_path_buf(), taken: HashSet::new() })
    }

    /// Writes what an item said.
    pub(super) fn write(
        &mut self,
        seq: u64,
        item: Item<'_>,
        (store, capture): (&Store, &Capture),
    ) -> Result<(), ResultsError> {
        let place = self.place(seq, item);
        let place = self.dir.join(place);
        let write = || -> io::Result<()> {
            fs::create_dir_all(&place)?;
            create_result(&place.join("seq"))?.write_all(seq.to_string().as_bytes())?;
            for (name, stream) in [("stdout", Stream::Out), ("stderr", Stream::Err)] {
                let mut file = BufWriter::new(create_result(&place.join(name))?);
                store.read(capture, stream, &mut |piece| file.write_all(piece))?;
                file.flush()?;
            }
            Ok(())
        };
        write().map_err(|os| ResultsError { path: place.clone(), os })
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
    fn what_cannot_be_made_is_named_with_a_hint() {
        let said = ResultsDir::create(Path::new("/dev/null/x")).unwrap_err().to_string();
        assert!(said.contains("/dev/null/x") && said.contains("hint:"), "{said}");
    }
}
