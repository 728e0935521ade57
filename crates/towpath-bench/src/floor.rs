//! What the kernel alone does: bare UDP and TCP, plainly written. Every function is one end.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;
use socket2::SockRef;

use super::machine::cpu_s;
use super::row::Flow;
use super::side::DATAGRAM;
use super::talk::Done;
use super::udp_train::credit_of;

/// A datagram that says: no more. Nothing else is as short.
pub(super) const END: [u8; 1] = [0];
/// Bytes that may be under way without credit.
pub(super) const WINDOW: u64 = 1 << 20;
/// The receiver tells how much it has every so many bytes.
pub(super) const CREDIT_EVERY: u64 = 1 << 17;
/// Whoever hears nothing for so long, ends.
const SILENCE: Duration = Duration::from_secs(2);
/// Bytes of a short message.
pub(super) const SHORT: usize = 16;
/// Round trips remembered at most.
pub(super) const TRIPS_MAX: usize = 1 << 22;

pub(super) fn udp(addr: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(addr).with_context(|| format!("cannot receive at {addr}"))?;
    // As much as an association's socket asks for; the kernel may give less.
    let _ = SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    let _ = SockRef::from(&socket).set_send_buffer_size(4 << 20);
    socket.set_read_timeout(Some(SILENCE))?;
    Ok(socket)
}

/// The next datagram: sleeps, or asks again and again; `None` after a long silence.
fn next(socket: &UdpSocket, poll: bool, buf: &mut [u8]) -> Option<usize> {
    if !poll {
        return socket.recv(buf).ok();
    }
    for spin in 1_u64.. {
        match socket.recv(buf) {
            Ok(n) => return Some(n),
            Err(e) if e.kind() != ErrorKind::WouldBlock => return None,
            // Some 20 million fruitless calls take longer than anyone is silent.
            Err(_) if spin > 20_000_000 => return None,
            Err(_) => std::hint::spin_loop(),
        }
    }
    None
}

/// Waits for the first datagram and talks only to its sender from then on.
fn meet(socket: &UdpSocket, buf: &mut [u8]) -> anyhow::Result<usize> {
    let (n, remote) = socket.recv_from(buf).context("the other end sends nothing")?;
    socket.connect(remote)?;
    Ok(n)
}

pub(super) fn udp_sink(socket: &UdpSocket) -> anyhow::Result<Done> {
    let mut buf = [0; 2048];
    let cpu = cpu_s();
    let (mut bytes, mut told, mut calls) = (meet(socket, &mut buf)? as u64, 0, 1);
    while let Some(n) = next(socket, false, &mut buf) {
        calls += 1;
        if n == END.len() {
            break;
        }
        bytes += n as u64;
        if bytes - told >= CREDIT_EVERY {
            told = bytes;
            calls += 1;
            // A lost credit is made good by the next.
            let _ = socket.send(&bytes.to_le_bytes());
        }
    }
    Ok(Done { calls, cpu_s: cpu_s() - cpu, bytes, checked: 0 })
}

