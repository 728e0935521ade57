//! `sendmmsg` and `recvmmsg` with segmentation offload and ECN, without an allocation.
//!
//! No crate offers both calls with control messages of each message's own: that is why there is
//! `unsafe` here. Every header is built on the stack, used in one call and gone when it returns,
//! so that no pointer outlives what it points to.

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// Bytes for the control messages of one message: type of service and segment size need 24 each,
/// the time of arrival 32.
const CONTROL: usize = 96;

/// Parts of one message at most (`UIO_MAXIOV`).
pub(super) const PARTS_MAX: usize = 1024;

/// Aligned as the kernel wants control messages.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

const _: () = assert!(align_of::<Control>() >= align_of::<cmsghdr>());

/// Datagrams for one destination: the bytes of all `parts`, cut every `segment` bytes.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) remote: SocketAddr,
    /// At most [`PARTS_MAX`].
    pub(super) parts: &'a [IoSlice<'a>],
    /// Bytes of all parts.
    pub(super) len: usize,
    /// At least 1; at or above `len` for a single datagram.
    pub(super) segment: usize,
    /// The traffic class: DSCP and ECN.
    pub(super) tos: u8,
}

/// The traffic class that a socket puts on what says nothing else: DSCP 0 and ECT(0), as nearly all
/// carry it.
pub(super) const TOS_USUAL: u8 = 2;

/// Datagrams received in one buffer: `len` bytes, cut every `segment` bytes.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    pub(super) remote: SocketAddr,
    pub(super) len: usize,
    pub(super) segment: usize,
    pub(super) tos: u8,
    /// Nanoseconds since the Unix epoch at which the kernel got the first of them; 0: not told.
    pub(super) came_ns: u64,
    /// The kernel had more than the buffer holds.
    pub(super) cut: bool,
}

impl Incoming {
    pub(super) const EMPTY: Self = Self {
        remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        len: 0,
        segment: 1,
        tos: 0,
        came_ns: 0,
        cut: false,
    };
}

/// Sets an option whose value is an integer.
pub(super) fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let (at, len) = (ptr::from_ref(&value).cast::<c_void>(), size_of::<c_int>() as u32);
    // SAFETY: `at` points to `len` readable bytes for the time of the call.
    let rc = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is an integer.
pub(super) fn get(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let (mut value, mut len) = (0, size_of::<c_int>() as u32);
    let (at, len) = (ptr::from_mut(&mut value).cast::<c_void>(), &raw mut len);
    // SAFETY: `at` points to as many writable bytes as `len` says, for the time of the call.
    let rc = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, len) };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Hands up to `N` of `messages` to the kernel in one call; returns how many it took, at least
