//! TCP sockets as this route wants them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::shared::aside;

/// Connections that the kernel holds until they are accepted, at most.
const BACKLOG: i32 = 64;
fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
}

/// Listens on a port of the kernel's choice, at all addresses.
pub(super) fn listen() -> io::Result<OwnedFd> {
    let open = |family| rustix::net::socket_with(family, SocketType::STREAM, flags(), None);
    let any_v6 = || -> Result<OwnedFd, Errno> {
        let socket = open(AddressFamily::INET6)?;
        sockopt::set_ipv6_v6only(&socket, false)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))?;
        Ok(socket)
    };
    let any_v4 = || -> Result<OwnedFd, Errno> {
        let socket = open(AddressFamily::INET)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        Ok(socket)
    };
    let socket = any_v6().or_else(|_| any_v4())?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(aside(socket))
}

/// The port that a socket is bound to.
pub(super) fn port(socket: &OwnedFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(address.port())
}

/// The next connection; `None` when there is none now.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    loop {
        match rustix::net::accept_with(listener, flags()) {
            Ok(socket) => return prepare(socket).map(Some),
            // A connection that was reset while it waited says so here; the next may be fine.
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Begins to connect; it stands once [`write`] takes something.
pub(super) fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags(), None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => prepare(socket),
        Err(e) => Err(e.into()),
    }
}

fn prepare(socket: OwnedFd) -> io::Result<OwnedFd> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(aside(socket))
}

/// Gives bytes to the kernel, as many as it takes; `None` when it takes none now.
pub(super) fn write(socket: impl AsFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    use rustix::net::SendFlags;
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Takes bytes from the kernel; `None` when there are none now, 0 when there will be none.
pub(super) fn read(socket: impl AsFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::net::recv(&socket, &mut *into, rustix::net::RecvFlags::DONTWAIT) {
            Ok((n, _)) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// How fast the kernel has seen bytes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Bytes a second; 0: not known yet.
    pub(super) bytes_per_s: u64,
    /// The sender had no more to send: the way may be faster.
    pub(super) at_least: bool,
    /// Bytes that have arrived so far.
    pub(super) bytes: u64,
}

/// What the kernel measured of the way to the peer (`tcp_info`, linux/tcp.h).
pub(super) fn delivery(socket: &OwnedFd) -> Option<Delivery> {
    /// Where the flag, the count and the rate stand; there since Linux 4.9.
    const FLAGS: usize = 7;
    const ACKNOWLEDGED: usize = 120;
    const RATE: usize = 160;
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which has as many, and into `len`
    // how many those were; both are alive during the call.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if rc != 0 || (len as usize) < RATE + 8 {
        return None;
    }
    let number = |at: usize| Some(u64::from_ne_bytes(info[at..].first_chunk().copied()?));
    let (bytes_per_s, bytes) = (number(RATE)?, number(ACKNOWLEDGED)?);
    Some(Delivery { bytes_per_s, at_least: info[FLAGS] & 1 != 0, bytes })
}

/// Bytes that the peer's kernel has not acknowledged.
pub(super) fn unacknowledged(socket: &OwnedFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one `c_int`, which `bytes` is, alive during the call.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(usize::try_from(bytes).unwrap_or(0)) }
}
