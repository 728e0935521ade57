//! The sans-IO contract: time and bytes in; packets, timeouts and events out.
//!
//! A driver (the engine on real sockets, or the simulator) owns clock, sockets and message
//! memory, and drives a machine like this, in this order, until nothing is left:
//!
//! 1. hand in what happened: [`Machine::handle_datagram`], [`Machine::handle_timeout`],
//!    [`Machine::handle_path`], or one of the machine's own calls;
//! 2. drain: [`Machine::poll_transmit`] until it gives `None` (or the link takes no more, in
//!    which case it is asked again when the link does), [`Machine::poll_event`] until `None`,
//!    then sleep until [`Machine::poll_timeout`].
//!
//! **Wake-ups.** A machine can only have more to send after step 1, so a driver that drained
//! everything may sleep. A driver that stopped early (batch full, socket busy, grant used up)
//! asks again by itself.
//!
//! The memory that holds message bytes is passed into the calls that touch it, because it
//! belongs to the host, not to a conversation: see docs/decisions/0002.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::vec::Vec;

use towpath_wire::bytes::Writer;
use towpath_wire::packet::{DATA_HEADER, Data, TAG};
use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use crate::crypto::PacketKey;
use crate::egress::Head;
use crate::id::AssociationId;
use crate::memory::{Block, Memory};

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub struct RxMeta {
    /// The driver's link that received it.
    pub link: LinkId,
    /// Source address.
    pub remote: SocketAddr,
    /// The ECN bits of the IP header (0 where the driver cannot tell).
    pub ecn: u8,
    /// How long ago it reached the machine, as far as the driver knows: round trips are measured
    /// without the time that it waited for us.
    pub late: Duration,
}

/// What happened to a path or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// It carries packets (again).
    Up,
    /// It lost its carrier.
    Down,
    /// It takes datagrams to `remote` of at most `bytes`, as it said when it got a longer one.
    Longest {
        /// Where they should go.
        remote: SocketAddr,
        /// The longest in bytes.
        bytes: u16,
    },
}

/// What a grant is for. What is charged for it is the length of the train that comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Whatever waits: data of the channels in turn, with acknowledgements and control in the same
    /// packets, filled up where that lets the train go on. Not the data of reserved channels: that
    /// goes by grants of its own.
    All,
    /// A channel's data, and nothing that the channel did not ask for: no acknowledgement, no
    /// probe, no padding. Its OPEN goes along until the peer knows it, since no peer could place
    /// the data. What it costs beside the messages is what the conversion table states. A reserved
    /// channel's data goes whatever the path's congestion window says: it was admitted.
    Data(ChannelId),
    /// Everything but data: acknowledgements, probes, trials of the path, handshakes, CLOSE, and
    /// the control frames of all channels.
    Control,
}

impl GrantKind {
    /// The one channel whose data may go.
    pub(crate) const fn channel(self) -> Option<ChannelId> {
        if let Self::Data(channel) = self { Some(channel) } else { None }
    }

    /// Whether data may go at all.
    pub(crate) const fn has_data(self) -> bool {
        !matches!(self, Self::Control)
    }

    /// Whether acknowledgements, probes and control may go.
    pub(crate) const fn has_control(self) -> bool {
        !matches!(self, Self::Data(_))
    }
}

/// Smallest datagram that a grant can limit us to, in bytes.
pub const PACKET_MIN: usize = 128;

/// Leave to send, given by a link's packet scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The link that has room.
    pub link: LinkId,
    /// Only this association may send; `None`: whichever is ready.
    pub association: Option<AssociationId>,
    /// What may be sent.
    pub kind: GrantKind,
    /// At most so many bytes of datagrams.
    pub bytes: usize,
    /// What comes of it leaves the host no sooner: for who plans departures ahead.
    /// [`Instant::ZERO`]: at once.
    pub not_before: Instant,
}

