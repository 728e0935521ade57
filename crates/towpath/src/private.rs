//! Directories and files for their owner only, looked at before they are used as ssh and gnupg
//! look at theirs.
//!
//! Whoever may write into one of our directories, or into one above it, can put something else in
//! the place of what is ours: a key that they know, or a link to a file that we would then
//! overwrite. So a path is walked from the root by descriptors, a name at a time:
//!
//! - each directory on the way belongs to us, to root or to whoever owns `/`, and nobody else may
//!   write into it, unless it is *sticky* as `/tmp` is: there nobody can move what is ours;
//! - links on the way belong to one of these, too;
//! - the directory itself is ours, and nobody else may write into it;
//! - a file in it is opened there, never through a link, is ours, and a key can be read by nobody
//!   else.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, Stat, fstat, fstatfs, linkat,
    mkdirat, open, openat, readlinkat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Links followed on one path at most, as the kernel has it.
const LINKS_MAX: usize = 40;
/// Permission to write for others than the owner.
const WRITE: u32 = 0o022;
/// Any permission for others than the owner.
const ANY: u32 = 0o077;
/// In a directory with it nobody can move what belongs to others.
const STICKY: u32 = 0o1000;

/// Why something on a path cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// It belongs to another user, or others may write into it.
    #[error("{path} (owner {owner}, mode {mode:04o}) {why}\nhint: {fix}")]
    Exposed {
        /// What.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// What is wrong with that.
        why: &'static str,
        /// What to do.
        fix: String,
    },
    /// The operating system refused something.
    #[error(
        "{what} {path}: {why}\n\
         hint: check the directory's owner and free space, or set TOWPATH_HOME"
    )]
    System {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
}

fn system(what: &'static str, path: &Path, why: Errno) -> PrivateError {
    PrivateError::System { what, path: path.into(), why: why.into() }
}

fn exposed(path: &Path, stat: &Stat, why: &'static str, fix: String) -> PrivateError {
    let (path, owner, mode) = (path.into(), stat.st_uid, stat.st_mode & 0o7777);
    PrivateError::Exposed { path, owner, mode, why, fix }
}

fn ours() -> u32 {
    geteuid().as_raw()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A directory of ours, opened.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens it, with what is missing of its path made for us only.
    pub fn make(path: &Path) -> Result<Self, PrivateError> {
        let found = Walk::new(path)?.reach_end(true)?;
        found.ok_or_else(|| system("cannot make directory", path, Errno::NOENT))
    }

    /// Opens it; `None` where there is none.
    pub fn open(path: &Path) -> Result<Option<Self>, PrivateError> {
        Walk::new(path)?.reach_end(false)
    }

    /// Opens a file in it that only we may write into.
    pub fn file(&self, name: &str, flags: OFlags) -> Result<File, PrivateError> {
        self.file_without(name, flags, WRITE)
    }

    /// Opens a file in it that only we may read.
    pub fn secret(&self, name: &str, flags: OFlags) -> Result<File, PrivateError> {
        self.file_without(name, flags, ANY)
    }

    fn file_without(&self, name: &str, flags: OFlags, bits: u32) -> Result<File, PrivateError> {
        let path = self.path.join(name);
        // A pipe in its place would hold us up.
        let how = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        // Not before it is known whose it is.
        let how = how - OFlags::TRUNC;
        let fd = match openat(&self.fd, name, how, Mode::RUSR | Mode::WUSR) {
            Err(Errno::LOOP) => {
                let stat =
                    rustix::fs::statat(&self.fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(|e| system("cannot open", &path, e))?;
                let fix = format!("`rm {}`", path.display());
                return Err(exposed(&path, &stat, "is a symbolic link", fix));
            }
            opened => opened.map_err(|e| system("cannot open", &path, e))?,
        };
        let stat = fstat(&fd).map_err(|e| system("cannot look at", &path, e))?;
        check_file(&path, &stat, bits)?;
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) && stat.st_nlink > 1 {
            let fix = format!("`rm {}`", path.display());
            return Err(exposed(&path, &stat, "has other names, too, as a hard link", fix));
        }
        if flags.contains(OFlags::TRUNC) {
            rustix::fs::ftruncate(&fd, 0).map_err(|e| system("cannot write", &path, e))?;
        }
        Ok(fd.into())
    }

    /// Gives a file in it the name that it is to have; false: another file has that. Where the
    /// file system cannot do that in one step, the new name is a second one for a moment.
    pub fn name_new(&self, from: &str, to: &str) -> Result<bool, PrivateError> {
        let noreplace = RenameFlags::NOREPLACE;
        let named = match renameat_with(&self.fd, from, &self.fd, to, noreplace) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&self.fd, from, &self.fd, to, AtFlags::empty())
                    .inspect(|()| self.remove(from))
            }
            named => named,
        };
        match named {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(system("cannot name", &self.path.join(to), e)),
        }
    }

    /// Takes a file out of it, if it is there.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// The directories in it whose names are numbers; each is to be ours.
    pub fn numbered(&self) -> Result<Vec<usize>, PrivateError> {
        let failed = |e| system("cannot read", &self.path, e);
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.fd, ".", readable, Mode::empty()).map_err(failed)?;
        let mut numbers = Vec::new();
        for entry in rustix::fs::Dir::new(listed).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(n) = name.to_str().ok().and_then(|n| n.parse().ok()) else { continue };
            let path = self.path.join(OsString::from_vec(name.to_bytes().to_vec()));
            let stat = rustix::fs::statat(&self.fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            if matches!(stat, Err(Errno::NOENT)) {
                // It is removed at this moment.
                continue;
            }
            check_own(&path, &stat.map_err(|e| system("cannot look at", &path, e))?)?;
            numbers.push(n);
        }
        Ok(numbers)
    }
}

