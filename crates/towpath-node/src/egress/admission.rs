//! What one paced link can promise: whether a reservation fits beside those that stand.

use core::time::Duration;

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_proto::AssociationId;
use towpath_qos::admission::edf::{self, Arrivals, Verdict};
use towpath_qos::scheduler::ConfigError;
use towpath_qos::spec::wire::Ip;
use towpath_qos::spec::{SigmaRho, SpecError, TSpec};
use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, ChannelId, LinkId, Rate, TaskId};

use super::{
    CONTROL_BURST, CONTROL_SHARE, OTHERS_SHARE, RESERVED_MAX, RESERVED_OF_TASK_MAX, frame_bytes,
};

/// Up to so many reservations of a link, the least delay that still fits is looked for; beyond,
/// it would take longer than a daemon may think.
const NEAREST_MAX: usize = 16;
/// Datagrams of trains are no shorter, but for the last.
const FULL: usize = 1200;

/// A channel's reservation on a link, in wire bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Which link.
    pub link: LinkId,
    /// Whose.
    pub of: (AssociationId, ChannelId),
    /// The task that opened it.
    pub task: TaskId,
    /// What its datagrams travel in.
    pub ip: Ip,
    /// Its rate, in the long run.
    pub rate: Rate,
    /// What it may send at once after a while without.
    pub burst: ByteSize,
    /// Its longest datagram, with the frame around it.
    pub packet: ByteSize,
    /// From when a datagram conforms until its last bit has left, at most.
    pub within: Duration,
    /// What is promised behind this link counts on a port of this rate: the link sends no faster.
    pub port: Option<Rate>,
}

/// Why a channel is not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    /// The link sends as fast as it can, and so promises nothing.
    #[error(
        "the link to that host has no rate to promise of\n\
         hint: start this host with --link-rate RATE, a little below what the link carries"
    )]
    NoRate,
    /// It sends faster than what is behind it counts on.
    #[error(
        "the link is paced at {rate}, and in the topology this host's port has {port}\n\
         hint: start this host with a --link-rate of {port} or less, or correct the topology"
    )]
    Faster {
        /// The link's rate.
        rate: Rate,
        /// The port's.
        port: Rate,
    },
    /// More than the link has left.
    #[error("{asked} of messages and headers on a link of {rate}, of which {left} are left")]
    Rate {
        /// What was asked for.
        asked: Rate,
        /// The link's.
        rate: Rate,
        /// What is neither reserved nor kept for control and for everything else.
        left: Rate,
    },
    /// Not so soon beside the others.
    #[error("within {asked:?} on a link of {rate}, where {}", nearest(.least.as_ref()))]
    Delay {
        /// What was asked for.
        asked: Duration,
        /// The link's rate.
        rate: Rate,
        /// The least that fits, where it was looked for.
        least: Option<Duration>,
    },
    /// It would fit but for channels that ended a moment ago.
    #[error(
        "{0}\nhint: what channels sent that just closed is not over yet; ask again in a moment"
    )]
    Later(Box<NotReserved>),
    /// Too many.
    #[error(
        "{RESERVED_MAX} channels are reserved on that link, the most there may be\n\
         hint: close one that is not needed, or send without a reservation"
    )]
    Full,
    /// Too many of one task: the others are to have some, too.
    #[error(
        "{RESERVED_OF_TASK_MAX} channels of this task are reserved on that link, the most that one \
         task may have\n\
         hint: close one that is not needed, or send without a reservation"
    )]
    TaskFull,
    /// No such specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The link's scheduler does not know such a queue.
    #[error(transparent)]
    Queue(#[from] ConfigError),
}

fn nearest(least: Option<&Duration>) -> alloc::string::String {
    match least {
        Some(least) => alloc::format!("{least:?} is the least"),
        None => "others would be late".into(),
    }
}

impl Reservation {
    /// Its longest datagram that ever conforms.
    pub(super) fn packet_max(&self) -> ByteSize {
        self.packet.min(self.burst)
    }

    /// Whether both promise the same.
    pub(super) fn promises(&self, other: &Self) -> bool {
        let what = |r: &Self| (r.rate, r.burst, r.packet, r.within);
        what(self) == what(other)
    }

    /// As a specification of packets: `burst` at once, `rate` in the long run.
    pub(super) fn spec(&self) -> Result<TSpec, SpecError> {
        Ok(TSpec::SigmaRho(SigmaRho::new(self.burst, self.rate)?))
    }

    /// In nanobits and nanoseconds, so that a link's rate in bit/s is a whole number of them.
    fn flow(&self) -> edf::Flow {
        let burst = nanobits(self.burst.as_bytes());
        let size = nanobits(self.packet_max().as_bytes());
        let arrivals = Arrivals::Bucket { burst, rate: self.rate.as_bps(), size };
        edf::Flow { arrivals, deadline: nanos(self.within) }
    }
}

fn nanobits(bytes: u64) -> u64 {
    bytes.saturating_mul(8_000_000_000)
}

