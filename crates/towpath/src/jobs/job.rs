//! A job: its files, what they say, how it stands.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::config::VmDir;
use crate::lock::{Holder, Lock, is_locked};
use crate::private::{Dir, PrivateError, peek};

/// Names a job's directory to the client that its minder runs.
pub const JOB_VAR: &str = "TOWPATH_AS_JOB";
/// Most jobs that are kept of one virtual machine on one machine.
pub const JOBS_MAX: usize = 1000;
/// Jobs that have ended and are kept; the oldest of more are forgotten.
pub const ENDED_MAX: usize = 100;
/// Most bytes of one source of items.
pub const SOURCE_MAX: u64 = 1 << 30;
/// Most bytes of a job log that are looked through for how far it is.
const LOG_MAX: u64 = 256 << 20;
/// Most bytes of a small file.
const SMALL: u64 = 16 << 20;

const HOME_VAR: &str = "TOWPATH_HOME";
/// Files of a job.
const ABOUT: &str = "about";
pub(super) const ARGS: &str = "args";
pub(super) const ENVIRON: &str = "environ";
const ITEMS: &str = "items";
const MARK: &str = "mark";
pub(super) const OUTCOME: &str = "outcome";
/// The farm's job log, where it was given none.
pub const JOBLOG: &str = "joblog";
pub(super) const UNSERVED: &str = "unserved";
pub(super) const WAITS: &str = "waits";
pub(super) const ENDED: &str = "ended";
const AGAIN: &str = "again";
/// Of all jobs: the last number that was given.
const LAST: &str = "last";

/// A job cannot be kept, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Its files cannot be used.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// There are too many.
    #[error(
        "{JOBS_MAX} jobs are kept, as many as may be\n\
         hint: `towpath jobs` lists them, `towpath jobs forget N` forgets one that has ended"
    )]
    TooMany,
    /// There is none of that number.
    #[error("no job {0}\nhint: `towpath jobs` lists those there are")]
    None(usize),
    /// It runs.
    #[error("job {0} has not ended\nhint: `towpath jobs end {0}` ends it")]
    Runs(usize),
    /// Nothing of it can run again.
    #[error("job {0} cannot go on: only a farm can\nhint: start it anew")]
    CannotGoOn(usize),
    /// Its minder did not start.
    #[error(
        "job {0} was not started: {1}\n\
         hint: is there room, and are more processes allowed (`ulimit -u`)? Then start it again"
    )]
    NotStarted(usize, String),
}

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JobError {
    let path = path.to_path_buf();
    move |why| PrivateError::System { what, path, why }.into()
}

/// What a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its command line, for people.
    pub command: String,
    /// Where it was started.
    pub workdir: PathBuf,
    /// When.
    pub began_s: u64,
    /// It can go on after its client died: a farm.
    pub resumes: bool,
    /// Its client writes what the items print into [`super::spool`]s itself.
    pub writes: bool,
    /// Most bytes that are kept of each stream.
    pub keep: u64,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit status.
    pub status: u8,
    /// When.
    pub at_s: u64,
    /// Bytes that it printed and that could not be written down.
    pub unwritten: u64,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Runs,
    /// It goes on once a daemon of this machine answers.
    Waits,
    /// It does not run, and has not ended: its minder was killed, or the machine was.
    Interrupted,
    /// It has ended.
    Ended(Ended),
}

/// A job that is kept.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number.
    pub number: usize,
    /// Where it is kept.
    pub path: PathBuf,
}

/// Now, by this machine's clock.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn joined<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Vec<u8> {
    words.into_iter().flat_map(|word| [word.as_bytes(), b"\0"]).flatten().copied().collect()
}

pub(super) fn parted(bytes: &[u8]) -> Vec<OsString> {
    let words = bytes.split_inclusive(|b| *b == 0);
    words.map(|word| OsString::from_vec(word[..word.len() - 1].to_vec())).collect()
}

/// All that are kept, in order.
pub fn all(vm: &VmDir) -> Result<Vec<Job>, JobError> {
    let path = vm.jobs();
    let Some(dir) = Dir::open(&path)? else { return Ok(Vec::new()) };
    let mut numbers = dir.numbered()?;
    numbers.sort_unstable();
    numbers.dedup();
    let jobs =
        numbers.into_iter().map(|number| Job { number, path: path.join(number.to_string()) });
    Ok(jobs.filter(|job| job.path.join(ABOUT).exists()).collect())
}

/// The one of that number.
pub fn find(vm: &VmDir, number: usize) -> Result<Job, JobError> {
    let found = all(vm)?.into_iter().find(|job| job.number == number);
    found.ok_or(JobError::None(number))
}

