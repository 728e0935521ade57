//! What a guard says for its engine when that ends without a word of its own: to those it had to
//! do with, so that they need not wait until it has been silent for long enough.
//!
//! The engine keeps its last words on a [`Sheet`], memory that both share; the guard, which has the
//! host's key, says them once the engine is over. Each is a handshake that names the host in the
//! life that ended, and that nobody has to accept: the refusal is the answer.
//!
//! ```text
//! two halves of 64 KiB, the one with the later number counts, if it is whole:
//! 0..8 number (u64) | 8..12 length (u32) | 12..20 FNV-1a of the rest | 20.. words
//! words: a `LastWords`, as postcard has it
//! ```
//! Integers are little-endian; nothing of it leaves the machine, or outlives the two processes.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use towpath_io::{Clock, LinkDriver, RealCrypto, Turn, UdpLink};
use towpath_node::{LastWords, Node};
use towpath_proto::{
    Config, Connect, ConnectFailure, Endpoint, EndpointEvent, HeapMemory, HostKey, Machine, Psk,
    Rng,
};
use towpath_wire::{Admission, ByteSize, LinkId};
use zeroize::Zeroizing;

use crate::private::Dir;
use crate::table::checksum;

/// Bytes of one half.
const HALF: usize = 64 << 10;
/// Bytes before the words.
const HEAD: usize = 20;
/// How long the guard goes on telling whoever does not answer.
const TELL_FOR: Duration = Duration::from_secs(2);
const LINK: LinkId = LinkId(0);

/// Memory that a guard and its engine share. Invariant: one of the halves is whole, or neither was
/// ever written.
#[derive(Debug)]
pub(crate) struct Sheet {
    file: File,
    number: u64,
}

impl Sheet {
    /// An empty one.
    pub(crate) fn make() -> io::Result<Self> {
        let file = File::from(memfd_create(c"towpath last words", MemfdFlags::CLOEXEC)?);
        file.set_len(2 * HALF as u64)?;
        Ok(Self { file, number: 0 })
    }

    /// Where a process that this one starts finds it, as long as this one lives: tasks, which may
    /// outlive it, do not inherit it.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The one that another process has made.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self { file, number: 0 })
    }

    /// Has these words on it from now on; `None`: there is nothing to say.
    pub(crate) fn write(&mut self, words: Option<&LastWords>) -> io::Result<()> {
        let words = words.map(postcard::to_allocvec).transpose().map_err(io::Error::other)?;
        let words = words.unwrap_or_default();
        if HEAD + words.len() > HALF {
            return Err(io::Error::other(format!(
                "{} bytes of last words, limit {HALF}",
                words.len()
            )));
        }
        self.number += 1;
        let mut half = Vec::with_capacity(HEAD + words.len());
        half.extend_from_slice(&self.number.to_le_bytes());
        half.extend_from_slice(&(words.len() as u32).to_le_bytes());
        half.extend_from_slice(&checksum(&words));
        half.extend_from_slice(&words);
        self.file.write_all_at(&half, (self.number % 2) * HALF as u64)
    }

    /// What stands on it.
    pub(crate) fn read(&self) -> Option<LastWords> {
        let half = |which: u64| {
            let mut bytes = vec![0; HALF];
            self.file.read_exact_at(&mut bytes, which * HALF as u64).ok()?;
            let number = u64::from_le_bytes(*bytes.first_chunk()?);
            let len = u32::from_le_bytes(*bytes[8..].first_chunk()?) as usize;
            let words = bytes.get(HEAD..HEAD.checked_add(len)?)?;
            let whole = checksum(words) == bytes[12..HEAD];
            (number > 0 && whole).then(|| (number, words.to_vec()))
        };
        let latest = [half(0), half(1)].into_iter().flatten().max_by_key(|(number, _)| *number)?;
        postcard::from_bytes(&latest.1).ok()
    }
}

/// The engine's side of a sheet.
#[derive(Debug)]
pub(crate) struct Bequest {
    sheet: Option<Sheet>,
    as_of: (u64, u64),
}

