//! A control group (cgroup v2) of its own for a daemon's engine and everything that it starts, so
//! that all of it can be ended at once, whatever it did to get away.
//!
//! Only where this user may make groups below the one we are in: systemd's user services with
//! `Delegate=yes` and user scopes, containers with a writable tree, root. Elsewhere the guard ends
//! what it adopted, as it does anyway.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::geteuid;

/// How groups of ours are named; nothing else is ever killed.
const PREFIX: &str = "towpath-";
/// How long killed processes may take to be gone.
const GONE_WAIT: Duration = Duration::from_secs(2);

/// Where cgroup v2 is mounted, and the group of this process below it.
fn own() -> Option<(PathBuf, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (root, mounted) = mount_of(&mounts)?;
    let group = groups.lines().find_map(|l| l.strip_prefix("0::"))?;
    // A container sees its own part of the tree only.
    let group = Path::new(group).strip_prefix(&mounted).unwrap_or(Path::new(group));
    Some((root, Path::new("/").join(group)))
}

/// Mount point of cgroup v2, and which group is mounted there.
/// `36 25 0:30 /group /mount/point rw,… - cgroup2 cgroup2 rw` (proc(5), mountinfo).
fn mount_of(mountinfo: &str) -> Option<(PathBuf, PathBuf)> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (after.split(' ').next()? == "cgroup2").then_some(())?;
        let mut words = before.split(' ').skip(3);
        let (group, point) = (words.next()?, words.next()?);
        Some((PathBuf::from(point), PathBuf::from(group)))
    })
}

/// A group that was made for a daemon.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group for what `name` names, below our own; `None` where we may not, or where it
    /// could not be ended at once.
    pub fn make(name: &str) -> Option<Self> {
        let (root, group) = own()?;
        let inside = group.strip_prefix("/").unwrap_or(&group);
        Self::make_in(&root.join(inside), name)
    }

    fn make_in(parent: &Path, name: &str) -> Option<Self> {
        let path = parent.join(format!("{PREFIX}{name}"));
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        if let Some(group) = Self::found(&path) {
            return Some(group);
        }
        let _ = fs::remove_dir(&path);
        None
    }

    /// One that an earlier daemon made and wrote down; `None` for a path that is none of ours.
    pub fn found(path: &Path) -> Option<Self> {
        let named = path.file_name()?.to_str()?.starts_with(PREFIX);
        // Whoever made it may have others' processes in it.
        let meta = path.symlink_metadata().ok()?;
        let ours = meta.is_dir() && meta.uid() == geteuid().as_raw();
        (named && ours && path.join("cgroup.kill").exists()).then(|| Self { path: path.into() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into the group at `path`.
    pub fn enter(path: &Path) -> io::Result<()> {
        fs::write(path.join("cgroup.procs"), "0")
    }

    /// Kills everything in it and removes it.
    pub fn end(self) {
        let deadline = Instant::now() + GONE_WAIT;
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        // Killed processes leave on their own, soon.
        while fs::remove_dir(&self.path).is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
            if Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let text = "22 1 0:20 / /sys rw - sysfs sysfs rw\n\
            30 22 0:26 /docker/1 /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let found = mount_of(text).unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/unified".into(), "/docker/1".into()));
        assert_eq!(mount_of("22 1 0:20 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n"), None);
    }

    #[test]
    fn a_folder_that_is_no_group_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Group::make_in(dir.path(), "x").is_none());
        assert!(!dir.path().join("towpath-x").exists());
    }

    #[test]
    fn only_groups_of_ours_are_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        for (name, ours) in [("user.slice", false), ("towpath-default-1", true)] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            assert!(Group::found(&path).is_none(), "no group at all");
            fs::write(path.join("cgroup.kill"), "").unwrap();
            assert_eq!(Group::found(&path).is_some(), ours);
        }
    }
}
