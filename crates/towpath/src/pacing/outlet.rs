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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    fn connection() -> (Interleaved, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        reader.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (Interleaved::new(stream), reader)
    }

    #[test]
    fn messages_go_whole_and_in_order_or_not_at_all() {
        let (out, mut reader) = connection();
        assert!(out.send([b"first ", b"message"]));
        let message = |n: u8| vec![n; 30_000];
        let mut kept = 0;
        // Until the kernel takes no more, and then as much as is kept.
        while out.send([&message(kept), &[]]) {
            kept += 1;
        }
        assert!(out.flush() && !out.is_broken());
        let waiting = out.0.lock().unwrap().waiting.len();
        assert!(waiting <= OUTBOX_MAX && waiting + 30_000 > OUTBOX_MAX, "{waiting}");
        assert_eq!(out.0.lock().unwrap().dropped, 1);
        let mut expected = b"first message".to_vec();
        (0..kept).for_each(|n| expected.extend(message(n)));
        let mut came = vec![0; expected.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| reader.read_exact(&mut came).unwrap());
            while out.flush() {
                std::thread::yield_now();
            }
        });
        assert!(came == expected);
        assert!(out.send([&[], b"again"]), "there is room");
        assert!(!out.flush(), "nothing is left");
    }

    #[test]
    fn a_connection_that_is_closed_takes_nothing_more() {
        let (out, reader) = connection();
        drop(reader);
        while !out.is_broken() {
            out.send([b"x", b"y"]);
        }
        assert!(!out.send([b"x", b"y"]));
    }
}
