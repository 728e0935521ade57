//! Directories and files as somebody else may have left them.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat, mknodat};
use tempfile::TempDir;
use towpath_skip::skip;

use super::*;

/// Somebody else.
const OTHER: u32 = 54_321;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("tp").tempdir().unwrap()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Gives it to somebody else; false where only root could.
fn give_away(path: &Path) -> bool {
    let (uid, gid) = (Uid::from_raw(OTHER), Gid::from_raw(OTHER));
    let is_given = chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if !is_given {
        skip("only root can give files away");
    }
    is_given
}

/// What is said of something that others have their hands on.
fn said<T>(result: Result<T, PrivateError>, of: &Path) -> String {
    match result {
        Err(PrivateError::Exposed { path, why, fix, .. }) => {
            assert_eq!((path.as_path(), fix.is_empty()), (of, false));
            why.into()
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing is said"),
    }
}

/// The error number where the system says no.
fn errno<T>(result: Result<T, PrivateError>) -> Option<Errno> {
    match result {
        Err(PrivateError::System { why, .. }) => Errno::from_io_error(&why),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

const MADE: OFlags = OFlags::WRONLY.union(OFlags::CREATE);

#[test]
fn what_is_missing_of_a_path_is_made_for_its_owner_only() {
    let folder = folder();
    let path = folder.path().join("a/b");
    assert!(Dir::open(&path).unwrap().is_none());
    assert!(!folder.path().join("a").exists(), "looking makes nothing");
    let dir = Dir::make(&path).unwrap();
    for made in ["a", "a/b"] {
        let meta = folder.path().join(made).metadata().unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.is_dir()), (0o700, true));
    }
    dir.secret("key", MADE).unwrap().write_all(b"long text").unwrap();
    assert_eq!(path.join("key").metadata().unwrap().mode() & 0o7777, 0o600);
    let again = Dir::open(&path).unwrap().expect("it is there now");
    let mut text = String::new();
    again.secret("key", OFlags::RDONLY).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "long text");
    again.file("key", MADE | OFlags::TRUNC).unwrap().write_all(b"short").unwrap();
    assert_eq!(fs::read(path.join("key")).unwrap(), b"short");
    assert_eq!(errno(again.file("none", OFlags::RDONLY)), Some(Errno::NOENT));
    // A file is no directory, neither at the end nor on the way.
    assert_eq!(errno(Dir::make(&path.join("key"))), Some(Errno::NOTDIR));
    assert_eq!(errno(Dir::open(&path.join("key/more"))), Some(Errno::NOTDIR));
}

#[test]
fn directories_that_others_can_write_into_are_not_used() {
    let folder = folder();
    let (way, end) = (folder.path().join("way"), folder.path().join("way/end"));
    Dir::make(&end).unwrap();
    for bits in [0o702, 0o720, 0o777] {
        mode(&end, bits);
        assert!(said(Dir::make(&end), &end).starts_with("can be written by others, who could run"));
        mode(&end, 0o755);
        mode(&way, bits);
        assert!(said(Dir::make(&end), &way).contains("could replace what is in it"), "{bits:o}");
        // Where nobody can move what belongs to others, they can.
        mode(&way, bits | 0o1000);
        assert!(Dir::make(&end).is_ok(), "{bits:o}");
        assert!(said(Dir::make(&way), &way).starts_with("can be written by others, who could run"));
        mode(&way, 0o755);
        assert!(Dir::make(&end).is_ok());
    }
    if give_away(&way) {
        assert!(said(Dir::make(&end), &way).contains("who could replace what is in it"));
        let whose = said(Dir::make(&way), &way);
        assert!(whose.contains("belongs to another user, who could run"), "{whose}");
        Dir::make(&folder.path().join("own")).unwrap();
        let end = folder.path().join("own/end");
        fs::create_dir(&end).unwrap();
        assert!(give_away(&end));
        assert!(said(Dir::open(&end), &end).contains("belongs to another user, who could run"));
    }
}

