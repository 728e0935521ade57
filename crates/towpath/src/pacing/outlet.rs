//! Where a stream's datagrams go.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use towpath_media::rtp::{Numbering, RTP_HEADER};
use towpath_media::send::DATAGRAM;

/// Bytes of a datagram with all that stands before the packets.
pub(super) const FRAME: usize = 4 + RTP_HEADER + DATAGRAM;
/// Bytes that wait for a player that does not read; beyond, its datagrams are dropped.
const OUTBOX_MAX: usize = 512 * 1024;

/// The way of a stream's datagrams.
#[derive(Clone, Debug)]
pub enum Outlet {
    /// To a UDP address, as they are or behind a header of RTP.
    Udp {
        /// Where to.
        to: SocketAddr,
        /// Numbers them.
        rtp: Option<Numbering>,
    },
    /// Within an RTSP connection (RFC 2326 §10.12).
    Interleaved {
        /// The connection.
        connection: Interleaved,
        /// Of RTP; reports have the next one.
        channel: u8,
        /// Numbers them.
        rtp: Numbering,
    },
}

impl Outlet {
    /// Its RTP numbers.
    pub(super) const fn numbering(&mut self) -> Option<&mut Numbering> {
        match self {
            Self::Udp { rtp, .. } => rtp.as_mut(),
            Self::Interleaved { rtp, .. } => Some(rtp),
        }
    }
}

/// The sending half of a TCP connection that several threads write whole messages to. Nobody
/// waits: what the kernel does not take now is kept, up to 512 KiB.
#[derive(Clone, Debug)]
pub struct Interleaved(Arc<Mutex<Outbox>>);

#[derive(Debug)]
struct Outbox {
    stream: TcpStream,
    waiting: VecDeque<u8>,
    broken: bool,
    dropped: u64,
}

impl Interleaved {
    /// Of a non-blocking connection.
    pub fn new(stream: TcpStream) -> Self {
        let waiting = VecDeque::new();
        Self(Arc::new(Mutex::new(Outbox { stream, waiting, broken: false, dropped: 0 })))
    }

    /// Sends a message as a whole, or drops it as a whole: false.
    pub fn send(&self, parts: [&[u8]; 2]) -> bool {
        let mut outbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        outbox.flush();
        if outbox.broken || outbox.waiting.len() + len > OUTBOX_MAX {
            outbox.dropped += 1;
            return false;
        }
        for part in parts {
            outbox.waiting.extend(part);
        }
        outbox.flush();
        true
    }

    /// Sends what waits, as far as the kernel takes it. True while something is left.
    pub fn flush(&self) -> bool {
        let mut outbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.flush();
        !outbox.waiting.is_empty()
    }

    /// Whether the connection takes nothing any more.
    pub fn is_broken(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).broken
    }
}

impl Outbox {
    fn flush(&mut self) {
        while !self.waiting.is_empty() && !self.broken {
            let (front, _) = self.waiting.as_slices();
            match self.stream.write(front) {
                Ok(0) => self.broken = true,
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
        }
    }
}