/// Whether every deadline of `standing` and `asked` holds on a link of `rate`, beside
/// acknowledgements and control with all that they may have, and trains of `train` bytes that
/// nobody interrupts (non-preemptive EDF: Liebeherr, Wrege and Ferrari 1996).
pub(super) fn fits<'a>(
    rate: Rate,
    train: u64,
    standing: impl Iterator<Item = &'a Reservation> + Clone,
    asked: &Reservation,
) -> Result<(), NotReserved> {
    let bps = rate.as_bps();
    let share = bps / u64::from(CONTROL_SHARE);
    let reserved: u64 = standing.clone().map(|r| r.rate.as_bps()).sum();
    let kept = share + bps / u64::from(OTHERS_SHARE);
    let left = (bps - kept).saturating_sub(reserved);
    if asked.rate.as_bps() > left {
        let (asked, left) = (asked.rate, Rate::from_bps(left));
        return Err(NotReserved::Rate { asked, rate, left });
    }
    // Headers of a train's datagrams count, too.
    let train = train + (train / FULL as u64 + 1) * (frame_bytes(Ip::V6, FULL) - FULL as u64);
    let soonest =
        standing.clone().map(|r| r.within).min().map_or(asked.within, |w| w.min(asked.within));
    let mut flows: Vec<edf::Flow> = others(bps, train, nanos(soonest)).into();
    flows.extend(standing.map(Reservation::flow));
    let few = flows.len() <= NEAREST_MAX;
    flows.push(asked.flow());
    if edf::schedulable(&flows, bps) == Verdict::Schedulable {
        return Ok(());
    }
    let arrivals = asked.flow().arrivals;
    flows.pop();
    let least = if few { edf::least_deadline(&flows, arrivals, bps) } else { None };
    // One that is sooner than all others asks more of control, too: only later ones are told.
    let least = least.map(Duration::from_nanos).filter(|least| *least > asked.within);
    Err(NotReserved::Delay { asked: asked.within, rate, least })
}

/// What goes before any reserved datagram, or has begun to: acknowledgements and control, whose
/// share is there from `soonest` on as if it were due then; and a train of the rest, which
/// deadlines never reach.
fn others(bps: u64, train: u64, soonest: u64) -> [edf::Flow; 2] {
    let share = bps / u64::from(CONTROL_SHARE);
    let saved = share.saturating_mul(nanos(CONTROL_BURST) + soonest);
    let burst = saved.saturating_add(nanobits(train));
    let control = Arrivals::Bucket { burst, rate: share, size: 0 };
    let train = Arrivals::Bucket { burst: nanobits(train), rate: 0, size: nanobits(train) };
    [
        edf::Flow { arrivals: control, deadline: soonest },
        edf::Flow { arrivals: train, deadline: u64::MAX / 2 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const RATE: Rate = Rate::from_mbps(100);

    fn asked(n: u32, mbps: u64, burst: u64, us: u64) -> Reservation {
        Reservation {
            link: LinkId(0),
            of: (AssociationId(1), ChannelId(n)),
            task: TaskId::MIN,
            ip: Ip::V4,
            rate: Rate::from_mbps(mbps),
            burst: ByteSize::from_bytes(burst),
            packet: ByteSize::from_bytes(1538),
            within: Duration::from_micros(us),
            port: None,
        }
    }

    #[test]
    fn what_is_left_of_the_rate_is_told_and_three_twentieths_are_never_there() {
        let standing = [asked(1, 40, 1538, 4000), asked(2, 40, 1538, 4000)];
        assert_eq!(fits(RATE, 1500, standing.iter(), &asked(3, 5, 1538, 4000)), Ok(()));
        let said = fits(RATE, 1500, standing.iter(), &asked(3, 6, 1538, 4000)).unwrap_err();
        assert_eq!(
            said.to_string(),
            "6000.0 kbit/s of messages and headers on a link of 100.0 Mbit/s, of which \
             5000.0 kbit/s are left"
        );
    }

    /// By hand: a train of 1500 bytes, with headers 1672, and once more before that of
    /// acknowledgements, which have saved up a twentieth of a millisecond (625 bytes) and have
    /// a twentieth of the time until then; then the packet itself.
    #[test]
    fn the_least_delay_is_what_stands_before_it() {
        let before = (1672 + 1672 + 625 + 1538) * 80;
        let least = before * 20 / 19 + 1;
        let with = |ns| Reservation { within: Duration::from_nanos(ns), ..asked(1, 10, 1538, 1) };
        assert_eq!(fits(RATE, 1500, [].iter(), &with(least)), Ok(()));
        let said = fits(RATE, 1500, [].iter(), &with(least - 2));
        assert!(matches!(said, Err(NotReserved::Delay { .. })), "{said:?}");
    }

    #[test]
    fn the_least_delay_that_is_told_fits_and_those_that_stand_are_never_late() {
        let standing = [asked(1, 10, 3076, 1200), asked(2, 10, 12_304, 6000)];
        assert_eq!(fits(RATE, 1500, [].iter(), &standing[0]), Ok(()));
        assert_eq!(fits(RATE, 1500, standing[..1].iter(), &standing[1]), Ok(()));
        let wish = asked(3, 20, 15_380, 1300);
        let Err(NotReserved::Delay { least: Some(least), .. }) =
            fits(RATE, 1500, standing.iter(), &wish)
        else {
            panic!("15 380 bytes take 1230 us, and 1672 are before them");
        };
        assert!(least > wish.within);
        let fitting = Reservation { within: least, ..wish };
        assert_eq!(fits(RATE, 1500, standing.iter(), &fitting), Ok(()));
        // The same burst with more time than the first has would still make that one late, were
        // it sooner than that one.
        let hasty = asked(4, 1, 30_760, 1199);
        assert!(fits(RATE, 1500, standing.iter(), &hasty).is_err());
    }
}