#[test]
fn links_on_the_way_are_followed_where_they_can_be_trusted() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    Dir::make(&at("real/deep")).unwrap();
    symlink("real", at("relative")).unwrap();
    symlink(at("real/deep"), at("absolute")).unwrap();
    symlink("deep/../deep", at("real/around")).unwrap();
    symlink("round", at("round")).unwrap();
    for way in ["relative/deep", "absolute", "relative/around", "real/deep/../around/."] {
        let dir = Dir::open(&at(way)).unwrap().expect("it leads there");
        dir.file("seen", MADE).unwrap().write_all(way.as_bytes()).unwrap();
        assert_eq!(fs::read(at("real/deep/seen")).unwrap(), way.as_bytes());
        fs::remove_file(at("real/deep/seen")).unwrap();
    }
    assert_eq!(errno(Dir::open(&at("round"))), Some(Errno::LOOP));
    // As many as the kernel follows, and one more.
    symlink("real", at("l0")).unwrap();
    for n in 1..=LINKS_MAX {
        symlink(format!("l{}", n - 1), at(&format!("l{n}"))).unwrap();
    }
    assert!(Dir::open(&at(&format!("l{}", LINKS_MAX - 1))).unwrap().is_some());
    assert_eq!(errno(Dir::open(&at(&format!("l{LINKS_MAX}")))), Some(Errno::LOOP));
    if give_away(&at("relative")) {
        let whose = said(Dir::open(&at("relative/deep")), &at("relative"));
        assert_eq!(whose, "is a symbolic link of another user");
    }
}

#[test]
fn files_that_others_have_their_hands_on_are_not_used() {
    let folder = folder();
    let dir = Dir::make(&folder.path().join("own")).unwrap();
    let at = |name: &str| folder.path().join("own").join(name);
    let rewritten = MADE | OFlags::TRUNC;
    dir.file("file", MADE).unwrap().write_all(b"kept").unwrap();
    symlink("file", at("link")).unwrap();
    assert_eq!(said(dir.file("link", OFlags::RDONLY), &at("link")), "is a symbolic link");
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(said(dir.file("pipe", OFlags::RDONLY), &at("pipe")), "is no file");
    fs::hard_link(at("file"), at("second")).unwrap();
    assert!(dir.file("file", OFlags::RDONLY).is_ok(), "reading does no harm");
    let whose = said(dir.file("second", rewritten), &at("second"));
    assert!(whose.contains("as a hard link"), "{whose}");
    fs::remove_file(at("second")).unwrap();
    for bits in [0o602, 0o620, 0o666] {
        mode(&at("file"), bits);
        assert_eq!(said(dir.file("file", rewritten), &at("file")), "can be written by others");
        assert_eq!(said(dir.secret("file", rewritten), &at("file")), "can be written by others");
    }
    for bits in [0o604, 0o640, 0o610] {
        mode(&at("file"), bits);
        assert!(dir.file("file", OFlags::RDONLY).is_ok(), "{bits:o}");
        let whose = said(dir.secret("file", rewritten), &at("file"));
        assert_eq!(whose, "holds a key and can be read by others");
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"kept", "what is refused stays as it is");
    mode(&at("file"), 0o600);
    assert!(dir.secret("file", OFlags::RDONLY).is_ok());
    if give_away(&at("file")) {
        let whose = said(dir.file("file", OFlags::RDONLY), &at("file"));
        assert_eq!(whose, "belongs to another user");
    }
}

#[test]
fn directories_with_numbers_for_names_are_listed_if_all_are_ours() {
    let folder = folder();
    let dir = Dir::make(&folder.path().join("own")).unwrap();
    let at = |name: &str| folder.path().join("own").join(name);
    for name in ["1", "7", "x", "7a"] {
        fs::create_dir(at(name)).unwrap();
        mode(&at(name), 0o700);
    }
    mode(&at("x"), 0o777);
    let mut numbers = dir.numbered().unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 7]);
    mode(&at("7"), 0o777);
    assert!(said(dir.numbered(), &at("7")).starts_with("can be written by others"));
    mode(&at("7"), 0o700);
    fs::write(at("9"), "").unwrap();
    assert_eq!(said(dir.numbered(), &at("9")), "is no directory");
}

#[test]
fn who_only_looks_sees_files_of_its_own() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "text").unwrap();
    symlink("file", at("link")).unwrap();
    let mut text = String::new();
    peek(&at("file")).expect("it is ours").read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    for name in ["link", "none", "."] {
        assert!(peek(&at(name)).is_none(), "{name}");
    }
    if give_away(&at("file")) {
        assert!(peek(&at("file")).is_none());
    }
}

