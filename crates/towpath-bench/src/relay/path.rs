//! The path between the peers: a tap that is alike in both directions.

use towpath_sim::link::LinkSpec;
use towpath_sim::qos::Summary;

use crate::tap::{Device, Direction, Options, Script, Tap, WayState};
use crate::tun::{Layer, TunDevice};

/// Bytes of the longest IP packet that passes.
pub(super) const MTU: usize = 1500;
/// Bytes that Ethernet adds to each: header, check sequence, preamble and the gap after it.
pub(super) const ETHERNET: u64 = 38;

/// A reading since the path became what it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Delivered in the first direction, Ethernet's bytes included.
    pub(super) tcp_bytes: u64,
    pub(super) udp_bytes: u64,
    /// Packets dropped for lack of queue, in both directions.
    pub(super) overflowed: u64,
    /// Packets that the tap could not take or give: any of these and the figures are its own.
    pub(super) failed: u64,
    /// By how much later than due packets went on.
    pub(super) late: Summary,
}

pub(super) struct Path(Tap);

fn script(link: LinkSpec) -> Script {
    Script::of(WayState { link, up: true })
}

impl Path {
    pub(super) fn start(devices: [TunDevice; 2], spec: LinkSpec) -> anyhow::Result<Self> {
        let devices = devices.map(|tun| Device::Tun(tun, Layer::Ip));
        Ok(Self(Tap::start(devices, MTU as u32, &script(spec), Options::default())?))
    }

    /// Is a new one from now on: empty, counters at 0, with the same chances each time.
    pub(super) fn become_link(&self, spec: LinkSpec) -> anyhow::Result<()> {
        self.0.restart(&script(spec))
    }

    pub(super) fn read(&self) -> anyhow::Result<Reading> {
        let reading = self.0.read()?;
        let there = &reading.there.device;
        let overflowed = |way| reading.way(way).stats.overflowed;
        Ok(Reading {
            tcp_bytes: there.tcp_bytes + there.tcp_frames * ETHERNET,
            udp_bytes: there.udp_bytes + there.udp_frames * ETHERNET,
            overflowed: Direction::BOTH.into_iter().map(overflowed).sum(),
            failed: reading.failed(),
            late: reading.lateness,
        })
    }
}
