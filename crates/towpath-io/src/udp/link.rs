//! A link over a UDP socket: its options, its counters, and what to do when the kernel refuses.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use socket2::{Domain, Protocol, Socket, Type};
use towpath_proto::machine::INSETS_MAX;
use towpath_proto::{Inset, Memory, RxMeta};
use towpath_wire::LinkId;

use super::batch::{SendBatch, TRAINS};
use super::kernel::{self, Incoming, Outgoing, TOS_USUAL};

/// Trains per receive call.
const RECEIVES: usize = 8;
/// Bytes for each: the kernel joins datagrams to at most 65 535.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Socket buffers asked for; the kernel may give less.
const SOCKET_BUFFER: i32 = 4 << 20;
/// Datagrams that the kernel cuts out of one train at most (`UDP_MAX_SEGMENTS`).
const TRAIN_DATAGRAMS: usize = 64;
/// Datagrams per call where the kernel does not cut trains.
const SINGLES: usize = 32;
/// Parts of one train at most: its insets, and what is before, between and after them.
const TRAIN_PARTS: usize = 2 * INSETS_MAX + 1;

const _: () = assert!(TRAIN_PARTS <= kernel::PARTS_MAX);

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

/// What passed through a link, and what it cost. Monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// System calls that sent, or tried to.
    pub send_calls: u64,
    /// System calls that received, or found nothing.
    pub receive_calls: u64,
    /// Datagrams handed to the kernel.
    pub datagrams_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Times that the kernel had no room for more.
    pub blocked: u64,
    /// Trains dropped: their datagrams are longer than the way takes.
    pub too_long: u64,
    /// Trains dropped for another reason: no route, forbidden, out of memory.
    pub send_errors: u64,
    /// Trains that arrived longer than a buffer; their last datagram was dropped.
    pub cut: u64,
}

/// Something that its owner may want to tell a person. Each kind is given once, when it first
/// happens; [`LinkCounters`] has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The kernel does not cut trains on this way: datagrams go out one by one from now on.
    NoSegmentation(io::ErrorKind),
    /// The kernel refused a train.
    Refused {
        /// What it said.
        why: io::ErrorKind,
        /// Where the train should have gone.
        remote: SocketAddr,
    },
}

/// A link over a UDP socket. Fragmentation is forbidden, ECN marks are read and set.
pub struct UdpLink {
    id: LinkId,
    socket: UdpSocket,
    buffer: Vec<u8>,
    metas: [Incoming; RECEIVES],
    /// The kernel cuts trains.
    segmentation: bool,
    counters: LinkCounters,
    too_long: Option<TooLong>,
    notices: [Option<Notice>; 2],
}

/// A datagram that the kernel refused: it is too long for the way, and fragments are forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Where it should have gone.
    pub remote: SocketAddr,
    /// Its bytes.
    pub bytes: usize,
}

impl UdpLink {
    /// Opens a non-blocking socket at `addr` (port 0: the kernel chooses). `[::]` receives IPv4,
    /// too.
    pub fn bind(id: LinkId, addr: SocketAddr) -> Result<Self, BindError> {
        Self::open(id, addr, true)
    }

    /// A link at each address, numbered in order from zero. Where one of them is of IPv4, those of
    /// IPv6 receive nothing else.
    pub fn bind_all(addrs: &[SocketAddr]) -> Result<Vec<Self>, BindError> {
        let both = addrs.iter().all(SocketAddr::is_ipv6);
        let bind = |(i, addr): (usize, &SocketAddr)| Self::open(LinkId(i as u16), *addr, both);
        addrs.iter().enumerate().map(bind).collect()
    }

    fn open(id: LinkId, addr: SocketAddr, both: bool) -> Result<Self, BindError> {
        let socket = open(addr, both).map_err(|why| BindError { addr, why })?;
        // Zero takes nothing away: it only asks whether the kernel knows the option.
        let segmentation = kernel::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        Ok(Self {
            id,
            socket,
            // Touched now, so that a burst later does not make the process grow.
            buffer: vec![0xff; RECEIVES * RECEIVE_BYTES],
            metas: [Incoming::EMPTY; RECEIVES],
            segmentation,
            counters: LinkCounters::default(),
            too_long: None,
            notices: [None; 2],
        })
    }

    /// Which link it is.
    pub const fn id(&self) -> LinkId {
        self.id
    }

    /// The address it receives at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Most datagrams in one train.
    pub const fn train_max(&self) -> usize {
        TRAIN_DATAGRAMS
    }

    /// True while the kernel cuts trains into datagrams.
    pub const fn segmentation(&self) -> bool {
        self.segmentation
    }