#[test]
fn results_are_written_where_ones_own_links_lead() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let write = |path: &Path, text: &str| create_result(path)?.write_all(text.as_bytes());
    write(&at("file"), "a longer text").unwrap();
    write(&at("file"), "short").unwrap();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "short");
    fs::create_dir(at("sub")).unwrap();
    symlink("sub/target", at("near")).unwrap();
    symlink(at("near"), at("far")).unwrap();
    // There is nothing yet where it leads.
    write(&at("far"), "by two links").unwrap();
    assert_eq!(fs::read_to_string(at("sub/target")).unwrap(), "by two links");
    assert!(at("far").symlink_metadata().unwrap().is_symlink(), "the link stays");
    symlink("round", at("round")).unwrap();
    let round = write(&at("round"), "").unwrap_err();
    assert_eq!(round.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    // What a process has opened, whether it has a name or not.
    let mut open = tempfile::tempfile().unwrap();
    let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
    write(descriptor.as_ref(), "through the kernel").unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through the kernel");
    // What was there is kept where it is not made anew.
    let mut options = OpenOptions::new();
    let mut more = open_result(&at("file"), options.append(true)).unwrap();
    more.write_all(b"er").unwrap();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "shorter");
}

#[test]
fn results_are_not_written_into_what_others_have_put_there() {
    let folder = folder();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let (file, link) = (shared.join("file"), shared.join("link"));
    fs::write(&file, "theirs").unwrap();
    symlink("elsewhere", &link).unwrap();
    if !(give_away(&file) && give_away(&link)) {
        return;
    }
    for bits in [0o755, 0o777, 0o775] {
        mode(&shared, bits);
        let open = |path| open_result(path, OpenOptions::new().write(true));
        let refused = open(&file).err().map(|e| e.to_string());
        let expected = format!("a file of another user (owner {OTHER}); name another file");
        assert_eq!(refused, (bits != 0o755).then_some(expected), "{bits:o}");
        let refused = create_result(&link).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("a symbolic link of another user"), "{refused}");
    }
    assert!(!shared.join("elsewhere").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
}

#[test]
fn a_directory_for_results_is_nobody_elses() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let results = ResultDir::make(&at("a/results")).unwrap();
    let below = results.below("host".as_ref()).unwrap();
    assert!(results.below("host".as_ref()).is_ok(), "it is there already");
    below.create("out").unwrap().write_all(b"a longer one").unwrap();
    below.create("out").unwrap().write_all(b"again").unwrap();
    assert_eq!(fs::read(at("a/results/host/out")).unwrap(), b"again");
    symlink("a/results", at("link")).unwrap();
    symlink(at("link"), at("second")).unwrap();
    for name in ["link", "second", "second/"] {
        ResultDir::make(&at(name)).unwrap().create("seen").unwrap();
        fs::remove_file(at("a/results/seen")).unwrap();
    }
    symlink("round", at("round")).unwrap();
    assert!(ResultDir::make(&at("round")).is_err());
    // Inside of it no link is followed, and none is written through.
    symlink("/tmp", at("a/results/away")).unwrap();
    let away = results.below("away".as_ref());
    assert_eq!(said(away, &at("a/results/away")), "is a symbolic link");
    assert_eq!(errno(results.create("away")), Some(Errno::LOOP));
    fs::write(at("a/results/plain"), "").unwrap();
    assert_eq!(errno(results.below("plain".as_ref())), Some(Errno::NOTDIR));
    assert!(ResultDir::make(&at("a/results/plain")).is_err());
    for bits in [0o757, 0o777] {
        mode(&at("a/results"), bits);
        let whose = said(ResultDir::make(&at("a/results")), &at("a/results"));
        assert!(whose.starts_with("can be written by others, who could have results"), "{whose}");
    }
    // Whoever has a group of their own may let it write.
    mode(&at("a/results"), 0o775);
    let meta = at("a/results").metadata().unwrap();
    assert_eq!(ResultDir::make(&at("a/results")).is_ok(), meta.uid() == meta.gid());
    let everyone = Some(Gid::from_raw(OTHER));
    if chownat(CWD, at("a/results"), None, everyone, AtFlags::empty()).is_ok() {
        assert!(said(ResultDir::make(&at("a/results")), &at("a/results")).contains("by others"));
    }
    mode(&at("a/results"), 0o755);
    if give_away(&at("link")) {
        let whose = said(ResultDir::make(&at("second")), &at("link"));
        assert_eq!(whose, "is a symbolic link of another user");
        assert!(give_away(&at("a/results")));
        let whose = said(ResultDir::make(&at("a/results")), &at("a/results"));
        assert_eq!(whose, "belongs to another user");
    }
}
