//! The far end of a measurement, from the coordinator: a peer that was found, or one of our own.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::args::Pins;
use super::netns;
use super::talk::{self, Done, Ready, Serve, Talk};

/// Every address of a namespace that is ours alone.
pub(super) const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The peer, with its process where it is ours.
pub(super) struct Far {
    talk: Talk,
    /// Our own address towards it, port 0.
    pub(super) near: SocketAddr,
    pub(super) ip: IpAddr,
    process: Option<Process>,
}

/// A child that ends with its owner at the latest.
pub(super) struct Process(Child);

impl Process {
    /// Starts `command`, which says where it listens.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<(Self, SocketAddr)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = Self(child.context("cannot start the peer")?);
        let out = process.0.stdout.take().context("the peer's output is piped")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let addr = line.trim().strip_prefix("listening at ").context("the peer did not start")?;
        Ok((process, addr.parse()?))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Far {
    pub(super) fn reach(addr: SocketAddr, process: Option<Process>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5));
        let stream = stream.with_context(|| format!("no listener at {addr}"))?;
        let mut near = stream.local_addr()?;
        near.set_port(0);
        Ok(Self { talk: talk::over(stream)?, near, ip: addr.ip(), process })
    }

    /// Starts a peer, listening at `bind`, by a command that takes another as its arguments;
    /// `join` makes it reachable and says where.
    pub(super) fn launch(
        mut command: Command,
        pins: Pins,
        bind: IpAddr,
        join: impl FnOnce(u32) -> anyhow::Result<IpAddr>,
    ) -> anyhow::Result<Self> {
        let pin = match pins {
            Pins(Some((a, b))) => format!("{a},{b}"),
            Pins(None) => "none".to_string(),
        };
        command.arg(std::env::current_exe()?);
        command.args(["bench", "link", "--child", "--pin", &pin, "--listen"]);
        command.arg(SocketAddr::new(bind, 0).to_string());
        let (child, mut addr) = Process::start(&mut command)?;
        addr.set_ip(join(child.id())?);
        Self::reach(addr, Some(child))
    }

    /// Starts a peer; `inside`: we are in a namespace, and it gets one of its own.
    pub(super) fn start(inside: bool, pins: Pins) -> anyhow::Result<Self> {
        if !inside {
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            return Self::launch(Command::new("env"), pins, here, |_| Ok(here));
        }
        Self::launch(netns::second(), pins, ANY, |pid| {
            netns::join(pid)?;
            Ok(netns::PEER)
        })
    }

    /// Our peer's process.
    pub(super) fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Asks for the far end of a measurement.
    pub(super) fn serve(&mut self, what: Serve) -> anyhow::Result<(SocketAddr, Ready)> {
        self.talk.say(&what)?;
        let ready: Ready = self.talk.hear()?.context("the peer has ended")?;
        Ok((SocketAddr::new(self.ip, ready.port), ready))
    }

    pub(super) fn done(&mut self) -> anyhow::Result<Done> {
        self.talk.hear()?.context("the peer has ended")
    }
}