    /// Sends every datagram by itself, as where the kernel does not cut trains.
    pub fn disable_segmentation(&mut self) {
        self.segmentation = false;
    }

    /// Bytes that the kernel buffers for us.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(&self.socket).recv_buffer_size()
    }

    /// Counters.
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// What happened for the first time since the last call.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.iter_mut().find_map(Option::take)
    }

    /// The last datagram since the last call that was too long for its way.
    pub const fn too_long(&mut self) -> Option<TooLong> {
        self.too_long.take()
    }

    /// Receives one batch and hands each datagram on. True when there may be more at once.
    pub fn receive(&mut self, each: impl FnMut(RxMeta, &mut [u8])) -> io::Result<bool> {
        self.receive_some::<RECEIVES>(each)
    }

    /// [`UdpLink::receive`] for one train: quicker where there is hardly more.
    pub fn receive_one(&mut self, each: impl FnMut(RxMeta, &mut [u8])) -> io::Result<bool> {
        self.receive_some::<1>(each)
    }

    fn receive_some<const N: usize>(
        &mut self,
        mut each: impl FnMut(RxMeta, &mut [u8]),
    ) -> io::Result<bool> {
        self.counters.receive_calls += 1;
        let (fd, buffer) = (self.socket.as_fd(), &mut self.buffer);
        let n = match kernel::receive::<N>(fd, buffer, RECEIVE_BYTES, &mut self.metas) {
            Ok(n) => n,
            Err(e) => {
                return match e.kind() {
                    io::ErrorKind::WouldBlock => Ok(false),
                    // A peer's closed port: its silence says the same.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => Ok(true),
                    _ => Err(e),
                };
            }
        };
        let counters = &mut self.counters;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = |came_ns| match came_ns {
            0 => Duration::ZERO,
            ns => unix.saturating_sub(Duration::from_nanos(ns)),
        };
        for (part, meta) in self.buffer.chunks_exact_mut(RECEIVE_BYTES).zip(&self.metas[..n]) {
            let late = since(meta.came_ns);
            let rx = RxMeta { link: self.id, remote: meta.remote, ecn: meta.tos & 3, late };
            // What was cut off belongs to the last datagram: it would not authenticate anyhow.
            let mut len = meta.len;
            if meta.cut {
                counters.cut += 1;
                len -= (len - 1) % meta.segment + 1;
            }
            counters.datagrams_received += len.div_ceil(meta.segment) as u64;
            counters.bytes_received += len as u64;
            part[..len].chunks_mut(meta.segment).for_each(|datagram| each(rx, datagram));
        }
        Ok(n == N)
    }

    /// Sends what waits in `batch`. False when the socket takes no more now: come again when it
    /// is writable. What the kernel refuses is counted and dropped, like any lost datagram.
    pub fn flush(&mut self, batch: &mut SendBatch) -> bool {
        self.flush_from(batch, None)
    }

    /// [`UdpLink::flush`] for trains parts of which are in `memory`. Whatever waits afterwards is
    /// in the batch itself.
    pub fn flush_from(&mut self, batch: &mut SendBatch, memory: Option<&dyn Memory>) -> bool {
        while !batch.is_empty() {
            self.counters.send_calls += 1;
            let sent = if self.segmentation {
                self.trains(batch, memory)
            } else {
                batch.settle(memory);
                self.singles(batch)
            };
            let Err(e) = sent else { continue };
            if e.kind() == io::ErrorKind::WouldBlock {
                self.counters.blocked += 1;
                batch.settle(memory);
                return false;
            }
            self.refused(&e, batch);
        }
        true
    }

    fn trains(&mut self, batch: &mut SendBatch, memory: Option<&dyn Memory>) -> io::Result<()> {
        const NONE: Outgoing<'_> =
            Outgoing { remote: Incoming::EMPTY.remote, parts: &[], len: 0, segment: 1, tos: 0 };
        if let Some((train, bytes)) = batch.alone() {
            let (remote, segment, tos, len) = (train.remote, train.segment, train.tos, bytes.len());
            let parts = &[IoSlice::new(bytes)];
            let out = Outgoing { remote, parts, len, segment, tos };
            kernel::send::<1>(self.socket.as_fd(), &[out])?;
            self.counters.datagrams_sent += len.div_ceil(segment) as u64;
            self.counters.bytes_sent += len as u64;
            batch.trains_gone(1);
            return Ok(());
        }
        let mut parts = [IoSlice::new(&[]); TRAINS * TRAIN_PARTS];
        let mut free = &mut parts[..];
        let mut out = [NONE; TRAINS];
        let mut count = 0;
        for (out, (train, bytes, insets)) in out.iter_mut().zip(batch.waiting()) {
            let used = gather(bytes, insets, memory, free);
            let (parts, rest) = free.split_at_mut(used);
            free = rest;
            let (remote, segment, tos) = (train.remote, train.segment, train.tos);
            *out = Outgoing { remote, parts, len: bytes.len(), segment, tos };
            count += 1;
        }
        let n = kernel::send::<TRAINS>(self.socket.as_fd(), &out[..count])?;
        for train in &out[..n] {
            self.counters.datagrams_sent += train.len.div_ceil(train.segment) as u64;
            self.counters.bytes_sent += train.len as u64;
        }
        batch.trains_gone(n);
        Ok(())
    }

    fn singles(&mut self, batch: &mut SendBatch) -> io::Result<()> {
        let Some((train, rest, _)) = batch.waiting().next() else { return Ok(()) };
        let (remote, segment, tos) = (train.remote, train.segment, train.tos);
        let mut parts = [IoSlice::new(&[]); SINGLES];
        let mut out = [Outgoing { remote, parts: &[], len: 0, segment, tos }; SINGLES];
        let mut count = 0;
        for (part, bytes) in parts.iter_mut().zip(rest.chunks(segment)) {
            *part = IoSlice::new(bytes);
            count += 1;
        }
        for (out, part) in out.iter_mut().zip(parts[..count].chunks(1)) {
            (out.parts, out.len) = (part, part[0].len());
        }
        let n = kernel::send::<SINGLES>(self.socket.as_fd(), &out[..count])?;
        let bytes = out[..n].iter().map(|o| o.len).sum();
        self.counters.datagrams_sent += n as u64;
        self.counters.bytes_sent += bytes as u64;
        batch.bytes_gone(bytes);
        Ok(())
    }

    /// The kernel refused the first train that waits (or its next datagram).
    fn refused(&mut self, e: &io::Error, batch: &mut SendBatch) {
        let Some((train, bytes, _)) = batch.waiting().next() else { return };
        let (remote, segment) = (train.remote, train.segment);
        let cuts = self.segmentation && bytes.len() > segment;
        let mut why = e.raw_os_error();
        // Kernels before 6.14 call a train invalid whose datagrams are longer than the route takes.
        let beyond = || route_mtu(remote).is_ok_and(|mtu| segment + headers(remote) > mtu as usize);
        if why == Some(libc::EINVAL) && cuts && beyond() {
            why = Some(libc::EMSGSIZE);
        }
        match why {
            // No checksum offload on the way, or a kernel that knows fewer cuts.
            Some(libc::EIO | libc::EINVAL) if cuts => {
                self.segmentation = false;
                self.notices[0] = Some(Notice::NoSegmentation(e.kind()));
                return;
            }
            Some(libc::EMSGSIZE) => {
                let bytes = segment.min(bytes.len());
                self.too_long = Some(TooLong { remote, bytes });
                self.counters.too_long += 1;
            }
            _ => {
                if self.counters.send_errors == 0 {
                    self.notices[1] = Some(Notice::Refused { why: e.kind(), remote });
                }
                self.counters.send_errors += 1;
            }
        }
        batch.trains_gone(1);
    }
}

