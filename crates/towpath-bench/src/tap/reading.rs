//! What a tap has done, and how well.

use std::time::Duration;

use serde::Serialize;
use towpath_sim::qos::{Histogram, Summary};
use towpath_sim::tap::{Direction, WayState, WayStats};

use crate::tun::Layer;

/// A reading of a tap.
#[derive(Clone, Debug, Serialize)]
pub struct Reading {
    /// How long it has run.
    pub elapsed: Duration,
    /// From the first end to the second.
    pub there: WayReading,
    /// From the second end to the first.
    pub back: WayReading,
    /// By how much later frames were given on than they were due: the tap's own jitter.
    pub lateness: Summary,
    /// Time between two looks at the devices while there was something to do.
    pub turn: Summary,
    /// Processor time of its thread.
    pub busy: Duration,
    /// Changes that the script has yet to make.
    pub changes_left: usize,
}

impl Reading {
    /// One direction.
    pub const fn way(&self, direction: Direction) -> &WayReading {
        match direction {
            Direction::There => &self.there,
            Direction::Back => &self.back,
        }
    }

    /// Frames that the tap itself failed: beyond 0 the figures are not the link's.
    pub const fn failed(&self) -> u64 {
        self.there.failed() + self.back.failed()
    }
}

/// A reading of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WayReading {
    /// What it is like now.
    pub state: WayState,
    /// What became of its frames.
    pub stats: WayStats,
    /// Frames under way, doubles included.
    pub held: usize,
    /// What the devices did with them.
    #[serde(flatten)]
    pub device: DeviceStats,
}

impl WayReading {
    const fn failed(&self) -> u64 {
        self.stats.crowded + self.device.refused
    }
}

/// What a device did with the frames of a direction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DeviceStats {
    /// Frames that the far device did not take.
    pub refused: u64,
    /// Frames longer than any that passes, dropped: trains that the host did not cut.
    pub trains: u64,
    /// Frames of TCP that were given on.
    pub tcp_frames: u64,
    /// Their bytes.
    pub tcp_bytes: u64,
    /// Frames of UDP that were given on.
    pub udp_frames: u64,
    /// Their bytes.
    pub udp_bytes: u64,
}

impl DeviceStats {
    pub(super) fn count(&mut self, layer: Layer, frame: &[u8]) {
        let bytes = frame.len() as u64;
        match class_of(layer, frame) {
            Some(Class::Tcp) => {
                self.tcp_frames += 1;
                self.tcp_bytes += bytes;
            }
            Some(Class::Udp) => {
                self.udp_frames += 1;
                self.udp_bytes += bytes;
            }
            None => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Tcp,
    Udp,
}

/// By the header of IPv4 or IPv6 (extension headers count as neither).
fn class_of(layer: Layer, frame: &[u8]) -> Option<Class> {
    let packet = match layer {
        Layer::Ip => frame,
        Layer::Ethernet => frame.get(14..)?,
    };
    let at = match packet.first()? >> 4 {
        4 => 9,
        6 => 6,
        _ => return None,
    };
    match packet.get(at)? {
        6 => Some(Class::Tcp),
        17 => Some(Class::Udp),
        _ => None,
    }
}

/// What is timed while it runs.
#[derive(Default)]
pub(super) struct Timing {
    pub(super) lateness: Histogram,
    pub(super) turn: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        let v4 = |p| [0x45, 0, 0, 0, 0, 0, 0, 0, 64, p];
        let class = |packet: &[u8]| class_of(Layer::Ip, packet);
        let known = [Some(Class::Tcp), Some(Class::Udp), None];
        assert_eq!([6, 17, 1].map(|p| class(&v4(p))), known);
        assert_eq!(class(&[0x60, 0, 0, 0, 0, 0, 17]), Some(Class::Udp));
        assert_eq!((class(&[]), class(&[0x45]), class(&[0])), (None, None, None));
        let framed = [&[0; 14][..], &v4(17)].concat();
        assert_eq!(class_of(Layer::Ethernet, &framed), Some(Class::Udp));
    }
}
