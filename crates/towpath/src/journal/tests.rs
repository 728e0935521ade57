use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use towpath_vm::consensus::{Body, Entry, Members, Record};

use super::*;

const HEAD: Head = Head { generation: 5, id: ReplicaId(7), salt: 99 };
/// Longer than a busy machine needs to write a few bytes.
const LONG: Duration = Duration::from_secs(30);

fn wake() -> ((Sync, Wake), Receiver<()>) {
    let (tell, told) = channel();
    // Who asks no more is not told.
    let bell = move || {
        let _ = tell.send(());
    };
    ((Sync::Promised, Box::new(bell)), told)
}

fn entries(number: u64, from: u64, count: u64) -> Write {
    let body = |n| Body::Open { nonce: n };
    let entry = |index| Record::Entry(Entry { term: 1, index, body: body(index) });
    Write { number, replaces: false, records: (from..from + count).map(entry).collect() }
}

fn snapshot(number: u64, index: u64, len: usize) -> Write {
    let members = Members::of([ReplicaId(7)]);
    let state = vec![7; len];
    let snapshot = towpath_vm::consensus::Snapshot { index, term: 1, members, state };
    let records = [Record::Snapshot(Arc::new(snapshot))].into();
    Write { number, replaces: true, records }
}

fn until(journal: &JournalFile, told: &Receiver<()>, number: u64) {
    while journal.synced() < number {
        told.recv_timeout(LONG).expect("it is synced in the end");
    }
}

fn again(dir: &Path) -> Opened {
    JournalFile::open(dir, 3, wake().0).expect("whole").expect("there")
}

#[test]
fn what_is_told_as_synced_is_there_at_the_next_start_and_starts_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(JournalFile::open(dir, 1, wake().0).unwrap().is_none());
    let (bell, told) = wake();
    let journal = JournalFile::create(dir, HEAD, 1, bell).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)));
    for n in 2..=40 {
        assert!(journal.write(entries(n, n, 1)));
    }
    until(&journal, &told, 40);
    assert_eq!(journal.health(), Health::Well);
    drop(journal);
    for boot in 2..5 {
        let opened = again(dir);
        assert_eq!((opened.generation, opened.id, opened.boot), (5, ReplicaId(7), boot));
        assert_eq!((opened.torn, opened.stored.entries.len()), (0, 39));
    }
    let refused = JournalFile::create(dir, HEAD, 1, wake().0).unwrap_err().to_string();
    assert!(refused.contains("/log cannot be read or written"), "{refused}");
}

#[test]
fn a_snapshot_replaces_the_file_and_what_follows_follows_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let (bell, told) = wake();
    let journal = JournalFile::create(dir.path(), HEAD, 1, bell).unwrap();
    let writes = [snapshot(1, 1, 0), entries(2, 2, 500), snapshot(3, 501, 40), entries(4, 502, 2)];
    for write in writes {
        assert!(journal.write(write));
    }
    until(&journal, &told, 4);
    drop(journal);
    let len = fs::metadata(dir.path().join(NAME)).unwrap().len();
    assert!(len < 500, "{len} bytes: what is in the snapshot is not kept twice");
    let stored = again(dir.path()).stored;
    assert_eq!((stored.snapshot.index, stored.entries.len()), (501, 2));
}

#[test]
fn a_torn_end_is_cut_off_and_damage_before_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let (bell, told) = wake();
    let journal = JournalFile::create(dir.path(), HEAD, 1, bell).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)) && journal.write(entries(2, 2, 3)));
    until(&journal, &told, 2);
    drop(journal);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], &[1; 100]].concat()).unwrap();
    let opened = again(dir.path());
    assert_eq!((opened.torn, opened.stored.entries.len()), (100, 3));
    drop(opened);
    for (at, says) in [(3, "no log of Towpath"), (20, "its head is damaged"), (150, "damaged at")] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let why = JournalFile::open(dir.path(), 3, wake().0).unwrap_err().to_string();
        assert!(why.contains(says), "byte {at}: {why}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "it is left as it is");
    }
}

