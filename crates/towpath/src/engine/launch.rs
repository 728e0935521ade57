//! What a task's process is started with: its program, variables and folder.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use towpath_pvm::{linkage, names as search};
use towpath_vm::{Ending, TaskSpec};

use crate::pvm::library::{Library, SWITCH};

/// The name by which tasks find the program that their daemon is.
const OWN: &str = "towpath";
/// Error number "no program that can be run here".
const ENOEXEC: i32 = 8;
/// Error number "too many open files" of this process.
const EMFILE: i32 = 24;

/// What all tasks of a daemon are started with.
#[derive(Debug)]
pub struct Launch {
    /// Variables for every task.
    pub environment: Vec<(OsString, OsString)>,
    /// What programs written for PVM get in the place of PVM's library.
    pub library: Option<Library>,
}

impl Launch {
    /// The process of a task.
    pub(super) fn command(&mut self, spec: &TaskSpec) -> io::Result<Command> {
        let name = OsStr::from_bytes(&spec.program);
        let own = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let environment = &self.environment;
        let given = |name: &str| given(spec, environment, name);
        let value = |name: &str| given(name).map(OsStr::to_os_string).or_else(|| own(name));
        let found = if spec.program.contains(&b'/') {
            None
        } else if name == OWN {
            std::env::current_exe().ok().filter(|path| path.is_file())
        } else {
            search::program(name, &own, &|name| given(name).map(OsStr::to_os_string))
        };
        let mut command = Command::new(found.as_deref().map_or(name, Path::as_os_str));
        command
            .args(spec.args.iter().map(|arg| OsStr::from_bytes(arg)))
            // The daemon's own affair with systemd.
            .env_remove("NOTIFY_SOCKET")
            .envs(environment.iter().map(|(k, v)| (k, v)))
            .envs(spec.env.iter().map(|(k, v)| (OsStr::from_bytes(k), OsStr::from_bytes(v))))
            .stdin(if spec.input_window == 0 { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let folder = if spec.cwd.is_empty() {
            own("PVM_WD")
        } else {
            Some(OsString::from_vec(spec.cwd.clone()))
        };
        if let Some(folder) = &folder {
            command.current_dir(folder);
        }
        if let Some(library) = &mut self.library
            && value(SWITCH).is_none_or(|said| said != "no")
        {
            let given = |name: &str| given(name).map(OsStr::to_os_string);
            let file = || linkage::file(name, folder.as_deref(), &own, &given);
            let program = found.or_else(file);
            let variables = library.variables(&program.unwrap_or_default(), &value);
            command.envs(variables.map_err(|e| io::Error::new(io::ErrorKind::Unsupported, e))?);
        }
        Ok(command)
    }
}

/// A variable as the task or every task is given it.
fn given<'a>(
    spec: &'a TaskSpec,
    environment: &'a [(OsString, OsString)],
    name: &str,
) -> Option<&'a OsStr> {
    let own = spec.env.iter().rev().find(|(k, _)| k == name.as_bytes());
    let own = own.map(|(_, value)| OsStr::from_bytes(value));
    own.or_else(|| environment.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_os_str()))
}

/// `ENOENT`, `EACCES`, `ENOTDIR`.
const DIRECTORY_FAULTS: [i32; 3] = [2, 13, 20];

fn can_enter(folder: &str) -> bool {
    Path::new(folder).is_dir() && access(folder, Access::EXEC_OK).is_ok()
}

/// Why a task has no process.
pub(super) fn not_started(spec: &TaskSpec, e: &io::Error) -> Ending {
    let program = String::from_utf8_lossy(&spec.program).into_owned();
    if e.kind() == io::ErrorKind::Unsupported && e.get_ref().is_some() {
        return Ending::NotStarted { errno: ENOEXEC, text: e.to_string() };
    }
    let errno = e.raw_os_error().unwrap_or(0);
    let cwd = String::from_utf8_lossy(&spec.cwd).into_owned();
    // The system says the same of a directory and of a program.
    let is_its = DIRECTORY_FAULTS.contains(&errno) && !cwd.is_empty() && !can_enter(&cwd);
    let text = match errno {
        _ if is_its => format!("working directory {cwd}: {e}"),
        EMFILE => format!("{program}: {e}{}", limit()),
        _ => format!("{program}: {e}"),
    };
    Ending::NotStarted { errno, text }
}

/// Who has the limit that was met, and which one that is.
fn limit() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or_else(String::new, |n| {
        format!(": the host's daemon has none of its {n} descriptors left")
    })
}
