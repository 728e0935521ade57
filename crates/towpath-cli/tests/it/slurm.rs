//! Hosts started in a job of a real Slurm: three nodes on this machine, with a controller, keys and
//! ports of their own. Skipped loudly where `slurmctld`, `slurmd` or `munged` is not there.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::support::{PROMPT, Vm, text};
use towpath_skip::skip;

/// What runs until the test ends.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            let _ = Command::new("kill").args(["--", &format!("-{}", child.id())]).status();
            let _ = child.wait();
        }
    }
}

fn start(command: &mut Command) -> Child {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn slurm(vm: &Vm, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env("SLURM_CONF", vm.file("slurm.conf")).current_dir(vm.dir.path());
    command.env("TOWPATH_HOME", vm.dir.path()).stdin(Stdio::null()).output().unwrap()
}

fn config(vm: &Vm) {
    let dir = vm.dir.path().display();
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // All at once, so that no two are the same.
    let ports: Vec<_> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = ports.iter().map(|p| p.local_addr().unwrap().port()).collect();
    let mut lines = format!(
        "ClusterName=towpath\nSlurmctldHost={node}(127.0.0.1)\nSlurmUser=root\n\
         AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={dir}/munge.sock\n\
         StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/%n\n\
         SlurmctldPidFile={dir}/ctl.pid\nSlurmdPidFile={dir}/%n.pid\n\
         SlurmctldLogFile={dir}/ctl.log\nSlurmdLogFile={dir}/%n.log\n\
         SlurmctldPort={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nMpiDefault=none\n",
        ports[0]
    );
    for (at, port) in ports[1..].iter().enumerate() {
        let line =
            format!("NodeName=s{} NodeAddr=127.0.0.1 NodeHostname={node} Port={port}", at + 1);
        lines.push_str(&line);
        lines.push_str(" CPUs=2 State=UNKNOWN\n");
    }
    lines.push_str("PartitionName=p Nodes=ALL Default=YES State=UP\n");
    std::fs::write(vm.file("slurm.conf"), lines).unwrap();
    for name in ["state", "s1", "s2", "s3"] {
        std::fs::create_dir(vm.file(name)).unwrap();
    }
    std::fs::write(vm.file("munge.key"), [7; 64]).unwrap();
    std::fs::set_permissions(vm.file("munge.key"), PermissionsExt::from_mode(0o600)).unwrap();
    // Munge's clients must be able to reach its socket.
    std::fs::set_permissions(vm.dir.path(), PermissionsExt::from_mode(0o711)).unwrap();
}

/// A cluster of the nodes s1, s2 and s3; nothing where there is none to be had.
fn cluster(vm: &Vm) -> Option<Running> {
    let there = |name: &str| {
        Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap().status
    };
    let all = ["munged", "slurmctld", "slurmd", "srun", "sbatch"];
    if !all.iter().all(|name| there(name).success()) || !rustix::process::geteuid().is_root() {
        return None;
    }
    config(vm);
    let file = |name: &str| vm.file(name).to_str().unwrap().to_string();
    let mut munge = Command::new("munged");
    munge.args(["--foreground", "--force", "--key-file", &file("munge.key")]);
    munge.args(["--socket", &file("munge.sock"), "--pid-file", &file("munge.pid")]);
    munge.args(["--seed-file", &file("munge.seed"), "--log-file", &file("munge.log")]);
    let mut running = Running(vec![start(&mut munge)]);
    wait(vm, "munge", &|| vm.file("munge.sock").exists());
    let conf = file("slurm.conf");
    running.0.push(start(Command::new("slurmctld").args(["-D", "-f", &conf])));
    for node in ["s1", "s2", "s3"] {
        running.0.push(start(Command::new("slurmd").args(["-D", "-f", &conf, "-N", node])));
    }
    let ready = || text(&slurm(vm, "sinfo", &["-h", "-t", "idle", "-o", "%D"]).stdout);
    wait(vm, "three nodes", &|| ready().trim() == "3");
    Some(running)
}

fn wait(vm: &Vm, what: &str, is_there: &dyn Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        let log = || std::fs::read_to_string(vm.file("ctl.log")).unwrap_or_default();
        assert!(begun.elapsed() < 2 * PROMPT, "no {what}: {}", log());
        std::thread::yield_now();
    }
}

#[test]
fn a_job_of_a_real_slurm_has_a_host_for_each_node() {
    let vm = Vm::new();
    let Some(_cluster) = cluster(&vm) else {
        return skip("no Slurm (Debian: munge, slurmctld, slurmd, slurm-client; needs root)");
    };
    let program = env!("CARGO_BIN_EXE_towpath");
    let script = format!(
        "#!/bin/sh\n{program} up --listen 127.0.0.1:0 2>&1 || exit 1\n\
         {program} hosts\n\
         {program} run -n 6 --no-tag -- sh -c 'echo task on $SLURMD_NODENAME'\n\
         {program} down\n"
    );
    std::fs::write(vm.file("job.sh"), script).unwrap();
    let args = ["-W", "-N3", "--ntasks-per-node=2", "-o", "job.out", "job.sh"];
    let out = slurm(&vm, "sbatch", &args);
    let file = std::fs::File::open(vm.file("job.out")).unwrap();
    let said: Vec<String> = BufReader::new(file).lines().map(Result::unwrap).collect();
    let whole = said.join("\n");
    assert!(out.status.success(), "{whole}{}", text(&out.stderr));
    for node in ["s1", "s2", "s3"] {
        let tasks = said.iter().filter(|line| **line == format!("task on {node}")).count();
        assert_eq!(tasks, 2, "{whole}");
        assert!(said.iter().any(|l| l.contains(node) && l.contains(" up")), "{whole}");
    }
    assert!(said.last().unwrap().ends_with("3 hosts down"), "{whole}");
}
