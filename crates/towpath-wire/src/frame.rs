//! What stands inside the seal: frames, one after the other, to the end of the packet.
//!
//! ```text
//! PAD            0 type=0                                     (one byte)
//! PING           0 type=1
//! ACK            0 type=2 | 1 words n (1..=16) | 2..4 path | 4..8 delay (us) | 8..16 largest
//!                16..16+8n bitmap: bit i of word w set = packet largest - (64 w + i) was received
//! OPEN           0 type=3 | 1 direction | 2 reliability
//!                3 flags (1 = TSpec follows, 2 = parameters follow, behind it)
//!                4..8 channel | 8..10 priority | 10..12 label | 12..20 limit
//!                [20..28 rate (bit/s) | 28..36 peak (bit/s) | 36..44 burst (B)
//!                 44..48 min unit (B) | 48..52 max unit (B)]
//!                [0..2 length n of the parameters | 2..2+n parameters]
//!                parameter 1: one to many (no value)   2: duplex (no value)
//!                parameter 128: reservation (u64)
//! DATA           0 type=4 | 1 zero | 2..4 length n | 4..8 channel | 8..16 message number
//!                16..20 message length | 20..24 offset | 24..24+n bytes
//! LIMIT          0 type=5 | 1..4 zero | 4..8 channel | 8..16 limit
//! CLOSE_CHANNEL  0 type=6 | 1 zero | 2..4 reason | 4..8 channel
//!                8..16 number of messages sent on it
//! CLOSE          0 type=7 | 1 text length n (0..=255) | 2..4 reason | 4..4+n text (UTF-8)
//! PATH_CHALLENGE 0 type=8 | 1..8 zero | 8..16 token    (of the path that it comes on)
//! PATH_RESPONSE  0 type=9 | 1..8 zero | 8..16 token    (of the challenge, on the same path)
//! SKIP           0 type=10 | 1..4 zero | 4..8 channel | 8..16 message number
//!                16..24 charge: credit that the message was charged, 0 if none of it was sent
//! MARKS          0 type=128 | 1 zero | 2..4 length n=10 | 4..6 path | 6..14 packets of the path
//!                received so far that routers had marked (ECN CE)
//! ACK_RATE       0 type=129 | 1 zero | 2..4 length n=8 | 4..6 path | 6..8 packets that ask for an
//!                acknowledgement until one goes out | 8..12 longest wait for that (us)
//! PATH_ADD       0 type=130 | 1 zero | 2..4 length n=22 | 4..6 number of the offer, from 1 on
//!                6..8 network attachment of the sender, by which it tells its addresses apart
//!                where it receives: 8..24 address (IPv6, or IPv4 mapped) | 24..26 port
//! PATH_RETIRE    0 type=131 | 1 zero | 2..4 length n=4 | 4..6 path | 6..8 reason
//! NOTE           0 type=132 | 1 zero | 2..4 length n | 4..4+n bytes of the owner's
//! CODED, PARITY, REBUILT  0 type=133, 134, 135: see [`coding`](crate::coding)
//! (extension)    0 type=136..=255 | 1 zero | 2..4 length n
//!                4..4+n anything: skipped where not known
//! ```
//! A packet may hold several ACK frames for one path, each with a lower `largest`, so that any
//! number of packets can be covered; only the first one's delay and top give a time sample.
//! MARKS stands before the ACK frames of its path. It and `ACK_RATE` are extensions, so that older
//! hosts skip them. `ACK_RATE` is a wish; the last one counts. So are `PATH_ADD` and
//! `PATH_RETIRE`: who skips the first goes on with the paths it has, who skips the second sends
//! where nothing is acknowledged any more, and finds out. `NOTE` asks for no acknowledgement: it
//! comes, or it does not, and nobody is told.
//! Every frame may be applied twice without harm. Unknown types and parameters follow the
//! [rule of kinds](crate::parameter): from 128 on they are skipped, below they are refused.
//!
//! A limit is absolute: the message memory, in bytes since the channel opened, that the peer may
//! have asked for. A message of `len` bytes asks for `len` + [`MESSAGE_CHARGE`] at its first
//! piece. Because it is absolute, a limit may be lost, repeated or overtaken without harm.
//!
//! SKIP says that the rest of a message of a timely or unreliable channel will never come. The
//! receiver drops what it has of it and takes its charge as used and given back, whether or not a
//! piece of it was seen, so that the two sides' sums of credit agree in the end.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::bytes::{ParseError, Reader, Writer};
use crate::coding::{self, CODED, Coded, Parity, REBUILT, Rebuilt};
use crate::id::{ChannelId, LinkId, PathId};
use crate::parameter::{self, PARAMETER_HEADER, Parameters, SKIPPABLE, emit_parameter};
use crate::units::{ByteSize, Rate};

