//! A UDP socket for datagrams of others' protocols: many per system call, each to its own
//! address, with the kernel's receive stamps.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::kernel::{self, Incoming, Outgoing, TOS_USUAL};
use super::link::BindError;

/// Datagrams per system call at most.
pub const PLAIN_BATCH: usize = 64;
/// Bytes of a datagram that are received; the rest of a longer one is lost, and told.
pub const PLAIN_BYTES: usize = 2048;
const RECEIVES: usize = 32;

/// What multicast needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// By which interface: its address, or its number for IPv6; unspecified: the kernel's choice.
    pub interface: Ipv4Addr,
    /// Hops at most; 1 keeps it in the sub-network.
    pub ttl: u32,
}

impl Default for Multicast {
    fn default() -> Self {
        Self { interface: Ipv4Addr::UNSPECIFIED, ttl: 1 }
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// From whom.
    pub remote: SocketAddr,
    /// When the kernel got it, nanoseconds since the Unix epoch; 0: not told.
    pub came_ns: u64,
    /// It was longer than [`PLAIN_BYTES`].
    pub cut: bool,
}

/// A non-blocking UDP socket.
pub struct PlainSocket {
    socket: UdpSocket,
    buffer: Vec<u8>,
    metas: [Incoming; RECEIVES],
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Handed to the kernel.
    pub sent: usize,
    /// Refused by it, and so lost.
    pub refused: usize,
    /// The kernel has no room: these and what comes after them were lost.
    pub blocked: usize,
}

impl PlainSocket {
    /// A socket to send from (port 0: the kernel chooses).
    pub fn bind(addr: SocketAddr) -> Result<Self, BindError> {
        open(addr, false).map(Self::of).map_err(|why| BindError { addr, why })
    }

    /// A socket that receives what is sent to `addr`; joins it where it is a multicast group, from
    /// `source` alone where one is named.
    pub fn listen(
        addr: SocketAddr,
        interface: Ipv4Addr,
        source: Option<Ipv4Addr>,
    ) -> Result<Self, BindError> {
        let wrong = |why| BindError { addr, why };
        let socket = open(addr, addr.ip().is_multicast()).map_err(wrong)?;
        let joined = match addr.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                if let Some(source) = source {
                    socket.join_ssm_v4(&source, &group, &interface)
                } else {
                    let interface = InterfaceIndexOrAddress::Address(interface);
                    socket.join_multicast_v4_n(&group, &interface)
                }
            }
            IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0),
            _ => Ok(()),
        };
        joined.map_err(wrong)?;
        Ok(Self::of(socket))
    }

    fn of(socket: Socket) -> Self {
        let buffer = vec![0; RECEIVES * PLAIN_BYTES];
        Self { socket: socket.into(), buffer, metas: [Incoming::EMPTY; RECEIVES] }
    }

    /// How datagrams to groups go.
    pub fn set_multicast(&self, multicast: Multicast) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.socket);
        if self.local_addr()?.is_ipv4() {
            socket.set_multicast_ttl_v4(multicast.ttl)?;
            socket.set_multicast_if_v4(&multicast.interface)
        } else {
            socket.set_multicast_hops_v6(multicast.ttl)
        }
    }

    /// The address it receives at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends datagrams, each to its address. What the kernel has no room for is lost, as on any
    /// network: a datagram that cannot leave now must not leave late.
    pub fn send<'a>(&self, datagrams: impl Iterator<Item = (SocketAddr, &'a [u8])>) -> Flushed {
        let slices: Vec<(SocketAddr, IoSlice<'a>)> =
            datagrams.map(|(remote, bytes)| (remote, IoSlice::new(bytes))).collect();
        let mut flushed = Flushed::default();
        let mut at = 0;
        while at < slices.len() {
            let end = slices.len().min(at + PLAIN_BATCH);
            let batch: Vec<Outgoing<'_>> = slices[at..end]
                .iter()
                .map(|slice| {
                    let (remote, len) = (slice.0, slice.1.len());
                    let parts = std::slice::from_ref(&slice.1);
                    Outgoing { remote, parts, len, segment: len.max(1), tos: TOS_USUAL }
                })
                .collect();
            match kernel::send::<PLAIN_BATCH>(self.socket.as_fd(), &batch) {
                Ok(n) => {
                    flushed.sent += n;
                    at += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    flushed.blocked += slices.len() - at;
                    break;
                }
                Err(_) => {
                    flushed.refused += 1;
                    at += 1;
                }
            }
        }
        flushed
    }

    /// Receives one batch. True when there may be more at once.
    pub fn receive(&mut self, mut each: impl FnMut(Arrived, &[u8])) -> io::Result<bool> {
        let fd = self.socket.as_fd();
        let received =
            kernel::receive::<RECEIVES>(fd, &mut self.buffer, PLAIN_BYTES, &mut self.metas);
        let n = match received {
            Ok(n) => n,
            Err(e) => {
                return match e.kind() {
                    io::ErrorKind::WouldBlock => Ok(false),
                    // A receiver's closed port.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => Ok(true),
                    _ => Err(e),
                };
            }
        };
        for (part, meta) in self.buffer.chunks_exact(PLAIN_BYTES).zip(&self.metas[..n]) {
            let arrived = Arrived { remote: meta.remote, came_ns: meta.came_ns, cut: meta.cut };
            each(arrived, &part[..meta.len.min(PLAIN_BYTES)]);
        }
        Ok(n == RECEIVES)
    }
}