impl Grant {
    /// The grant of an unreserved link: whatever fits into the batch.
    pub const fn free(link: LinkId) -> Self {
        let not_before = Instant::ZERO;
        Self { link, association: None, kind: GrantKind::All, bytes: usize::MAX, not_before }
    }
}

/// A train of datagrams for one destination: `len` bytes at the front of the batch's buffer,
/// cut every `segment` bytes; only the last datagram may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The link to send it on.
    pub link: LinkId,
    /// Destination address.
    pub remote: SocketAddr,
    /// Length of each datagram but the last.
    pub segment: usize,
    /// Length of all datagrams.
    pub len: usize,
    /// IP's traffic class: DSCP (RFC 2474) in the upper six bits ([`DSCP_PROMISED`]), ECN
    /// (RFC 3168) in the lower two.
    pub tos: u8,
    /// The driver holds the train, and what is behind it on the link, until then; from
    /// [`Grant::not_before`].
    pub not_before: Instant,
}

/// The DSCP of what was promised of the whole way: expedited forwarding (RFC 3246), whose rate is
/// bounded at every port by what was admitted. It shall overtake in the network's switches as it
/// does here.
///
/// | train | class of RFC 4594 | DSCP | on Wi-Fi (RFC 8325) |
/// |---|---|---|---|
/// | of a channel promised the whole way | telephony: low delay, admitted | EF 46 | 6, voice |
/// | of one reserved on its first link | conferencing: low delay | AF41 34 | 4, video |
/// | of all others; acknowledgements, control | standard | 0 | 0, best effort |
///
/// A reserved channel's data goes by grants of its own. Other channels have no marks, whatever
/// class and priority they have: they share packets, and one loss detection and congestion control
/// that takes what comes late for lost. A network that forwards parts of one such conversation by
/// different queues reorders it (RFC 7657, section 5.1: one code point for one transport). Their
/// order is made here, before the link.
pub const DSCP_PROMISED: u8 = 46;
/// The DSCP of what is reserved on its first link alone: nobody asked whether the ports behind that
/// have room, so it must not be in the way of what was [promised](DSCP_PROMISED) there.
pub const DSCP_RESERVED: u8 = 34;

impl Transmit {
    /// Number of datagrams in the train.
    pub const fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment)
    }
}

/// Why a machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A delayed acknowledgement is due.
    Acknowledge,
    /// A packet counts as lost unless it is acknowledged by then.
    Loss,
    /// Nothing was acknowledged for long: probe.
    Probe,
    /// A message's time is over.
    Deadline,
    /// The pacer lets waiting data go on.
    Pace,
    /// Show that we are alive.
    KeepAlive,
    /// The peer counts as lost unless it is heard by then.
    Silence,
    /// Repeat or give up a handshake.
    Handshake,
    /// A machine above has something to do.
    Control,
}

/// A protocol machine. See the [module's documentation](self) for the order of calls.
pub trait Machine {
    /// What it tells its owner.
    type Event;

    /// Takes a datagram in; it is opened in place. Never fails: a peer's fault is a counter or
    /// an event.
    fn handle_datagram(
        &mut self,
        now: Instant,
        rx: RxMeta,
        data: &mut [u8],
        memory: &mut dyn Memory,
    );

    /// Does what is due. Early or repeated calls are harmless.
    fn handle_timeout(&mut self, now: Instant, memory: &mut dyn Memory);

    /// Takes note of a change of a link.
    fn handle_path(&mut self, now: Instant, link: LinkId, change: PathChange);

    /// Writes the next train of datagrams within the grant and the batch.
    fn poll_transmit(
        &mut self,
        now: Instant,
        grant: Grant,
        out: &mut TxBatch<'_>,
    ) -> Option<Transmit>;

    /// What a reserved channel on this link would send next, each channel once until that was
    /// granted; asked for before [`Machine::poll_transmit`], since waiting is counted from here on.
    fn poll_head(&mut self, _now: Instant, _link: LinkId) -> Option<Head> {
        None
    }

