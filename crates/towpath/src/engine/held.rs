//! Sockets of tasks' streams, held beside the tasks.
//!
//! When a task is killed, its kernel closes its sockets. Where one had something unread, or its
//! peer writes to it afterwards, the kernel resets the connection and throws away what was not yet
//! sent. As long as the daemon holds the socket too, it does not. When the task is over, the daemon
//! closes the stream for writing and throws away what still comes, so that the peer's end can come;
//! with that, or when the peer is silent, the socket goes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{RecvFlags, Shutdown, shutdown};

use super::core::Engine;
use super::poll::Interest;

/// Keys of held sockets in `epoll` begin here.
pub(super) const KEY_HELD: u64 = 1 << 62;
/// Sockets held for one task at most; further ones go when their task goes.
const OF_TASK_MAX: usize = 256;
/// Sockets held at most.
const HELD_MAX: usize = 16_384;
/// Bytes of a buried stream that are read at once, and thrown away, and how often in one turn.
const DISCARDED: usize = 64 << 10;
const DISCARDS: usize = 16;
/// How long the kernel waits for a silent peer of a task that is over.
const SILENCE_MS: u32 = 30_000;

/// All of them, by key.
#[derive(Default)]
pub(super) struct Held {
    all: BTreeMap<u64, Socket>,
    next: u64,
}

struct Socket {
    fd: OwnedFd,
    /// The conversation of the task that it is of.
    conversation: u64,
    /// That task is over.
    buried: bool,
}

impl Held {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// Has the kernel give a silent peer up, as it would for a socket that nobody holds.
fn bury(fd: &OwnedFd) -> io::Result<()> {
    sockopt::set_tcp_user_timeout(fd, SILENCE_MS)?;
    sockopt::set_tcp_keepidle(fd, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(fd, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(fd, 2)?;
    sockopt::set_socket_keepalive(fd, true)?;
    Ok(shutdown(fd, Shutdown::Write)?)
}

impl Engine {
    /// A task hands in the socket of a stream.
    pub(super) fn hold(&mut self, conversation: u64) {
        // Those of tasks that go on are worth more than one whose peer never reads to its end.
        let buried = || self.held.all.iter().find(|(_, s)| s.buried).map(|(key, _)| *key);
        if self.held.all.len() >= HELD_MAX
            && let Some(oldest) = buried()
        {
            self.let_go(oldest);
        }
        let full = self.held.all.len() >= HELD_MAX;
        let Some((fd, sockets)) = self.conversations.handed(conversation) else { return };
        let is_tcp = sockopt::tcp_nodelay(&fd).is_ok();
        // Closing must never wait for a peer.
        let closes = sockopt::set_socket_linger(&fd, None).is_ok();
        let key = KEY_HELD + self.held.next;
        if full || sockets.len() >= OF_TASK_MAX || !is_tcp || !closes {
            return;
        }
        if self.poll.add_for_end(&fd, key).is_ok() {
            sockets.push(key);
            self.held.next += 1;
            self.held.all.insert(key, Socket { fd, conversation, buried: false });
        }
    }

    /// A held socket is over: both ends are closed, or the kernel has given it up. A buried one
    /// may also have something to throw away.
    pub(super) fn serve_held(&mut self, key: u64) {
        let Some(Socket { fd, buried, .. }) = self.held.all.get(&key) else { return };
        if *buried {
            let into = self.buf.get_mut(..DISCARDED).expect("the buffer is that long");
            for _ in 0..DISCARDS {
                match rustix::net::recv(fd, &mut *into, RecvFlags::DONTWAIT) {
                    Ok((n, _)) if n > 0 => {}
                    Err(Errno::AGAIN | Errno::INTR) => return,
                    // The peer sends no more: the kernel goes on alone with what is left.
                    Ok(_) | Err(_) => return self.let_go(key),
                }
            }
        } else {
            self.let_go(key);
        }
    }

    fn let_go(&mut self, key: u64) {
        let Some(Socket { fd, conversation, .. }) = self.held.all.remove(&key) else { return };
        let _ = self.poll.remove(&fd);
        self.conversations.forget_held(conversation, key);
    }

    /// A task is over: what it has written is sent still.
    pub(super) fn bury_held(&mut self, keys: &[u64]) {
        for key in keys {
            let Some(Socket { fd, buried, .. }) = self.held.all.get_mut(key) else { continue };
            *buried = true;
            let watched = self.poll.set_interest(&*fd, *key, Interest::READ);
            if bury(fd).is_err() || watched.is_err() {
                self.let_go(*key);
            }
        }
    }
}
