//! Channels of tasks' own: what they may be asked to be, and what is said of them.
//!
//! A task opens one to another task, and both may send on it. Other than by messages, what is sent
//! on one channel never waits for what is sent on another: each has its own order, its own room and
//! its own place among what a host sends. A channel ends when either task closes it or ends, or
//! when the connection of their hosts does: it is not made again by itself.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;
use towpath_wire::talk::{ChannelFront, FRAME_BODY_MAX};

/// Most channels that one task has at once, whoever opened them.
pub const CHANNELS_MAX: usize = 1024;
/// How long a channel to a process waits for it to enrol as a task; then it is refused.
pub const ENROL_WAIT: Duration = Duration::from_mins(1);
/// Most channels that one task opens in a second; as many at once after a second without.
pub const OPENS_PER_SECOND: u32 = 1000;
/// The highest priority.
pub const PRIORITY_MAX: u8 = 7;
/// The priority of tasks' messages.
pub const PRIORITY_USUAL: u8 = 4;
/// Least room of a channel, in bytes.
pub const WINDOW_MIN: u32 = 4 << 10;
/// Room of a channel that asks for none itself, in bytes.
pub const WINDOW_USUAL: u32 = 64 << 10;
/// Most room of a channel, in bytes.
pub const WINDOW_MAX: u32 = 16 << 20;
/// What a message takes of a channel's room beside its bytes.
pub const MESSAGE_COST: u32 = 64;
/// Most room, of both directions, of all channels between tasks of one host, in bytes: what a
/// daemon may have to keep for tasks that do not read.
pub const HERE_MAX: u64 = 128 << 20;
/// Most room of all channels between tasks of one host and of others, in bytes: what a daemon may
/// have to keep of what came for tasks that do not receive.
pub const THERE_MAX: u64 = 256 << 20;
/// Most messages of a channel that are under way.
pub const MESSAGES_MAX: u32 = 16_384;
/// Longest message, in bytes, where the channel's room allows it.
pub const MESSAGE_MAX: u32 = (FRAME_BODY_MAX - ChannelFront::LEN) as u32;

/// What a channel promises about its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    /// Each exactly once, in order.
    #[default]
    Ordered,
    /// Each exactly once, in any order: none waits for another that was lost.
    Unordered,
    /// Each at most once, in any order. What is lost is repaired while that can still be in time.
    Timely,
    /// Each at most once, in any order; nothing is repaired.
    Once,
}

/// Messages at once that can be reserved for.
pub const BURST_MAX: u32 = 1024;
/// Least time between two messages that can be reserved for.
pub const EVERY_MIN: Duration = Duration::from_micros(1);
/// Most time between two messages that can be reserved for, and until one has left.
pub const RESERVE_MAX: Duration = Duration::from_secs(4);

/// Until when a reservation's time counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Until {
    /// Until a datagram's last bit has left the opener's host.
    #[default]
    Left,
    /// Until it is in at the other host, and both processors have done what the topology says that
    /// they take: every port on the way is asked, of the topology that the virtual machine knows
    /// (`towpath network`), and keeps that promise as [`crate::promises`] says.
    Arrived,
}

/// What is reserved on the first link for what a channel's opener sends: a message of `bytes` at
/// most `every` so often, and `burst` of them at once after a while without. A datagram of it has
/// left the opener's host, or has arrived, `within` so long, however much else there is to send.
/// What is sent beyond that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Bytes of a message at most.
    pub bytes: u32,
    /// One message in this time, from [`EVERY_MIN`] to [`RESERVE_MAX`].
    pub every: Duration,
    /// Messages at once, from 1 to [`BURST_MAX`].
    pub burst: u32,
    /// How long a datagram may take, at most [`RESERVE_MAX`].
    pub within: Duration,
    /// Until it has left, or has arrived.
    pub until: Until,
}

