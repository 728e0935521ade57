//! Bytes served in order at a rate.

use super::fill::Peaks;
use crate::inspect::report::{FillReport, Series};
use crate::read::CLOCK_HZ;

/// Size of a transport buffer, bytes (§2.4.2.3).
const TRANSPORT_BYTES: u64 = 512;
const PACKET: u64 = 188;

/// A server of bytes at a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Bytes per tick, 32 bits behind the point.
    bytes_per_tick: u64,
    /// Ticks per byte, 16 bits behind the point.
    ticks_per_byte: u64,
    /// When it has served everything, ticks with 16 bits behind the point.
    free_at: u64,
}

impl Server {
    pub(super) fn new(rate_bps: u64) -> Self {
        let byte_rate = (rate_bps / 8).max(1);
        Self {
            bytes_per_tick: (byte_rate << 32) / CLOCK_HZ,
            ticks_per_byte: (CLOCK_HZ << 16) / byte_rate,
            free_at: 0,
        }
    }

    /// Bytes not yet served at a time, rounded up.
    pub(super) fn backlog(&self, at: u64) -> u64 {
        let ticks = (self.free_at >> 16).saturating_sub(at);
        ticks.saturating_mul(self.bytes_per_tick).saturating_add((1 << 32) - 1) >> 32
    }

    /// Ticks that so many bytes take.
    pub(super) const fn ticks(&self, bytes: u64) -> u64 {
        (bytes * self.ticks_per_byte) >> 16
    }

    /// Serves some more; gives when the last of them is done.
    pub(super) fn serve(&mut self, at: u64, bytes: u64) -> u64 {
        let busy = bytes * self.ticks_per_byte;
        self.free_at = self.free_at.max(at << 16).saturating_add(busy);
        self.free_at >> 16
    }

    pub(super) const fn restart(&mut self) {
        self.free_at = 0;
    }
}

/// A transport buffer TB.
#[derive(Debug)]
pub(super) struct TransportBuffer {
    server: Server,
    fill: FillReport,
    series: Peaks,
}

impl TransportBuffer {
    pub(super) fn new(leak_bps: u64) -> Self {
        Self {
            server: Server::new(leak_bps),
            fill: FillReport::new(TRANSPORT_BYTES),
            series: Peaks::new(),
        }
    }

    /// A packet arrives; gives when its last byte leaves.
    pub(super) fn packet(&mut self, at: u64, offset: u64) -> u64 {
        let fill = self.server.backlog(at) + PACKET;
        self.fill.note(fill, offset);
        self.series.add(at, fill);
        self.server.serve(at, PACKET)
    }

    pub(super) const fn restart(&mut self) {
        self.server.restart();
    }

    pub(super) fn report(self) -> (FillReport, Series) {
        (self.fill, self.series.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_served_one_after_the_other_at_the_rate() {
        // A byte in 27 ticks.
        let mut server = Server::new(8_000_000);
        assert_eq!((server.backlog(0), server.ticks(10)), (0, 270));
        assert_eq!(server.serve(1000, 10), 1270);
        assert_eq!(server.serve(1100, 5), 1405, "behind the first");
        assert_eq!([1000, 1270, 1378, 1405, 2000].map(|at| server.backlog(at)), [15, 5, 1, 0, 0]);
        assert_eq!(server.serve(3000, 1), 3027);
        server.restart();
        assert_eq!((server.backlog(0), server.serve(0, 1)), (0, 27));
    }

    #[test]
    fn a_transport_buffer_holds_what_has_not_left_and_nothing_of_before_a_restart() {
        let mut buffer = TransportBuffer::new(8_000_000);
        let leaves = [0, 0, 0].map(|at| buffer.packet(at, 7));
        assert_eq!(leaves, [27 * 188, 2 * 27 * 188, 3 * 27 * 188]);
        buffer.restart();
        assert_eq!(buffer.packet(0, 8), 27 * 188);
        let (fill, series) = buffer.report();
        assert_eq!((fill.max_bytes, fill.overflows, &fill.first_offsets[..]), (564, 1, &[7][..]));
        assert_eq!(series.bins, [564]);
    }
}
