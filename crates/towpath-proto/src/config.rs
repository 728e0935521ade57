//! Every option of an endpoint, with its default and what it costs.
//!
//! The defaults are tuned for hosts in one building: round trips of 0.1 to 20 ms, datagrams of
//! 1472 bytes, a lost host known within two seconds.

use core::time::Duration;

use towpath_wire::{LinkId, VersionRange, WIRE_VERSIONS};

use crate::coding::CodingConfig;
use crate::congestion::CongestionKind;
use crate::stripe::StripeKind;

/// Options of an endpoint and its associations. `window_max`, `channels_max` and `credit_max` are
/// told to the peer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Wire versions offered and accepted.
    pub versions: VersionRange,
    /// Largest datagram sent, in bytes (1500-byte Ethernet less IP and UDP headers: 1472).
    pub datagram: u16,
    /// Longest datagram that the search for the path's own limit tries, in bytes: at least
    /// `datagram`, at most what the drivers of both sides take.
    pub datagram_max: u16,
    /// Credit of each direction of a channel that asks for none itself, in bytes; its longest
    /// message is 64 bytes less.
    pub window: u32,
    /// Most credit that a channel can have, in bytes: two messages of 16 MiB.
    pub window_max: u32,
    /// Most channels of either side's opening per association.
    pub channels_max: u16,
    /// Most credit of all channels of either side's opening together, in bytes and direction.
    pub credit_max: u64,
    /// Most messages waiting in one channel for credit or acknowledgement; no more, either, than
    /// its credit covers of messages without any bytes, 16 at least.
    pub messages_max: u32,
    /// Most associations, half-open ones included.
    pub associations_max: u16,
    /// What handshakes may cost.
    pub handshakes: Handshakes,
    /// Nanoseconds since the Unix epoch at our time zero, more or less: handshakes are stamped
    /// with it so that old ones, sent again by others, are told from new ones.
    pub unix_ns_at_zero: u64,
    /// Longest wait before an acknowledgement is sent.
    pub ack_delay: Duration,
    /// When a path that says nothing is probed.
    pub probes: Probes,
    /// When a peer counts as lost, and how often a quiet one is asked.
    pub liveness: Liveness,
    /// When packet keys are renewed.
    pub rekey: Rekey,
    /// Whoever can reach the link is trusted: packets go unsealed to peers that say the same.
    pub trusted: bool,
    /// Congestion controller of each path.
    pub congestion: CongestionKind,
    /// What goes by which of several paths.
    pub paths: PathsConfig,
    /// What is coded across paths, and what that may take.
    pub coding: CodingConfig,
    /// A deliberate bug.
    #[cfg(plant)]
    pub plant: Plant,
}

/// When a path that says nothing is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Round-trip time assumed before the first sample.
    pub rtt_initial: Duration,
    /// Longest time-out after back-off.
    pub after_max: Duration,
}

impl Default for Probes {
    fn default() -> Self {
        Self { rtt_initial: Duration::from_millis(50), after_max: Duration::from_millis(400) }
    }
}

/// What handshakes may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// Most of them that wait for the initiator's first sealed packet.
    pub half_open_max: u16,
    /// How many per second are answered without asking for a cookie first.
    pub per_s: u32,
    /// How many per second are read of those who have proved their address; a quarter of them may
    /// come from one network. More are turned away, unread.
    pub proved_per_s: u32,
    /// How long one may take before it fails.
    pub timeout: Duration,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { half_open_max: 256, per_s: 200, proved_per_s: 1000, timeout: Duration::from_secs(5) }
    }
}

/// When a peer counts as lost, and how often a quiet one is asked for a sign of life.
///
/// All times are our own, less those by which we ourselves were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// A peer is lost when something that asks it for an answer has been under way for so long
    /// and nothing was heard since; longer by four times what the host itself wakes late, on the
    /// average of its last timers, where that is 10 ms or more: a machine that has no time for
    /// one host has none for its peers.
    pub lost_after: Duration,
    /// It is silent, which ends nothing, when that has lasted so long: then it is told, and the
    /// peer is asked a third as often.
    pub silent_after: Duration,
    /// ... and so many such packets, spread over that time, went unanswered. From 10 on, a link
    /// that loses one packet in five each way (an ask fails with 0.36) is not taken for a dead
    /// peer more than once in 27 000 silences.
    pub asks: u32,
    /// A peer that is heard but acknowledges nothing of ours for so long is given up, too; and so
    /// is one to whom our own link let nothing out for so long. Also the most own lateness that
    /// one silence is excused, and how long a peer given up is told so when it is heard again.
    pub no_progress_after: Duration,
    /// A quiet peer is asked after so long while it is watched.
    pub keepalive: Duration,
    /// While nobody watches, that time doubles with each answer up to this, and only the
    /// initiator asks; the responder asks after three of these without a word. NAT tables forget
    /// UDP after 30 s.
    pub keepalive_max: Duration,
}

impl Liveness {
    /// A peer that is waited for for much longer is silent after this time.
    pub const SILENT_AFTER: Duration = Duration::from_millis(1500);
    /// A peer that is waited for for longer than this is waited for no longer because it is heard.
    const NO_PROGRESS_AFTER: Duration = Duration::from_secs(20);