/// A file of ours at a path whose directory is ours, for who only looks: `None` if it is neither.
/// The directory must have been looked at before.
pub(crate) fn peek(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_ours = |m: Metadata| m.is_file() && m.uid() == ours();
    file.metadata().is_ok_and(is_ours).then_some(file)
}

fn check_file(path: &Path, stat: &Stat, bits: u32) -> Result<(), PrivateError> {
    let shown = path.display();
    if kind(stat) != FileType::RegularFile {
        return Err(exposed(path, stat, "is no file", format!("`rm {shown}`")));
    }
    if stat.st_uid != ours() {
        return Err(exposed(path, stat, "belongs to another user", format!("`rm -f {shown}`")));
    }
    if stat.st_mode & bits & WRITE != 0 {
        let fix = format!("`chmod go-w {shown}`, if nobody has changed it");
        return Err(exposed(path, stat, "can be written by others", fix));
    }
    if stat.st_mode & bits != 0 {
        let fix = format!("`chmod 600 {shown}`, if nobody has read it; else remove it");
        return Err(exposed(path, stat, "holds a key and can be read by others", fix));
    }
    Ok(())
}

/// Of a directory that must be ours.
fn check_own(path: &Path, stat: &Stat) -> Result<(), PrivateError> {
    let shown = path.display();
    if kind(stat) != FileType::Directory {
        return Err(exposed(path, stat, "is no directory", format!("`rm {shown}`")));
    }
    if stat.st_uid != ours() {
        let why = "belongs to another user, who could run programs as you";
        return Err(exposed(path, stat, why, "set TOWPATH_HOME to a directory of yours".into()));
    }
    if stat.st_mode & WRITE != 0 {
        let why = "can be written by others, who could run programs as you";
        return Err(exposed(path, stat, why, format!("`chmod go-w {shown}`")));
    }
    Ok(())
}

/// A way from the root to a directory. `at` stands for `shown`; `names` are still to be gone.
struct Walk {
    at: OwnedFd,
    shown: PathBuf,
    names: VecDeque<OsString>,
    links: usize,
    /// Who owns `/`: root, or whoever that is in a name space of users.
    root: u32,
}

fn open_root() -> Result<(OwnedFd, Stat), PrivateError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = open("/", flags, Mode::empty()).and_then(|fd| Ok((fstat(&fd)?, fd)));
    let (stat, fd) = fd.map_err(|e| system("cannot look at", Path::new("/"), e))?;
    Ok((fd, stat))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |c: Component<'_>| match c {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

impl Walk {
    fn new(path: &Path) -> Result<Self, PrivateError> {
        let from = std::path::absolute(path).map_err(|why| PrivateError::System {
            what: "cannot find",
            path: path.into(),
            why,
        })?;
        let (at, stat) = open_root()?;
        let root = stat.st_uid;
        let walk = Self { at, shown: "/".into(), names: names(&from), links: 0, root };
        walk.check_way(&stat)?;
        Ok(walk)
    }