/// The parts of a train, those in memory in their places; returns how many there are.
fn gather<'a>(
    bytes: &'a [u8],
    insets: &[Inset],
    memory: Option<&'a dyn Memory>,
    parts: &mut [IoSlice<'a>],
) -> usize {
    let (mut at, mut count) = (0, 0);
    for inset in insets {
        let memory = memory.expect("insets come with their memory");
        let (from, len) = (inset.from as usize, inset.len);
        parts[count] = IoSlice::new(&bytes[at..inset.at]);
        parts[count + 1] = IoSlice::new(&memory.bytes(inset.block)[from..from + len]);
        (at, count) = (inset.at + len, count + 2);
    }
    parts[count] = IoSlice::new(&bytes[at..]);
    count + 1
}

/// `both`: an IPv6 socket receives IPv4, too.
fn open(addr: SocketAddr, both: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(!both)?;
    }
    socket.bind(&addr.into())?;
    options(socket.as_fd(), addr, both)?;
    // Privileged processes may go beyond the system's limit.
    let buffer = |name| kernel::set(socket.as_fd(), libc::SOL_SOCKET, name, SOCKET_BUFFER);
    let _ = buffer(libc::SO_RCVBUFFORCE).or_else(|_| buffer(libc::SO_RCVBUF));
    let _ = buffer(libc::SO_SNDBUFFORCE).or_else(|_| buffer(libc::SO_SNDBUF));
    Ok(socket.into())
}