/// one. An error concerns the first.
pub(super) fn send<const N: usize>(
    fd: BorrowedFd<'_>,
    messages: &[Outgoing<'_>],
) -> io::Result<usize> {
    let count = messages.len().min(N);
    let mut names = [MaybeUninit::<sockaddr_in6>::uninit(); N];
    let mut controls = [Control([0; CONTROL]); N];
    // SAFETY: all-zero bytes are a valid `mmsghdr`: null pointers and zero lengths.
    let mut headers: [mmsghdr; N] = unsafe { MaybeUninit::zeroed().assume_init() };
    for (i, message) in messages[..count].iter().enumerate() {
        let header = &mut headers[i].msg_hdr;
        header.msg_namelen = write_name(&message.remote, &mut names[i]);
        header.msg_name = names[i].as_mut_ptr().cast();
        // `IoSlice` is promised to have the layout of `iovec`.
        header.msg_iov = message.parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = message.parts.len();
        header.msg_controllen = write_control(message, &mut controls[i]);
        header.msg_control = controls[i].0.as_mut_ptr().cast();
    }
    loop {
        // SAFETY: the first `count` headers were filled above; their names, parts and control
        // bytes live until after the call, and the kernel only reads through them (`msg_iov`
        // is mutable for the receiving call's sake).
        let n = unsafe {
            if count == 1 {
                // Half a microsecond less.
                let sent = send_one(fd, &headers[0].msg_hdr);
                sent.signum() as c_int | c_int::from(sent == 0)
            } else {
                let (at, flags) = (headers.as_mut_ptr(), libc::MSG_NOSIGNAL);
                libc::sendmmsg(fd.as_raw_fd(), at, count as u32, flags)
            }
        };
        match usize::try_from(n) {
            Ok(n) => return Ok(n),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}

/// Sends what `header` says, by the cheapest call that can.
///
/// # Safety
///
/// What `header` points to must be readable.
unsafe fn send_one(fd: BorrowedFd<'_>, header: &libc::msghdr) -> isize {
    let (fd, flags) = (fd.as_raw_fd(), libc::MSG_NOSIGNAL);
    // SAFETY: the caller's promise; there is a part where `msg_iovlen` is 1.
    unsafe {
        if header.msg_iovlen == 1 && header.msg_controllen == 0 {
            let part = *header.msg_iov;
            let (at, len) = (part.iov_base, part.iov_len);
            libc::sendto(fd, at, len, flags, header.msg_name.cast(), header.msg_namelen)
        } else {
            libc::sendmsg(fd, header, flags)
        }
    }
}

/// Receives up to `N` trains in one call, told in `metas`, the i-th into the i-th `size` bytes of
/// `buffer`.
pub(super) fn receive<const N: usize>(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    size: usize,
    metas: &mut [Incoming],
) -> io::Result<usize> {
    let mut names = [MaybeUninit::<sockaddr_storage>::uninit(); N];
    let mut slices = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; N];
    let mut controls = [Control([0; CONTROL]); N];
    // SAFETY: all-zero bytes are a valid `mmsghdr`: null pointers and zero lengths.
    let mut headers: [mmsghdr; N] = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut count = 0;
    for (i, part) in buffer.chunks_exact_mut(size).take(N).enumerate() {
        slices[i] = iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        let header = &mut headers[i].msg_hdr;
        header.msg_name = names[i].as_mut_ptr().cast();
        header.msg_namelen = size_of::<sockaddr_storage>() as u32;
        header.msg_iov = &raw mut slices[i];
        header.msg_iovlen = 1;
        header.msg_control = controls[i].0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL;
        count = i + 1;
    }
    // SAFETY: the first `count` headers were filled above; names, slices and control bytes live
    // until after the call, and each slice is a part of `buffer` of its own, borrowed mutably.
    let n = unsafe {
        let (at, no_timeout) = (headers.as_mut_ptr(), ptr::null_mut());
        if count == 1 {
            // Half a microsecond less.
            let len = libc::recvmsg(fd.as_raw_fd(), &raw mut (*at).msg_hdr, libc::MSG_DONTWAIT);
            (*at).msg_len = u32::try_from(len).unwrap_or(0);
            if len < 0 { -1 } else { 1 }
        } else {
            libc::recvmmsg(fd.as_raw_fd(), at, count as u32, libc::MSG_DONTWAIT, no_timeout)
        }
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    for ((header, name), meta) in headers[..n].iter().zip(&names).zip(metas) {
        let len = header.msg_len as usize;
        let told = read_control(&header.msg_hdr, len);
        *meta = Incoming {
            remote: read_name(name, header.msg_hdr.msg_namelen).unwrap_or(Incoming::EMPTY.remote),
            len,
            segment: told.segment.max(1),
            tos: told.tos,
            came_ns: told.came_ns,
            cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
    }
    Ok(n)
}

/// Writes an address as the kernel wants it; returns its length.
fn write_name(addr: &SocketAddr, name: &mut MaybeUninit<sockaddr_in6>) -> u32 {
    const { assert!(size_of::<sockaddr_in>() <= size_of::<sockaddr_in6>()) }
    const { assert!(align_of::<sockaddr_in>() <= align_of::<sockaddr_in6>()) }
    match addr {
        SocketAddr::V4(v4) => {
            let value = sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: an IPv4 address is smaller and no more aligned than `name` (asserted).
            unsafe { name.as_mut_ptr().cast::<sockaddr_in>().write(value) };
            size_of::<sockaddr_in>() as u32
        }
        SocketAddr::V6(v6) => {
            name.write(sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            });
            size_of::<sockaddr_in6>() as u32
        }
    }
}

/// An IPv4 address that a socket for both families saw as an IPv6 one comes back as IPv4.
fn read_name(name: &MaybeUninit<sockaddr_storage>, len: u32) -> Option<SocketAddr> {
    let at = name.as_ptr();
    if len as usize == size_of::<sockaddr_in>() {
        // SAFETY: the kernel wrote `len` bytes, an IPv4 address; the storage is aligned for any.
        let v4 = unsafe { at.cast::<sockaddr_in>().read() };
        let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
        return Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
    }
    if len as usize == size_of::<sockaddr_in6>() {
        // SAFETY: as above, an IPv6 address.
        let v6 = unsafe { at.cast::<sockaddr_in6>().read() };
        let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
        let port = u16::from_be(v6.sin6_port);
        return Some(match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddrV4::new(ip, port).into(),
            None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
        });
    }
    None
}

/// Appends one control message; returns the bytes used so far.
fn push<T>(control: &mut Control, used: usize, level: c_int, kind: c_int, value: T) -> usize {
    // SAFETY: computes lengths only.
    let (space, len) = unsafe {
        let size = size_of::<T>() as u32;
        (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size) as usize)
    };
    assert!(used + space <= CONTROL, "control messages fit their buffer");
    // SAFETY: `space` bytes from `used` on are ours (asserted); `used` is a sum of CMSG_SPACEs,
    // so `at` is aligned for a header; the data's place may not be aligned for `T`.
    unsafe {
        let at = ptr::from_mut(control).cast::<cmsghdr>().byte_add(used);
        (*at).cmsg_len = len;
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        libc::CMSG_DATA(at).cast::<T>().write_unaligned(value);
    }
    used + space
}

fn write_control(message: &Outgoing<'_>, control: &mut Control) -> usize {
    let mut used = 0;
    if message.tos != TOS_USUAL {
        let (level, kind) = match message.remote {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        used = push(control, used, level, kind, c_int::from(message.tos));
    }
    if message.segment < message.len {
        used = push(control, used, libc::SOL_UDP, libc::UDP_SEGMENT, message.segment as u16);
    }
    used
}

/// What control messages tell: see [`Incoming`]. `segment` is the length where the kernel joined
/// nothing.
struct Told {
    segment: usize,
    tos: u8,
    came_ns: u64,
}

fn read_control(header: &libc::msghdr, len: usize) -> Told {
    let mut told = Told { segment: len, tos: 0, came_ns: 0 };
    // SAFETY: the kernel wrote `msg_controllen` bytes of control messages where `msg_control`
    // points; the macros keep within them.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !at.is_null() {
        // SAFETY: `at` is a whole control message; the data of these kinds is an int, of the
        // type of service one byte, of the time of arrival a timespec.
        unsafe {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    told.segment = data.cast::<c_int>().read_unaligned().max(1) as usize;
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => told.tos = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    told.tos = data.cast::<c_int>().read_unaligned() as u8;
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let t = data.cast::<libc::timespec>().read_unaligned();
                    told.came_ns = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn all_of_the_traffic_class_goes_along_on_both_families() {
        for (ip, level, name) in [
            ("127.0.0.1:0", libc::IPPROTO_IP, libc::IP_RECVTOS),
            ("[::1]:0", libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        ] {
            let Ok(far) = UdpSocket::bind(ip) else {
                eprintln!("no {ip} here");
                continue;
            };
            set(far.as_fd(), level, name, 1).unwrap();
            let (near, remote) = (UdpSocket::bind(ip).unwrap(), far.local_addr().unwrap());
            for tos in [0xb8, 0xb8 | 2, 1, 0xff] {
                let parts = &[IoSlice::new(b"here")];
                send::<1>(near.as_fd(), &[Outgoing { remote, parts, len: 4, segment: 4, tos }])
                    .unwrap();
                let (mut metas, mut buffer) = ([Incoming::EMPTY], [0; 64]);
                far.peek(&mut buffer).unwrap();
                assert_eq!(receive::<1>(far.as_fd(), &mut buffer, 64, &mut metas).unwrap(), 1);
                assert_eq!((metas[0].len, metas[0].tos), (4, tos), "{ip}");
            }
        }
    }
}