/// A place for a job that is to be. Until [`Making::done`] there is none, and what was put there is
/// removed when this goes.
#[derive(Debug)]
pub struct Making {
    job: Job,
    lock: Option<Lock>,
    is_done: bool,
}

/// Makes a place for a job.
pub fn make(vm: &VmDir) -> Result<Making, JobError> {
    let path = vm.jobs();
    let dir = Dir::make(&path)?;
    let there = all(vm)?;
    let ended = |job: &&Job| matches!(job.state(), State::Ended(_));
    let over: Vec<&Job> = there.iter().filter(ended).collect();
    for job in &over[..over.len().saturating_sub(ENDED_MAX - 1)] {
        // Another one may do the same at this moment.
        let _ = job.forget();
    }
    let mut numbers = dir.numbered()?;
    numbers.sort_unstable();
    let mut last = String::new();
    if let Some(file) = peek(&path.join(LAST)) {
        let _ = file.take(32).read_to_string(&mut last);
    }
    let last = last.trim().parse().unwrap_or(0).max(numbers.last().copied().unwrap_or(0));
    let mut number = last.saturating_add(1);
    for left in numbers.iter().map(|n| path.join(n.to_string())) {
        // Whoever was making one has died.
        if !left.join(ABOUT).exists() && !is_locked(&left) && left.join("lock").exists() {
            let _ = fs::remove_dir_all(&left);
        }
    }
    if dir.numbered()?.len() >= JOBS_MAX {
        return Err(JobError::TooMany);
    }
    loop {
        let path = path.join(number.to_string());
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                let job = Job { number, path };
                let lock = Lock::take(&job.path);
                let mut making = Making { job, lock: None, is_done: false };
                let lock = lock?.ok_or(JobError::NotStarted(number, "its lock is held".into()))?;
                let mut file = dir.file(LAST, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
                let _ = write!(file, "{number}");
                making.lock = Some(lock);
                return Ok(making);
            }
            // Another one is started at this moment.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(failed("cannot make directory", &path)(e)),
        }
    }
}

impl Making {
    /// Where things are put meanwhile.
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// There is a job now. Nothing of it runs yet. `args` are the words of its command line, less
    /// the program.
    pub fn done(mut self, args: &[OsString], about: &About) -> Result<Job, JobError> {
        let job = &self.job;
        job.put(ARGS, &joined(args.iter().map(OsString::as_os_str)))?;
        let environ: Vec<OsString> = std::env::vars_os()
            .map(|(mut name, value)| {
                // It is the same one from wherever its minder is started.
                let absolute = if name == HOME_VAR { fs::canonicalize(&value).ok() } else { None };
                name.push("=");
                name.push(absolute.map_or(value, PathBuf::into_os_string));
                name
            })
            .collect();
        job.put(ENVIRON, &joined(environ.iter().map(OsString::as_os_str)))?;
        job.put(ABOUT, &serde_json::to_vec(about).unwrap_or_default())?;
        if let Some(lock) = &self.lock {
            lock.clear().map_err(failed("cannot write", &job.path.join("lock")))?;
        }
        self.is_done = true;
        Ok(self.job.clone())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_dir_all(&self.job.path);
        }
    }
}

/// How far a farm's output and its job log go together, in bytes: after its client was killed, what
/// is beyond is cut off, and whoever looks on is not shown it before. In the file each is twenty
/// digits and a blank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Of what the items print on standard output.
    pub out: u64,
    /// On standard error.
    pub err: u64,
    /// Of the job log.
    pub log: u64,
}

impl Mark {
    /// As it stands in the file.
    pub fn emit(&self) -> String {
        let Self { out, err, log } = self;
        format!("{out:020} {err:020} {log:020}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { out: next()?, err: next()?, log: next()? })
    }
}

impl Job {
    /// Writes a small file as a whole.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        let dir = Dir::make(&self.path)?;
        let (new, path) = (format!("{name}.new"), self.path.join(name));
        let write = |e| failed("cannot write", &path)(e);
        let mut file = dir.secret(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        file.write_all(bytes).map_err(write)?;
        fs::rename(self.path.join(&new), &path).map_err(failed("cannot write", &path))
    }

    /// Removes it, if it is there.
    pub(super) fn drop_file(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }

    pub(super) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        peek(&self.path.join(name))?.take(SMALL).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// What it is; `None` where that cannot be read.
    pub fn about(&self) -> Option<About> {
        serde_json::from_slice(&self.get(ABOUT)?).ok()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        // In this order: its minder writes how it ended before it lets go of the lock.
        if is_locked(&self.path) {
            return if self.has(WAITS) { State::Waits } else { State::Runs };
        }
        let ended = self.get(ENDED).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        ended.map_or(State::Interrupted, State::Ended)
    }