/// Bytes of credit that each message costs beside its length, so that empty ones are bounded.
pub const MESSAGE_CHARGE: u64 = 64;
/// Longest acknowledgement bitmap, in words of 64 packets.
pub const ACK_WORDS_MAX: usize = 16;
/// Packets that one acknowledgement can cover.
pub const ACK_SPAN: u64 = 64 * ACK_WORDS_MAX as u64;
/// Bytes of a DATA frame before its content.
pub const DATA_OVERHEAD: usize = 24;

const PAD: u8 = 0;
const PING: u8 = 1;
const ACK: u8 = 2;
const OPEN: u8 = 3;
const DATA: u8 = 4;
const LIMIT: u8 = 5;
const CLOSE_CHANNEL: u8 = 6;
const CLOSE: u8 = 7;
const PATH_CHALLENGE: u8 = 8;
const PATH_RESPONSE: u8 = 9;
const SKIP: u8 = 10;
const MARKS: u8 = 128;
const ACK_RATE: u8 = 129;
const PATH_ADD: u8 = 130;
const PATH_RETIRE: u8 = 131;
const NOTE: u8 = 132;

/// Flags of OPEN.
const OPEN_TSPEC: u8 = 1;
const OPEN_PARAMETERS: u8 = 2;

/// Parameters of OPEN. Who does not know the first two would take the channel for another than
/// it is; who does not know the last serves the channel without what is reserved.
const ONE_TO_MANY: u8 = 1;
const DUPLEX: u8 = 2;
const RESERVATION: u8 = SKIPPABLE;

/// Who may send on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both sides.
    Both,
    /// Only the side that opened it.
    Opener,
    /// Only the other side.
    Acceptor,
}

/// What a channel promises about its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Each exactly once, in order.
    ReliableOrdered,
    /// Each exactly once, in any order.
    ReliableUnordered,
    /// Retransmitted only while it can still arrive in time.
    Timely,
    /// Sent once.
    Unreliable,
}

/// A token-bucket traffic specification, as in RFC 2212's `TSpec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficSpec {
    /// Token rate.
    pub rate: Rate,
    /// Peak rate.
    pub peak: Rate,
    /// Bucket depth.
    pub burst: ByteSize,
    /// Minimum policed unit, in bytes.
    pub unit_min_bytes: u32,
    /// Maximum message size, in bytes.
    pub unit_max_bytes: u32,
}

/// A request to open a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOpen {
    /// Its number.
    pub channel: ChannelId,
    /// Who may send.
    pub direction: Direction,
    /// What is promised.
    pub reliability: Reliability,
    /// Larger goes first.
    pub priority: u16,
    /// What the two ends use it for; the association does not look at it.
    pub label: u16,
    /// Window of the channel: the first limit of each direction, in bytes.
    pub limit: u64,
    /// Traffic specification, where one was given.
    pub tspec: Option<TrafficSpec>,
    /// The reservation that it is part of, where there is one.
    pub reservation: Option<u64>,
    /// What the opener sends reaches several hosts, each of which acknowledges it.
    pub one_to_many: bool,
    /// The traffic specification holds for the acceptor's direction, too.
    pub duplex: bool,
}

impl ChannelOpen {
    /// Priority and label 0, and nothing that need not be said.
    pub const fn new(
        channel: ChannelId,
        direction: Direction,
        reliability: Reliability,
        limit: u64,
    ) -> Self {
        Self {
            channel,
            direction,
            reliability,
            priority: 0,
            label: 0,
            limit,
            tspec: None,
            reservation: None,
            one_to_many: false,
            duplex: false,
        }
    }
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its channel.
    pub channel: ChannelId,
    /// Message number within channel and direction, from 0.
    pub message: u64,
    /// Bytes of the whole message.
    pub message_len: u32,
    /// Where in the message the piece stands.
    pub offset: u32,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Which packets of a path were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The path whose packets are meant.
    pub path: PathId,
    /// Time between the arrival of `largest` and this acknowledgement, in microseconds.
    pub delay_us: u32,
    /// Largest packet number received.
    pub largest: u64,
    /// Bitmap words as on the wire, 8 bytes each.
    map: &'a [u8],
}

