//! Hosts started over a real ssh: OpenSSH's server on loopback addresses, with keys of its own.
//! Skipped loudly where `sshd` is not there, or a mount namespace cannot be had.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Vm, text};
use serde_json::Value;
use towpath_skip::skip;

/// Where Debian, Fedora and others have the server.
const SSHD: [&str; 2] = ["/usr/sbin/sshd", "/usr/bin/sshd"];

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["--", &group]).status();
        let _ = self.0.wait();
    }
}

fn key(file: &Path) -> String {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(file)
        .stdin(Stdio::null())
        .status();
    assert!(status.is_ok_and(|s| s.success()));
    std::fs::read_to_string(file.with_extension("pub")).unwrap()
}

/// A server for `alpha` and `beta`, and `ssh.conf` that leads to it; nothing where none can run.
fn server(vm: &Vm) -> Option<Server> {
    let sshd = SSHD.iter().find(|path| Path::new(path).exists())?;
    let dir = vm.dir.path().display();
    let host_key = key(&vm.file("host"));
    let user_key = key(&vm.file("user"));
    std::fs::write(vm.file("authorized"), user_key).unwrap();
    let port = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    let known = format!("[127.0.0.2]:{port} {host_key}[127.0.0.3]:{port} {host_key}");
    std::fs::write(vm.file("known"), known).unwrap();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nListenAddress 127.0.0.4\n\
         HostKey {dir}/host\nAuthorizedKeysFile {dir}/authorized\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPidFile none\n"
    );
    std::fs::write(vm.file("sshd.conf"), config).unwrap();
    let config = format!(
        "Host *\nPort {port}\nIdentityFile {dir}/user\nIdentitiesOnly yes\n\
         UserKnownHostsFile {dir}/known\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n\
         Host alpha\nHostName 127.0.0.2\nHost beta\nHostName 127.0.0.3\n\
         Host stranger\nHostName 127.0.0.4\n"
    );
    std::fs::write(vm.file("ssh.conf"), config).unwrap();
    // The server wants a folder below /run: in a namespace of its own nobody else sees it.
    let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$@\"";
    let mut child = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh", sshd, "-D", "-e", "-f"])
        .arg(vm.file("sshd.conf"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .ok()?;
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let server = Server(child);
    let mut all = String::new();
    while all.matches("Server listening").count() < 3 {
        if said.read_line(&mut all).unwrap() == 0 {
            let _ = writeln!(std::io::stderr(), "{all}");
            return None;
        }
    }
    // Its further words go nowhere, but must not hold it up.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Some(server)
}

fn names<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value[key].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect()
}

#[test]
fn a_real_ssh_starts_hosts_and_names_the_one_it_does_not_trust() {
    let vm = Vm::new();
    let Some(_server) = server(&vm) else {
        return skip("no ssh server can run here (Debian: openssh-server; needs root)");
    };
    let program = env!("CARGO_BIN_EXE_towpath");
    let dir = vm.dir.path().display();
    let line = |name: &str, at| {
        format!("{name} addr=127.0.0.{at} slots=2 towpath={program} home={dir}/{name}\n")
    };
    let list = line("alpha", 2) + &line("beta", 3) + &line("stranger", 4);
    std::fs::write(vm.file("hosts"), list).unwrap();
    let ssh = format!("ssh -F {dir}/ssh.conf -o BatchMode=yes");
    let out = vm.towpath(&["up", "--hostfile", "hosts", "--ssh", &ssh, "--json"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    let up: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(names(&up, "hosts")[1..], ["alpha", "beta"], "{said}");
    assert_eq!(names(&up, "failed"), ["stranger"], "{said}");
    let why = up["failed"][0]["why"].as_str().unwrap();
    assert!(why.contains("Host key verification failed"), "{why}");

    let script = "echo on $TOWPATH_HOME; exec cat";
    let out = vm.with_input(&["run", "--host", "beta", "--", "sh", "-c", script], b"its input\n");
    assert_eq!(text(&out.stdout), format!("on {dir}/beta\nits input\n"), "{}", text(&out.stderr));

    let out = vm.towpath(&["down", "--json"]);
    let down: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&down["ended"], &down["deleted"]), (&1.into(), &2.into()));
}
