//! Two network namespaces without names, with a virtual Ethernet between them: they are gone when
//! the two processes in them are, however those end.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail};

/// The peer's address.
pub(super) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 77, 2));

/// The coordinator's address towards the relay.
pub(super) const RELAY_NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 78, 1));
/// The relay's address towards the coordinator.
pub(super) const RELAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 78, 2));
/// The peer's address towards the relay.
pub(super) const RELAY_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 79, 2));

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

/// Joins this process's namespace and that of process `peer`.
pub(super) fn join(peer: u32) -> anyhow::Result<()> {
    let there = format!("nsenter --target {peer} --net");
    run("ip link set lo up")?;
    run(&format!("ip link add tp0 type veth peer name tp0 netns {peer}"))?;
    run("ip addr add 10.213.77.1/24 dev tp0")?;
    run("ip link set tp0 up")?;
    run(&format!("{there} ip addr add 10.213.77.2/24 dev tp0"))?;
    run(&format!("{there} ip link set tp0 up"))
}

/// Puts the namespace of process `relay` between this one's and that of process `peer`, in place
/// of any that was there before.
pub(super) fn relay(relay: u32, peer: u32) -> anyhow::Result<()> {
    let middle = format!("nsenter --target {relay} --net");
    let there = format!("nsenter --target {peer} --net");
    // Virtual Ethernets go with the namespace of the relay before, but only in a while.
    let _ = run("ip link del tp1");
    let _ = run(&format!("{there} ip link del tp2"));
    run(&format!("ip link add tp1 type veth peer name tp1 netns {relay}"))?;
    run(&format!("{middle} ip link add tp2 type veth peer name tp2 netns {peer}"))?;
    run("ip addr add 10.213.78.1/24 dev tp1")?;
    run("ip link set tp1 up")?;
    run(&format!("{middle} ip addr add 10.213.78.2/24 dev tp1"))?;
    run(&format!("{middle} ip link set tp1 up"))?;
    run(&format!("{middle} ip addr add 10.213.79.1/24 dev tp2"))?;
    run(&format!("{middle} ip link set tp2 up"))?;
    run(&format!("{there} ip addr add 10.213.79.2/24 dev tp2"))?;
    run(&format!("{there} ip link set tp2 up"))
}

fn run(line: &str) -> anyhow::Result<()> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let out = Command::new(program).args(words).output();
    let out = out.with_context(|| format!("cannot run `{program}`"))?;
    if !out.status.success() {
        bail!("`{line}`: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
