//! Where the daemon is.
//!
//! ```text
//! TOWPATH_TASK_SOCKET   the daemon's socket for tasks          } set by the daemon
//! TOWPATH_TASK          the task's id, decimal              } for each task
//! TOWPATH_COOKIE        proof of it, decimal                } that it starts
//! TOWPATH_HOME          directory of all virtual machines, default ~/.towpath
//! TOWPATH_VM            name of the virtual machine, default `default`
//! ```

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// The socket to enrol at: the one in the environment, else that of the first daemon of this
/// virtual machine on this machine that has one.
pub(crate) fn socket() -> Result<PathBuf, EnrolError> {
    if let Some(path) = var(SOCKET_VAR) {
        return Ok(path.into());
    }
    let home = var("TOWPATH_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(var("HOME")?).join(".towpath")));
    let vm = var("TOWPATH_VM").unwrap_or_else(|| "default".into());
    let hosts = home.ok_or(EnrolError::NoHome)?.join(vm).join("hosts");
    let at = |n: usize| hosts.join(n.to_string()).join(SOCKET_NAME);
    let found = (1..=LOCAL_HOSTS_MAX).map(at).find(|p: &PathBuf| Path::exists(p));
    found.ok_or(EnrolError::NoDaemon(hosts))
}
