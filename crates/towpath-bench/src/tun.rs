//! TUN and TAP devices: a network interface whose packets or frames a program takes and gives.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Longest name of an interface, in bytes.
pub(crate) const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// What passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// IP packets (a TUN device).
    Ip,
    /// Ethernet frames without check sequence (a TAP device).
    Ethernet,
}

/// One interface; it is gone when this is dropped. It may be moved into another network namespace
/// meanwhile.
#[derive(Debug)]
pub(crate) struct TunDevice {
    file: File,
}

impl TunDevice {
    /// Makes an interface of this name in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a name that is empty or longer than [`NAME_MAX`] bytes;
    /// otherwise whatever the kernel says, as where the caller may not administer the namespace.
    pub(crate) fn open(name: &str, layer: Layer) -> io::Result<Self> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
            let what = format!("{name:?} is no interface's name: 1 to {NAME_MAX} bytes");
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun")?;
        // SAFETY: all-zero bytes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        let kind = match layer {
            Layer::Ip => libc::IFF_TUN,
            Layer::Ethernet => libc::IFF_TAP,
        };
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: `request` is a whole `ifreq` with a terminated name, alive during the call.
        let rc = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { file }) }
    }

    /// Takes a packet that the kernel sends over the interface; `None` when there is none now.
    /// What does not fit into `buffer` is cut off.
    ///
    /// # Errors
    /// Whatever the kernel says, as where the interface is not up.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Gives a packet to the kernel, as if it came over the interface. False when the kernel has
    /// no room for it.
    ///
    /// # Errors
    /// Whatever the kernel says, as of bytes that are no IP packet.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<bool> {
        match (&self.file).write(packet) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for TunDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_limit() {
        for name in ["", "sixteen_letters_", "a\0b"] {
            assert_eq!(
                TunDevice::open(name, Layer::Ip).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
    }
}
