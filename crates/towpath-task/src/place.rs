//! Where the daemon is.
//!
//! ```text
//! TOWPATH_TASK_SOCKET   the daemon's socket for tasks          } set by the daemon
//! TOWPATH_TASK          the task's id, decimal              } for each task
//! TOWPATH_COOKIE        proof of it, decimal                } that it starts
//! TOWPATH_HOME          directory of all virtual machines, default ~/.towpath; on a file system
//!                       that several machines may see, each has a part called by its name
//! TOWPATH_VM            name of the virtual machine, default `default`
//! ```

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::system::uname;
use towpath_vm::talk::Claim;
use towpath_wire::TaskId;

use crate::error::EnrolError;

/// Name of the variable with the socket's path.
pub const SOCKET_VAR: &str = "TOWPATH_TASK_SOCKET";
/// Name of the variable with the task's id.
pub const TASK_VAR: &str = "TOWPATH_TASK";
/// Name of the variable with the cookie.
pub const COOKIE_VAR: &str = "TOWPATH_COOKIE";
/// File name of the socket in a daemon's directory.
pub const SOCKET_NAME: &str = "task.sock";
/// Bytes asked for what is written into such a socket and not yet read. Linux doubles it and lets
/// any process ask for so much; with its default, half of this, each megabyte costs twelve turns
/// between a task and its daemon instead of four.
pub const SOCKET_BUFFER: usize = 212_992;
/// File systems that several machines may see, by the magic number of `statfs(2)`: NFS, SMB (3),
/// Ceph, Lustre, GPFS, `BeeGFS`, AFS (2), GFS2, OCFS2, `OrangeFS`, FUSE.
const SHARED: [i128; 14] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x1983_0326,
    0x5346_414f,
    0x6b41_4653,
    0x0116_1970,
    0x7461_636f,
    0x2003_0528,
    0x6573_5546,
];
/// Numbers of the daemons of one virtual machine on one machine.
const LOCAL_HOSTS_MAX: usize = 256;

fn var(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|v| !v.is_empty())
}

/// A whole number in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    var(name)?.to_str()?.parse().ok()
}

/// The claim that the environment holds.
pub(crate) fn claim() -> Result<Option<Claim>, EnrolError> {
    if var(TASK_VAR).is_none() {
        return Ok(None);
    }
    let task = number(TASK_VAR).and_then(|raw| TaskId::try_from(raw).ok());
    let task = task.ok_or(EnrolError::Environment(TASK_VAR))?;
    let cookie = number(COOKIE_VAR).ok_or(EnrolError::Environment(COOKIE_VAR))?;
    Ok(Some(Claim { task, cookie }))
}

/// `TOWPATH_HOME`, else `~/.towpath`; this machine's part of it, if others may see it.
pub fn home() -> Option<PathBuf> {
    let home = var("TOWPATH_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(var("HOME")?).join(".towpath")))?;
    // It need not exist yet.
    let system = home.ancestors().find_map(|path| statfs(path).ok());
    let is_shared = system.is_some_and(|fs| SHARED.contains(&fs.f_type.into()));
    Some(part_of(home, is_shared, &uname().nodename().to_string_lossy()))
}

/// A machine's part of a home: its process numbers, locks and sockets mean nothing on another.
fn part_of(home: PathBuf, is_shared: bool, machine: &str) -> PathBuf {
    if is_shared && !home.ends_with(machine) { home.join(machine) } else { home }
}

/// The socket to enrol at: the one in the environment, else that of the first daemon of this
/// virtual machine on this machine that has one.
pub(crate) fn socket() -> Result<PathBuf, EnrolError> {
    if let Some(path) = var(SOCKET_VAR) {
        return Ok(path.into());
    }
    let vm = var("TOWPATH_VM").unwrap_or_else(|| "default".into());
    let hosts = home().ok_or(EnrolError::NoHome)?.join(vm).join("hosts");
    let at = |n: usize| hosts.join(n.to_string()).join(SOCKET_NAME);
    let found = (1..=LOCAL_HOSTS_MAX).map(at).find(|p: &PathBuf| Path::exists(p));
    found.ok_or(EnrolError::NoDaemon(hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_its_own_part_of_a_shared_home() {
        let part = |is_shared| part_of("/a/.towpath".into(), is_shared, "node7");
        assert_eq!(part(true), Path::new("/a/.towpath/node7"));
        assert_eq!(part_of(part(true), true, "node7"), part(true));
        assert_eq!(part(false), Path::new("/a/.towpath"));
    }
}
