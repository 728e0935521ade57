//! One end of an association, driven as the engine drives its node: the same driver, the same
//! order of calls, one wait per turn.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::udp::TRAIN_BYTES;
use towpath_io::{Clock, LinkDriver, RealCrypto, Turn, UdpLink};
use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, AssociationStats, Block, Config, Connect, Endpoint,
    EndpointEvent, HeapMemory, HostKey, Machine, Memory, Psk, Rng,
};
use towpath_wire::{Admission, ByteSize, ChannelId, Direction, LinkId};

use super::content::Content;
use super::talk::Serve;

const LINK: LinkId = LinkId(0);
/// Messages under this label are dropped where they arrive.
const BULK: u16 = 1;
/// Messages under this label are sent back.
const ECHO: u16 = 2;
/// Messages under this label are compared with what they should be.
const CONTENT: u16 = 3;
/// Message memory of one end.
const MEMORY: ByteSize = ByteSize::from_mib(256);
/// Longest wait, so that whoever drives can look at the time.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Longest look of a polling end, so that whoever drives can look at the time.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// A datagram's bytes to begin with: 1500-byte Ethernet.
pub(super) const DATAGRAM: usize = 1472;

/// An endpoint on a socket of its own, with at most one association.
pub(super) struct Side {
    endpoint: Endpoint,
    memory: HeapMemory,
    driver: LinkDriver,
    clock: Clock,
    poll: bool,
    waits: u64,
    association: Option<AssociationId>,
    over: Option<String>,
    /// Bytes of messages that arrived whole.
    pub(super) received: u64,
    /// Bytes of messages of ours that were acknowledged whole.
    pub(super) acknowledged: u64,
    /// Messages that came back to us.
    pub(super) echoes: u64,
    /// Bytes of messages that were compared and found right.
    pub(super) checked: u64,
    bulk: Option<ChannelId>,
    echo: Option<ChannelId>,
    file: Option<ChannelId>,
    content: Option<Content>,
}

impl Side {
    /// An end at `addr`. `serve` is the association that both ends agreed on.
    pub(super) fn new(addr: SocketAddr, serve: Serve) -> anyhow::Result<Self> {
        let Serve::Association { trusted, poll, window, content } = serve else {
            bail!("{serve:?} is no association");
        };
        let (datagram, datagram_max) = (DATAGRAM as u16, TRAIN_BYTES as u16);
        let config = Config { trusted, window, datagram, datagram_max, ..Config::default() };
        let crypto = RealCrypto::new(RealCrypto::generate_secret());
        let seed = RealCrypto::generate_secret();
        let mut eight = [0; 8];
        eight.copy_from_slice(&seed[..8]);
        Ok(Self {
            endpoint: Endpoint::new(
                config,
                Box::new(crypto),
                Rng::new(u64::from_le_bytes(eight), 0),
            ),
            memory: HeapMemory::new(MEMORY),
            driver: LinkDriver::new(UdpLink::bind(LINK, addr)?),
            clock: Clock::start(),
            poll,
            waits: 0,
            association: None,
            over: None,
            received: 0,
            acknowledged: 0,
            echoes: 0,
            checked: 0,
            bulk: None,
            echo: None,
            file: None,
            content,
        })
    }

