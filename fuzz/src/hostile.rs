//! Frames of a peer that holds the right keys and keeps to no rule.

use arbitrary::Arbitrary;
use towpath_wire::bytes::Writer;
use towpath_wire::coding;
use towpath_wire::frame;
use towpath_wire::{ChannelId, ChannelOpen, Direction, LinkId, PathId, Reliability};

/// One frame of a hostile peer.
#[derive(Arbitrary, Debug)]
pub enum Hostile {
    /// Any bytes.
    Raw(Vec<u8>),
    /// An acknowledgement.
    Ack { path: u8, delay_us: u32, largest: u16, map: [u64; 2] },
    /// A channel.
    Open { channel: u8, direction: u8, reliability: u8, limit: u16 },
    /// Part of a message.
    Data { channel: u8, message: u8, message_len: u16, offset: u16, len: u8 },
    /// Credit.
    Limit { channel: u8, limit: u64 },
    /// A message given up.
    Skip { channel: u8, message: u8, charge: u16 },
    /// The end of a channel.
    CloseChannel { channel: u8, messages: u8 },
    /// A question.
    Challenge(u64),
    /// A wish for acknowledgements.
    AckRate { path: u8, every: u16, delay_us: u32 },
    /// A path offered.
    PathAdd { path: u8, port: u16 },
    /// A path that is used no more.
    PathRetire { path: u8, reason: u16 },
    /// A note.
    Note(u8),
    /// What follows is coded.
    Coded { group: u8, index: u8, members: u8 },
    /// A parity of anything.
    Parity { group: u8, index: u8, members: u8, symbol: Vec<u8> },
    /// A packet that was rebuilt.
    Rebuilt { path: u8, number: u8 },
}

/// A direction of a byte.
pub fn direction_of(n: u8) -> Direction {
    [Direction::Both, Direction::Opener, Direction::Acceptor][usize::from(n % 3)]
}

/// A class of a byte.
pub fn reliability_of(n: u8) -> Reliability {
    use Reliability::{ReliableOrdered, ReliableUnordered, Timely, Unreliable};
    [ReliableOrdered, ReliableUnordered, Timely, Unreliable][usize::from(n % 4)]
}

/// The frames as a packet's content, as many as fit.
pub fn content(frames: &[Hostile]) -> Vec<u8> {
    let mut out = vec![0; 1440];
    let mut w = Writer::new(&mut out);
    for f in frames {
        if w.room() < 300 {
            break;
        }
        hostile(&mut w, f);
    }
    let used = w.used();
    out.truncate(used);
    out
}

fn hostile(w: &mut Writer<'_>, f: &Hostile) {
    match f {
        Hostile::Raw(bytes) => w.put(&bytes[..bytes.len().min(300)]),
        Hostile::AckRate { path, every, delay_us } => {
            frame::emit_ack_rate(w, PathId(u16::from(*path / 128)), *every, *delay_us);
        }
        Hostile::Ack { path, delay_us, largest, map } => {
            frame::emit_ack(w, PathId(u16::from(*path / 128)), *delay_us, (*largest).into(), map);
        }
        Hostile::Open { channel, direction, reliability, limit } => {
            let (channel, limit) = (ChannelId((*channel).into()), u64::from(*limit));
            let (direction, reliability) = (direction_of(*direction), reliability_of(*reliability));
            let plain = ChannelOpen::new(channel, direction, reliability, limit);
            // One in 16 asks for what is not served here.
            let open = ChannelOpen {
                label: 7,
                reservation: (limit % 4 == 1).then_some(limit),
                one_to_many: limit % 16 == 15,
                ..plain
            };
            frame::emit_open(w, &open);
        }
        Hostile::Data { channel, message, message_len, offset, len } => {
            let (channel, len) = (ChannelId((*channel).into()), u16::from(*len));
            let (total, offset) = (u32::from(*message_len), u32::from(*offset));
            frame::emit_data_header(w, channel, (*message).into(), total, offset, len);
            w.put(&vec![0x5a; len.into()]);
        }
        Hostile::Limit { channel, limit } => {
            frame::emit_limit(w, ChannelId((*channel).into()), *limit);
        }
        Hostile::Skip { channel, message, charge } => {
            let (channel, message) = (ChannelId((*channel).into()), (*message).into());
            frame::emit_skip(w, channel, message, (*charge).into());
        }
        Hostile::CloseChannel { channel, messages } => {
            frame::emit_close_channel(w, ChannelId((*channel).into()), 0, (*messages).into());
        }
        Hostile::PathAdd { path, port } => {
            let remote = ([10, 0, 0, 9], *port).into();
            frame::emit_path_add(w, PathId(u16::from(*path % 20)), LinkId(1), remote);
        }
        Hostile::PathRetire { path, reason } => {
            frame::emit_path_retire(w, PathId(u16::from(*path / 128)), *reason);
        }
        Hostile::Note(len) => frame::emit_note(w, &vec![0x5b; (*len).into()]),
        Hostile::Coded { group, index, members } => {
            coding::emit_coded(w, (*group).into(), *index % 20, *members % 20, 0);
        }
        Hostile::Parity { group, index, members, symbol } => {
            let symbol = &symbol[..symbol.len().min(280)];
            let (group, index, members) = ((*group).into(), *index % 5, *members % 20);
            coding::emit_parity(w, &coding::Parity { group, members, index, symbol });
        }
        Hostile::Rebuilt { path, number } => {
            coding::emit_rebuilt(w, PathId(u16::from(*path / 128)), (*number).into());
        }
        Hostile::Challenge(token) => {
            w.u64(8);
            w.u64(*token);
        }
    }
}
