//! An association, measured from the coordinator's end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use towpath_proto::AssociationStats;

use super::content::Content;
use super::floor::{SHORT, TRIPS_MAX};
use super::machine::cpu_s;
use super::row::Flow;
use super::side::Side;
use super::talk::{Done, Serve};

/// Bulk bytes that are always queued, at least.
const QUEUED: u32 = 4 << 20;
/// Bytes of a transfer that wait or are under way, about.
const CONTENT_QUEUED: u64 = 64 << 20;
/// A bulk transfer's beginning does not count.
const WARM: Duration = Duration::from_millis(200);

/// The credit of a channel that messages of up to `len` bytes need to flow: four of them, and no
/// less than a daemon's.
pub(super) fn window(len: u32) -> u32 {
    (4 * (len + 64)).max(towpath_proto::Config::default().window)
}

/// The peer's end.
pub(super) struct Peer {
    pub(super) remote: SocketAddr,
    pub(super) key: [u8; 32],
}

/// An association with the peer.
pub(super) fn connected(near: SocketAddr, peer: &Peer, serve: Serve) -> anyhow::Result<Side> {
    let mut side = Side::new(near, serve)?;
    side.connect(peer.remote, peer.key)?;
    let Serve::Association { trusted, .. } = serve else { bail!("{serve:?} is no association") };
    ensure!(side.is_sealed() != trusted, "both ends agree on sealing");
    Ok(side)
}

/// An error once the association is over.
pub(super) fn alive(side: &Side) -> anyhow::Result<()> {
    match side.over() {
        Some(why) => bail!("the association ended: {why}"),
        None => Ok(()),
    }
}

/// Messages of `len` bytes for `time`.
pub(super) fn bulk(
    near: SocketAddr,
    peer: &Peer,
    serve: Serve,
    len: u32,
    time: Duration,
) -> anyhow::Result<Flow> {
    let cpu = cpu_s();
    let mut side = connected(near, peer, serve)?;
    side.begin_bulk(len, QUEUED.div_ceil(len).clamp(3, 8192))?;
    let begin = Instant::now();
    while begin.elapsed() < WARM {
        side.turn()?;
    }
    let (begin, bytes, datagrams) = (Instant::now(), side.acknowledged, side.datagrams());
    while begin.elapsed() < time {
        side.turn()?;
        alive(&side)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let (bytes, datagrams) = (side.acknowledged - bytes, side.datagrams() - datagrams);
    let datagram = side.datagram();
    side.close()?;
    let (calls, cpu_s, datagrams) = (side.calls(), cpu_s() - cpu, Some(datagrams));
    Ok(Flow { bytes, datagrams, datagram, seconds, calls, cpu_s })
}

/// Round trips of short messages in nanoseconds, beside bulk messages of `load` bytes if given.
pub(super) fn trips(
    near: SocketAddr,
    peer: &Peer,
    serve: Serve,
    load: Option<u32>,
    time: Duration,
) -> anyhow::Result<Vec<u64>> {
    let mut side = connected(near, peer, serve)?;
    if let Some(len) = load {
        side.begin_bulk(len, QUEUED.div_ceil(len).clamp(3, 8192))?;
    }
    let ns = super::floor::trips(time, || {
        let before = side.echoes;
        side.ping(SHORT as u32)?;
        while side.echoes == before {
            side.turn()?;
            alive(&side)?;
        }
        Ok(())
    })?;
    ensure!(ns.len() < TRIPS_MAX, "more than {TRIPS_MAX} round trips; give it fewer --seconds");
    side.close()?;
    Ok(ns)
}

/// What sending a transfer took.
pub(super) struct Sent {
    pub(super) messages: u64,
    /// From the first message to the last acknowledgement.
    pub(super) seconds: f64,
    pub(super) stats: AssociationStats,
    pub(super) memory_max: u64,
}

/// Sends `content` through one channel; the peer compares it.
pub(super) fn send(
    near: SocketAddr,
    peer: &Peer,
    serve: Serve,
    content: Content,
) -> anyhow::Result<Sent> {
    let mut side = connected(near, peer, serve)?;
    let (mut left, mut queued, begin) = (content, 0, Instant::now());
    while side.acknowledged < content.bytes {
        while queued < side.acknowledged + CONTENT_QUEUED
            && let Some(bytes) = left.message()
        {
            queued += bytes.len() as u64;
            side.send(bytes)?;
        }
        side.turn()?;
        alive(&side)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let (messages, stats, memory_max) = (left.next, side.stats(), side.memory_max());
    side.close()?;
    Ok(Sent { messages, seconds, stats, memory_max })
}

/// The peer's end of either: until the coordinator closes.
pub(super) fn serve(mut side: Side) -> anyhow::Result<Done> {
    let (begin, cpu) = (Instant::now(), cpu_s());
    while side.over().is_none() {
        side.turn()?;
        ensure!(
            side.is_connected() || begin.elapsed() < Duration::from_secs(10),
            "nobody connected within 10 s"
        );
    }
    Ok(Done {
        calls: side.calls(),
        cpu_s: cpu_s() - cpu,
        bytes: side.received,
        checked: side.checked,
    })
}