impl Ack<'_> {
    /// The bitmap, word by word: bit `i` of word `w` stands for packet `largest - (64 w + i)`.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.map.chunks_exact(8).map(|c| {
            let mut word = [0; 8];
            word.copy_from_slice(c);
            u64::from_le_bytes(word)
        })
    }

    /// Number of packets that the bitmap speaks of, counted down from `largest`.
    pub fn span(&self) -> u64 {
        self.map.len() as u64 * 8
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Filler.
    Pad,
    /// Asks for an acknowledgement.
    Ping,
    /// Packets received.
    Ack(Ack<'a>),
    /// Packets received that routers had marked.
    Marks {
        /// The path whose packets are meant.
        path: PathId,
        /// How many so far.
        marked: u64,
    },
    /// How often the sender wants its packets acknowledged.
    AckRate {
        /// The path whose packets are meant.
        path: PathId,
        /// After so many packets that ask for it.
        every: u16,
        /// After so long at the latest, in microseconds.
        delay_us: u32,
    },
    /// The sender would take part in one more path.
    PathAdd {
        /// Its number.
        path: PathId,
        /// The sender's link: a hint for people and for the choice of links, no more.
        link: LinkId,
        /// Where the sender receives on it.
        remote: SocketAddr,
    },
    /// The sender uses a path no more, and asks the peer to do so, too.
    PathRetire {
        /// Its number.
        path: PathId,
        /// Why, as a number that the two ends agree on.
        reason: u16,
    },
    /// A few bytes of the owner's, said once.
    Note(&'a [u8]),
    /// What follows is coded, together with other packets.
    Coded(Coded<'a>),
    /// A sum of what packets held.
    Parity(Parity<'a>),
    /// A packet that did not come was rebuilt, and what it held was taken in.
    Rebuilt(Rebuilt),
    /// Opens a channel.
    Open(ChannelOpen),
    /// Part of a message.
    Data(Piece<'a>),
    /// New credit.
    Limit {
        /// The channel.
        channel: ChannelId,
        /// Absolute limit in bytes.
        limit: u64,
    },
    /// Ends what its sender sends on a channel, after `messages` messages.
    CloseChannel {
        /// The channel.
        channel: ChannelId,
        /// How many messages were sent on it: the end holds only once all of them arrived.
        messages: u64,
        /// Why, as a number that the two ends agree on.
        reason: u16,
    },
    /// Ends the association.
    Close {
        /// Why, as a number that the two ends agree on.
        reason: u16,
        /// Why, for people.
        text: &'a [u8],
    },
    /// Asks for a [`Frame::PathResponse`] with the same token on the same path.
    PathChallenge(u64),
    /// Answer to a challenge.
    PathResponse(u64),
    /// What has not come of a message never will.
    Skip {
        /// The channel.
        channel: ChannelId,
        /// Message number.
        message: u64,
        /// Credit that it was charged: its length + [`MESSAGE_CHARGE`], or 0 if no piece of it was
        /// ever sent.
        charge: u64,
    },
    /// A frame of a later version, skipped.
    Extension(u8),
}

/// Walks through the frames of an opened packet; stops after the first malformed one.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Frames in `content` (opened, without tag).
    pub const fn new(content: &'a [u8]) -> Self {
        Self { reader: Reader::new(content) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = parse(&mut self.reader);
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

fn parse<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, ParseError> {
    Ok(match r.u8()? {
        PAD => Frame::Pad,
        PING => Frame::Ping,
        ACK => Frame::Ack(parse_ack(r)?),
        OPEN => Frame::Open(parse_open(r)?),
        DATA => Frame::Data(parse_data(r)?),
        LIMIT => {
            r.take(3)?;
            Frame::Limit { channel: ChannelId(r.u32()?), limit: r.u64()? }
        }
        CLOSE_CHANNEL => {
            r.u8()?;
            let reason = r.u16()?;
            Frame::CloseChannel { channel: ChannelId(r.u32()?), reason, messages: r.u64()? }
        }
        CLOSE => {
            let n = r.u8()?;
            let reason = r.u16()?;
            Frame::Close { reason, text: r.take(n.into())? }
        }
        PATH_CHALLENGE => {
            r.take(7)?;
            Frame::PathChallenge(r.u64()?)
        }
        PATH_RESPONSE => {
            r.take(7)?;
            Frame::PathResponse(r.u64()?)
        }
        SKIP => {
            r.take(3)?;
            Frame::Skip { channel: ChannelId(r.u32()?), message: r.u64()?, charge: r.u64()? }
        }
        kind @ SKIPPABLE.. => {
            r.u8()?;
            let n = r.u16()?;
            let bytes = r.take(n.into())?;
            let mut body = Reader::new(bytes);
            match kind {
                NOTE => Frame::Note(bytes),
                MARKS => Frame::Marks { path: PathId(body.u16()?), marked: body.u64()? },
                ACK_RATE => {
                    let path = PathId(body.u16()?);
                    Frame::AckRate { path, every: body.u16()?, delay_us: body.u32()? }
                }
                PATH_ADD => parse_path_add(&mut body)?,
                PATH_RETIRE => Frame::PathRetire { path: PathId(body.u16()?), reason: body.u16()? },
                CODED..=REBUILT => coding::parse(kind, &mut body, r.rest())?,
                _ => Frame::Extension(kind),
            }
        }
        kind => return Err(ParseError::Unknown { field: "frame type", value: kind.into() }),
    })
}

fn parse_path_add<'a>(body: &mut Reader<'_>) -> Result<Frame<'a>, ParseError> {
    let (path, link) = (PathId(body.u16()?), LinkId(body.u16()?));
    let address = IpAddr::V6(Ipv6Addr::from(body.array::<16>()?)).to_canonical();
    Ok(Frame::PathAdd { path, link, remote: (address, body.u16()?).into() })
}

fn parse_ack<'a>(r: &mut Reader<'a>) -> Result<Ack<'a>, ParseError> {
    let words = usize::from(r.u8()?);
    if words == 0 || words > ACK_WORDS_MAX {
        return Err(ParseError::Limit {
            field: "ack words",
            value: words as u64,
            limit: ACK_WORDS_MAX as u64,
        });
    }
    let path = PathId(r.u16()?);
    let delay_us = r.u32()?;
    let largest = r.u64()?;
    Ok(Ack { path, delay_us, largest, map: r.take(words * 8)? })
}

fn parse_open(r: &mut Reader<'_>) -> Result<ChannelOpen, ParseError> {
    let direction = match r.u8()? {
        0 => Direction::Both,
        1 => Direction::Opener,
        2 => Direction::Acceptor,
        value => return Err(ParseError::Unknown { field: "direction", value: value.into() }),
    };
    let reliability = match r.u8()? {
        0 => Reliability::ReliableOrdered,
        1 => Reliability::ReliableUnordered,
        2 => Reliability::Timely,
        3 => Reliability::Unreliable,
        value => return Err(ParseError::Unknown { field: "reliability", value: value.into() }),
    };
    let flags = r.u8()?;
    if flags & !(OPEN_TSPEC | OPEN_PARAMETERS) != 0 {
        return Err(ParseError::Unknown { field: "open flags", value: flags.into() });
    }
    let channel = ChannelId(r.u32()?);
    let (priority, label, limit) = (r.u16()?, r.u16()?, r.u64()?);
    let tspec = if flags & OPEN_TSPEC != 0 { Some(parse_tspec(r)?) } else { None };
    let plain = ChannelOpen::new(channel, direction, reliability, limit);
    let mut open = ChannelOpen { priority, label, tspec, ..plain };
    if flags & OPEN_PARAMETERS != 0 {
        let n = r.u16()?;
        parse_open_parameters(r.take(n.into())?, &mut open)?;
    }
    Ok(open)
}

fn parse_open_parameters(bytes: &[u8], open: &mut ChannelOpen) -> Result<(), ParseError> {
    for parameter in Parameters::new(bytes) {
        let (kind, mut value) = parameter?;
        match kind {
            ONE_TO_MANY => open.one_to_many = true,
            DUPLEX => open.duplex = true,
            RESERVATION => open.reservation = Some(value.u64()?),
            _ => parameter::unknown("open parameter", kind)?,
        }
    }
    Ok(())
}

fn parse_tspec(r: &mut Reader<'_>) -> Result<TrafficSpec, ParseError> {
    Ok(TrafficSpec {
        rate: Rate::from_bps(r.u64()?),
        peak: Rate::from_bps(r.u64()?),
        burst: ByteSize::from_bytes(r.u64()?),
        unit_min_bytes: r.u32()?,
        unit_max_bytes: r.u32()?,
    })
}

fn parse_data<'a>(r: &mut Reader<'a>) -> Result<Piece<'a>, ParseError> {
    r.u8()?;
    let n = r.u16()?;
    let channel = ChannelId(r.u32()?);
    let message = r.u64()?;
    let (message_len, offset) = (r.u32()?, r.u32()?);
    let bytes = r.take(n.into())?;
    match offset.checked_add(n.into()) {
        Some(end) if end <= message_len => {
            Ok(Piece { channel, message, message_len, offset, bytes })
        }
        _ => Err(ParseError::Limit {
            field: "piece end",
            value: u64::from(offset) + u64::from(n),
            limit: message_len.into(),
        }),
    }
}

/// Writes PING.
pub fn emit_ping(w: &mut Writer<'_>) {
    w.u8(PING);
}

/// Bytes of an ACK frame with `words` bitmap words.
pub const fn ack_len(words: usize) -> usize {
    16 + 8 * words
}

/// Writes ACK. `words` holds 1 ..= [`ACK_WORDS_MAX`] bitmap words, newest packets first.
pub fn emit_ack(w: &mut Writer<'_>, path: PathId, delay_us: u32, largest: u64, words: &[u64]) {
    assert!((1..=ACK_WORDS_MAX).contains(&words.len()), "an ack has 1..=16 words");
    w.u8(ACK);
    w.u8(words.len() as u8);
    w.u16(path.0);
    w.u32(delay_us);
    w.u64(largest);
    for word in words {
        w.u64(*word);
    }
}

/// Bytes of a MARKS frame.
pub const MARKS_LEN: usize = 14;

/// Writes MARKS.
pub fn emit_marks(w: &mut Writer<'_>, path: PathId, marked: u64) {
    w.u8(MARKS);
    w.u8(0);
    w.u16(MARKS_LEN as u16 - 4);
    w.u16(path.0);
    w.u64(marked);
}

/// Bytes of an `ACK_RATE` frame.
pub const ACK_RATE_LEN: usize = 12;

/// Writes `ACK_RATE`.
pub fn emit_ack_rate(w: &mut Writer<'_>, path: PathId, every: u16, delay_us: u32) {
    w.u8(ACK_RATE);
    w.u8(0);
    w.u16(ACK_RATE_LEN as u16 - 4);
    w.u16(path.0);
    w.u16(every);
    w.u32(delay_us);
}

/// Bytes of a `PATH_ADD` frame.
pub const PATH_ADD_LEN: usize = 26;

/// Writes `PATH_ADD`.
pub fn emit_path_add(w: &mut Writer<'_>, path: PathId, link: LinkId, remote: SocketAddr) {
    w.u8(PATH_ADD);
    w.u8(0);
    w.u16(PATH_ADD_LEN as u16 - 4);
    w.u16(path.0);
    w.u16(link.0);
    let address = match remote.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    w.put(&address.octets());
    w.u16(remote.port());
}

/// Bytes of a `PATH_RETIRE` frame.
pub const PATH_RETIRE_LEN: usize = 8;

/// Writes `PATH_RETIRE`.
pub fn emit_path_retire(w: &mut Writer<'_>, path: PathId, reason: u16) {
    w.u8(PATH_RETIRE);
    w.u8(0);
    w.u16(PATH_RETIRE_LEN as u16 - 4);
    w.u16(path.0);
    w.u16(reason);
}

/// Bytes of a NOTE frame before its content.
pub const NOTE_OVERHEAD: usize = 4;

/// Writes NOTE.
pub fn emit_note(w: &mut Writer<'_>, bytes: &[u8]) {
    w.u8(NOTE);
    w.u8(0);
    w.u16(bytes.len() as u16);
    w.put(bytes);
}

/// Bytes of an OPEN frame.
pub const fn open_len(open: &ChannelOpen) -> usize {
    let parameters = open_parameters_len(open);
    let room = if parameters > 0 { 2 + parameters } else { 0 };
    room + if open.tspec.is_some() { 52 } else { 20 }
}

/// Bytes of the longest OPEN frame.
pub const OPEN_LEN_MAX: usize = 52 + 2 + 3 * PARAMETER_HEADER + 8;

const fn open_parameters_len(open: &ChannelOpen) -> usize {
    let flags = open.one_to_many as usize + open.duplex as usize;
    let reservation = if open.reservation.is_some() { PARAMETER_HEADER + 8 } else { 0 };
    PARAMETER_HEADER * flags + reservation
}

/// Writes OPEN.
pub fn emit_open(w: &mut Writer<'_>, open: &ChannelOpen) {
    w.u8(OPEN);
    w.u8(match open.direction {
        Direction::Both => 0,
        Direction::Opener => 1,
        Direction::Acceptor => 2,
    });
    w.u8(match open.reliability {
        Reliability::ReliableOrdered => 0,
        Reliability::ReliableUnordered => 1,
        Reliability::Timely => 2,
        Reliability::Unreliable => 3,
    });
    let parameters = open_parameters_len(open);
    let tspec_flag = if open.tspec.is_some() { OPEN_TSPEC } else { 0 };
    w.u8(tspec_flag | if parameters > 0 { OPEN_PARAMETERS } else { 0 });
    w.u32(open.channel.0);
    w.u16(open.priority);
    w.u16(open.label);
    w.u64(open.limit);
    if let Some(t) = &open.tspec {
        w.u64(t.rate.as_bps());
        w.u64(t.peak.as_bps());
        w.u64(t.burst.as_bytes());
        w.u32(t.unit_min_bytes);
        w.u32(t.unit_max_bytes);
    }
    if parameters > 0 {
        w.u16(parameters as u16);
        emit_open_parameters(w, open);
    }
}

fn emit_open_parameters(w: &mut Writer<'_>, open: &ChannelOpen) {
    if open.one_to_many {
        emit_parameter(w, ONE_TO_MANY, &[]);
    }
    if open.duplex {
        emit_parameter(w, DUPLEX, &[]);
    }
    if let Some(reservation) = open.reservation {
        emit_parameter(w, RESERVATION, &reservation.to_le_bytes());
    }
}

/// Writes the [`DATA_OVERHEAD`] bytes before a piece's content of `len` bytes.
pub fn emit_data_header(
    w: &mut Writer<'_>,
    channel: ChannelId,
    message: u64,
    message_len: u32,
    offset: u32,
    len: u16,
) {
    w.u8(DATA);
    w.u8(0);
    w.u16(len);
    w.u32(channel.0);
    w.u64(message);
    w.u32(message_len);
    w.u32(offset);
}

/// Bytes of a SKIP frame.
pub const SKIP_LEN: usize = 24;

/// Writes SKIP.
pub fn emit_skip(w: &mut Writer<'_>, channel: ChannelId, message: u64, charge: u64) {
    w.u32(u32::from(SKIP));
    w.u32(channel.0);
    w.u64(message);
    w.u64(charge);
}

/// Bytes of a LIMIT frame.
pub const LIMIT_LEN: usize = 16;

/// Writes LIMIT.
pub fn emit_limit(w: &mut Writer<'_>, channel: ChannelId, limit: u64) {
    w.u32(u32::from(LIMIT));
    w.u32(channel.0);
    w.u64(limit);
}

/// Bytes of a `CLOSE_CHANNEL` frame.
pub const CLOSE_CHANNEL_LEN: usize = 16;

/// Writes `CLOSE_CHANNEL`.
pub fn emit_close_channel(w: &mut Writer<'_>, channel: ChannelId, reason: u16, messages: u64) {
    w.u8(CLOSE_CHANNEL);
    w.u8(0);
    w.u16(reason);
    w.u32(channel.0);
    w.u64(messages);
}

/// Writes CLOSE; text beyond 255 bytes is cut.
pub fn emit_close(w: &mut Writer<'_>, reason: u16, text: &[u8]) {
    let text = &text[..text.len().min(255)];
    w.u8(CLOSE);
    w.u8(text.len() as u8);
    w.u16(reason);
    w.put(text);
}

/// Bytes of a `PATH_CHALLENGE` or `PATH_RESPONSE` frame.
pub const PATH_TOKEN_LEN: usize = 16;

/// Writes `PATH_CHALLENGE`.
pub fn emit_path_challenge(w: &mut Writer<'_>, token: u64) {
    w.u64(u64::from(PATH_CHALLENGE));
    w.u64(token);
}

/// Writes `PATH_RESPONSE`.
pub fn emit_path_response(w: &mut Writer<'_>, token: u64) {
    w.u64(u64::from(PATH_RESPONSE));
    w.u64(token);
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
