//! Where frames come from and go to.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, ensure};

use crate::tun::{Layer, TunDevice};

/// An interface of which frames are taken and to which they are given.
pub(crate) enum Device {
    /// Made for the purpose.
    Tun(TunDevice, Layer),
    /// A packet socket on one that is there (packet(7)), with a header before each frame that says
    /// what the kernel has left to be done.
    Packet(OwnedFd),
}

impl Device {
    /// The interface of this name in the network namespace of the calling thread, everything that
    /// it receives included.
    /// `mtu`: bytes of the longest packet that it must take.
    pub(crate) fn packet(name: &str, mtu: u32) -> anyhow::Result<Self> {
        let hint = "hint: it takes root (CAP_NET_RAW); `ip link` lists the interfaces";
        let socket = packet_socket(name);
        let socket = socket.with_context(|| format!("cannot take frames of {name}\n{hint}"))?;
        let has = mtu_of(&socket, name)?;
        ensure!(has >= mtu, "the MTU of {name} is {has}\nhint: --mtu {has}, or ip link set it");
        Ok(Self::Packet(socket))
    }

    pub(crate) const fn layer(&self) -> Layer {
        match self {
            Self::Tun(_, layer) => *layer,
            Self::Packet(_) => Layer::Ethernet,
        }
    }

    /// Takes a frame; `None` when there is none now. One that is longer than the buffer gives the
    /// buffer's length.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Tun(tun, _) => tun.receive(buffer),
            Self::Packet(socket) => receive(socket, buffer),
        }
    }

    /// Gives a frame; false when there is no room for it, or the interface is down.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<bool> {
        let sent = match self {
            Self::Tun(tun, _) => tun.send(frame),
            Self::Packet(socket) => {
                let parts = [IoSlice::new(&[0; VNET_HEADER]), IoSlice::new(frame)];
                rustix::io::writev(socket, &parts).map(|_| true).map_err(Into::into)
            }
        };
        match sent {
            // A damaged header is no header.
            Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(true),
            Err(e) if is_full(&e) => Ok(false),
            other => other,
        }
    }
}

fn is_full(e: &io::Error) -> bool {
    let full = [libc::EAGAIN, libc::ENOBUFS, libc::ENETDOWN, libc::EIO];
    e.raw_os_error().is_some_and(|code| full.contains(&code))
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun, _) => tun.as_fd(),
            Self::Packet(socket) => socket.as_fd(),
        }
    }
}

/// Bytes of `struct virtio_net_hdr`: flags, kind of train, length of headers, of a segment, start
/// and offset of the checksum, little-endian as the machine is.
const VNET_HEADER: usize = 10;
/// The checksum is left to the interface.
const NEEDS_CHECKSUM: u8 = 1;

/// A frame as it would be on a cable; a train of segments is as long as the buffer.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut header = [0; VNET_HEADER];
    let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)];
    let len = match rustix::io::readv(socket, parts) {
        Ok(len) => len.saturating_sub(VNET_HEADER),
        // It is down at the moment.
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NETDOWN) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let [flags, train, _, _, _, _, start0, start1, offset0, offset1] = header;
    if train != 0 {
        return Ok(Some(buffer.len()));
    }
    if flags & NEEDS_CHECKSUM != 0 {
        let start = usize::from(u16::from_ne_bytes([start0, start1]));
        let offset = usize::from(u16::from_ne_bytes([offset0, offset1]));
        complete(&mut buffer[..len], start, offset);
    }
    Ok(Some(len))
}

/// Puts the Internet checksum (RFC 1071) of what begins at `start` to `offset` after it, where the
/// sum of the pseudo-header stands already. A frame that is too short stays as it is.
fn complete(frame: &mut [u8], start: usize, offset: usize) {
    let Some(summed) = frame.get_mut(start..) else { return };
    if summed.len() < offset + 2 {
        return;
    }
    let words = summed.chunks(2).map(|word| match word {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        rest => rest.first().map_or(0, |high| u64::from(*high) << 8),
    });
    let mut sum: u64 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // 0 says of UDP that there is none.
    let checksum = match !(sum as u16) {
        0 => u16::MAX,
        checksum => checksum,
    };
    summed[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn packet_socket(name: &str) -> io::Result<OwnedFd> {
    let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing is received before it is bound, of no other interface either.
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the call gave it to us alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let index = rustix::net::netdevice::name_to_index(&socket, name)?;
    // Not what we send ourselves.
    option(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    option(&socket, libc::PACKET_VNET_HDR, &1i32)?;
    // SAFETY: all-zero bytes are a valid `packet_mreq`.
    let mut all: libc::packet_mreq = unsafe { std::mem::zeroed() };
    (all.mr_ifindex, all.mr_type) = (index.cast_signed(), libc::PACKET_MR_PROMISC as u16);
    option(&socket, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol as u16;
    address.sll_ifindex = index.cast_signed();
    let (at, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: `at` is a whole `sockaddr_ll`, alive during the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), at.cast(), len) })?;
    Ok(socket)
}

fn mtu_of(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // What is too long a name was refused; the last byte stays 0.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let (fd, at) = (socket.as_raw_fd(), &raw mut request);
    // SAFETY: `at` is a whole `ifreq` with a terminated name, alive during the call.
    checked(unsafe { libc::ioctl(fd, libc::SIOCGIFMTU, at) })?;
    // SAFETY: the call filled in this field.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned())
}

fn option<T>(socket: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let (at, len) = (std::ptr::from_ref(value), size_of::<T>() as libc::socklen_t);
    let fd = socket.as_raw_fd();
    // SAFETY: `at` is a whole value of the option's type, alive during the call.
    checked(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, name, at.cast(), len) }).map(drop)
}

fn checked(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn a_checksum_is_completed_where_it_stands() {
        // UDP from 10.0.0.1:1 to 10.0.0.2:2, three bytes; the field holds the pseudo-header's sum.
        let pseudo: u32 = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 11;
        let [high, low] = (pseudo as u16).to_be_bytes();
        let mut frame = [9, 9, 0, 1, 0, 2, 0, 11, high, low, 1, 2, 3];
        complete(&mut frame, 2, 6);
        let field = u32::from(u16::from_be_bytes([frame[8], frame[9]]));
        // Everything summed is all ones.
        let all = pseudo + 0x0001 + 0x0002 + 11 + field + 0x0102 + 0x0300;
        assert_eq!((all & 0xffff) + (all >> 16), 0xffff);
        complete(&mut frame, 40, 6);
        complete(&mut frame, 2, 10);
    }
}