    /// When to call [`Machine::handle_timeout`] next, and why. May be earlier than needed,
    /// never later.
    fn poll_timeout(&self) -> Option<(Instant, TimerKind)>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// Bytes of a train that were left in message memory: they belong at `at..at + len`, where the
/// driver's buffer holds whatever it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inset {
    /// Place in the train.
    pub at: usize,
    /// Their number.
    pub len: usize,
    /// The message's block.
    pub block: Block,
    /// Place in the block.
    pub from: u32,
}

/// Insets of one train at most.
pub const INSETS_MAX: usize = 56;
/// Fewer bytes are copied sooner than gathered.
const INSET_MIN: usize = 512;

/// The driver's buffer for one train, and the rules of a train.
///
/// Invariants: `used ≤ buf.len()`, `datagrams ≤ datagrams_max`; every datagram but the last has
/// the length of the first. Insets lie within the datagrams, in order, and do not overlap.
pub struct TxBatch<'a> {
    buf: &'a mut [u8],
    memory: &'a dyn Memory,
    insets: Option<&'a mut Vec<Inset>>,
    datagrams_max: usize,
    used: usize,
    segment: usize,
    datagrams: usize,
    closed: bool,
}

impl<'a> TxBatch<'a> {
    /// A batch over `buf` with message bytes from `memory`, of at most `datagrams_max`.
    pub fn new(buf: &'a mut [u8], memory: &'a dyn Memory, datagrams_max: usize) -> Self {
        let insets = None;
        Self {
            buf,
            memory,
            insets,
            datagrams_max,
            used: 0,
            segment: 0,
            datagrams: 0,
            closed: false,
        }
    }

    /// A batch for a driver that can gather: up to [`INSETS_MAX`] long pieces of messages whose
    /// packets are not sealed stay in `memory`, and are listed in `insets`. The driver takes them
    /// from there before the memory changes.
    pub fn gathering(
        buf: &'a mut [u8],
        memory: &'a dyn Memory,
        datagrams_max: usize,
        insets: &'a mut Vec<Inset>,
    ) -> Self {
        Self { insets: Some(insets), ..Self::new(buf, memory, datagrams_max) }
    }

    /// Bytes of datagrams written.
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Length of each datagram but the last; 0 while empty.
    pub const fn segment(&self) -> usize {
        self.segment
    }

    /// Datagrams written.
    pub const fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// True when a datagram of up to `max` bytes can be added to the train.
    pub fn takes(&self, max: usize) -> bool {
        !self.closed
            && self.datagrams < self.datagrams_max
            && self.used + max <= self.buf.len()
            && (self.segment == 0 || self.segment == max)
    }

    /// Starts a packet of at most `max` bytes; `hidden`: its content will be sealed. The caller
    /// asked [`TxBatch::takes`].
    pub fn packet(&mut self, max: usize, hidden: bool) -> PacketWriter<'_, 'a> {
        assert!(self.takes(max), "asked first whether the train takes {max} bytes");
        let (at, end) = (self.used + DATA_HEADER, self.used + max - TAG);
        PacketWriter { start: self.used, at, end, most: end - at, hidden, batch: self }
    }

    /// Adds a datagram that is not sealed (a handshake's).
    pub fn plain(&mut self, datagram: &[u8]) {
        self.buf[self.used..self.used + datagram.len()].copy_from_slice(datagram);
        self.add(datagram.len(), datagram.len());
        self.closed = true;
    }

    fn add(&mut self, len: usize, max: usize) {
        self.used += len;
        self.datagrams += 1;
        if self.segment == 0 {
            self.segment = len;
        }
        self.closed |= len < max;
    }
}

/// Writes one sealed packet: frames and message bytes, then the seal.
pub struct PacketWriter<'b, 'a> {
    batch: &'b mut TxBatch<'a>,
    hidden: bool,
    start: usize,
    at: usize,
    end: usize,
    /// Content that fits when nothing else is in it.
    most: usize,
}

