//! A UDP socket with segmentation offload (GSO, GRO), in batches.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use towpath_proto::RxMeta;
use towpath_wire::LinkId;

/// Buffers per receive call.
const BUFFERS: usize = 8;
/// Bytes per buffer: a whole train.
const BUFFER: usize = 64 * 1024;
/// Socket buffers asked for; the kernel may give less.
const SOCKET_BUFFER: usize = 4 << 20;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot receive at {addr}: {why}{}", hint(.why))]
pub struct BindError {
    /// The address asked for.
    pub addr: SocketAddr,
    /// What the operating system says.
    pub why: io::Error,
}

fn hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::AddrInUse => {
            "\nhint: the port is in use: choose another, or leave it out to have one chosen"
        }
        io::ErrorKind::AddrNotAvailable => "\nhint: this machine does not have that address",
        _ => "",
    }
}

/// A link over a UDP socket.
pub struct UdpLink {
    id: LinkId,
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BUFFERS],
}

impl UdpLink {
    /// Opens a non-blocking socket at `addr` (port 0: the kernel chooses).
    pub fn bind(id: LinkId, addr: SocketAddr) -> Result<Self, BindError> {
        let open = || {
            let socket = UdpSocket::bind(addr)?;
            let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
            let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
            let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
            Ok((socket, state))
        };
        let (socket, state) = open().map_err(|why| BindError { addr, why })?;
        // Touched now, so that a burst later does not make the process grow.
        let buffers = vec![vec![0xff; BUFFER]; BUFFERS];
        Ok(Self { id, socket, state, buffers, metas: [RecvMeta::default(); BUFFERS] })
    }

    /// The address it receives at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Most datagrams in one train.
    pub fn train_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Bytes that the kernel buffers for us.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.state.recv_buffer_size(UdpSockRef::from(&self.socket))
    }

    /// Receives one batch and hands each datagram on; false when nothing was there.
    pub fn receive(&mut self, mut each: impl FnMut(RxMeta, &mut [u8])) -> io::Result<bool> {
        let n = {
            let mut slices: Vec<IoSliceMut<'_>> =
                self.buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut self.metas) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // A peer's closed port: its silence says the same.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
                Err(e) => return Err(e),
            }
        };
        for (buffer, meta) in self.buffers.iter_mut().zip(&self.metas[..n]) {
            let ecn = meta.ecn.map_or(0, |e| e as u8);
            let rx = RxMeta { link: self.id, remote: meta.addr, ecn };
            let stride = meta.stride.max(1);
            for datagram in buffer[..meta.len].chunks_mut(stride) {
                each(rx, datagram);
            }
        }
        Ok(true)
    }

    /// Sends a train. `Ok(false)`: the socket takes nothing now, try again when it is writable.
    pub fn send(&self, transmit: &towpath_proto::Transmit, buf: &[u8]) -> io::Result<bool> {
        let contents = &buf[..transmit.len];
        let segment_size = (transmit.len > transmit.segment).then_some(transmit.segment);
        let transmit = Transmit {
            destination: transmit.remote,
            ecn: EcnCodepoint::from_bits(transmit.ecn),
            contents,
            segment_size,
            src_ip: None,
        };
        match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for UdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
