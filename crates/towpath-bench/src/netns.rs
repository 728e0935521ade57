//! Two network namespaces without names, with a virtual Ethernet between them: they are gone when
//! the two processes in them are, however those end.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail};

use crate::tun::{Layer, TunDevice};

/// The peer's address.
pub(super) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 77, 2));

/// Starts this command anew in the first namespace; comes back only when it cannot.
pub(super) fn enter() -> anyhow::Error {
    let exec = || -> anyhow::Result<Command> {
        let mut c = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            c.arg("--map-root-user");
        }
        c.arg("--net").arg("--").arg(std::env::current_exe()?);
        c.args(std::env::args_os().skip(1).filter(|a| a != "--netns")).arg("--inside");
        Ok(c)
    };
    match exec() {
        Ok(mut command) => anyhow::Error::new(command.exec()).context("cannot run `unshare`"),
        Err(e) => e,
    }
}

/// The start of a command that runs in the second namespace.
pub(super) fn second() -> Command {
    let mut c = Command::new("unshare");
    c.args(["--net", "--"]);
    c
}

/// The first words of a command that runs beside process `peer`.
pub(super) fn enter_beside(peer: u32) -> String {
    format!("nsenter --target {peer} --net --")
}

/// The start of a command that runs beside process `peer`.
pub(super) fn beside(peer: u32) -> Command {
    let words = enter_beside(peer);
    let mut words = words.split(' ');
    let mut c = Command::new(words.next().unwrap_or_default());
    c.args(words);
    c
}

/// Joins this process's namespace and that of process `peer` by what passes packets between the
/// devices returned: this namespace's first.
pub(super) fn join_by_tun(peer: u32) -> anyhow::Result<[TunDevice; 2]> {
    let there = enter_beside(peer);
    let open = |name| {
        let hint = "hint: it takes root, or user namespaces and a /dev/net/tun that all may open";
        TunDevice::open(name, Layer::Ip)
            .with_context(|| format!("cannot make a TUN device\n{hint}"))
    };
    let devices = [open("tp0")?, open("tp1")?];
    run("ip link set lo up")?;
    run(&format!("ip link set tp1 netns {peer}"))?;
    run("ip addr add 10.213.77.1/24 dev tp0")?;
    run("ip link set tp0 mtu 1500 txqueuelen 10000 up")?;
    run(&format!("{there} ip addr add 10.213.77.2/24 dev tp1"))?;
    run(&format!("{there} ip link set tp1 mtu 1500 txqueuelen 10000 up"))?;
    Ok(devices)
}

/// Joins this process's namespace and that of process `peer`.
pub(super) fn join(peer: u32) -> anyhow::Result<()> {
    let there = enter_beside(peer);
    run("ip link set lo up")?;
    run(&format!("ip link add tp0 type veth peer name tp0 netns {peer}"))?;
    run("ip addr add 10.213.77.1/24 dev tp0")?;
    run("ip link set tp0 up")?;
    run(&format!("{there} ip addr add 10.213.77.2/24 dev tp0"))?;
    run(&format!("{there} ip link set tp0 up"))
}

/// Runs a command of words.
pub(super) fn run(line: &str) -> anyhow::Result<()> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let out = Command::new(program).args(words).output();
    let out = out.with_context(|| format!("cannot run `{program}`"))?;
    if !out.status.success() {
        bail!("`{line}`: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