pub(super) fn udp_source(
    near: SocketAddr,
    remote: SocketAddr,
    time: Duration,
) -> anyhow::Result<Flow> {
    let socket = udp(near)?;
    socket.connect(remote)?;
    socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    let (cpu, begin) = (cpu_s(), Instant::now());
    let (mut sent, mut lost, mut credit, mut calls) = (0, 0, 0, 0);
    let (datagram, mut buf) = ([7; DATAGRAM], [0; 8]);
    while begin.elapsed() < time {
        while sent - lost < credit + WINDOW / 2 {
            socket.send(&datagram)?;
            sent += DATAGRAM as u64;
            calls += 1;
        }
        calls += 1;
        match socket.recv(&mut buf) {
            Ok(n) => credit = credit.max(credit_of(&buf[..n])),
            Err(_) => lost = sent.saturating_sub(credit),
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    end(&socket);
    let datagrams = Some(credit / DATAGRAM as u64);
    let datagram = Some(DATAGRAM as u16);
    Ok(Flow { bytes: credit, datagrams, datagram, seconds, calls, cpu_s: cpu_s() - cpu })
}

pub(super) fn udp_echo(socket: &UdpSocket, poll: bool) -> anyhow::Result<Done> {
    let mut buf = [0; 2048];
    let mut n = meet(socket, &mut buf)?;
    socket.set_nonblocking(poll)?;
    while n != END.len() {
        socket.send(&buf[..n])?;
        let Some(next) = next(socket, poll, &mut buf) else { break };
        n = next;
    }
    Ok(Done::default())
}

/// Round trips in nanoseconds.
pub(super) fn udp_trips(
    near: SocketAddr,
    remote: SocketAddr,
    poll: bool,
    time: Duration,
) -> anyhow::Result<Vec<u64>> {
    let socket = udp(near)?;
    socket.connect(remote)?;
    socket.set_nonblocking(poll)?;
    let mut buf = [0; 2048];
    let trips = trips(time, || {
        socket.send(&[1; SHORT])?;
        next(&socket, poll, &mut buf).map(drop).context("the other end is silent")
    });
    end(&socket);
    trips
}

/// Says that no more comes. The first may be enough: then nobody receives the others.
fn end(socket: &UdpSocket) {
    for _ in 0..3 {
        let _ = socket.send(&END);
    }
}

/// Goes there and back for `time`; the first tenth does not count.
pub(super) fn trips(
    time: Duration,
    mut trip: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<u64>> {
    let (begin, mut ns) = (Instant::now(), Vec::new());
    loop {
        let sent = begin.elapsed();
        if sent >= time || ns.len() == TRIPS_MAX {
            return Ok(ns);
        }
        trip()?;
        if sent >= time / 10 {
            ns.push((begin.elapsed().saturating_sub(sent)).as_nanos() as u64);
        }
    }
}

pub(super) fn tcp_accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(super) fn tcp_sink(mut stream: &TcpStream) -> anyhow::Result<Done> {
    let mut buf = vec![0; 256 * 1024];
    let (cpu, mut calls, mut bytes) = (cpu_s(), 0, 0);
    loop {
        calls += 1;
        match stream.read(&mut buf) {
            Ok(0) => {
                stream.write_all(&END)?;
                break;
            }
            Ok(n) => bytes += n as u64,
            // Whoever shares a path does not wait for what is queued when its time is over.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Done { calls, cpu_s: cpu_s() - cpu, bytes, checked: 0 })
}

pub(super) fn tcp_source(remote: SocketAddr, time: Duration) -> anyhow::Result<Flow> {
    let mut stream = TcpStream::connect(remote)?;
    let data = vec![7; 1 << 20];
    let (cpu, begin, mut calls, mut bytes) = (cpu_s(), Instant::now(), 0, 0);
    while begin.elapsed() < time {
        calls += 1;
        bytes += stream.write(&data)? as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The answer comes once everything has arrived.
    stream.read_exact(&mut [0; END.len()])?;
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_s = cpu_s() - cpu;
    Ok(Flow { bytes, datagrams: None, datagram: None, seconds, calls, cpu_s })
}

/// Reads a short message; false at the stream's end.
fn short(mut stream: &TcpStream, buf: &mut [u8; SHORT]) -> anyhow::Result<bool> {
    let mut have = 0;
    while have < SHORT {
        match stream.read(&mut buf[have..]) {
            Ok(0) => return Ok(false),
            Ok(n) => have += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

pub(super) fn tcp_echo(mut stream: &TcpStream, poll: bool) -> anyhow::Result<Done> {
    stream.set_nonblocking(poll)?;
    let mut buf = [0; SHORT];
    while short(stream, &mut buf)? {
        stream.write_all(&buf)?;
    }
    Ok(Done::default())
}

/// Round trips in nanoseconds.
pub(super) fn tcp_trips(
    remote: SocketAddr,
    poll: bool,
    time: Duration,
) -> anyhow::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(remote)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(poll)?;
    let mut buf = [0; SHORT];
    trips(time, || {
        stream.write_all(&[1; SHORT])?;
        short(&stream, &mut buf).map(drop)
    })
}
