//! Where a virtual machine's files are.
//!
//! ```text
//! $TOWPATH_HOME (default ~/.towpath)
//! └── NAME/                 one virtual machine
//!     ├── vm.key            the VM key (on the founder's machine only)
//!     ├── jobs/N/           a job that goes on by itself ([`jobs`](crate::jobs))
//!     ├── turn              held by a `join` while it starts a daemon
//!     └── hosts/N/          one daemon of this machine
//!         ├── host.key      its static secret key
//!         ├── lock          held while it runs; holds its process id and its host's
//!         ├── sock          its Unix socket for clients
//!         ├── task.sock     its Unix socket for tasks
//!         ├── tokens        the tokens that were issued (of whoever may lead)
//!         ├── group         its control group, where it has one
//!         ├── table         the hosts, for when it starts again (of whoever may lead)
//!         ├── control/log   what was decided, for that (of whoever may lead)
//!         ├── vm.key        the VM key (of one that was let in and may lead)
//!         └── daemon.log    what it has to say; before that: daemon.log.1, daemon.log.2
//! ```
//! Directories are made for their owner only (0700), keys too (0600); where others can write into
//! one of them or replace it, nothing in it is used ([`private`](crate::private)). Where the home
//! is on a file system that several machines may see, each has a part of its own in it, called as
//! the machine is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use towpath_io::RealCrypto;
use zeroize::Zeroizing;

use crate::private::{Dir, PrivateError};

/// File name of the socket for clients in a daemon's directory.
pub const SOCK: &str = "sock";
/// File name of a host's secret key.
pub(crate) const HOST_KEY: &str = "host.key";
/// File name of a VM key.
pub(crate) const VM_KEY: &str = "vm.key";
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
    /// A file or directory cannot be used, or others could have put it there.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// A key file has the wrong length.
    #[error(
        "{path} holds {len} bytes{}, a key has 32\nhint: remove it to have a new one made",
        if *.len > 32 { " or more" } else { "" }
    )]
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
    move |why| PrivateError::System { what, path, why }.into()
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
        self.path.join(VM_KEY).exists()
    }

    /// Makes the directory for all virtual machines and the one for this, if they are not there.
    fn make(&self) -> Result<(), ConfigError> {
        if let Some(home) = self.path.parent() {
            make_dir(home)?;
        }
        make_dir(&self.path)
    }

    /// Makes the directory of local daemon `number`, if it is not there.
    pub fn make_host(&self, number: usize) -> Result<PathBuf, ConfigError> {
        self.make()?;
        let dir = self.host(number);
        make_dir(&self.hosts())?;
        make_dir(&dir)?;
        Ok(dir)
    }

    /// Makes the directory and the VM key, if they are not there; true when they are new.
    pub fn found(&self) -> Result<bool, ConfigError> {
        self.make()?;
        let new = !self.is_founded();
        self.vm_key()?;
        Ok(new)
    }

    /// The VM key; made if there is none.
    pub fn vm_key(&self) -> Result<Zeroizing<[u8; 32]>, ConfigError> {
        self.make()?;
        key_file(&self.path.join(VM_KEY))
    }

    /// The VM key with which local daemon `number` starts, where it is not told to join: that of
    /// the virtual machine that let it in and whose log it kept, else the one of this directory.
    pub fn vm_key_of(&self, number: usize) -> Result<Zeroizing<[u8; 32]>, ConfigError> {
        let dir = self.host(number);
        let (path, is_kept) = (dir.join(VM_KEY), crate::table::is_kept(&dir));
        if is_kept && path.exists() { key_file(&path) } else { self.vm_key() }
    }

    /// Waits for other starts on this machine; while the file is held, none looks for a number.
    pub fn turn(&self) -> Result<File, ConfigError> {
        self.make()?;
        let file = Dir::make(&self.path)?.file("turn", OFlags::WRONLY | OFlags::CREATE)?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|e| file_error("cannot lock", &self.path.join("turn"))(e.into()))?;
        Ok(file)
    }

    /// Where jobs are kept that go on without whoever started them.
    pub fn jobs(&self) -> PathBuf {
        self.path.join("jobs")
    }

    fn hosts(&self) -> PathBuf {
        self.path.join("hosts")
    }

    /// The directory of local daemon `number`.
    pub fn host(&self, number: usize) -> PathBuf {
        self.hosts().join(number.to_string())
    }

    /// Numbers of the local daemons that have a directory, in order. An error where somebody else
    /// may have put one there.
    pub fn local_hosts(&self) -> Result<Vec<usize>, ConfigError> {
        let mut numbers = Vec::new();
        for path in [self.path.parent().unwrap_or(&self.path), &self.path, &self.hosts()] {
            let Some(dir) = Dir::open(path)? else { return Ok(Vec::new()) };
            if path.ends_with("hosts") {
                numbers = dir.numbered()?;
            }
        }
        numbers.retain(|n| (1..=LOCAL_HOSTS_MAX).contains(n));
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Sockets of the local daemons that may run, in order.
    pub fn sockets(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let socks = self.local_hosts()?.into_iter().map(|n| self.host(n).join(SOCK));
        Ok(socks.filter(|s| s.exists()).collect())
    }
}