    fn reach_end(mut self, make: bool) -> Result<Option<Dir>, PrivateError> {
        while let Some(name) = self.names.pop_front() {
            if !self.go(&name, make)? {
                return Ok(None);
            }
        }
        let Self { at: fd, shown: path, .. } = self;
        let stat = fstat(&fd).map_err(|e| system("cannot look at", &path, e))?;
        check_own(&path, &stat)?;
        Ok(Some(Dir { fd, path }))
    }

    /// Goes on by one name; false where it is missing and not to be made.
    fn go(&mut self, name: &OsStr, make: bool) -> Result<bool, PrivateError> {
        let path = if name == ".." { self.parent() } else { self.shown.join(name) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.at, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if make => {
                match mkdirat(&self.at, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(system("cannot make directory", &path, e)),
                }
                openat(&self.at, name, flags, Mode::empty())
                    .map_err(|e| system("cannot open", &path, e))?
            }
            Err(Errno::NOENT) => return Ok(false),
            Err(e) => return Err(system("cannot open", &path, e)),
        };
        let stat = fstat(&fd).map_err(|e| system("cannot look at", &path, e))?;
        if kind(&stat) == FileType::Symlink {
            self.follow(&fd, &path, &stat)?;
            return Ok(true);
        }
        if kind(&stat) != FileType::Directory {
            return Err(system("cannot read", &path, Errno::NOTDIR));
        }
        (self.at, self.shown) = (fd, path);
        self.check_way(&stat)?;
        Ok(true)
    }

    fn parent(&self) -> PathBuf {
        self.shown.parent().unwrap_or(Path::new("/")).into()
    }

    /// Turns to where a link leads.
    fn follow(&mut self, link: &OwnedFd, path: &Path, stat: &Stat) -> Result<(), PrivateError> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(system("cannot open", path, Errno::LOOP));
        }
        if !self.is_trusted(stat.st_uid) {
            let why = "is a symbolic link of another user";
            return Err(exposed(
                path,
                stat,
                why,
                "set TOWPATH_HOME to a directory of yours".into(),
            ));
        }
        let target = readlinkat(link, "", Vec::new());
        let target = target.map_err(|e| system("cannot read", path, e))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.at, self.shown) = (open_root()?.0, "/".into());
        }
        for name in names(&target).into_iter().rev() {
            self.names.push_front(name);
        }
        Ok(())
    }

    fn is_trusted(&self, owner: u32) -> bool {
        owner == ours() || owner == 0 || owner == self.root
    }

    /// Of a directory on the way: nobody can put another one in the place of what is in it. The
    /// last one is looked at once more, as one that must be ours.
    fn check_way(&self, stat: &Stat) -> Result<(), PrivateError> {
        if self.names.is_empty() {
            return Ok(());
        }
        let fix = || "set TOWPATH_HOME to a directory below your home directory".into();
        if !self.is_trusted(stat.st_uid) {
            let why = "belongs to another user, who could replace what is in it";
            return Err(exposed(&self.shown, stat, why, fix()));
        }
        if stat.st_mode & WRITE != 0 && stat.st_mode & STICKY == 0 {
            let why = "can be written by others, who could replace what is in it";
            let shown = self.shown.display();
            let own = stat.st_uid == ours();
            let fix = if own { format!("`chmod go-w {shown}`") } else { fix() };
            return Err(exposed(&self.shown, stat, why, fix));
        }
        Ok(())
    }
}

/// Opens a file that the user named for results. Where others can write into its directory, they
/// may have put a link there, or a file of theirs: neither is written into. (The kernel refuses
/// the same where `fs.protected_symlinks` and `fs.protected_regular` are set.)
pub fn open_result(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut at = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let file = match options.custom_flags(no_link).open(&at) {
            Err(e) if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                match led_by(&at)? {
                    Link::To(target) => {
                        at = target;
                        continue;
                    }
                    // Nobody can put one there.
                    Link::OfKernel => options.custom_flags(0).open(&at)?,
                }
            }
            opened => opened?,
        };
        let meta = file.metadata()?;
        if meta.is_file() && !may_lead(meta.uid()) && is_shared(&at) {
            return refuse("a file", meta.uid());
        }
        return Ok(file);
    }
    Err(Errno::LOOP.into())
}

/// Where a link leads.
enum Link {
    To(PathBuf),
    /// To what a process has opened (`/dev/stdout`), whether that has a name or not.
    OfKernel,
}

