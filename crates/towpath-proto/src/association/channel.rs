//! One channel of an association.

use alloc::boxed::Box;

use towpath_wire::TrafficSpec;
use towpath_wire::frame::{ChannelOpen, Direction, MESSAGE_CHARGE, Reliability};

use super::receive::{ReceiveHalf, Renewal};
use super::reserved::Reserved;
use super::send::SendHalf;
use crate::coding::Coding;
use crate::config::Config;
use crate::stripe::StripeKind;

/// What a channel is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Who may send.
    pub direction: Direction,
    /// What becomes of lost pieces. Only a reliable ordered channel delivers in order; the others
    /// deliver each message as soon as it is complete.
    pub reliability: Reliability,
    /// Larger goes first.
    pub priority: u16,
    /// What the two ends use it for.
    pub label: u16,
    /// Credit of each direction in bytes, at most what both sides' [`Config::window_max`] allow;
    /// its longest message is 64 bytes less. `None`: [`Config::window`], which each side lets grow
    /// while it holds the other up.
    pub window: Option<u32>,
    /// Traffic specification, where one is given.
    pub tspec: Option<TrafficSpec>,
    /// The reservation that it is part of, told to the peer's owner.
    pub reservation: Option<u64>,
    /// Which of several paths carry what we send on it; `None`: as the association's
    /// ([`PathsConfig::stripe`](crate::config::PathsConfig::stripe)).
    pub stripe: Option<StripeKind>,
    /// How packets with what we send on it are coded across paths; `None`: as the association's
    /// ([`CodingConfig::usual`](crate::coding::CodingConfig::usual)). Others' data that shares a
    /// packet with it is coded, too; a reserved channel's is not.
    pub coding: Option<Coding>,
}

impl Opening {
    /// A reliable ordered channel of priority 0 with the usual window.
    pub const fn new(direction: Direction, label: u16) -> Self {
        Self {
            direction,
            reliability: Reliability::ReliableOrdered,
            priority: 0,
            label,
            window: None,
            tspec: None,
            reservation: None,
            stripe: None,
            coding: None,
        }
    }
}

/// What the peer's handshake granted.
#[derive(Clone, Copy, Debug)]
pub struct PeerLimits {
    /// Largest window of a channel that we open, in bytes.
    pub window: u64,
    /// Channels of ours that it takes at once.
    pub channels_max: u16,
    /// Windows of all of them together, in bytes.
    pub credit: u64,
    /// Paths that it can hold; at least 1.
    pub paths: u16,
}

/// Counters of a channel since it was opened. They end with the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Messages of ours acknowledged whole.
    pub messages_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Messages of ours given up: their time was over, or a piece of an unreliable one was lost.
    pub abandoned: u64,
    /// Of the acknowledged ones, those that arrived after their deadline, by our estimate: the
    /// acknowledgement came more than half a round trip after it.
    pub late: u64,
    /// Pieces sent again.
    pub repaired: u64,
    /// Messages delivered to the owner.
    pub messages_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Messages that the peer gave up before they were complete here.
    pub dropped: u64,
    /// Pieces thrown away: their message was delivered or given up before.
    pub stale: u64,
}

/// Control frames that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    pub(super) open: bool,
    pub(super) limit: bool,
    pub(super) close: bool,
    /// The limit may wait for a packet that goes out before long anyway.
    pub(super) patient: bool,
}

impl Due {
    pub(super) const fn any(self) -> bool {
        self.open || self.limit || self.close
    }

    /// Something of it is worth a packet of its own.
    pub(super) const fn is_pressing(self) -> bool {
        self.open || self.close || (self.limit && !self.patient)
    }

    /// New credit is to be told; `along`: an acknowledgement goes out before long.
    pub(super) fn renew(&mut self, renewal: Renewal, along: bool) {
        if renewal != Renewal::Later {
            let patient = renewal == Renewal::Along && along;
            self.patient = patient && (self.patient || !self.limit);
            self.limit = true;
        }
    }
}

/// Messages that may wait on a channel at least, however little credit it has.
const WAITING_MIN: u32 = 16;

/// Most messages that wait on a channel: as many of no length as its window covers, where that is
/// less than what the configuration allows.
fn waiting_max(window: u64, config: &Config) -> u32 {
    let covered = u32::try_from(window / MESSAGE_CHARGE).unwrap_or(u32::MAX);
    config.messages_max.min(covered.max(WAITING_MIN))
}

/// One channel. Invariant: a half exists exactly where `open.direction` allows it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) open: ChannelOpen,
    /// We opened it.
    pub(super) ours: bool,
    /// The peer is known to know it.
    pub(super) known: bool,
    pub(super) due: Due,
    /// Our end of sending was acknowledged.
    pub(super) close_acked: bool,
    pub(super) end_told: bool,
    pub(super) send: Option<SendHalf>,
    pub(super) receive: Option<ReceiveHalf>,
    pub(super) stats: ChannelStats,
    /// By how much our window has grown, in bytes.
    pub(super) grown: u64,
    /// Its rank while it has data to send: in the list of ready channels, unless it is reserved.
    pub(super) listed: Option<u32>,
    /// It stands in the list of channels with control frames.
    pub(super) queued: bool,
    /// Its data goes by grants of its own; boxed, since few are.
    pub(super) reserved: Option<Box<Reserved>>,
    /// Which of several paths carry it, where it says so.
    pub(super) stripe: Option<StripeKind>,
    /// How it is coded across paths, where it says so.
    pub(super) coding: Option<Coding>,
}

impl Channel {
    pub(super) fn new(open: ChannelOpen, ours: bool, config: &Config) -> Self {
        let we_send = match open.direction {
            Direction::Both => true,
            Direction::Opener => ours,
            Direction::Acceptor => !ours,
        };
        let we_receive = open.direction == Direction::Both || !we_send;
        let (window, class) = (open.limit, open.reliability);
        Self {
            open,
            ours,
            known: !ours,
            due: Due { open: ours, ..Due::default() },
            close_acked: false,
            end_told: false,
            send: we_send.then(|| SendHalf::new(window, class, waiting_max(window, config))),
            receive: we_receive.then(|| ReceiveHalf::new(window, class)),
            stats: ChannelStats::default(),
            grown: 0,
            listed: None,
            queued: false,
            reserved: None,
            stripe: None,
            coding: None,
        }
    }

    /// Finished in both directions: the channel can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        let sent = self.send.is_none() || self.close_acked;
        let received = self.receive.as_ref().is_none_or(|r| r.ended() && self.end_told);
        sent && received && self.known
    }

    /// True when our end may be announced: the fate of everything sent is settled.
    pub(super) fn may_close(&self) -> bool {
        self.send.as_ref().is_some_and(|s| s.finish.is_some() && s.is_idle())
    }

    /// Its rank among the channels with something to send, `None` when it has nothing. Repairs
    /// come before fresh data of any priority: what they wait for is held in memory at both ends,
    /// and there is never more of it than was under way.
    pub(super) fn rank(&self) -> Option<u32> {
        let send = self.send.as_ref().filter(|s| s.ready())?;
        Some(u32::from(self.open.priority) + (u32::from(send.repairs_wait()) << 16))
    }
}