impl PacketWriter<'_, '_> {
    /// Bytes of content that still fit.
    pub const fn room(&self) -> usize {
        self.end - self.at
    }

    /// Bytes of content that fit when nothing else is in it.
    pub const fn room_max(&self) -> usize {
        self.most
    }

    /// True when nothing was written yet.
    pub const fn is_empty(&self) -> bool {
        self.at == self.start + DATA_HEADER
    }

    /// Writes `len` bytes of frame through a cursor. The caller asked [`PacketWriter::room`].
    pub fn frame(&mut self, len: usize, emit: impl FnOnce(&mut Writer<'_>)) {
        let mut w = Writer::new(&mut self.batch.buf[self.at..self.at + len]);
        emit(&mut w);
        assert_eq!(w.used(), len, "a frame has the length it states");
        self.at += len;
    }

    /// Appends `len` bytes of a message, from offset `from`: the one copy on the way out, unless
    /// the driver gathers.
    pub fn body(&mut self, block: Block, from: u32, len: usize) {
        if let Some(insets) = &mut self.batch.insets
            && len >= INSET_MIN
            && insets.len() < INSETS_MAX
            && !self.hidden
        {
            insets.push(Inset { at: self.at, len, block, from });
            self.at += len;
            return;
        }
        let out = &mut self.batch.buf[self.at..self.at + len];
        self.batch.memory.copy_out(block, from, out);
        self.at += len;
    }

    /// Where the next frame would stand.
    pub(crate) const fn place(&self) -> usize {
        self.at
    }

    /// What was written from a [place](PacketWriter::place) on; none of it was left in memory.
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        assert!(self.hidden, "only what is copied can be read");
        &self.batch.buf[from..self.at]
    }

    /// Writes `len` bytes of frame over what stands at a place.
    pub(crate) fn rewrite(&mut self, at: usize, len: usize, emit: impl FnOnce(&mut Writer<'_>)) {
        assert!(at + len <= self.at, "only what was written is written again");
        emit(&mut Writer::new(&mut self.batch.buf[at..at + len]));
    }

    /// Takes back what was written from a place on.
    pub(crate) const fn rewind(&mut self, to: usize) {
        self.at = to;
    }

    /// Leaves no more room than for `len` bytes, in this packet and in others like it, which begin
    /// with the `front` bytes written last; what [`PacketWriter::widen`] needs to undo it.
    pub(crate) fn narrow(&mut self, front: usize, len: usize) -> usize {
        let end = self.end;
        self.end = end.min(self.at + len);
        self.most = (self.most - front).min(len);
        end
    }

    /// Room up to where it was before [`PacketWriter::narrow`].
    pub(crate) const fn widen(&mut self, end: usize) {
        self.end = end;
    }

    /// Fills up with padding so that the train can go on.
    pub fn pad(&mut self) {
        self.batch.buf[self.at..self.end].fill(0);
        self.at = self.end;
    }

    /// Seals what was written and adds it to the train; returns the datagram's length. The last
    /// call: by reference, since to move what was just written would make the processor wait.
    pub fn seal(&mut self, key: &dyn PacketKey, header: Data) -> usize {
        assert!(self.hidden || !key.seals(), "what is sealed was copied");
        let max = self.end + TAG - self.start;
        let packet = &mut self.batch.buf[self.start..self.at + TAG];
        header.emit(packet);
        let (aad, content) = packet.split_at_mut(DATA_HEADER);
        key.seal(nonce(header.path, header.number), aad, content);
        let len = packet.len();
        self.batch.add(len, max);
        len
    }
}

/// The nonce of a packet: path (32 bits) ‖ packet number (64 bits), big-endian.
pub fn nonce(path: PathId, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&u32::from(path.0).to_be_bytes());
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}
