//! Two hosts on this machine: network namespaces with a virtual Ethernet between them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Hosts `a` and `b`, gone when dropped. `a` knows of a third, `nowhere`, that never answers: the
/// way to it leads to `b`, which passes nothing on.
pub(crate) struct Net {
    prefix: String,
    enter: PathBuf,
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

impl Net {
    /// Puts what it needs into a folder. `None`: there can be no namespaces here (it takes root).
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        let prefix = format!("tp{}", std::process::id());
        let net = Self { prefix, enter: folder.join("enter") };
        let made = Command::new("sh").args(["-c", &net.filled(MAKE)]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            return None;
        }
        let hosts = "127.0.0.1 localhost\n10.213.78.1 a\n10.213.78.2 b\n10.213.79.1 nowhere\n";
        std::fs::write(folder.join("hosts"), hosts).expect("a file");
        let script = net.filled(ENTER).replace("FOLDER", &folder.display().to_string());
        write_script(&net.enter, &script);
        Some(net)
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
        let line = self.filled("ip netns del PREFIX-a; ip netns del PREFIX-b");
        // One that could not be made is not there.
        let _ = Command::new("sh").args(["-c", &line]).output();
    }
}

/// Writes a script that can be run.
pub(crate) fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("a file");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("a file of ours");
}
