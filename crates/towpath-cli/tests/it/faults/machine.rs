//! A machine of a cell: a namespace with a home and a daemon of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use towpath::{Client, Home};

use super::namespaces::{Net, number};
use super::work::{Checked, Ended, Work, until};
use crate::support::Vm;

/// What takes longer than this is no prompt answer, not even on a machine that runs several cells.
pub(super) const PROMPT: Duration = Duration::from_secs(30);

pub(super) struct Machine {
    /// Its letter.
    pub(super) name: &'static str,
    namespace: String,
    /// What its commands run in; `home` is in it.
    pub(super) folder: PathBuf,
    /// Its home is a small disk of its own, which can be filled.
    small_disk: bool,
}

impl Machine {
    pub(super) fn new(
        net: &Net,
        name: &'static str,
        all: &Path,
        small_disk: bool,
    ) -> Checked<Self> {
        let folder = all.join(name);
        std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let machine = Self { name, namespace: net.name(name), folder, small_disk };
        std::fs::create_dir(machine.home()).map_err(|e| format!("a home: {e}"))?;
        if small_disk {
            let home = machine.home();
            let args = ["-t", "tmpfs", "-o", "size=1m,mode=0700", "small"];
            let out = Command::new("mount").args(args).arg(home).output();
            let good = out.as_ref().is_ok_and(|out| out.status.success());
            good.then_some(()).ok_or_else(|| format!("a small disk: {out:?}"))?;
        }
        Ok(machine)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// By how many seconds its wall clock is wrong.
    pub(super) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// The `towpath` command on it.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, env!("CARGO_BIN_EXE_towpath")]).args(args);
        command.env("TOWPATH_HOME", self.home()).env_remove("TOWPATH_VM");
        command.env("TOWPATH_CLOCK_WRONG_BY", self.clock()).current_dir(&self.folder);
        command
    }

    /// Runs it to its end.
    pub(super) fn run(&self, args: &[&str]) -> Checked<Ended> {
        Work::start("towpath", &mut self.command(args))?.end(PROMPT)
    }

    /// The same; it must end well.
    pub(super) fn ok(&self, args: &[&str]) -> Checked<Ended> {
        let ended = self.run(args)?;
        match ended.code {
            Some(0) => Ok(ended),
            code => Err(format!("towpath {args:?} on {}: {code:?}: {}", self.name, ended.said)),
        }
    }

    /// Starts the founder's daemon, again as well as for the first time.
    pub(super) fn up(&self, voters: usize) -> Checked<()> {
        let listen = format!("10.213.80.{}:7077", number(self.name));
        let args = ["up", "--listen", &listen, "--slots", "2", "--voters", &voters.to_string()];
        self.ok(&args).map(|_| ())
    }

    /// Its daemon is one of so many that keep the log, and has it on its disk.
    pub(super) fn keeps_log_with(&self, count: usize) -> Checked<()> {
        let voters = self.client()?.info().map_err(|e| e.to_string())?.voters.len();
        let dir = self.dir()?;
        let written = ["table", "control/log"].iter().all(|name| dir.join(name).exists());
        let ready = voters == count && written;
        ready.then_some(()).ok_or(format!("{}: {voters} voters of {count}", self.name))
    }

    /// Its daemon leads; false where none runs.
    pub(super) fn leads(&self) -> bool {
        let info = self.client().and_then(|mut client| client.info().map_err(|e| e.to_string()));
        info.is_ok_and(|info| info.me.is_some() && info.me == info.leader)
    }

    /// Its daemon's directory.
    fn dir(&self) -> Checked<PathBuf> {
        Ok(Home::at(self.home()).vm("default").map_err(|e| e.to_string())?.host(1))
    }

    fn client(&self) -> Checked<Client> {
        Client::connect(&self.dir()?.join("sock")).map_err(|e| e.to_string())
    }

    /// Starts a daemon that joins.
    pub(super) fn join(&self, token: &str) -> Checked<()> {
        self.ok(&["join", token.trim(), "--slots", "2", "--name", self.name]).map(|_| ())
    }

    /// A token, given out here.
    pub(super) fn token(&self, args: &[&str]) -> Checked<String> {
        let ended = self.ok(&[&["token"], args].concat())?;
        ended.out.first().cloned().ok_or_else(|| "no token is printed".into())
    }

    /// The processes of its daemon: engine and guard.
    pub(super) fn daemon(&self) -> Checked<[u32; 2]> {
        let engine = self.client()?.info().map_err(|e| e.to_string())?.pid;
        let stat = std::fs::read_to_string(format!("/proc/{engine}/stat"));
        let stat = stat.map_err(|e| e.to_string())?;
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        let guard = parent.and_then(|pid| pid.parse().ok()).ok_or("no guard")?;
        Ok([engine, guard])
    }

    /// Hosts that are up or lost, as this machine's daemon tells it, by number and by name: `h3
    /// lost`, `c lost`; `frozen` where there is no leader.
    pub(super) fn hosts(&self) -> Checked<Vec<String>> {
        let ended = self.ok(&["hosts", "--json"])?;
        let told: serde_json::Value =
            serde_json::from_str(&ended.out.concat()).map_err(|e| e.to_string())?;
        let mut states = Vec::new();
        if told["frozen"] == true {
            states.push("frozen".to_owned());
        }
        for host in told["hosts"].as_array().ok_or("no hosts")? {
            let state = host["state"].as_str().unwrap_or_default();
            states.push(format!("h{} {state}", host["slot"]));
            states.push(format!("{} {state}", host["name"].as_str().unwrap_or_default()));
        }
        Ok(states)
    }

    /// Takes its disk's last byte, or gives back what was taken.
    pub(super) fn fill(&self, full: bool) -> Checked<()> {
        let path = self.home().join("filling");
        if !full {
            return std::fs::remove_file(path).map_err(|e| e.to_string());
        }
        assert!(self.small_disk);
        let mut file = std::fs::File::create(path).map_err(|e| e.to_string())?;
        while std::io::Write::write(&mut file, &[1; 512]).is_ok() {}
        Ok(())
    }

    /// Lets nothing be made or replaced in its home any more: a disk is not made read-only while
    /// files are open on it that are written.
    pub(super) fn read_only(&self, on: bool) -> Checked<()> {
        let home = self.home();
        let mut command = Command::new("find");
        command.arg(&home).args(["-type", "d", "-exec", "chattr"]);
        let out = command.args([if on { "+i" } else { "-i" }, "{}", "+"]).output();
        let good = out.as_ref().is_ok_and(|out| out.status.success());
        good.then_some(()).ok_or_else(|| format!("chattr: {out:?}"))
    }

    /// Ends its daemon; nothing of it may be left.
    pub(super) fn down(&self, net: &Net) -> Checked<()> {
        self.ok(&["down"])?;
        until(PROMPT, || {
            let left = net.processes(self.name);
            let line =
                |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let lines =
                left.iter().map(|pid| String::from_utf8_lossy(&line(pid)).replace('\0', " "));
            let lines: Vec<String> = lines.collect();
            lines.is_empty().then_some(()).ok_or(format!("left on {}: {lines:?}", self.name))
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What a cell that failed has left is ended by `down`; in vain where all is well.
        let _ = Work::start("towpath", &mut self.command(&["down"])).map(|mut w| w.end(PROMPT));
        if self.small_disk {
            let _ = Command::new("umount").arg("--lazy").arg(self.home()).output();
        }
    }
}

/// Sends a signal to a process.
pub(super) fn signal(pid: u32, signal: &str) {
    Vm::signal(pid, signal);
}
