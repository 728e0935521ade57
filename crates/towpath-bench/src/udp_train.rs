//! Trains of datagrams through bare sockets, the same calls as an association's: its floor.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::UdpLink;
use towpath_io::udp::{SendBatch, TRAIN_BYTES};
use towpath_proto::Transmit;
use towpath_wire::LinkId;

use super::floor::{CREDIT_EVERY, END, WINDOW};
use super::machine::cpu_s;
use super::row::Flow;
use super::talk::Done;

const LINK: LinkId = LinkId(0);

pub(super) fn link(addr: SocketAddr) -> anyhow::Result<UdpLink> {
    Ok(UdpLink::bind(LINK, addr)?)
}

fn wait(link: &UdpLink, time: Duration, waits: &mut u64) {
    *waits += 1;
    let timeout = Timespec::try_from(time).ok();
    let fd = link.as_fd();
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref());
}

fn send(link: &mut UdpLink, remote: SocketAddr, bytes: &[u8]) {
    let mut batch = SendBatch::new();
    if let Some(buffer) = batch.buffer() {
        buffer[..bytes.len()].copy_from_slice(bytes);
        let len = bytes.len();
        batch.push(Transmit {
            link: LINK,
            remote,
            segment: len,
            len,
            tos: 2,
            not_before: towpath_wire::Instant::ZERO,
        });
        link.flush(&mut batch);
    }
}

/// Receives until told to end, and gives credit.
pub(super) fn sink(mut link: UdpLink) -> anyhow::Result<Done> {
    let (begin, mut waits, mut bytes, mut told, mut over) = (cpu_s(), 0, 0, 0, false);
    let (mut heard, mut remote) = (Instant::now(), None);
    let mut credit = SendBatch::new();
    while !over && heard.elapsed() < Duration::from_secs(2) {
        wait(&link, Duration::from_millis(500), &mut waits);
        let before = bytes;
        while link.receive(|rx, data| {
            over |= data.len() == END.len();
            bytes += data.len() as u64;
            remote = Some(rx.remote);
        })? {}
        if bytes > before {
            heard = Instant::now();
        }
        let Some(remote) = remote else { continue };
        if bytes - told >= CREDIT_EVERY
            && let Some(buffer) = credit.buffer()
        {
            told = bytes;
            buffer[..8].copy_from_slice(&bytes.to_le_bytes());
            credit.push(Transmit {
                link: LINK,
                remote,
                segment: 8,
                len: 8,
                tos: 2,
                not_before: towpath_wire::Instant::ZERO,
            });
            link.flush(&mut credit);
        }
    }
    let calls = waits + link.counters().send_calls + link.counters().receive_calls;
    Ok(Done { calls, cpu_s: cpu_s() - begin, bytes, checked: 0 })
}

/// Sends datagrams of `datagram` bytes for `time`, never more than the window ahead of the credit.
pub(super) fn source(
    near: SocketAddr,
    remote: SocketAddr,
    datagram: u16,
    time: Duration,
) -> anyhow::Result<Flow> {
    let segment = usize::from(datagram);
    let mut link = link(near)?;
    let (cpu, mut waits) = (cpu_s(), 0);
    let mut batch = SendBatch::new();
    let train = Transmit {
        link: LINK,
        remote,
        segment,
        len: TRAIN_BYTES / segment * segment,
        tos: 2,
        not_before: towpath_wire::Instant::ZERO,
    };
    let (begin, mut credit, mut lost) = (Instant::now(), 0, 0);
    while begin.elapsed() < time {
        while link.counters().bytes_sent - lost < credit + WINDOW {
            while batch.buffer().is_some() {
                batch.push(train);
            }
            if !link.flush(&mut batch) {
                break;
            }
            if link.counters().send_errors + link.counters().too_long > 0 {
                bail!("the kernel refuses datagrams to {remote}");
            }
        }
        let before = credit;
        wait(&link, Duration::from_millis(5), &mut waits);
        link.receive(|_, data| credit = credit.max(credit_of(data)))?;
        if credit == before {
            // Datagrams were lost: their credit never comes.
            lost = link.counters().bytes_sent.saturating_sub(credit);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    for _ in 0..3 {
        send(&mut link, remote, &END);
    }
    let c = link.counters();
    let calls = waits + c.send_calls + c.receive_calls;
    let (datagrams, datagram) = (Some(credit / segment as u64), Some(datagram));
    Ok(Flow { bytes: credit, datagrams, datagram, seconds, calls, cpu_s: cpu_s() - cpu })
}

/// Bytes that the receiver has.
pub(super) fn credit_of(data: &[u8]) -> u64 {
    data.try_into().map_or(0, u64::from_le_bytes)
}
