//! What people are told of each path.

use ::core::net::SocketAddr;
use ::core::time::Duration;

use towpath_wire::{Instant, LinkId, PathId};

use super::core::Association;

/// How a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It carries.
    Carries,
    /// It is on standby, and carries nothing while another can.
    Standby,
    /// Its link has no carrier.
    Down,
    /// It has not answered since then while others did; it is asked whether it is back.
    Silent(Instant),
    /// Its peer has not shown yet that it receives there.
    Unproven,
    /// It is used no more.
    Retired,
}

/// One path of an association, as its end here sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// Its number.
    pub id: PathId,
    /// The link that it goes out on.
    pub link: LinkId,
    /// Where it leads to.
    pub remote: SocketAddr,
    /// How it stands.
    pub state: PathState,
    /// Smoothed round-trip time; `None` before one is known.
    pub rtt: Option<Duration>,
    /// The least of late; zero before one is known.
    pub rtt_min: Duration,
    /// Bytes per second that arrived of late, while it was used; zero before that is known.
    pub rate: u64,
    /// Bytes that may be under way at once.
    pub window: u64,
    /// Bytes under way.
    pub in_flight: u64,
    /// Bytes of a datagram.
    pub datagram: u16,
    /// What it has counted.
    pub counted: PathCounters,
}

/// What a path counts since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Datagrams that went.
    pub packets_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Of the datagrams, those that counted as lost.
    pub packets_lost: u64,
    /// Datagrams that came.
    pub packets_received: u64,
    /// Times that it was left because it lost its carrier, or was silent while others got on.
    pub left: u64,
    /// Times that it carried again.
    pub returned: u64,
}

impl Association {
    /// Every path there was, in the order of their numbers.
    pub fn paths(&self) -> impl Iterator<Item = PathStatus> {
        self.paths.iter().map(|p| {
            let standing = &p.standing;
            let state = if self.paths.is_retired(p.id) {
                PathState::Retired
            } else if !standing.up {
                PathState::Down
            } else if !standing.is_proven() {
                PathState::Unproven
            } else {
                let idle = standing.is_fit() && !self.paths.carries(p);
                let fit = if idle { PathState::Standby } else { PathState::Carries };
                standing.silent_since().map_or(fit, PathState::Silent)
            };
            PathStatus {
                id: p.id,
                link: p.link,
                remote: p.remote,
                state,
                rtt: (!p.rtt.min().is_zero()).then(|| p.rtt.smoothed()),
                rtt_min: p.rtt.min(),
                rate: p.rate(),
                window: p.window(),
                in_flight: p.in_flight(),
                datagram: p.datagram,
                counted: p.counted(),
            }
        })
    }
}
