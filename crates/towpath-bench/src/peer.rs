//! The serving process: the far end of each measurement, as the coordinator asks for it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::side::Side;
use super::talk::{self, Done, Ready, Serve, Talk};
use super::{floor, machine, ours, udp_train};

/// Says where it listens, serves one coordinator and ends.
pub(super) fn listen(addr: SocketAddr, pin: Option<usize>, child: bool) -> anyhow::Result<()> {
    if child {
        let signal = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(signal)?;
    }
    if let Some(processor) = pin {
        machine::pin(processor)?;
    }
    let listener = TcpListener::bind(addr).with_context(|| format!("cannot listen at {addr}"))?;
    putln!("listening at {}", listener.local_addr()?)?;
    let (stream, _) = listener.accept()?;
    drop(listener);
    let mut talk = talk::over(stream)?;
    let mut near = talk.stream().local_addr()?;
    near.set_port(0);
    while let Some(what) = talk.hear()? {
        let done = serve(what, near, &mut talk)?;
        talk.say(&done)?;
    }
    Ok(())
}

fn ready(talk: &mut Talk, addr: SocketAddr, key: Option<[u8; 32]>) -> anyhow::Result<()> {
    talk.say(&Ready { port: addr.port(), key })
}

fn serve(what: Serve, near: SocketAddr, talk: &mut Talk) -> anyhow::Result<Done> {
    match what {
        Serve::Association { .. } => {
            let side = Side::new(near, what)?;
            ready(talk, side.addr()?, Some(side.key()))?;
            ours::serve(side)
        }
        Serve::UdpSink | Serve::UdpEcho { .. } => {
            let socket = floor::udp(near)?;
            ready(talk, socket.local_addr()?, None)?;
            match what {
                Serve::UdpEcho { poll } => floor::udp_echo(&socket, poll),
                _ => floor::udp_sink(&socket),
            }
        }
        Serve::UdpTrains => {
            let link = udp_train::link(near)?;
            ready(talk, link.local_addr()?, None)?;
            udp_train::sink(link)
        }
        Serve::TcpSink | Serve::TcpEcho { .. } => {
            let listener = TcpListener::bind(near)?;
            ready(talk, listener.local_addr()?, None)?;
            let stream = floor::tcp_accept(&listener)?;
            match what {
                Serve::TcpEcho { poll } => floor::tcp_echo(&stream, poll),
                _ => floor::tcp_sink(&stream),
            }
        }
        Serve::Iperf => iperf(near, talk),
    }
}

fn iperf(near: SocketAddr, talk: &mut Talk) -> anyhow::Result<Done> {
    // A port that was free a moment ago; iperf3 cannot be handed a socket.
    let addr = TcpListener::bind(near)?.local_addr()?;
    let (ip, port) = (addr.ip().to_string(), addr.port().to_string());
    let server = Command::new("iperf3")
        .args(["--server", "--one-off", "--bind", &ip, "--port", &port])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    ready(talk, addr, None)?;
    server.context("cannot run iperf3")?.wait()?;
    Ok(Done::default())
}