/// A file system of this size, until the test ends. `None` where that may not be had.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(dir.path()).output();
        if mounted.is_ok_and(|out| out.status.success()) { Some(Self(dir)) } else { None }
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &options]).arg(self.0.path()).status();
        assert!(done.unwrap().success(), "{how}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_holds_writes_up_until_there_is_room_and_a_read_only_one_is_told() {
    let Some(small) = Small::mount() else {
        towpath_skip::skip("no file system can be mounted: a full disk is not tried");
        return;
    };
    let dir = small.0.path();
    let (bell, told) = wake();
    let journal = JournalFile::create(dir, HEAD, 1, bell).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)));
    until(&journal, &told, 1);
    fs::write(dir.join("filler"), vec![1; 100 << 10]).unwrap();
    let mut number = 1;
    while journal.health() == Health::Well {
        number += 1;
        assert!(journal.write(entries(number, 2 + 100 * (number - 2), 100)));
        // Until it is synced, or is tried again.
        while journal.synced() < number && journal.health() == Health::Well {
            let _ = told.recv_timeout(Duration::from_millis(1));
        }
    }
    let (synced, health) = (journal.synced(), journal.health());
    assert_eq!((synced, health), (number - 1, Health::Retries));
    fs::remove_file(dir.join("filler")).unwrap();
    until(&journal, &told, number);
    assert_eq!(journal.health(), Health::Well);
    drop(journal);
    assert_eq!(again(dir).stored.entries.len() as u64, 100 * (number - 1));
    small.remount("ro");
    let why = JournalFile::open(dir, 3, wake().0).unwrap_err().to_string();
    assert!(why.contains("Read-only file system") && why.contains("/log"), "{why}");
}

#[test]
fn what_is_synced_later_is_told_once_a_killed_daemon_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let ((_, bell), told) = wake();
    let later = Sync::Within(Duration::from_hours(1));
    let journal = JournalFile::create(dir.path(), HEAD, 1, (later, bell)).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)));
    for n in 2..=40 {
        assert!(journal.write(entries(n, n, 1)));
    }
    until(&journal, &told, 40);
    // As a killed daemon leaves it: nothing but what the kernel has.
    let copy = tempfile::tempdir().unwrap();
    fs::copy(dir.path().join(NAME), copy.path().join(NAME)).unwrap();
    assert_eq!(again(copy.path()).stored.entries.len(), 39);
    drop(journal);
    assert_eq!(again(dir.path()).stored.entries.len(), 39);
    // Brought to the disk in time, which a mark shows: what is damaged before it is refused.
    let ((_, bell), told) = wake();
    let dir = tempfile::tempdir().unwrap();
    let soon = Sync::Within(Duration::from_millis(1));
    let journal = JournalFile::create(dir.path(), HEAD, 1, (soon, bell)).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)) && journal.write(entries(2, 2, 3)));
    until(&journal, &told, 2);
    let len = || fs::metadata(dir.path().join(NAME)).unwrap().len();
    let (before, begin) = (len(), Instant::now());
    while len() == before {
        assert!(begin.elapsed() < LONG, "no mark is written");
    }
    drop(journal);
}

#[test]
fn what_a_life_before_left_stays_until_the_first_write_of_another_which_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (bell, told) = wake();
    let journal = JournalFile::create(dir, HEAD, 1, bell).unwrap();
    assert!(journal.write(snapshot(1, 1, 10)) && journal.write(entries(2, 2, 3)));
    until(&journal, &told, 2);
    drop(journal);
    let named = || read(dir).unwrap().map(|(life, stored)| (life, stored.last().1));
    let (bell, told) = wake();
    let journal = JournalFile::begin(dir, Head { generation: 8, ..HEAD }, 1, bell).unwrap();
    assert_eq!(named(), Some((5, 4)));
    // A write of the life before it is of that one, however late it is written.
    journal.name(3, 9, ReplicaId(2));
    assert!(journal.write(snapshot(3, 20, 10)));
    until(&journal, &told, 3);
    assert_eq!(named(), Some((8, 20)));
    assert!(journal.write(snapshot(4, 30, 10)) && journal.write(entries(5, 31, 1)));
    until(&journal, &told, 5);
    assert_eq!(named(), Some((9, 31)));
    drop(journal);
    assert_eq!(again(dir).id, ReplicaId(2));
}