/// No fragments; ECN bits set, these and joined trains reported, of both families that the socket
/// receives.
fn options(fd: BorrowedFd<'_>, addr: SocketAddr, both: bool) -> io::Result<()> {
    use libc::{IPPROTO_IP, IPPROTO_IPV6};
    // `PROBE`: don't-fragment is set, and the kernel's own guess of the path's limit does not
    // stand in the way of finding a larger one (RFC 8899, section 4.1).
    if addr.is_ipv6() {
        kernel::set(fd, IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        kernel::set(fd, IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
        kernel::set(fd, IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        kernel::set(fd, IPPROTO_IPV6, libc::IPV6_TCLASS, TOS_USUAL.into())?;
    }
    // On an IPv6 socket these are for the IPv4 datagrams that come through it.
    if both || addr.is_ipv4() {
        kernel::set(fd, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        kernel::set(fd, IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        kernel::set(fd, IPPROTO_IP, libc::IP_TOS, TOS_USUAL.into())?;
    }
    // An old kernel that does not join datagrams still delivers them.
    let _ = kernel::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
    // Without it, how late we wake up counts as time on the way.
    let _ = kernel::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    Ok(())
}

/// Bytes of the IP and UDP headers of a datagram to `remote`.
const fn headers(remote: SocketAddr) -> usize {
    let v6 = match remote.ip() {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
    };
    if v6 { 48 } else { 28 }
}

/// The largest IP packet that the kernel's route to `remote` takes, headers included, in bytes.
pub fn route_mtu(remote: SocketAddr) -> io::Result<u32> {
    let any = if remote.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    let (level, name) = match remote {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    Ok(kernel::get(socket.as_fd(), level, name)?.unsigned_abs())
}

impl AsFd for UdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::SendBatch;
    use towpath_proto::Transmit;

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    /// A link, where to, and a batch of trains of so many bytes, cut every so many.
    fn waiting(trains: &[(usize, usize)]) -> (UdpLink, SocketAddr, SendBatch) {
        let link = UdpLink::bind(LinkId(3), "127.0.0.1:0".parse().unwrap()).expect("a socket");
        let remote = link.local_addr().unwrap();
        let mut batch = SendBatch::new();
        for &(len, segment) in trains {
            assert!(batch.buffer().is_some());
            let (link, tos, not_before) = (LinkId(3), 0, towpath_wire::Instant::ZERO);
            batch.push(Transmit { link, remote, segment, len, tos, not_before });
        }
        (link, remote, batch)
    }

    #[test]
    fn where_trains_are_refused_datagrams_go_one_by_one() {
        for number in [libc::EIO, libc::EINVAL] {
            let (mut link, _, mut batch) = waiting(&[(3000, 1000)]);
            link.refused(&error(number), &mut batch);
            assert!(!link.segmentation && !batch.is_empty(), "it is tried again");
            assert_eq!(link.notice(), Some(Notice::NoSegmentation(error(number).kind())));
            assert_eq!((link.notice(), link.counters.send_errors), (None, 0));
            // One by one, that is an error like any other.
            link.refused(&error(number), &mut batch);
            assert!(batch.is_empty());
            assert_eq!((link.counters.send_errors, link.counters.too_long), (1, 0));
        }
        // A train of one datagram is none.
        let (mut link, _, mut batch) = waiting(&[(1000, 1000)]);
        link.refused(&error(libc::EIO), &mut batch);
        assert!(link.segmentation && batch.is_empty());
        assert_eq!(link.counters.send_errors, 1);
    }

    #[test]
    fn what_is_too_long_is_told_with_its_length() {
        for (len, segment, bytes) in [(3000, 1000, 1000), (500, 1000, 500)] {
            let (mut link, remote, mut batch) = waiting(&[(len, segment), (7, 7)]);
            link.refused(&error(libc::EMSGSIZE), &mut batch);
            let told = link.too_long().expect("it is told");
            assert_eq!((told.remote, told.bytes), (remote, bytes));
            assert!(link.too_long().is_none(), "once");
            assert_eq!((link.counters.too_long, link.counters.send_errors), (1, 0));
            assert_eq!(batch.waiting().count(), 1, "the next one goes");
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_said_once_and_counted() {
        let (mut link, remote, mut batch) = waiting(&[(10, 10), (20, 20), (30, 30)]);
        for refused in 1..=3 {
            link.refused(&error(libc::EPERM), &mut batch);
            let why = io::ErrorKind::PermissionDenied;
            let notice = (refused == 1).then_some(Notice::Refused { why, remote });
            assert_eq!((link.notice(), link.counters.send_errors), (notice, refused));
        }
        assert!(batch.is_empty());
        link.refused(&error(libc::EPERM), &mut batch);
        assert_eq!(link.counters.send_errors, 3, "nothing waited");
    }
}