impl Reserve {
    /// What it lets through in the long run, in bits of messages a second.
    pub const fn bits_per_second(&self) -> u64 {
        let every = self.every.as_nanos();
        if every == 0 {
            return 0;
        }
        (self.bytes as u128 * 8 * 1_000_000_000 / every) as u64
    }

    /// Why nothing like this can be reserved on a channel whose messages have `longest` bytes at
    /// most, if so.
    fn check(&self, longest: u32) -> Result<(), String> {
        if !(1..=longest).contains(&self.bytes) {
            return Err(format!(
                "a reservation for messages of {} bytes, from 1 to {longest}, the longest of the \
                 channel",
                self.bytes
            ));
        }
        if !(1..=BURST_MAX).contains(&self.burst) {
            return Err(format!(
                "a reservation for {} messages at once, from 1 to {BURST_MAX}",
                self.burst
            ));
        }
        if !(EVERY_MIN..=RESERVE_MAX).contains(&self.every) {
            return Err(format!(
                "a reservation for a message every {:?}, from {EVERY_MIN:?} to {RESERVE_MAX:?}",
                self.every
            ));
        }
        if self.within.is_zero() || self.within > RESERVE_MAX {
            return Err(format!(
                "a reservation within {:?}, above 0 and at most {RESERVE_MAX:?}",
                self.within
            ));
        }
        Ok(())
    }
}

/// What a channel is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSpec {
    /// What it promises.
    pub class: Class,
    /// From 0 to [`PRIORITY_MAX`]: of what waits for one host, the higher goes first.
    pub priority: u8,
    /// For how long a message is of use that says nothing else: on a timely channel, where it must
    /// be said, and nowhere else.
    pub deadline: Option<Duration>,
    /// Room of each direction in bytes, from [`WINDOW_MIN`] to [`WINDOW_MAX`]. Between hosts what
    /// was sent and is neither acknowledged nor given up is no more, and neither is what has come
    /// and was not received; on one host both together. Each message takes [`MESSAGE_COST`] bytes
    /// beside its own, and no fewer than a [`MESSAGES_MAX`]th of the room.
    pub window: u32,
    /// What is reserved for its opener, where the host of that one has a rate to promise of
    /// (`--link-rate`). Between tasks of one host there is no link, and nothing to reserve.
    pub reserve: Option<Reserve>,
    /// How what its opener sends is coded across the paths to the other host; none: as that host's
    /// daemon does with all (`towpath up --coding`). Not together with a reservation.
    pub code: Option<Code>,
}

impl Default for ChannelSpec {
    fn default() -> Self {
        let (priority, window) = (PRIORITY_USUAL, WINDOW_USUAL);
        let (deadline, reserve, code) = (None, None, None);
        Self { class: Class::Ordered, priority, deadline, window, reserve, code }
    }
}

/// Most packets of a group that is coded together.
pub const CODE_PACKETS_MAX: u8 = 16;
/// Most packets of parity to a group.
pub const CODE_PARITIES_MAX: u8 = 4;

/// Coding across paths: to each `packets` packets `parities` more, of which any as many may be lost
/// with nothing to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// From 1 to [`CODE_PACKETS_MAX`].
    pub packets: u8,
    /// From 1 to [`CODE_PARITIES_MAX`].
    pub parities: u8,
    /// No more of them than what was lost of late calls for.
    pub adaptive: bool,
}

impl Code {
    fn check(self) -> Result<(), String> {
        if !(1..=CODE_PACKETS_MAX).contains(&self.packets) {
            return Err(format!("{} packets coded, from 1 to {CODE_PACKETS_MAX}", self.packets));
        }
        if !(1..=CODE_PARITIES_MAX).contains(&self.parities) {
            return Err(format!("{} parities, from 1 to {CODE_PARITIES_MAX}", self.parities));
        }
        Ok(())
    }
}