impl AsFd for PlainSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Buffers asked for; the kernel may give less.
const SOCKET_BUFFER: usize = 4 << 20;

fn open(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Several may receive what a group gets.
    socket.set_reuse_address(shared)?;
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    let _ = kernel::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    // A group without its data from other groups on the same port.
    let _ = kernel::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0);
    socket.bind(&addr.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_where_it_is_sent_with_the_time_it_came() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut receiver = PlainSocket::bind(local).expect("bind");
        let sender = PlainSocket::bind(local).expect("bind");
        let to = receiver.local_addr().expect("address");
        let datagrams: Vec<Vec<u8>> = (0..100u8).map(|i| vec![i; 1316]).collect();
        let flushed = sender.send(datagrams.iter().map(|d| (to, &d[..])));
        assert_eq!(flushed, Flushed { sent: 100, refused: 0, blocked: 0 });
        let (mut came, mut stamps) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let more = receiver.receive(|arrived, bytes| {
                assert_eq!(arrived.remote, sender.local_addr().expect("address"));
                came.push(bytes.to_vec());
                stamps.push(arrived.came_ns);
            });
            more.expect("receive");
        }
        assert_eq!(came, datagrams);
        assert!(stamps.is_sorted() && stamps[0] > 0);
    }

    #[test]
    fn a_datagram_that_the_kernel_refuses_holds_nobody_up() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let receiver = PlainSocket::bind(local).expect("bind");
        let sender = PlainSocket::bind(local).expect("bind");
        let to = receiver.local_addr().expect("address");
        let long = vec![0; 70_000];
        let flushed = sender.send([(to, &long[..]), (to, &long[..10])].into_iter());
        assert_eq!(flushed, Flushed { sent: 1, refused: 1, blocked: 0 });
    }

    /// What a group's listener and another socket hear.
    fn heard(socket: &mut PlainSocket) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while socket.receive(|_, bytes| all.push(bytes.to_vec())).expect("receive") {}
        all
    }

    #[test]
    fn a_group_is_heard_by_those_who_joined_it_from_whom_they_named() {
        let group = Ipv4Addr::new(239, 77, 3, 1);
        let local = Ipv4Addr::LOCALHOST;
        let sender = PlainSocket::bind((local, 0).into()).expect("bind");
        let multicast = Multicast { ttl: 0, interface: local };
        // Any free port will do.
        let port = PlainSocket::bind((local, 0).into()).expect("bind").local_addr().unwrap().port();
        let listen = |source| PlainSocket::listen((group, port).into(), local, source);
        let (Ok(mut all), Ok(mut one), Ok(mut other)) =
            (listen(None), listen(Some(local)), listen(Some(Ipv4Addr::new(127, 0, 0, 9))))
        else {
            return towpath_skip::skip("this machine has no groups");
        };
        if sender.set_multicast(multicast).is_err() {
            return towpath_skip::skip("this machine sends to no groups");
        }
        let to = (group, port).into();
        if sender.send([(to, &b"one"[..]), (to, b"two")].into_iter()).sent < 2 {
            return towpath_skip::skip("this machine sends to no groups");
        }
        let expected = [b"one".to_vec(), b"two".to_vec()];
        assert_eq!((heard(&mut all), heard(&mut one)), (expected.to_vec(), expected.to_vec()));
        assert_eq!(heard(&mut other), Vec::<Vec<u8>>::new());
    }
}
