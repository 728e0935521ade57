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

    /// What a process finds in its environment, as text; this test in a process of its own.
    fn found(variables: &[(&str, &str)]) -> String {
        let mut own = std::process::Command::new(env::current_exe().unwrap());
        own.args(["--exact", "--nocapture", "place::tests::an_environment_says_where_to_enrol"]);
        let places = ["TOWPATH_HOME", "HOME", "TOWPATH_VM", SOCKET_VAR, TASK_VAR, COOKIE_VAR];
        for name in places.into_iter().chain(["TOWPATH_RANK", "TOWPATH_JOB", "TOWPATH_SIZE"]) {
            own.env_remove(name);
        }
        own.env("PLACE_APART", "1").envs(variables.iter().copied());
        let output = own.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.split_once("<<").and_then(|(_, rest)| rest.split_once(">>"));
        line.unwrap_or_else(|| panic!("{text}")).0.to_owned()
    }

    #[test]
    fn an_environment_says_where_to_enrol() {
        use crate::task::Task;
        if var("PLACE_APART").is_some() {
            let socket = socket().map_err(|error| error.to_string());
            let claim = claim().map_err(|error| error.to_string());
            let claim = claim.map(|c| c.map(|c| (c.task.to_raw(), c.cookie)));
            let place = (Task::rank(), Task::job(), Task::size());
            println!("<<{:?} {socket:?} {claim:?} {place:?}>>", home());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let nobody = "(None, None, None)";
        let no_home = EnrolError::NoHome.to_string();
        assert_eq!(found(&[]), format!("None Err({no_home:?}) Ok(None) {nobody}"));
        let no_daemon = |hosts: String| EnrolError::NoDaemon(hosts.into()).to_string();
        let none = no_daemon(format!("{path}/.towpath/default/hosts"));
        let expected = format!("Some(\"{path}/.towpath\") Err({none:?}) Ok(None) {nobody}");
        assert_eq!(found(&[("HOME", path), ("TOWPATH_HOME", "")]), expected);
        // The first daemon that has a socket.
        for number in ["3", "2"] {
            let hosts = folder.path().join("vm/hosts").join(number);
            std::fs::create_dir_all(&hosts).unwrap();
            std::fs::write(hosts.join(SOCKET_NAME), "").unwrap();
        }
        let of_vm = [("TOWPATH_HOME", path), ("TOWPATH_VM", "vm"), ("HOME", "/else")];
        let expected =
            format!("Some({path:?}) Ok(\"{path}/vm/hosts/2/task.sock\") Ok(None) {nobody}");
        assert_eq!(found(&of_vm), expected);
        let task = towpath_wire::HostId::new(2, 1).unwrap().task(9).unwrap().to_raw();
        let raw = task.to_string();
        let started = [
            (SOCKET_VAR, "/a/socket"),
            (TASK_VAR, raw.as_str()),
            (COOKIE_VAR, "77"),
            ("TOWPATH_RANK", "3"),
            ("TOWPATH_JOB", "name"),
            ("TOWPATH_SIZE", "4"),
        ];
        let place = "(Some(3), Some(\"name\"), Some(4))";
        let expected = format!("None Ok(\"/a/socket\") Ok(Some(({task}, 77))) {place}");
        assert_eq!(found(&started), expected);
        let odd = [("TOWPATH_RANK", "4294967296"), ("TOWPATH_JOB", ""), ("TOWPATH_SIZE", "x")];
        assert!(found(&odd).ends_with(nobody));
        for (variables, wrong) in [
            (&[(TASK_VAR, "0")][..], TASK_VAR),
            (&[(TASK_VAR, "x"), (COOKIE_VAR, "1")], TASK_VAR),
            (&[(TASK_VAR, &raw)], COOKIE_VAR),
            (&[(TASK_VAR, &raw), (COOKIE_VAR, "-1")], COOKIE_VAR),
        ] {
            let why = format!("Err({:?})", EnrolError::Environment(wrong).to_string());
            assert!(found(variables).contains(&why), "{variables:?}");
        }
    }
}