impl ChannelSpec {
    /// Why there is no such channel, if so.
    pub fn check(&self) -> Result<(), String> {
        if self.priority > PRIORITY_MAX {
            return Err(format!("priority {}, from 0 to {PRIORITY_MAX}", self.priority));
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&self.window) {
            return Err(format!(
                "room of {} bytes, from {WINDOW_MIN} to {WINDOW_MAX}",
                self.window
            ));
        }
        self.reserve.map_or(Ok(()), |reserve| reserve.check(self.longest()))?;
        self.code.map_or(Ok(()), Code::check)?;
        if self.reserve.is_some() && self.code.is_some() {
            return Err("a code on a channel with a reservation: its data is not coded".into());
        }
        match (self.class, self.deadline) {
            (Class::Timely, None) => Err("a timely channel without a deadline".into()),
            (Class::Timely, Some(Duration::ZERO)) => Err("a deadline that is over at once".into()),
            (Class::Timely, _) | (_, None) => Ok(()),
            (class, Some(_)) => Err(format!(
                "a deadline on a channel of class {class:?}, which keeps none: only timely ones do"
            )),
        }
    }

    /// Its longest message, in bytes.
    pub fn longest(&self) -> u32 {
        (self.window - MESSAGE_COST).min(MESSAGE_MAX)
    }

    /// What a message of so many bytes takes of its room: so much that no more than
    /// [`MESSAGES_MAX`] fit into it.
    pub fn cost(&self, len: u32) -> u64 {
        let least = self.window.div_ceil(MESSAGES_MAX);
        (u64::from(len) + u64::from(MESSAGE_COST)).max(least.into())
    }
}

/// Why a channel is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Closed {
    /// The other task closed it, or has ended. All that it had sent came before.
    ByPeer,
    /// The connection to its host is over. What was under way may have arrived or not.
    Cut,
}

/// How a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number at the task that asks.
    pub number: u32,
    /// The other task.
    pub peer: TaskId,
    /// What was asked for.
    pub spec: ChannelSpec,
    /// Messages sent that were acknowledged.
    pub sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Messages sent that were given up: their time was over, or they were lost where nothing is
    /// repaired. They may have arrived nevertheless.
    pub abandoned: u64,
    /// Of the acknowledged ones, those that arrived late, by an estimate.
    pub late: u64,
    /// Pieces of messages sent again.
    pub repaired: u64,
    /// Messages that came.
    pub received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// What of this task's room is in use, in bytes.
    pub waiting: u64,
    /// Round trip to the other host; `None` on one host.
    pub rtt: Option<Duration>,
    /// What this task sends is reserved on the link now.
    pub reserved: bool,
    /// Within this it arrives, as was promised of the whole way ([`Until::Arrived`]).
    pub promised: Option<Duration>,
    /// How long messages of this task took, by an estimate; `None`: none has arrived, or on one
    /// host.
    pub took: Option<Took>,
}