    /// Bounds that follow from `lost_after`: a peer is silent after 1.5 s, or only when it is lost
    /// where that is no more than twice as long.
    pub fn after(lost_after: Duration) -> Self {
        let keepalive_max = Duration::from_secs(25);
        let silent_after =
            if lost_after < Self::SILENT_AFTER * 2 { lost_after } else { Self::SILENT_AFTER };
        Self {
            lost_after,
            silent_after,
            asks: 10,
            no_progress_after: (lost_after * 10).min(Self::NO_PROGRESS_AFTER.max(lost_after * 2)),
            keepalive: (silent_after / 4).min(keepalive_max),
            keepalive_max,
        }
    }
}

impl Default for Liveness {
    fn default() -> Self {
        Self::after(Duration::from_secs(2))
    }
}

/// When packet keys are renewed, and how much one key may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// Packets after which a new key is used as soon as the peer has acknowledged one of the
    /// present key.
    pub packets: u64,
    /// Time after which it is, at the next packet.
    pub age: Duration,
    /// Packets after which no more are sealed with a key; the association ends. RFC 9001 §6.6
    /// allows AES-GCM 2^23.
    pub packets_max: u64,
    /// Packets that failed to open after which the association ends. RFC 9001 §6.6 allows 2^36
    /// with ChaCha20-Poly1305 and 2^52 with AES-GCM.
    pub failures_max: u64,
}

impl Default for Rekey {
    fn default() -> Self {
        Self {
            packets: 1 << 22,
            age: Duration::from_hours(1),
            packets_max: 1 << 23,
            failures_max: 1 << 36,
        }
    }
}

/// Deliberate bugs, so that the simulator can prove that it finds them.
#[cfg(plant)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// None.
    #[default]
    None,
    /// Some acknowledgements of data get lost inside the sender: neither acknowledged nor
    /// repeated.
    LostAcknowledgement,
    /// The receiver's bitmap is off by one where a packet is missing.
    BitmapOffByOne,
    /// Some of what counts as lost is not sent again.
    ForgottenRepair,
    /// A lost SKIP is not sent again: the receiver waits for a message that was given up.
    ForgottenSkip,
    /// The key of an epoch is kept for ever once the next one has begun.
    KeyKept,
    /// Some packets are sealed under the number, and so the nonce, of the one before.
    NonceReused,
    /// Asks that a peer answered are counted as unanswered.
    AsksKept,
    /// A silence goes on though the peer was heard.
    SilenceKept,
    /// What a receiver grants a sender counts twice.
    CreditTwice,
    /// Some of what a receiver grants a sender is not told.
    CreditLost,
    /// Of those behind a lost host of a chain the last is not sent what it missed.
    ChainCutShort,
    /// Pieces do not say their place where a pair's messages go by several channels.
    PlaceUnsaid,
    /// The end of a task does not wait for the pieces of its long messages.
    EndOvertakes,
    /// A task that is done with a channel keeps the credit of what it did not receive.
    ChannelCreditKept,
    /// A reservation stays when its channel ends.
    ReservationKept,
    /// The end of a task is told to one host too few.
    NoticeOneTooFew,
    /// The tasks of a host that was declared lost go on once it is another one.
    LostGoesOn,
    /// A leader that was out of contact itself declares the others lost.
    WrongSideLost,
    /// A packet for a path goes out by whichever link asks.
    WrongLink,
    /// An association that has something to send is told to its first link only.
    LinkAsleep,
    /// The egress is not told of some heads of reserved channels.
    HeadAsleep,
    /// Some commands of the control log are applied twice.
    CommandTwice,
    /// A leader declares hosts lost that are needed to decide it.
    LostAlone,
    /// Unique tasks of a host that is out of contact go on.
    UniqueGoesOn,
    /// The content of a mailbox entry is with whoever leads alone when that is decided.
    ContentAlone,
    /// A question that is asked again of the next leader is taken for a new one.
    AskedTwice,
    /// A lost offer of an address is not repeated.
    OfferForgotten,
    /// The address of a new path is challenged once, and no more.
    ChallengedOnce,
    /// A path that fell silent is not asked whether it is back.
    SilentUnasked,
    /// A parity has a wrong coefficient, behind the heads of its symbols.
    WrongCoefficient,
    /// Another packet than the one that was rebuilt is told to be.
    RebuiltOffByOne,
}

/// What goes by which of several paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathsConfig {
    /// Which of them carry data, of channels that do not say.
    pub stripe: StripeKind,
    /// Bit `n`: link `n` is on standby. A path that leaves by it carries only while none of another
    /// link can.
    pub standby: u16,
}

impl PathsConfig {
    /// Whether what leaves by a link does so only while nothing can by another.
    pub(crate) fn is_standby(&self, link: LinkId) -> bool {
        1u16.checked_shl(link.0.into()).is_some_and(|bit| self.standby & bit != 0)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: WIRE_VERSIONS,
            datagram: 1472,
            datagram_max: 1472,
            window: 1 << 20,
            window_max: 2 * ((16 << 20) + 64),
            channels_max: 16_384,
            credit_max: 128 << 20,
            messages_max: 16_384,
            associations_max: 4096,
            handshakes: Handshakes::default(),
            unix_ns_at_zero: 0,
            ack_delay: Duration::from_millis(2),
            probes: Probes::default(),
            liveness: Liveness::default(),
            rekey: Rekey::default(),
            trusted: false,
            congestion: CongestionKind::Tolerant,
            paths: PathsConfig::default(),
            coding: CodingConfig::default(),
            #[cfg(plant)]
            plant: Plant::None,
        }
    }
}