/// Makes a directory for its owner only. An error where it, or one above it, is open to others.
pub fn make_dir(path: &Path) -> Result<(), ConfigError> {
    Dir::make(path)?;
    Ok(())
}

/// Reads a 32-byte key that nobody else can read; makes one if there is none.
///
/// A key comes into being whole: it is written under a name of its own first, since whoever writes
/// it may be killed in between. Of several that make it at once one wins, and all have that one's.
pub fn key_file(path: &Path) -> Result<Zeroizing<[u8; 32]>, ConfigError> {
    let dir = Dir::make(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(key) = read_key(&dir, name, path)? {
        return Ok(key);
    }
    let key = RealCrypto::generate_secret();
    let draft = format!("{name}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file = dir.secret(&draft, flags)?;
    let written = file.write_all(&*key).and_then(|()| file.sync_all());
    let named = written
        .map_err(file_error("cannot write", path))
        .and_then(|()| Ok(dir.name_new(&draft, name)?))
        .inspect_err(|_| dir.remove(&draft));
    if named? {
        return Ok(key);
    }
    dir.remove(&draft);
    // Somebody was quicker.
    let gone = || file_error("cannot read", path)(io::ErrorKind::NotFound.into());
    read_key(&dir, name, path)?.ok_or_else(gone)
}

/// The key that a file holds; `None`: there is no file.
fn read_key(
    dir: &Dir,
    name: &str,
    path: &Path,
) -> Result<Option<Zeroizing<[u8; 32]>>, ConfigError> {
    let file = match dir.secret(name, OFlags::RDONLY) {
        Ok(file) => file,
        Err(PrivateError::System { why, .. }) if why.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(e) => return Err(e.into()),
    };
    // With room for a byte too many, so that nothing is left behind in a smaller place.
    let mut bytes = Zeroizing::new(Vec::with_capacity(64));
    file.take(33).read_to_end(&mut bytes).map_err(file_error("cannot read", path))?;
    let key: Result<[u8; 32], _> = bytes[..].try_into();
    let len = bytes.len();
    key.map(|key| Some(Zeroizing::new(key)))
        .map_err(|_| ConfigError::Key { path: path.into(), len })
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let vm = Home::at(dir.path().into()).vm("test").unwrap();
        assert!(vm.found().unwrap());
        assert!(!vm.found().unwrap());
        let key = vm.vm_key().unwrap();
        assert_eq!(vm.vm_key().unwrap(), key);
        assert_ne!(*key, [0; 32]);
    }

    /// A start that was killed left its key half written, under a name that nobody reads.
    #[test]
    fn a_key_comes_into_being_whole_and_is_one_for_all_that_make_it_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.key");
        let left = dir.path().join(format!("host.key.{}", std::process::id()));
        fs::write(&left, [1, 2, 3]).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
        let key = key_file(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), *key);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
        let private = Dir::make(dir.path()).unwrap();
        fs::write(&left, [9; 32]).unwrap();
        assert!(
            !private.name_new(left.file_name().unwrap().to_str().unwrap(), "host.key").unwrap()
        );
        assert_eq!(key_file(&path).unwrap(), key, "the first one wins");
    }

    #[test]
    fn a_key_of_the_wrong_length_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.key");
        fs::write(&path, [1, 2, 3]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
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