    /// Who minds it, or did last.
    pub fn minder(&self) -> Option<Holder> {
        Holder::of(&self.path)
    }

    /// It has so many items.
    pub fn has_items(&self, items: u32) -> Result<(), JobError> {
        self.put(ITEMS, items.to_string().as_bytes())
    }

    /// How many items it has; `None`: it is no farm.
    pub fn items(&self) -> Option<u32> {
        str::from_utf8(&self.get(ITEMS)?).ok()?.trim().parse().ok()
    }

    /// Its `k`th source of items, to be written, or as it was written.
    pub fn source(&self, k: usize, write: bool) -> Result<File, JobError> {
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let flags = if write { create } else { OFlags::RDONLY };
        Ok(Dir::make(&self.path)?.secret(&format!("source.{k}"), flags)?)
    }

    /// How far its output and job log go together; `None`: it is no farm, or has not got so far.
    pub fn mark(&self) -> Option<Mark> {
        Mark::parse(str::from_utf8(&self.get(MARK)?).ok()?)
    }

    /// The file for that.
    pub fn mark_file(&self) -> Result<File, JobError> {
        Ok(Dir::make(&self.path)?.secret(MARK, OFlags::WRONLY | OFlags::CREATE)?)
    }

    /// Its client found no daemon to work with.
    pub fn is_unserved(&self) -> Result<(), JobError> {
        self.put(UNSERVED, b"")
    }

    /// What has failed so far is to run once more when it goes on.
    pub fn runs_again(&self) -> Result<(), JobError> {
        self.put(AGAIN, self.mark().unwrap_or_default().log.to_string().as_bytes())
    }

    /// From which byte of its job log on failures are results: those before are to run again.
    pub fn failed_from(&self) -> u64 {
        let text = self.get(AGAIN).and_then(|bytes| String::from_utf8(bytes).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Whether nothing more can be written where it is kept.
    pub fn is_disk_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| disk.f_bavail == 0)
    }

    /// Its client ends by itself, with this exit status.
    pub fn client_ends(&self, status: u8) -> Result<(), JobError> {
        self.put(OUTCOME, status.to_string().as_bytes())
    }

    pub(super) fn outcome(&self) -> Option<u8> {
        str::from_utf8(&self.get(OUTCOME)?).ok()?.parse().ok()
    }

    /// Has it end: politely, or at once.
    pub fn end(&self, at_once: bool) {
        if let Some(minder) = self.minder() {
            minder.wake();
            minder.signal(if at_once { Signal::USR2 } else { Signal::USR1 });
        }
    }

    /// Lines of its own job log, each a result; items that ran again have several.
    pub fn results(&self) -> u64 {
        let Some(file) = peek(&self.path.join(JOBLOG)) else { return 0 };
        let lines = BufReader::with_capacity(64 * 1024, file.take(LOG_MAX));
        let count = lines.split(b'\n').map_while(Result::ok).count() as u64;
        // The first one is the header.
        count.saturating_sub(1)
    }

