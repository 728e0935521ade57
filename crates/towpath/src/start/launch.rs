//! One host started on its machine: `towpath join -` run there by ssh or by srun, the token on its
//! standard input, its answer on its standard output.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::hostfile::Machine;
use crate::daemon::Started;

/// Bytes kept of what a launched command says on each of its outputs.
const SAID_MAX: usize = 64 * 1024;
/// Characters of it shown when it fails.
const SHOWN_MAX: usize = 600;
/// How often an interrupt is looked for.
const TICK: Duration = Duration::from_millis(100);

/// How long a machine may take to answer at all: time for a packet that is lost to be sent again.
const CONNECT_MAX_S: u64 = 2;

/// What runs a command on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// `COMMAND… [user@]host 'words for a shell'`.
    Ssh(Vec<String>),
    /// `COMMAND… --nodelist=host words`; it must go on as long as the daemon: Slurm ends what a
    /// step leaves behind.
    Srun(Vec<String>),
}

impl Way {
    /// By a command of words. Plain `ssh` never asks the user, and gives up after `limit`; a
    /// machine that does not answer at all, after 2 s.
    pub fn ssh(command: &str, limit: Duration) -> Self {
        let mut words: Vec<String> = command.split_whitespace().map(String::from).collect();
        let is_ssh = words.first().is_some_and(|w| w == "ssh" || w.ends_with("/ssh"));
        if is_ssh {
            // Of an option that is given twice ssh takes the first one: the user's go before.
            let limit = limit.as_secs().clamp(1, CONNECT_MAX_S);
            words.extend(["-o".into(), "BatchMode=yes".into()]);
            words.extend(["-o".into(), format!("ConnectTimeout={limit}")]);
        }
        Self::Ssh(words)
    }

    /// By `srun`, in a step of its own that shares the job's resources.
    pub fn srun(command: &str) -> Self {
        let mut words: Vec<String> = command.split_whitespace().map(String::from).collect();
        let options = ["--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none"];
        words.extend(options.map(String::from));
        Self::Srun(words)
    }

    const fn is_foreground(&self) -> bool {
        matches!(self, Self::Srun(_))
    }
}

/// What hosts are started with.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// How.
    pub way: Way,
    /// The virtual machine.
    pub vm: String,
    /// What admits them.
    pub token: String,
    /// The program there, where the machine's own option does not say.
    pub towpath: String,
    /// Milliseconds of silence after which a host is lost, where that was said; the founder's
    /// count.
    pub lost_after_ms: Option<u32>,
    /// One that has not answered by then has failed.
    pub limit: Duration,
}

/// Why a host was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The command cannot be run here.
    #[error("cannot run `{program}`: {why}")]
    Run {
        /// The command.
        program: String,
        /// What the operating system says.
        why: io::Error,
    },
    /// Nothing came.
    #[error("no answer within {} s{}", .limit.as_secs_f32(), said_before(.said))]
    Time {
        /// How long we waited.
        limit: Duration,
        /// What came on its standard error.
        said: String,
    },
    /// It answered that it could not.
    #[error("{said}{}", program_hint(*.status))]
    Failed {
        /// What came on its standard error.
        said: String,
        /// Its exit status.
        status: Option<i32>,
    },
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

fn said_before(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; it said: {said}") }
}

const fn program_hint(status: Option<i32>) -> &'static str {
    match status {
        Some(127) => {
            "\nhint: where is towpath there? Say towpath=PATH in the host file, or --towpath PATH"
        }
        _ => "",
    }
}