    pub(super) fn addr(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.driver.link().local_addr()?)
    }

    pub(super) fn key(&self) -> [u8; 32] {
        self.endpoint.public_key().0
    }

    /// System calls so far: sending, receiving, waiting.
    pub(super) fn calls(&self) -> u64 {
        let c = self.driver.counters();
        c.send_calls + c.receive_calls + self.waits
    }

    /// Datagrams of ours that the kernel took.
    pub(super) fn datagrams(&self) -> u64 {
        self.driver.counters().datagrams_sent
    }

    /// Bytes of the datagrams that the way was found to take.
    pub(super) fn datagram(&self) -> Option<u16> {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.map(towpath_proto::Association::datagram)
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.association.is_some()
    }

    /// Why the association is over, once it is.
    pub(super) fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// True when packets of the association are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.is_none_or(towpath_proto::Association::is_sealed)
    }

    /// Reaches the peer.
    pub(super) fn connect(&mut self, remote: SocketAddr, key: [u8; 32]) -> anyhow::Result<()> {
        let (admission, psk, key) = (Admission::Member, Psk::MEMBER, HostKey(key));
        let connect = Connect { link: LINK, remote, key, admission, psk, hello: b"" };
        self.endpoint.connect(self.clock.now(), &connect)?;
        while self.association.is_none() {
            self.turn()?;
            if let Some(why) = &self.over {
                bail!("no association with {remote}: {why}");
            }
        }
        Ok(())
    }

    /// Keeps `count` messages of `len` bytes under way from now on.
    pub(super) fn begin_bulk(&mut self, len: u32, count: u32) -> anyhow::Result<()> {
        self.bulk = Some(self.open(BULK, 0)?);
        for n in 0..count {
            self.post(self.bulk, vec![n as u8; len as usize])?;
        }
        Ok(())
    }

    /// Sends a message that comes back, ahead of everything else that waits.
    pub(super) fn ping(&mut self, len: u32) -> anyhow::Result<()> {
        if self.echo.is_none() {
            self.echo = Some(self.open(ECHO, 100)?);
        }
        self.post(self.echo, vec![7; len as usize])
    }

    /// Sends a message that the peer compares.
    pub(super) fn send(&mut self, bytes: Vec<u8>) -> anyhow::Result<()> {
        if self.file.is_none() {
            self.file = Some(self.open(CONTENT, 0)?);
        }
        self.post(self.file, bytes)
    }

    /// Counters of the association.
    pub(super) fn stats(&self) -> AssociationStats {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.map(|a| *a.stats()).unwrap_or_default()
    }

    /// Most message memory that was ever in use.
    pub(super) const fn memory_max(&self) -> u64 {
        self.memory.used_max()
    }

    /// Ends the association and tells the peer.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        if let Some(id) = self.association {
            self.endpoint.close(self.clock.now(), id, 256, "measured", &mut self.memory);
        }
        let begin = std::time::Instant::now();
        // The closing packet goes out a few times.
        while begin.elapsed() < Duration::from_millis(100) {
            self.turn()?;
        }
        Ok(())
    }

    fn open(&mut self, label: u16, priority: u16) -> anyhow::Result<ChannelId> {
        let id = self.association.context("not connected")?;
        let opening = Opening { priority, ..Opening::new(Direction::Both, label) };
        self.endpoint.open(id, opening).context("no place for a channel")
    }

    fn post(&mut self, channel: Option<ChannelId>, bytes: Vec<u8>) -> anyhow::Result<()> {
        let (id, channel) = self.association.zip(channel).context("not connected")?;
        let len = bytes.len() as u32;
        let block = self.memory.store(bytes).context("message memory is full")?;
        self.endpoint.send(id, channel, block, len)?;
        Ok(())
    }

    /// Sends, waits for something to happen (or, polling, does not), and takes it in.
    pub(super) fn turn(&mut self) -> anyhow::Result<()> {
        let sent = self.drain()?;
        let (driver, memory) = (&mut self.driver, &mut self.memory);
        let came = match sent {
            Turn::Idle | Turn::Sent if self.poll => {
                let until = self.clock.now() + LOOK_MAX;
                driver.look(&self.clock, &mut self.endpoint, memory, until)?
            }
            Turn::More | Turn::Blocked if self.poll => false,
            Turn::More => false,
            _ => driver.spin(&self.clock, &mut self.endpoint, memory)?,
        };
        if !came {
            if !self.poll && sent != Turn::More {
                self.wait(sent == Turn::Blocked);
            }
            self.driver.receive(&self.clock, &mut self.endpoint, &mut self.memory)?;
        }
        let now = self.clock.now();
        if self.endpoint.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.endpoint.handle_timeout(now, &mut self.memory);
        }
        // Whoever calls sees what came.
        self.events()?;
        Ok(())
    }

    fn drain(&mut self) -> anyhow::Result<Turn> {
        loop {
            let sent = self.driver.transmit(&self.clock, &mut self.endpoint, &self.memory);
            if !self.events()? {
                return Ok(sent);
            }
        }
    }

    fn wait(&mut self, blocked: bool) {
        let pause = self.driver.gather(&self.clock);
        if !blocked && !pause.is_zero() {
            self.waits += 1;
            std::thread::sleep(pause);
            return;
        }
        let until = self.endpoint.poll_timeout().map(|(at, _)| at.since(self.clock.now()));
        let time = until.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        let flags = if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let fd = self.driver.as_fd();
        let timeout = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        self.waits += 1;
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(&fd, flags)], Some(&timeout));
    }

    /// True when there was any.
    fn events(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some(event) = self.endpoint.poll_event() {
            any = true;
            match event {
                EndpointEvent::Incoming { id, .. } => {
                    let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                    self.endpoint.answer(self.clock.now(), id, &answer);
                }
                EndpointEvent::Connected { id, .. } => self.association = Some(id),
                EndpointEvent::ConnectFailed { failure, .. } => {
                    self.over = Some(format!("{failure:?}"));
                }
                EndpointEvent::Association { id, event } => self.associated(id, &event)?,
            }
        }
        Ok(any)
    }

    fn associated(&mut self, id: AssociationId, event: &AssociationEvent) -> anyhow::Result<()> {
        match *event {
            AssociationEvent::Message { channel, label, block, len, .. } => {
                self.endpoint.consumed(id, channel, len);
                self.received += u64::from(len);
                if label == CONTENT {
                    self.compare(block, len);
                }
                if label == ECHO && self.echo.is_none() {
                    self.endpoint.send(id, channel, block, len)?;
                } else {
                    self.echoes += u64::from(label == ECHO);
                    self.memory.release(block);
                }
            }
            AssociationEvent::Sent { channel, block, .. } => self.sent(id, channel, block)?,
            AssociationEvent::Over(ref end) => self.over = Some(format!("{end:?}")),
            _ => {}
        }
        Ok(())
    }

    fn sent(&mut self, id: AssociationId, channel: ChannelId, block: Block) -> anyhow::Result<()> {
        let len = self.memory.len(block);
        self.acknowledged += u64::from(len);
        if self.bulk == Some(channel) {
            self.endpoint.send(id, channel, block, len)?;
        } else {
            self.memory.release(block);
        }
        Ok(())
    }

    fn compare(&mut self, block: Block, len: u32) {
        let wanted = self.content.as_mut().and_then(Content::message);
        if wanted.is_some_and(|wanted| wanted == self.memory.bytes(block)) {
            self.checked += u64::from(len);
        } else {
            self.over = Some("a message came that differs from what was sent".to_string());
        }
    }
}