/// How long messages took, from when this host had them until they arrived. What was sent beyond a
/// reservation has waited, and that counts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// Half of them at most.
    pub p50: Duration,
    /// 99 of 100 at most.
    pub p99: Duration,
    /// The slowest.
    pub most: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_packets_and_parities_within_bounds() {
        let checks = |packets, parities| {
            let code = Some(Code { packets, parities, adaptive: false });
            ChannelSpec { code, ..ChannelSpec::default() }.check()
        };
        for (packets, parities) in [(1, 1), (16, 4), (8, 2)] {
            assert_eq!(checks(packets, parities), Ok(()), "{packets}+{parities}");
        }
        for (packets, parities, why) in [
            (0, 1, "0 packets coded, from 1 to 16"),
            (17, 1, "17 packets coded, from 1 to 16"),
            (8, 0, "0 parities, from 1 to 4"),
            (8, 5, "5 parities, from 1 to 4"),
        ] {
            assert_eq!(checks(packets, parities), Err(why.into()));
        }
    }

    #[test]
    fn a_reservation_lets_so_many_bits_through_in_the_long_run() {
        let (burst, within, until) = (3, Duration::from_millis(1), Until::Left);
        let of = |bytes, every| Reserve { bytes, every, burst, within, until }.bits_per_second();
        assert_eq!(of(1250, Duration::from_millis(1)), 10_000_000);
        assert_eq!(of(1000, Duration::from_millis(3)), 2_666_666, "rounded down");
        assert_eq!(of(u32::MAX, EVERY_MIN), u64::from(u32::MAX) * 8_000_000);
        assert_eq!(of(7, RESERVE_MAX), 14);
        assert_eq!(of(7, Duration::ZERO), 0, "which nobody may ask for");
    }

    /// The limits that docs/vm.md gives, and every way to ask for what there is not.
    #[test]
    fn what_contradicts_itself_is_refused_with_the_limit() {
        let usual = ChannelSpec::default();
        assert_eq!((usual.check(), usual.longest()), (Ok(()), 65_536 - 64));
        let says = |spec: ChannelSpec| spec.check().unwrap_err();
        assert_eq!(says(ChannelSpec { priority: 8, ..usual }), "priority 8, from 0 to 7");
        for window in [4095, 16_777_217] {
            let said = format!("room of {window} bytes, from 4096 to 16777216");
            assert_eq!(says(ChannelSpec { window, ..usual }), said);
        }
        for window in [4096, 16_777_216] {
            assert_eq!(ChannelSpec { window, ..usual }.check(), Ok(()));
        }
        let timely = ChannelSpec { class: Class::Timely, ..usual };
        assert_eq!(says(timely), "a timely channel without a deadline");
        let at_once = Some(Duration::ZERO);
        assert_eq!(
            says(ChannelSpec { deadline: at_once, ..timely }),
            "a deadline that is over at once"
        );
        let deadline = Some(Duration::from_millis(20));
        assert_eq!(ChannelSpec { deadline, ..timely }.check(), Ok(()));
        for class in [Class::Ordered, Class::Unordered, Class::Once] {
            let said = says(ChannelSpec { class, deadline, ..usual });
            assert!(said.starts_with(&format!("a deadline on a channel of class {class:?}")));
        }
    }

    #[test]
    fn a_reservation_beyond_its_limits_is_refused_with_the_limit() {
        let fits = Reserve {
            bytes: 1000,
            every: Duration::from_millis(1),
            burst: 2,
            within: Duration::from_millis(2),
            until: Until::Arrived,
        };
        let said = |reserve| {
            ChannelSpec { reserve: Some(reserve), ..ChannelSpec::default() }.check().err()
        };
        assert_eq!(said(fits), None);
        for (reserve, why) in [
            (Reserve { bytes: 0, ..fits }, "messages of 0 bytes, from 1 to 65472"),
            (Reserve { bytes: 65_473, ..fits }, "messages of 65473 bytes, from 1 to 65472"),
            (Reserve { burst: 0, ..fits }, "0 messages at once, from 1 to 1024"),
            (Reserve { burst: 1025, ..fits }, "1025 messages at once, from 1 to 1024"),
            (Reserve { every: Duration::ZERO, ..fits }, "every 0ns, from 1µs to 4s"),
            (Reserve { every: Duration::from_secs(5), ..fits }, "every 5s, from 1µs to 4s"),
            (Reserve { within: Duration::ZERO, ..fits }, "within 0ns, above 0 and at most 4s"),
            (Reserve { within: Duration::MAX, ..fits }, "above 0 and at most 4s"),
        ] {
            let said = said(reserve).unwrap_or_default();
            assert!(said.contains(why), "{said}: {why}");
        }
        for every in [Duration::from_micros(1), Duration::from_secs(4)] {
            assert_eq!(
                said(Reserve { every, within: every, burst: 1024, bytes: 1, until: Until::Left }),
                None
            );
        }
    }

    #[test]
    fn a_message_is_no_longer_than_a_frame() {
        let large = ChannelSpec { window: WINDOW_MAX, ..ChannelSpec::default() };
        assert_eq!(large.longest(), (1 << 20) - 16);
        assert_eq!(
            (ChannelSpec::default().cost(100), large.cost(100), large.cost(2000)),
            (164, 1024, 2064)
        );
    }
}
