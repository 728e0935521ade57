//! A virtual machine of PVM and one of Towpath, on the same hosts at the same time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::net::{Net, write_script};
use crate::support::{self, pvm};

/// Whose library the program meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    Pvm,
    Towpath,
}

/// Both machines, ended when dropped.
pub(crate) struct Machines {
    pub(crate) hosts: u32,
    folder: tempfile::TempDir,
    net: Option<Net>,
    towpath: PathBuf,
    program: PathBuf,
}

/// Names of hosts.
pub(crate) const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

/// Descriptors that daemons and tasks may have: PVM closes as many for each task it spawns.
const DESCRIPTORS: &str = "ulimit -n 20000; exec \"$@\"";
/// Longest time of a run, in seconds.
const LIMIT: &str = "300";

impl Machines {
    /// `None`: something is not there that this needs.
    pub(crate) fn new(hosts: u32) -> Option<Self> {
        let towpath = support::towpath();
        let folder = tempfile::Builder::new().prefix("tp").tempdir().expect("a folder");
        let names = &HOSTS[..hosts as usize];
        let net = match names {
            [_] => None,
            [_, _] => Net::new(folder.path()),
            names => Net::switched(folder.path(), names),
        };
        if hosts > 1 && net.is_none() {
            towpath_skip::skip(&format!("no network namespaces: {hosts} hosts were not measured"));
            return None;
        }
        let program = folder.path().join("speed");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/beside_pvm/speed.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(&program).arg(source).args(["-lgpvm3", "-lpvm3"]);
        assert!(cc.status().expect("a C compiler").success());
        support::install(&folder.path().join("ours"));
        let machines = Self { hosts, folder, net, towpath, program };
        machines.start_pvm();
        machines.start_towpath();
        Some(machines)
    }

    /// A program on the first host.
    fn command(&self, system: System, program: &Path) -> Command {
        let shell = Path::new("sh");
        let mut command = match &self.net {
            None => Command::new(shell),
            Some(net) => net.on("a", shell),
        };
        let folder = self.folder.path();
        pvm::set_environment(&mut command, &folder.join("a"));
        command.env("PVM_RSH", folder.join("rsh")).env("TOWPATH_HOME", folder.join("home-a"));
        command.env_remove("TOWPATH_VM");
        if system == System::Towpath {
            command.env("LD_LIBRARY_PATH", folder.join("ours/lib/towpath"));
        }
        command.args(["-c", DESCRIPTORS, "sh"]).arg(program);
        command
    }

    /// Runs the benchmark's program, and gives what it printed.
    pub(crate) fn run(&self, system: System, args: &[&str]) -> String {
        let mut command = self.command(system, Path::new("timeout"));
        command.arg(LIMIT).arg(&self.program).args(args).stdin(Stdio::null());
        let output = command.output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{system:?} {args:?}: {text}{errors}");
        text
    }

    fn start_pvm(&self) {
        let folder = self.folder.path();
        let mut hosts = format!("* ep=/usr/bin wd={}\n", folder.display());
        if let Some(net) = &self.net {
            hosts += &(HOSTS[..self.hosts as usize].join("\n") + "\n");
            let script = "#!/bin/sh\nhost=$1\nshift\n[ \"$1\" = -l ] && shift 2\n\
                exec env PVM_TMP=FOLDER/$host ENTER \"$host\" sh -c \"$*\"\n";
            let script = script
                .replace("FOLDER", &folder.display().to_string())
                .replace("ENTER", &net.enter().display().to_string());
            write_script(&folder.join("rsh"), &script);
        }
        std::fs::write(folder.join("hostfile"), hosts).expect("a file");
        for host in HOSTS {
            std::fs::create_dir_all(folder.join(host)).expect("a folder");
        }
        let text = self.console(&[&folder.join("hostfile").display().to_string()], "conf\nquit\n");
        let there = format!("{} host", self.hosts);
        assert!(text.contains(&there), "PVM has not {there}s: {text}");
    }

    fn console(&self, args: &[&str], input: &str) -> String {
        use std::io::Write;
        let mut command = self.command(System::Pvm, Path::new("timeout"));
        command.args(["30", "/usr/bin/pvm"]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a shell");
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("its end");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn start_towpath(&self) {
        let folder = self.folder.path();
        let mut command = self.command(System::Towpath, &self.towpath);
        command.arg("up");
        if let Some(net) = &self.net {
            let script = "#!/bin/sh\nhost=$1\nshift\n\
                exec env TOWPATH_HOME=FOLDER/home-$host ENTER \"$host\" sh -c \"$*\"\n";
            let script = script
                .replace("FOLDER", &folder.display().to_string())
                .replace("ENTER", &net.enter().display().to_string());
            write_script(&folder.join("reach"), &script);
            std::fs::write(folder.join("list"), HOSTS[1..self.hosts as usize].join("\n") + "\n")
                .expect("a file");
            command.arg("--hostfile").arg(folder.join("list"));
            command.arg("--ssh").arg(folder.join("reach")).arg("--towpath").arg(&self.towpath);
        }
        let output = command.output().expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.console(&[], "halt\n");
        let _ = self.command(System::Towpath, &self.towpath).arg("down").output();
    }
}
