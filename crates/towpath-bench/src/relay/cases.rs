//! What is measured on the path, case by case.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use socket2::SockRef;
use towpath_sim::qos::Summary;

use super::super::content::Content;
use super::super::far::Far;
use super::super::ours::{self, Peer, Sent};
use super::super::talk::Serve;
use super::path::Path;

/// The one that comes second in a shared path begins so much later.
const LATER: Duration = Duration::from_secs(2);
/// Bytes of a bulk message.
const MESSAGE: u32 = 1 << 20;

/// Who uses the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Ours,
    Tcp(String),
    /// Ours and a TCP connection; whether ours begins.
    Both(String, bool),
}

impl Case {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Ours => "Towpath alone".into(),
            Self::Tcp(control) => format!("TCP {control} alone"),
            Self::Both(control, true) => format!("Towpath, then TCP {control}"),
            Self::Both(control, false) => format!("TCP {control}, then Towpath"),
        }
    }

    fn tcp(&self) -> Option<(&str, Duration)> {
        match self {
            Self::Ours => None,
            Self::Tcp(control) | Self::Both(control, false) => Some((control, Duration::ZERO)),
            Self::Both(control, true) => Some((control, LATER)),
        }
    }

    fn ours(&self) -> Option<Duration> {
        match self {
            Self::Tcp(_) => None,
            Self::Ours | Self::Both(_, true) => Some(Duration::ZERO),
            Self::Both(_, false) => Some(LATER),
        }
    }
}

/// What came through in the measured time, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Share {
    /// Through the bottleneck, Ethernet's framing included.
    pub(super) ours_bps: Option<f64>,
    /// Payload of ours that was acknowledged.
    pub(super) payload_bps: Option<f64>,
    /// TCP's, through the bottleneck.
    pub(super) tcp_bps: Option<f64>,
    /// Packets that found the buffer full, from the beginning.
    pub(super) overflowed: u64,
    /// Packets that the tap itself failed: beyond 0 the figures are not the path's.
    pub(super) relay_failed: u64,
    /// By how much later than due the tap gave packets on, from the beginning.
    pub(super) relay_late: Summary,
}

/// When things happen, from the beginning of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) measured: Duration,
}

/// The peers and what is between.
pub(super) struct Bed {
    pub(super) path: Path,
    /// One serves our association, the other TCP.
    pub(super) far: [Far; 2],
    pub(super) window: u32,
}

impl Bed {
    pub(super) fn run(&mut self, case: &Case, times: Times) -> anyhow::Result<Share> {
        let begin = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let tcp = match case.tcp() {
            None => None,
            Some((control, after)) => {
                let (remote, _) = self.far[1].serve(Serve::TcpSink)?;
                let (control, stop) = (control.to_owned(), Arc::clone(&stop));
                Some(thread::spawn(move || {
                    thread::sleep(after);
                    tcp(remote, &control, &stop)
                }))
            }
        };
        let mut share = Share::default();
        let mut side = match case.ours() {
            None => None,
            Some(after) => {
                thread::sleep(after);
                let (serve, peer) = self.meet(None)?;
                let mut side = ours::connected(self.far[0].near, &peer, serve)?;
                side.begin_bulk(MESSAGE, (self.window / MESSAGE).clamp(4, 32))?;
                Some(side)
            }
        };
        let mut pass = |until: Duration| -> anyhow::Result<u64> {
            while begin.elapsed() < until {
                match &mut side {
                    Some(side) => {
                        side.turn()?;
                        ours::alive(side)?;
                    }
                    None => thread::sleep(until.saturating_sub(begin.elapsed())),
                }
            }
            Ok(side.as_ref().map_or(0, |s| s.acknowledged))
        };
        let acknowledged = pass(times.settle)?;
        let (at, first) = (begin.elapsed(), self.path.read()?);
        let acknowledged = pass(times.settle + times.measured)? - acknowledged;
        let (seconds, last) = (begin.elapsed().saturating_sub(at).as_secs_f64(), self.path.read()?);
        let bps = |bytes: u64| bytes as f64 * 8.0 / seconds;
        if let Some(mut side) = side {
            share.ours_bps = Some(bps(last.udp_bytes - first.udp_bytes));
            share.payload_bps = Some(bps(acknowledged));
            side.close()?;
            self.far[0].done()?;
        }
        stop.store(true, Relaxed);
        if let Some(tcp) = tcp {
            share.tcp_bps = Some(bps(last.tcp_bytes - first.tcp_bytes));
            tcp.join().map_err(|_| anyhow::anyhow!("the TCP flow panicked"))??;
            self.far[1].done()?;
        }
        (share.overflowed, share.relay_failed) = (last.overflowed, last.failed);
        share.relay_late = last.late;
        Ok(share)
    }

    fn meet(&mut self, content: Option<Content>) -> anyhow::Result<(Serve, Peer)> {
        let window = self.window;
        let serve = Serve::Association { trusted: false, poll: false, window, content };
        let (remote, ready) = self.far[0].serve(serve)?;
        Ok((serve, Peer { remote, key: ready.key.unwrap_or_default() }))
    }

    /// Sends messages that the peer compares.
    pub(super) fn transfer(&mut self, content: Content) -> anyhow::Result<Sent> {
        let (serve, peer) = self.meet(Some(content))?;
        let sent = ours::send(self.far[0].near, &peer, serve, content)?;
        let done = self.far[0].done()?;
        if done.checked != content.bytes {
            bail!("{} of {} bytes came as they were sent", done.checked, content.bytes);
        }
        Ok(sent)
    }
}

/// Writes until told to stop. What is queued then need not arrive.
fn tcp(remote: SocketAddr, control: &str, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(remote)?;
    rustix::net::sockopt::set_tcp_congestion(&stream, control).with_context(|| {
        let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(known).unwrap_or_default();
        format!("no congestion control {control:?} here\nhint: --tcp takes {}", known.trim())
    })?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let data = vec![7; 256 << 10];
    while !stop.load(Relaxed) {
        match stream.write(&data) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            other => drop(other?),
        }
    }
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    Ok(())
}