impl Bequest {
    pub(crate) const fn new(sheet: Option<Sheet>) -> Self {
        Self { sheet, as_of: (0, 0) }
    }

    /// Has on the sheet what is to be said for the host as it stands.
    pub(crate) fn look_at(&mut self, node: &Node) {
        let as_of = node.last_words_as_of();
        if self.as_of != as_of
            && let Some(sheet) = &mut self.sheet
        {
            self.as_of = as_of;
            // In vain only without memory: then the others find out by themselves.
            let _ = sheet.write(node.last_words().as_ref());
        }
    }

    /// The host has said all itself.
    pub(crate) fn clear(&mut self) {
        if let Some(sheet) = &mut self.sheet {
            let _ = sheet.write(None);
        }
    }
}

/// How long the others may have to wait for an engine's tasks to end before they hear of its end.
const ENDS_WITHIN: Duration = Duration::from_millis(200);

/// The engine is over: what it had to say and could not is said, on a thread of its own, once its
/// tasks have ended, or have had time to: what ran there is begun elsewhere then.
#[derive(Debug)]
pub(crate) struct Telling {
    ended: Sender<()>,
    thread: JoinHandle<()>,
}

impl Telling {
    /// With the key in this file of a directory, wherever that is by now. `None`: it has said all.
    pub(crate) fn begin(sheet: &Sheet, dir: &Dir, key: &str) -> Option<Self> {
        let words = sheet.read()?;
        let mut secret = Zeroizing::new([0; 32]);
        dir.secret(key, OFlags::RDONLY).ok()?.read_exact(&mut *secret).ok()?;
        let (ended, wait) = mpsc::channel();
        let tell = move || {
            let _ = wait.recv_timeout(ENDS_WITHIN);
            let all = words.to.len();
            match say(&words, &secret) {
                Ok(told) => tracing::info!("{told} of {all} hosts know that the engine has ended"),
                Err(e) => tracing::warn!("nobody could be told that the engine has ended: {e}"),
            }
        };
        Some(Self { ended, thread: std::thread::spawn(tell) })
    }

    /// Nothing of it is left; waits until all have been told.
    pub(crate) fn tasks_have_ended(self) {
        drop(self.ended);
        let _ = self.thread.join();
    }
}

/// Says them with the host's key, for two seconds at most; how many have answered.
fn say(words: &LastWords, secret: &Zeroizing<[u8; 32]>) -> io::Result<usize> {
    let tell = |v6: bool| -> io::Result<usize> {
        let to: Vec<_> = words.to.iter().filter(|to| to.0.is_ipv6() == v6).collect();
        if to.is_empty() {
            return Ok(0);
        }
        let any: IpAddr =
            if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let link = UdpLink::bind(LINK, SocketAddr::new(any, 0)).map_err(io::Error::other)?;
        Ok(Teller::new(link, secret).tell(&words.hello, &to))
    };
    // Side by side: those of one family need not wait for those of the other that do not answer.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| tell(true));
        let told = tell(false)?;
        Ok(told + other.join().unwrap_or(Ok(0))?)
    })
}

/// Handshakes on a socket of their own.
struct Teller {
    endpoint: Endpoint,
    memory: HeapMemory,
    driver: LinkDriver,
    clock: Clock,
}