/// Where the link at a path leads, if it is ours: what was looked at is what is read.
fn led_by(path: &Path) -> io::Result<Link> {
    let link = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&link)?;
    if kind(&stat) != FileType::Symlink {
        // Somebody has put something else there.
        return Ok(Link::To(path.into()));
    }
    if fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
        return Ok(Link::OfKernel);
    }
    if !may_lead(stat.st_uid) {
        return refuse("a symbolic link", stat.st_uid);
    }
    Ok(Link::To(led_to(path, readlinkat(&link, "", Vec::new())?)))
}

/// Where a link at `path` with this content leads.
fn led_to(path: &Path, target: CString) -> PathBuf {
    // Its last name, if that is a link, is looked at in its turn.
    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
    let target = target.file_name().map_or(target.clone(), |name| target.with_file_name(name));
    path.parent().unwrap_or(Path::new("")).join(target)
}

fn may_lead(owner: u32) -> bool {
    owner == ours() || owner == 0
}

fn refuse<T>(what: &str, owner: u32) -> io::Result<T> {
    let text = format!("{what} of another user (owner {owner}); name another file");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// [`open_result`] of a file that is made anew.
pub fn create_result(path: &Path) -> io::Result<File> {
    open_result(path, OpenOptions::new().write(true).create(true).truncate(true))
}

/// Whether others may put files into the directory of `path`.
fn is_shared(path: &Path) -> bool {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new(".")).metadata();
    dir.is_ok_and(|m| m.mode() & WRITE != 0)
}

/// A directory for results, opened: it is ours, and nobody else may put anything into it.
#[derive(Debug)]
pub(crate) struct ResultDir(Dir);

impl ResultDir {
    /// Opens the directory that the user named, made with what is missing of its path. A link
    /// may stand for it where we or root have made that.
    pub(crate) fn make(path: &Path) -> Result<Self, PrivateError> {
        let failed = |e| system("cannot open", path, e);
        std::fs::create_dir_all(path).map_err(|why| PrivateError::System {
            what: "cannot make directory",
            path: path.into(),
            why,
        })?;
        // Without a slash at its end, which has links followed.
        let mut at = path.file_name().map_or(path.into(), |name| path.with_file_name(name));
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..LINKS_MAX {
            let fd = open(&at, flags, Mode::empty()).map_err(failed)?;
            let stat = fstat(&fd).map_err(failed)?;
            if kind(&stat) != FileType::Symlink {
                return Self::checked(fd, path.into());
            }
            if !may_lead(stat.st_uid) {
                return Err(exposed(&at, &stat, "is a symbolic link of another user", other()));
            }
            let target = readlinkat(&fd, "", Vec::new()).map_err(failed)?;
            at = led_to(&at, target);
        }
        Err(failed(Errno::LOOP))
    }

    /// Opens a directory in it, made where it is missing.
    pub(crate) fn below(&self, name: &OsStr) -> Result<Self, PrivateError> {
        let path = self.0.path.join(name);
        match mkdirat(&self.0.fd, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(system("cannot make directory", &path, e)),
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.0.fd, name, flags, Mode::empty());
        Self::checked(fd.map_err(|e| system("cannot open", &path, e))?, path)
    }

    /// Makes a file in it anew.
    pub(crate) fn create(&self, name: &str) -> Result<File, PrivateError> {
        let path = self.0.path.join(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let how = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.0.fd, name, how, Mode::from_raw_mode(0o666));
        Ok(fd.map_err(|e| system("cannot write", &path, e))?.into())
    }

    fn checked(fd: OwnedFd, path: PathBuf) -> Result<Self, PrivateError> {
        let stat = fstat(&fd).map_err(|e| system("cannot look at", &path, e))?;
        match kind(&stat) {
            FileType::Directory => {}
            FileType::Symlink => {
                return Err(exposed(&path, &stat, "is a symbolic link", other()));
            }
            _ => return Err(system("cannot open", &path, Errno::NOTDIR)),
        }
        if stat.st_uid != ours() {
            return Err(exposed(&path, &stat, "belongs to another user", other()));
        }
        // A user's own group has the user's number.
        let bits = if stat.st_gid == stat.st_uid { WRITE & !0o020 } else { WRITE };
        if stat.st_mode & bits != 0 {
            let fix = format!("`chmod go-w {}`, or {}", path.display(), other());
            let why = "can be written by others, who could have results written elsewhere";
            return Err(exposed(&path, &stat, why, fix));
        }
        Ok(Self(Dir { fd, path }))
    }
}

fn other() -> String {
    "give another directory with --results".into()
}

#[cfg(test)]
mod tests;
