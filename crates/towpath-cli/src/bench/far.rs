//! The far end of a measurement, from the coordinator: a peer that was found, or one of our own.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::args::Pins;
use super::netns;
use super::talk::{Done, Ready, Serve, Talk};

/// The peer, with its process where it is ours.
pub(super) struct Far {
    talk: Talk,
    /// Our own address towards it, port 0.
    pub(super) near: SocketAddr,
    pub(super) ip: IpAddr,
    process: Option<Process>,
}

/// A child that ends with its owner at the latest.
pub(super) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    /// Starts `command`, which says where it listens.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<(Self, SocketAddr)> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("cannot start the peer")?;
        let out = child.stdout.take().context("the peer's output is piped")?;
        let mut process = Self { child, out: BufReader::new(out) };
        let line = process.line()?;
        let addr = line.trim().strip_prefix("listening at ").context("the peer did not start")?;
        Ok((process, addr.parse()?))
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    pub(super) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        Ok(line)
    }

    /// Its input; dropping it tells it to end.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Far {
    pub(super) fn reach(addr: SocketAddr, process: Option<Process>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5));
        let stream = stream.with_context(|| format!("no listener at {addr}"))?;
        let mut near = stream.local_addr()?;
        near.set_port(0);
        Ok(Self { talk: Talk::new(stream)?, near, ip: addr.ip(), process })
    }

    /// Starts a peer; `inside`: we are in a namespace, and it gets one of its own.
    pub(super) fn start(inside: bool, pins: Pins) -> anyhow::Result<Self> {
        let exe = std::env::current_exe()?;
        let mut command = if inside {
            let mut c = netns::second();
            c.arg(exe);
            c
        } else {
            Command::new(exe)
        };
        let addr = if inside { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let pin = match pins {
            Pins(Some((a, b))) => format!("{a},{b}"),
            Pins(None) => "none".to_string(),
        };
        command.args(["bench", "link", "--child", "--listen", addr, "--pin", &pin]);
        let (child, mut addr) = Process::start(&mut command)?;
        if inside {
            netns::join(child.id())?;
            addr.set_ip(netns::PEER);
        }
        Self::reach(addr, Some(child))
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