    /// Forgets all of it. Refused while it runs.
    pub fn forget(&self) -> Result<(), JobError> {
        if is_locked(&self.path) {
            return Err(JobError::Runs(self.number));
        }
        // What is not whole any more is no job.
        self.drop_file(ABOUT);
        fs::remove_dir_all(&self.path).map_err(failed("cannot remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::Home;
    use crate::lock::Lock;

    fn about() -> About {
        About {
            command: "farm x ::: a b".into(),
            workdir: "/".into(),
            began_s: 7,
            resumes: true,
            writes: true,
            keep: 1 << 20,
        }
    }

    fn vm() -> (tempfile::TempDir, VmDir) {
        let dir = tempfile::tempdir().unwrap();
        let vm = Home::at(dir.path().into()).vm("test").unwrap();
        (dir, vm)
    }

    fn created(vm: &VmDir) -> Job {
        let args = ["farm".into(), OsString::from_vec(b"a\xff".to_vec())];
        let making = make(vm).unwrap();
        making.job().source(0, true).unwrap().write_all(b"one\ntwo\n").unwrap();
        making.done(&args, &about()).unwrap()
    }

    #[test]
    fn a_job_is_written_down_as_it_was_ordered_and_forgotten() {
        let (_dir, vm) = vm();
        assert!(all(&vm).unwrap().is_empty());
        assert!(matches!(find(&vm, 1), Err(JobError::None(1))));
        let job = created(&vm);
        assert_eq!((job.number, created(&vm).number), (1, 2));
        assert_eq!(find(&vm, 1).unwrap().about(), Some(about()));
        let args = parted(&job.get(ARGS).unwrap());
        assert_eq!(args, ["farm".into(), OsString::from_vec(b"a\xff".to_vec())]);
        let mut source = String::new();
        job.source(0, false).unwrap().read_to_string(&mut source).unwrap();
        assert_eq!(source, "one\ntwo\n");
        let environ = parted(&job.get(ENVIRON).unwrap());
        assert!(environ.iter().any(|word| word.as_bytes().starts_with(b"PATH=")));
        for file in [ARGS, ENVIRON, "source.0", ABOUT] {
            let mode = fs::metadata(job.path.join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{file}");
        }
        job.forget().unwrap();
        let left: Vec<usize> = all(&vm).unwrap().iter().map(|job| job.number).collect();
        assert_eq!(left, [2], "and its number is not given again while there are later ones");
        assert_eq!(created(&vm).number, 3);
    }

    #[test]
    fn one_that_was_never_written_as_a_whole_is_none_and_is_removed() {
        let (_dir, vm) = vm();
        let making = make(&vm).unwrap();
        let path = making.job().path.clone();
        assert!(path.exists() && matches!(find(&vm, 1), Err(JobError::None(1))));
        drop(make(&vm).unwrap());
        assert!(path.exists(), "it is being made");
        drop(making);
        assert!(!path.exists());
        // Whoever made it was killed.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("lock"), "1\n").unwrap();
        assert_eq!(created(&vm).number, 3, "none is given twice");
        assert!(!path.exists());
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let (_dir, vm) = vm();
        let job = created(&vm);
        assert_eq!(job.mark(), None);
        let mark = Mark { out: u64::MAX, err: 0, log: 7 };
        job.mark_file().unwrap().write_all(mark.emit().as_bytes()).unwrap();
        assert_eq!(job.mark(), Some(mark));
        assert_eq!(Mark::parse("1 2"), None);
        assert_eq!(Mark::parse("1 2 -3"), None);
    }

    #[test]
    fn how_it_stands_is_what_its_minder_says_and_whether_that_lives() {
        let (_dir, vm) = vm();
        let job = created(&vm);
        assert_eq!(job.state(), State::Interrupted);
        let lock = Lock::take(&job.path).unwrap().unwrap();
        assert_eq!(job.state(), State::Runs);
        assert!(matches!(job.forget(), Err(JobError::Runs(1))));
        job.put(WAITS, b"").unwrap();
        assert_eq!(job.state(), State::Waits);
        let ended = Ended { status: 3, at_s: 9, unwritten: 0 };
        job.put(ENDED, &serde_json::to_vec(&ended).unwrap()).unwrap();
        drop(lock);
        assert_eq!(job.state(), State::Ended(ended));
        assert_eq!(job.minder().unwrap().pid, std::process::id());
        assert_eq!((job.items(), job.results()), (None, 0));
        job.has_items(12).unwrap();
        fs::write(job.path.join(JOBLOG), "Seq\n1\n2\n").unwrap();
        assert_eq!((job.items(), job.results()), (Some(12), 2));
    }

    #[test]
    fn the_oldest_that_have_ended_are_forgotten_and_no_others() {
        let (_dir, vm) = vm();
        let running = created(&vm);
        let ended = serde_json::to_vec(&Ended { status: 0, at_s: 0, unwritten: 0 }).unwrap();
        for _ in 0..ENDED_MAX {
            created(&vm).put(ENDED, &ended).unwrap();
        }
        let last = created(&vm);
        let left: Vec<usize> = all(&vm).unwrap().iter().map(|job| job.number).collect();
        assert_eq!(left.len(), ENDED_MAX + 1);
        assert_eq!((left[0], left[1]), (running.number, 3), "2 was the oldest that had ended");
        assert_eq!(left.last(), Some(&last.number));
    }

    #[test]
    fn jobs_that_another_user_may_have_put_there_are_not_looked_at() {
        let (_dir, vm) = vm();
        let job = created(&vm);
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(&vm.jobs(), 0o777);
        assert!(matches!(all(&vm), Err(JobError::Private(PrivateError::Exposed { .. }))));
        assert!(matches!(make(&vm), Err(JobError::Private(PrivateError::Exposed { .. }))));
        open(&vm.jobs(), 0o700);
        open(&job.path, 0o777);
        assert!(matches!(job.source(0, false), Err(JobError::Private(_))));
        assert!(matches!(Lock::take(&job.path), Err(PrivateError::Exposed { .. })));
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let (_dir, vm) = vm();
        let jobs = vm.jobs();
        Dir::make(&jobs).unwrap();
        for number in 1..=JOBS_MAX {
            fs::create_dir(jobs.join(number.to_string())).unwrap();
        }
        assert!(matches!(make(&vm), Err(JobError::TooMany)));
    }
}