/// Words for a shell (of either family) that come out of it as they are.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Launcher {
    /// Starts a host on `machine` and waits for its answer.
    pub fn launch(
        &self,
        machine: &Machine,
        interrupted: &AtomicBool,
    ) -> Result<Started, LaunchError> {
        let (program, args) = self.command(machine);
        let failed = |why| LaunchError::Run { program: program.clone(), why };
        let mut child = Command::new(&program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that whatever it starts can be ended with it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A token fits into the pipe. One that ended before it read it says why on its own.
            let _ = stdin.write_all(self.token.as_bytes());
        }
        let result = self.wait(&mut child, interrupted);
        if result.is_err() || !self.way.is_foreground() {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process_group(pid, Signal::KILL));
            let _ = child.wait();
        }
        result
    }

    /// The program to run here and its arguments.
    fn command(&self, machine: &Machine) -> (String, Vec<OsString>) {
        let options = &machine.options;
        let program = options.towpath.as_ref().unwrap_or(&self.towpath);
        let mut there: Vec<String> = Vec::new();
        let home = options.home.iter().map(|home| format!("TOWPATH_HOME={home}"));
        let env = options.env.iter().map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> = home.chain(env).collect();
        if !settings.is_empty() {
            there.push("env".into());
            there.extend(settings);
        }
        there.extend([program.clone(), "--vm".into(), self.vm.clone()]);
        there.extend(["join", "-", "--json", "--name"].map(String::from));
        there.push(machine.name.clone());
        let lost_after = self.lost_after_ms.iter();
        there.extend(lost_after.flat_map(|ms| ["--lost-after-ms".into(), ms.to_string()]));
        there.extend(options.slots.iter().flat_map(|n| ["--slots".into(), n.to_string()]));
        let rate = options.link_rate.iter();
        there.extend(rate.flat_map(|r| ["--link-rate".into(), r.as_bps().to_string()]));
        there.extend(options.addr.iter().flat_map(|a| ["--listen".into(), a.to_string()]));
        let (mut words, end) = match &self.way {
            Way::Ssh(words) => {
                let at = options.user.as_ref().map_or(String::new(), |u| format!("{u}@"));
                let line: Vec<String> = there.iter().map(|w| quote(w)).collect();
                (words.clone(), vec![format!("{at}{}", machine.name), line.join(" ")])
            }
            Way::Srun(words) => {
                let node = format!("--nodelist={}", machine.name);
                there.push("--foreground".into());
                (words.clone(), [vec![node], there].concat())
            }
        };
        words.extend(end);
        let program = words.remove(0);
        (program, words.into_iter().map(OsString::from).collect())
    }

    /// Waits for the answer, the end of the command, or the end of our patience.
    fn wait(&self, child: &mut Child, interrupted: &AtomicBool) -> Result<Started, LaunchError> {
        let failed = |why| LaunchError::Run { program: "poll".into(), why };
        let deadline = Instant::now() + self.limit;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let exit = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed(e.into()))?;
        let mut out = Said::new(child.stdout.take()).map_err(failed)?;
        let mut err = Said::new(child.stderr.take()).map_err(failed)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LaunchError::Time { limit: self.limit, said: err.shown() });
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(LaunchError::Interrupted);
            }
            let ready = wait_for(&[Some(exit.as_fd()), out.fd(), err.fd()], left.min(TICK));
            ready.map_err(failed)?;
            out.read();
            err.read();
            if self.way.is_foreground()
                && let Some(started) = out.answer()
            {
                return Ok(started);
            }
            // What it started may hold its outputs open: its own end counts.
            if let Ok(Some(status)) = child.try_wait() {
                out.read();
                err.read();
                return out.answer().ok_or_else(|| failure(&err, status));
            }
        }
    }
}

fn failure(err: &Said<std::process::ChildStderr>, status: ExitStatus) -> LaunchError {
    let mut said = err.shown();
    if said.is_empty() {
        said = format!("it ended without an answer ({status})");
    }
    LaunchError::Failed { said, status: status.code() }
}

