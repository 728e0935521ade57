//! What coordinator and peer tell each other: one JSON object a line.

use std::net::TcpStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::line::Line;

/// Longest line in bytes.
const LINE_MAX: u64 = 4096;
/// Nobody works longer than this without saying anything: the longest measurement and then some.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the peer is to serve next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Serve {
    /// An association: messages of one label are dropped, those of another come back.
    Association {
        /// Packets may go in clear.
        trusted: bool,
        /// Never sleep.
        poll: bool,
        /// Credit per channel in bytes.
        window: u32,
        /// What comes in messages that are neither dropped nor sent back: each byte is compared.
        content: Option<Content>,
    },
    /// Datagrams, received one per call.
    UdpSink,
    /// Datagrams in trains.
    UdpTrains,
    /// Datagrams that come back.
    UdpEcho {
        /// Never sleep.
        poll: bool,
    },
    /// A TCP stream.
    TcpSink,
    /// Short messages that come back over TCP.
    TcpEcho {
        /// Never sleep.
        poll: bool,
    },
    /// `iperf3 -s`.
    Iperf,
}

/// The peer is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Where it receives, at the address that the coordinator reached it by.
    pub(super) port: u16,
    /// An association's key.
    pub(super) key: Option<[u8; 32]>,
}

/// The peer's end of a measurement is over.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// System calls.
    pub(super) calls: u64,
    /// Processor time in seconds.
    pub(super) cpu_s: f64,
    /// Payload bytes that arrived.
    pub(super) bytes: u64,
    /// Of these, how many were compared and found right.
    pub(super) checked: u64,
}

/// One end of the conversation.
pub(super) type Talk = Line<TcpStream>;

/// The conversation over a connection.
pub(super) fn over(stream: TcpStream) -> anyhow::Result<Talk> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Line::new(stream, LINE_MAX))
}