impl Teller {
    fn new(link: UdpLink, secret: &Zeroizing<[u8; 32]>) -> Self {
        let seed = RealCrypto::generate_secret();
        let half = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&seed[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let clock = Clock::start();
        let unix_ns_at_zero = clock.unix_us_at_zero().saturating_mul(1000);
        let config = Config { unix_ns_at_zero, ..Config::default() };
        let crypto = Box::new(RealCrypto::new(secret.clone()));
        Self {
            endpoint: Endpoint::new(config, crypto, Rng::new(half(0), half(8))),
            memory: HeapMemory::new(ByteSize::from_mib(1)),
            driver: LinkDriver::new(link),
            clock,
        }
    }

    fn tell(&mut self, hello: &[u8], to: &[&(SocketAddr, [u8; 32])]) -> usize {
        let now = self.clock.now();
        let until = now + TELL_FOR;
        // All at once: those that do not answer are not in the way of the others.
        let begun = to.iter().filter(|(remote, key)| {
            let (remote, key) = (*remote, HostKey(*key));
            let (admission, psk) = (Admission::Member, Psk::MEMBER);
            let connect = Connect { link: LINK, remote, key, admission, psk, hello };
            self.endpoint.connect(now, &connect).is_ok()
        });
        let (mut under_way, mut answered) = (begun.count(), 0);
        while under_way > 0 && self.clock.now() < until && self.turn(until).is_ok() {
            while let Some(event) = self.endpoint.poll_event() {
                if let EndpointEvent::ConnectFailed { failure, .. } = event {
                    answered += usize::from(matches!(failure, ConnectFailure::Refused(_)));
                    under_way -= 1;
                }
            }
        }
        answered
    }

    /// Sends what there is to send, and waits for what comes.
    fn turn(&mut self, until: towpath_wire::Instant) -> io::Result<()> {
        let Self { endpoint, memory, driver, clock } = self;
        let blocked = driver.transmit(clock, endpoint, memory) == Turn::Blocked;
        let next = endpoint.poll_timeout().map_or(until, |(at, _)| at.min(until));
        let time = next.since(clock.now());
        let flags = if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let time =
            Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        let fd = driver.as_fd();
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(&fd, flags)], Some(&time));
        driver.receive(clock, endpoint, memory).map_err(io::Error::other)?;
        endpoint.handle_timeout(clock.now(), memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(hosts: u16) -> LastWords {
        let to = |n: u16| {
            let ip: IpAddr = match n % 2 {
                0 => [10, 0, (n >> 8) as u8, n as u8].into(),
                _ => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n).into(),
            };
            (SocketAddr::new(ip, n), [n as u8; 32])
        };
        LastWords { hello: vec![7; 300], to: (0..hosts).map(to).collect() }
    }

    #[test]
    fn what_was_written_last_is_read_and_what_was_cut_short_is_not() {
        let mut sheet = Sheet::make().unwrap();
        assert_eq!(sheet.read(), None);
        for hosts in [0, 1, 2, 1000] {
            sheet.write(Some(&words(hosts))).unwrap();
            assert_eq!(sheet.read(), Some(words(hosts)));
        }
        // Killed amid the next one: some of its bytes are there.
        let torn = (sheet.number + 1) % 2 * HALF as u64;
        sheet.file.write_all_at(&[0xff; 40], torn).unwrap();
        assert_eq!(sheet.read(), Some(words(1000)));
        sheet.write(None).unwrap();
        assert_eq!(sheet.read(), None, "it said its own");
    }

    #[test]
    fn words_for_as_many_hosts_as_are_told_have_room_and_more_do_not() {
        let mut sheet = Sheet::make().unwrap();
        sheet.write(Some(&words(1000))).unwrap();
        let why = sheet.write(Some(&words(4000))).unwrap_err().to_string();
        assert!(why.contains("limit 65536"), "{why}");
        assert_eq!(sheet.read(), Some(words(1000)), "what stood there stays");
    }

    #[test]
    fn what_one_process_writes_another_reads() {
        let sheet = Sheet::make().unwrap();
        let mut other = Sheet::open(&sheet.path()).unwrap();
        other.write(Some(&words(3))).unwrap();
        assert_eq!(sheet.read(), Some(words(3)));
        assert!(Sheet::open(Path::new("/proc/self/fd/9999")).is_err());
    }

    #[test]
    fn whoever_does_not_answer_is_told_for_two_seconds_and_no_longer() {
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = vec![(nobody.local_addr().unwrap(), [9; 32])];
        let begin = std::time::Instant::now();
        let told = say(&LastWords { hello: vec![1], to }, &Zeroizing::new([1; 32])).unwrap();
        let took = begin.elapsed();
        assert_eq!(told, 0);
        assert!(took >= TELL_FOR && took < TELL_FOR * 3, "{took:?}");
        let mut first = [0; 2048];
        assert!(nobody.recv(&mut first).unwrap() > 100, "a handshake");
    }
}
