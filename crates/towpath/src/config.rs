//! Where a virtual machine's files are.
//!
//! ```text
//! $TOWPATH_HOME (default ~/.towpath)
//! └── NAME/                 one virtual machine
//!     ├── vm.key            the VM key (on the founder's machine only)
//!     ├── turn              held by a `join` while it starts a daemon
//!     └── hosts/N/          one daemon of this machine
//!         ├── host.key      its static secret key
//!         ├── lock          held while it runs; holds its process id and its host's
//!         ├── sock          its Unix socket for clients
//!         ├── task.sock     its Unix socket for tasks
//!         ├── group         its control group, where it has one
//!         ├── table         the founder's: the hosts, for when it starts again
//!         └── daemon.log    what it has to say
//! ```
//! Directories are for their owner only (0700), keys too (0600). Where the home is on a file system
//! that several machines may see, each has a part of its own in it, called as the machine is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use towpath_io::RealCrypto;

/// Longest path of a Unix socket (`sun_path`, less its final zero).
const SOCKET_PATH_MAX: usize = 107;
/// Most daemons of one virtual machine on one machine.
pub const LOCAL_HOSTS_MAX: usize = 256;

/// Why files of a virtual machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither `TOWPATH_HOME` nor `HOME` is set.
    #[error("neither TOWPATH_HOME nor HOME is set\nhint: set TOWPATH_HOME to a directory of yours")]
    NoHome,
    /// A file or directory cannot be used.
    #[error(
        "{what} {path}: {why}\n\
         hint: check the directory's owner and free space, or set TOWPATH_HOME"
    )]
    File {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// A key file has the wrong length.
    #[error("{path} holds {len} bytes, a key has 32\nhint: remove it to have a new one made")]
    Key {
        /// Which file.
        path: PathBuf,
        /// Its length.
        len: usize,
    },
    /// The socket's path would be too long.
    #[error(
        "socket path {path} has {len} bytes, limit {SOCKET_PATH_MAX}\n\
         hint: set TOWPATH_HOME to a shorter path"
    )]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Its length.
        len: usize,
    },
    /// The name cannot be a directory's.
    #[error("`{0}` cannot name a virtual machine: 1 to 32 of a-z, A-Z, 0-9, - and _")]
    Name(String),
}

fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConfigError {
    let path = path.to_path_buf();
    move |why| ConfigError::File { what, path, why }
}

/// The directory of all virtual machines.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// From `TOWPATH_HOME`, else `~/.towpath`; this machine's part of it, if it is shared.
    pub fn from_env() -> Result<Self, ConfigError> {
        towpath_task::place::home().map(Self).ok_or(ConfigError::NoHome)
    }

    /// At a path.
    pub const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The virtual machine called `name`; its directory need not exist.
    pub fn vm(&self, name: &str) -> Result<VmDir, ConfigError> {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 32 || !name.chars().all(fine) {
            return Err(ConfigError::Name(name.into()));
        }
        Ok(VmDir { name: name.into(), path: self.0.join(name) })
    }
}

/// The directory of one virtual machine.
#[derive(Clone, Debug)]
pub struct VmDir {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

impl VmDir {
    /// True when it has a VM key: it was founded here.
    pub fn is_founded(&self) -> bool {
        self.path.join("vm.key").exists()
    }

    /// Makes the directory and the VM key, if they are not there; true when they are new.
    pub fn found(&self) -> Result<bool, ConfigError> {
        make_dir(&self.path)?;
        let new = !self.is_founded();
        self.vm_key()?;
        Ok(new)
    }

    /// The VM key; made if there is none.
    pub fn vm_key(&self) -> Result<[u8; 32], ConfigError> {
        make_dir(&self.path)?;
        key_file(&self.path.join("vm.key"))
    }

    /// Waits for other starts on this machine; while the file is held, none looks for a number.
    pub fn turn(&self) -> Result<fs::File, ConfigError> {
        make_dir(&self.path)?;
        let path = self.path.join("turn");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(file_error("cannot open", &path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|e| file_error("cannot lock", &path)(e.into()))?;
        Ok(file)
    }

    /// The directory of local daemon `number`.
    pub fn host(&self, number: usize) -> PathBuf {
        self.path.join("hosts").join(number.to_string())
    }

    /// Numbers of the local daemons that have a directory, in order.
    pub fn local_hosts(&self) -> Result<Vec<usize>, ConfigError> {
        let path = self.path.join("hosts");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(file_error("cannot read", &path)(e)),
        };
        let mut numbers: Vec<usize> = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .filter(|n| (1..=LOCAL_HOSTS_MAX).contains(n))
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Sockets of the local daemons that may run, in order.
    pub fn sockets(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let socks = self.local_hosts()?.into_iter().map(|n| self.host(n).join("sock"));
        Ok(socks.filter(|s| s.exists()).collect())
    }
}

/// Makes a directory for its owner only.
pub fn make_dir(path: &Path) -> Result<(), ConfigError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(file_error("cannot make directory", path))
}

/// Reads a 32-byte key; makes one if there is none.
pub fn key_file(path: &Path) -> Result<[u8; 32], ConfigError> {
    let create = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match create {
        Ok(mut file) => {
            let key = RealCrypto::generate_secret();
            file.write_all(&key).map_err(|e| {
                let _ = fs::remove_file(path);
                file_error("cannot write", path)(e)
            })?;
            Ok(key)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let mut bytes = Vec::new();
            OpenOptions::new()
                .read(true)
                .open(path)
                .and_then(|f| f.take(64).read_to_end(&mut bytes))
                .map_err(file_error("cannot read", path))?;
            let len = bytes.len();
            bytes.try_into().map_err(|_| ConfigError::Key { path: path.into(), len })
        }
        Err(e) => Err(file_error("cannot write", path)(e)),
    }
}

/// The path of a daemon's socket called `name`, checked for length.
pub fn socket_path(dir: &Path, name: &str) -> Result<PathBuf, ConfigError> {
    let path = dir.join(name);
    let len = path.as_os_str().len();
    if len > SOCKET_PATH_MAX {
        return Err(ConfigError::SocketPath { path, len });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let vm = Home::at(dir.path().into()).vm("test").unwrap();
        assert!(vm.found().unwrap());
        assert!(!vm.found().unwrap());
        let key = vm.vm_key().unwrap();
        assert_eq!(vm.vm_key().unwrap(), key);
        assert_ne!(key, [0; 32]);
    }

    #[test]
    fn a_key_of_the_wrong_length_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.key");
        fs::write(&path, [1, 2, 3]).unwrap();
        assert!(matches!(key_file(&path), Err(ConfigError::Key { len: 3, .. })));
    }

    #[test]
    fn hosts_that_cannot_be_read_are_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let vm = Home::at(dir.path().into()).vm("test").unwrap();
        assert_eq!(vm.local_hosts().unwrap(), [0; 0]);
        vm.found().unwrap();
        fs::create_dir_all(vm.host(2)).unwrap();
        assert_eq!(vm.local_hosts().unwrap(), [2]);
        fs::remove_dir_all(vm.path.join("hosts")).unwrap();
        fs::write(vm.path.join("hosts"), "").unwrap();
        let error = vm.sockets().unwrap_err().to_string();
        assert!(error.starts_with("cannot read") && error.contains("hosts"), "{error}");
    }

    #[test]
    fn names_that_are_no_directories_are_refused() {
        let home = Home::at("/nowhere".into());
        for name in ["", "..", "a/b", "a b", &"x".repeat(33)] {
            assert!(home.vm(name).is_err(), "{name}");
        }
    }
}
