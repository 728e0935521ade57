//! What an association counts.

use ::core::time::Duration;

use crate::coding::{DecoderStats, EncoderStats};

/// What an association counts of coding across its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingStats {
    /// Of what it codes.
    pub encoder: EncoderStats,
    /// Of what its peer does.
    pub decoder: DecoderStats,
    /// Packets of ours that the peer rebuilt, and that were not known to have arrived.
    pub delivered: u64,
    /// Rebuilt packets that found no room here: they come again.
    pub refused: u64,
    /// Rebuilt packets that hold no frames: the peer has coded something else.
    pub malformed: u64,
}

impl CodingStats {
    const fn add(&mut self, other: &Self) {
        let Self { encoder, decoder, delivered, refused, malformed } = *other;
        self.encoder.groups += encoder.groups;
        self.encoder.sent += encoder.sent;
        self.encoder.dropped += encoder.dropped;
        self.decoder.received += decoder.received;
        self.decoder.rebuilt += decoder.rebuilt;
        self.decoder.unrebuilt += decoder.unrebuilt;
        self.decoder.forgotten += decoder.forgotten;
        self.decoder.garbage += decoder.garbage;
        self.delivered += delivered;
        self.refused += refused;
        self.malformed += malformed;
    }
}

/// What an association counts of its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathsStats {
    /// Times that a path that was silent answered again.
    pub returned: u64,
    /// Paths that were opened, by either side, and have shown that they lead to the peer.
    pub opened: u64,
    /// Times that a path went on to another address, which has shown that it is the peer's.
    pub moved: u64,
    /// Answers to no challenge of ours.
    pub responses_stray: u64,
    /// Copies of pieces that were dropped because too many waited for their path.
    pub copies_dropped: u64,
    /// Of coding across them.
    pub coding: CodingStats,
}

impl PathsStats {
    const fn add(&mut self, other: &Self) {
        let Self { returned, opened, moved, responses_stray, copies_dropped, coding } = *other;
        self.returned += returned;
        self.opened += opened;
        self.moved += moved;
        self.responses_stray += responses_stray;
        self.copies_dropped += copies_dropped;
        self.coding.add(&coding);
    }
}

/// Counters since the association began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssociationStats {
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Bytes of datagrams sent.
    pub bytes_sent: u64,
    /// Datagrams received and authenticated.
    pub packets_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Received packets that routers had marked: they met congestion.
    pub packets_marked: u64,
    /// Datagrams dropped: same number as one received before.
    pub duplicates: u64,
    /// Datagrams dropped: did not authenticate, or an unknown path or epoch.
    pub forged: u64,
    /// Datagrams not acknowledged because memory or bookkeeping was full.
    pub refused: u64,
    /// Datagrams of ours that counted as lost.
    pub packets_lost: u64,
    /// Of those, how many had arrived after all.
    pub spurious: u64,
    /// Data packets sent that held at least one piece sent before.
    pub repaired: u64,
    /// Times that nothing was acknowledged in time.
    pub probes: u64,
    /// Times that the peer retired a path that there is not, or the last one: the path stays.
    pub misretired: u64,
    /// Times that a path was left because it lost its carrier, or was silent while others got on.
    pub paths_silent: u64,
    /// Of its paths.
    pub paths: PathsStats,
    /// Messages delivered to the owner.
    pub messages_received: u64,
    /// Messages of ours acknowledged whole.
    pub messages_sent: u64,
    /// Times that we went on to the next key.
    pub keys_sent: u64,
    /// Times that the peer did.
    pub keys_received: u64,
    /// Longest time by which our own timer was late.
    pub late_max: Duration,
}

impl AssociationStats {
    /// Takes in what another association has counted.
    pub fn add(&mut self, other: &Self) {
        let Self {
            packets_sent,
            bytes_sent,
            packets_received,
            bytes_received,
            packets_marked,
            duplicates,
            forged,
            refused,
            packets_lost,
            spurious,
            repaired,
            probes,
            misretired,
            paths_silent,
            paths,
            messages_received,
            messages_sent,
            keys_sent,
            keys_received,
            late_max,
        } = *other;
        self.packets_sent += packets_sent;
        self.bytes_sent += bytes_sent;
        self.packets_received += packets_received;
        self.bytes_received += bytes_received;
        self.packets_marked += packets_marked;
        self.duplicates += duplicates;
        self.forged += forged;
        self.refused += refused;
        self.packets_lost += packets_lost;
        self.spurious += spurious;
        self.repaired += repaired;
        self.probes += probes;
        self.misretired += misretired;
        self.paths_silent += paths_silent;
        self.paths.add(&paths);
        self.messages_received += messages_received;
        self.messages_sent += messages_sent;
        self.keys_sent += keys_sent;
        self.keys_received += keys_received;
        self.late_max = self.late_max.max(late_max);
    }
}
