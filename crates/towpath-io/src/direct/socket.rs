//! TCP sockets as this route wants them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::shared::aside;

/// Connections that the kernel holds until they are accepted, at most.
const BACKLOG: i32 = 64;
/// A connection that the peer's kernel leaves unanswered for so long while there is something for
/// it ends, and what was on it goes by the daemons. Without this the kernel tries for a quarter of
/// an hour, also where only long packets vanish, which it alone does not find out
/// (`net.ipv4.tcp_mtu_probing` is off where nobody turned it on). Longer than a cut of 5 s and the
/// kernel's next try after it, which comes 6.2 s after the first.
///
/// A receiver that leaves its kernel's buffers full for so long is taken for silent, too (RFC 5482
/// does not say so, tcp(7) does): that costs another way, and nothing else.
pub(super) const SILENT_MAX: Duration = Duration::from_secs(8);
/// Bytes of a segment that every way takes: IPv6 carries packets of 1280 (RFC 8200, section 5).
const SHORT: libc::c_int = 1200;

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

/// Begins to connect; it stands once [`write`] takes something. With `short` segments where there
/// is a network in between.
pub(super) fn connect(address: SocketAddr, short: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags(), None)?;
    if short && !address.ip().is_loopback() {
        shorten(&socket)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => prepare(socket),
        Err(e) => Err(e.into()),
    }
}

/// Neither side sends segments longer than [`SHORT`] on connections that this socket begins or
/// accepts from now on.
pub(super) fn shorten(socket: &OwnedFd) -> io::Result<()> {
    let bytes: libc::c_int = SHORT;
    // SAFETY: the kernel reads one `c_int`, which `bytes` is, alive during the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn prepare(socket: OwnedFd) -> io::Result<OwnedFd> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, SILENT_MAX.as_millis() as u32)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(socket: &OwnedFd) -> libc::c_int {
        let mut bytes: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes one `c_int` at most; both are alive during the call.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_MAXSEG,
                (&raw mut bytes).cast(),
                &raw mut len,
            )
        };
        assert_eq!(rc, 0);
        bytes
    }

    #[test]
    fn both_ends_give_a_silent_connection_up_after_seconds() {
        let listener = listen().unwrap();
        let at = ([127, 0, 0, 1], port(&listener).unwrap()).into();
        let dialled = connect(at, false).unwrap();
        let accepted = std::iter::repeat_with(|| accept(&listener).unwrap()).find_map(|s| s);
        for socket in [dialled, accepted.unwrap()] {
            let millis = sockopt::tcp_user_timeout(&socket).unwrap();
            assert_eq!(u128::from(millis), SILENT_MAX.as_millis());
        }
    }

    #[test]
    fn a_listener_that_was_shortened_keeps_both_ends_short_and_loopback_is_dialled_as_ever() {
        let listener = listen().unwrap();
        let at = ([127, 0, 0, 1], port(&listener).unwrap()).into();
        let long = longest(&connect(at, true).unwrap());
        assert!(long > SHORT, "{long}");
        shorten(&listener).unwrap();
        let short = longest(&connect(at, false).unwrap());
        assert!(short <= SHORT, "{short}");
    }
}
