//! Where frames come from and go to.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::Context;

use crate::tun::{Layer, TunDevice};

/// An interface of which frames are taken and to which they are given.
pub(crate) enum Device {
    /// Made for the purpose.
    Tun(TunDevice, Layer),
    /// A packet socket on one that is there (packet(7)).
    Packet(OwnedFd),
}

impl Device {
    /// The interface of this name in the network namespace of the calling thread, everything that
    /// it receives included.
    pub(crate) fn packet(name: &str) -> anyhow::Result<Self> {
        let socket = packet_socket(name);
        let hint = "hint: it takes root (CAP_NET_RAW); `ip link` lists the interfaces";
        Ok(Self::Packet(socket.with_context(|| format!("cannot take frames of {name}\n{hint}"))?))
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
            Self::Packet(socket) => {
                match rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty()) {
                    Ok((len, _)) => Ok(Some(len)),
                    // It is down at the moment.
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NETDOWN) => Ok(None),
                    Err(e) => Err(e.into()),
                }
            }
        }
    }

    /// Gives a frame; false when there is no room for it, or the interface is down.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<bool> {
        let sent = match self {
            Self::Tun(tun, _) => tun.send(frame),
            Self::Packet(socket) => {
                let sent = rustix::net::send(socket, frame, rustix::net::SendFlags::empty());
                sent.map(|_| true).map_err(Into::into)
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
    // SAFETY: all-zero bytes are a valid `packet_mreq`.
    let mut all: libc::packet_mreq = unsafe { std::mem::zeroed() };
    (all.mr_ifindex, all.mr_type) = (index as i32, libc::PACKET_MR_PROMISC as u16);
    option(&socket, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol as u16;
    address.sll_ifindex = index as i32;
    let (at, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: `at` is a whole `sockaddr_ll`, alive during the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), at.cast(), len) })?;
    Ok(socket)
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
