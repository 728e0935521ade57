//! Two hosts on this machine: network namespaces with a virtual Ethernet between them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hosts `a` and `b`, gone when dropped. `a` knows of a third, `nowhere`, that never answers: the
/// way to it leads to `b`, which passes nothing on.
pub(crate) struct Net {
    prefix: String,
    enter: PathBuf,
    hosts: Vec<String>,
}

/// A script that runs what follows a host's name on that host. Namespaces have no names of hosts
/// and no hosts file of their own: it gives them both.
const ENTER: &str = r#"#!/bin/sh
host=$1
shift
exec nsenter --net=/run/netns/PREFIX-$host unshare --mount --uts sh -c \
    'mount --bind FOLDER/hosts /etc/hosts; hostname "$0"; exec "$@"' "$host" "$@"
"#;

const MAKE: &str = "ip netns add PREFIX-a && ip netns add PREFIX-b &&
    ip link add dev eth0 netns PREFIX-a type veth peer name eth0 netns PREFIX-b &&
    ip -n PREFIX-a addr add 10.213.78.1/24 dev eth0 &&
    ip -n PREFIX-b addr add 10.213.78.2/24 dev eth0 &&
    for host in a b; do
        ip -n PREFIX-$host link set dev lo up && ip -n PREFIX-$host link set dev eth0 up || exit
    done
    ip -n PREFIX-a route add 10.213.79.0/24 via 10.213.78.2";

/// Hosts at one switch.
const SWITCH: &str = "ip netns add PREFIX-switch &&
    ip -n PREFIX-switch link add dev br0 type bridge && ip -n PREFIX-switch link set dev br0 up";
const PLUG_IN: &str = "ip netns add PREFIX-HOST &&
    ip link add dev eth0 netns PREFIX-HOST type veth peer name HOST netns PREFIX-switch &&
    ip -n PREFIX-HOST addr add 10.213.78.NUMBER/24 dev eth0 &&
    ip -n PREFIX-switch link set dev HOST master br0 up &&
    ip -n PREFIX-HOST link set dev lo up && ip -n PREFIX-HOST link set dev eth0 up";

impl Net {
    /// Hosts of these names at one switch. `None`: there can be no namespaces here.
    pub(crate) fn switched(folder: &Path, hosts: &[&str]) -> Option<Self> {
        let prefix = format!("tp{}", std::process::id());
        let names = hosts.iter().map(|host| (*host).to_owned()).chain(["switch".to_owned()]);
        let net = Self { prefix, enter: folder.join("enter"), hosts: names.collect() };
        let (mut lines, mut known) = (vec![SWITCH.to_owned()], "127.0.0.1 localhost\n".to_owned());
        for (host, number) in hosts.iter().zip(1..) {
            let number: i32 = number;
            lines.push(PLUG_IN.replace("HOST", host).replace("NUMBER", &number.to_string()));
            let _ = writeln!(known, "10.213.78.{number} {host}");
        }
        net.made(folder, &lines.join(" && "), &known).then_some(net)
    }

    /// Makes it; false: there can be none.
    fn made(&self, folder: &Path, lines: &str, known: &str) -> bool {
        let made = Command::new("sh").args(["-c", &self.filled(lines)]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            return false;
        }
        std::fs::write(folder.join("hosts"), known).expect("a file");
        let script = self.filled(ENTER).replace("FOLDER", &folder.display().to_string());
        write_script(&self.enter, &script);
        true
    }

    /// Puts what it needs into a folder. `None`: there can be no namespaces here (it takes root).
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        let prefix = format!("tp{}", std::process::id());
        let hosts = ["a", "b"].map(str::to_owned).into();
        let net = Self { prefix, enter: folder.join("enter"), hosts };
        let known = "127.0.0.1 localhost\n10.213.78.1 a\n10.213.78.2 b\n10.213.79.1 nowhere\n";
        net.made(folder, MAKE, known).then_some(net)
    }

    fn filled(&self, script: &str) -> String {
        script.replace("PREFIX", &self.prefix)
    }

    /// Runs a program on a host.
    pub(crate) fn on(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new(&self.enter);
        command.arg(host).arg(program);
        command
    }

    /// The script that does.
    pub(crate) fn enter(&self) -> &Path {
        &self.enter
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in &self.hosts {
            // One that could not be made is not there.
            let _ = Command::new("ip")
                .args(["netns", "del", &format!("{}-{host}", self.prefix)])
                .output();
        }
    }
}

/// Writes a script that can be run.
pub(crate) fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("a file");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("a file of ours");
}
