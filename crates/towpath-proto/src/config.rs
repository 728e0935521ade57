//! Every option of an endpoint, with its default and what it costs.
//!
//! The defaults are tuned for hosts in one building: round trips of 0.1 to 20 ms, datagrams of
//! 1472 bytes, a lost host known within two seconds.

use core::time::Duration;

use towpath_wire::{VersionRange, WIRE_VERSIONS};

use crate::congestion::CongestionKind;

/// Options of an endpoint and its associations. `window_max`, `channels_max` and `credit_max` are
/// told to the peer; `keepalive` must be well below the peer's `lost_after`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Wire versions offered and accepted.
    pub versions: VersionRange,
    /// Largest datagram sent, in bytes (1500-byte Ethernet less IP and UDP headers: 1472).
    pub datagram: u16,
    /// Credit of each direction of a channel that asks for none itself, in bytes; its longest
    /// message is 64 bytes less.
    pub window: u32,
    /// Most credit that a channel can have, in bytes: two messages of 16 MiB.
    pub window_max: u32,
    /// Most channels of either side's opening per association.
    pub channels_max: u16,
    /// Most credit of all channels of either side's opening together, in bytes and direction.
    pub credit_max: u64,
    /// Most messages waiting in one channel for credit or acknowledgement.
    pub messages_max: u32,
    /// Most associations, half-open ones included.
    pub associations_max: u16,
    /// Most handshakes that wait for the initiator's first sealed packet.
    pub half_open_max: u16,
    /// Handshakes per second answered without asking for a cookie first.
    pub handshakes_per_s: u32,
    /// How long a handshake may take before it fails.
    pub handshake_timeout: Duration,
    /// Longest wait before an acknowledgement is sent.
    pub ack_delay: Duration,
    /// Round-trip time assumed before the first sample.
    pub rtt_initial: Duration,
    /// Longest probe time-out after back-off.
    pub probe_max: Duration,
    /// A quiet association shows life this often.
    pub keepalive: Duration,
    /// A peer not heard for so long is lost.
    pub lost_after: Duration,
    /// Whoever can reach the link is trusted: packets go unsealed to peers that say the same.
    pub trusted: bool,
    /// Congestion controller of each path.
    pub congestion: CongestionKind,
    /// A deliberate bug.
    #[cfg(feature = "plant")]
    pub plant: Plant,
}

/// Deliberate bugs, so that the simulator can prove that it finds them.
#[cfg(feature = "plant")]
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
    /// What a probe time-out gave up is not sent again.
    ForgottenRepair,
    /// A lost SKIP is not sent again: the receiver waits for a message that was given up.
    ForgottenSkip,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: WIRE_VERSIONS,
            datagram: 1472,
            window: 1 << 20,
            window_max: 2 * ((16 << 20) + 64),
            channels_max: 64,
            credit_max: 128 << 20,
            messages_max: 16_384,
            associations_max: 4096,
            half_open_max: 256,
            handshakes_per_s: 200,
            handshake_timeout: Duration::from_secs(5),
            ack_delay: Duration::from_millis(2),
            rtt_initial: Duration::from_millis(50),
            probe_max: Duration::from_millis(400),
            keepalive: Duration::from_millis(500),
            lost_after: Duration::from_secs(2),
            trusted: false,
            congestion: CongestionKind::Aimd,
            #[cfg(feature = "plant")]
            plant: Plant::None,
        }
    }
}