/// Waits until one of them can be read, at most `limit`.
fn wait_for(fds: &[Option<BorrowedFd<'_>>], limit: Duration) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// An output of a launched command, as far as it was read and kept.
struct Said<F> {
    file: Option<F>,
    bytes: Vec<u8>,
}

impl<F: Read + AsFd> Said<F> {
    fn new(file: Option<F>) -> io::Result<Self> {
        if let Some(file) = &file {
            rustix::io::ioctl_fionbio(file, true)?;
        }
        Ok(Self { file, bytes: Vec::new() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there; the first [`SAID_MAX`] bytes are kept.
    fn read(&mut self) {
        let mut buf = [0; 4096];
        while let Some(file) = &mut self.file {
            match file.read(&mut buf) {
                Ok(0) => self.file = None,
                Ok(n) => {
                    let room = SAID_MAX - self.bytes.len();
                    self.bytes.extend_from_slice(&buf[..n.min(room)]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.file = None,
            }
        }
    }

    /// The answer of `join --json`, whatever a login shell says before and after it.
    fn answer(&self) -> Option<Started> {
        let text = String::from_utf8_lossy(&self.bytes);
        let started = |line: &str| {
            let said: serde_json::Value = serde_json::from_str(line).ok()?;
            serde_json::from_value(said.get("hosts")?.get(0)?.clone()).ok()
        };
        text.lines().rev().find_map(started)
    }

    /// Its last words, on one line.
    fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let from = lines.len().saturating_sub(4);
        let line = lines[from..].join("; ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        let skip = line.chars().count().saturating_sub(SHOWN_MAX);
        line.chars().skip(skip).collect()
    }
}

#[cfg(test)]
mod tests {
    use towpath_wire::Rate;

    use super::super::hostfile::Options;
    use super::*;

    fn launcher(way: Way, limit_ms: u64) -> Launcher {
        Launcher {
            way,
            vm: "default".into(),
            token: "tow1-x".into(),
            towpath: "/opt/a b/towpath".into(),
            lost_after_ms: Some(2000),
            limit: Duration::from_millis(limit_ms),
        }
    }

    /// A launcher whose command is `sh -c script`: host and words are its arguments.
    fn scripted(script: &str, limit_ms: u64) -> Launcher {
        let words = ["sh", "-c", script, "sh"].map(String::from).to_vec();
        launcher(Way::Ssh(words), limit_ms)
    }

    fn machine() -> Machine {
        let options = Options {
            user: Some("eve".into()),
            slots: Some(3),
            link_rate: Some(Rate::from_mbps(950)),
            home: Some("/it's".into()),
            ..Options::default()
        };
        Machine { name: "n1".into(), options }
    }

    fn try_launch(l: &Launcher) -> Result<Started, LaunchError> {
        l.launch(&machine(), &AtomicBool::new(false))
    }

    #[test]
    fn what_a_shell_there_reads_is_what_was_meant() {
        let l = launcher(Way::ssh("ssh -p 2222", Duration::from_secs(7)), 1);
        let (program, args) = l.command(&machine());
        assert_eq!(program, "ssh");
        let args: Vec<&str> = args.iter().map(|a| a.to_str().unwrap()).collect();
        let options = ["-p", "2222", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", "eve@n1"];
        assert_eq!(args[..7], options);
        let script = format!("printf '%s\\n' {}", args[7]);
        let out = shell_output(Command::new("sh").args(["-c", &script]));
        let wanted = [
            "env",
            "TOWPATH_HOME=/it's",
            "/opt/a b/towpath",
            "--vm",
            "default",
            "join",
            "-",
            "--json",
            "--name",
            "n1",
            "--lost-after-ms",
            "2000",
            "--slots",
            "3",
            "--link-rate",
            "950000000",
        ];
        assert_eq!(out.lines().collect::<Vec<_>>(), wanted);
    }

    fn shell_output(command: &mut Command) -> String {
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn srun_is_given_words_and_told_to_stay() {
        let l = launcher(Way::srun("srun"), 1);
        let (program, args) = l.command(&machine());
        assert_eq!(program, "srun");
        assert!(args.contains(&"--nodelist=n1".into()) && args.contains(&"--overlap".into()));
        assert_eq!(args.last(), Some(&"--foreground".into()));
    }

    #[test]
    fn an_answer_counts_among_a_login_shells_greetings_and_the_token_came() {
        let script = "read t; echo hello; \
            printf '{\"vm\":\"v\",\"hosts\":[{\"host\":\"h2.2\",\"name\":\"n1\",'; \
            echo '\"addr\":\"127.0.0.1:7\",\"pid\":5}]}'; \
            echo bye; [ \"$t\" = tow1-x ]";
        let started = try_launch(&scripted(script, 10_000)).unwrap();
        assert_eq!((started.host.as_str(), started.pid), ("h2.2", 5));
    }

    #[test]
    fn a_failure_tells_what_was_said_there() {
        let failed = try_launch(&scripted("echo 'error: no token' >&2; exit 255", 10_000));
        assert_eq!(failed.unwrap_err().to_string(), "no token");
        let missing = try_launch(&scripted("exit 127", 10_000)).unwrap_err().to_string();
        assert!(missing.contains("towpath=PATH"), "{missing}");
    }

    #[test]
    fn one_that_hangs_is_given_up_with_everything_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script =
            format!("tail -f /dev/null & echo $! > {0}.n; mv {0}.n {0}; wait", file.display());
        let hung = try_launch(&scripted(&script, 700)).unwrap_err();
        assert!(matches!(hung, LaunchError::Time { .. }), "{hung}");
        let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        // What is killed needs a moment to end.
        if let Ok(tail) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
            let wait = Timespec { tv_sec: 15, tv_nsec: 0 };
            let ended = poll(&mut [PollFd::new(&tail, PollFlags::IN)], Some(&wait)).unwrap();
            assert_eq!(ended, 1, "{pid} still runs");
        }
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let l = scripted("tail -f /dev/null", 60_000);
        let stopped = l.launch(&machine(), &AtomicBool::new(true));
        assert!(matches!(stopped, Err(LaunchError::Interrupted)));
    }
}
